/* native: the module object; every function lives in a room of its own. */
#include "core.h"

#include <errno.h>

PyObject *raise_errno(int error)
{
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyMethodDef functions[] = {
    {"open_beneath", hostfs_open_beneath, METH_VARARGS, "open_beneath(root_fd, relative, flags, mode=0) -> fd"},
    {"stat_beneath", hostfs_stat_beneath, METH_VARARGS, "stat_beneath(root_fd, relative) -> HostStat, as lstat"},
    {"stat_fd", hostfs_stat_fd, METH_VARARGS, "stat_fd(fd) -> HostStat, as fstat"},
    {"watch", hostfs_watch, METH_VARARGS, "watch(inotify_fd, file_fd, mask) -> watch descriptor"},
    {"clear_umask", hostfs_clear_umask, METH_NOARGS, "clear_umask(): this thread gets a umask of its own, 0"},
    {"open_interruptible", open_interruptible, METH_VARARGS,
     "open_interruptible(path, flags, user=-1): gives up on EINTR; a FIFO's buffer counts as this user's"},
    {"wake_thread", wake_thread, METH_VARARGS, "wake_thread(tid): get one of husk's threads out of a waiting call"},
    {"socket_name", socket_name, METH_VARARGS, "socket_name(fd, peer): getsockname or getpeername, as raw bytes"},
    {"bind_address", bind_address, METH_VARARGS, "bind_address(fd, sockaddr)"},
    {"connect_address", connect_address, METH_VARARGS, 
     "connect_address(fd, sockaddr, user=-1, group=-1): seen as these; gives up on EINTR"},
    {"relay", relay, METH_VARARGS, "relay(master, keys, screen, feed, orders, raw): carry bytes until told to stop"},
    {"listen_on", listen_on, METH_VARARGS, "listen_on(fd, backlog, user=-1, group=-1): seen as these"},
    {"accept_address", accept_address, METH_VARARGS, "accept_address(fd, flags) -> (fd, sockaddr): gives up on EINTR"},
    {"send_message", send_message, METH_VARARGS, 
     "send_message(fd, sockaddr, data, control, flags, user=-1) -> bytes sent; control messages are this user's"},
    {"receive_message", receive_message, METH_VARARGS,
     "receive_message(fd, size, control_size, flags) -> (data, sockaddr, control, flags, length)"},
    {"get_option", get_option, METH_VARARGS, "get_option(fd, level, name, size) -> bytes"},
    {"set_option", set_option, METH_VARARGS, "set_option(fd, level, name, value)"},
    {"make_as", make_as, METH_VARARGS, "make_as(user, group, make): files that `make` makes are theirs"},
    {"socket_kind", socket_kind, METH_VARARGS, "socket_kind(fd) -> (family, type); ENOTSOCK"},
    {"shares_table", shares_table, METH_VARARGS, "shares_table(tid, tid): one table of descriptors; False also: unknown"},
    {"adopt_orphans", adopt_orphans, METH_NOARGS, "adopt_orphans(): descendants whose parent dies become our children"},
    {"landlock_abi", landlock_abi, METH_NOARGS, "landlock_abi(): the kernel's Landlock version, 0 for none"},
    {"notification_sizes", notification_sizes, METH_NOARGS, "notification_sizes(): OSError where seccomp cannot notify"},
    {"name_hash", siphash, METH_VARARGS, "name_hash(seed, data): SipHash-1-3, as manifests use it"},
    {"publish_blobs", blobs_publish, METH_VARARGS, "publish_blobs(stage_fd, blobs_fd, part, parts): parts are 256 at most"},
    {"syncfs", sync_file_system, METH_VARARGS, "syncfs(fd)"},
    {"manifest_fill", manifest_fill, METH_VARARGS, "manifest_fill(buffer, seed): the name table; False for another seed"},
    {"manifest_seal", manifest_seal, METH_VARARGS, "manifest_seal(buffer, body_hash): the checksums"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "husk.native._core", "The part of husk that talks to the host kernel.", -1, functions,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void)
{
    if (PyType_Ready(&Listener_type) < 0 || PyType_Ready(&Call_type) < 0 || PyType_Ready(&Manifest_type) < 0 ||
        PyType_Ready(&Tree_type) < 0)
        return NULL;
    PyObject *self = PyModule_Create(&module);
    if (self && (hostfs_add_types(self) < 0 ||
                 PyModule_AddObjectRef(self, "Listener", (PyObject *)&Listener_type) < 0 ||
                 PyModule_AddObjectRef(self, "Call", (PyObject *)&Call_type) < 0 ||
                 PyModule_AddObjectRef(self, "Manifest", (PyObject *)&Manifest_type) < 0 ||
                 PyModule_AddObjectRef(self, "Tree", (PyObject *)&Tree_type) < 0 ||
                 PyModule_AddIntConstant(self, "WAKE_SIGNAL", WAKE_SIGNAL) < 0))
        Py_CLEAR(self);
    return self;
}
