/* native: a thread takes on Landlock rules that husk judges by (kernel/syscalls/restricting.py).
 *
 * Goal. A rule holds for a thread and for everything that it starts, for ever, and husk keeps no table of processes. So
 * the host kernel has to keep a mark for each thread and pass it on by clone and execve.
 *
 * Chosen: bits of personality(2) that mean nothing to Linux. It keeps every bit it is given, per thread, and execve
 * leaves them alone. /proc/TID/personality shows them. Guests cannot change them: the filter lets only the question
 * through, and notifies what would set them. The cookie does not help there, because it is no secret: husk's own call
 * is notified too, and a receiver lets it continue if it is of a thread that is stopped here. So this must run in a
 * thread that does not receive, and the receiver asks who traces the thread (as in sealed_send.c). The same holds for
 * landlock_restrict_self, with which the host confines signals and tracing. */
#include "remote/remote.h"

#include "gate/gate.h"
#include "host/host.h"

#include "notify/notify.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* What the host does for a domain of a guest. In this order in the kernel's struct landlock_ruleset_attr. */
struct handled {
    uint64_t fs, net, scoped;
};

/* ---- the mark ---------------------------------------------------------------------------------------------------- */

static int64_t personality_of(pid_t tid)
{
    char text[24];
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/personality", tid);
    return n > 0 ? strtol(text, NULL, 16) : -1;
}

bool remote_is_marked(const Listener *listener, pid_t tid)
{
    if (!__atomic_load_n(&listener->marks, __ATOMIC_ACQUIRE))
        return false;
    int64_t found = personality_of(tid); /* -1, of a thread that cannot be asked, has all bits */
    return found & REMOTE_MARK;
}

/* mark(tid): the mark of a thread. */
PyObject *remote_py_mark(Listener *self, PyObject *tid)
{
    (void)self;
    long number = PyLong_AsLong(tid);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    int64_t found = personality_of((pid_t)number);
    return found < 0 ? core_raise_errno(ESRCH) : PyLong_FromLongLong(found);
}

PyObject *remote_py_use_marks(Listener *self, PyObject *noargs)
{
    (void)noargs;
    __atomic_store_n(&self->marks, 1, __ATOMIC_RELEASE);
    Py_BEGIN_ALLOW_THREADS
    gate_close(self->gates);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* ---- calls that husk makes in a guest's place ------------------------------------------------------------------- */

/* A thread, and the personality that it is to get: another one it must not set for itself meanwhile. */
static uint64_t expected(pid_t tid, uint32_t persona)
{
    return (uint64_t)tid << 32 | persona;
}

bool remote_is_restricting(const Listener *listener, const struct seccomp_notif *notif)
{
    bool marks = notif->data.nr == SYS_personality;
    uint64_t wanted = expected(notif->pid, marks ? (uint32_t)notif->data.args[0] : 0);
    for (int i = 0; i < CORE_RESTRICTING; i++) {
        uint64_t found = __atomic_load_n(&listener->restricting[i], __ATOMIC_ACQUIRE);
        if (found && (marks ? found : found & ~0xffffffffULL) == wanted &&
            guest_tracer(notif->pid) == __atomic_load_n(&listener->restrictors[i], __ATOMIC_ACQUIRE))
            return true;
    }
    return false;
}

static int announce(Listener *listener, pid_t tid, uint32_t persona)
{
    for (int i = 0; i < CORE_RESTRICTING; i++) {
        uint64_t none = 0;
        if (__atomic_compare_exchange_n(&listener->restricting[i], &none, expected(tid, persona), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            __atomic_store_n(&listener->restrictors[i], (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
            return i;
        }
    }
    return -1;
}

/* `value`: what the guest's call returns. -EINVAL: the thread made another call than husk wanted. */
static int restrict_stopped(struct remote_thread *thread, int ruleset, uint32_t persona, int64_t *value)
{
    long result = 0, closed = 0;
    int error = 0;
    *value = -EPERM;
    if (ruleset >= 0) {
        const uint64_t enforce[6] = {ruleset, 0, 0, 0, 0, 0}, end[6] = {ruleset, 0, 0, 0, 0, thread->cookie};
        error = remote_checked_call(thread, SYS_landlock_restrict_self, enforce, &result);
        if (!error)
            error = remote_call(thread, SYS_close, end, &closed);
        if (error || result < 0) {
            *value = error ? -EPERM : result;
            return error;
        }
    }
    const uint64_t mark[6] = {persona, 0, 0, 0, 0, 0};
    error = remote_checked_call(thread, SYS_personality, mark, &result);
    if (!error && result >= 0 && personality_of(thread->tid) == (int64_t)persona)
        *value = ruleset >= 0 ? 0 : result & ~(long)REMOTE_MARK;
    return error;
}

PyObject *remote_py_restrict(Call *call, PyObject *args)
{
    Listener *listener = call->listener;
    int ruleset, error, fd = -1, slot;
    unsigned int persona;
    if (!PyArg_ParseTuple(args, "iI:restrict", &ruleset, &persona))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    struct remote_thread thread;
    int64_t value = -EPERM;
    pid_t tid = (pid_t)call->notif.pid;
    slot = announce(listener, tid, persona);
    if (slot < 0)
        error = REMOTE_TRACED;
    else if (ruleset < 0)
        error = remote_stop_answered(call, EPERM, &thread);
    else
        error = remote_stop_with_fd(listener->fd, &call->notif, ruleset, true, &thread, &fd);
    if (!error)
        error = remote_block_signals(&thread);
    if (!error) {
        thread.cookie = listener->cookie;
        trace_own_begin((Recorder *)listener->recorder, tid);
        error = restrict_stopped(&thread, fd, persona, &value);
        trace_own_end((Recorder *)listener->recorder, tid);
        if (error == -EINVAL)
            error = 0;
    }
    /* Before the thread runs on: from here its calls are its own. */
    if (slot >= 0)
        __atomic_store_n(&listener->restricting[slot], 0, __ATOMIC_RELEASE);
    if (!error)
        error = remote_finish(&thread, value);
    remote_delete_timer(); /* the calling thread, of kernel/blocking.py, ends after this */
    Py_END_ALLOW_THREADS
    call->answered = error != REMOTE_TRACED;
    return PyLong_FromLong(error);
}

/* ---- the host's share ------------------------------------------------------------------------------------------- */

static int make_ruleset(uint64_t fs, uint64_t scoped)
{
    struct handled handled = {.fs = fs, .scoped = scoped};
    /* A kernel that does not know the last fields takes a shorter struct. */
    return (int)syscall(SYS_landlock_create_ruleset, &handled, scoped ? sizeof handled : sizeof handled.fs, 0);
}

/* One rule: `rights` for the file `fd`. */
static bool allow(int ruleset, uint64_t rights, int fd)
{
    struct __attribute__((packed)) { uint64_t rights; int32_t fd; } rule = {rights, fd};
    return syscall(SYS_landlock_add_rule, ruleset, 1 /* path beneath */, &rule, 0) == 0;
}

/* landlock_ruleset(fs, scoped, files=()) -> descriptor of a ruleset; `files`: descriptors of files that it leaves the
 * rights `fs` to */
PyObject *remote_py_landlock_ruleset(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long fs, scoped;
    PyObject *files = NULL;
    if (!PyArg_ParseTuple(args, "KK|O!:landlock_ruleset", &fs, &scoped, &PyTuple_Type, &files))
        return NULL;
    int fd = make_ruleset(fs, scoped);
    for (Py_ssize_t i = 0; fd >= 0 && files && i < PyTuple_Size(files); i++) {
        long file = PyLong_AsLong(PyTuple_GetItem(files, i));
        if (PyErr_Occurred() || !allow(fd, fs, (int)file)) {
            int error = errno;
            close(fd);
            return PyErr_Occurred() ? NULL : core_raise_errno(error);
        }
    }
    return fd < 0 ? core_raise_errno(errno) : PyLong_FromLong(fd);
}

struct opening {
    const char *path;
    int flags, ruleset, result;
};

static void *open_restricted(void *argument)
{
    struct opening *o = argument;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_landlock_restrict_self, o->ruleset, 0) < 0)
        o->result = -errno;
    else if ((o->result = open(o->path, o->flags | O_CLOEXEC | O_NOCTTY)) < 0)
        o->result = -errno;
    return NULL;
}

/* open_without(path, flags, fs) -> descriptor. Opened in a thread that lacks the Landlock rights `fs`. The host
 * remembers them with the open file: later ftruncate(2) or ioctl(2) on it fail with EACCES, in every process. */
PyObject *remote_py_open_without(PyObject *self, PyObject *args)
{
    (void)self;
    struct opening o = {.result = -EAGAIN};
    unsigned long long fs;
    pthread_t thread;
    if (!PyArg_ParseTuple(args, "yiK:open_without", &o.path, &o.flags, &fs))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    o.ruleset = make_ruleset(fs, 0);
    if (o.ruleset < 0)
        o.result = -errno;
    else {
        if (pthread_create(&thread, NULL, open_restricted, &o) == 0)
            pthread_join(thread, NULL);
        close(o.ruleset);
    }
    Py_END_ALLOW_THREADS
    return o.result < 0 ? core_raise_errno(-o.result) : PyLong_FromLong(o.result);
}
