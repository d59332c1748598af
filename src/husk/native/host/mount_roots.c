/* native: what a box has to know of its mounts' roots before it begins: their real paths, the directories above one,
 * and which of many names there are below it. Python could ask each by itself; there are hundreds, at every start. */
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_ABOVE = 4096 }; /* a directory that deep has names too long for any path: husk was led astray */

struct chain {
    struct { dev_t dev; ino_t ino; } *found; /* owned */
    size_t count;
};

/* The directory `fd` and those above it, up to the root, or to where husk may not go. 0, or an errno. */
static int climb(int fd, struct chain *chain)
{
    int here = fd, error = 0;
    for (;;) {
        struct stat s;
        if (fstat(here, &s) < 0) {
            error = errno;
            break;
        }
        size_t last = chain->count - 1;
        if (chain->count && chain->found[last].dev == s.st_dev && chain->found[last].ino == s.st_ino)
            break; /* the root is its own parent */
        if (chain->count == MOST_ABOVE) {
            error = ELOOP;
            break;
        }
        chain->found[chain->count].dev = s.st_dev;
        chain->found[chain->count++].ino = s.st_ino;
        int parent = openat(here, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (parent < 0) {
            error = errno == EMFILE || errno == ENFILE || errno == ENOMEM ? errno : 0;
            break; /* husk may not go further up, and so no mount begins there */
        }
        if (here != fd)
            close(here);
        here = parent;
    }
    if (here != fd)
        close(here);
    return error;
}

/* upward(fd): [(device, inode)] of the directory and of those above it. */
PyObject *host_py_upward(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, error;
    if (!PyArg_ParseTuple(args, "i:upward", &fd))
        return NULL;
    struct chain chain = {.found = malloc(MOST_ABOVE * sizeof *chain.found)};
    if (!chain.found)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    error = climb(fd, &chain);
    Py_END_ALLOW_THREADS
    PyObject *made = error ? core_raise_errno(error) : PyList_New((Py_ssize_t)chain.count);
    for (size_t i = 0; made && i < chain.count; i++) {
        PyObject *one = Py_BuildValue("(KK)", (unsigned long long)chain.found[i].dev,
                                      (unsigned long long)chain.found[i].ino);
        if (one)
            PyList_SetItem(made, (Py_ssize_t)i, one); /* takes our reference */
        else
            Py_CLEAR(made);
    }
    free(chain.found);
    return made;
}

/* mount_id(fd): the number of the mount that `fd` was opened through, as /proc/self/mountinfo has it; -1: not known. */
PyObject *host_py_mount_id(PyObject *self, PyObject *args)
{
    (void)self;
    int fd;
    struct statx x;
    if (!PyArg_ParseTuple(args, "i:mount_id", &fd))
        return NULL;
    bool known = syscall(SYS_statx, fd, "", AT_EMPTY_PATH, 0x1000 /* STATX_MNT_ID */, &x) == 0 && x.stx_mask & 0x1000;
    return PyLong_FromLongLong(known ? (long long)x.stx_mnt_id : -1);
}

/* names_present(root_fd, names): those of the names below the root that there are, or that cannot be asked for. The
 * root has no guard: the host's names are meant. */
PyObject *host_py_names_present(PyObject *self, PyObject *args)
{
    (void)self;
    int root;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "iO!:names_present", &root, &PyList_Type, &list))
        return NULL;
    PyObject *names = PyList_AsTuple(list); /* nobody can change it while the interpreter runs something else */
    Py_ssize_t count = names ? PyTuple_Size(names) : 0;
    const char **texts = names ? malloc((size_t)(count ? count : 1) * sizeof *texts) : NULL;
    PyObject *found = texts ? PyList_New(0) : NULL;
    if (names && !texts)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; found && i < count; i++)
        if (!(texts[i] = PyBytes_AsString(PyTuple_GetItem(names, i))))
            Py_CLEAR(found);
    if (found) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < count; i++) {
            int fd = host_open_beneath_once(root, texts[i], O_PATH | O_NOFOLLOW, 0, 0);
            if (fd == -ENOENT || fd == -ENOTDIR)
                texts[i] = NULL;
            if (fd >= 0)
                close(fd);
        }
        Py_END_ALLOW_THREADS
    }
    for (Py_ssize_t i = 0; found && i < count; i++)
        if (texts[i] && PyList_Append(found, PyTuple_GetItem(names, i)) < 0)
            Py_CLEAR(found);
    free(texts);
    Py_XDECREF(names);
    return found;
}

/* real_path(path): without links; None: not all of it is there, or may be looked at. The caller asks Python then, which
 * resolves what it can. Two slashes at the beginning are a place of their own to Python, and none to the C library. */
PyObject *host_py_real_path(PyObject *self, PyObject *args)
{
    (void)self;
    const char *path;
    char found[PATH_MAX];
    if (!PyArg_ParseTuple(args, "y:real_path", &path))
        return NULL;
    bool done = false;
    if (!(path[0] == '/' && path[1] == '/')) {
        Py_BEGIN_ALLOW_THREADS
        done = realpath(path, found) != NULL;
        Py_END_ALLOW_THREADS
    }
    if (!done)
        Py_RETURN_NONE;
    return PyBytes_FromString(found);
}
