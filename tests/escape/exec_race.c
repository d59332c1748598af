/* build: exec_race -pthread
 *
 * exec_race ROUNDS: a group leader calls execve again and again, and each call fails, while its sibling thread executes
 * a program: the host then ends the leader and gives its thread id to the sibling. A supervisor that waits for the
 * leader at that moment waits for a thread that no longer exists. A third process changes names, which needs the
 * supervisor's locks. Harmless on any host: it ends after ROUNDS programs. Prints ROUNDS, and how many of them executed
 * the sibling's program.
 */
#include "step.h"
#include <pthread.h>

static char **volatile nowhere = (char **)1; /* arguments that cannot be read: execve fails late */
static char *nothing[] = {NULL}, *arguments[] = {"true", NULL};
static int delay;

static void *execute(void *unused) {
    usleep(delay);
    execve("/bin/true", arguments, nothing);
    _exit(95);
    return unused;
}

static void change_names(void) {
    char name[64];
    for (int i = 0;; i++) {
        snprintf(name, sizeof name, "/tmp/exec_race.%d.%d", getpid(), i % 50);
        close(open(name, O_CREAT | O_RDWR, 0600));
        unlink(name);
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 300, well = 0, status;
    pid_t changer = MUST(fork());
    if (changer == 0)
        change_names();
    for (int i = 0; i < rounds; i++) {
        delay = 300 + rand() % 1500;
        pid_t child = MUST(fork());
        if (child == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, execute, NULL);
            for (;;)
                execve("/bin/true", nowhere, nothing);
        }
        MUST(waitpid(child, &status, 0));
        well += status == 0;
    }
    kill(changer, SIGKILL);
    MUST(waitpid(changer, &status, 0));
    say("rounds %d", rounds);
    say("executed %d", well);
    return 0;
}
