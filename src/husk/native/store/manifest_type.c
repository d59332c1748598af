/* native: the Python class Manifest. It owns a mapping and turns entries into tuples. */
#include "store/store.h"

#include "store/manifest.h"

#include <errno.h>
#include <sys/mman.h>

typedef struct {
    PyObject_HEAD
    void *mapping; /* owned */
    size_t size;
    struct manifest manifest; /* points into the mapping */
} Manifest;

static int manifest_init(Manifest *self, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    int fd;
    struct stat s;
    if (!PyArg_ParseTuple(args, "i:Manifest", &fd))
        return -1;
    if (self->mapping) {
        PyErr_SetString(PyExc_RuntimeError, "a manifest is opened once");
        return -1;
    }
    if (fstat(fd, &s) < 0) {
        core_raise_errno(errno);
        return -1;
    }
    if (s.st_size < (off_t)sizeof(struct manifest_header)) {
        PyErr_SetString(PyExc_ValueError, "it is not a manifest");
        return -1;
    }
    /* A blob never changes once it has its name, so this check holds for the mapping's life. */
    void *mapping = mmap(NULL, s.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        core_raise_errno(errno);
        return -1;
    }
    const char *wrong = manifest_open(&self->manifest, mapping, s.st_size);
    if (wrong) {
        munmap(mapping, s.st_size);
        PyErr_SetString(PyExc_ValueError, wrong);
        return -1;
    }
    self->mapping = mapping;
    self->size = s.st_size;
    return 0;
}

static void manifest_dealloc(Manifest *self)
{
    if (self->mapping)
        munmap(self->mapping, self->size);
    core_free((PyObject *)self);
}

const struct manifest *manifest_of(PyObject *object)
{
    return &((Manifest *)object)->manifest;
}

static Py_ssize_t manifest_length(Manifest *self)
{
    return self->mapping ? (Py_ssize_t)self->manifest.header->entry_count : 0;
}

static PyObject *manifest_lookup(Manifest *self, PyObject *path)
{
    if (!PyBytes_Check(path) || !self->mapping) {
        PyErr_SetString(PyExc_TypeError, "a path is bytes");
        return NULL;
    }
    uint32_t id = manifest_find(&self->manifest, PyBytes_AsString(path), PyBytes_Size(path));
    return PyLong_FromLong(id == MANIFEST_NONE ? -1L : (long)id);
}

/* A tuple as RawEntry in _core.pyi. */
static PyObject *manifest_raw(Manifest *self, PyObject *number)
{
    unsigned long long id = PyLong_AsUnsignedLongLong(number);
    if (id == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    const struct manifest_entry *e =
        self->mapping && id < MANIFEST_NONE ? manifest_entry(&self->manifest, (uint32_t)id) : NULL;
    if (!e) {
        PyErr_Format(PyExc_ValueError, "entry %llu points out of bounds", id);
        return NULL;
    }
    const struct manifest *m = &self->manifest;
    bool link = S_ISLNK(e->mode), directory = S_ISDIR(e->mode);
    return Py_BuildValue("(y#IIIIIIKLIIIy#y#y#KI)", m->strings + e->path, (Py_ssize_t)e->path_size, e->parent, e->mode,
                         e->uid, e->gid, e->nlink, e->flags, (unsigned long long)e->size, (long long)e->mtime_ns,
                         e->inode, e->rdev_major, e->rdev_minor, (const char *)e->blob, (Py_ssize_t)32,
                         link ? m->strings + e->first : "", (Py_ssize_t)(link ? e->count : 0),
                         (const char *)m->xattrs + e->xattrs, (Py_ssize_t)e->xattrs_size,
                         (unsigned long long)(directory ? e->first : 0), directory ? e->count : 0);
}

static PyMethodDef methods[] = {
    {"lookup", (PyCFunction)manifest_lookup, METH_O, "lookup(path) -> number of the entry, -1 for no such name"},
    {"entry", (PyCFunction)manifest_raw, METH_O, "entry(number) -> what it says, as a tuple"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"Manifest(fd): an immutable tree of names, mapped"},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, manifest_init},
    {Py_tp_dealloc, manifest_dealloc},
    {Py_tp_methods, methods},
    {Py_sq_length, manifest_length},
    {0, NULL},
};

PyTypeObject *manifest_type;
PyType_Spec manifest_spec = {
    .name = "husk.native._core.Manifest",
    .basicsize = sizeof(Manifest),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

PyObject *manifest_py_name_hash(PyObject *self, PyObject *args)
{
    (void)self;
    const char *seed, *data;
    Py_ssize_t seed_size, size;
    if (!PyArg_ParseTuple(args, "y#y#:name_hash", &seed, &seed_size, &data, &size))
        return NULL;
    if (seed_size != 16) {
        PyErr_SetString(PyExc_ValueError, "a seed has 16 bytes");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(manifest_name_hash((const uint8_t *)seed, data, size));
}
