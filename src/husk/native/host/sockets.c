/* native: socket calls that husk makes on a duplicate of a guest's socket, with an address it has copied and judged.
 * Unlike Python's socket module they take addresses and control messages as bytes, and return on EINTR so that a
 * guest's signal can end the wait. */
#include "host/host.h"

#include <errno.h>
#include <unistd.h>

static PyObject *nothing_or(int error)
{
    if (error)
        return core_raise_errno(error);
    Py_RETURN_NONE;
}

static PyObject *address_bytes(const struct sockaddr_storage *address, socklen_t size)
{
    return PyBytes_FromStringAndSize((const char *)address, size < sizeof *address ? size : sizeof *address);
}

PyObject *host_py_socket_name(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, peer;
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (!PyArg_ParseTuple(args, "ip:socket_name", &fd, &peer))
        return NULL;
    if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&address, &size) < 0)
        return core_raise_errno(errno);
    return address_bytes(&address, size);
}

PyObject *host_py_bind_address(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, error;
    Py_buffer address;
    if (!PyArg_ParseTuple(args, "iy*:bind_address", &fd, &address))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = bind(fd, address.buf, (socklen_t)address.len) < 0 ? errno : 0;
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&address);
    return nothing_or(error);
}

struct connecting {
    int fd;
    Py_buffer address;
};

static int do_connect(const void *argument)
{
    const struct connecting *c = argument;
    return connect(c->fd, c->address.buf, (socklen_t)c->address.len) < 0 ? -errno : 0;
}

PyObject *host_py_connect_address(PyObject *self, PyObject *args)
{
    (void)self;
    int error;
    long long user = -1, group = -1; /* the credentials that the peer sees */
    struct connecting c;
    if (!PyArg_ParseTuple(args, "iy*|LL:connect_address", &c.fd, &c.address, &user, &group))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = -host_run_as_peer(user, group, do_connect, &c);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&c.address);
    return nothing_or(error);
}

struct listening {
    int fd, backlog;
};

static int do_listen(const void *argument)
{
    const struct listening *l = argument;
    return listen(l->fd, l->backlog) < 0 ? -errno : 0;
}

PyObject *host_py_listen_on(PyObject *self, PyObject *args)
{
    (void)self;
    long long user = -1, group = -1; /* the credentials that the peer sees */
    struct listening l;
    if (!PyArg_ParseTuple(args, "ii|LL:listen_on", &l.fd, &l.backlog, &user, &group))
        return NULL;
    return nothing_or(-host_run_as_peer(user, group, do_listen, &l));
}

PyObject *host_py_accept_address(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, flags, taken, error;
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (!PyArg_ParseTuple(args, "ii:accept_address", &fd, &flags))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    taken = accept4(fd, (struct sockaddr *)&address, &size, flags);
    error = errno;
    Py_END_ALLOW_THREADS
    if (taken < 0)
        return core_raise_errno(error);
    return Py_BuildValue("iN", taken, address_bytes(&address, size));
}

PyObject *host_py_send_message(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, flags;
    long long user = -1; /* Linux charges descriptors in the message to this user */
    Py_buffer address, data, control;
    if (!PyArg_ParseTuple(args, "iy*y*y*i|L:send_message", &fd, &address, &data, &control, &flags, &user))
        return NULL;
    struct iovec part = {data.buf, data.len};
    struct msghdr message = {
        .msg_name = address.len ? address.buf : NULL, .msg_namelen = (socklen_t)address.len,
        .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = control.len ? control.buf : NULL, .msg_controllen = control.len};
    ssize_t sent;
    Py_BEGIN_ALLOW_THREADS
    if (host_is_other_user(user))
        sent = host_send_as((uid_t)user, fd, &message, flags);
    else if ((sent = sendmsg(fd, &message, flags)) < 0)
        sent = -errno;
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&address);
    PyBuffer_Release(&data);
    PyBuffer_Release(&control);
    return sent < 0 ? core_raise_errno((int)-sent) : PyLong_FromSsize_t(sent);
}

PyObject *host_py_receive_message(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, flags, error;
    Py_ssize_t size, control_size;
    struct sockaddr_storage address;
    if (!PyArg_ParseTuple(args, "inni:receive_message", &fd, &size, &control_size, &flags))
        return NULL;
    if (size < 0 || control_size < 0)
        return core_raise_errno(EINVAL);
    /* Not into bytes objects: the stable ABI cannot shorten one. */
    char *room = PyMem_Malloc((size_t)control_size + size);
    if (!room)
        return PyErr_NoMemory();
    struct iovec part = {room + control_size, size};
    struct msghdr message = {
        .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &part, .msg_iovlen = 1,
        .msg_control = control_size ? room : NULL, .msg_controllen = control_size};
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS
    got = recvmsg(fd, &message, flags);
    error = errno;
    Py_END_ALLOW_THREADS
    /* With MSG_TRUNC the length returned is the datagram's, which may exceed what was copied. */
    PyObject *made = got < 0 ? core_raise_errno(error)
        : Py_BuildValue("y#Ny#in", room + control_size, got < size ? got : size,
                        address_bytes(&address, message.msg_namelen), room, (Py_ssize_t)message.msg_controllen,
                        message.msg_flags, got);
    PyMem_Free(room);
    return made;
}

PyObject *host_py_get_option(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, level, name, size;
    char value[256];
    if (!PyArg_ParseTuple(args, "iiii:get_option", &fd, &level, &name, &size))
        return NULL;
    socklen_t length = size < (int)sizeof value ? size : (int)sizeof value;
    if (getsockopt(fd, level, name, value, &length) < 0)
        return core_raise_errno(errno);
    return PyBytes_FromStringAndSize(value, length);
}

PyObject *host_py_set_option(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, level, name;
    Py_buffer value;
    if (!PyArg_ParseTuple(args, "iiiy*:set_option", &fd, &level, &name, &value))
        return NULL;
    int failed = setsockopt(fd, level, name, value.buf, (socklen_t)value.len), error = errno;
    PyBuffer_Release(&value);
    if (failed)
        return core_raise_errno(error);
    Py_RETURN_NONE;
}

PyObject *host_py_socket_kind(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, family, type;
    socklen_t size = sizeof family;
    if (!PyArg_ParseTuple(args, "i:socket_kind", &fd))
        return NULL;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
        return core_raise_errno(errno);
    return Py_BuildValue("ii", family, type);
}
