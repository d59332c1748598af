/* build: sig_interrupt
 *
 * siginterrupt(3): whether a handler ends a call or the call is restarted, for a call of the host's (a pipe) and for one
 * that waits in husk (a FIFO). It asks for the action, changes SA_RESTART, and sets the action again.
 */
#include "step.h"
#include <sys/time.h>

static volatile sig_atomic_t count;
static void handler(int sig) { (void)sig; count++; }

static void after_ms(long ms) {
    struct itimerval timer = {.it_value = {0, ms * 1000}};
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

/* A child that does `act` once the handler has run: the call of the parent goes on if it was restarted. */
static pid_t later(void (*act)(void)) {
    pid_t pid = MUST(fork());
    if (!pid) {
        nap_ms(150);
        act();
        _exit(0);
    }
    return pid;
}

static int ends[2];
static void feed(void) { MUST(write(ends[1], "x", 1)); }
static void other_end(void) { MUST(open("fifo", O_WRONLY)); }

static void both(const char *label) {
    char byte;
    MUST(pipe(ends));
    pid_t child = later(feed);
    count = 0;
    after_ms(20);
    errno = 0;
    long got = read(ends[0], &byte, 1);
    say("%s: read = %ld %s, handler ran %d", label, got, errno ? errname(errno) : "", (int)count);
    wait_for(child);
    close(ends[0]), close(ends[1]);

    child = later(other_end);
    count = 0;
    after_ms(20);
    errno = 0;
    int fd = open("fifo", O_RDONLY);
    say("%s: open = %s %s, handler ran %d", label, fd < 0 ? "-1" : "a descriptor", fd < 0 ? errname(errno) : "", (int)count);
    if (fd < 0)
        close(MUST(open("fifo", O_RDWR | O_NONBLOCK))), kill(child, SIGKILL);
    else
        close(fd);
    waitpid(child, NULL, 0);
}

static void shown(const char *label) {
    struct sigaction now;
    MUST(sigaction(SIGALRM, NULL, &now));
    say("%s: handler is mine %d, SA_RESTART %d", label, now.sa_handler == handler, !!(now.sa_flags & SA_RESTART));
}

int main(void) {
    MUST(mkfifo("fifo", 0600));
    struct sigaction action = {.sa_handler = handler};
    MUST(sigaction(SIGALRM, &action, NULL));
    shown("without SA_RESTART");
    both("without SA_RESTART");
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    STEP(siginterrupt(SIGALRM, 0));
    shown("siginterrupt 0");
    both("siginterrupt 0");
    STEP(siginterrupt(SIGALRM, 1));
    shown("siginterrupt 1");
    both("siginterrupt 1");
    STEP(siginterrupt(SIGALRM, 1));
    shown("once more");
    MUST(unlink("fifo"));
    return 0;
}
