/* native: copying bytes between the person's terminal and the box's. A thread of its own without the GIL, so that
 * neither typing nor a flood of output holds up the kernel threads, or is held up by them.
 *
 *   keys ──▶ feed (the master of the box's terminal, or a pipe that is the guest's standard input)
 *   master ──▶ screen
 *
 * Nothing here interprets the bytes. Descriptors belong to the caller, except for a feed that is no terminal: the relay
 * closes it, by which the guest sees the end of its input. */
#include "host/host.h"

#include <errno.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#define LINGER_MS 100 /* wait this long for output that is still on its way when the box has ended */
#define LOOK_AGAIN_MS 250

struct flow {
    int from, to; /* -1: none, or ended */
    size_t begin, end;
    char bytes[16384];
};

struct session {
    struct flow typed, shown;
    int orders;     /* bytes from husk: 'l' look at the terminal again, 'q' the box has ended */
    bool raw;       /* the person's terminal is to be in raw mode */
    bool front;     /* husk is in the terminal's foreground and may read it */
    bool ending;
};

/* May we read what the person types? In the background the input is for another process, most likely the shell, and
 * reading would stop us (SIGTTIN). Linux does not tell us when we come to the foreground, so we ask again while it
 * matters. */
static void look_at_terminal(struct session *s)
{
    pid_t group = tcgetpgrp(s->typed.from);
    s->front = group < 0 || group == getpgrp(); /* < 0: not our controlling terminal, so it has no foreground for us */
    struct termios is, raw;
    if (s->front && s->raw && tcgetattr(s->typed.from, &is) == 0) {
        raw = is;
        cfmakeraw(&raw);
        if (raw.c_lflag != is.c_lflag || raw.c_iflag != is.c_iflag || raw.c_oflag != is.c_oflag)
            tcsetattr(s->typed.from, TCSANOW, &raw);
    }
}

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void fill(struct flow *flow)
{
    ssize_t n = read(flow->from, flow->bytes, sizeof flow->bytes);
    flow->begin = 0;
    flow->end = n > 0 ? n : 0;
    if (n == 0 || (n < 0 && !again(n)))
        flow->from = -1; /* a terminal that hung up gives EIO, after everything that was written to it */
}

static bool drain(struct flow *flow)
{
    ssize_t n = write(flow->to, flow->bytes + flow->begin, flow->end - flow->begin);
    bool open = n > 0 || again(n);
    if (n > 0)
        flow->begin += n;
    if (flow->begin == flow->end || !open)
        flow->begin = flow->end = 0;
    return open;
}

static bool waiting(const struct flow *flow)
{
    return flow->begin < flow->end;
}

/* No more keys. What was typed before is still written. Then a pipe is closed; a terminal stays open. */
static void end_keys(struct session *s, int master)
{
    s->typed.from = -1;
    if (s->typed.to >= 0 && s->typed.to != master && !waiting(&s->typed)) {
        close(s->typed.to);
        s->typed.to = -1;
    }
}

/* Reads one of husk's orders. A closed pipe means 'q'. */
static void obey(struct session *s, int master)
{
    char order = 'q';
    (void)!read(s->orders, &order, 1);
    if (order == 'q') {
        s->ending = true;
        s->orders = -1;
        end_keys(s, master);
    } else if (s->typed.from >= 0) {
        look_at_terminal(s);
    }
}

static void copy_until_told(struct session *s, int master)
{
    while (s->shown.to >= 0 || s->typed.to >= 0) {
        bool reads_keys = s->typed.from >= 0 && s->front && !waiting(&s->typed) && !s->ending;
        struct pollfd at[] = {
            {.fd = s->orders, .events = POLLIN},
            {.fd = reads_keys ? s->typed.from : -1, .events = POLLIN},
            {.fd = waiting(&s->typed) ? s->typed.to : -1, .events = POLLOUT},
            {.fd = s->shown.from >= 0 && !waiting(&s->shown) ? s->shown.from : -1, .events = POLLIN},
            {.fd = waiting(&s->shown) ? s->shown.to : -1, .events = POLLOUT},
        };
        int ready = poll(at, 5, s->ending ? LINGER_MS : s->typed.from >= 0 && !s->front ? LOOK_AGAIN_MS : -1);
        if (ready < 0 && errno != EINTR)
            return;
        if (ready == 0 && s->ending)
            return;
        if (ready <= 0) {
            if (s->typed.from >= 0)
                look_at_terminal(s);
            continue;
        }
        if (at[0].revents) {
            obey(s, master);
            continue; /* the descriptors to poll have changed */
        }
        if (at[1].revents) {
            look_at_terminal(s);
            if (s->front)
                fill(&s->typed);
            if (s->typed.from < 0)
                end_keys(s, master);
        }
        if (at[2].revents) {
            if (!drain(&s->typed) || s->typed.from < 0)
                end_keys(s, master);
        }
        if (at[3].revents)
            fill(&s->shown);
        if (at[4].revents && !drain(&s->shown))
            return; /* the screen is gone; the caller then hangs up the box's terminal */
        if (master >= 0 && s->shown.from < 0 && !waiting(&s->shown))
            return; /* the terminal's last slave is closed, which the caller held */
    }
}

PyObject *host_py_relay(PyObject *self, PyObject *args)
{
    (void)self;
    int master, keys, screen, feed, orders, raw;
    if (!PyArg_ParseTuple(args, "iiiiip:relay", &master, &keys, &screen, &feed, &orders, &raw))
        return NULL;
    struct session *s = PyMem_Calloc(1, sizeof *s);
    if (!s)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    s->typed.from = keys;
    s->typed.to = feed;
    s->shown.from = master;
    s->shown.to = master >= 0 ? screen : -1;
    s->orders = orders;
    s->raw = raw;
    if (keys >= 0)
        look_at_terminal(s);
    copy_until_told(s, master);
    if (s->typed.to >= 0 && s->typed.to != master)
        close(s->typed.to);
    Py_END_ALLOW_THREADS
    PyMem_Free(s);
    Py_RETURN_NONE;
}
