/* native: the name cache's table, and what Python teaches it (namecache.h). fastpath.c answers from it. */
#include "direct/direct.h"
#include "layer/own_dirs.h"

#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fast_cache *fast_cache_new(void)
{
    struct fast_cache *cache = calloc(1, sizeof *cache);
    int ends[2];
    struct stat s;
    if (!cache)
        return NULL;
    pthread_rwlock_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->publishing, NULL);
    cache->generation = 1;
    cache->users = 1;
    fast_held_init(&cache->held);
    fast_starts_init(&cache->starts);
    fast_own_init(cache);
    cache->programs = fast_programs_new();
    if (!cache->programs) {
        fast_own_free(cache);
        free(cache);
        return NULL;
    }
    if (pipe(ends) == 0) {
        if (fstat(ends[0], &s) == 0)
            cache->pipe_dev = s.st_dev;
        close(ends[0]);
        close(ends[1]);
    }
    return cache;
}

static size_t owner_bucket(uint64_t owner)
{
    return (owner >> 4) * 2654435761u % FAST_OWNER_BUCKETS; /* most are addresses of Python objects */
}

/* Other threads may be looking (publish): the entry is complete before it is found. */
static void put(struct fast_cache *cache, struct fast_dir *dir)
{
    dir->link = &cache->buckets[dir->hash % FAST_BUCKETS];
    dir->next = *dir->link;
    dir->link_of_owner = &cache->owners[owner_bucket(dir->owner)];
    dir->next_of_owner = *dir->link_of_owner;
    if (dir->next)
        dir->next->link = &dir->next;
    if (dir->next_of_owner)
        dir->next_of_owner->link_of_owner = &dir->next_of_owner;
    __atomic_store_n(dir->link_of_owner, dir, __ATOMIC_RELEASE);
    __atomic_store_n(dir->link, dir, __ATOMIC_RELEASE);
    cache->known++;
}

/* The same with the lock for reading: others look meanwhile. */
static void publish(struct fast_cache *cache, struct fast_dir *dir)
{
    pthread_mutex_lock(&cache->publishing);
    put(cache, dir);
    pthread_mutex_unlock(&cache->publishing);
}

static void drop(struct fast_cache *cache, struct fast_dir *dir)
{
    fast_direct_forget(cache, dir);
    *dir->link = dir->next;
    if (dir->next)
        dir->next->link = dir->link;
    *dir->link_of_owner = dir->next_of_owner;
    if (dir->next_of_owner)
        dir->next_of_owner->link_of_owner = dir->link_of_owner;
    fast_listing_free(cache, dir);
    free(dir->changes);
    fast_own_free_later(dir->later);
    free(dir);
    cache->known--;
}

static void forget_owner(struct fast_cache *cache, uint64_t owner)
{
    struct fast_dir *dir = cache->owners[owner_bucket(owner)];
    while (dir) {
        struct fast_dir *next = dir->next_of_owner;
        if (dir->owner == owner)
            drop(cache, dir);
        dir = next;
    }
}

struct fast_own *fast_cache_own(const struct fast_cache *cache, uint64_t owner)
{
    const struct fast_dir *dir = __atomic_load_n(&cache->owners[owner_bucket(owner)], __ATOMIC_ACQUIRE);
    while (dir && (dir->owner != owner || !__atomic_load_n(&dir->own, __ATOMIC_ACQUIRE)))
        dir = dir->next_of_owner;
    return dir ? dir->own : NULL;
}

void fast_cache_spoil(struct fast_cache *cache, uint64_t owner, bool files)
{
    for (struct fast_dir *dir = cache->owners[owner_bucket(owner)]; dir; dir = dir->next_of_owner)
        if (dir->owner == owner && !dir->own &&
            (files || dir->missing || dir->absent || dir->showing.manner == FAST_AS_GIVEN)) {
            __atomic_store_n(&dir->stale, true, __ATOMIC_RELEASE);
            fast_direct_forget(cache, dir);
        }
}

void fast_cache_begin_own(struct fast_cache *cache, uint64_t owner, struct fast_own *own)
{
    for (struct fast_dir *dir = cache->owners[owner_bucket(owner)]; dir; dir = dir->next_of_owner)
        if (dir->owner == owner) {
            fast_direct_forget(cache, dir);
            if (dir->later)
                __atomic_store_n(&dir->own, own, __ATOMIC_RELEASE);
            else if (!dir->own)
                __atomic_store_n(&dir->stale, true, __ATOMIC_RELEASE);
        }
}

void fast_cache_retire(struct fast_cache *cache, uint64_t owner)
{
    for (struct fast_dir *dir = cache->owners[owner_bucket(owner)]; dir; dir = dir->next_of_owner)
        if (dir->owner == owner) {
            __atomic_store_n(&dir->gone, true, __ATOMIC_RELEASE);
            fast_direct_forget(cache, dir);
        }
}

void fast_cache_forget_all(struct fast_cache *cache)
{
    fast_own_forget(cache, 0);
    for (size_t i = 0; cache->known && i < FAST_BUCKETS; i++)
        while (cache->buckets[i])
            drop(cache, cache->buckets[i]);
    for (size_t i = 0; i < FAST_PATHS; i++) {
        free(cache->paths[i].text);
        cache->paths[i].text = NULL;
    }
    cache->starts.epoch++;
}

struct fast_cache *fast_cache_share(struct fast_cache *cache)
{
    if (cache)
        __atomic_add_fetch(&cache->users, 1, __ATOMIC_SEQ_CST);
    return cache;
}

void fast_cache_release(struct fast_cache *cache)
{
    if (!cache || __atomic_sub_fetch(&cache->users, 1, __ATOMIC_SEQ_CST))
        return;
    fast_cache_forget_all(cache);
    fast_own_free(cache);
    fast_held_free(&cache->held);
    fast_starts_release(&cache->starts);
    fast_programs_free(cache->programs);
    fast_direct_free(&cache->direct);
    pthread_rwlock_destroy(&cache->lock);
    pthread_mutex_destroy(&cache->publishing);
    free(cache);
}

static uint32_t hash_of(uint32_t start, const char *key, size_t size)
{
    uint64_t hash = HUSK_HASH_BEGIN ^ start; /* keys are short, and an attacker slows only itself */
    for (size_t i = 0; i < size; i++)
        hash = husk_hash_step(hash, key[i]);
    return husk_hash_end(hash);
}

struct fast_dir *fast_cache_find(struct fast_cache *cache, uint32_t start, const char *key, size_t size)
{
    uint32_t hash = hash_of(start, key, size);
    for (struct fast_dir *dir = __atomic_load_n(&cache->buckets[hash % FAST_BUCKETS], __ATOMIC_ACQUIRE); dir;
         dir = dir->next)
        if (dir->hash == hash && dir->start == start && dir->key_size == size && memcmp(dir->text, key, size) == 0 &&
            !__atomic_load_n(&dir->gone, __ATOMIC_ACQUIRE))
            return dir;
    return NULL;
}

static struct fast_file *handle_slot(struct fast_cache *cache, const struct stat *host)
{
    return &cache->files[(host->st_ino * 2654435761u ^ host->st_dev) % FAST_FILES];
}

void fast_cache_remember_file(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host)
{
    fast_cache_remember_made(cache, showing, host, 0);
}

void fast_cache_remember_made(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host,
                              int64_t born_ns)
{
    /* Answering threads hold the lock for reading only, so two may write one slot at once. Readers reject a slot that
     * is being written: the generation is cleared first and set last. */
    struct fast_file *slot = handle_slot(cache, host);
    bool again = __atomic_load_n(&slot->generation, __ATOMIC_SEQ_CST) == cache->generation &&
                 slot->dev == host->st_dev && slot->ino == host->st_ino;
    slot->ambiguous = again && (slot->ambiguous || slot->showing.manner != showing->manner ||
                                slot->showing.dev != showing->dev);
    __atomic_store_n(&slot->generation, 0, __ATOMIC_SEQ_CST);
    slot->dev = host->st_dev;
    slot->ino = host->st_ino;
    slot->born_ns = born_ns;
    slot->only_tid = 0;
    slot->name = 0;
    slot->showing = *showing;
    __atomic_store_n(&slot->generation, cache->generation, __ATOMIC_SEQ_CST);
    if (slot->ambiguous || !host->st_mode) /* Python tells a file's number alone */
        fast_direct_take_back(cache, host->st_ino);
    else
        fast_direct_give(cache, showing, host);
}

void fast_cache_forget_file(struct fast_cache *cache, const struct stat *host)
{
    __atomic_store_n(&handle_slot(cache, host)->generation, 0, __ATOMIC_SEQ_CST);
    fast_direct_take_back(cache, host->st_ino);
}

const struct fast_file *fast_cache_find_file(struct fast_cache *cache, const struct stat *host)
{
    struct fast_file *slot = handle_slot(cache, host);
    return __atomic_load_n(&slot->generation, __ATOMIC_SEQ_CST) == cache->generation && slot->dev == host->st_dev &&
                   slot->ino == host->st_ino && !slot->ambiguous
               ? slot
               : NULL;
}

static uint64_t hash_name(const char *name, size_t size)
{
    uint64_t hash = HUSK_HASH_BEGIN;
    for (size_t i = 0; i < size; i++)
        hash = husk_hash_step(hash, name[i]);
    return hash | 1;
}

bool fast_file_is_meant(const struct fast_file *file, pid_t tid, const char *link)
{
    char name[600];
    if (file->only_tid && file->only_tid != tid)
        return false;
    ssize_t size = file->name ? readlink(link, name, sizeof name) : 0;
    return !file->name || (size > 0 && (size_t)size < sizeof name && hash_name(name, (size_t)size) == file->name);
}

/* ---- what Python teaches ----------------------------------------------------------------------------------------- */

PyObject *fast_py_cache_identity(Listener *self, PyObject *args)
{
    unsigned uid, gid, host_uid;
    PyObject *groups;
    const char *places;
    Py_ssize_t size;
    int over_files;
    if (!PyArg_ParseTuple(args, "IIIOy#p:cache_identity", &uid, &gid, &host_uid, &groups, &places, &size, &over_files))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    if ((size_t)size >= sizeof cache->places)
        return core_raise_errno(ENAMETOOLONG);
    PyObject *list = PySequence_List(groups);
    if (!list)
        return NULL;
    uint32_t count = 0, numbers[FAST_MOST_GROUPS];
    for (Py_ssize_t i = 0; i < PyList_Size(list) && count < FAST_MOST_GROUPS; i++)
        numbers[count++] = (uint32_t)PyLong_AsUnsignedLong(PyList_GetItem(list, i));
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    cache->uid = uid, cache->gid = gid, cache->host_uid = host_uid;
    cache->group_count = count;
    cache->over_files = over_files;
    memcpy(cache->groups, numbers, sizeof numbers);
    memcpy(cache->places, places, size);
    cache->places_size = size;
    fast_starts_at(&cache->starts, places);
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_DECREF(list);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

PyObject *fast_py_cache_image(Listener *self, PyObject *args)
{
    PyObject *manifest;
    const char *links, *blobs;
    Py_ssize_t size, blobs_size;
    unsigned long long dev;
    if (!PyArg_ParseTuple(args, "O!Ky#y#:cache_image", manifest_type, &manifest, &dev, &links, &size, &blobs,
                          &blobs_size))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || (size_t)size >= sizeof cache->images)
        Py_RETURN_NONE;
    if ((size_t)blobs_size < sizeof cache->blobs)
        memcpy(cache->blobs, blobs, blobs_size + 1);
    memcpy(cache->images, links, size);
    cache->images_size = size;
    cache->image = manifest_of(manifest);
    cache->image_dev = dev;
    Py_RETURN_NONE;
}

/* ("host", dev, (uid_from, uid_to, uid_else), (gid_from, ...)) | ("upper", stat, set_up_ns) | ("given", stat) */
bool fast_parse_showing(PyObject *tuple, struct fast_showing *showing)
{
    PyObject *first = PyTuple_Check(tuple) && PyTuple_Size(tuple) ? PyTuple_GetItem(tuple, 0) : NULL;
    const char *manner = first ? PyUnicode_AsUTF8AndSize(first, NULL) : NULL;
    if (!manner)
        return PyErr_Occurred() || (PyErr_SetString(PyExc_TypeError, "a showing is a tuple"), false);
    *showing = (struct fast_showing){.manner = FAST_AS_HOST};
    if (manner[0] == 'h')
        return PyArg_ParseTuple(tuple, "sI(III)(III)", &manner, &showing->dev, &showing->uid_from, &showing->uid_to,
                                &showing->uid_else, &showing->gid_from, &showing->gid_to, &showing->gid_else);
    const char *bytes;
    Py_ssize_t size;
    long long set_up = 0;
    if (!PyArg_ParseTuple(tuple, "sy#|L", &manner, &bytes, &size, &set_up))
        return false;
    if (size != sizeof showing->given) {
        PyErr_SetString(PyExc_ValueError, "not a struct stat");
        return false;
    }
    memcpy(&showing->given, bytes, size);
    showing->manner = manner[0] == 'u' ? FAST_AS_UPPER : FAST_AS_GIVEN;
    showing->set_up_ns = set_up;
    return true;
}

/* NULL: no memory. */
static struct fast_dir *new_own(uint32_t start, const char *key, size_t size, struct fast_own *own, uint64_t owner)
{
    struct fast_dir *dir = calloc(1, sizeof *dir + size + 1);
    if (!dir)
        return NULL;
    dir->owner = owner, dir->root_fd = -1, dir->start = start, dir->own = own;
    dir->showing.manner = FAST_AS_GIVEN; /* nothing of the host */
    dir->key_size = (uint16_t)size;
    memcpy(dir->text, key, size);
    dir->hash = hash_of(start, key, size);
    return dir;
}

void fast_cache_put_own(struct fast_cache *cache, uint32_t start, const char *key, size_t size, struct fast_own *own,
                        uint64_t owner)
{
    struct fast_dir *dir = new_own(start, key, size, own, owner), *there = fast_cache_find(cache, start, key, size);
    if (there)
        drop(cache, there);
    if (dir)
        put(cache, dir);
}

bool fast_cache_publish_own(struct fast_cache *cache, uint32_t start, const char *key, size_t size,
                            struct fast_own *own, uint64_t owner)
{
    struct fast_dir *dir = cache->known < FAST_MOST_DIRS ? new_own(start, key, size, own, owner) : NULL;
    if (dir)
        publish(cache, dir);
    return dir;
}

void fast_cache_publish_below(struct fast_cache *cache, const struct fast_resolved *path, uint64_t ino)
{
    const struct fast_dir *above = path->dir;
    size_t rel = strlen(path->host), key = path->size + 1, before = strlen(above->changes);
    struct fast_dir *dir = cache->known < FAST_MOST_DIRS ? calloc(1, sizeof *dir + key + rel + 2) : NULL;
    char *changes = dir ? malloc(before + path->size - path->cut + 2) : NULL;
    if (!changes || key >= FAST_LONGEST_NAME || rel + 1 >= FAST_LONGEST_NAME ||
        before + path->size - path->cut + 2 > FAST_LONGEST_NAME) {
        free(changes);
        free(dir);
        return;
    }
    dir->owner = ino | FAST_OWNER_MADE; /* Python need not make us forget what has another identity by then */
    dir->host_dev = above->host_dev, dir->host_ino = ino, dir->root_fd = above->root_fd, dir->start = path->start;
    dir->showing = above->showing;
    dir->key_size = (uint16_t)key, dir->rel_size = (uint16_t)(rel + 1);
    memcpy(dir->text, path->name, path->size);
    dir->text[path->size] = '/';
    memcpy(dir->text + key, path->host, rel);
    memcpy(dir->text + key + rel, "/", 2);
    memcpy(changes, above->changes, before);
    memcpy(changes + before, path->name + path->cut, path->size - path->cut);
    memcpy(changes + before + path->size - path->cut, "/", 2);
    dir->changes = changes;
    dir->hash = hash_of(path->start, dir->text, key);
    publish(cache, dir);
}

PyObject *fast_py_cache_learn(Listener *self, PyObject *args)
{
    unsigned start, place;
    unsigned long long owner, host_dev, host_ino;
    int root_fd, layered, missing, absent;
    const char *key, *rel;
    Py_ssize_t key_size, rel_size;
    PyObject *shown, *manifest;
    struct fast_showing showing;
    if (!PyArg_ParseTuple(args, "Iy#Kiy#KKOpppIO:cache_learn", &start, &key, &key_size, &owner, &root_fd, &rel,
                          &rel_size, &host_dev, &host_ino, &shown, &layered, &missing, &absent, &place, &manifest) ||
        !fast_parse_showing(shown, &showing))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || key_size > 4096 || rel_size > 4096)
        Py_RETURN_NONE;
    struct fast_dir *dir = malloc(sizeof *dir + key_size + rel_size + 1);
    if (!dir)
        return PyErr_NoMemory();
    *dir = (struct fast_dir){.owner = owner, .host_dev = host_dev, .host_ino = host_ino, .root_fd = root_fd,
                              .start = start, .showing = showing, .key_size = (uint16_t)key_size,
                                  .rel_size = (uint16_t)rel_size,
                              .layered = layered, .missing = missing, .absent = absent, .place = place,
                              .manifest = manifest == Py_None ? NULL : manifest_of(manifest)};
    memcpy(dir->text, key, key_size);
    memcpy(dir->text + key_size, rel, rel_size + 1);
    dir->hash = hash_of(start, key, key_size);
    Py_BEGIN_ALLOW_THREADS /* an answering thread may hold the lock for long, so we do not wait for it with the GIL */
    pthread_rwlock_wrlock(&cache->lock);
    if (cache->known >= FAST_MOST_DIRS) {
        fast_cache_forget_all(cache);
        atomic_fetch_add(&cache->losses, 1);
    }
    struct fast_dir *there = fast_cache_find(cache, start, key, key_size);
    if (there)
        drop(cache, there); /* what was learnt last is true */
    put(cache, dir);
    fast_direct_learn(cache, dir);
    fast_own_taught(cache, owner);
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *fast_py_cache_handle(Listener *self, PyObject *args)
{
    unsigned long long dev, ino;
    PyObject *shown;
    int only_tid = 0;
    const char *name = "";
    Py_ssize_t size = 0;
    struct fast_showing showing;
    if (!PyArg_ParseTuple(args, "KKO|iy#:cache_handle", &dev, &ino, &shown, &only_tid, &name, &size) ||
        !fast_parse_showing(shown, &showing))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    struct stat host = {.st_dev = dev, .st_ino = ino};
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    fast_cache_remember_file(cache, &showing, &host);
    handle_slot(cache, &host)->only_tid = only_tid;
    handle_slot(cache, &host)->name = size ? hash_name(name, (size_t)size) : 0;
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *fast_py_cache_path(Listener *self, PyObject *args)
{
    unsigned number;
    unsigned long long owner;
    const char *path;
    Py_ssize_t size;
    int on_host;
    if (!PyArg_ParseTuple(args, "Iy#Kp:cache_path", &number, &path, &size, &owner, &on_host))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    char *text = size ? malloc((size_t)size + 1) : NULL; /* NULL: Python answers */
    if (text)
        memcpy(text, path, (size_t)size + 1);
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    struct fast_path *known = &cache->paths[number % FAST_PATHS];
    free(known->text);
    *known = (struct fast_path){.number = number, .size = (uint32_t)size + 1, .owner = owner, .on_host = on_host,
                                .text = text};
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *fast_py_cache_forget(Listener *self, PyObject *args)
{
    /* owner 0: forget everything, because names now lead elsewhere. Else one directory, if it was `taught` at all.
     * `programs`: something changed in a directory of programs or interpreters. */
    unsigned long long owner;
    int taught, links_changed, programs;
    if (!PyArg_ParseTuple(args, "Kppp:cache_forget", &owner, &taught, &links_changed, &programs))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    cache->generation++;
    cache->links_changed |= links_changed;
    fast_direct_changed(cache);
    if (!owner)
        fast_cache_forget_all(cache);
    else if (taught)
        fast_own_forget(cache, owner), forget_owner(cache, owner);
    if (programs)
        fast_programs_forget(cache);
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *fast_py_cache_losses(Listener *self, PyObject *Py_UNUSED(noargs))
{
    return PyLong_FromUnsignedLong(self->cache ? atomic_load(&self->cache->losses) : 0);
}

PyObject *fast_py_cache_off(Listener *self, PyObject *Py_UNUSED(noargs))
{
    if (self->cache)
        atomic_store(&self->cache->off, true);
    fast_direct_close(self->cache);
    Py_RETURN_NONE;
}

PyObject *fast_py_cache_watched(Listener *self, PyObject *Py_UNUSED(noargs))
{
    if (self->cache) {
        Py_BEGIN_ALLOW_THREADS
        pthread_rwlock_wrlock(&self->cache->lock);
        self->cache->watched = true;
        pthread_rwlock_unlock(&self->cache->lock);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}
