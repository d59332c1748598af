/* native: the Python class Tree: its memory, and the methods that need no file access. */
#include "store/tree.h"

#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#define CHUNK (1 << 20)

struct tree_chunk {
    struct tree_chunk *next;
    size_t used, room;
    char bytes[];
};

const void *tree_keep(Tree *tree, const void *bytes, size_t size)
{
    pthread_mutex_lock(&tree->lock);
    struct tree_chunk *chunk = tree->text;
    if (!chunk || chunk->room - chunk->used < size + 1) {
        size_t room = size + 1 > CHUNK ? size + 1 : CHUNK;
        chunk = malloc(sizeof *chunk + room);
        if (chunk) {
            chunk->next = tree->text, chunk->used = 0, chunk->room = room;
            tree->text = chunk;
        }
    }
    char *kept = NULL;
    if (chunk) {
        kept = chunk->bytes + chunk->used;
        memcpy(kept, bytes, size);
        kept[size] = 0;
        chunk->used += size + 1;
    }
    pthread_mutex_unlock(&tree->lock);
    return kept;
}

struct tree_item *tree_new_item(Tree *tree)
{
    if (tree->count == tree->room) {
        uint32_t room = tree->room ? tree->room * 2 : 1024;
        if (room <= tree->room) /* 2^31 names are enough */
            return NULL;
        struct tree_item *items = realloc(tree->items, room * sizeof *items);
        if (!items)
            return NULL;
        tree->items = items, tree->room = room;
    }
    struct tree_item *item = &tree->items[tree->count++];
    memset(item, 0, sizeof *item);
    return item;
}

void tree_trouble(Tree *tree, const char *path, int error)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *what = Py_BuildValue("(yi)", path, error);
    if (!what || PyList_Append(tree->troubles, what) < 0)
        PyErr_Clear(); /* no memory for a message; the caller will fail too and say so */
    Py_XDECREF(what);
    PyGILState_Release(state);
}

bool tree_path_is_good(const char *path, size_t size)
{
    if (size > MANIFEST_PATH_LIMIT || memchr(path, 0, size))
        return false;
    for (size_t start = 0; size && start <= size;) {
        const char *slash = memchr(path + start, '/', size - start);
        size_t length = slash ? (size_t)(slash - path) - start : size - start;
        const char *name = path + start;
        if (!length || length > 255 || (length == 1 && name[0] == '.') ||
            (length == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        start += length + 1;
    }
    return true;
}

void tree_item_stat(struct tree_item *item, const struct stat *s)
{
    item->mode = s->st_mode, item->uid = s->st_uid, item->gid = s->st_gid;
    item->dev = s->st_dev, item->ino = s->st_ino;
    item->size = S_ISREG(s->st_mode) ? s->st_size : 0;
    item->mtime_ns = core_nanoseconds(s->st_mtim), item->ctime_ns = core_nanoseconds(s->st_ctim);
    if (S_ISCHR(s->st_mode) || S_ISBLK(s->st_mode))
        item->rdev_major = major(s->st_rdev), item->rdev_minor = minor(s->st_rdev);
    /* A directory's link count tells nothing about hard links. */
    if (s->st_nlink > 1 && !S_ISDIR(s->st_mode))
        item->state |= ITEM_LINKED;
}

static PyObject *tree_add(Tree *tree, PyObject *args)
{
    /* Called by ManifestWriter.add, which checks types and has the messages for everything but the path. */
    struct tree_item new = {0};
    const char *path, *target, *xattrs, *hash;
    Py_ssize_t path_size, target_size, xattrs_size, hash_size;
    unsigned long long size, link;
    long long mtime_ns;
    if (!PyArg_ParseTuple(args, "y#IIIKLIIy#y#y#KI:add", &path, &path_size, &new.mode, &new.uid, &new.gid, &size,
                          &mtime_ns,
                          &new.rdev_major, &new.rdev_minor, &target, &target_size, &xattrs, &xattrs_size, &hash,
                              &hash_size,
                          &link, &new.flags))
        return NULL;
    if (!tree_path_is_good(path, path_size)) {
        PyErr_SetString(PyExc_ValueError, "the path is not a plain relative one");
        return NULL;
    }
    if (hash_size != 32 || target_size > MANIFEST_PATH_LIMIT || xattrs_size > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a hash has 32 bytes, a link's target at most 4095");
        return NULL;
    }
    new.size = size, new.mtime_ns = mtime_ns, new.ino = link;
    new.path_size = path_size, new.target_size = target_size, new.xattrs_size = xattrs_size;
    memcpy(new.hash, hash, 32);
    new.state = ITEM_HASHED | (link ? ITEM_LINKED : 0);
    new.path = tree_keep(tree, path, path_size);
    new.target = tree_keep(tree, target, target_size);
    new.xattrs = tree_keep(tree, xattrs, xattrs_size);
    struct tree_item *item = new.path && new.target && new.xattrs ? tree_new_item(tree) : NULL;
    if (!item)
        return PyErr_NoMemory();
    *item = new;
    Py_RETURN_NONE;
}

static struct tree_item *item_at(Tree *tree, PyObject *number)
{
    unsigned long id = PyLong_AsUnsignedLong(number);
    if (id == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    if (id < tree->count)
        return &tree->items[id];
    PyErr_SetString(PyExc_IndexError, "no such item");
    return NULL;
}

static PyObject *tree_path(Tree *tree, PyObject *number)
{
    struct tree_item *item = item_at(tree, number);
    return item ? PyBytes_FromStringAndSize(item->path, item->path_size) : NULL;
}

static PyObject *tree_marked(Tree *tree, PyObject *noargs)
{
    (void)noargs;
    PyObject *found = PyList_New(0);
    for (uint32_t i = 0; found && i < tree->count; i++) {
        if (!(tree->items[i].state & ITEM_MARKED) || tree->items[i].state & ITEM_DROPPED)
            continue;
        PyObject *id = PyLong_FromUnsignedLong(i);
        if (!id || PyList_Append(found, id) < 0)
            Py_CLEAR(found);
        Py_XDECREF(id);
    }
    return found;
}

static PyObject *tree_drop(Tree *tree, PyObject *number)
{
    struct tree_item *item = item_at(tree, number);
    if (!item)
        return NULL;
    item->state |= ITEM_DROPPED;
    Py_RETURN_NONE;
}

static PyObject *tree_dropped(Tree *tree, PyObject *noargs)
{
    (void)noargs;
    PyObject *found = PyList_New(0);
    for (uint32_t i = 0; found && i < tree->count; i++) {
        const struct tree_item *item = &tree->items[i];
        if (!(item->state & ITEM_DROPPED))
            continue;
        PyObject *what = Py_BuildValue("(y#N)", item->path, (Py_ssize_t)item->path_size,
                                       PyBool_FromLong(item->state & ITEM_MARKED));
        if (!what || PyList_Append(found, what) < 0)
            Py_CLEAR(found);
        Py_XDECREF(what);
    }
    return found;
}

static PyObject *tree_hashed(Tree *tree, PyObject *args)
{
    /* Python reads large files itself. `fd` is the descriptor it read from; the item's metadata is taken from it. */
    PyObject *number;
    int fd, stable;
    const char *hash;
    Py_ssize_t hash_size;
    unsigned long long size;
    struct stat s;
    if (!PyArg_ParseTuple(args, "Oiy#Kp:hashed", &number, &fd, &hash, &hash_size, &size, &stable))
        return NULL;
    struct tree_item *item = item_at(tree, number);
    if (!item)
        return NULL;
    if (hash_size != 32 || fstat(fd, &s) < 0)
        return hash_size != 32 ? PyErr_Format(PyExc_ValueError, "a hash has 32 bytes") : core_raise_errno(errno);
    tree_item_stat(item, &s);
    int error = tree_item_xattrs(tree, item, fd);
    if (error)
        return core_raise_errno(-error);
    item->size = size;
    memcpy(item->hash, hash, 32);
    item->state |= ITEM_HASHED | (stable ? 0 : ITEM_UNSTABLE);
    Py_RETURN_NONE;
}

static PyObject *tree_summary(Tree *tree, PyObject *noargs)
{
    (void)noargs;
    unsigned long files = 0, directories = 0, links = 0, others = 0, unstable = 0;
    unsigned long long bytes = 0;
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct tree_item *item = &tree->items[i];
        if (item->state & ITEM_DROPPED)
            continue;
        unstable += !!(item->state & ITEM_UNSTABLE);
        if (S_ISREG(item->mode))
            files++, bytes += item->size;
        else if (S_ISDIR(item->mode))
            directories++;
        else if (S_ISLNK(item->mode))
            links++;
        else
            others++;
    }
    return Py_BuildValue("(kkkkkK)", files, directories, links, others, unstable, bytes);
}

static PyObject *tree_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    Tree *tree = (Tree *)PyType_GenericAlloc(type, 0);
    if (!tree)
        return NULL;
    pthread_mutex_init(&tree->lock, NULL);
    tree->troubles = PyList_New(0);
    if (!tree->troubles)
        Py_CLEAR(tree);
    return (PyObject *)tree;
}

static void tree_dealloc(Tree *tree)
{
    for (struct tree_chunk *chunk = tree->text, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(tree->items);
    free(tree->todo);
    pthread_mutex_destroy(&tree->lock);
    Py_XDECREF(tree->troubles);
    core_free((PyObject *)tree);
}

static Py_ssize_t tree_length(Tree *tree)
{
    return tree->count;
}

static PyObject *tree_troubles(Tree *tree, void *closure)
{
    (void)closure;
    return Py_NewRef(tree->troubles);
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)tree_add, METH_VARARGS, "one name, in any order"},
    {"path", (PyCFunction)tree_path, METH_O, "path(number)"},
    {"marked", (PyCFunction)tree_marked, METH_NOARGS, "numbers of files that Python has to look into"},
    {"drop", (PyCFunction)tree_drop, METH_O, "drop(number): leave it out"},
    {"dropped", (PyCFunction)tree_dropped, METH_NOARGS, "what is left out: (path, whether as a secret)"},
    {"distinct", (PyCFunction)tree_py_distinct, METH_NOARGS, "(blobs, bytes): distinct contents of the tree's files"},
    {"hashed", (PyCFunction)tree_hashed, METH_VARARGS, "hashed(number, fd, hash, size, stable)"},
    {"summary", (PyCFunction)tree_summary, METH_NOARGS, "(files, directories, links, others, unstable, bytes)"},
    {"scan", (PyCFunction)tree_py_scan, METH_VARARGS, "scan(root_fd, patterns, cross_mounts): walk a host directory"},
    {"match", (PyCFunction)tree_py_match, METH_VARARGS, "match(root_fd, index) -> files that are as they were"},
    {"index", (PyCFunction)tree_py_index, METH_VARARGS, "index(before_ns) -> records for the next match"},
    {"plan", (PyCFunction)tree_py_plan, METH_VARARGS,
     "plan(limit) -> (small files, their bytes, numbers of large ones)"},
    {"read", (PyCFunction)tree_py_read, METH_VARARGS, "read(root_fd, buffer) -> a run of small files, None at the end"},
    {"stage", (PyCFunction)tree_py_stage, METH_VARARGS,
     "stage(first, sizes, hashes, buffer, stage_fd, blobs_fd, mode)"},
    {"missing", (PyCFunction)tree_py_missing, METH_VARARGS,
     "missing(blobs_fd) -> files whose blob is gone, to be read again"},
    {"share_links", (PyCFunction)tree_py_share_links, METH_NOARGS,
     "names of one file get the same content and metadata"},
    {"build", (PyCFunction)tree_py_build, METH_NOARGS, "build() -> (bytearray, where the tables begin)"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"troubles", (getter)tree_troubles, NULL, "what could not be read: (path, errno)", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (char *)"names on their way into a manifest"},
    {Py_tp_new, tree_new},
    {Py_tp_dealloc, tree_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_sq_length, tree_length},
    {0, NULL},
};

PyTypeObject *tree_type;
PyType_Spec tree_spec = {
    .name = "husk.native._core.Tree",
    .basicsize = sizeof(Tree),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
