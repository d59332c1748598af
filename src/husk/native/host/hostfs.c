/* native: host files. Those beneath a root are opened so that no symlink, magic link or `..` can lead out of it. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int host_open_beneath_once(int root, const char *relative, uint64_t flags, uint64_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | resolve,
    };
    long fd;
    /* EAGAIN: a rename raced with the walk, and the kernel could not prove that we stayed beneath the root. */
    for (int tries = 0; tries < 64; tries++) {
        fd = syscall(SYS_openat2, root, *relative ? relative : ".", &how, sizeof how);
        if (fd >= 0 || errno != EAGAIN)
            break;
    }
    return fd < 0 ? -errno : (int)fd;
}

static int open_beneath(int root, const char *relative, uint64_t flags, uint64_t mode, bool look)
{
    int fd;
    if (host_guard_open(root, relative, flags, mode, look, &fd))
        return fd;
    return host_open_beneath_once(root, relative, flags, mode, 0);
}

int host_open_beneath(int root, const char *relative, uint64_t flags, uint64_t mode)
{
    return open_beneath(root, relative, flags, mode, false);
}

/* Exact, even beyond 64 bits of nanoseconds; a new reference. */
static PyObject *nanoseconds_object(struct timespec t)
{
    int64_t ns = core_nanoseconds(t);
    if (ns != INT64_MIN && ns != INT64_MAX)
        return PyLong_FromLongLong(ns);
    PyObject *seconds = PyLong_FromLongLong(t.tv_sec), *factor = PyLong_FromLong(1000000000), *sum = NULL;
    PyObject *rest = PyLong_FromLong(t.tv_nsec);
    PyObject *product = seconds && factor ? PyNumber_Multiply(seconds, factor) : NULL;
    if (product && rest)
        sum = PyNumber_Add(product, rest);
    Py_XDECREF(seconds);
    Py_XDECREF(factor);
    Py_XDECREF(product);
    Py_XDECREF(rest);
    return sum;
}

static PyStructSequence_Field stat_fields[] = {
    {"dev", NULL},     {"ino", NULL},    {"mode", NULL},  {"nlink", NULL}, {"uid", NULL},
    {"gid", NULL},     {"rdev", NULL},   {"size", NULL},  {"blksize", NULL}, {"blocks", NULL},
    {"atime", "ns"},   {"mtime", "ns"},  {"ctime", "ns"}, {NULL, NULL},
};
static PyStructSequence_Desc stat_shape = {
    "husk.native._core.HostStat", "struct stat; times are in nanoseconds", stat_fields,
    sizeof stat_fields / sizeof *stat_fields - 1,
};
static PyTypeObject *HostStat_type; /* owned here, for the life of the process */

int host_add_types(PyObject *module)
{
    if (!HostStat_type && !(HostStat_type = PyStructSequence_NewType(&stat_shape)))
        return -1;
    return PyModule_AddObjectRef(module, "HostStat", (PyObject *)HostStat_type);
}

PyObject *host_stat(const struct stat *s)
{
    PyObject *made = PyStructSequence_New(HostStat_type);
    if (!made)
        return NULL;
    PyObject *values[] = {
        PyLong_FromUnsignedLongLong(s->st_dev),  PyLong_FromUnsignedLongLong(s->st_ino),
        PyLong_FromUnsignedLong(s->st_mode),     PyLong_FromUnsignedLongLong(s->st_nlink),
        PyLong_FromUnsignedLong(s->st_uid),      PyLong_FromUnsignedLong(s->st_gid),
        PyLong_FromUnsignedLongLong(s->st_rdev), PyLong_FromLongLong(s->st_size),
        PyLong_FromLongLong(s->st_blksize),      PyLong_FromLongLong(s->st_blocks),
        nanoseconds_object(s->st_atim),          nanoseconds_object(s->st_mtim),
        nanoseconds_object(s->st_ctim),
    };
    bool complete = true;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        complete = complete && values[i];
        PyStructSequence_SetItem(made, (Py_ssize_t)i, values[i]); /* takes our reference */
    }
    if (!complete)
        Py_CLEAR(made);
    return made;
}

PyObject *host_py_open_beneath(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    const char *relative;
    unsigned long long flags, mode = 0;
    if (!PyArg_ParseTuple(args, "iyK|K:open_beneath", &root, &relative, &flags, &mode))
        return NULL;
    /* openat2 refuses what open(2) ignores: a mode without O_CREAT, and bits beyond 07777. */
    mode = flags & (O_CREAT | O_TMPFILE) ? mode & 07777 : 0;
    int fd;
    Py_BEGIN_ALLOW_THREADS
    fd = host_open_beneath(root, relative, flags, mode);
    Py_END_ALLOW_THREADS
    return fd < 0 ? host_raise(root, fd) : PyLong_FromLong(fd);
}

PyObject *host_py_open_interruptible(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    int flags, fd;
    long long user = -1; /* Linux charges a FIFO's buffer to this user */
    if (!PyArg_ParseTuple(args, "yi|L:open_interruptible", &path, &flags, &user))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (host_is_other_user(user))
        fd = host_open_as((uid_t)user, path, flags | O_CLOEXEC);
    else if ((fd = open(path, flags | O_CLOEXEC)) < 0) /* Python's own open would try again after EINTR */
        fd = -errno;
    Py_END_ALLOW_THREADS
    return fd < 0 ? core_raise_errno(-fd) : PyLong_FromLong(fd);
}

PyObject *host_py_stat_beneath(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    const char *relative;
    if (!PyArg_ParseTuple(args, "iy:stat_beneath", &root, &relative))
        return NULL;
    /* Short, and never blocks on local file systems: keeping the GIL is cheaper than releasing it. */
    int fd = open_beneath(root, relative, O_PATH | O_NOFOLLOW, 0, true);
    if (fd < 0)
        return host_raise(root, fd);
    struct stat s;
    int error = fstat(fd, &s) < 0 ? errno : 0;
    close(fd);
    return error ? core_raise_errno(error) : host_stat(&s);
}

PyObject *host_py_stat_fd(PyObject *self, PyObject *args)
{
    (void)self;
    int fd;
    struct stat s;
    if (!PyArg_ParseTuple(args, "i:stat_fd", &fd))
        return NULL;
    return fstat(fd, &s) < 0 ? core_raise_errno(errno) : host_stat(&s);
}

/* The file is named by a descriptor, so no rename can redirect the watch. Both descriptors stay the caller's. */
PyObject *host_py_watch(PyObject *self, PyObject *args)
{
    (void)self;
    int instance, file;
    unsigned int mask;
    char path[64];
    if (!PyArg_ParseTuple(args, "iiI:watch", &instance, &file, &mask))
        return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int wd = inotify_add_watch(instance, path, mask & ~(unsigned)IN_DONT_FOLLOW);
    return wd < 0 ? core_raise_errno(errno) : PyLong_FromLong(wd);
}

/* A queue of husk's own. Reading does not wait. */
PyObject *host_py_new_watches(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return fd < 0 ? core_raise_errno(errno) : PyLong_FromLong(fd);
}

static bool time_from(PyObject *value, struct timespec *when)
{
    if (value == Py_None) {
        *when = (struct timespec){.tv_nsec = UTIME_OMIT};
        return true;
    }
    /* In Python's numbers: the nanoseconds of a time that Linux knows may exceed 64 bits. */
    PyObject *second = PyLong_FromLong(1000000000);
    PyObject *both = second ? PyNumber_Divmod(value, second) : NULL;
    Py_XDECREF(second);
    if (!both)
        return false;
    when->tv_sec = PyLong_AsLong(PyTuple_GetItem(both, 0));
    when->tv_nsec = PyLong_AsLong(PyTuple_GetItem(both, 1));
    Py_DECREF(both);
    return !PyErr_Occurred();
}

/* os.utime always sets both times. A watcher sees the difference: only one of them is an access or a change. */
PyObject *host_py_set_times(PyObject *self, PyObject *args)
{
    (void)self;
    int at, follow, result;
    const char *path;
    PyObject *atime, *mtime;
    struct timespec times[2];
    if (!PyArg_ParseTuple(args, "iyOOp:set_times", &at, &path, &atime, &mtime, &follow))
        return NULL;
    if (!time_from(atime, &times[0]) || !time_from(mtime, &times[1]))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = utimensat(at, path, times, follow ? 0 : AT_SYMLINK_NOFOLLOW);
    Py_END_ALLOW_THREADS
    return result < 0 ? core_raise_errno(errno) : Py_NewRef(Py_None);
}

/* Without a umask husk makes files with their final mode, and needs no chmod, which a watcher would see. */
PyObject *host_py_clear_umask(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    if (unshare(CLONE_FS) == 0)
        umask(0);
    Py_RETURN_NONE;
}
