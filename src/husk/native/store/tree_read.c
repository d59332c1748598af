/* native: the contents of a tree's files: which ones are unchanged, and reading the others, many in one call.
 *
 * Python hashes: it calls the blake3 package on slices of the buffer that the files were read into. */
#include "store/tree.h"

#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* One record of the index: the content that a file of this identity, size and times had. */
struct known {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
    uint8_t hash[32];
    uint64_t xattrs; /* 1: it has xattrs, which are read again */
};

static uint64_t identity_slot(uint64_t dev, uint64_t ino)
{
    return (ino ^ dev << 40) * 0x9e3779b97f4a7c15 >> 20;
}

/* A hash table of the records by identity: a slot holds a record's number plus one, or 0. The caller frees it. */
static uint32_t *table_by_identity(const struct known *known, uint64_t count, uint64_t *slots)
{
    *slots = 16;
    while (*slots < 2 * count)
        *slots *= 2;
    uint32_t *table = calloc(*slots, sizeof *table);
    for (uint64_t i = 0; i < count && table; i++) {
        uint64_t slot = identity_slot(known[i].dev, known[i].ino);
        while (table[slot & (*slots - 1)])
            slot++;
        table[slot & (*slots - 1)] = i + 1;
    }
    return table;
}

static bool is_unchanged(const struct tree_item *item, const struct known *k)
{
    return k->dev == item->dev && k->ino == item->ino && k->size == item->size && k->mtime_ns == item->mtime_ns &&
           k->ctime_ns == item->ctime_ns;
}

/* Takes the hash of an unchanged file from its record. 1: taken; 0: the file has to be read; -errno. */
static int take_hash(Tree *tree, struct tree_item *item, int root, const struct known *k)
{
    if (k->xattrs) {
        int fd = host_open_beneath(root, item->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
        if (fd < 0)
            return 0; /* it will be read like a new file, and that reports the error */
        int error = tree_item_xattrs(tree, item, fd);
        close(fd);
        if (error)
            return error;
    }
    memcpy(item->hash, k->hash, 32);
    item->state |= ITEM_HASHED;
    return 1;
}

PyObject *tree_py_match(Tree *tree, PyObject *args)
{
    Py_buffer index;
    int root;
    if (!PyArg_ParseTuple(args, "iy*:match", &root, &index))
        return NULL;
    const struct known *known = index.buf;
    uint64_t count = index.len / sizeof *known, slots = 0, found = 0;
    int error = count * sizeof *known == (uint64_t)index.len && count < UINT32_MAX ? 0 : -EINVAL;
    Py_BEGIN_ALLOW_THREADS
    uint32_t *table = error ? NULL : table_by_identity(known, count, &slots);
    if (!error && !table)
        error = -ENOMEM;
    for (uint32_t i = 0; i < tree->count && !error; i++) {
        struct tree_item *item = &tree->items[i];
        if (!S_ISREG(item->mode) || item->state & ITEM_DROPPED)
            continue;
        uint64_t slot = identity_slot(item->dev, item->ino);
        uint32_t id;
        while ((id = table[slot & (slots - 1)]) && !is_unchanged(item, &known[id - 1]))
            slot++;
        int taken = id ? take_hash(tree, item, root, &known[id - 1]) : 0;
        if (taken < 0)
            error = taken;
        else
            found += taken;
    }
    free(table);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&index);
    return error ? core_raise_errno(-error) : PyLong_FromUnsignedLongLong(found);
}

PyObject *tree_py_index(Tree *tree, PyObject *args)
{
    /* A file that changed just before it was read may change again within the same tick of the host's clock, and keep
     * its times. So files newer than `before_ns` are left out. */
    long long before_ns;
    if (!PyArg_ParseTuple(args, "L:index", &before_ns))
        return NULL;
    uint64_t count = 0;
    for (int pass = 0;; pass++) {
        PyObject *bytes = pass ? PyBytes_FromStringAndSize(NULL, count * sizeof(struct known)) : NULL;
        if (pass && !bytes)
            return NULL;
        struct known *next = pass ? (struct known *)PyBytes_AsString(bytes) : NULL;
        for (uint32_t i = 0; i < tree->count; i++) {
            const struct tree_item *item = &tree->items[i];
            if (!S_ISREG(item->mode) || !(item->state & ITEM_HASHED) || item->state & (ITEM_DROPPED | ITEM_UNSTABLE) ||
                item->ctime_ns >= before_ns || item->mtime_ns >= before_ns)
                continue;
            if (!pass) {
                count++;
                continue;
            }
            struct known known = {.dev = item->dev, .ino = item->ino, .size = item->size, .mtime_ns = item->mtime_ns,
                                  .ctime_ns = item->ctime_ns, .xattrs = item->xattrs_size > 0};
            memcpy(known.hash, item->hash, 32);
            *next++ = known;
        }
        if (pass)
            return bytes;
    }
}

static Tree *sorting; /* borrowed; qsort passes no context, and the GIL is held */

static int compare_files(const void *a, const void *b)
{
    const struct tree_item *x = &sorting->items[*(const uint32_t *)a], *y = &sorting->items[*(const uint32_t *)b];
    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Calls `visit` for each further name of a file, with the item of its first name. False: no memory. */
static bool each_linked(Tree *tree, void (*visit)(struct tree_item *first, struct tree_item *item))
{
    uint32_t count = 0, *linked = malloc((tree->count + 1) * sizeof *linked);
    if (!linked)
        return false;
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->items[i].state & ITEM_LINKED && !(tree->items[i].state & ITEM_DROPPED))
            linked[count++] = i;
    sorting = tree;
    qsort(linked, count, sizeof *linked, compare_files);
    for (uint32_t i = 1, first = 0; i < count; i++) {
        if (compare_files(&linked[first], &linked[i]))
            first = i;
        else
            visit(&tree->items[linked[first]], &tree->items[linked[i]]);
    }
    free(linked);
    return true;
}

PyObject *tree_py_distinct(Tree *tree, PyObject *noargs)
{
    (void)noargs;
    unsigned long blobs = 0;
    unsigned long long bytes = 0;
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)tree->count)
        slots *= 2;
    uint32_t *table = calloc(slots, sizeof *table); /* item + 1; a table and not a sort, which took ten times as long */
    if (!table)
        return PyErr_NoMemory();
    for (uint32_t i = 0; i < tree->count; i++) {
        const struct tree_item *item = &tree->items[i];
        uint64_t slot;
        if (!S_ISREG(item->mode) || item->state & ITEM_DROPPED)
            continue;
        memcpy(&slot, item->hash, 8);
        while (table[slot & (slots - 1)] && memcmp(tree->items[table[slot & (slots - 1)] - 1].hash, item->hash, 32))
            slot++;
        if (table[slot & (slots - 1)])
            continue;
        table[slot & (slots - 1)] = i + 1;
        blobs++, bytes += item->size;
    }
    free(table);
    return Py_BuildValue("(kK)", blobs, bytes);
}

#define ITEM_FOLLOWS 128 /* while planning: the file is read by another name */

static void follow(struct tree_item *first, struct tree_item *item)
{
    (void)first;
    item->state |= ITEM_FOLLOWS;
}

static void share(struct tree_item *first, struct tree_item *item)
{
    struct tree_item old = *item;
    *item = *first;
    item->path = old.path, item->path_size = old.path_size;
}

PyObject *tree_py_share_links(Tree *tree, PyObject *noargs)
{
    (void)noargs;
    if (!each_linked(tree, share))
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyObject *tree_py_plan(Tree *tree, PyObject *args)
{
    unsigned long long limit, bytes = 0;
    if (!PyArg_ParseTuple(args, "K:plan", &limit))
        return NULL;
    free(tree->todo);
    tree->todo = malloc((tree->count + 1) * sizeof *tree->todo);
    tree->todo_count = tree->next = 0;
    for (uint32_t i = 0; i < tree->count; i++)
        tree->items[i].state &= ~ITEM_FOLLOWS;
    if (!tree->todo || !each_linked(tree, follow))
        return PyErr_NoMemory();
    PyObject *large = PyList_New(0);
    for (uint32_t i = 0; i < tree->count && large; i++) {
        const struct tree_item *item = &tree->items[i];
        if (!S_ISREG(item->mode) || item->state & (ITEM_DROPPED | ITEM_HASHED | ITEM_FOLLOWS))
            continue;
        bytes += item->size;
        if (item->size <= limit) {
            tree->todo[tree->todo_count++] = i;
            continue;
        }
        PyObject *id = PyLong_FromUnsignedLong(i);
        if (!id || PyList_Append(large, id) < 0)
            Py_CLEAR(large);
        Py_XDECREF(id);
    }
    return large ? Py_BuildValue("(IKN)", tree->todo_count, bytes, large) : NULL;
}

/* Takes the next files that fit into `room`. False: none is left. */
static bool take_run(Tree *tree, size_t room, uint32_t *first, uint32_t *count)
{
    pthread_mutex_lock(&tree->lock);
    *first = tree->next;
    size_t used = 0;
    while (tree->next < tree->todo_count) {
        uint64_t size = tree->items[tree->todo[tree->next]].size + 1; /* one more, to notice that it has grown */
        if (used + size > room)
            break;
        used += size;
        tree->next++;
    }
    *count = tree->next - *first;
    pthread_mutex_unlock(&tree->lock);
    return *count > 0;
}

/* Size of the content, or -errno. -EAGAIN: the file was replaced or has changed, and Python reads it again. */
static ssize_t read_file(Tree *tree, int root, struct tree_item *item, uint8_t *to)
{
    struct stat before, after;
    int fd = host_open_beneath(root, item->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME, 0);
    if (fd == -EPERM) /* O_NOATIME is only for owners */
        fd = host_open_beneath(root, item->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    size_t used = 0, room = item->size + 1;
    ssize_t got = 0;
    int error = fstat(fd, &before) < 0 ? -errno : 0;
    if (!error && (!S_ISREG(before.st_mode) || before.st_dev != item->dev || before.st_ino != item->ino))
        error = -EAGAIN;
    while (!error && used < room && (got = read(fd, to + used, room - used)) != 0) {
        if (got > 0)
            used += got;
        else if (errno != EINTR)
            error = -errno;
    }
    if (!error && fstat(fd, &after) < 0)
        error = -errno;
    if (!error && (used != (uint64_t)after.st_size || used > item->size || before.st_size != after.st_size ||
                   core_nanoseconds(before.st_mtim) != core_nanoseconds(after.st_mtim) ||
                   core_nanoseconds(before.st_ctim) != core_nanoseconds(after.st_ctim)))
        error = -EAGAIN;
    if (!error) {
        tree_item_stat(item, &after);
        error = tree_item_xattrs(tree, item, fd);
    }
    close(fd);
    return error ? error : (ssize_t)used;
}

PyObject *tree_py_read(Tree *tree, PyObject *args)
{
    /* -> (first, sizes as u32, numbers that Python has to read). The size of those, and of failures, is UINT32_MAX. */
    int root;
    Py_buffer buffer;
    if (!PyArg_ParseTuple(args, "iw*:read", &root, &buffer))
        return NULL;
    uint32_t first, count;
    if (!take_run(tree, buffer.len, &first, &count)) {
        PyBuffer_Release(&buffer);
        Py_RETURN_NONE;
    }
    PyObject *sizes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count * 4), *again = PyList_New(0);
    uint32_t *size = sizes ? (uint32_t *)PyBytes_AsString(sizes) : NULL;
    if (sizes && again) {
        Py_BEGIN_ALLOW_THREADS
        uint8_t *to = buffer.buf;
        for (uint32_t i = 0; i < count; i++) {
            struct tree_item *item = &tree->items[tree->todo[first + i]];
            ssize_t got = read_file(tree, root, item, to);
            size[i] = got < 0 ? UINT32_MAX : (uint32_t)got;
            if (got >= 0)
                to += got;
            else if (got != -EAGAIN && got != -ENOENT && got != -ELOOP) {
                tree_trouble(tree, item->path, (int)-got);
                item->state |= ITEM_DROPPED;
            }
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&buffer);
    for (uint32_t i = 0; i < count && sizes && again; i++) {
        if (size[i] != UINT32_MAX || tree->items[tree->todo[first + i]].state & ITEM_DROPPED)
            continue;
        PyObject *id = PyLong_FromUnsignedLong(tree->todo[first + i]);
        if (!id || PyList_Append(again, id) < 0)
            Py_CLEAR(again);
        Py_XDECREF(id);
    }
    if (!sizes || !again) {
        Py_XDECREF(sizes);
        Py_XDECREF(again);
        return NULL;
    }
    return Py_BuildValue("(INN)", first, sizes, again);
}
