/* native: a tree of names in memory, between a host directory (or an archive) and its manifest.
 *
 * Life: `add` or `scan` put items in. `match` takes hashes from the index of the last ingest. `read` and `stage` read
 * and stage the other files in worker threads. `build` writes the manifest. Items do not move while workers run, and
 * text never moves. So workers share the tree without a lock: each works on items of its own. Only tree_keep and the
 * hand-out of work take the lock. */
#ifndef HUSK_TREE_H
#define HUSK_TREE_H

#include "core.h"
#include "store/manifest.h"

#include <pthread.h>

enum {
    ITEM_HASHED = 1,   /* `hash` is that of the content */
    ITEM_LINKED = 2,   /* one of several names of the file (dev, ino) */
    ITEM_MARKED = 4,   /* its name suggests a secret: Python has to look inside */
    ITEM_DROPPED = 8,  /* left out of the manifest */
    ITEM_XATTRS = 16,  /* the index says that it has xattrs */
    ITEM_UNSTABLE = 32, /* changed while it was read */
};

struct tree_item {
    /* These three point into the tree's arena. */
    const char *path; /* with a NUL; relative, the root is "" */
    const char *target;
    const uint8_t *xattrs; /* as in the manifest */
    uint32_t path_size, target_size, xattrs_size, flags; /* flags: MANIFEST_* */
    uint32_t mode, uid, gid, rdev_major, rdev_minor, state;
    uint64_t size, dev, ino;
    int64_t mtime_ns, ctime_ns;
    uint8_t hash[32];
};

struct tree_chunk; /* of the arena */

typedef struct {
    PyObject_HEAD
    struct tree_item *items; /* owned */
    uint32_t count, room;
    struct tree_chunk *text; /* owned: the arena */
    pthread_mutex_t lock; /* of the arena and of `next` */
    uint32_t *todo;     /* owned: items that `read` is to read */
    uint32_t todo_count;
    uint32_t next;      /* the first of `todo` that no worker has taken */
    PyObject *troubles; /* strong reference; list of (path, errno) */
} Tree;

/* tree.c */
/* A copy in the arena, with a NUL; NULL: no memory. */
const void *tree_keep(Tree *tree, const void *bytes, size_t size);
/* A new one, zeroed; NULL: no memory. Moves items. */
struct tree_item *tree_new_item(Tree *tree);
void tree_trouble(Tree *tree, const char *path, int error);        /* without the GIL */
bool tree_path_is_good(const char *path, size_t size);
void tree_item_stat(struct tree_item *item, const struct stat *s);

/* tree_scan.c */
PyObject *tree_py_scan(Tree *tree, PyObject *args);
int tree_item_xattrs(Tree *tree, struct tree_item *item, int fd); /* -errno */

/* tree_read.c */
PyObject *tree_py_match(Tree *tree, PyObject *args);
PyObject *tree_py_index(Tree *tree, PyObject *args);
PyObject *tree_py_plan(Tree *tree, PyObject *args);
PyObject *tree_py_read(Tree *tree, PyObject *args);
PyObject *tree_py_share_links(Tree *tree, PyObject *noargs);
PyObject *tree_py_distinct(Tree *tree, PyObject *noargs);

/* tree_stage.c */
PyObject *tree_py_stage(Tree *tree, PyObject *args);
PyObject *tree_py_missing(Tree *tree, PyObject *args);

/* tree_build.c */
PyObject *tree_py_build(Tree *tree, PyObject *noargs);

#endif
