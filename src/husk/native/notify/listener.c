/* native: the Python class Listener. A receiver waits in the kernel without the GIL. Calls that fastpath/ or remote/
 * can answer never reach Python. */
#include "notify/notify.h"

#include "fastpath/changes.h"
#include "fastpath/fastpath.h"
#include "layer/own_dirs.h"
#include "gate/gate.h"
#include "loader/protocol.h"
#include "remote/remote.h"
#include "trace/trace.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

static void wake_up(int signal)
{
    (void)signal; /* its only effect is EINTR */
}

/* Set the bits of these calls. */
static bool read_numbers(PyObject *numbers, uint64_t calls[])
{
    PyObject *each = PySequence_List(numbers);
    if (!each)
        return false;
    bool good = true;
    for (Py_ssize_t i = 0; good && i < PyList_Size(each); i++) {
        long nr = PyLong_AsLong(PyList_GetItem(each, i));
        good = nr >= 0 && nr < CALL_NUMBERS;
        if (good)
            calls[nr >> 6] |= 1ull << (nr & 63);
        else if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%ld is no call number", nr);
    }
    Py_DECREF(each);
    return good;
}

static int Listener_init(Listener *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", "cookie", "loader_fd", "cached", "mapped", "confined", "shares", "recorder",
                            "gates", "closing", NULL};
    unsigned long long cookie;
    int fd, loader_fd, cached = 1, mapped = 0, confined = 0, gates = 0;
    PyObject *shares = NULL; /* borrowed: a listener whose name cache this one shares */
    PyObject *recorder = NULL; /* borrowed: who writes down every call */
    PyObject *closing = NULL;  /* borrowed: numbers of native calls that are notified because they close gates */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iKi|pppO!O!iO:Listener", names, &fd, &cookie, &loader_fd, &cached,
                                     &mapped, &confined, notify_listener_type, &shares, trace_recorder_type,
                                     &recorder, &gates, &closing))
        return -1;
    struct sigaction action = {.sa_handler = wake_up};
    sigaction(CORE_WAKE_SIGNAL, &action, NULL);
    /* Without the flag (before Linux 6.6) husk is slower, not wrong. */
    ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    self->changes = fast_changes_new();
    self->leader = notify_leader_new();
    self->execs = remote_exec_table_new();
    self->messages = remote_messages_new();
    if (!self->leader || !self->execs || !self->messages) {
        PyErr_NoMemory();
        return -1;
    }
    self->fd = fd;
    self->loader_fd = loader_fd;
    self->cookie = cookie;
    self->mapped = mapped;
    self->confined = confined;
    self->recorder = Py_XNewRef(recorder);
    self->cache = !cached ? NULL : shares ? fast_cache_share(((Listener *)shares)->cache) : fast_cache_new();
    self->gates = gates && self->cache && !recorder ? gate_keeper_new(self, gates > 1) : NULL;
    if (closing && !read_numbers(closing, self->closing))
        return -1;
    return 0;
}

static void Listener_dealloc(Listener *self)
{
    if (self->fd > 0)
        close(self->fd);
    gate_keeper_free(self->gates);
    fast_cache_release(self->cache);
    fast_changes_free(self->changes);
    remote_exec_table_free(self->execs);
    remote_messages_free(self->messages);
    notify_leader_free(self->leader);
    Py_XDECREF(self->recorder);
    core_free((PyObject *)self);
}

static bool is_in(const uint64_t calls[], int nr)
{
    return nr >= 0 && nr < CALL_NUMBERS && calls[nr >> 6] >> (nr & 63) & 1;
}

static bool is_shown(const Listener *self, int nr)
{
    return is_in(self->shown, nr);
}

/* True when `notif` holds a call for Python; false when the box is over. */
static bool receive_as_leader(Listener *self, struct seccomp_notif *notif)
{
    Recorder *recorder = (Recorder *)self->recorder;
    while (!self->stopped) {
        memset(notif, 0, sizeof *notif);
        if (ioctl(self->fd, SECCOMP_IOCTL_NOTIF_RECV, notif) < 0) {
            if (errno == EINTR)
                continue;
            /* ENOENT: the caller died before we received its call, or no guest is left. poll tells which. */
            struct pollfd poll_fd = {.fd = self->fd, .events = POLLIN};
            if (errno != ENOENT || (poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLHUP | POLLERR | POLLNVAL)))
                return false;
            continue;
        }
        notify_unpin_receiver(notif->pid);
        if (notif->data.nr == SYS_sendmsg && remote_is_sealed_send(self, notif)) {
            notify_answer_continue(self->fd, notif->id);
            continue;
        }
        if ((notif->data.nr == SYS_personality || notif->data.nr == SYS_landlock_restrict_self) &&
            remote_is_restricting(self, notif)) {
            notify_answer_continue(self->fd, notif->id);
            continue;
        }
        if (recorder && trace_answer(recorder, self->fd, notif))
            continue;
        switch (notif->data.nr) {
        case SYS_rt_sigaction:
            if (is_shown(self, SYS_rt_sigaction))
                break;
            if (gate_notified(self->gates, notif))
                continue;
            remote_answer_sigaction(self, notif);
            if (recorder)
                trace_answered_in_c(recorder, notif);
            continue;
        case SYS_clone3:
            if (gate_notified(self->gates, notif))
                continue;
            if (is_shown(self, SYS_clone3) || !remote_answer_thread(self, notif))
                break;
            if (recorder)
                trace_answered_in_c(recorder, notif);
            continue;
        case SYS_execve:
        case SYS_execveat:
            remote_exec_drop_failed(self, notif->pid);
            break;
        case SYS_seccomp:
        case SYS_prctl:
        case SYS_ptrace:
            if (!is_in(self->closing, notif->data.nr) || !gate_is_over(notif))
                break;
            gate_close(self->gates);
            notify_answer_continue(self->fd, notif->id); /* native but for this */
            continue;
        case HUSK_CALL:
            gate_executed(self->gates, notif->pid);
            if (remote_exec_answer_loader(self, notif)) {
                if (recorder)
                    trace_loader_asked(recorder, notif->pid);
                continue;
            }
        }
        if (gate_notified(self->gates, notif))
            continue;
        if (!is_shown(self, notif->data.nr) && !remote_is_marked(self, notif->pid) &&
            ((self->cache && fast_answer(self, notif)) || fast_answer_message(self, notif))) {
            if (recorder)
                trace_answered_in_c(recorder, notif);
            continue;
        }
        notify_unpin_receiver(0);
        return true;
    }
    return false;
}

static PyObject *Listener_receive(Listener *self, PyObject *Py_UNUSED(noargs))
{
    struct seccomp_notif notif;
    bool got;
    int shown_tid = 0;
    bool own = false;
    Py_BEGIN_ALLOW_THREADS
    got = notify_leader_acquire(self->leader, &self->stopped) && receive_as_leader(self, &notif);
    if (got) {
        if (self->recorder)
            own = trace_caller((Recorder *)self->recorder, &notif, &shown_tid);
        notify_leader_enter_python(self->leader);
    } else
        notify_leader_release(self->leader);
    Py_END_ALLOW_THREADS
    if (!got)
        Py_RETURN_NONE;
    Call *call = PyObject_New(Call, notify_call_type);
    if (!call)
        return NULL;
    call->listener = (Listener *)Py_NewRef(self);
    call->notif = notif;
    call->shown_tid = shown_tid;
    call->own = own;
    call->received_ns = core_now_ns();
    call->answered = false;
    return (PyObject *)call;
}

static PyObject *Listener_stop(Listener *self, PyObject *Py_UNUSED(noargs))
{
    self->stopped = 1; /* the caller then wakes each receiver until it has left */
    notify_leader_wake_followers(self->leader);
    Py_BEGIN_ALLOW_THREADS
    gate_keeper_end(self->gates);
    fast_held_release(self->cache); /* other runs of the box go on, and hold again what they need */
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *notify_py_wake_thread(PyObject *self, PyObject *args)
{
    (void)self;
    int tid;
    if (!PyArg_ParseTuple(args, "i:wake_thread", &tid))
        return NULL;
    syscall(SYS_tgkill, getpid(), tid, CORE_WAKE_SIGNAL); /* fails if the thread has ended, which needs no wake-up */
    Py_RETURN_NONE;
}

/* To be called before the first receiver starts: `shown` is read without a lock. */
static PyObject *Listener_show(Listener *self, PyObject *numbers)
{
    gate_close(self->gates); /* they would hide calls from Python */
    if (!read_numbers(numbers, self->shown))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef Listener_methods[] = {
    {"receive", (PyCFunction)Listener_receive, METH_NOARGS, "receive(): the next Call, or None when the box is over"},
    {"show", (PyCFunction)Listener_show, METH_O, "show(numbers): Python sees these calls, even if C could answer"},
    {"gate_use", (PyCFunction)gate_py_use, METH_NOARGS,
     "gate_use(): how many calls came through gates, and the processor time of the thread that polls, in ns"},
    {"stop", (PyCFunction)Listener_stop, METH_NOARGS, "stop(): receivers leave at their next wake-up"},
    {"cache_identity", (PyCFunction)fast_py_cache_identity, METH_VARARGS, "the guest's ids, for the name cache"},
    {"cache_learn", (PyCFunction)fast_py_cache_learn, METH_VARARGS, "teach the name cache one directory"},
    {"cache_image", (PyCFunction)fast_py_cache_image, METH_VARARGS,
     "cache_image(manifest, dev, links, blobs): the image the box starts from"},
    {"cache_changes", (PyCFunction)fast_py_cache_changes, METH_VARARGS,
     "cache_changes(start, key, guest_path): C may change names in this taught directory"},
    {"cache_made", (PyCFunction)fast_py_cache_made, METH_VARARGS,
     "cache_made(fd, showing): an open file that the guest made"},
    {"cache_later", (PyCFunction)fast_py_cache_later, METH_VARARGS,
     "cache_later(start, key, guest_path, files_fd, uid, gid, removable, lock): a directory of the host that was "
     "taught, where C may make and hide names in a layer"},
    {"cache_own", (PyCFunction)fast_py_cache_own, METH_VARARGS,
     "cache_own(start, key, owner, guest_path, files_fd, uid, gid, stat, names, beneath, above, name, removable, "
     "lock): a directory where the box has changed names, or that is its own. The lock is the vfs's"},
    {"take_changes", (PyCFunction)fast_py_take_changes, METH_NOARGS,
     "take_changes(): what C changed since the last time, in order"},
    {"cache_handle", (PyCFunction)fast_py_cache_handle, METH_VARARGS,
     "cache_handle(dev, ino, showing, only_tid=0, name=b''): an open host file"},
    {"cache_path", (PyCFunction)fast_py_cache_path, METH_VARARGS,
     "cache_path(number, path): of the directory with this placeholder"},
    {"cache_listing", (PyCFunction)fast_py_cache_listing, METH_VARARGS,
     "cache_listing(place, stamp, records): what getdents64 answers for a taught directory"},
    {"begun", (PyCFunction)remote_py_begun, METH_O,
     "begun(tgid): description of the program last started in a process"},
    {"program_learn", (PyCFunction)fast_py_program_learn, METH_VARARGS,
     "teach a program, so that C can execute it again"},
    {"mark", (PyCFunction)remote_py_mark, METH_O, "mark(tid): the personality of a thread, with husk's mark"},
    {"use_marks", (PyCFunction)remote_py_use_marks, METH_NOARGS,
     "use_marks(): from now on C answers no call of a thread with a mark"},
    {"cache_watched", (PyCFunction)fast_py_cache_watched, METH_NOARGS,
     "cache_watched(): a guest watches files (inotify)"},
    {"cache_losses", (PyCFunction)fast_py_cache_losses, METH_NOARGS,
     "cache_losses(): how often C itself forgot everything that it was taught"},
    {"cache_direct", (PyCFunction)fast_py_cache_direct, METH_VARARGS,
     "cache_direct(table_fd, root_fd, name): guests see this host directory in their own root"},
    {"cache_links", (PyCFunction)fast_py_cache_links, METH_NOARGS,
     "cache_links(): a file with several names is about to be opened through a mount"},
    {"cache_off", (PyCFunction)fast_py_cache_off, METH_NOARGS,
     "cache_off(): answer nothing from the name cache any more"},
    {"cache_forget", (PyCFunction)fast_py_cache_forget, METH_VARARGS,
     "cache_forget(owner, taught, links_changed, programs): forget what was taught"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, Listener_dealloc},
    {Py_tp_init, Listener_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, Listener_methods},
    {0, NULL},
};

PyTypeObject *notify_listener_type;
PyType_Spec notify_listener_spec = {
    .name = "husk.native._core.Listener",
    .basicsize = sizeof(Listener),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
