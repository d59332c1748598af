/* native: new files in directories of a layer that are the box's own alone (docs/design/024-changes.md).
 *
 * Python keeps a layer's names. Of a directory without anything of the host in it, Python can tell C all names at once.
 * Then C knows which names are free, and makes a file there, with the vfs's lock (vfs_lock.c): the real one, under a
 * number that Python has set aside, and a record of it. C also removes files there that have one name. Whoever takes
 * that lock enters first what was recorded. So what one of the two changes, the other one knows before it acts.
 *
 * Not here: renaming, directories, links, anything over a lower directory. */
#include "fastpath/own_dirs.h"

#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NAME_BUCKETS 128
#define MOST_MADE 65536 /* files that C made and still knows, in all directories */

struct own_name {
    struct own_name *next;
    /* A file that C made, owned; `none` of the directory: it was removed; NULL: only Python knows what it is. */
    struct fast_dir *made;
    uint64_t number; /* of the real file, where C may remove it; changes with the vfs's lock */
    size_t size;
    char text[];
};

struct fast_own {
    struct fast_own *next, **link; /* owned by the cache */
    uint64_t owner;
    int files_fd;          /* borrowed: where the real files are */
    struct stat shown;     /* the directory's attributes; its times and size are not used */
    uint32_t dev, uid, gid; /* of what is made in it */
    bool changed;          /* C made something, and what was taught of the directory itself is marked as stale */
    bool removed;          /* C removed something, and what was taught of its files is, too */
    char *path;            /* owned */
    struct fast_dir *none; /* owned: what a free name leads to */
    struct fast_dir *gone; /* owned: what removed names led to; other threads may be looking */
    struct own_name *names[NAME_BUCKETS];
};

struct fast_layer {
    VfsLock *lock; /* owned; NULL: no directory was taught */
    struct fast_own *first;
    unsigned made; /* changes with the vfs's lock, or with the cache's write lock */
};

static size_t bucket_of(const char *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return (hash ^ hash >> 16) % NAME_BUCKETS;
}

/* ---- what C knows ------------------------------------------------------------------------------------------------ */

void fast_own_init(struct fast_cache *cache)
{
    cache->layer = calloc(1, sizeof *cache->layer);
}

static void free_own(struct fast_layer *layer, struct fast_own *own)
{
    for (size_t i = 0; i < NAME_BUCKETS; i++) {
        for (struct own_name *name = own->names[i], *next; name; name = next) {
            next = name->next;
            if (name->made && name->made != own->none)
                layer->made--, free(name->made);
            free(name);
        }
    }
    for (struct fast_dir *gone = own->gone, *next; gone; gone = next) {
        next = gone->next;
        layer->made--;
        free(gone);
    }
    free(own->path);
    free(own->none);
    free(own);
}

static void drop(struct fast_layer *layer, struct fast_own *own)
{
    *own->link = own->next;
    if (own->next)
        own->next->link = own->link;
    free_own(layer, own);
}

void fast_own_forget(struct fast_cache *cache, uint64_t owner)
{
    struct fast_own *own = owner ? fast_cache_own(cache, owner) : NULL;
    if (own)
        drop(cache->layer, own);
    while (!owner && cache->layer && cache->layer->first)
        drop(cache->layer, cache->layer->first);
}

void fast_own_free(struct fast_cache *cache)
{
    if (!cache->layer)
        return;
    fast_own_forget(cache, 0);
    Py_XDECREF((PyObject *)cache->layer->lock);
    free(cache->layer);
}

void fast_own_taught(struct fast_cache *cache, uint64_t owner)
{
    struct fast_own *own = fast_cache_own(cache, owner);
    if (own)
        own->changed = own->removed = false;
}

static struct own_name *find_name(struct fast_own *own, const char *name, size_t size)
{
    /* Another thread may be adding one at the front. */
    struct own_name *one = __atomic_load_n(&own->names[bucket_of(name, size)], __ATOMIC_ACQUIRE);
    while (one && (one->size != size || memcmp(one->text, name, size) != 0))
        one = one->next;
    return one;
}

struct fast_dir *fast_own_name(struct fast_own *own, const char *name, size_t size)
{
    struct own_name *one = find_name(own, name, size);
    return one ? __atomic_load_n(&one->made, __ATOMIC_ACQUIRE) : own->none;
}

static bool add_name(struct fast_own *own, const char *name, size_t size, uint64_t number, struct fast_dir *made)
{
    struct own_name *one = made ? find_name(own, name, size) : NULL;
    if (one) { /* it was removed */
        one->number = number;
        __atomic_store_n(&one->made, made, __ATOMIC_RELEASE);
        return true;
    }
    one = malloc(sizeof *one + size + 1);
    if (!one)
        return false;
    size_t bucket = bucket_of(name, size);
    *one = (struct own_name){.next = own->names[bucket], .made = made, .number = number, .size = size};
    memcpy(one->text, name, size);
    one->text[size] = 0;
    __atomic_store_n(&own->names[bucket], one, __ATOMIC_RELEASE);
    return true;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

const char *fast_own_path(const struct fast_own *own)
{
    return own->path;
}

/* Is the name as it was looked up? Since then another thread may have made or removed it. */
static bool is_still(struct fast_own *own, const char *name, size_t size, bool remove)
{
    struct own_name *one = find_name(own, name, size);
    return remove ? one && one->number : !one || one->made == own->none;
}

bool fast_own_enter(struct fast_cache *cache, const struct fast_resolved *path, bool remove)
{
    struct fast_layer *layer = cache->layer;
    const struct stat *shown = &path->own->shown;
    if (!fast_permits(cache, shown, 3) || (remove && shown->st_mode & S_ISVTX && shown->st_uid != cache->uid) ||
        !fast_lock_try(layer->lock))
        return false;
    size_t size = path->size - path->cut;
    if (fast_lock_records(layer->lock, size) &&
        (remove || (layer->made < MOST_MADE && fast_lock_has_room(layer->lock))) &&
        is_still(path->own, path->name + path->cut, size, remove))
        return true;
    fast_own_leave(cache);
    return false;
}

void fast_own_leave(struct fast_cache *cache)
{
    fast_lock_give(cache->layer->lock);
}

static struct fast_dir *new_entry(const struct fast_own *own, uint64_t number)
{
    char rel[24];
    int size = number ? snprintf(rel, sizeof rel, "%llu", (unsigned long long)number) : 0;
    struct fast_dir *dir = calloc(1, sizeof *dir + size + 1);
    if (!dir)
        return NULL;
    dir->owner = own->owner;
    dir->root_fd = own->files_fd;
    dir->rel_size = (uint16_t)size;
    dir->missing = !number;
    memcpy(dir->text, rel, size);
    return dir;
}

static int64_t nanoseconds(struct statx_timestamp t)
{
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int fast_own_make(struct fast_cache *cache, const struct fast_resolved *path, int flags, uint32_t mode,
                  struct fast_showing *showing, struct stat *made, int64_t *born_ns)
{
    struct fast_layer *layer = cache->layer;
    struct fast_own *own = path->own;
    const char *name = path->name + path->cut;
    size_t size = path->size - path->cut;
    uint64_t number = fast_lock_number(layer->lock);
    struct statx x;
    struct fast_dir *entry = new_entry(own, number);
    if (!entry)
        return -1;
    if (!own->changed) { /* before the name is there: guests may look at what they were told is missing */
        fast_cache_spoil(cache, own->owner, false);
        own->changed = true;
    }
    int fd = openat(own->files_fd, entry->text, flags | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0600);
    bool known = fd >= 0 && syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) == 0;
    if (known) {
        struct stat given = {.st_dev = own->dev, .st_ino = number, .st_mode = S_IFREG | mode, .st_nlink = 1,
                             .st_uid = own->uid, .st_gid = own->gid,
                             .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec}};
        /* Complete before it has its name: other threads are looking. */
        entry->showing = *showing = (struct fast_showing){.manner = FAST_AS_UPPER, .given = given};
        known = add_name(own, name, size, number, entry);
    }
    if (!known) {
        if (fd >= 0) {
            unlinkat(own->files_fd, entry->text, 0);
            close(fd);
        }
        free(entry);
        return -1;
    }
    *made = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor), .st_ino = x.stx_ino};
    *born_ns = x.stx_mask & STATX_BTIME ? nanoseconds(x.stx_btime) : 0;
    struct fast_made record = {own->owner, number, nanoseconds(x.stx_ctime), S_IFREG | mode, (uint32_t)size};
    fast_lock_record(layer->lock, &record, name);
    layer->made++;
    return fd;
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

bool fast_own_remove(struct fast_cache *cache, const struct fast_resolved *path)
{
    struct fast_layer *layer = cache->layer;
    struct fast_own *own = path->own;
    const char *name = path->name + path->cut;
    size_t size = path->size - path->cut;
    struct own_name *one = find_name(own, name, size);
    char real[24];
    struct stat s;
    snprintf(real, sizeof real, "%llu", (unsigned long long)one->number);
    int fd = openat(own->files_fd, real, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool done = fstat(fd, &s) == 0 && unlinkat(own->files_fd, real, 0) == 0;
    if (done) {
        fstat(fd, &s); /* again: it tells when the host dates its removal (vfs/clock.py), and so that of the name */
        fast_cache_forget_file(cache, &s);
        struct fast_made record = {own->owner, one->number, core_nanoseconds(s.st_ctim), 0, (uint32_t)size};
        fast_lock_record(layer->lock, &record, name);
        if (one->made && one->made != own->none) {
            one->made->next = own->gone;
            own->gone = one->made;
        }
        one->number = 0;
        __atomic_store_n(&one->made, own->none, __ATOMIC_RELEASE);
        if (!own->removed) {
            fast_cache_spoil(cache, own->owner, true);
            own->changed = own->removed = true;
        }
    }
    close(fd);
    return done;
}

/* ---- Python's side ----------------------------------------------------------------------------------------------- */

/* All names of a new entry, from a list of (name, number). */
static bool add_names(struct fast_own *own, PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyList_Size(names); i++) {
        const char *text;
        Py_ssize_t size;
        unsigned long long number;
        if (!PyArg_ParseTuple(PyList_GetItem(names, i), "y#K", &text, &size, &number))
            return false;
        if (!add_name(own, text, size, number, NULL))
            return PyErr_NoMemory(), false;
    }
    return true;
}

PyObject *fast_py_cache_own(Listener *self, PyObject *args)
{
    unsigned start, uid, gid;
    unsigned long long owner;
    int files_fd;
    const char *key, *path, *stat_bytes;
    Py_ssize_t key_size, stat_size;
    PyObject *names;
    VfsLock *lock;
    if (!PyArg_ParseTuple(args, "Iy#KyiIIy#O!O!:cache_own", &start, &key, &key_size, &owner, &path, &files_fd, &uid,
                          &gid, &stat_bytes, &stat_size, &PyList_Type, &names, fast_lock_type, &lock))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || !cache->layer || key_size > FAST_LONGEST_NAME || strlen(path) >= FAST_LONGEST_NAME)
        Py_RETURN_NONE;
    if (stat_size != sizeof(struct stat))
        return PyErr_SetString(PyExc_ValueError, "not a struct stat"), NULL;
    struct fast_own *own = calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    *own = (struct fast_own){.owner = owner, .files_fd = files_fd, .uid = uid, .gid = gid, .path = strdup(path)};
    memcpy(&own->shown, stat_bytes, sizeof own->shown);
    own->dev = (uint32_t)own->shown.st_dev;
    own->none = new_entry(own, 0);
    if (!own->path || !own->none || !add_names(own, names)) {
        free_own(cache->layer, own);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    if (!cache->layer->lock)
        cache->layer->lock = (VfsLock *)Py_NewRef((PyObject *)lock); /* no directory is known yet, so nobody looks */
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    struct fast_own *known = fast_cache_own(cache, owner);
    if (!known) {
        own->next = cache->layer->first;
        own->link = &cache->layer->first;
        if (own->next)
            own->next->link = &own->next;
        cache->layer->first = known = own;
        own = NULL;
    }
    fast_cache_put_own(cache, start, key, key_size, known, owner);
    if (own)
        free_own(cache->layer, own); /* this is another spelling of a directory that C knows */
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
