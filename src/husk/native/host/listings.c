/* native: the names of a host directory, and the records of a listing. Both for thousands of names at once, so neither
 * makes more of them than the one object that the caller keeps. */
#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROOM (64 << 10)

/* S_IF*, from the type that the host tells, or by a look; 0: the name is gone. */
static unsigned kind_of(int fd, const struct dirent64 *entry)
{
    struct stat s;
    if (entry->d_type != DT_UNKNOWN)
        return DTTOIF(entry->d_type);
    return fstatat(fd, entry->d_name, &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 ? s.st_mode & S_IFMT : 0;
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static bool add_all(PyObject *names, int fd, const char *records, long size)
{
    for (long at = 0; at < size;) {
        const struct dirent64 *entry = (const struct dirent64 *)(records + at);
        at += entry->d_reclen;
        if (is_dots(entry->d_name))
            continue;
        PyObject *one = Py_BuildValue("yKI", entry->d_name, (unsigned long long)entry->d_ino, kind_of(fd, entry));
        if (!one || PyList_Append(names, one) < 0) {
            Py_XDECREF(one);
            return false;
        }
        Py_DECREF(one);
    }
    return true;
}

/* list_names(fd) -> [(name, inode number, kind)], from where the open directory is read now; the host's order. */
PyObject *host_py_list_names(PyObject *self, PyObject *args)
{
    (void)self;
    int fd;
    long size = 0;
    if (!PyArg_ParseTuple(args, "i:list_names", &fd))
        return NULL;
    PyObject *names = PyList_New(0);
    char *records = PyMem_Malloc(ROOM);
    bool complete = names && records;
    while (complete) {
        Py_BEGIN_ALLOW_THREADS
        size = syscall(SYS_getdents64, fd, records, ROOM);
        Py_END_ALLOW_THREADS
        if (size <= 0)
            break;
        complete = add_all(names, fd, records, size);
    }
    int error = complete && size < 0 ? errno : 0;
    PyMem_Free(records);
    if (complete && !error)
        return names;
    Py_XDECREF(names);
    return error ? core_raise_errno(error) : PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static bool number(PyObject *entry, const char *field, unsigned long long *value)
{
    PyObject *found = PyObject_GetAttrString(entry, field);
    *value = found ? PyLong_AsUnsignedLongLong(found) : 0;
    Py_XDECREF(found);
    return found && !PyErr_Occurred();
}

/* One record as getdents64 gives it; a new reference. */
static PyObject *record_of(PyObject *entry)
{
    unsigned long long ino, cookie, kind;
    char *name;
    Py_ssize_t size;
    if (!number(entry, "ino", &ino) || !number(entry, "cookie", &cookie) || !number(entry, "kind", &kind))
        return NULL;
    PyObject *text = PyObject_GetAttrString(entry, "name"), *record = NULL;
    if (text && PyBytes_AsStringAndSize(text, &name, &size) == 0) {
        size_t header = offsetof(struct dirent64, d_name), whole = (header + (size_t)size + 1 + 7) & ~(size_t)7;
        char *bytes = whole <= UINT16_MAX && (record = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)whole))
            ? PyBytes_AsString(record) : NULL;
        if (bytes) {
            struct dirent64 start = {.d_ino = ino, .d_off = (int64_t)cookie, .d_reclen = (uint16_t)whole,
                                     .d_type = (unsigned char)IFTODT((mode_t)kind)};
            memset(bytes, 0, whole);
            memcpy(bytes, &start, header);
            memcpy(bytes + header, name, (size_t)size);
        } else if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "the name is too long");
        }
    }
    Py_XDECREF(text);
    return record;
}

/* pack_entries([Entry]) -> [record], as getdents64 gives them. */
PyObject *host_py_pack_entries(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *entries;
    if (!PyArg_ParseTuple(args, "O!:pack_entries", &PyList_Type, &entries))
        return NULL;
    PyObject *records = PyList_New(0);
    for (Py_ssize_t i = 0; records && i < PyList_Size(entries); i++) {
        PyObject *record = record_of(PyList_GetItem(entries, i));
        if (!record || PyList_Append(records, record) < 0)
            Py_CLEAR(records);
        Py_XDECREF(record);
    }
    return records;
}
