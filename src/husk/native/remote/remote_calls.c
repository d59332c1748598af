/* native: the remote calls Python asks for — executing the loader, moving to another working directory, seeking, mapping
 * shared memory, taking a controlling terminal, and running a handler. */
#include "core.h"
#include "notify/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif

/* What the remote calls here return when somebody else traces the thread: then nobody has answered yet, and Python will. */
#define TRACED (-EBUSY)

/* Attach, answer with `source` put into the guest's table, and stop the thread on its way out, before it can look at the
 * number it was given. On failure but TRACED the call has been answered with an error and the thread runs on. */
static int stop_with_descriptor(int listener, const struct seccomp_notif *notif, int source, bool cloexec,
                                struct remote *remote, int *guest_fd)
{
    int error;
    uint64_t id = notif->id;
    pid_t tid = notif->pid;
    struct pin pin;

    pin_if_it_helps(&pin, tid); /* already here: to attach wakes the thread, too */
    error = remote_attach(tid);
    if (error) {
        pin_release(&pin);
        if (error != -ESRCH)
            return TRACED;
        answer_error(listener, id, ESRCH);
        return error;
    }
    if (!still_valid(listener, id)) { /* the number belongs to somebody else by now */
        pin_release(&pin);
        remote_abandon(tid);
        return -ESRCH;
    }
    *guest_fd = inject_descriptor(listener, notif, source, cloexec);
    pin_release(&pin);
    if (*guest_fd < 0)
        answer_error(listener, id, -*guest_fd);
    else
        answer_value(listener, id, *guest_fd);
    /* Answered, the thread leaves the call, and cannot run user code before we let it. */
    error = remote_wait_stop(remote, tid);
    if (!error && *guest_fd < 0) {
        remote_detach(remote);
        error = *guest_fd;
    }
    return error;
}

#define FEW 64        /* strings of a list, and … */
#define SHORT 512     /* … bytes of a string: 64 KiB at most in both lists */

/* Could the host find arguments and environment too long (E2BIG)? Its limit is 128 KiB at least, so that few short strings
 * are never too long. Only a guess, which says whether the call is worth being watched to its end: that holds up the
 * receiving thread. -EFAULT: a list cannot be read. */
static int may_be_too_long(pid_t tid, uint64_t argv, uint64_t envp)
{
    uint64_t lists[2] = {argv, envp}, strings[FEW + 1];
    char texts[2 * FEW * SHORT];
    struct iovec local = {texts, 0}, parts[2 * FEW];
    int count = 0;
    for (int list = 0; list < 2; list++) {
        if (!lists[list])
            continue;
        ssize_t n = guest_read(tid, lists[list], strings, sizeof strings) / (ssize_t)sizeof *strings, i = 0;
        if (n <= 0)
            return -EFAULT;
        for (; i < n && i < FEW && strings[i]; i++) {
            if (i + 1 < n && strings[i + 1] > strings[i] && strings[i + 1] - strings[i] <= SHORT)
                continue; /* it ends where its neighbour begins */
            size_t in_page = 4096 - (strings[i] & 4095);
            parts[count] = (struct iovec){(void *)(uintptr_t)strings[i], in_page < SHORT ? in_page : SHORT};
            local.iov_len += parts[count++].iov_len;
        }
        if (i == n || strings[i])
            return true;
    }
    if (count && process_vm_readv(tid, &local, 1, parts, count, 0) != (ssize_t)local.iov_len)
        return true;
    const char *text = texts;
    for (int i = 0; i < count; text += parts[i++].iov_len)
        if (!memchr(text, 0, parts[i].iov_len))
            return true;
    return false;
}

int execute_loader(Listener *listener, const struct seccomp_notif *notif, int loader, uint64_t empty, uint64_t argv,
                   uint64_t envp, struct pending *pending)
{
    struct remote remote;
    pid_t tgid = thread_group(notif->pid); /* that it was this thread's is known once stop_with_descriptor succeeds */
    /* What the host refuses after all leaves the loader's descriptor behind in the guest: look before. */
    int too_long = may_be_too_long(notif->pid, argv, envp);
    if (too_long < 0) {
        answer_error(listener->fd, notif->id, EFAULT);
        pending_free(pending);
        return -EFAULT;
    }
    int fd, error = stop_with_descriptor(listener->fd, notif, loader, true, &remote, &fd);
    if (error) {
        pending_free(pending);
        return error;
    }
    pending_expect(listener, pending, tgid, notif->pid, fd); /* before the thread can go on and its loader ask */
    /* A racing guest could rewrite the empty string; then the host would look for a path below the loader, which is a
     * file, or in a root that is empty, and Landlock lets nothing but the loader be executed anyway. */
    uint64_t become[6] = {fd, empty, argv, envp, AT_EMPTY_PATH, listener->cookie};
    /* A thread that does not lead its process gets another number on the way, and cannot be waited for by this one. */
    return remote_execute(&remote, become, too_long && tgid == (pid_t)notif->pid);
}

PyObject *call_exec_loader(Call *call, PyObject *args)
{
    int loader, program_fd, interpreter_fd, error;
    unsigned long long empty, argv, envp;
    const char *info;
    Py_ssize_t info_size;
    if (!PyArg_ParseTuple(args, "iKKKiiy#:exec_loader", &loader, &empty, &argv, &envp, &program_fd, &interpreter_fd, &info,
                          &info_size))
        return NULL;
    struct pending *pending = pending_new(program_fd, interpreter_fd, info, info_size);
    if (!pending)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    error = execute_loader(call->listener, &call->notif, loader, empty, argv, envp, pending);
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}

/* Answer with any value, and stop the thread on its way out with its signals blocked; likewise. */
static int stop_answered(Call *call, struct remote *remote)
{
    int error = remote_attach(call->notif.pid);
    if (error == -ESRCH)
        answer_error(call->listener->fd, call->notif.id, ESRCH);
    else if (error)
        return TRACED;
    else if (answer_value(call->listener->fd, call->notif.id, 0)) {
        remote_abandon(call->notif.pid);
        error = -ESRCH;
    }
    if (!error)
        error = remote_wait_stop(remote, call->notif.pid);
    return error ? error : remote_block_signals(remote);
}

PyObject *call_seek(Call *call, PyObject *args)
{
    int fd, error;
    long long position, value;
    if (!PyArg_ParseTuple(args, "iLL:seek", &fd, &position, &value))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote remote;
    long moved;
    uint64_t that[6] = {fd, position, 0 /* SEEK_SET */};
    error = stop_answered(call, &remote);
    if (!error)
        error = remote_call(&remote, SYS_lseek, that, &moved);
    if (!error)
        error = remote_finish(&remote, moved < 0 ? moved : value);
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}

/* The thread passes where the host looks at its signals, whether one is left for it or not: another may have taken it, and
 * without the stop an ERESTARTSYS that meets no signal would come out as it is, an error no program knows. */
PyObject *call_interrupt(Call *call, PyObject *args)
{
    int number, error;
    if (!PyArg_ParseTuple(args, "i:interrupt", &number))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote remote;
    error = remote_attach(call->notif.pid);
    if (error == -ESRCH)
        answer_error(call->listener->fd, call->notif.id, ESRCH);
    else if (error)
        error = TRACED;
    else if (answer_error(call->listener->fd, call->notif.id, number)) {
        remote_abandon(call->notif.pid);
        error = -ESRCH;
    } else {
        error = remote_wait_stop(&remote, call->notif.pid);
        if (!error)
            error = remote_detach(&remote);
    }
    remote_thread_ends(); /* a thread of kernel/blocking.py, which has done what it was made for */
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}

PyObject *call_unmap(Call *call, PyObject *args)
{
    int error;
    unsigned long long address, size;
    if (!PyArg_ParseTuple(args, "KK:unmap", &address, &size))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote remote;
    long result;
    uint64_t that[6] = {address, size};
    error = stop_answered(call, &remote);
    if (!error)
        error = remote_call(&remote, SYS_munmap, that, &result);
    if (!error)
        error = remote_finish(&remote, result);
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}

PyObject *call_map(Call *call, PyObject *args)
{
    int file, protection, flags, error, fd;
    unsigned long long address, size;
    if (!PyArg_ParseTuple(args, "iKKii:map", &file, &address, &size, &protection, &flags))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote remote;
    long mapped = 0, closed = 0;
    error = stop_with_descriptor(call->listener->fd, &call->notif, file, true, &remote, &fd);
    if (!error)
        error = remote_block_signals(&remote);
    if (!error) {
        uint64_t that[6] = {address, size, protection, flags, fd, 0}, done[6] = {fd};
        error = remote_call(&remote, SYS_mmap, that, &mapped);
        if (!error)
            error = remote_call(&remote, SYS_close, done, &closed);
        if (!error) /* something else is mapped there: for a segment just no address to be at */
            error = remote_finish(&remote, mapped == -EEXIST ? -EINVAL : mapped);
    }
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}

PyObject *call_change_directory(Call *call, PyObject *args)
{
    int directory, error, fd;
    if (!PyArg_ParseTuple(args, "i:change_directory", &directory))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote remote;
    long moved = 0, closed = 0;
    error = stop_with_descriptor(call->listener->fd, &call->notif, directory, true, &remote, &fd);
    if (!error)
        error = remote_block_signals(&remote);
    if (!error) {
        uint64_t that[6] = {fd};
        error = remote_call(&remote, SYS_fchdir, that, &moved);
        if (!error)
            error = remote_call(&remote, SYS_close, that, &closed);
        if (!error)
            error = remote_finish(&remote, moved);
    }
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}

PyObject *call_give_terminal(Call *call, PyObject *args)
{
    int terminal, cloexec, error, fd;
    if (!PyArg_ParseTuple(args, "ip:give_terminal", &terminal, &cloexec))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote remote;
    long taken = 0;
    error = stop_with_descriptor(call->listener->fd, &call->notif, terminal, cloexec, &remote, &fd);
    close(terminal); /* ours in any case; a master must not see husk's copy once the guest runs on */
    if (!error)
        error = remote_block_signals(&remote);
    if (!error) {
        /* Refused where it is somebody else's already, or open for writing only: then it is just an open file. */
        uint64_t that[6] = {fd, TIOCSCTTY, 0};
        error = remote_call(&remote, SYS_ioctl, that, &taken);
        if (!error)
            error = remote_finish(&remote, fd);
    }
    Py_END_ALLOW_THREADS
    call->answered = error != TRACED;
    return PyLong_FromLong(error);
}
