/* native: the remote calls that Python asks for: seek, map and unmap memory, change the working directory, set a
 * descriptor's owner, receive an O_PATH descriptor, take a controlling terminal, and look at signals. Each returns 0,
 * or -errno if the thread is gone or REMOTE_TRACED. */
#include "remote/remote.h"

#include "notify/notify.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int remote_stop_with_fd(int listener, const struct seccomp_notif *notif, int source, bool cloexec,
                        struct remote_thread *thread, int *guest_fd)
{
    int error;
    uint64_t id = notif->id;
    pid_t tid = notif->pid;
    struct notify_pin pin;

    notify_pin_begin(&pin, tid); /* this early because attaching wakes the thread too */
    error = remote_attach(tid);
    if (error) {
        notify_pin_end(&pin);
        if (error != -ESRCH)
            return REMOTE_TRACED;
        notify_answer_error(listener, id, ESRCH);
        return error;
    }
    if (!notify_is_valid(listener, id)) { /* the tid was reused */
        notify_pin_end(&pin);
        remote_abandon(tid);
        return -ESRCH;
    }
    *guest_fd = notify_inject_fd(listener, notif, source, cloexec);
    notify_pin_end(&pin);
    if (*guest_fd < 0)
        notify_answer_error(listener, id, -*guest_fd);
    else
        notify_answer_value(listener, id, *guest_fd);
    /* Once answered the thread leaves the call, and cannot run user code before we let it. */
    error = remote_wait_stop(thread, tid);
    if (!error && *guest_fd < 0) {
        remote_detach(thread);
        error = *guest_fd;
    }
    return error;
}

int remote_stop_answered(Call *call, int number, struct remote_thread *thread)
{
    int error = remote_attach(call->notif.pid);
    if (error == -ESRCH) {
        notify_answer_error(call->listener->fd, call->notif.id, ESRCH);
        return error;
    }
    if (error)
        return REMOTE_TRACED;
    if (notify_answer_error(call->listener->fd, call->notif.id, number)) {
        remote_abandon(call->notif.pid);
        return -ESRCH;
    }
    return remote_wait_stop(thread, call->notif.pid);
}

static PyObject *outcome(Call *call, int error)
{
    call->answered = error != REMOTE_TRACED;
    return PyLong_FromLong(error);
}

/* ---- calls made by the stopped thread ---------------------------------------------------------------------------- */

/* What one remote call does: calls of `thread` with these arguments. `fd` is the injected descriptor. Stores what the
 * notified call returns in `value`. Returns 0, or -errno if the thread is gone. */
typedef int action(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value);

struct injected {
    int source; /* -1: no descriptor is injected */
    bool cloexec;
    bool taken; /* `source` is closed, on failure too, before the guest runs on */
};

static PyObject *run(Call *call, struct injected injected, action *act, const uint64_t args[6])
{
    int error, fd = -1;
    Py_BEGIN_ALLOW_THREADS
    struct remote_thread thread;
    int64_t value = 0;
    if (injected.source < 0)
        error = remote_stop_answered(call, 0, &thread);
    else
        error = remote_stop_with_fd(call->listener->fd, &call->notif, injected.source, injected.cloexec, &thread, &fd);
    if (injected.taken)
        close(injected.source);
    if (!error)
        error = remote_block_signals(&thread);
    thread.cookie = call->listener->cookie;
    if (!error) {
        trace_own_begin((Recorder *)call->listener->recorder, call->notif.pid);
        error = act(&thread, fd, args, &value);
        trace_own_end((Recorder *)call->listener->recorder, call->notif.pid);
    }
    if (!error)
        error = remote_finish(&thread, value);
    Py_END_ALLOW_THREADS
    return outcome(call, error);
}

static int close_fd(struct remote_thread *thread, int fd)
{
    long closed = 0;
    uint64_t args[6] = {fd, 0, 0, 0, 0, thread->cookie};
    return remote_call(thread, SYS_close, args, &closed);
}

static int seek(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    (void)fd;
    uint64_t that[6] = {args[0], args[1], 0 /* SEEK_SET */, 0, 0, thread->cookie};
    long moved = 0;
    int error = remote_call(thread, SYS_lseek, that, &moved);
    *value = moved < 0 ? moved : (int64_t)args[2];
    return error;
}

static int map(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    /* No register is left for the cookie: under trace another receiver continues this call. */
    uint64_t that[6] = {args[0], args[1], args[2], args[3], fd, 0};
    long mapped = 0;
    int error = remote_call(thread, SYS_mmap, that, &mapped);
    *value = mapped == -EEXIST ? -EINVAL : mapped; /* shmat(2) answers EINVAL where something is mapped already */
    return error ? error : close_fd(thread, fd);
}

static int unmap(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    (void)fd;
    uint64_t that[6] = {args[0], args[1], 0, 0, 0, thread->cookie};
    long result = 0;
    int error = remote_call(thread, SYS_munmap, that, &result);
    *value = result;
    return error;
}

static int set_owner(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    (void)fd;
    uint64_t that[6] = {args[0], F_SETOWN, args[1], 0, 0, thread->cookie};
    long result = 0;
    int error = remote_call(thread, SYS_fcntl, that, &result);
    *value = result;
    return error;
}

static int change_directory(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    (void)args;
    uint64_t that[6] = {fd, 0, 0, 0, 0, thread->cookie};
    long moved = 0;
    int error = remote_call(thread, SYS_fchdir, that, &moved);
    *value = moved;
    return error ? error : close_fd(thread, fd);
}

/* What recvmsg(2) needs in the guest's memory to receive one descriptor. */
struct mail {
    struct msghdr message;
    struct iovec part;
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
};

static void mail_address(struct mail *mail, uint64_t at)
{
    *mail = (struct mail){0};
    mail->part.iov_base = (void *)(uintptr_t)(at + offsetof(struct mail, byte));
    mail->part.iov_len = 1;
    mail->message.msg_iov = (void *)(uintptr_t)(at + offsetof(struct mail, part));
    mail->message.msg_iovlen = 1;
    mail->message.msg_control = (void *)(uintptr_t)(at + offsetof(struct mail, control));
    mail->message.msg_controllen = sizeof mail->control.bytes;
}

/* `fd` is a socket in which a descriptor waits. It comes out under another number, and then takes the place of the
 * socket, whose number was the lowest free one. The memory that the message takes is mapped for it: a stack may have no
 * room. */
static int receive_path(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    struct mail mail;
    long at = 0, got = 0, done = 0;
    int path = -1;
    /* No register is left for the cookie, as above. */
    uint64_t room[6] = {0, sizeof mail, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1ULL, 0};
    int error = remote_call(thread, SYS_mmap, room, &at);
    if (error)
        return error;
    *value = at;
    if (at < 0 && at > -4096)
        return close_fd(thread, fd);
    mail_address(&mail, at);
    *value = -EFAULT;
    if (guest_write(thread->tid, at, &mail, sizeof mail) == (ssize_t)sizeof mail) {
        uint64_t receive[6] = {fd, at, MSG_DONTWAIT | (args[0] ? MSG_CMSG_CLOEXEC : 0), 0, 0, thread->cookie};
        error = remote_call(thread, SYS_recvmsg, receive, &got);
        if (!error && got < 0)
            *value = got;
        else if (!error && guest_read(thread->tid, at, &mail, sizeof mail) == (ssize_t)sizeof mail) {
            *value = -EMFILE; /* the host drops a descriptor that finds no place */
            if (mail.message.msg_controllen >= CMSG_LEN(sizeof path) && mail.control.head.cmsg_type == SCM_RIGHTS)
                memcpy(&path, CMSG_DATA(&mail.control.head), sizeof path);
        }
    }
    /* The guest may have written another number there meanwhile. Then it moves a descriptor of its own. */
    if (!error && path >= 0) {
        uint64_t move[6] = {path, fd, args[0] ? O_CLOEXEC : 0, 0, 0, thread->cookie};
        error = remote_call(thread, SYS_dup3, move, &done);
        *value = done;
        if (!error)
            error = close_fd(thread, path);
    }
    uint64_t that[6] = {at, sizeof mail, 0, 0, 0, thread->cookie};
    if (!error)
        error = remote_call(thread, SYS_munmap, that, &done);
    return error || *value >= 0 ? error : close_fd(thread, fd);
}

static int take_terminal(struct remote_thread *thread, int fd, const uint64_t args[6], int64_t *value)
{
    (void)args;
    /* Refused where it is another session's terminal, or open for writing only. Then it is just an open file. */
    uint64_t that[6] = {fd, TIOCSCTTY, 0, 0, 0, thread->cookie};
    long taken = 0;
    *value = fd;
    return remote_call(thread, SYS_ioctl, that, &taken);
}

/* ---- Python's side ----------------------------------------------------------------------------------------------- */

static const struct injected NOTHING = {.source = -1};

PyObject *remote_py_seek(Call *call, PyObject *args)
{
    int fd;
    long long position, value;
    if (!PyArg_ParseTuple(args, "iLL:seek", &fd, &position, &value))
        return NULL;
    return run(call, NOTHING, seek, (uint64_t[6]){fd, position, value});
}

PyObject *remote_py_map(Call *call, PyObject *args)
{
    int file, protection, flags;
    unsigned long long address, size;
    if (!PyArg_ParseTuple(args, "iKKii:map", &file, &address, &size, &protection, &flags))
        return NULL;
    struct injected injected = {.source = file, .cloexec = true};
    return run(call, injected, map, (uint64_t[6]){address, size, protection, flags});
}

PyObject *remote_py_unmap(Call *call, PyObject *args)
{
    unsigned long long address, size;
    if (!PyArg_ParseTuple(args, "KK:unmap", &address, &size))
        return NULL;
    return run(call, NOTHING, unmap, (uint64_t[6]){address, size});
}

PyObject *remote_py_set_owner(Call *call, PyObject *args)
{
    int fd;
    long long owner;
    if (!PyArg_ParseTuple(args, "iL:set_owner", &fd, &owner))
        return NULL;
    return run(call, NOTHING, set_owner, (uint64_t[6]){fd, owner});
}

PyObject *remote_py_change_directory(Call *call, PyObject *args)
{
    struct injected injected = {.cloexec = true};
    if (!PyArg_ParseTuple(args, "i:change_directory", &injected.source))
        return NULL;
    return run(call, injected, change_directory, NULL);
}

/* The end of a new socket pair in which a copy of `fd` waits, or -1. */
static int post(int fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    struct mail mail;
    mail_address(&mail, (uintptr_t)&mail);
    mail.control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    mail.message.msg_controllen = mail.control.head.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&mail.control.head), &fd, sizeof fd);
    ssize_t sent = sendmsg(ends[0], &mail.message, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(ends[0]);
    if (sent == 1)
        return ends[1];
    close(ends[1]);
    return -1;
}

/* ADDFD refuses O_PATH descriptors, and a message takes them. REMOTE_TRACED also if no message can be had. */
PyObject *remote_py_give_path(Call *call, PyObject *args)
{
    int fd, cloexec;
    if (!PyArg_ParseTuple(args, "ip:give_path", &fd, &cloexec))
        return NULL;
    int source = post(fd);
    if (source < 0)
        return outcome(call, REMOTE_TRACED);
    struct injected injected = {.source = source, .cloexec = true};
    PyObject *made = run(call, injected, receive_path, (uint64_t[6]){cloexec});
    close(source);
    return made;
}

PyObject *remote_py_give_terminal(Call *call, PyObject *args)
{
    int terminal, cloexec;
    if (!PyArg_ParseTuple(args, "ip:give_terminal", &terminal, &cloexec))
        return NULL;
    /* Taken: the master must not see husk's copy once the guest runs on. */
    struct injected injected = {.source = terminal, .cloexec = cloexec, .taken = true};
    return run(call, injected, take_terminal, NULL);
}

/* The thread is stopped once so that the host looks at its signals, whether one is left for it or not: another thread
 * may have taken it. Without the stop, an ERESTARTSYS that meets no signal would reach the program. */
PyObject *remote_py_interrupt(Call *call, PyObject *args)
{
    int number, error;
    if (!PyArg_ParseTuple(args, "i:interrupt", &number))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote_thread thread;
    error = remote_stop_answered(call, number, &thread);
    if (!error)
        error = remote_detach(&thread);
    remote_delete_timer(); /* the calling thread, of kernel/blocking.py, ends after this */
    Py_END_ALLOW_THREADS
    return outcome(call, error);
}
