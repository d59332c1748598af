/* A handler without SA_RESTART, and a timer that never rests: which calls end with EINTR? Reading and writing a file,
 * asking for a child that is not there yet, waking a futex: never. Reading an empty pipe: always.
 *
 * build: trace_eintr
 */
#include "step.h"

#include <linux/futex.h>
#include <sys/time.h>
#include <sys/uio.h>

static volatile sig_atomic_t handled;

static void on_signal(int number) {
    (void)number;
    handled++;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20000, failed = 0, ends[2], word = 0;
    char buffer[64];
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, "0123456789", 10) != 10 || pipe(ends) < 0)
        return 1;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < rounds; i++) {
        struct iovec part = {buffer, 1 + i % 5};
        failed += pread(file, buffer, 1 + i % 7, 0) < 0;
        failed += readv(file, &part, 1) < 0;
        failed += pwrite(file, "x", 1, i % 10) < 0;
        failed += waitpid(child, NULL, WNOHANG) < 0;
        failed += syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0) < 0;
        failed += close(dup(file)) < 0;
        /* The same call twice in a row is what husk cannot tell from one call that was interrupted. */
        failed += pread(file, buffer, 1, 0) < 0;
        failed += pread(file, buffer, 1, 0) < 0;
    }
    say("calls that may not be interrupted failed %d times", failed);
    say("signals came: %s", handled > 10 ? "many" : "FEW");
    int interrupted = 0;
    for (int i = 0; i < 20; i++)
        interrupted += read(ends[0], buffer, 1 + i) < 0 && errno == EINTR;
    say("reading an empty pipe was interrupted %d of 20 times", interrupted);
    setitimer(ITIMER_REAL, &never, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unlink("data");
    return 0;
}
