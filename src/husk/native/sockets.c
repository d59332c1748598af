/* native: bind(2) and connect(2) with an address husk has copied, on a duplicate of the guest's socket. Unlike Python's
 * socket module they take the address as bytes, and give up on EINTR so that a guest's signal can break the wait. */
#include "core.h"

#include <errno.h>
#include <sys/socket.h>

typedef int (*socket_operation)(int, const struct sockaddr *, socklen_t);

static int run_bind(int fd, const struct sockaddr *address, socklen_t size)
{
    return bind(fd, address, size);
}

static int run_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    return connect(fd, address, size);
}

static PyObject *with_address(PyObject *args, socket_operation operation)
{
    int fd, error = 0;
    Py_buffer address;
    if (!PyArg_ParseTuple(args, "iy*", &fd, &address))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (operation(fd, address.buf, (socklen_t)address.len) < 0)
        error = errno;
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&address);
    if (error)
        return raise_errno(error);
    Py_RETURN_NONE;
}

PyObject *socket_name(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, peer;
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (!PyArg_ParseTuple(args, "ip:socket_name", &fd, &peer))
        return NULL;
    if ((peer ? getpeername : getsockname)(fd, (struct sockaddr *)&address, &size) < 0)
        return raise_errno(errno);
    return PyBytes_FromStringAndSize((char *)&address, size < sizeof address ? size : sizeof address);
}

PyObject *bind_address(PyObject *self, PyObject *args)
{
    (void)self;
    return with_address(args, run_bind);
}

PyObject *connect_address(PyObject *self, PyObject *args)
{
    (void)self;
    return with_address(args, run_connect);
}
