/* native: the table behind the name cache (namecache.h says what it promises); fastpath.c answers from it. */
#include "namecache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

name_cache *cache_new(void)
{
    name_cache *cache = calloc(1, sizeof *cache);
    int ends[2];
    struct stat s;
    if (!cache)
        return NULL;
    pthread_rwlock_init(&cache->lock, NULL);
    cache->generation = 1;
    cache->programs = programs_new();
    if (!cache->programs) {
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

static void forget_where(name_cache *cache, uint64_t owner)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct known_dir **link = &cache->buckets[i];
        while (*link) {
            struct known_dir *dir = *link;
            if (owner && dir->owner != owner) {
                link = &dir->next;
                continue;
            }
            *link = dir->next;
            free(dir);
            cache->known--;
        }
    }
}

void cache_free(name_cache *cache)
{
    if (!cache)
        return;
    forget_where(cache, 0);
    programs_free(cache->programs);
    pthread_rwlock_destroy(&cache->lock);
    free(cache);
}

static uint32_t hash_of(uint32_t start, const char *key, size_t size)
{
    uint64_t hash = 14695981039346656037ULL ^ start; /* FNV-1a: keys are short, and an attacker slows only itself */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)key[i]) * 1099511628211ULL;
    return (uint32_t)(hash ^ hash >> 32);
}

struct known_dir *cache_find(name_cache *cache, uint32_t start, const char *key, size_t size)
{
    uint32_t hash = hash_of(start, key, size);
    for (struct known_dir *dir = cache->buckets[hash % BUCKETS]; dir; dir = dir->next)
        if (dir->hash == hash && dir->start == start && dir->key_size == size && memcmp(dir->text, key, size) == 0)
            return dir;
    return NULL;
}

static struct handle *handle_slot(name_cache *cache, const struct stat *host)
{
    return &cache->handles[(host->st_ino * 2654435761u ^ host->st_dev) % HANDLES];
}

void cache_remember_handle(name_cache *cache, const struct known_dir *dir, const struct stat *host)
{
    /* Answering threads hold the lock for reading only, so two may write one slot; a torn slot is caught by taking the
     * identity apart: generation is cleared first and set last. */
    struct handle *slot = handle_slot(cache, host);
    __atomic_store_n(&slot->generation, 0, __ATOMIC_SEQ_CST);
    slot->dev = host->st_dev;
    slot->ino = host->st_ino;
    slot->shown_dev = dir->dev;
    slot->uid_from = dir->uid_from, slot->uid_to = dir->uid_to;
    slot->gid_from = dir->gid_from, slot->gid_to = dir->gid_to;
    __atomic_store_n(&slot->generation, cache->generation, __ATOMIC_SEQ_CST);
}

const struct handle *cache_handle(name_cache *cache, const struct stat *host)
{
    struct handle *slot = handle_slot(cache, host);
    return __atomic_load_n(&slot->generation, __ATOMIC_SEQ_CST) == cache->generation && slot->dev == host->st_dev &&
                   slot->ino == host->st_ino
               ? slot
               : NULL;
}

/* ---- what Python teaches ---------------------------------------------------------------------------------------- */

PyObject *listener_cache_identity(Listener *self, PyObject *args)
{
    unsigned uid, gid, host_uid;
    PyObject *groups;
    const char *places;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "IIIOy#:cache_identity", &uid, &gid, &host_uid, &groups, &places, &size))
        return NULL;
    name_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    if ((size_t)size >= sizeof cache->places)
        return raise_errno(ENAMETOOLONG);
    PyObject *list = PySequence_Fast(groups, "groups");
    if (!list)
        return NULL;
    pthread_rwlock_wrlock(&cache->lock);
    cache->uid = uid, cache->gid = gid, cache->host_uid = host_uid;
    cache->group_count = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list) && cache->group_count < MOST_GROUPS; i++)
        cache->groups[cache->group_count++] = (uint32_t)PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(list, i));
    memcpy(cache->places, places, size);
    cache->places_size = size;
    pthread_rwlock_unlock(&cache->lock);
    Py_DECREF(list);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

PyObject *listener_cache_learn(Listener *self, PyObject *args)
{
    unsigned start, dev, uid_from, uid_to, gid_from, gid_to;
    unsigned long long owner, host_dev;
    int root_fd, layered, missing;
    const char *key, *rel;
    Py_ssize_t key_size, rel_size;
    if (!PyArg_ParseTuple(args, "Iy#Kiy#KI(II)(II)pp:cache_learn", &start, &key, &key_size, &owner, &root_fd, &rel,
                          &rel_size, &host_dev, &dev, &uid_from, &uid_to, &gid_from, &gid_to, &layered, &missing))
        return NULL;
    name_cache *cache = self->cache;
    if (!cache || key_size > 4096 || rel_size > 4096)
        Py_RETURN_NONE;
    struct known_dir *dir = malloc(sizeof *dir + key_size + rel_size + 1);
    if (!dir)
        return PyErr_NoMemory();
    *dir = (struct known_dir){.owner = owner, .host_dev = host_dev, .root_fd = root_fd, .start = start, .dev = dev,
                              .uid_from = uid_from, .uid_to = uid_to, .gid_from = gid_from, .gid_to = gid_to,
                              .key_size = (uint16_t)key_size, .rel_size = (uint16_t)rel_size, .layered = layered, .missing = missing};
    memcpy(dir->text, key, key_size);
    memcpy(dir->text + key_size, rel, rel_size + 1);
    dir->hash = hash_of(start, key, key_size);
    pthread_rwlock_wrlock(&cache->lock);
    if (cache->known >= MOST_KNOWN)
        forget_where(cache, 0);
    struct known_dir *there = cache_find(cache, start, key, key_size);
    if (there) {
        free(dir);
    } else {
        dir->next = cache->buckets[dir->hash % BUCKETS];
        cache->buckets[dir->hash % BUCKETS] = dir;
        cache->known++;
    }
    pthread_rwlock_unlock(&cache->lock);
    Py_RETURN_NONE;
}

PyObject *listener_cache_forget(Listener *self, PyObject *args)
{
    /* owner 0: everything, because names now lead elsewhere; else one directory, if it was taught at all. */
    unsigned long long owner;
    int taught, links_changed;
    if (!PyArg_ParseTuple(args, "Kpp:cache_forget", &owner, &taught, &links_changed))
        return NULL;
    name_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    pthread_rwlock_wrlock(&cache->lock);
    cache->generation++;
    cache->links_changed |= links_changed;
    if (!owner || taught) {
        forget_where(cache, owner);
        programs_forget(cache->programs); /* cheap to teach again, and seldom: few write where programs live */
    }
    pthread_rwlock_unlock(&cache->lock);
    Py_RETURN_NONE;
}
