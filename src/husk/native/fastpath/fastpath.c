/* native: notified calls answered without Python, from the name cache and from what the host says at that moment.
 *
 * Here: opening for reading, and the way of replies into the guest. Not here: questions about names (questions.c), and
 * replies through a slot in shared memory (gate/).
 *
 * Each answer here must be the one Python would give. Everything else (a symlink at the end, a directory that was not
 * taught, a hard link, another device, any unexpected answer of the host) is left to Python by returning false. */
#include "direct/direct.h"
#include "layer/own_dirs.h"

#include "call_table.h"
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

/* Open a directory's placeholder. -1: it has none yet, and Python makes it. */
static int open_place(struct fast_cache *cache, struct fast_resolved *path, uint32_t flags)
{
    char name[sizeof cache->places + 16];
    struct fast_dir *dir = fast_find_itself(cache, path);
    if (!dir || !dir->place || !fast_same_dir(cache, dir))
        return -1;
    snprintf(name, sizeof name, "%.*s%u", (int)cache->places_size, cache->places, dir->place);
    return open(name, O_RDONLY | O_CLOEXEC | (flags & (O_NONBLOCK | O_DIRECTORY | O_NOFOLLOW)));
}

/* A file of the image gets its link when it is first opened (vfs/image/image_lower.py). Where linkat fails, for example
 * because the store is on another file system, Python finds another way. */
static bool link_blob(struct fast_cache *cache, const struct fast_resolved *path)
{
    char blob[sizeof cache->blobs + 72], name[16], *end = blob;
    uint32_t id = manifest_find(path->dir->manifest, path->host, strlen(path->host));
    const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(path->dir->manifest, id);
    if (!entry || !S_ISREG(entry->mode) || path->dir->manifest != cache->image || !*cache->blobs)
        return false;
    end += snprintf(blob, sizeof blob, "%s%02x/", cache->blobs, entry->blob[0]);
    for (size_t i = 0; i < sizeof entry->blob; i++)
        end += sprintf(end, "%02x", entry->blob[i]);
    snprintf(name, sizeof name, "%u", entry->inode);
    return linkat(AT_FDCWD, blob, path->dir->root_fd, name, 0) == 0;
}

static enum fast_outcome lookup_or_link(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                                        struct stat *s)
{
    enum fast_outcome seen = fast_lookup(cache, path, flags, fd, s);
    if (seen == FAST_PYTHON && path->dir->manifest && !path->dir->absent && link_blob(cache, path))
        seen = fast_lookup(cache, path, flags, fd, s);
    return seen;
}

/* Open the file for reading. On FAST_FOUND the caller closes `fd`, or it is -1. */
static enum fast_outcome open_for_reading(struct fast_cache *cache, struct fast_resolved *path, uint32_t flags, int *fd,
                                          struct stat *s)
{
    /* O_NONBLOCK: the host may have put a FIFO there meanwhile, which open_name then refuses. In a host directory any
     * guest can make a FIFO, and its other end notices that it is opened. So there, and after ELOOP, the type is
     * checked first. */
    uint64_t host_flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | (flags & O_NOFOLLOW);
    bool check_first = !path->dir->layered && path->dir->showing.manner == FAST_AS_HOST;
    enum fast_outcome seen = check_first ? FAST_PYTHON : lookup_or_link(cache, path, host_flags, fd, s);
    if (seen != FAST_PYTHON || (flags & O_NOFOLLOW && !check_first))
        return seen;
    seen = flags & O_NOFOLLOW ? fast_lookup(cache, path, O_PATH | O_NOFOLLOW, fd, s)
                              : fast_lookup_following(cache, path, O_PATH | O_NOFOLLOW, fd, s);
    if (seen != FAST_FOUND)
        return seen;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    if (S_ISDIR(s->st_mode))
        return FAST_FOUND; /* its placeholder is opened. Who watches the host's must not see it opened twice */
    return S_ISREG(s->st_mode) ? lookup_or_link(cache, path, host_flags, fd, s) : FAST_PYTHON;
}

/* Answer with `fd`, which is closed. An open for reading has changed nothing, so the injection itself finds out whether
 * the caller still waits. */
static bool give_fd(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int fd, bool cloexec)
{
    int got;
    if (cache->watched) {
        got = notify_inject_fd_pinned(listener, notif, fd, cloexec);
        close(fd);
        if (got >= 0)
            notify_answer_value(listener, notif->id, got);
    } else {
        got = notify_answer_fd(listener, notif, fd, cloexec);
        close(fd);
    }
    if (got < 0 && got != -ENOENT && got != -EMFILE)
        notify_answer_error(listener, notif->id, -got);
    return got != -EMFILE; /* Python reports that the guest's table is full */
}

static bool open_name(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t name,
                      uint32_t flags, struct fast_reply *reply)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    reply->fd = -1;
    reply->size = 0;
    if (flags & ~(uint32_t)FAST_OPENS || !fast_resolve(cache, asker, dirfd, name, &path))
        return false;
    enum fast_outcome seen = open_for_reading(cache, &path, flags, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_MISSING)
        return reply->value = -ENOENT, true;
    bool directory = S_ISDIR(s.st_mode);
    if (directory) {
        if (fd >= 0)
            close(fd);
        fd = open_place(cache, &path, flags);
        if (fd < 0)
            return false;
    }
    if ((!directory && (!S_ISREG(s.st_mode) || flags & O_DIRECTORY)) || !fast_is_plain(cache, &path, &s, true)) {
        close(fd);
        return false;
    }
    struct stat shown = s;
    fast_show(&path.dir->showing, &shown);
    if (!fast_permits(cache, &shown, 4)) {
        close(fd);
        reply->value = -EACCES;
        return !cache->over_files;
    }
    if (!directory) {
        if (!(flags & O_NONBLOCK))
            fcntl(fd, F_SETFL, 0);
        fast_cache_remember_file(cache, &path.dir->showing, &s);
        fast_direct_asked(cache, path.dir, &s);
        fast_direct_opening(cache, &path.dir->showing, &s);
        bool upper = path.dir->showing.manner == FAST_AS_UPPER;
        if ((upper || path.dir->layered) &&
            (fast_own_is_past(&path) || (upper && fstat(fd, &s) == 0 && !s.st_nlink)))
            fast_cache_forget_file(cache, &s); /* C has changed it meanwhile */
    }
    reply->fd = fd;
    return true;
}

bool fast_open(struct fast_cache *cache, const struct fast_asker *asker, int nr, const uint64_t *a,
               struct fast_reply *reply)
{
    if (nr == SYS_open)
        return open_name(cache, asker, AT_FDCWD, a[ARG_open_filename], (uint32_t)a[ARG_open_flags], reply);
    return open_name(cache, asker, (int)a[ARG_openat_dfd], a[ARG_openat_filename], (uint32_t)a[ARG_openat_flags],
                     reply);
}

/* The reply's data, written to the guest's memory, and its value. */
static bool deliver(int listener, const struct seccomp_notif *notif, const struct fast_reply *reply)
{
    if (reply->size && !notify_is_valid(listener, notif->id))
        return true; /* the caller is gone */
    if (reply->size && guest_write(notif->pid, reply->to, reply->data, reply->size) != (ssize_t)reply->size)
        notify_answer_error(listener, notif->id, EFAULT);
    else if (reply->value < 0)
        notify_answer_error(listener, notif->id, (int)-reply->value);
    else
        notify_answer_value(listener, notif->id, reply->value);
    return true;
}

static bool closes_on_exec(int nr, const __u64 *a)
{
    return (nr == SYS_open && a[ARG_open_flags] & O_CLOEXEC) || (nr == SYS_openat && a[ARG_openat_flags] & O_CLOEXEC);
}

/* The reply to a call that changed something. An open file is writable, so no copy of it stays with husk when the guest
 * runs on. */
static void deliver_change(int listener, const struct seccomp_notif *notif, const struct fast_reply *reply)
{
    int64_t value = reply->value;
    if (reply->fd >= 0) {
        value = notify_inject_fd_pinned(listener, notif, reply->fd, closes_on_exec(notif->data.nr, notif->data.args));
        close(reply->fd);
    }
    if (value >= 0)
        notify_answer_value(listener, notif->id, value);
    else if (value != -ENOENT)
        notify_answer_error(listener, notif->id, (int)-value);
}

struct waiting_call {
    int listener;
    uint64_t id;
};

static bool waits(const struct fast_asker *asker)
{
    const struct waiting_call *call = asker->call;
    return notify_is_valid(call->listener, call->id);
}

static bool answer(Listener *self, const struct seccomp_notif *notif)
{
    struct fast_cache *cache = self->cache;
    int listener = self->fd, nr = notif->data.nr;
    const __u64 *a = notif->data.args;
    const struct waiting_call call = {listener, notif->id};
    struct fast_asker asker = {.tid = notif->pid, .waits = waits, .call = &call};
    struct fast_reply reply;
    if (fast_change(self, &asker, nr, (const uint64_t *)a, &reply)) {
        deliver_change(listener, notif, &reply);
        return true;
    }
    switch (nr) {
    case SYS_open:
    case SYS_openat:
        if (!fast_open(cache, &asker, nr, (const uint64_t *)a, &reply))
            return false;
        return reply.fd < 0 ? deliver(listener, notif, &reply)
                            : give_fd(cache, listener, notif, reply.fd, closes_on_exec(nr, a));
    case SYS_getdents64:
        return fast_answer_getdents(cache, listener, notif, (int)a[ARG_getdents64_fd], a[ARG_getdents64_dirent],
                                    (int)a[ARG_getdents64_count]);
    default:
        return fast_ask(cache, &asker, nr, (const uint64_t *)a, &reply) && deliver(listener, notif, &reply);
    }
}

bool fast_begin(struct fast_cache *cache)
{
    if (atomic_load(&cache->off))
        return false;
    if (atomic_load(&cache->held.stale) || atomic_load(&cache->held.full)) {
        pthread_rwlock_wrlock(&cache->lock);
        fast_held_tidy(cache);
        pthread_rwlock_unlock(&cache->lock);
    }
    pthread_rwlock_rdlock(&cache->lock);
    return true;
}

void fast_end(struct fast_cache *cache)
{
    pthread_rwlock_unlock(&cache->lock);
}

bool fast_answer(Listener *listener, const struct seccomp_notif *notif)
{
    /* Starting a program waits for the guest, so the lock must not be held meanwhile. */
    if (notif->data.nr == SYS_execve)
        return !atomic_load(&listener->cache->off) && fast_answer_execve(listener, notif);
    if (!fast_begin(listener->cache))
        return false;
    bool done = answer(listener, notif);
    fast_end(listener->cache);
    return done;
}
