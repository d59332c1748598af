/* native: writing the manifest of a tree. The same names give the same bytes, in whatever order they were added.
 *
 * Entries are in breadth-first order: the root, its children, then the children of each of those, in order. So the
 * children of a directory are neighbours, sorted by name, a parent comes before its children, and there can be no
 * cycle. `build` writes entries, strings and xattrs. Their hash is the seed of the name table, which `fill` writes.
 * `seal` writes the checksums. */
#include "store/tree.h"

#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct builder {
    Tree *tree;
    uint32_t count;
    /* Owned arrays. */
    uint32_t *sorted;  /* items, depth first */
    uint32_t *parent;  /* by position in sorted */
    uint32_t *order;   /* positions in sorted, level by level */
    uint32_t *first;   /* by entry: its first child */
    uint32_t *children; /* by position in sorted */
    uint32_t *entry_of; /* by position in sorted */
    char wrong[256];
    const struct tree_item *culprit; /* borrowed from the tree */
};

static bool refuse(struct builder *b, const struct tree_item *item, const char *why)
{
    b->culprit = item;
    snprintf(b->wrong, sizeof b->wrong, "%s", why);
    return false;
}

static const struct tree_item *at(const struct builder *b, uint32_t position)
{
    return &b->tree->items[b->sorted[position]];
}

static const struct tree_item *sorted_items; /* for qsort; the GIL is held */

/* A slash sorts before everything else: a directory, what is below it, then its next sibling. */
static int compare_paths(const void *x, const void *y)
{
    const struct tree_item *a = &sorted_items[*(const uint32_t *)x], *b = &sorted_items[*(const uint32_t *)y];
    uint32_t least = a->path_size < b->path_size ? a->path_size : b->path_size, i = 0;
    for (uint64_t left, right; i + 8 <= least; i += 8) {
        memcpy(&left, a->path + i, 8), memcpy(&right, b->path + i, 8);
        if (left != right)
            break;
    }
    while (i < least && a->path[i] == b->path[i])
        i++;
    if (i == least)
        return a->path_size < b->path_size ? -1 : a->path_size > b->path_size;
    uint8_t left = a->path[i], right = b->path[i];
    return (left == '/' ? 0 : left) - (right == '/' ? 0 : right);
}

static bool is_below(const struct tree_item *item, const struct tree_item *directory)
{
    uint32_t size = directory->path_size;
    if (!size)
        return item->path_size > 0;
    return item->path_size > size && item->path[size] == '/' && !memcmp(item->path, directory->path, size);
}

static uint32_t name_at(const struct tree_item *item)
{
    const char *slash = memrchr(item->path, '/', item->path_size);
    return slash ? slash - item->path + 1 : 0;
}

static bool find_parents(struct builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct tree_item *item = at(b, i);
        if (!i) {
            if (item->path_size || !S_ISDIR(item->mode))
                return refuse(b, item, "the root is missing, or no directory");
            continue;
        }
        if (!compare_paths(&b->sorted[i - 1], &b->sorted[i]))
            return refuse(b, item, "the name is there twice");
        /* Its parent is the item before it, or the nearest ancestor of that. */
        uint32_t parent = i - 1;
        while (!is_below(item, at(b, parent)))
            parent = b->parent[parent];
        uint32_t prefix = at(b, parent)->path_size;
        if (!S_ISDIR(at(b, parent)->mode))
            return refuse(b, item, "it lies in something that is no directory");
        if (name_at(item) != prefix + (prefix > 0))
            return refuse(b, item, "the directory it is in is missing");
        b->parent[i] = parent;
        b->children[parent]++;
    }
    return true;
}

/* Numbers the entries breadth-first: `order` is the queue, and a directory's children are appended in order of name. */
static bool order_levels(struct builder *b)
{
    uint32_t *head = calloc(b->count, sizeof *head), *sibling = calloc(b->count, sizeof *sibling);
    bool good = head && sibling;
    /* Backwards, so that each list begins with its first name. 0 is the root, which is no child: it ends a list. */
    for (uint32_t i = good ? b->count - 1 : 0; i > 0; i--) {
        sibling[i] = head[b->parent[i]];
        head[b->parent[i]] = i;
    }
    b->order[0] = b->entry_of[0] = 0;
    for (uint32_t entry = 0, next = 1; good && entry < next; entry++) {
        b->first[entry] = next;
        for (uint32_t child = head[b->order[entry]]; child; child = sibling[child]) {
            b->entry_of[child] = next;
            b->order[next++] = child;
        }
    }
    free(head);
    free(sibling);
    return good || refuse(b, NULL, "memory");
}

struct link {
    uint64_t dev, ino;
    uint32_t entry;
};

static int compare_links(const void *x, const void *y)
{
    const struct link *a = x, *b = y;
    if (a->dev != b->dev)
        return a->dev < b->dev ? -1 : 1;
    if (a->ino != b->ino)
        return a->ino < b->ino ? -1 : 1;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

static bool same_file(const struct manifest_entry *a, const struct manifest_entry *b, const struct tree_item *x,
                      const struct tree_item *y)
{
    return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->rdev_major == b->rdev_major && a->rdev_minor == b->rdev_minor &&
           !memcmp(a->blob, b->blob, 32) && x->xattrs_size == y->xattrs_size && x->target_size == y->target_size &&
           !memcmp(x->xattrs ? (const void *)x->xattrs : "", y->xattrs ? (const void *)y->xattrs : "",
                   x->xattrs_size) &&
           !memcmp(x->target ? x->target : "", y->target ? y->target : "", x->target_size);
}

static bool join_links(struct builder *b, struct manifest_entry *entries)
{
    uint32_t count = 0;
    struct link *links = malloc((b->count + 1) * sizeof *links);
    if (!links)
        return refuse(b, NULL, "memory");
    for (uint32_t id = 0; id < b->count; id++) {
        const struct tree_item *item = at(b, b->order[id]);
        if (item->state & ITEM_LINKED)
            links[count++] = (struct link){item->dev, item->ino, id};
    }
    qsort(links, count, sizeof *links, compare_links);
    bool good = true;
    for (uint32_t start = 0, end; start < count && good; start = end) {
        uint32_t first = links[start].entry;
        for (end = start; end < count && links[end].dev == links[start].dev && links[end].ino ==
             links[start].ino; end++)
            ;
        for (uint32_t i = start; i < end && good; i++) {
            struct manifest_entry *entry = &entries[links[i].entry];
            const struct tree_item *item = at(b, b->order[links[i].entry]);
            entry->inode = first;
            entry->nlink = end - start;
            if (S_ISDIR(entry->mode))
                good = refuse(b, item, "a directory cannot have a hard link");
            else if (!same_file(entry, &entries[first], item, at(b, b->order[first])))
                good = refuse(b, item, "names of one file say different things about it");
        }
    }
    free(links);
    return good;
}

static bool good_content(struct builder *b, const struct tree_item *item)
{
    if (item->flags & MANIFEST_WHITEOUT ? item->mode || item->flags != MANIFEST_WHITEOUT : !(item->mode & S_IFMT))
        return refuse(b, item, "it is of no type, or a whiteout with one");
    if (item->flags & ~(MANIFEST_WHITEOUT | MANIFEST_OPAQUE) || (item->flags & MANIFEST_OPAQUE && !S_ISDIR(item->mode)))
        return refuse(b, item, "its flags make no sense");
    if (S_ISREG(item->mode) && !(item->state & ITEM_HASHED))
        return refuse(b, item, "its content was never read");
    if (S_ISLNK(item->mode) && !item->target_size)
        return refuse(b, item, "a link leads nowhere");
    return true;
}

static void write_entries(struct builder *b, uint8_t *file, uint64_t strings_at, uint64_t xattrs_at)
{
    struct manifest_entry *entries = (void *)(file + sizeof(struct manifest_header));
    char *strings = (char *)file + strings_at;
    uint64_t text = 0, xattrs = 0;
    for (uint32_t id = 0; id < b->count; id++) {
        uint32_t position = b->order[id];
        const struct tree_item *item = at(b, position);
        struct manifest_entry *e = &entries[id];
        bool regular = S_ISREG(item->mode), directory = S_ISDIR(item->mode), link = S_ISLNK(item->mode);
        *e = (struct manifest_entry){
            .path = text, .path_size = item->path_size, .name = name_at(item),
                .parent = b->entry_of[b->parent[position]],
            .mode = item->mode, .uid = item->uid, .gid = item->gid, .nlink = 1, .flags = item->flags,
            .size = regular ? item->size : link ? item->target_size : 0, .mtime_ns = item->mtime_ns, .inode = id,
            .xattrs = xattrs, .xattrs_size = item->xattrs_size, .rdev_major = item->rdev_major,
            .rdev_minor = item->rdev_minor,
        };
        memcpy(strings + text, item->path, item->path_size);
        text += item->path_size + 1;
        if (regular)
            memcpy(e->blob, item->hash, 32);
        if (directory) {
            e->first = b->first[id], e->count = b->children[position], e->nlink = 2;
        } else if (link) {
            e->first = text, e->count = item->target_size;
            memcpy(strings + text, item->target, item->target_size);
            text += item->target_size + 1;
        }
        if (item->xattrs_size)
            memcpy(file + xattrs_at + xattrs, item->xattrs, item->xattrs_size);
        xattrs += item->xattrs_size;
        if (directory && id) /* its `..` is a link to the directory above */
            entries[e->parent].nlink++;
    }
}

static bool prepare(struct builder *b)
{
    Tree *tree = b->tree;
    size_t room = tree->count + 1;
    uint32_t **arrays[] = {&b->sorted, &b->parent, &b->order, &b->first, &b->children, &b->entry_of};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = calloc(room, sizeof **arrays[i])))
            return refuse(b, NULL, "memory");
    for (uint32_t i = 0; i < tree->count; i++)
        if (!(tree->items[i].state & ITEM_DROPPED))
            b->sorted[b->count++] = i;
    if (!b->count)
        return refuse(b, NULL, "the root is missing, or no directory");
    sorted_items = tree->items;
    qsort(b->sorted, b->count, sizeof *b->sorted, compare_paths);
    for (uint32_t i = 0; i < b->count; i++)
        if (!good_content(b, at(b, i)))
            return false;
    if (!find_parents(b))
        return false;
    return order_levels(b);
}

static PyObject *write_manifest(struct builder *b, uint64_t *tables_at)
{
    struct manifest_header h = {
        .magic = MANIFEST_MAGIC, .version = MANIFEST_VERSION, .header_size = sizeof h, .entry_count = b->count,
        .table_slots = 8, .bloom_blocks = 1,
    };
    for (uint32_t i = 0; i < b->count; i++) {
        const struct tree_item *item = at(b, i);
        h.strings_size += item->path_size + 1 + (S_ISLNK(item->mode) ? item->target_size + 1 : 0);
        h.xattrs_size += item->xattrs_size;
    }
    while (h.table_slots < 2 * (uint64_t)b->count)
        h.table_slots *= 2;
    while (h.bloom_blocks * MANIFEST_NAMES_PER_BLOCK < b->count)
        h.bloom_blocks *= 2;
    h.strings_at = sizeof h + b->count * sizeof(struct manifest_entry);
    h.xattrs_at = manifest_align_up(h.strings_at + h.strings_size, 8);
    h.table_at = manifest_align_up(h.xattrs_at + h.xattrs_size, 64);
    h.bloom_at = h.table_at + manifest_align_up(h.table_slots * sizeof(struct manifest_slot), 64);
    h.file_size = h.bloom_at + h.bloom_blocks * MANIFEST_BLOOM_BLOCK;
    PyObject *made = PyByteArray_FromStringAndSize(NULL, h.file_size);
    if (!made)
        return NULL;
    uint8_t *file = (uint8_t *)PyByteArray_AsString(made);
    memset(file, 0, h.file_size);
    memcpy(file, &h, sizeof h);
    write_entries(b, file, h.strings_at, h.xattrs_at);
    if (!join_links(b, (void *)(file + sizeof h)))
        Py_CLEAR(made);
    *tables_at = h.table_at;
    return made;
}

PyObject *tree_py_build(Tree *tree, PyObject *noargs)
{
    (void)noargs;
    struct builder b = {.tree = tree};
    uint64_t tables_at = 0;
    PyObject *made = prepare(&b) ? write_manifest(&b, &tables_at) : NULL;
    if (!made && !PyErr_Occurred()) {
        if (!strcmp(b.wrong, "memory"))
            PyErr_NoMemory();
        else {
            PyObject *path = PyBytes_FromString(b.culprit ? b.culprit->path : "");
            PyObject *what = path ? Py_BuildValue("(sN)", b.wrong, path) : NULL;
            if (what)
                PyErr_SetObject(PyExc_ValueError, what);
            Py_XDECREF(what);
        }
    }
    free(b.sorted), free(b.parent), free(b.order), free(b.first), free(b.children), free(b.entry_of);
    return made ? Py_BuildValue("(NK)", made, (unsigned long long)tables_at) : NULL;
}

PyObject *manifest_py_fill(PyObject *self, PyObject *args)
{
    /* False: with this seed a probe would be longer than a look-up goes. Another one is needed. */
    (void)self;
    Py_buffer buffer;
    const char *seed;
    Py_ssize_t seed_size;
    if (!PyArg_ParseTuple(args, "w*y#:manifest_fill", &buffer, &seed, &seed_size))
        return NULL;
    uint8_t *file = buffer.buf;
    struct manifest_header *h = buffer.buf;
    bool good = buffer.len >= (Py_ssize_t)sizeof *h && seed_size == 16 && h->file_size == (uint64_t)buffer.len;
    if (good) {
        memcpy(h->seed, seed, 16);
        h->longest_probe = 1;
        memset(file + h->table_at, 0, h->file_size - h->table_at);
        struct manifest_entry *entries = (void *)(file + sizeof *h);
        struct manifest_slot *table = (void *)(file + h->table_at);
        uint64_t *bloom = (void *)(file + h->bloom_at);
        for (uint32_t id = 0; id < h->entry_count; id++) {
            uint64_t hash = manifest_name_hash(h->seed, file + h->strings_at + entries[id].path, entries[id].path_size),
                probe = 0;
            while (table[(hash + probe) & (h->table_slots - 1)].entry)
                probe++;
            table[(hash + probe) & (h->table_slots - 1)] = (struct manifest_slot){id + 1, hash >> 32};
            if (probe + 1 > h->longest_probe)
                h->longest_probe = probe + 1;
            uint64_t *block = bloom + manifest_bloom_block(hash, h->bloom_blocks) * (MANIFEST_BLOOM_BLOCK / 8);
            for (int i = 0; i < MANIFEST_BLOOM_BITS; i++)
                block[manifest_bloom_bit(hash, i) / 64] |= 1ull << manifest_bloom_bit(hash, i) % 64;
        }
        good = h->longest_probe <= MANIFEST_LONGEST_PROBE;
    }
    PyBuffer_Release(&buffer);
    return PyBool_FromLong(good);
}

PyObject *manifest_py_seal(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer buffer;
    const char *body;
    Py_ssize_t body_size;
    static const uint8_t no_seed[16];
    if (!PyArg_ParseTuple(args, "w*y#:manifest_seal", &buffer, &body, &body_size))
        return NULL;
    struct manifest_header *h = buffer.buf;
    bool good = buffer.len >= (Py_ssize_t)sizeof *h && body_size == 32;
    if (good) {
        memcpy(h->body, body, 32);
        h->check = manifest_name_hash(no_seed, h, offsetof(struct manifest_header, check));
    }
    PyBuffer_Release(&buffer);
    if (!good)
        return core_raise_errno(EINVAL);
    Py_RETURN_NONE;
}
