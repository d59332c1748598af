/* compat/probe: checks of waiting for descriptors, of asynchronous I/O and of io_uring. */
#include "probe.h"

#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

#define MS 1000000L

/* A pipe with a byte in it: the read end. */
static int readable(void)
{
    int ends[2];
    probe_pipe(ends);
    NEED(write(ends[1], "x", 1) == 1, "write");
    return ends[0];
}

static int silent(void)
{
    int ends[2];
    probe_pipe(ends);
    return ends[0];
}

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

/* Blocks SIGUSR1, then raises it: it comes only when a call lets it through. */
static void hold_signal(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    struct sigaction action = {.sa_handler = note};
    NEED(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0, "sigprocmask");
    NEED(raise(SIGUSR1) == 0, "raise");
}

static const uint64_t NO_SIGNALS;
static const struct timespec LONG = {8, 0}, SHORT = {0, 2 * MS};

CHECK(poll, "tells which is readable")
{
    struct pollfd both[2] = {{silent(), POLLIN, 0}, {readable(), POLLIN, 0}};
    EFFECT(MUST(CALL(poll, both, 2, 8000)) == 1 && both[0].revents == 0 && both[1].revents == POLLIN);
}

CHECK(poll, "a time-out is 0")
{
    struct pollfd one = {silent(), POLLIN, 0};
    int64_t before = probe_now();
    EFFECT(MUST(CALL(poll, &one, 1, 3)) == 0 && probe_now() - before >= 3 * MS);
}

CHECK(ppoll, "a time-out is 0")
{
    struct pollfd one = {silent(), POLLIN, 0};
    struct timespec brief = SHORT;
    EFFECT(MUST(CALL(ppoll, &one, 1, &brief, NULL, 8)) == 0);
}

CHECK(ppoll, "the mask lets a signal through")
{
    struct pollfd one = {silent(), POLLIN, 0};
    struct timespec patience = LONG;
    hold_signal();
    long value = CALL(ppoll, &one, 1, &patience, &NO_SIGNALS, 8);
    if (value != -EINTR)
        MUST(value);
    EFFECT(value == -EINTR && caught == SIGUSR1);
}

CHECK(select, "tells which is readable")
{
    int quiet = silent(), ready = readable();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(quiet, &set);
    FD_SET(ready, &set);
    struct timeval patience = {8, 0};
    EFFECT(MUST(CALL(select, ready + 1, &set, NULL, NULL, &patience)) == 1);
    EFFECT(FD_ISSET(ready, &set) && !FD_ISSET(quiet, &set));
}

CHECK(pselect6, "tells which is readable")
{
    int quiet = silent(), ready = readable();
    fd_set set;
    FD_ZERO(&set);
    FD_SET(quiet, &set);
    FD_SET(ready, &set);
    struct timespec patience = LONG;
    EFFECT(MUST(CALL(pselect6, ready + 1, &set, NULL, NULL, &patience, NULL)) == 1);
    EFFECT(FD_ISSET(ready, &set) && !FD_ISSET(quiet, &set));
}

CHECK(pselect6, "the mask lets a signal through")
{
    struct timespec patience = LONG;
    struct { const uint64_t *mask; size_t size; } sig = {&NO_SIGNALS, 8};
    hold_signal();
    long value = CALL(pselect6, 0, NULL, NULL, NULL, &patience, &sig);
    if (value != -EINTR)
        MUST(value);
    EFFECT(value == -EINTR && caught == SIGUSR1);
}

/* -- epoll -- */

static bool epoll_tells(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 4711}, got = {0};
    NEED(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    return epoll_wait(set, &got, 1, 8000) == 1 && got.data.u64 == 4711 && got.events == EPOLLIN;
}

CHECK(epoll_create, "a set to wait for")
{
    EFFECT(epoll_tells((int)MUST(CALL(epoll_create, 1)), readable()));
}

CHECK(epoll_create, "size 0 is EINVAL")
{
    ANSWERS(CALL(epoll_create, 0), EINVAL);
}

CHECK(epoll_create1, "flags=EPOLL_CLOEXEC")
{
    int set = (int)MUST(CALL(epoll_create1, EPOLL_CLOEXEC));
    EFFECT(epoll_tells(set, readable()) && fcntl(set, F_GETFD) == FD_CLOEXEC);
}

static int new_set(void)
{
    int set = epoll_create1(EPOLL_CLOEXEC);
    NEED(set >= 0, "epoll_create1");
    return set;
}

CHECK(epoll_ctl, "op=EPOLL_CTL_ADD")
{
    int set = new_set();
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 4711}, got = {0};
    MUST(CALL(epoll_ctl, set, EPOLL_CTL_ADD, readable(), &event));
    EFFECT(epoll_wait(set, &got, 1, 8000) == 1 && got.data.u64 == 4711);
}

CHECK(epoll_ctl, "op=EPOLL_CTL_MOD")
{
    int set = new_set(), fd = readable();
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1}, got = {0};
    NEED(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    event.data.u64 = 2;
    MUST(CALL(epoll_ctl, set, EPOLL_CTL_MOD, fd, &event));
    EFFECT(epoll_wait(set, &got, 1, 8000) == 1 && got.data.u64 == 2);
}

CHECK(epoll_ctl, "op=EPOLL_CTL_DEL")
{
    int set = new_set(), fd = readable();
    struct epoll_event event = {.events = EPOLLIN}, got;
    NEED(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
    MUST(CALL(epoll_ctl, set, EPOLL_CTL_DEL, fd, NULL));
    EFFECT(epoll_wait(set, &got, 1, 0) == 0);
}

CHECK(epoll_ctl, "EPOLLET tells an edge once")
{
    int set = new_set();
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, got;
    MUST(CALL(epoll_ctl, set, EPOLL_CTL_ADD, readable(), &event));
    EFFECT(epoll_wait(set, &got, 1, 8000) == 1 && epoll_wait(set, &got, 1, 0) == 0);
}

CHECK(epoll_ctl, "EPOLLONESHOT tells once until it is armed again")
{
    int set = new_set(), fd = readable();
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT}, got;
    MUST(CALL(epoll_ctl, set, EPOLL_CTL_ADD, fd, &event));
    EFFECT(epoll_wait(set, &got, 1, 8000) == 1 && epoll_wait(set, &got, 1, 0) == 0);
    NEED(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0, "epoll_ctl");
    EFFECT(epoll_wait(set, &got, 1, 8000) == 1);
}

CHECK(epoll_ctl, "a plain file is EPERM")
{
    struct epoll_event event = {.events = EPOLLIN};
    ANSWERS(CALL(epoll_ctl, new_set(), EPOLL_CTL_ADD, probe_memfd(0), &event), EPERM);
}

static int ready_set(void)
{
    int set = new_set();
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 4711};
    NEED(epoll_ctl(set, EPOLL_CTL_ADD, readable(), &event) == 0, "epoll_ctl");
    return set;
}

CHECK(epoll_wait, "tells what is ready")
{
    struct epoll_event got[2] = {{0}};
    EFFECT(MUST(CALL(epoll_wait, ready_set(), got, 2, 8000)) == 1 && got[0].data.u64 == 4711);
}

CHECK(epoll_wait, "a time-out is 0")
{
    struct epoll_event got;
    int64_t before = probe_now();
    EFFECT(MUST(CALL(epoll_wait, new_set(), &got, 1, 3)) == 0 && probe_now() - before >= 3 * MS);
}

CHECK(epoll_pwait, "the mask lets a signal through")
{
    struct epoll_event got;
    hold_signal();
    long value = CALL(epoll_pwait, new_set(), &got, 1, 8000, &NO_SIGNALS, 8);
    if (value != -EINTR)
        MUST(value);
    EFFECT(value == -EINTR && caught == SIGUSR1);
}

CHECK(epoll_pwait2, "a time-out in nanoseconds")
{
    struct epoll_event got[2] = {{0}};
    EFFECT(MUST(CALL(epoll_pwait2, ready_set(), got, 2, &LONG, NULL, 8)) == 1 && got[0].data.u64 == 4711);
    int64_t before = probe_now();
    EFFECT(MUST(CALL(epoll_pwait2, new_set(), got, 2, &SHORT, NULL, 8)) == 0 && probe_now() - before >= 2 * MS);
}

/* -- asynchronous I/O -- */

static aio_context_t new_queue(void)
{
    aio_context_t queue = 0;
    long value = RAW(io_setup, 8, &queue);
    NEED(value == 0, "io_setup");
    return queue;
}

static char aio_text[16];

/* A read of ten bytes that is submitted; its cookie is 4711. */
static void submit(aio_context_t queue)
{
    static struct iocb request, *list[1] = {&request};
    request = (struct iocb){.aio_data = 4711, .aio_lio_opcode = IOCB_CMD_PREAD,
                            .aio_fildes = (unsigned)probe_file("f", "0123456789"), .aio_buf = (uint64_t)aio_text,
                            .aio_nbytes = 10};
    long value = RAW(io_submit, queue, 1, list);
    NEED(value == 1, "io_submit");
}

CHECK(io_setup, "a queue")
{
    aio_context_t queue = 0;
    MUST(CALL(io_setup, 8, &queue));
    EFFECT(queue != 0);
}

CHECK(io_submit, "a read arrives")
{
    aio_context_t queue = new_queue();
    struct iocb request = {.aio_data = 4711, .aio_lio_opcode = IOCB_CMD_PREAD,
                           .aio_fildes = (unsigned)probe_file("f", "0123456789"), .aio_buf = (uint64_t)aio_text,
                           .aio_nbytes = 10};
    struct iocb *list[1] = {&request};
    EFFECT(MUST(CALL(io_submit, queue, 1, list)) == 1);
    struct io_event event = {0};
    NEED(RAW(io_getevents, queue, 1, 1, &event, &LONG) == 1, "io_getevents");
    EFFECT(event.data == 4711 && event.res == 10 && !memcmp(aio_text, "0123456789", 10));
}

CHECK(io_getevents, "a read has arrived")
{
    aio_context_t queue = new_queue();
    struct io_event event = {0};
    submit(queue);
    EFFECT(MUST(CALL(io_getevents, queue, 1, 1, &event, &LONG)) == 1);
    EFFECT(event.data == 4711 && event.res == 10 && !memcmp(aio_text, "0123456789", 10));
}

CHECK(io_pgetevents, "a read has arrived")
{
    aio_context_t queue = new_queue();
    struct io_event event = {0};
    submit(queue);
    EFFECT(MUST(CALL(io_pgetevents, queue, 1, 1, &event, &LONG, NULL)) == 1);
    EFFECT(event.data == 4711 && event.res == 10 && !memcmp(aio_text, "0123456789", 10));
}

CHECK(io_cancel, "a poll that waits is taken back")
{
    aio_context_t queue = new_queue();
    struct iocb request = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = (unsigned)silent(), .aio_buf = POLLIN};
    struct iocb *list[1] = {&request};
    struct io_event event = {0};
    NEED(RAW(io_submit, queue, 1, list) == 1, "a poll by io_submit");
    long value = CALL(io_cancel, queue, &request, &event);
    if (value != -EINPROGRESS)
        MUST(value);
    EFFECT(value == 0 || RAW(io_getevents, queue, 1, 1, &event, &LONG) == 1);
}

CHECK(io_destroy, "the queue is gone")
{
    aio_context_t queue = new_queue();
    struct io_event event;
    MUST(CALL(io_destroy, queue));
    EFFECT(RAW(io_getevents, queue, 0, 1, &event, NULL) == -EINVAL);
}

/* -- io_uring: only whether it is there, and that a ring can do nothing at all -- */

static uint32_t ring_parameters[30];

static int new_ring(void)
{
    long value = RAW(io_uring_setup, 4, ring_parameters);
    return (int)value;
}

CHECK(io_uring_setup, "a ring")
{
    int ring = (int)MUST(CALL(io_uring_setup, 4, ring_parameters));
    EFFECT(ring_parameters[0] >= 4 && mmap(NULL, 4096, PROT_READ, MAP_SHARED, ring, 0) != MAP_FAILED);
}

CHECK(io_uring_enter, "a ring with nothing to do")
{
    int ring = new_ring();
    EFFECT(MUST(CALL(io_uring_enter, ring < 0 ? 777 : ring, 0, 0, 0, NULL, 0)) == 0);
}

CHECK(io_uring_register, "an event counter")
{
    int ring = new_ring();
    int counter = (int)RAW(eventfd2, 0, 0);
    MUST(CALL(io_uring_register, ring < 0 ? 777 : ring, 4 /* IORING_REGISTER_EVENTFD */, &counter, 1));
    EFFECT(RAW(io_uring_register, ring, 4, &counter, 1) == -EBUSY);
}
