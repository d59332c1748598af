/* build: io_wait -pthread
 *
 * Waiting for descriptors: poll, ppoll, select, pselect6, epoll in its modes, eventfd.
 */
#include "step.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>

static void nothing(int sig) { (void)sig; }

static void polls(void) {
    int ends[2], pair[2];
    MUST(pipe(ends));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct pollfd some[5] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT | POLLIN, 0}, {pair[0], POLLIN | POLLRDHUP, 0},
                             {-1, POLLIN, 77}, {999, POLLIN, 0}};
    STEP(poll(some, 5, 0));
    for (int i = 0; i < 5; i++)
        say("revents %x", some[i].revents);
    MUST(write(ends[1], "x", 1));
    MUST(shutdown(pair[1], SHUT_WR));
    STEP(poll(some, 3, -1));
    for (int i = 0; i < 3; i++)
        say("revents %x", some[i].revents);
    close(ends[1]), close(pair[1]);
    STEP(poll(some, 3, 0));
    for (int i = 0; i < 3; i++)
        say("revents %x", some[i].revents);
    STEP(syscall(SYS_poll, (void *)8, 1, 0));
    STEP(poll(NULL, 0, 1));
    STEP(syscall(SYS_poll, some, 1 << 30, 0));
    MUST(read(ends[0], &(char){0}, 1));
    close(ends[0]), close(pair[0]);
    /* A signal that is blocked but for the wait. */
    sigset_t block, none;
    sigemptyset(&none);
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    signal(SIGUSR1, nothing);
    MUST(sigprocmask(SIG_BLOCK, &block, NULL));
    raise(SIGUSR1);
    STEP(ppoll(NULL, 0, NULL, &none));
    raise(SIGUSR1);
    STEP(pselect(0, NULL, NULL, NULL, NULL, &none));
    struct timespec short_time = {0, 1000000}, wrong = {0, -1};
    STEP(ppoll(NULL, 0, &short_time, &block));
    STEP(ppoll(NULL, 0, &wrong, NULL));
    STEP(syscall(SYS_ppoll, NULL, 0, NULL, &none, 4));
    STEP(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &wrong, NULL));
    MUST(sigprocmask(SIG_UNBLOCK, &block, NULL));
}

static void selects(void) {
    int ends[2];
    MUST(pipe(ends));
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(ends[0], &in);
    FD_SET(ends[1], &out);
    struct timeval t = {0, 1000};
    STEP(select(ends[1] + 1, &in, &out, NULL, &t));
    say("in %d out %d", FD_ISSET(ends[0], &in) != 0, FD_ISSET(ends[1], &out) != 0);
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    t = (struct timeval){0, 1000};
    STEP(select(ends[1] + 1, &in, NULL, NULL, &t));
    say("time left %ld", (long)t.tv_usec);
    close(ends[1]);
    FD_SET(ends[0], &in);
    STEP(select(ends[0] + 1, &in, NULL, NULL, NULL));
    FD_ZERO(&in);
    FD_SET(900, &in);
    /* Linux looks no further than the table of descriptors is long, and a child's is as long as its parent's was. */
    MUST(dup2(ends[0], 1000));
    close(1000);
    STEP(select(901, &in, NULL, NULL, &t));
    STEP(select(-1, NULL, NULL, NULL, &t));
    t = (struct timeval){-1, 0};
    STEP(select(0, NULL, NULL, NULL, &t));
    STEP(select(ends[0] + 1, (void *)8, NULL, NULL, NULL));
    close(ends[0]);
}

static void show(const char *label, int got, struct epoll_event *events) {
    int number = errno;
    for (int i = 0; i < got; i++)
        say("%s: %d of %d: %x for %d", label, i + 1, got, events[i].events, events[i].data.fd);
    if (got <= 0)
        say("%s: %s", label, got ? errname(number) : "none");
}

static void epolls(void) {
    int ends[2], ep = STEP(epoll_create1(EPOLL_CLOEXEC)), inner = MUST(epoll_create(1));
    struct epoll_event event = {.events = EPOLLIN}, got[4];
    STEP(epoll_create1(1));
    STEP(epoll_create(0));
    MUST(pipe2(ends, O_NONBLOCK));
    event.data.fd = 1;
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &event));
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &event));
    STEP(epoll_ctl(ep, EPOLL_CTL_MOD, ends[1], &event));
    STEP(epoll_ctl(ep, EPOLL_CTL_DEL, ends[1], NULL));
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &event));
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, 999, &event));
    STEP(epoll_ctl(ends[0], EPOLL_CTL_ADD, ends[1], &event));
    STEP(epoll_ctl(ep, 77, ends[0], &event));
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, ends[1], (void *)8));
    int file = MUST(open("regular", O_CREAT | O_RDWR, 0600));
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, file, &event));
    show("empty", epoll_wait(ep, got, 4, 0), got);
    MUST(write(ends[1], "xy", 2));
    show("level", epoll_wait(ep, got, 4, -1), got);
    show("level again", epoll_wait(ep, got, 4, 0), got);
    event.events = EPOLLIN | EPOLLET;
    STEP(epoll_ctl(ep, EPOLL_CTL_MOD, ends[0], &event));
    show("edge", epoll_wait(ep, got, 4, 0), got);
    show("edge again", epoll_wait(ep, got, 4, 0), got);
    MUST(write(ends[1], "z", 1));
    show("another edge", epoll_wait(ep, got, 4, 0), got);
    event.events = EPOLLIN | EPOLLONESHOT;
    STEP(epoll_ctl(ep, EPOLL_CTL_MOD, ends[0], &event));
    show("once", epoll_wait(ep, got, 4, 0), got);
    show("once again", epoll_wait(ep, got, 4, 0), got);
    event.events = EPOLLIN, event.data.fd = 2;
    STEP(epoll_ctl(ep, EPOLL_CTL_MOD, ends[0], &event));
    STEP(epoll_ctl(inner, EPOLL_CTL_ADD, ep, &event));
    show("nested", epoll_wait(inner, got, 4, 0), got);
    STEP(epoll_ctl(ep, EPOLL_CTL_ADD, inner, &event));
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    STEP(epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &event));
    STEP(epoll_ctl(inner, EPOLL_CTL_MOD, ends[0], &event));
    STEP(epoll_wait(ep, got, 0, 0));
    STEP(syscall(SYS_epoll_wait, ep, (void *)8, 1, 0));
    STEP(epoll_wait(file, got, 1, 0));
    struct timespec t = {0, 1000000};
    show("pwait2", epoll_pwait2(ep, got, 4, &t, NULL), got);
    int copy = MUST(dup(ends[0]));
    close(ends[0]); /* the open file is still there: so is its entry */
    show("after close", epoll_wait(ep, got, 4, 0), got);
    close(copy);
    show("after the last close", epoll_wait(ep, got, 4, 0), got);
    close(ends[1]), close(ep), close(inner), close(file);
    MUST(unlink("regular"));
}

static void events(void) {
    int fd = STEP(eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC)), sem = MUST(eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK));
    uint64_t value = 0, most = UINT64_MAX - 1;
    STEP(read(fd, &value, 8));
    say("value %lu", (unsigned long)value);
    STEP(read(fd, &value, 8));
    STEP(read(fd, &value, 4));
    STEP(write(fd, &most, 8));
    value = 1;
    STEP(write(fd, &value, 8));
    struct pollfd poll_fd = {fd, POLLIN | POLLOUT, 0};
    STEP(poll(&poll_fd, 1, 0));
    say("revents %x", poll_fd.revents);
    value = UINT64_MAX;
    STEP(write(fd, &value, 8));
    for (int i = 0; i < 3; i++)
        STEP(read(sem, &value, 8));
    say("value %lu", (unsigned long)value);
    STEP(eventfd(0, 77777));
    close(fd), close(sem);
}

int main(void) {
    polls();
    selects();
    epolls();
    events();
    return 0;
}
