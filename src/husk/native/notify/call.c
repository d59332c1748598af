/* native: the Python class Call, one received notification. */
#include "notify/notify.h"

#include "remote/remote.h"

#include <errno.h>
#include <unistd.h>

#include "structmember.h"

static void Call_dealloc(Call *self)
{
    Py_XDECREF(self->listener);
    core_free((PyObject *)self);
}

/* The tid may have been reused. Only a call that still waits proves that `result` was read from the caller. */
static PyObject *require_valid(Call *self, PyObject *result)
{
    if (result && !notify_is_valid(self->listener->fd, self->notif.id)) {
        Py_DECREF(result);
        return core_raise_errno(ESRCH);
    }
    return result;
}

static PyObject *Call_cstring(Call *self, PyObject *args)
{
    unsigned long long address;
    int limit = 4096;
    if (!PyArg_ParseTuple(args, "K|i:cstring", &address, &limit))
        return NULL;
    char small[4096], *buffer = small;
    if (limit > (int)sizeof small && !(buffer = PyMem_Malloc(limit)))
        return PyErr_NoMemory();
    ssize_t n = guest_string(self->notif.pid, address, buffer, limit);
    PyObject *result = n < 0 ? core_raise_errno(n == -ENAMETOOLONG ? ENAMETOOLONG : n == -ESRCH ? ESRCH : EFAULT)
                             : PyBytes_FromStringAndSize(buffer, n);
    if (buffer != small)
        PyMem_Free(buffer);
    return require_valid(self, result);
}

static PyObject *Call_read(Call *self, PyObject *args)
{
    unsigned long long address;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Kn:read", &address, &size))
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, size);
    if (!result)
        return NULL;
    ssize_t n = size ? guest_read(self->notif.pid, address, PyBytes_AsString(result), size) : 0;
    if (n != size) {
        Py_DECREF(result);
        return core_raise_errno(n == -ESRCH ? ESRCH : EFAULT);
    }
    return require_valid(self, result);
}

static PyObject *Call_write(Call *self, PyObject *args)
{
    unsigned long long address;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "Ky*:write", &address, &data))
        return NULL;
    ssize_t n = -ESRCH;
    if (notify_is_valid(self->listener->fd, self->notif.id))
        n = data.len ? guest_write(self->notif.pid, address, data.buf, data.len) : 0;
    bool whole = n == data.len;
    PyBuffer_Release(&data);
    if (!whole)
        return core_raise_errno(n == -ESRCH ? ESRCH : EFAULT);
    Py_RETURN_NONE;
}

static PyObject *answered(Call *self, int outcome)
{
    self->answered = true;
    /* ENOENT: the caller died while we worked. No error to report. */
    if (outcome < 0 && outcome != -ENOENT)
        return core_raise_errno(-outcome);
    return PyLong_FromLong(outcome < 0 ? -1 : outcome);
}

static PyObject *Call_reply(Call *self, PyObject *value)
{
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return NULL;
    return answered(self, notify_answer_value(self->listener->fd, self->notif.id, number));
}

static PyObject *Call_fail(Call *self, PyObject *value)
{
    long error = PyLong_AsLong(value);
    if (error == -1 && PyErr_Occurred())
        return NULL;
    return answered(self, notify_answer_error(self->listener->fd, self->notif.id, (int)error));
}

static PyObject *Call_proceed(Call *self, PyObject *Py_UNUSED(noargs))
{
    return answered(self, notify_answer_continue(self->listener->fd, self->notif.id));
}

static PyObject *Call_reply_fd(Call *self, PyObject *args)
{
    int source, cloexec, alone, outcome;
    if (!PyArg_ParseTuple(args, "ipp:reply_fd", &source, &cloexec, &alone))
        return NULL;
    /* Takes over `source`, on failure too. `alone`: husk's copy would be observable for FIFOs and writable files,
     * because a reader would still find a writer after the guest closed its own descriptor. So husk closes it before
     * the guest runs on. Otherwise answering first is cheaper. */
    Py_BEGIN_ALLOW_THREADS
    if (alone) {
        outcome = notify_inject_fd_pinned(self->listener->fd, &self->notif, source, cloexec);
        close(source);
        if (outcome >= 0)
            notify_answer_value(self->listener->fd, self->notif.id, outcome);
    } else {
        outcome = notify_answer_fd(self->listener->fd, &self->notif, source, cloexec);
        close(source);
    }
    Py_END_ALLOW_THREADS
    /* EMFILE and the like leave the call unanswered; Python then fails it. */
    if (outcome < 0 && outcome != -ENOENT)
        return core_raise_errno(-outcome);
    return answered(self, outcome);
}

static PyObject *Call_add_fd(Call *self, PyObject *args)
{
    int source, cloexec;
    if (!PyArg_ParseTuple(args, "ip:add_fd", &source, &cloexec))
        return NULL;
    int fd = notify_inject_fd_pinned(self->listener->fd, &self->notif, source, cloexec);
    return fd < 0 ? core_raise_errno(-fd) : PyLong_FromLong(fd);
}

static PyObject *Call_valid(Call *self, PyObject *Py_UNUSED(noargs))
{
    return PyBool_FromLong(notify_is_valid(self->listener->fd, self->notif.id));
}

static PyObject *Call_args(Call *self, void *Py_UNUSED(closure))
{
    const __u64 *a = self->notif.data.args;
    return Py_BuildValue("(KKKKKK)", (unsigned long long)a[0], (unsigned long long)a[1], (unsigned long long)a[2],
                         (unsigned long long)a[3], (unsigned long long)a[4], (unsigned long long)a[5]);
}

static PyMethodDef Call_methods[] = {
    {"cstring", (PyCFunction)Call_cstring, METH_VARARGS, "cstring(address, limit=4096): a NUL-terminated guest string"},
    {"read", (PyCFunction)Call_read, METH_VARARGS, "read(address, size): guest memory, EFAULT unless all is there"},
    {"write", (PyCFunction)Call_write, METH_VARARGS, "write(address, data): into guest memory"},
    {"reply", (PyCFunction)Call_reply, METH_O, "reply(value): the call returns value"},
    {"fail", (PyCFunction)Call_fail, METH_O, "fail(errno): the call fails"},
    {"proceed", (PyCFunction)Call_proceed, METH_NOARGS, "proceed(): the host kernel runs the call"},
    {"reply_fd", (PyCFunction)Call_reply_fd, METH_VARARGS,
     "reply_fd(fd, cloexec, alone): hand it over and return its number"},
    {"add_fd", (PyCFunction)Call_add_fd, METH_VARARGS, "add_fd(fd, cloexec): inject, the call stays open"},
    {"valid", (PyCFunction)Call_valid, METH_NOARGS, "valid(): does the caller still wait?"},
    {"fd_link", (PyCFunction)guest_py_fd_link, METH_VARARGS,
     "fd_link(fd): the host's name of a guest descriptor; EBADF"},
    {"fd_stat", (PyCFunction)guest_py_fd_stat, METH_VARARGS, "fd_stat(fd): the host's fstat of a guest descriptor"},
    {"position", (PyCFunction)guest_py_position, METH_VARARGS, "position(fd): the file position of a guest descriptor"},
    {"set_owner", (PyCFunction)remote_py_set_owner, METH_VARARGS,
     "set_owner(fd, owner): the guest's thread makes a process or, if negative, a group the owner of its descriptor"},
    {"seek", (PyCFunction)remote_py_seek, METH_VARARGS,
     "seek(fd, position, value): the guest seeks, and the call returns value"},
    {"map", (PyCFunction)remote_py_map, METH_VARARGS,
     "map(fd, address, size, protection, flags): the guest maps this file, and the call returns the address"},
    {"interrupt", (PyCFunction)remote_py_interrupt, METH_VARARGS,
     "interrupt(errno): the call fails, or is restarted (ERESTARTSYS), and the thread looks at its signals"},
    {"send", (PyCFunction)remote_py_send, METH_VARARGS,
     "send(fd, own_fd, parts, control, flags, waits, stream, address): the guest's thread sends this message"},
    {"unmap", (PyCFunction)remote_py_unmap, METH_VARARGS,
     "unmap(address, size): the guest unmaps, and the call returns 0"},
    {"get_fd", (PyCFunction)guest_py_get_fd, METH_VARARGS, "get_fd(fd): a duplicate of a guest descriptor"},
    {"cwd_link", (PyCFunction)guest_py_cwd_link, METH_NOARGS, "cwd_link(): the host's name of the working directory"},
    {"umask", (PyCFunction)guest_py_umask, METH_NOARGS, "umask(): of the calling thread"},
    {"table_is_full", (PyCFunction)guest_py_table_is_full, METH_NOARGS,
     "table_is_full(): has the calling thread certainly no free descriptor below its limit?"},
    {"tgid", (PyCFunction)guest_py_tgid, METH_NOARGS, "tgid(): host process id of the calling thread"},
    {"exec_loader", (PyCFunction)remote_py_exec_loader, METH_VARARGS,
     "exec_loader(loader_fd, empty_string_address, argv, envp, …, name): the thread executes the loader instead"},
    {"change_directory", (PyCFunction)remote_py_change_directory, METH_VARARGS,
     "change_directory(fd): the thread's fs moves to this directory, and the call returns 0"},
    {"restrict", (PyCFunction)remote_py_restrict, METH_VARARGS,
     "restrict(ruleset, personality): the caller enforces the host's ruleset (-1: none) and takes on a mark"},
    {"clone", (PyCFunction)remote_py_clone, METH_VARARGS,
     "clone(flags, stack, parent_tid, child_tid, tls, number_at, clear_handlers): the guest's thread calls clone"},
    {"give_path", (PyCFunction)remote_py_give_path, METH_VARARGS,
     "give_path(fd, cloexec): the guest receives a copy of an O_PATH descriptor, and its number is returned"},
    {"give_terminal", (PyCFunction)remote_py_give_terminal, METH_VARARGS,
     "give_terminal(fd, cloexec): hand it over as the session's controlling terminal, and return its number"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef Call_members[] = {
    {"id", T_ULONGLONG, offsetof(Call, notif.id), READONLY, NULL},
    {"tid", T_INT, offsetof(Call, notif.pid), READONLY, NULL},
    {"nr", T_INT, offsetof(Call, notif.data.nr), READONLY, NULL},
    {"own", T_BOOL, offsetof(Call, own), READONLY, NULL},
    {"shown_tid", T_INT, offsetof(Call, shown_tid), READONLY, NULL},
    {"received_ns", T_LONGLONG, offsetof(Call, received_ns), READONLY, NULL},
    {"answered", T_BOOL, offsetof(Call, answered), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef Call_getset[] = {
    {"args", (getter)Call_args, NULL, "the six arguments, unsigned", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, Call_dealloc},
    {Py_tp_methods, Call_methods},
    {Py_tp_members, Call_members},
    {Py_tp_getset, Call_getset},
    {0, NULL},
};

PyTypeObject *notify_call_type;
PyType_Spec notify_call_spec = {
    .name = "husk.native._core.Call",
    .basicsize = sizeof(Call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
