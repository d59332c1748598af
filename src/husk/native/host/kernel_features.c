/* native: what this host's kernel offers: Landlock, seccomp notifications. */
#include "host/host.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

PyObject *host_py_landlock_abi(PyObject *self, PyObject *noargs)
{
    (void)self, (void)noargs;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
    return PyLong_FromLong(abi < 0 ? 0 : abi);
}

PyObject *host_py_notification_sizes(PyObject *self, PyObject *noargs)
{
    (void)self, (void)noargs;
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
        return core_raise_errno(errno);
    return Py_BuildValue("(HH)", sizes.seccomp_notif, sizes.seccomp_notif_resp);
}
