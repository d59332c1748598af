/* native: sendmsg(2) by the guest's own thread, with a header that no guest can change.
 *
 * Goal. The receiver of a Unix message sees the pid and ids of the process that sent it (SCM_CREDENTIALS), and only the
 * host kernel can vouch for these. So the guest's own thread has to send. But a header in the guest's memory can get a
 * name after husk has looked: a second thread, or another process, writes it.
 *
 * Chosen. The header lies in pages of a memfd that only husk can write to. The thread maps them at HUSK_MESSAGES and
 * seals the mapping (mseal): from then on no call of that process can unmap, replace, move or unprotect it. husk keeps
 * no record of which process has the pages: fork passes them on, execve drops them, and a guest may run in the
 * loader's place after an execve. So each time the stopped thread seals the mapping again, which changes nothing: what
 * is mapped there stays from then on. After that the host tells that it is the memfd, from its start. The arguments of
 * each call are compared after the thread has entered it: another thread may have changed the instruction that should
 * enter it.
 *
 * The header has no name, and no control messages but SCM_RIGHTS and SCM_CREDENTIALS. So it does not matter that the
 * guest may exchange the descriptor meanwhile, or the data: the message goes where send(2) on that socket would go,
 * which is native. The host judges the credentials that the guest claims, with the guest's own.
 *
 * A datagram with a name goes through a socket that the thread makes for it, and that husk connects to what it has
 * found under the name. The thread makes it, because a socket belongs to the network namespace of its maker, and a
 * guest may get hold of this one. The receiver sees a socket without a name, so only senders that have none use this.
 *
 * Rejected: a secret argument by which the filter knows husk's calls. A guest can read the registers of its thread
 * with an instruction in the place of `syscall`. For rt_sigaction that does no harm; here it would be a way out.
 *
 * sendmsg is notified as always. A receiver lets it continue if thread and header are those of a send that is under way
 * here. So this must run in a thread that does not receive. The thread's number alone does not tell: a program that
 * another thread of the process executes has the number of the first thread, and other memory. But husk's thread, which
 * may not know yet that its tracee is gone, does not trace it. */
#include "remote/remote.h"

#include "host/host.h"
#include "loader/resident.h"
#include "notify/notify.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

enum { SLOTS = 64, SLOT_BYTES = 4096, MOST_PARTS = 100, MOST_CONTROL = 2048, REFUSED = 64, LOOK_MS = 20 };
#define SIZE (SLOTS * (uint64_t)SLOT_BYTES)
/* What the guest may ask for. MSG_FASTOPEN would connect. */
#define ALLOWED_FLAGS (MSG_OOB | MSG_EOR | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)

struct slot { /* as the kernel reads it: struct msghdr, and what it points to */
    uint64_t name;
    uint32_t name_size, gap;
    uint64_t parts_at, part_count, control_at, control_size;
    uint32_t flags, gap2;
    uint8_t padding[8];
    struct iovec parts[MOST_PARTS];
    uint8_t unused[SLOT_BYTES - MOST_CONTROL - 64 - MOST_PARTS * sizeof(struct iovec)];
    uint8_t control[MOST_CONTROL];
};
_Static_assert(sizeof(struct slot) == SLOT_BYTES && offsetof(struct slot, parts) == 64, "layout");

struct remote_messages {
    pthread_mutex_t lock;
    int fd;               /* of the memfd, read-only; owned. -1: not made yet; -2: the host has no such thing */
    struct slot *slots;   /* husk's own mapping, writable */
    struct stat identity; /* of the memfd */
    bool taken[SLOTS];
    uint64_t sender[SLOTS]; /* the thread that is in a sendmsg with this header, and its tracer; 0: none. Atomic */
    pid_t refused[REFUSED]; /* processes that could not map the pages, the oldest replaced first */
    unsigned refusals;
};

struct remote_messages *remote_messages_new(void)
{
    struct remote_messages *messages = calloc(1, sizeof *messages);
    if (messages) {
        pthread_mutex_init(&messages->lock, NULL);
        messages->fd = -1;
    }
    return messages;
}

void remote_messages_free(struct remote_messages *messages)
{
    if (messages && messages->fd >= 0) {
        close(messages->fd);
        munmap(messages->slots, SIZE);
    }
    free(messages);
}

/* The caller has the lock. False: the host lacks something. */
static bool make_pages(struct remote_messages *m)
{
    if (m->fd != -1)
        return m->fd >= 0;
    char link[40];
    void *pages = MAP_FAILED;
    int readable = -1, fd = memfd_create("husk:messages", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    m->fd = -2;
    /* Nothing is mapped at 0: EINVAL for an address that is no page's means that the host knows the call. */
    if (fd < 0 || syscall(SYS_mseal, 1, 0, 0) == 0 || errno != EINVAL)
        goto out;
    if (ftruncate(fd, SIZE) == 0)
        pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (pages != MAP_FAILED &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        readable = open(link, O_RDONLY | O_CLOEXEC);
    if (readable < 0 || fstat(readable, &m->identity) < 0) {
        if (pages != MAP_FAILED)
            munmap(pages, SIZE);
        if (readable >= 0)
            close(readable);
    } else {
        m->slots = pages;
        m->fd = readable;
    }
out:
    if (fd >= 0)
        close(fd);
    return m->fd >= 0;
}

static int take_slot(struct remote_messages *m, pid_t tgid)
{
    int found = -1;
    pthread_mutex_lock(&m->lock);
    bool usable = make_pages(m);
    for (int i = 0; i < REFUSED; i++)
        usable &= m->refused[i] != tgid;
    for (int i = 0; usable && found < 0 && i < SLOTS; i++)
        if (!m->taken[i])
            found = i;
    if (found >= 0)
        m->taken[found] = true;
    pthread_mutex_unlock(&m->lock);
    return found;
}

static void put_slot(struct remote_messages *m, int slot)
{
    memset(&m->slots[slot], 0, SLOT_BYTES);
    pthread_mutex_lock(&m->lock);
    m->taken[slot] = false;
    pthread_mutex_unlock(&m->lock);
}

/* Remember that husk has to send for this process: otherwise the repeated call would come here again, for ever. */
static void refuse(struct remote_messages *m, pid_t tgid)
{
    pthread_mutex_lock(&m->lock);
    m->refused[m->refusals++ % REFUSED] = tgid;
    pthread_mutex_unlock(&m->lock);
}

/* Is the whole of the memfd, and nothing else, mapped at HUSK_MESSAGES? It may be gone a moment later unless the
 * mapping is known to be sealed. -ENOTTY: the host cannot tell. */
static int is_mapped(const struct remote_messages *m, pid_t tid)
{
    struct host_mapping at;
    int error = host_find_mapping(tid, HUSK_MESSAGES, &at);
    if (error)
        return error == -ENOENT ? 0 : error;
    return at.start == HUSK_MESSAGES && at.end == HUSK_MESSAGES + SIZE && at.offset == 0 && at.flags & HOST_SHARED &&
           !(at.flags & HOST_WRITABLE) && at.ino == m->identity.st_ino && at.major == major(m->identity.st_dev) &&
           at.minor == minor(m->identity.st_dev);
}

/* The stopped thread maps the pages, whose descriptor in its table is `fd`, unless another thread has. */
static int map_pages(struct remote_thread *thread, int fd)
{
    long result;
    const uint64_t map[6] = {HUSK_MESSAGES, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0};
    const uint64_t shut[6] = {fd, 0, 0, 0, 0, thread->cookie};
    int error = remote_call(thread, SYS_mmap, map, &result);
    return error ? error : remote_call(thread, SYS_close, shut, &result);
}

/* 1: the header in these pages is husk's, and stays so. 0: it is not. -errno: the thread is gone. */
static int is_sealed(const struct remote_messages *m, struct remote_thread *thread)
{
    long result = 0;
    if (is_mapped(m, thread->tid) != 1)
        return 0; /* memory of the guest's own */
    const uint64_t seal[6] = {HUSK_MESSAGES, SIZE, 0, 0, 0, thread->cookie};
    int error = remote_checked_call(thread, SYS_mseal, seal, &result);
    if (error)
        return error == -EINVAL ? 0 : error;
    return result == 0 && is_mapped(m, thread->tid) == 1;
}

bool remote_is_sealed_send(const Listener *listener, const struct seccomp_notif *notif)
{
    const struct remote_messages *m = listener->messages;
    uint64_t at = notif->data.args[1] - HUSK_MESSAGES;
    if (at >= SIZE || at % SLOT_BYTES)
        return false;
    uint64_t sender = __atomic_load_n(&m->sender[at / SLOT_BYTES], __ATOMIC_ACQUIRE);
    return sender && sender >> 32 == notif->pid && guest_tracer(notif->pid) == (pid_t)sender;
}

static bool has_signal(const struct remote_thread *thread)
{
    char text[4096], *line;
    uint64_t pending = 0, ignored = 1ULL << (SIGCHLD - 1) | 1ULL << (SIGURG - 1) | 1ULL << (SIGWINCH - 1);
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/status", thread->tid);
    if (n < 0)
        return true; /* it is gone */
    if ((line = strstr(text, "\nSigPnd:")))
        pending = strtoull(line + 8, NULL, 16);
    if ((line = strstr(text, "\nShdPnd:")))
        pending |= strtoull(line + 8, NULL, 16);
    if ((line = strstr(text, "\nSigIgn:")))
        ignored |= strtoull(line + 8, NULL, 16);
    if ((line = strstr(text, "\nSigCgt:")))
        ignored &= ~strtoull(line + 8, NULL, 16);
    return pending & ~thread->signal_mask & ~ignored;
}

struct sending {
    int guest_fd, own_fd, flags; /* own_fd: husk's duplicate, which tells when there is room */
    const struct sockaddr *to;   /* where husk connects a new socket to, or NULL */
    socklen_t to_size;
    bool waits;                  /* the guest's call would wait for room */
    bool stream;
};

static void skip(struct slot *slot, size_t sent)
{
    for (uint64_t i = 0; i < slot->part_count; i++) {
        size_t size = slot->parts[i].iov_len < sent ? slot->parts[i].iov_len : sent;
        slot->parts[i].iov_base = (char *)slot->parts[i].iov_base + size;
        slot->parts[i].iov_len -= size;
        sent -= size;
    }
    slot->control_at = slot->control_size = 0; /* they went with the first part */
}

/* `value`: what the guest's call returns. As in Linux, a stream that waits sends all, unless a signal comes. */
static int send_all(struct remote_messages *m, int number, struct remote_thread *thread, const struct sending *s,
                    int64_t *value)
{
    struct slot *slot = &m->slots[number];
    uint64_t left = 0;
    for (uint64_t i = 0; i < slot->part_count; i++)
        left += slot->parts[i].iov_len;
    const uint64_t args[6] = {s->guest_fd, HUSK_MESSAGES + number * (uint64_t)SLOT_BYTES, s->flags | MSG_DONTWAIT,
                              0, 0, thread->cookie};
    const uint64_t sender = (uint64_t)thread->tid << 32 | (uint32_t)syscall(SYS_gettid);
    *value = 0;
    for (;;) {
        long sent = 0;
        __atomic_store_n(&m->sender[number], sender, __ATOMIC_RELEASE);
        int error = remote_checked_call(thread, SYS_sendmsg, args, &sent);
        __atomic_store_n(&m->sender[number], 0, __ATOMIC_RELEASE);
        if (error)
            return error;
        bool full = sent == -EAGAIN;
        if (sent < 0 && !(full && *value)) {
            *value = *value ? *value : sent;
            return 0;
        }
        if (!full) {
            *value += sent;
            left -= (uint64_t)sent < left ? (uint64_t)sent : left;
            if (!s->stream || !s->waits || !left)
                return 0;
            skip(slot, sent);
        }
        struct pollfd room = {.fd = s->own_fd, .events = POLLOUT};
        poll(&room, 1, LOOK_MS);
        if (has_signal(thread))
            return 0;
    }
}

/* As send_all, through a new socket. -ECANCELED: it cannot be had. */
static int send_named(struct remote_messages *m, int number, struct remote_thread *thread, const struct sending *given,
                      int64_t *value)
{
    struct sending s = *given;
    long fd = -1, closed;
    int kind[2] = {0}, failed = -ECANCELED;
    socklen_t size = sizeof kind[0];
    const uint64_t make[6] = {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0, thread->cookie};
    int error = remote_call(thread, SYS_socket, make, &fd);
    if (error || fd < 0)
        return error ? error : failed;
    s.guest_fd = (int)fd;
    s.own_fd = guest_get_fd(thread->tid, s.guest_fd);
    /* Another thread may have put another file there: then it is not to be connected, which could wait. */
    bool made = s.own_fd >= 0 && getsockopt(s.own_fd, SOL_SOCKET, SO_DOMAIN, &kind[0], &size) == 0 &&
                getsockopt(s.own_fd, SOL_SOCKET, SO_TYPE, &kind[1], &size) == 0 && kind[0] == AF_UNIX &&
                kind[1] == SOCK_DGRAM;
    if (made && connect(s.own_fd, s.to, s.to_size) < 0) {
        *value = -errno;
        failed = errno == EPERM ? failed : 0; /* the receiver may be connected to the sender's own socket */
        made = false;
    }
    while (made) {
        failed = error = send_all(m, number, thread, &s, value);
        struct pollfd room = {.fd = s.own_fd, .events = POLLOUT};
        made = !error && *value == -EAGAIN && s.waits && poll(&room, 1, LOOK_MS) >= 0 && !has_signal(thread);
    }
    if (s.own_fd >= 0)
        close(s.own_fd);
    if (error && error != -EINVAL)
        return error;
    const uint64_t shut[6] = {s.guest_fd, 0, 0, 0, 0, thread->cookie};
    error = remote_call(thread, SYS_close, shut, &closed);
    return error ? error : failed;
}

/* `value`: of the call, or REMOTE_AGAIN. Returns 0, or -errno if the thread is gone. */
static int send_stopped(Listener *listener, int number, struct remote_thread *thread, int fd, const struct sending *s,
                        pid_t tgid, int64_t *value)
{
    struct remote_messages *m = listener->messages;
    int error = fd >= 0 ? map_pages(thread, fd) : 0;
    int sealed = error ? error : is_sealed(m, thread);
    if (sealed < 0)
        return sealed;
    if (!sealed)
        refuse(m, tgid);
    else if ((error = (s->to ? send_named : send_all)(m, number, thread, s, value)) == -EINVAL || error == -ECANCELED)
        refuse(m, tgid); /* the thread did not make the call that husk wanted; or husk sends in its place */
    else if (error || *value != -EAGAIN || !s->waits)
        return error;
    *value = REMOTE_AGAIN;
    return 0;
}

/* Stops the thread and lets it send. Returns REMOTE_TRACED while the call is unanswered; then husk sends. */
static int send_by_guest(Call *call, int number, const struct sending *s, int64_t *value)
{
    Listener *listener = call->listener;
    struct remote_thread thread;
    pid_t tid = call->notif.pid, tgid = guest_thread_group(tid);
    int fd = -1, mapped = is_mapped(listener->messages, tid);
    if (mapped < 0)
        return REMOTE_TRACED;
    int error = mapped ? remote_stop_answered(call, 0, &thread)
                       : remote_stop_with_fd(listener->fd, &call->notif, listener->messages->fd, true, &thread, &fd);
    if (error) {
        if (error != REMOTE_TRACED)
            close(s->own_fd);
        return error;
    }
    thread.cookie = listener->cookie;
    error = remote_block_signals(&thread);
    if (!error) {
        trace_own_begin((Recorder *)listener->recorder, tid);
        error = send_stopped(listener, number, &thread, fd, s, tgid, value);
        trace_own_end((Recorder *)listener->recorder, tid);
    }
    close(s->own_fd); /* before the guest runs on: husk's copy of a socket would be observable */
    if (error)
        return error;
    return *value == REMOTE_AGAIN ? remote_repeat(&thread, call->notif.data.nr) : remote_finish(&thread, *value);
}

/* Wait until there is room. False: a signal for this thread of husk; the call is unanswered. */
static bool wait_for_room(struct sending *s)
{
    struct timeval limit = {0};
    socklen_t size = sizeof limit;
    getsockopt(s->own_fd, SOL_SOCKET, SO_SNDTIMEO, &limit, &size);
    struct timespec timeout = {limit.tv_sec, limit.tv_usec * 1000L};
    struct pollfd room = {.fd = s->own_fd, .events = POLLOUT};
    int ready = ppoll(&room, 1, limit.tv_sec || limit.tv_usec ? &timeout : NULL, NULL);
    if (ready == 0)
        s->waits = false; /* its time is over: EAGAIN */
    return ready >= 0;
}

PyObject *remote_py_send(Call *call, PyObject *args)
{
    struct sending s;
    int waits, stream;
    Py_buffer parts, control, to;
    if (!PyArg_ParseTuple(args, "iiy*y*ippy*:send", &s.guest_fd, &s.own_fd, &parts, &control, &s.flags, &waits, &stream,
                          &to))
        return NULL;
    s.to = to.len ? to.buf : NULL;
    s.to_size = (socklen_t)to.len;
    struct remote_messages *m = call->listener->messages;
    s.waits = waits;
    s.stream = stream;
    int error = REMOTE_TRACED, number = -1;
    int64_t value = 0;
    bool interrupted = false;
    Py_BEGIN_ALLOW_THREADS
    bool fits = parts.len <= (Py_ssize_t)sizeof m->slots->parts && control.len <= MOST_CONTROL &&
                !(s.flags & ~ALLOWED_FLAGS);
    if (fits && s.waits && !s.to) /* before it takes a slot: many may wait */
        interrupted = !wait_for_room(&s);
    if (fits && !interrupted)
        number = take_slot(m, guest_thread_group(call->notif.pid));
    if (number >= 0) {
        struct slot *slot = &m->slots[number];
        uint64_t at = HUSK_MESSAGES + number * (uint64_t)SLOT_BYTES;
        memcpy(slot->parts, parts.buf, parts.len);
        memcpy(slot->control, control.buf, control.len);
        slot->parts_at = at + offsetof(struct slot, parts);
        slot->part_count = parts.len / sizeof *slot->parts;
        slot->control_at = control.len ? at + offsetof(struct slot, control) : 0;
        slot->control_size = control.len;
        error = send_by_guest(call, number, &s, &value);
        put_slot(m, number);
    }
    remote_delete_timer(); /* the calling thread, of kernel/blocking.py, ends after this */
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&parts);
    PyBuffer_Release(&control);
    PyBuffer_Release(&to);
    if (interrupted)
        return core_raise_errno(EINTR);
    call->answered = error != REMOTE_TRACED;
    return PyBool_FromLong(call->answered);
}
