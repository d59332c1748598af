/* build: outlive
 *
 * outlive FILE NAP: processes that want to stay when their supervisor goes. One forks and ends all the time, one does so in
 * a new session each time, one is a daemon that ignores what it can, one stands still, and one has threads whose first
 * has ended. Each has tried to get rid of the limit that husk knows it by. They count in FILE, which all have mapped.
 * On an unprotected host they go on until FILE begins with a 1, or for 15 s: what they leave below a stopped parent
 * would fill the host's process table. NAP, in microseconds between two forks, is for the same.
 */
#include "step.h"
#include <pthread.h>
#include <sys/resource.h>

#define SECONDS 15

static volatile long *shared;
static useconds_t nap;
static time_t end;

static int goes_on(void) {
    return !shared[0] && time(NULL) < end;
}

static void change_limit(void) {
    struct rlimit one = {1, 1}, all = {RLIM_INFINITY, RLIM_INFINITY};
    syscall(SYS_setrlimit, RLIMIT_LOCKS, &one);
    syscall(SYS_setrlimit, RLIMIT_LOCKS | 1L << 32, &one); /* Linux looks at the lower half */
    syscall(SYS_prlimit64, 0, RLIMIT_LOCKS, &one, NULL);
    syscall(SYS_prlimit64, getpid(), RLIMIT_LOCKS, &one, &all);
    syscall(SYS_prlimit64, getpid(), RLIMIT_LOCKS | 1L << 32, &one, NULL);
}

static void flee(int new_session) {
    while (goes_on()) {
        if (fork() > 0)
            _exit(0);
        if (new_session)
            setsid();
        shared[1]++;
        if (nap)
            usleep(nap);
    }
    _exit(0);
}

static void *tick(void *unused) {
    (void)unused;
    while (goes_on()) {
        shared[1]++;
        nap_ms(5);
    }
    _exit(0);
}

static void as(int kind) {
    if (MUST(fork()))
        return;
    setsid();
    for (int number = 1; number < 64; number++)
        signal(number, SIG_IGN);
    if (fork())
        _exit(0);
    change_limit();
    if (kind < 2)
        flee(kind);
    if (kind == 2)
        tick(NULL);
    if (kind == 3)
        while (goes_on())
            raise(SIGSTOP);
    pthread_t thread;
    pthread_create(&thread, NULL, tick, NULL);
    pthread_exit(NULL);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 96;
    nap = atoi(argv[2]);
    end = time(NULL) + SECONDS;
    int fd = MUST(open(argv[1], O_RDWR));
    shared = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int kind = 0; kind < 5; kind++)
        as(kind);
    while (shared[1] < 100)
        usleep(1000);
    say("up");
    while (goes_on())
        usleep(1000);
    return 0;
}
