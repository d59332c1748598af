/* native: advisory locks on descriptors that husk holds. Python's own functions would try again after EINTR. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

PyObject *host_py_lock_file(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, operation, error;
    if (!PyArg_ParseTuple(args, "ii:lock_file", &fd, &operation))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    error = flock(fd, operation) < 0 ? errno : 0;
    Py_END_ALLOW_THREADS
    if (error)
        return core_raise_errno(error);
    Py_RETURN_NONE;
}

/* lock_range(fd, command, struct flock): the struct as the kernel leaves it. */
PyObject *host_py_lock_range(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, command, error;
    Py_buffer given;
    struct flock range;
    if (!PyArg_ParseTuple(args, "iiy*:lock_range", &fd, &command, &given))
        return NULL;
    bool fits = given.len == sizeof range;
    if (fits)
        memcpy(&range, given.buf, sizeof range);
    PyBuffer_Release(&given);
    if (!fits)
        return core_raise_errno(EINVAL);
    Py_BEGIN_ALLOW_THREADS
    error = fcntl(fd, command, &range) < 0 ? errno : 0;
    Py_END_ALLOW_THREADS
    return error ? core_raise_errno(error) : PyBytes_FromStringAndSize((char *)&range, sizeof range);
}
