/* native: the module object and its table of functions, which the rooms define. */
#include "core.h"
#include "layer/vfs_lock.h"
#include "gate/gate.h"
#include "host/host.h"
#include "notify/notify.h"
#include "remote/remote.h"
#include "store/store.h"
#include "trace/trace.h"

#include <errno.h>

PyObject *core_raise_errno(int error)
{
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyMethodDef functions[] = {
    {"open_beneath", host_py_open_beneath, METH_VARARGS, "open_beneath(root_fd, relative, flags, mode=0) -> fd"},
    {"set_times", host_py_set_times, METH_VARARGS,
     "set_times(dir_fd, path, atime, mtime, follow): in nanoseconds; None leaves a time as it is"},
    {"stat_beneath", host_py_stat_beneath, METH_VARARGS, "stat_beneath(root_fd, relative) -> HostStat, as lstat"},
    {"guard_root", host_py_guard_root, METH_VARARGS,
     "guard_root(root_fd, closed, fixed, holds_closed, owner[, rules, ruled])"},
    {"own_file", host_py_own_file, METH_VARARGS, "own_file(root_fd, relative, dev, ino): the guest made it"},
    {"made_directory", host_py_made_directory, METH_VARARGS,
     "made_directory(root_fd, dev, ino[, made]): did the guest make it? `made`: from now on it did, or did not"},
    {"judge_name", host_py_judge_name, METH_VARARGS,
     "judge_name(root_fd, relative, own_end): (rule or -1, verb, itself, way, rule of the way or -1, end)"},
    {"name_matches", host_py_name_matches, METH_VARARGS, "name_matches(part, name): by the rules' comparison"},
    {"hidden_names", host_py_hidden_names, METH_VARARGS, "hidden_names(root_fd, directory, names): those it hides"},
    {"upward", host_py_upward, METH_VARARGS, "upward(fd): (device, inode) of the directory and of those above it"},
    {"mount_id", host_py_mount_id, METH_VARARGS, "mount_id(fd): of the mount it was opened through; -1: not known"},
    {"real_path", host_py_real_path, METH_VARARGS, "real_path(path): without links; None: ask Python"},
    {"names_present", host_py_names_present, METH_VARARGS, "names_present(root_fd, names): those that there are"},
    {"unguard_root", host_py_unguard_root, METH_VARARGS, "unguard_root(root_fd): before it is closed"},
    {"is_fixed", host_py_is_fixed, METH_VARARGS, "is_fixed(root_fd, dev, ino): this directory must stay where it is"},
    {"kernel_file_system", host_py_kernel_file_system, METH_VARARGS,
     "kernel_file_system(fd): its name, or empty: an ordinary one"},
    {"stat_fd", host_py_stat_fd, METH_VARARGS, "stat_fd(fd) -> HostStat, as fstat"},
    {"list_names", host_py_list_names, METH_VARARGS, "list_names(fd) -> [(name, inode number, S_IF*)]"},
    {"pack_entries", host_py_pack_entries, METH_VARARGS, "pack_entries([Entry]) -> [record of getdents64]"},
    {"new_watches", host_py_new_watches, METH_NOARGS, "new_watches() -> inotify descriptor that does not block"},
    {"watch", host_py_watch, METH_VARARGS, "watch(inotify_fd, file_fd, mask) -> watch descriptor"},
    {"clear_umask", host_py_clear_umask, METH_NOARGS, "clear_umask(): give this thread a umask of its own, 0"},
    {"open_interruptible", host_py_open_interruptible, METH_VARARGS,
     "open_interruptible(path, flags, user=-1): returns on EINTR; Linux charges a FIFO's buffer to this user"},
    {"wake_thread", notify_py_wake_thread, METH_VARARGS,
     "wake_thread(tid): interrupt the call that one of husk's threads waits in"},
    {"socket_name", host_py_socket_name, METH_VARARGS,
     "socket_name(fd, peer): getsockname or getpeername, as raw bytes"},
    {"bind_address", host_py_bind_address, METH_VARARGS, "bind_address(fd, sockaddr)"},
    {"connect_address", host_py_connect_address, METH_VARARGS,
     "connect_address(fd, sockaddr, user=-1, group=-1): the peer sees these ids; returns on EINTR"},
    {"relay", host_py_relay, METH_VARARGS,
     "relay(master, keys, screen, feed, orders, raw): copy bytes until told to stop"},
    {"listen_on", host_py_listen_on, METH_VARARGS,
     "listen_on(fd, backlog, user=-1, group=-1): the peer sees these ids"},
    {"accept_address", host_py_accept_address, METH_VARARGS,
     "accept_address(fd, flags) -> (fd, sockaddr): returns on EINTR"},
    {"send_message", host_py_send_message, METH_VARARGS,
     "send_message(fd, sockaddr, data, control, flags, user=-1) -> bytes sent; Linux charges descriptors to this user"},
    {"receive_message", host_py_receive_message, METH_VARARGS,
     "receive_message(fd, size, control_size, flags) -> (data, sockaddr, control, flags, length)"},
    {"get_option", host_py_get_option, METH_VARARGS, "get_option(fd, level, name, size) -> bytes"},
    {"set_option", host_py_set_option, METH_VARARGS, "set_option(fd, level, name, value)"},
    {"make_as", host_py_make_as, METH_VARARGS,
     "make_as(user, group, make): call `make`; the files it makes belong to these ids"},
    {"socket_kind", host_py_socket_kind, METH_VARARGS, "socket_kind(fd) -> (family, type); ENOTSOCK"},
    {"shares_table", guest_py_shares_table, METH_VARARGS,
     "shares_table(tid, tid): do they share a descriptor table? False where the host does not tell"},
    {"search_library", gate_py_search_library, METH_VARARGS,
     "search_library(path): learn the call sites of a dynamic loader and the C library beside it, for later boxes"},
    {"ready_filter", notify_py_ready_filter, METH_VARARGS,
     "ready_filter(number, cookie) -> (filter, closing): of husk.walls.ready_filter.USUAL, with a box's cookie"},
    {"ready_calls", notify_py_ready_calls, METH_NOARGS,
     "ready_calls() -> (handlers, mixed, eintr): what the dispatcher needs of the registry's rows"},
    {"is_channel", gate_py_is_channel, METH_VARARGS,
     "is_channel(tid, fd): is this descriptor of a guest's the channel of its gate, which the guest did not open?"},
    {"same_open_file", guest_py_same_open_file, METH_VARARGS,
     "same_open_file(tid, fd, own_fd): is that thread's descriptor a duplicate of ours?"},
    {"ipc_make", host_py_ipc_make, METH_VARARGS, "ipc_make(kind, key, count, mode): the id of a new object"},
    {"ipc_find", host_py_ipc_find, METH_VARARGS, "ipc_find(kind, key): the id of the object with this key"},
    {"ipc_tell", host_py_ipc_tell, METH_VARARGS, "ipc_tell(kind, id): what IPC_STAT says, whatever the mode"},
    {"ipc_limits", host_py_ipc_limits, METH_VARARGS, "ipc_limits(kind): what IPC_INFO says"},
    {"ipc_give", host_py_ipc_give, METH_VARARGS, "ipc_give(kind, id, uid, gid): change the owner"},
    {"ipc_remove", host_py_ipc_remove, METH_VARARGS, "ipc_remove(kind, id)"},
    {"new_queue", host_py_new_queue, METH_VARARGS, "new_queue(most, size): a POSIX queue without a name"},
    {"lock_file", host_py_lock_file, METH_VARARGS, "lock_file(fd, operation): flock(2), which returns on EINTR"},
    {"lock_range", host_py_lock_range, METH_VARARGS,
     "lock_range(fd, command, struct flock): fcntl(2), which returns on EINTR; the struct as the kernel leaves it"},
    {"tag_process", host_py_tag_process, METH_VARARGS,
     "tag_process(pid, tag, uid, gid): set the soft limit on file locks of a process with these host ids"},
    {"kill_marked", host_py_kill_marked, METH_VARARGS,
     "kill_marked(mark, mask): kill every process whose hard limit on file locks is `mark` in the bits of `mask`; how "
     "many were alive"},
    {"landlock_ruleset", remote_py_landlock_ruleset, METH_VARARGS, "landlock_ruleset(fs, scoped, files=())"},
    {"open_without", remote_py_open_without, METH_VARARGS,
     "open_without(path, flags, fs): open a file that later lacks these Landlock rights"},
    {"landlock_abi", host_py_landlock_abi, METH_NOARGS, "landlock_abi(): the kernel's Landlock version, 0 for none"},
    {"notification_sizes", host_py_notification_sizes, METH_NOARGS,
     "notification_sizes(): OSError where seccomp cannot notify"},
    {"name_hash", manifest_py_name_hash, METH_VARARGS, "name_hash(seed, data): SipHash-1-3, as in manifests"},
    {"publish_blobs", blob_py_publish, METH_VARARGS,
     "publish_blobs(stage_fd, blobs_fd, part, parts): at most 256 parts"},
    {"syncfs", blob_py_syncfs, METH_VARARGS, "syncfs(fd)"},
    {"manifest_fill", manifest_py_fill, METH_VARARGS,
     "manifest_fill(buffer, seed): write the name table; False: try another seed"},
    {"manifest_seal", manifest_py_seal, METH_VARARGS, "manifest_seal(buffer, body_hash): write the checksums"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "husk.native._core", "The part of husk that talks to the host kernel.", -1, functions,
    NULL, NULL, NULL, NULL,
};

/* Made from a description, because the stable ABI (one module for every Python from 3.11 on) has no static types. */
static const struct {
    const char *name;
    PyType_Spec *spec;
    PyTypeObject **type; /* owned, for the life of the process */
} types[] = {
    {"Listener", &notify_listener_spec, &notify_listener_type},
    {"Call", &notify_call_spec, &notify_call_type},
    {"Recorder", &trace_recorder_spec, &trace_recorder_type},
    {"Manifest", &manifest_spec, &manifest_type},
    {"Tree", &tree_spec, &tree_type},
    {"VfsLock", &fast_lock_spec, &fast_lock_type},
};

static int add_types(PyObject *self)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!*types[i].type && !(*types[i].type = (PyTypeObject *)PyType_FromSpec(types[i].spec)))
            return -1;
        if (PyModule_AddObjectRef(self, types[i].name, (PyObject *)*types[i].type) < 0)
            return -1;
    }
    return 0;
}

PyMODINIT_FUNC PyInit__core(void); /* for -Wmissing-prototypes: Python finds it by name */

PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *self = PyModule_Create(&module);
    if (self && (add_types(self) < 0 || host_add_types(self) < 0 || host_add_guard_types(self) < 0 ||
                 PyModule_AddIntConstant(self, "WAKE_SIGNAL", CORE_WAKE_SIGNAL) < 0))
        Py_CLEAR(self);
    return self;
}
