/* build: sig_eintr -pthread
 *
 * Which calls a handler interrupts. Every case runs twice: without SA_RESTART, and with it. A helper process sends the
 * signal once the call sleeps and, when the handler has run, brings what a restarted call is waiting for.
 */
#include "step.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Shared with the helper. `about`: the next call is the one to interrupt. */
static volatile struct { int about, locked, runs, done; } *shared;
static void handler(int sig) { (void)sig; shared->runs++; }

static int pipes[2], pair[2];
static struct timespec long_time = {600, 0}; /* never reached: a handler ends every sleep */
#define NOW(call) (shared->about = 1, (call))

static long read_pipe(void) { char b; return NOW(read(pipes[0], &b, 1)); }
static long readv_pipe(void) { char b; struct { void *p; size_t n; } v = {&b, 1}; return NOW(syscall(SYS_readv, pipes[0], &v, 1)); }
static long receive(void) { char b; return NOW(recv(pair[0], &b, 1, 0)); }
static long receive_message(void) { char b[8]; struct { void *p; size_t n; } v = {b, 1}; struct msghdr m = {.msg_iov = (void *)&v, .msg_iovlen = 1}; return NOW(recvmsg(pair[0], &m, 0)); }
static long wait_child(void) { int s; return NOW(wait4(-1, &s, 0, NULL)) > 0 ? 1 : -1; }
static long wait_id(void) { siginfo_t i; return NOW(waitid(P_ALL, 0, &i, WEXITED)); }
static long pause_(void) { return NOW(pause()); }
static long nanosleep_(void) { return NOW(nanosleep(&long_time, NULL)); }
static long clock_sleep(void) { int e = NOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL)); errno = e; return e ? -1 : 0; }
static long poll_pipe(void) { struct pollfd p = {pipes[0], POLLIN, 0}; return NOW(poll(&p, 1, 600000)); }
static long ppoll_pipe(void) { struct pollfd p = {pipes[0], POLLIN, 0}; return NOW(ppoll(&p, 1, NULL, NULL)); }
static long select_pipe(void) { fd_set s; FD_ZERO(&s); FD_SET(pipes[0], &s); return NOW(select(pipes[0] + 1, &s, NULL, NULL, NULL)); }
static long epoll_pipe(void) {
    struct epoll_event e = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(fd, EPOLL_CTL_ADD, pipes[0], &e);
    long n = NOW(epoll_wait(fd, &e, 1, 600000));
    int number = errno;
    close(fd);
    errno = number;
    return n;
}
static long futex_wait(void) { static int word; return NOW(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &long_time, NULL, 0)); }
static long open_fifo(void) { return NOW(open("fifo", O_RDONLY)) >= 0 ? 1 : -1; }
static long lock_file(void) { int fd = open("locked", O_RDWR); return NOW(flock(fd, LOCK_EX)); }
static long lock_range(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open("locked", O_RDWR);
    return NOW(fcntl(fd, F_SETLKW, &lock));
}
static long accept_(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink("sock");
    if (bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 1))
        say("set-up of accept failed: %s", errname(errno));
    return NOW(accept(fd, NULL, NULL)) >= 0 ? 1 : -1;
}
static long suspend(void) { sigset_t none; sigemptyset(&none); return NOW(sigsuspend(&none)); }
static long timed_wait(void) { sigset_t s; siginfo_t i; sigemptyset(&s); sigaddset(&s, SIGUSR2); return NOW(sigtimedwait(&s, &i, &long_time)); }
static long write_pipe(void) {
    static char full[1 << 20];
    return NOW(write(pipes[1], full, sizeof full)) == (long)sizeof full ? 1 : 0; /* a part is written before the signal: a short count */
}

/* Runs in the helper: whatever lets the restarted call end. */
static void feed(long (*call)(void)) {
    char byte = 'x';
    if (write(pipes[1], &byte, 1) != 1 || write(pair[1], &byte, 1) != 1)
        _exit(3);
    if (call == accept_) {
        struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
        connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name);
    }
    if (call == open_fifo) { /* opening it for writing cannot succeed before the restarted call is there */
        while (!shared->done && open("fifo", O_WRONLY | O_NONBLOCK) < 0)
            nap_ms(2);
        while (!shared->done)
            nap_ms(2);
    }
}

struct test { const char *name; long (*call)(void); int restarts; int holds_lock; int no_feed; };

static void run(const struct test *test, int flags) {
    MUST(pipe2(pipes, O_CLOEXEC));
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(SIGUSR1, &action, NULL));
    memset((void *)shared, 0, sizeof *shared);
    pid_t parent = getpid(), helper = fork();
    if (helper == 0) {
        if (test->holds_lock) {
            int fd = open("locked", O_RDWR);
            struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            if (flock(fd, LOCK_EX) || fcntl(fd, F_SETLK, &lock))
                _exit(3);
            shared->locked = 1;
        }
        while (!shared->about)
            nap_ms(1);
        until_asleep(parent);
        kill(parent, SIGUSR1);
        while (!shared->runs)
            nap_ms(1);
        if (!test->no_feed)
            feed(test->call);
        _exit(0); /* ends locks, and is the child that wait4 waits for */
    }
    while (test->holds_lock && !shared->locked)
        nap_ms(1);
    errno = 0;
    long result = test->call();
    shared->done = 1;
    say("%s%s = %ld %s, handler ran %d", test->name, flags ? " with SA_RESTART" : "", result, result < 0 ? errname(errno) : "-", shared->runs);
    int status;
    waitpid(helper, &status, 0);
    for (int fd = 3; fd < 20; fd++)
        close(fd);
}

static const struct test tests[] = {
    {"read", read_pipe, 1, 0, 0}, {"readv", readv_pipe, 1, 0, 0}, {"recv", receive, 1, 0, 0}, {"recvmsg", receive_message, 1, 0, 0},
    {"wait4", wait_child, 1, 0, 0}, {"waitid", wait_id, 1, 0, 0}, {"pause", pause_, 0, 0, 0}, {"nanosleep", nanosleep_, 0, 0, 0},
    {"clock_nanosleep", clock_sleep, 0, 0, 0}, {"poll", poll_pipe, 0, 0, 0}, {"ppoll", ppoll_pipe, 0, 0, 0},
    {"select", select_pipe, 0, 0, 0}, {"epoll_wait", epoll_pipe, 0, 0, 0}, {"futex", futex_wait, 0, 0, 0},
    {"open of a FIFO", open_fifo, 1, 0, 0}, {"flock", lock_file, 1, 1, 0}, {"fcntl F_SETLKW", lock_range, 1, 1, 0},
    {"accept", accept_, 1, 0, 0}, {"sigsuspend", suspend, 0, 0, 0}, {"sigtimedwait", timed_wait, 0, 0, 0},
    {"write to a full pipe", write_pipe, 0, 0, 1},
};

int main(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(mkfifo("fifo", 0600));
    put_text("locked", "", 0644);
    for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++) {
        run(&tests[i], 0);
        if (tests[i].call != write_pipe)
            run(&tests[i], SA_RESTART);
    }
    return 0;
}
