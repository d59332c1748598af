/* build: sig_eintr -pthread
 *
 * Which calls a handler interrupts. Every case runs twice: without SA_RESTART, and with it. A helper process sends the
 * signal after a moment and, later, brings what a restarted call is waiting for.
 */
#include "step.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

static volatile sig_atomic_t runs;
static void handler(int sig) { (void)sig; runs++; }

static int pipes[2], pair[2];
static struct timespec half_second = {0, 500000000};

static long read_pipe(void) { char b; return read(pipes[0], &b, 1); }
static long readv_pipe(void) { char b; struct { void *p; size_t n; } v = {&b, 1}; return syscall(SYS_readv, pipes[0], &v, 1); }
static long receive(void) { char b; return recv(pair[0], &b, 1, 0); }
static long receive_message(void) { char b[8]; struct { void *p; size_t n; } v = {b, 1}; struct msghdr m = {.msg_iov = (void *)&v, .msg_iovlen = 1}; return recvmsg(pair[0], &m, 0); }
static long wait_child(void) { int s; return wait4(-1, &s, 0, NULL) > 0 ? 1 : -1; }
static long wait_id(void) { siginfo_t i; return waitid(P_ALL, 0, &i, WEXITED); }
static long pause_(void) { return pause(); }
static long nanosleep_(void) { return nanosleep(&half_second, NULL); }
static long clock_sleep(void) { int e = clock_nanosleep(CLOCK_MONOTONIC, 0, &half_second, NULL); errno = e; return e ? -1 : 0; }
static long poll_pipe(void) { struct pollfd p = {pipes[0], POLLIN, 0}; return poll(&p, 1, 2000); }
static long ppoll_pipe(void) { struct pollfd p = {pipes[0], POLLIN, 0}; return ppoll(&p, 1, NULL, NULL); }
static long select_pipe(void) { fd_set s; FD_ZERO(&s); FD_SET(pipes[0], &s); return select(pipes[0] + 1, &s, NULL, NULL, NULL); }
static long epoll_pipe(void) {
    struct epoll_event e = {.events = EPOLLIN};
    int fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(fd, EPOLL_CTL_ADD, pipes[0], &e);
    long n = epoll_wait(fd, &e, 1, 2000);
    int number = errno;
    close(fd);
    errno = number;
    return n;
}
static long futex_wait(void) { static int word; return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &half_second, NULL, 0); }
static long open_fifo(void) { return open("fifo", O_RDONLY) >= 0 ? 1 : -1; }
static long lock_file(void) { int fd = open("locked", O_RDWR); return flock(fd, LOCK_EX); }
static long lock_range(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(open("locked", O_RDWR), F_SETLKW, &lock);
}
static long accept_(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink("sock");
    if (bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 1))
        say("set-up of accept failed: %s", errname(errno));
    return accept(fd, NULL, NULL) >= 0 ? 1 : -1;
}
static long suspend(void) { sigset_t none; sigemptyset(&none); return sigsuspend(&none); }
static long timed_wait(void) { sigset_t s; siginfo_t i; sigemptyset(&s); sigaddset(&s, SIGUSR2); return sigtimedwait(&s, &i, &half_second); }
static long write_pipe(void) {
    static char full[1 << 20];
    return write(pipes[1], full, sizeof full) == (long)sizeof full ? 1 : 0; /* a part is written before the signal: a short count */
}

/* Runs in the helper: whatever lets the restarted call end. */
static void feed(void) {
    char byte = 'x';
    if (write(pipes[1], &byte, 1) != 1 || write(pair[1], &byte, 1) != 1)
        _exit(3);
    int fd = open("fifo", O_WRONLY | O_NONBLOCK);
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);
    connect(sock, (struct sockaddr *)&name, sizeof name);
    nap_ms(50);
    close(fd);
}

struct test { const char *name; long (*call)(void); int restarts; int holds_lock; int no_feed; };

static void run(const struct test *test, int flags) {
    MUST(pipe2(pipes, O_CLOEXEC));
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(SIGUSR1, &action, NULL));
    runs = 0;
    pid_t parent = getpid(), helper = fork();
    if (helper == 0) {
        if (test->holds_lock) {
            int fd = open("locked", O_RDWR);
            struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            if (flock(fd, LOCK_EX) || fcntl(fd, F_SETLK, &lock))
                _exit(3);
        }
        nap_ms(100);
        kill(parent, SIGUSR1);
        nap_ms(100);
        if (!test->no_feed)
            feed();
        _exit(0); /* ends locks, and is the child that wait4 waits for */
    }
    nap_ms(test->holds_lock ? 50 : 0);
    errno = 0;
    long result = test->call();
    say("%s%s = %ld %s, handler ran %d", test->name, flags ? " with SA_RESTART" : "", result, result < 0 ? errname(errno) : "-", (int)runs);
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
    MUST(mkfifo("fifo", 0600));
    put_text("locked", "", 0644);
    for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++) {
        run(&tests[i], 0);
        if (tests[i].call != write_pipe)
            run(&tests[i], SA_RESTART);
    }
    return 0;
}
