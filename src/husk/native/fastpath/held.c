/* native: host directories that the name cache holds open, so that a look-up in them is one call of the host.
 *
 * A taught directory is known by its name beneath a root. To walk there takes three calls each time. A directory that
 * is asked often is held by a descriptor instead. The descriptor stays with the directory, but the name may lead
 * elsewhere later: so the directory and each one above it, up to the root, is watched (inotify), and before each use
 * husk asks whether something was reported. The host reports a rename or a change of rights before the call that made
 * it returns. Then nothing that is held is used any more, and the cache forgets everything. The removal of a directory
 * that is held is not reported: resolve.c asks for it where a name is missing.
 *
 * What the watches do not tell: that the host mounts something over one of the directories. What was there before is
 * then shown until something else changes. */
#include "fastpath/resolve.h"

#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define FEW 192            /* are held in any case */
#define HOLD_AFTER 12      /* look-ups in a directory before it is held: holding costs as much as some ten of them */
#define HOLD_AFTER_LOSS 96 /* likewise, once something was reported */
#define WATCHED (IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB | IN_ONLYDIR)

static unsigned room(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur / 5 < FEW)
        return FEW;
    return files.rlim_cur / 5 < FAST_MOST_HELD ? (unsigned)(files.rlim_cur / 5) : FAST_MOST_HELD;
}

void fast_held_init(struct fast_held *held)
{
    held->watch = -1;
    held->epoch = 1; /* a directory that was never held has 0 */
    held->after = HOLD_AFTER;
    held->most = room();
    pthread_mutex_init(&held->making, NULL);
}

static void give_back(struct fast_held *held)
{
    for (unsigned i = 0; i < held->count; i++)
        close(held->dirs[i].fd);
    if (held->watch >= 0)
        close(held->watch);
    held->watch = -1;
    held->count = 0;
    held->epoch++;
}

void fast_held_free(struct fast_held *held)
{
    give_back(held);
    pthread_mutex_destroy(&held->making);
}

void fast_held_release(struct fast_cache *cache)
{
    if (!cache)
        return;
    pthread_rwlock_wrlock(&cache->lock);
    give_back(&cache->held);
    fast_starts_release(&cache->starts);
    pthread_rwlock_unlock(&cache->lock);
}

/* With the write lock. */
void fast_held_tidy(struct fast_cache *cache)
{
    struct fast_held *held = &cache->held;
    give_back(held);
    if (atomic_load(&held->stale)) {
        fast_cache_forget_all(cache);
        atomic_fetch_add(&cache->losses, 1);
        held->after = HOLD_AFTER_LOSS;
    }
    atomic_store(&held->stale, false);
    atomic_store(&held->full, false);
}

/* ---- holding ----------------------------------------------------------------------------------------------------- */

/* The entry of the directory `rel` beneath the root, watched from now on. NULL: it cannot be held. */
static struct fast_watched *watch(struct fast_held *held, int root, const char *rel)
{
    char link[40];
    struct stat s;
    int fd = host_open_beneath(root, *rel ? rel : ".", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int wd = held->count < held->most ? inotify_add_watch(held->watch, link, WATCHED) : -1;
    if (wd < 0 || fstat(fd, &s) < 0) {
        close(fd);
        return NULL;
    }
    for (unsigned i = 0; i < held->count; i++) {
        if (held->dirs[i].wd == wd) { /* it lies above another one that is held */
            close(fd);
            return &held->dirs[i];
        }
    }
    held->dirs[held->count] = (struct fast_watched){wd, fd, s.st_mode, s.st_uid, s.st_gid, s.st_dev, s.st_ino};
    return &held->dirs[held->count++];
}

/* Watch everything from the root down to the directory. */
static const struct fast_watched *watch_all(struct fast_held *held, const struct fast_dir *dir)
{
    char part[4097];
    const char *rel = dir->text + dir->key_size;
    const struct fast_watched *found = watch(held, dir->root_fd, "");
    for (size_t i = 0; found && i < dir->rel_size; i++) {
        if (rel[i] != '/')
            continue;
        memcpy(part, rel, i);
        part[i] = 0;
        found = watch(held, dir->root_fd, part);
    }
    return found;
}

/* With the read lock: other threads may answer meanwhile, but only one makes. */
static void hold(struct fast_cache *cache, struct fast_dir *dir)
{
    struct fast_held *held = &cache->held;
    if (pthread_mutex_trylock(&held->making))
        return;
    if (held->watch < 0)
        held->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    const struct fast_watched *found = held->watch < 0 ? NULL : watch_all(held, dir);
    /* Each was watched after it was walked to. Walk once more, to see that the name still leads there. */
    struct stat s;
    int check = found ? host_open_beneath(dir->root_fd, dir->rel_size ? dir->text + dir->key_size : ".",
                                          O_PATH | O_DIRECTORY, 0) : -1;
    if (check >= 0 && fstat(check, &s) == 0 && s.st_dev == found->dev && s.st_ino == found->ino &&
        s.st_dev == dir->host_dev && (!dir->host_ino || s.st_ino == dir->host_ino)) {
        dir->held = found->fd;
        dir->held_opens = host_opens_as_husk(dir->root_fd);
        __atomic_store_n(&dir->held_epoch, held->epoch, __ATOMIC_RELEASE);
    }
    if (check >= 0)
        close(check);
    if (held->count == held->most)
        atomic_store(&held->full, true);
    pthread_mutex_unlock(&held->making);
}

/* ---- use --------------------------------------------------------------------------------------------------------- */

/* Programs set the times of directories again and again. That is reported like a change of rights. */
static bool has_new_rights(const struct fast_held *held, int wd)
{
    struct stat s;
    for (unsigned i = 0; i < held->count; i++) {
        const struct fast_watched *dir = &held->dirs[i];
        if (dir->wd == wd)
            return fstat(dir->fd, &s) < 0 || !s.st_nlink || s.st_mode != dir->mode || s.st_uid != dir->uid ||
                   s.st_gid != dir->gid;
    }
    return true;
}

/* Read what was reported. Other threads that find nothing left to read see `reading` or `stale`. */
static void read_reports(struct fast_held *held)
{
    char reports[4096] __attribute__((aligned(8)));
    ssize_t size;
    if (pthread_mutex_trylock(&held->making))
        return;
    atomic_store(&held->reading, true);
    while ((size = read(held->watch, reports, sizeof reports)) > 0) {
        for (ssize_t at = 0; at < size;) {
            const struct inotify_event *event = (const struct inotify_event *)(reports + at);
            if (event->mask & ~(uint32_t)(IN_ATTRIB | IN_ISDIR) || has_new_rights(held, event->wd))
                atomic_store(&held->stale, true);
            at += sizeof *event + event->len;
        }
    }
    atomic_store(&held->reading, false);
    pthread_mutex_unlock(&held->making);
}

static bool is_reported(struct fast_held *held)
{
    int bytes = 0;
    return ioctl(held->watch, FIONREAD, &bytes) < 0 || bytes || atomic_load(&held->reading) ||
           atomic_load(&held->stale);
}

int fast_held_fd(struct fast_cache *cache, struct fast_dir *dir)
{
    struct fast_held *held = &cache->held;
    if (__atomic_load_n(&dir->held_epoch, __ATOMIC_ACQUIRE) != held->epoch) {
        if (dir->manifest || dir->missing || dir->absent || dir->showing.manner != FAST_AS_HOST ||
            ++dir->uses < held->after)
            return -1;
        dir->uses = 0;
        hold(cache, dir);
        if (__atomic_load_n(&dir->held_epoch, __ATOMIC_ACQUIRE) != held->epoch)
            return -1;
    }
    if (is_reported(held)) {
        read_reports(held);
        if (is_reported(held))
            return -1;
    }
    return dir->held;
}
