/* build: exec_threads -pthread
 *
 * Two threads of one process execute different programs at the same moment. One of them wins, whole: its program with
 * its arguments. The other thread is gone.
 */
#include "step.h"
#include <pthread.h>

static pthread_barrier_t together;
static char *self;

static void *one(void *unused) {
    char *arguments[] = {"sh", "-c", "exit 11", NULL}, *environment[] = {NULL};
    pthread_barrier_wait(&together);
    execve("/bin/sh", arguments, environment);
    _exit(91);
    return unused;
}

static void *other(void *unused) {
    char *arguments[] = {"itself", "twelve", NULL}, *environment[] = {NULL};
    pthread_barrier_wait(&together);
    execve(self, arguments, environment);
    _exit(92);
    return unused;
}

int main(int argc, char **argv) {
    if (argc > 1)
        return strcmp(argv[1], "twelve") ? 99 : 12;
    self = realpath(argv[0], NULL);
    int whole = 0, rounds = 60;
    for (int i = 0; i < rounds; i++) {
        pid_t pid = MUST(fork());
        if (pid == 0) {
            pthread_t thread;
            pthread_barrier_init(&together, NULL, 2);
            pthread_create(&thread, NULL, i % 2 ? one : other, NULL);
            (i % 2 ? other : one)(NULL);
        }
        int status = wait_for(pid);
        if (status == 11 << 8 || status == 12 << 8)
            whole++;
        else
            say("neither program: %s", status_text(status));
    }
    say("%d of %d executions whole", whole, rounds);
    return 0;
}
