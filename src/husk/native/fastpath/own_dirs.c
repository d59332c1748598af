/* native: new files in directories of a layer that are the box's own alone (docs/design/024-changes.md).
 *
 * Python keeps a layer's names. Of a directory without anything of the host in it, Python can tell C all names at once.
 * Then C knows which names are free, and makes a file there: the real one, under a number that Python has set aside,
 * and a record of it. Python reads the records before it looks at any name: the vfs's lock includes the lock of this
 * layer. So what one of the two changes, the other one knows before it acts.
 *
 * Not here: removing and renaming, directories, links, anything over a lower directory. */
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
#define MOST_MADE 65536        /* files that C made and still knows, in all directories */
#define MOST_RECORDED (256 << 10) /* bytes; then Python makes a file, and reads them all */

struct own_name {
    struct own_name *next;
    struct fast_dir *made; /* owned; NULL: only Python knows what it is */
    size_t size;
    char text[];
};

struct fast_own {
    struct fast_own *next; /* owned by the cache */
    uint64_t owner;
    int files_fd;          /* borrowed: where the real files are */
    struct stat shown;     /* the directory's attributes; its times and size are not used */
    uint32_t dev, uid, gid; /* of what is made in it */
    bool changed;          /* C made something, and what was taught of the directory itself is marked as stale */
    char *path;            /* owned */
    struct fast_dir *none; /* owned: what a free name leads to */
    struct own_name *names[NAME_BUCKETS];
};

/* One record, followed by the name and a NUL. */
struct record {
    uint64_t owner, number;
    int64_t when_ns;
    uint32_t mode, size;
};

/* Numbers, room and records belong to whoever has the lock: a thread in fast_own_make, or Python. */
struct fast_layer {
    pthread_mutex_t lock;
    struct fast_own *first;
    uint64_t next, end; /* numbers for real files */
    uint64_t room;      /* names that Python lets the guest make */
    unsigned made;
    size_t size;
    char *records;      /* owned; NULL: nothing was ever made */
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
    if (cache->layer)
        pthread_mutex_init(&cache->layer->lock, NULL);
}

static void free_own(struct fast_layer *layer, struct fast_own *own)
{
    for (size_t i = 0; i < NAME_BUCKETS; i++) {
        for (struct own_name *name = own->names[i], *next; name; name = next) {
            next = name->next;
            if (name->made)
                layer->made--;
            free(name->made);
            free(name);
        }
    }
    free(own->path);
    free(own->none);
    free(own);
}

void fast_own_forget(struct fast_cache *cache, uint64_t owner)
{
    if (!cache->layer)
        return;
    for (struct fast_own **at = &cache->layer->first; *at;) {
        struct fast_own *own = *at;
        if (owner && own->owner != owner) {
            at = &own->next;
            continue;
        }
        *at = own->next;
        free_own(cache->layer, own);
    }
}

void fast_own_free(struct fast_cache *cache)
{
    if (!cache->layer)
        return;
    fast_own_forget(cache, 0);
    pthread_mutex_destroy(&cache->layer->lock);
    free(cache->layer->records);
    free(cache->layer);
}

static struct fast_own *own_of(struct fast_cache *cache, uint64_t owner)
{
    struct fast_own *own = cache->layer ? cache->layer->first : NULL;
    while (own && own->owner != owner)
        own = own->next;
    return own;
}

void fast_own_taught(struct fast_cache *cache, uint64_t owner)
{
    struct fast_own *own = own_of(cache, owner);
    if (own)
        own->changed = false;
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
    return one ? one->made : own->none;
}

static bool add_name(struct fast_own *own, const char *name, size_t size, struct fast_dir *made)
{
    struct own_name *one = malloc(sizeof *one + size + 1);
    if (!one)
        return false;
    size_t bucket = bucket_of(name, size);
    *one = (struct own_name){.next = own->names[bucket], .made = made, .size = size};
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

bool fast_own_enter(struct fast_cache *cache, const struct fast_resolved *path)
{
    struct fast_layer *layer = cache->layer;
    if (!path->own || !layer || !fast_permits(cache, &path->own->shown, 3) || pthread_mutex_trylock(&layer->lock))
        return false;
    if (!layer->records)
        layer->records = malloc(MOST_RECORDED);
    size_t size = path->size - path->cut;
    if (layer->records && layer->next < layer->end && layer->room && layer->made < MOST_MADE &&
        layer->size + sizeof(struct record) + size + 1 <= MOST_RECORDED &&
        /* Since the name was looked up, another thread may have made it. */
        !find_name(path->own, path->name + path->cut, size))
        return true;
    fast_own_leave(cache);
    return false;
}

void fast_own_leave(struct fast_cache *cache)
{
    pthread_mutex_unlock(&cache->layer->lock);
}

static struct fast_dir *new_entry(const struct fast_own *own, uint64_t number, const struct fast_showing *showing)
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
    if (showing)
        dir->showing = *showing;
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
    uint64_t number = layer->next;
    struct statx x;
    struct fast_dir *entry = new_entry(own, number, NULL);
    if (!entry)
        return -1;
    layer->next++; /* no number is used twice, whatever happens now */
    int fd = openat(own->files_fd, entry->text, flags | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd >= 0 && (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) < 0 ||
                    !add_name(own, name, size, entry))) {
        unlinkat(own->files_fd, entry->text, 0);
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        free(entry);
        return -1;
    }
    *made = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor), .st_ino = x.stx_ino};
    *born_ns = x.stx_mask & STATX_BTIME ? nanoseconds(x.stx_btime) : 0;
    struct stat given = {.st_dev = own->dev, .st_ino = number, .st_mode = S_IFREG | mode, .st_nlink = 1,
                         .st_uid = own->uid, .st_gid = own->gid,
                         .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec}};
    entry->showing = *showing = (struct fast_showing){.manner = FAST_AS_UPPER, .given = given};
    if (!own->changed) {
        fast_cache_spoil(cache, own->owner);
        own->changed = true;
    }
    struct record record = {own->owner, number, nanoseconds(x.stx_ctime), S_IFREG | mode, (uint32_t)size};
    memcpy(layer->records + layer->size, &record, sizeof record);
    memcpy(layer->records + layer->size + sizeof record, name, size + 1);
    layer->size += sizeof record + size + 1;
    layer->room--;
    layer->made++;
    return fd;
}

/* ---- Python's side ----------------------------------------------------------------------------------------------- */

/* All names of a new entry, from a list of bytes. */
static bool add_names(struct fast_own *own, PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyList_Size(names); i++) {
        char *text;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(names, i), &text, &size) < 0)
            return false;
        if (!add_name(own, text, size, NULL))
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
    if (!PyArg_ParseTuple(args, "Iy#KyiIIy#O!:cache_own", &start, &key, &key_size, &owner, &path, &files_fd, &uid, &gid,
                          &stat_bytes, &stat_size, &PyList_Type, &names))
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
    own->none = new_entry(own, 0, NULL);
    if (!own->path || !own->none || !add_names(own, names)) {
        free_own(cache->layer, own);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    struct fast_own *known = own_of(cache, owner);
    if (!known) {
        own->next = cache->layer->first;
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

PyObject *fast_py_layer_numbers(Listener *self, PyObject *args)
{
    unsigned long long next, end;
    if (!PyArg_ParseTuple(args, "KK:layer_numbers", &next, &end))
        return NULL;
    if (self->cache && self->cache->layer)
        self->cache->layer->next = next, self->cache->layer->end = end;
    Py_RETURN_NONE;
}

PyObject *fast_py_layer_hold(Listener *self, PyObject *Py_UNUSED(noargs))
{
    struct fast_layer *layer = self->cache ? self->cache->layer : NULL;
    if (!layer)
        Py_RETURN_NONE;
    if (pthread_mutex_trylock(&layer->lock)) {
        Py_BEGIN_ALLOW_THREADS /* a thread that makes a file has it; it does not need the GIL */
        pthread_mutex_lock(&layer->lock);
        Py_END_ALLOW_THREADS
    }
    if (!layer->size)
        Py_RETURN_NONE;
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at < layer->size;) {
        struct record record;
        memcpy(&record, layer->records + at, sizeof record);
        const char *name = layer->records + at + sizeof record;
        at += sizeof record + record.size + 1;
        PyObject *item = Py_BuildValue("KKLIy#", (unsigned long long)record.owner, (unsigned long long)record.number,
                                       (long long)record.when_ns, record.mode, name, (Py_ssize_t)record.size);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (list)
        layer->size = 0;
    else
        pthread_mutex_unlock(&layer->lock);
    return list;
}

PyObject *fast_py_layer_release(Listener *self, PyObject *room)
{
    struct fast_layer *layer = self->cache ? self->cache->layer : NULL;
    unsigned long long names = PyLong_AsUnsignedLongLong(room);
    if (PyErr_Occurred())
        return NULL;
    if (layer) {
        layer->room = names;
        pthread_mutex_unlock(&layer->lock);
    }
    Py_RETURN_NONE;
}
