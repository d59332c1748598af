/* build: spawn -pthread
 *
 * spawn MODE COUNT PROGRAM: starts PROGRAM COUNT times from a process with busy threads and counts what went wrong.
 * MODE: posix (posix_spawn), vfork (vfork and execve), fork (fork and execve), fail (posix_spawn of a missing program),
 * phases (COUNT posix_spawns, a line "phase", a byte read from stdin, and so on until the end of stdin: lets a test look
 * at the sandbox from outside between two phases).
 */
#include "step.h"
#include <pthread.h>
#include <spawn.h>

extern char **environ;
static volatile int stop;
static long wrong;

/* Threads that allocate, lock and look up names: what a child of vfork shares with them must stay whole. */
static void *busy(void *unused) {
    struct stat st;
    while (!stop) {
        char *block = malloc(1000);
        memset(block, 1, 1000);
        free(block);
        if (stat("/usr/bin", &st) < 0)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        nap_ms(1);
    }
    return unused;
}

static void posix(char **argv, int expected) {
    pid_t pid;
    int error = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
    if (error != expected)
        wrong++;
    if (!error && wait_for(pid) != 0)
        wrong++;
}

static void by_fork(char **argv, int use_vfork) {
    pid_t pid = use_vfork ? vfork() : fork();
    if (pid == 0) {
        execve(argv[0], argv, environ);
        _exit(127);
    }
    if (pid < 0 || wait_for(pid) != 0)
        wrong++;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    const char *mode = argv[1];
    long count = atol(argv[2]);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    int phases = !strcmp(mode, "phases");
    do {
        for (long i = 0; i < count; i++) {
            if (!strcmp(mode, "vfork"))
                by_fork(argv + 3, 1);
            else if (!strcmp(mode, "fork"))
                by_fork(argv + 3, 0);
            else
                posix(argv + 3, !strcmp(mode, "fail") ? ENOENT : 0);
        }
        if (phases)
            say("phase");
    } while (phases && getchar() != EOF);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    say("%s: wrong %ld", mode, wrong);
    return wrong != 0;
}
