/* native: what C knows of directories where the box has changed names, for own_dirs.c (files), own_subdirs.c
 * (directories) and own_later.c alone. */
#ifndef HUSK_OWN_TABLES_H
#define HUSK_OWN_TABLES_H

#include "layer/own_dirs.h"

#define NAME_BUCKETS 128
#define MOST_KNOWN 65536 /* entries and added names, in all directories */

struct fast_name {
    struct fast_name *next;
    /* A file of the box's own, owned; `none` of the directory: it was removed; NULL: only Python knows what it is. */
    struct fast_dir *entry;
    uint64_t number; /* of the real file, where C may remove it; changes with the vfs's lock */
    uint64_t child;  /* owner of the directory of this name; 0: it is none, or C does not know; likewise */
    size_t size;
    char text[];
};

struct fast_own {
    struct fast_own *next, **link; /* owned by the cache */
    uint64_t owner;
    int files_fd;          /* borrowed: where the real files are; -1: nowhere yet, so Python makes the first */
    struct stat shown;     /* the directory's attributes; its times and size are not used */
    uint32_t dev, uid, gid; /* of what is made in it */
    bool changed;          /* C made something, and what was taught of the directory itself is marked as stale */
    bool files_changed;    /* C changed files, too, and so is what was taught of them */
    bool removable;        /* its removal concerns nothing but itself */
    bool removed;          /* C has removed it, and nothing comes there any more; changes with the vfs's lock */
    unsigned added;        /* names that C added to those that Python told; likewise */
    char *path;            /* owned */
    struct fast_dir *none; /* owned: what a free name leads to */
    struct fast_dir *beneath; /* owned: what any other name leads to on the host; NULL: it is the box's alone */
    struct fast_dir *gone; /* owned: what names led to before; other threads may be looking */
    struct fast_name *names[NAME_BUCKETS];
};

/* What a directory of the host becomes when C first changes something in it. */
struct fast_later {
    int files_fd;
    uint32_t uid, gid;
    bool removable;
    char path[]; /* all as in fast_own */
};

struct fast_layer {
    VfsLock *lock; /* owned; NULL: no directory was taught */
    struct fast_own *first;
    unsigned known; /* of these; changes with the vfs's lock, or with the cache's write lock */
};

/* What the host has by a name beneath the directory that it lies in. FAST_HOST_UNSURE: Python looks. */
enum fast_host_answer { FAST_HOST_HAS, FAST_HOST_LACKS, FAST_HOST_UNSURE };
enum fast_host_answer fast_own_ask_host(struct fast_cache *cache, const struct fast_resolved *path, struct stat *s);

/* A name; not entered yet. NULL: no memory. */
struct fast_name *fast_own_new_name(const char *name, size_t size);
void fast_own_put_name(struct fast_own *own, struct fast_name *one);
/* The same with the read lock. */
void fast_own_add_name(struct fast_cache *cache, struct fast_own *own, struct fast_name *one);
struct fast_name *fast_own_find_name(struct fast_own *own, const char *name, size_t size);
struct fast_name *fast_own_name_of(const struct fast_resolved *path);
size_t fast_own_name_size(const struct fast_resolved *path);
/* From now on the name leads to `entry`. */
void fast_own_lead(struct fast_own *own, struct fast_name *one, struct fast_dir *entry, uint64_t number);
/* What was taught of the directory, its missing names and, if they change, its files holds no longer. */
void fast_own_spoil(struct fast_cache *cache, struct fast_own *own, bool files);
/* An entry of the directory: for the real file `number`, or 0: for nothing. NULL: no memory. */
struct fast_dir *fast_own_new_entry(const struct fast_own *own, uint64_t number);
void fast_own_add(struct fast_layer *layer, struct fast_own *own); /* the layer owns it */
unsigned fast_own_end(struct fast_own *own); /* how many entries and added names it had */

#endif
