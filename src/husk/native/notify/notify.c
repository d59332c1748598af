/* native: the listener. A receiver waits in the kernel without the GIL; what the name cache or the signal room can answer
 * never reaches Python. */
#include "core.h"
#include "loader/protocol.h"
#include "notify/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void wake_up(int signal)
{
    (void)signal; /* its only effect is EINTR */
}

static int Listener_init(Listener *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", "cookie", "loader_fd", "cached", "mapped", "confined", "shares", NULL};
    unsigned long long cookie;
    int fd, loader_fd, cached = 1, mapped = 0, confined = 0;
    PyObject *shares = NULL; /* a listener whose name cache this one uses, too */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iKi|pppO!:Listener", names, &fd, &cookie, &loader_fd, &cached, &mapped,
                                     &confined, &Listener_type, &shares))
        return -1;
    struct sigaction action = {.sa_handler = wake_up};
    sigaction(WAKE_SIGNAL, &action, NULL);
    /* Older kernels lack the flag: slower, not wrong. */
    ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    self->lead = lead_new();
    self->pending = pending_table_new();
    if (!self->lead || !self->pending) {
        PyErr_NoMemory();
        return -1;
    }
    self->fd = fd;
    self->loader_fd = loader_fd;
    self->cookie = cookie;
    self->mapped = mapped;
    self->confined = confined;
    self->cache = !cached ? NULL : shares ? cache_share(((Listener *)shares)->cache) : cache_new();
    return 0;
}

static void Listener_dealloc(Listener *self)
{
    if (self->fd > 0)
        close(self->fd);
    cache_free(self->cache);
    pending_table_free(self->pending);
    lead_free(self->lead);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static bool is_shown(const Listener *self, int nr)
{
    return nr >= 0 && nr < 512 && self->shown[nr >> 6] >> (nr & 63) & 1;
}

/* True when `notif` holds a call for Python; false when the box is over. */
static bool receive_as_leader(Listener *self, struct seccomp_notif *notif)
{
    while (!self->stopped) {
        memset(notif, 0, sizeof *notif);
        if (ioctl(self->fd, SECCOMP_IOCTL_NOTIF_RECV, notif) < 0) {
            if (errno == EINTR)
                continue;
            /* ENOENT: the caller died before we looked, or nobody is left; poll tells which. */
            struct pollfd poll_fd = {.fd = self->fd, .events = POLLIN};
            if (errno != ENOENT || (poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLHUP | POLLERR | POLLNVAL)))
                return false;
            continue;
        }
        pin_let_go(notif->pid);
        switch (notif->data.nr) {
        case SYS_rt_sigaction:
            serve_rt_sigaction(self, notif);
            continue;
        case SYS_execve:
        case SYS_execveat:
            pending_drop_stale(self, notif->pid);
            break;
        case HUSK_CALL:
            if (pending_answer_loader(self, notif))
                continue;
        }
        if (!is_shown(self, notif->data.nr) &&
            ((self->cache && cache_answer(self, notif)) || serve_message(self, notif)))
            continue;
        pin_let_go(0);
        return true;
    }
    return false;
}

static PyObject *Listener_receive(Listener *self, PyObject *Py_UNUSED(noargs))
{
    struct seccomp_notif notif;
    bool got;
    Py_BEGIN_ALLOW_THREADS
    got = lead_take(self->lead, &self->stopped) && receive_as_leader(self, &notif);
    if (got)
        lead_into_python(self->lead);
    else
        lead_drop(self->lead);
    Py_END_ALLOW_THREADS
    if (!got)
        Py_RETURN_NONE;
    Call *call = PyObject_New(Call, &Call_type);
    if (!call)
        return NULL;
    call->listener = (Listener *)Py_NewRef(self);
    call->notif = notif;
    call->answered = false;
    return (PyObject *)call;
}

static PyObject *Listener_stop(Listener *self, PyObject *Py_UNUSED(noargs))
{
    self->stopped = 1; /* the caller then wakes each receiver until it has left */
    lead_wake(self->lead);
    Py_RETURN_NONE;
}

PyObject *wake_thread(PyObject *self, PyObject *args)
{
    (void)self;
    int tid;
    if (!PyArg_ParseTuple(args, "i:wake_thread", &tid))
        return NULL;
    syscall(SYS_tgkill, getpid(), tid, WAKE_SIGNAL); /* a thread that has left needs no waking */
    Py_RETURN_NONE;
}

PyObject *open_interruptible(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    int flags, fd;
    long long user = -1; /* for whom a FIFO's buffer counts */
    if (!PyArg_ParseTuple(args, "yi|L:open_interruptible", &path, &flags, &user))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (as_other(user))
        fd = open_as((uid_t)user, path, flags | O_CLOEXEC);
    else if ((fd = open(path, flags | O_CLOEXEC)) < 0) /* Python's own open would try again after EINTR */
        fd = -errno;
    Py_END_ALLOW_THREADS
    return fd < 0 ? raise_errno(-fd) : PyLong_FromLong(fd);
}

/* Before the first receiver: it is read without a lock. */
static PyObject *Listener_show(Listener *self, PyObject *numbers)
{
    PyObject *each = PySequence_Fast(numbers, "show() takes call numbers");
    if (!each)
        return NULL;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(each); i++) {
        long nr = PyLong_AsLong(PySequence_Fast_GET_ITEM(each, i));
        if (nr < 0 || nr >= 512) {
            Py_DECREF(each);
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "%ld is no call number", nr);
        }
        self->shown[nr >> 6] |= 1ull << (nr & 63);
    }
    Py_DECREF(each);
    Py_RETURN_NONE;
}

static PyMethodDef Listener_methods[] = {
    {"receive", (PyCFunction)Listener_receive, METH_NOARGS, "receive(): the next Call, or None when the box is over"},
    {"show", (PyCFunction)Listener_show, METH_O, "show(numbers): no such call is answered without Python"},
    {"stop", (PyCFunction)Listener_stop, METH_NOARGS, "stop(): receivers leave at their next wake-up"},
    {"cache_identity", (PyCFunction)listener_cache_identity, METH_VARARGS, "who the guest is, for the name cache"},
    {"cache_learn", (PyCFunction)listener_cache_learn, METH_VARARGS, "teach the name cache one directory"},
    {"cache_image", (PyCFunction)listener_cache_image, METH_VARARGS, "cache_image(manifest, dev, links, blobs): what the box starts from"},
    {"cache_handle", (PyCFunction)listener_cache_handle, METH_VARARGS, "cache_handle(dev, ino, showing): an open host file"},
    {"cache_listing", (PyCFunction)listener_cache_listing, METH_VARARGS,
     "cache_listing(place, stamp, end, records): what getdents64 says of a taught directory"},
    {"begun", (PyCFunction)listener_begun, METH_O, "the description of the program C last started in a process"},
    {"program_learn", (PyCFunction)listener_program_learn, METH_VARARGS, "teach a program, to be executed again"},
    {"cache_watched", (PyCFunction)listener_cache_watched, METH_NOARGS, "cache_watched(): somebody watches files now"},
    {"cache_forget", (PyCFunction)listener_cache_forget, METH_VARARGS, "cache_forget(owner, taught): take it back"},
    {NULL, NULL, 0, NULL},
};

PyTypeObject Listener_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "husk.native._core.Listener",
    .tp_basicsize = sizeof(Listener),
    .tp_dealloc = (destructor)Listener_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_init = (initproc)Listener_init,
    .tp_new = PyType_GenericNew,
    .tp_methods = Listener_methods,
};
