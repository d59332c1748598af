/* native: getdents64 of directories that show a host's or an image's directory unchanged.
 *
 * Python packs such a listing once (kernel/listings.py) and teaches it here. C answers with it only while the host's
 * directory has the same identity and times. The position is that of the placeholder's open file, so dup, fork and
 * threads share it as in Linux. */
#include "fastpath/resolve.h"

#include "notify/notify.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_LISTING (256 << 10)
#define MOST_LISTED (8 << 20) /* bytes of all listings together; beyond that all are forgotten */

struct fast_listing {
    struct fast_stamp stamp;
    uint32_t size;
    char records[] __attribute__((aligned(8))); /* struct dirent64 */
};

void fast_listing_free(struct fast_cache *cache, struct fast_dir *dir)
{
    if (!dir->listing)
        return;
    cache->listed -= dir->listing->size;
    free(dir->listing);
    dir->listing = NULL;
}

/* Is the directory as it was when it was listed? An image's always is. */
static bool unchanged(struct fast_cache *cache, struct fast_dir *dir)
{
    struct stat s;
    const struct fast_stamp *then = &dir->listing->stamp;
    return dir->manifest || (fast_stat_dir(cache, dir, &s) && s.st_dev == then->dev && s.st_ino == then->ino &&
                             core_nanoseconds(s.st_mtim) == then->modified_ns && core_nanoseconds(s.st_ctim) ==
                                 then->changed_ns);
}

/* The records behind `position` that fit into `room`: where they begin; and their size and the position behind them. */
static const char *select_records(const struct fast_listing *listing, int64_t position, int room, uint32_t *size,
                                  int64_t *behind)
{
    const char *at = listing->records, *end = at + listing->size, *first;
    const struct dirent64 *record;
    for (; at < end && (record = (const void *)at)->d_off <= position; at += record->d_reclen)
        ;
    first = at;
    for (; at < end && at - first + (record = (const void *)at)->d_reclen <= room; at += record->d_reclen)
        *behind = record->d_off;
    *size = (uint32_t)(at - first);
    return first;
}

static void *close_it(void *fd)
{
    close((int)(intptr_t)fd);
    return NULL;
}

/* In a thread of its own, which may have to wait for it. */
void fast_list_close(int fd)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, close_it, (void *)(intptr_t)fd) == 0)
        pthread_detach(thread);
    else
        close(fd);
}


/* Of an open directory's position: reading it, and moving it behind what was read. */
static pthread_mutex_t positions = PTHREAD_MUTEX_INITIALIZER;

bool fast_list_begin(struct fast_cache *cache, int shared, uint32_t start, int room, struct fast_listed *listed)
{
    struct fast_dir *dir = fast_cache_find(cache, start, "", 0);
    if (dir && !dir->own && !dir->stale && dir->listing && unchanged(cache, dir) &&
        pthread_mutex_trylock(&positions) == 0) {
        *listed = (struct fast_listed){.fd = shared, .before = lseek(shared, 0, SEEK_CUR)};
        listed->behind = listed->before;
        if (listed->before >= 0) {
            listed->records = select_records(dir->listing, listed->before, room, &listed->size, &listed->behind);
            if (listed->size || listed->records == dir->listing->records + dir->listing->size)
                return true;
        }
        pthread_mutex_unlock(&positions);
    }
    close(shared);
    return false;
}

void fast_list_end(const struct fast_listed *listed, bool done)
{
    if (done && listed->size)
        lseek(listed->fd, listed->behind, SEEK_SET);
    pthread_mutex_unlock(&positions);
    close(listed->fd);
}

bool fast_answer_getdents(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int fd,
                          uint64_t to, int room)
{
    struct fast_listed listed;
    char link[64];
    uint32_t start;
    if (fd < 0 || room < 0 || cache->watched) /* a watcher must see that the directory is read: Python reads it */
        return false;
    /* The link first: a duplicate of a socket could be the last one, and closing it wait for its peer. */
    snprintf(link, sizeof link, "/proc/%d/fd/%d", notif->pid, fd);
    if (!fast_placeholder(cache, link, &start))
        return false;
    int shared = guest_get_fd(notif->pid, fd);
    if (shared < 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", shared);
    if (!fast_placeholder(cache, link, &start)) { /* the guest has just exchanged it */
        fast_list_close(shared);
        return false;
    }
    if (!fast_list_begin(cache, shared, start, room, &listed))
        return false;
    bool done = !listed.size || (notify_is_valid(listener, notif->id) &&
                                 guest_write(notif->pid, to, listed.records, listed.size) == (ssize_t)listed.size);
    fast_list_end(&listed, done);
    if (done)
        notify_answer_value(listener, notif->id, listed.size);
    return done;
}

static void forget_listings(struct fast_cache *cache)
{
    for (size_t i = 0; i < FAST_BUCKETS; i++)
        for (struct fast_dir *dir = cache->buckets[i]; dir; dir = dir->next)
            fast_listing_free(cache, dir);
}

PyObject *fast_py_cache_listing(Listener *self, PyObject *args)
{
    unsigned place;
    unsigned long long dev, ino;
    long long modified_ns, changed_ns;
    const char *records;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "I(KKLL)y#:cache_listing", &place, &dev, &ino, &modified_ns, &changed_ns,
                          &records, &size))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || !size || size > LONGEST_LISTING)
        Py_RETURN_NONE;
    struct fast_listing *listing = malloc(sizeof *listing + size);
    if (!listing)
        return PyErr_NoMemory();
    *listing = (struct fast_listing){{dev, ino, modified_ns, changed_ns}, (uint32_t)size};
    memcpy(listing->records, records, size);
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    if (cache->listed + size > MOST_LISTED)
        forget_listings(cache);
    struct fast_dir *dir = fast_cache_find(cache, place, "", 0);
    if (dir) {
        fast_listing_free(cache, dir);
        dir->listing = listing;
        cache->listed += size;
    } else {
        free(listing);
    }
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
