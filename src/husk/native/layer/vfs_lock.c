/* native: the Python class VfsLock (docs/design/024-changes.md). It is taken and given back in one step each.
 *
 * Goal: an exception of a signal handler may come between any two steps of Python's, as ^C does in an application's
 * main thread. It must leave neither the lock taken nor a file of the guest unknown. So `__enter__` and `__exit__` are
 * C's, as those of the RLock that stood here. They run Python for one purpose: to describe a file that C has made or
 * removed. What is described is not visible to anyone. C enters it and removes its record, without a step of Python's
 * in between. After an exception the record is still there, and the next thread that takes the lock goes on with it.
 *
 * Rejected: a Python class around an RLock, because the exception may come between taking it and the `with` body.
 * Blocking signals meanwhile: another thread may receive one, and the handler runs in the main thread all the same. */
#include "layer/vfs_lock.h"

#include "host/host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8
#endif

#define MOST_RECORDED (256 << 10) /* bytes; then Python makes the next change, and reads them all */

/* ---- for C ------------------------------------------------------------------------------------------------------- */

bool fast_lock_try(VfsLock *lock)
{
    return sem_trywait(&lock->free) == 0;
}

void fast_lock_give(VfsLock *lock)
{
    sem_post(&lock->free);
}

bool fast_lock_records(VfsLock *lock, size_t count, size_t size)
{
    if (!lock->records)
        lock->records = malloc(MOST_RECORDED);
    return lock->records && lock->describe &&
           lock->size + count * sizeof(struct fast_record) + size <= MOST_RECORDED;
}

bool fast_lock_has_room(const VfsLock *lock)
{
    return lock->next < lock->end && lock->room > 0;
}

uint64_t fast_lock_number(VfsLock *lock)
{
    return lock->next++; /* none is used twice, whatever happens now */
}

bool fast_lock_date(VfsLock *lock, int64_t *when_ns)
{
    struct stat s;
    if (lock->clock < 0)
        lock->clock = memfd_create("", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (lock->clock < 0 && errno == EINVAL) /* before Linux 6.3 */
        lock->clock = memfd_create("", MFD_CLOEXEC);
    if (lock->clock < 0 || fchmod(lock->clock, 0600) < 0 || fstat(lock->clock, &s) < 0)
        return false;
    *when_ns = core_nanoseconds(s.st_ctim);
    return true;
}

void fast_lock_record(VfsLock *lock, const struct fast_record *record, const char *name, const void *more)
{
    char *end = lock->records + lock->size;
    memcpy(end, record, sizeof *record);
    end += sizeof *record;
    if (record->size)
        memcpy(end, name, record->size);
    end += record->size;
    if (record->new_size)
        memcpy(end, more, record->new_size);
    lock->size = end + record->new_size - lock->records;
    if (record->deed == FAST_MADE || record->deed == FAST_DIRECTORY_MADE)
        lock->room--;
    else if ((record->deed == FAST_REMOVED && record->number) || record->deed == FAST_DIRECTORY_REMOVED)
        lock->room++;
}

/* ---- what C has changed ------------------------------------------------------------------------------------------ */

/* Nothing here but `describe` runs Python, so each record is entered as a whole for whoever looks from Python. If it
 * fails half-way, for want of memory, doing it again does no harm. */

static bool set_times(PyObject *directory, PyObject *when)
{
    return PyObject_SetAttrString(directory, "mtime", when) == 0 &&
           PyObject_SetAttrString(directory, "ctime", when) == 0;
}

static bool enter_node(VfsLock *self, PyObject *directory, PyObject *names, PyObject *name, PyObject *node,
                       PyObject *number, PyObject *when)
{
    if (node == Py_None ? PyDict_DelItem(names, name) < 0 : PyDict_SetItem(names, name, node) < 0)
        return false;
    if (number != Py_None && PyDict_SetItem(self->nodes, number, node) < 0)
        return false;
    return set_times(directory, when);
}

/* What the host has by the name of what was removed, or of what was begun; None: nothing. */
static PyObject *stat_of_host(const struct fast_record *record, const char *more)
{
    struct stat s;
    bool told = record->deed == FAST_REMOVED || record->deed == FAST_DIRECTORY_REMOVED ||
                record->deed == FAST_DIRECTORY_BEGUN;
    if (!told || record->new_size != sizeof s)
        return Py_NewRef(Py_None);
    memcpy(&s, more, sizeof s);
    return host_stat(&s);
}

/* Last of all, because it cannot be done twice. */
static bool count_directory(PyObject *directory, enum fast_deed deed)
{
    if (deed != FAST_DIRECTORY_MADE && deed != FAST_DIRECTORY_REMOVED)
        return true;
    PyObject *before = PyObject_GetAttrString(directory, "subdirs");
    PyObject *after = before ? PyLong_FromLong(PyLong_AsLong(before) + (deed == FAST_DIRECTORY_MADE ? 1 : -1)) : NULL;
    bool good = after && PyObject_SetAttrString(directory, "subdirs", after) == 0;
    Py_XDECREF(after);
    Py_XDECREF(before);
    return good;
}

/* What was made or removed. `*entered`: a signal handler has taken the lock meanwhile, too, and done that. */
static bool enter_described(VfsLock *self, const struct fast_record *record, PyObject *name, PyObject *host,
                            PyObject *number, PyObject *when, bool *entered)
{
    uint64_t before = self->entered;
    PyObject *directory = NULL, *node = NULL, *names = NULL;
    PyObject *described = PyObject_CallFunction(self->describe, "iKOOIOO", (int)record->deed,
                                                (unsigned long long)record->owner, number, when, record->mode, name,
                                                host);
    *entered = self->entered != before;
    bool good = described != NULL;
    /* Of a directory that Python does not know there is nothing to enter. That must not keep the lock from being taken
     * for ever; nor should it be. */
    if (good && !*entered && described != Py_None && record->deed != FAST_DIRECTORY_BEGUN)
        good = PyArg_ParseTuple(described, "OO", &directory, &node) &&
               (names = PyObject_GetAttrString(directory, "names")) &&
               enter_node(self, directory, names, name, node, record->deed == FAST_MADE ? number : Py_None, when) &&
               count_directory(directory, record->deed);
    Py_XDECREF(names);
    Py_XDECREF(described);
    return good;
}

static bool enter_mode(VfsLock *self, const struct fast_record *record, PyObject *number, PyObject *when)
{
    PyObject *node = PyDict_GetItemWithError(self->nodes, number); /* borrowed */
    if (!node)
        return !PyErr_Occurred();
    PyObject *mode = PyLong_FromUnsignedLong(record->mode);
    bool good = mode && PyObject_SetAttrString(node, "mode", mode) == 0 &&
                PyObject_SetAttrString(node, "ctime", when) == 0;
    Py_XDECREF(mode);
    return good;
}

/* The directory that C knows by this number, and one of its dicts. */
static bool find_owner(VfsLock *self, uint64_t owner, PyObject **directory, PyObject **names)
{
    PyObject *key = PyLong_FromUnsignedLongLong(owner);
    PyObject *known = key ? PyDict_GetItemWithError(self->owners, key) : NULL; /* borrowed */
    *directory = known ? PyTuple_GetItem(known, 0) : NULL;                     /* borrowed */
    *names = *directory ? PyObject_GetAttrString(*directory, "names") : NULL;
    if (!*names && !PyErr_Occurred())
        PyErr_SetString(PyExc_KeyError, "not a directory where C changes something");
    Py_XDECREF(key);
    return *names != NULL;
}

/* The name is new, so it gets a new place in listings. */
static bool forget_place(PyObject *directory, PyObject *name)
{
    PyObject *cookies = PyObject_GetAttrString(directory, "cookies");
    int known = cookies ? PyDict_Contains(cookies, name) : -1;
    bool good = known == 0 || (known > 0 && PyDict_DelItem(cookies, name) == 0);
    Py_XDECREF(cookies);
    return good;
}

static bool enter_moved(VfsLock *self, const struct fast_record *record, PyObject *name, PyObject *new_name,
                        PyObject *when)
{
    PyObject *old = NULL, *new = NULL, *names = NULL, *new_names = NULL, *node = NULL;
    bool good = find_owner(self, record->owner, &old, &names) && find_owner(self, record->to, &new, &new_names) &&
                (node = PyDict_GetItemWithError(names, name)) && PyDict_SetItem(new_names, new_name, node) == 0 &&
                PyObject_SetAttrString(node, "parent", new) == 0 &&
                PyObject_SetAttrString(node, "name", new_name) == 0 &&
                PyObject_SetAttrString(node, "ctime", when) == 0 && set_times(old, when) && set_times(new, when) &&
                forget_place(old, name) && PyDict_DelItem(names, name) == 0; /* last: it finds the node */
    if (!good && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_KeyError))) {
        PyErr_Clear(); /* as in enter_described */
        good = true;
    }
    Py_XDECREF(names);
    Py_XDECREF(new_names);
    return good;
}

static bool enter_dated(VfsLock *self, const struct fast_record *record, const char *more, PyObject *when)
{
    static const char *const names[] = {"atime", "mtime"};
    int64_t times[2];
    PyObject *directory = NULL, *unused = NULL;
    memcpy(times, more, sizeof times);
    bool good = find_owner(self, record->owner, &directory, &unused);
    if (!good && PyErr_ExceptionMatches(PyExc_KeyError))
        return PyErr_Clear(), true; /* as in enter_described */
    for (int i = 0; good && i < 2; i++) {
        PyObject *time = times[i] == FAST_OMITTED ? NULL : PyLong_FromLongLong(times[i]);
        good = times[i] == FAST_OMITTED || (time && PyObject_SetAttrString(directory, names[i], time) == 0);
        Py_XDECREF(time);
    }
    good = good && PyObject_SetAttrString(directory, "ctime", when) == 0;
    Py_XDECREF(unused);
    return good;
}

static bool enter_first(VfsLock *self)
{
    struct fast_record record;
    const char *text = self->records + self->first + sizeof record;
    memcpy(&record, self->records + self->first, sizeof record);
    PyObject *name = PyBytes_FromStringAndSize(text, record.size);
    PyObject *new_name = PyBytes_FromStringAndSize(text + record.size, record.new_size);
    PyObject *host = stat_of_host(&record, text + record.size);
    PyObject *number = PyLong_FromUnsignedLongLong(record.number), *when = PyLong_FromLongLong(record.when_ns);
    bool entered = false, good = name && new_name && host && number && when;
    if (good)
        good = record.deed == FAST_MODE_SET ? enter_mode(self, &record, number, when)
               : record.deed == FAST_MOVED  ? enter_moved(self, &record, name, new_name, when)
               : record.deed == FAST_DIRECTORY_DATED ? enter_dated(self, &record, text, when)
                                            : enter_described(self, &record, name, host, number, when, &entered);
    if (good && !entered) {
        self->first += sizeof record + record.size + record.new_size;
        self->entered++;
        if (self->first == self->size)
            self->first = self->size = 0;
    }
    Py_XDECREF(when);
    Py_XDECREF(number);
    Py_XDECREF(host);
    Py_XDECREF(new_name);
    Py_XDECREF(name);
    return good;
}

/* ---- for Python -------------------------------------------------------------------------------------------------- */

enum outcome { TAKEN, TOO_LATE, RAISED };

/* RAISED: a signal handler has raised an exception, and the lock was not taken. `until` NULL: wait for ever. */
static enum outcome wait_for(VfsLock *self, const struct timespec *until)
{
    while (sem_trywait(&self->free)) {
        int failure;
        Py_BEGIN_ALLOW_THREADS /* a thread that makes a file in C has it for a moment; it does not need the GIL */
        failure = (until ? sem_clockwait(&self->free, CLOCK_MONOTONIC, until) : sem_wait(&self->free)) ? errno : 0;
        Py_END_ALLOW_THREADS
        if (!failure)
            break;
        if (failure == ETIMEDOUT)
            return TOO_LATE;
        if (PyErr_CheckSignals() < 0)
            return RAISED;
    }
    return TAKEN;
}

static void give_back(VfsLock *self)
{
    if (--self->depth)
        return;
    self->owner = 0;
    sem_post(&self->free);
}

static PyObject *take(VfsLock *self, const struct timespec *until)
{
    unsigned long me = (unsigned long)pthread_self();
    if (self->owner != me) {
        enum outcome outcome = wait_for(self, until);
        if (outcome != TAKEN)
            return outcome == RAISED ? NULL : Py_NewRef(Py_False);
        self->owner = me;
    }
    self->depth++;
    while (self->first < self->size) {
        if (!enter_first(self)) {
            give_back(self);
            return NULL;
        }
    }
    Py_RETURN_TRUE;
}

static PyObject *VfsLock_enter(VfsLock *self, PyObject *Py_UNUSED(noargs))
{
    return take(self, NULL);
}

static PyObject *VfsLock_acquire(VfsLock *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"timeout", NULL};
    double seconds = -1;
    struct timespec until;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|d:acquire", names, &seconds))
        return NULL;
    if (seconds < 0)
        return take(self, NULL);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    return take(self, &until);
}

static PyObject *VfsLock_exit(VfsLock *self, PyObject *Py_UNUSED(args))
{
    if (self->owner != (unsigned long)pthread_self())
        return PyErr_SetString(PyExc_RuntimeError, "this thread does not have the lock"), NULL;
    give_back(self);
    Py_RETURN_NONE;
}

static PyObject *VfsLock_after_fork(VfsLock *self, PyObject *Py_UNUSED(noargs))
{
    sem_init(&self->free, 0, 1);
    self->owner = self->depth = 0;
    Py_RETURN_NONE;
}

static PyObject *VfsLock_entering(VfsLock *self, PyObject *args)
{
    PyObject *describe, *owners, *nodes;
    PyObject *before[] = {self->describe, self->owners, self->nodes};
    if (!PyArg_ParseTuple(args, "OO!O!:entering", &describe, &PyDict_Type, &owners, &PyDict_Type, &nodes))
        return NULL;
    self->describe = Py_NewRef(describe);
    self->owners = Py_NewRef(owners);
    self->nodes = Py_NewRef(nodes);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        Py_XDECREF(before[i]);
    Py_RETURN_NONE;
}

static void end_clock(VfsLock *self)
{
    if (self->clock >= 0)
        close(self->clock);
    self->clock = -1;
}

static PyObject *VfsLock_close(VfsLock *self, PyObject *Py_UNUSED(noargs))
{
    self->first = self->size = 0;
    end_clock(self);
    Py_CLEAR(self->describe);
    Py_CLEAR(self->owners);
    Py_CLEAR(self->nodes);
    Py_RETURN_NONE;
}

static PyObject *VfsLock_set_aside(VfsLock *self, PyObject *args)
{
    unsigned long long next, end;
    if (!PyArg_ParseTuple(args, "KK:set_aside", &next, &end))
        return NULL;
    self->next = next, self->end = end;
    Py_RETURN_NONE;
}

static PyObject *get_numbers_left(VfsLock *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(self->end - self->next);
}

static PyObject *get_room(VfsLock *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->room);
}

static int set_room(VfsLock *self, PyObject *value, void *Py_UNUSED(closure))
{
    long long room = value ? PyLong_AsLongLong(value) : 0;
    if (PyErr_Occurred())
        return -1;
    self->room = room;
    return 0;
}

static PyObject *VfsLock_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    VfsLock *self = (VfsLock *)PyType_GenericNew(type, NULL, NULL);
    if (self) {
        sem_init(&self->free, 0, 1);
        self->clock = -1;
        self->room = 1LL << 62; /* and more, for each of the host's names that the guest removes */
    }
    return (PyObject *)self;
}

static void VfsLock_dealloc(VfsLock *self)
{
    sem_destroy(&self->free);
    free(self->records);
    end_clock(self);
    Py_XDECREF(self->describe);
    Py_XDECREF(self->owners);
    Py_XDECREF(self->nodes);
    core_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"__enter__", (PyCFunction)VfsLock_enter, METH_NOARGS, "Take the lock, and enter what C has made."},
    {"__exit__", (PyCFunction)VfsLock_exit, METH_VARARGS, "Give it back."},
    {"acquire", (PyCFunction)(void (*)(void))VfsLock_acquire, METH_VARARGS | METH_KEYWORDS,
     "acquire(timeout=-1): as __enter__; False: not within so many seconds"},
    {"release", (PyCFunction)VfsLock_exit, METH_NOARGS, "release(): as __exit__"},
    {"after_fork", (PyCFunction)VfsLock_after_fork, METH_NOARGS, "after_fork(): in the child, nobody has it"},
    {"entering", (PyCFunction)VfsLock_entering, METH_VARARGS,
     "entering(describe, owners, nodes): from now on C may change files; describe(deed, owner, number, when, mode, "
     "name, host) gives (directory, node); the node of what was removed is None, or hides what the `host` has by that "
     "name. It may be asked again"},
    {"close", (PyCFunction)VfsLock_close, METH_NOARGS, "close(): C changes no file any more"},
    {"set_aside", (PyCFunction)VfsLock_set_aside, METH_VARARGS,
     "set_aside(next, end): numbers for files that C makes. With the lock"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"numbers_left", (getter)get_numbers_left, NULL, "of those set aside", NULL},
    {"room", (getter)get_room, (setter)set_room, "names that the guest may still make. With the lock", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, VfsLock_dealloc},
    {Py_tp_new, VfsLock_new},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

PyTypeObject *fast_lock_type;
PyType_Spec fast_lock_spec = {
    .name = "husk.native._core.VfsLock",
    .basicsize = sizeof(VfsLock),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
