/* native: calls answered without Python, from the name cache and from what the host says at that moment.
 *
 * Each answer here must be the one Python would give. Everything else (a symlink at the end, a directory that was not
 * taught, a hard link, another device, any unexpected answer of the host) is left to Python by returning false. */
#include "fastpath/resolve.h"

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

static bool deliver(int listener, const struct seccomp_notif *notif, uint64_t address, const void *data, size_t size)
{
    if (!notify_is_valid(listener, notif->id))
        return true; /* the caller is gone */
    if (guest_write(notif->pid, address, data, size) == (ssize_t)size)
        notify_answer_value(listener, notif->id, 0);
    else
        notify_answer_error(listener, notif->id, EFAULT);
    return true;
}

static void timestamp(struct statx_timestamp *to, struct timespec from)
{
    to->tv_sec = from.tv_sec;
    to->tv_nsec = from.tv_nsec;
}

static bool deliver_statx(int listener, const struct seccomp_notif *notif, uint64_t address, const struct stat *s)
{
    struct statx x = {
        .stx_mask = STATX_BASIC_STATS | 0x1000 /* STATX_MNT_ID */, .stx_blksize = s->st_blksize,
            .stx_nlink = s->st_nlink,
        .stx_uid = s->st_uid, .stx_gid = s->st_gid, .stx_mode = s->st_mode, .stx_ino = s->st_ino,
            .stx_size = s->st_size,
        .stx_blocks = s->st_blocks, .stx_rdev_major = major(s->st_rdev), .stx_rdev_minor = minor(s->st_rdev),
        .stx_dev_major = s->st_dev >> 8 & 0xfff, .stx_dev_minor = s->st_dev & 0xff, .stx_mnt_id = s->st_dev & 0xffff,
        .stx_attributes_mask = 0x2000 /* STATX_ATTR_MOUNT_ROOT: no root of a mount is ever answered here */,
    };
    timestamp(&x.stx_atime, s->st_atim);
    timestamp(&x.stx_mtime, s->st_mtim);
    timestamp(&x.stx_ctime, s->st_ctim);
    return deliver(listener, notif, address, &x, sizeof x);
}

/* Does statx ask for the birth time of a file of the box's own, which only Python knows? `wanted` is statx's mask, or 0
 * for the older calls. */
static bool needs_birth_time(const struct fast_showing *showing, uint32_t wanted)
{
    return wanted & STATX_BTIME && showing->manner != FAST_AS_HOST;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static bool stat_name(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd,
                      uint64_t name, bool follow, uint64_t to, uint32_t wanted)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    if (!fast_resolve(cache, notif, dirfd, name, &path))
        return false;
    enum fast_outcome seen = follow ? fast_lookup_following(cache, &path, O_PATH | O_NOFOLLOW, &fd, &s)
                                    : fast_lookup(&path, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_MISSING)
        return notify_answer_error(listener, notif->id, ENOENT), true;
    if (fd >= 0)
        close(fd);
    if (!fast_is_plain(cache, &path, &s, follow) || needs_birth_time(&path.dir->showing, wanted))
        return false;
    fast_show(&path.dir->showing, &s);
    return wanted ? deliver_statx(listener, notif, to, &s) : deliver(listener, notif, to, &s, sizeof s);
}

/* Attributes of an open directory, found by its placeholder: the empty key is the directory itself. */
static bool stat_open_directory(struct fast_cache *cache, const char *link, struct stat *s)
{
    uint32_t start;
    struct fast_dir *dir = fast_placeholder(cache, link, &start) ? fast_cache_find(cache, start, "", 0) : NULL;
    if (!dir || dir->missing || dir->absent || dir->showing.manner != FAST_AS_HOST)
        return false;
    const char *rel = dir->text + dir->key_size;
    if (dir->manifest) {
        uint32_t id = manifest_find(dir->manifest, rel, dir->rel_size ? dir->rel_size - 1 : 0);
        const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(dir->manifest, id);
        if (!entry)
            return false;
        fast_image_stat(entry, s);
        fast_show(&dir->showing, s);
        return true;
    }
    bool known = fast_stat_dir(cache, dir, s) && s->st_dev == dir->host_dev && s->st_ino < 1ULL << 32 &&
                 (!dir->host_ino || s->st_ino == dir->host_ino);
    if (known)
        fast_show(&dir->showing, s);
    return known;
}

/* Attributes of an open file of the image, found by the link it was opened through: many files may share its blob. */
static const struct fast_file *stat_open_image_file(struct fast_cache *cache, const char *link, struct stat *s)
{
    char text[600], *end;
    ssize_t n = cache->image ? readlink(link, text, sizeof text - 1) : -1;
    if (n <= (ssize_t)cache->images_size || memcmp(text, cache->images, cache->images_size) != 0)
        return NULL;
    text[n] = 0;
    unsigned long number = strtoul(text + cache->images_size, &end, 10);
    struct stat wanted = {.st_dev = cache->image_dev, .st_ino = number + 1};
    const struct fast_file *known = *end ? NULL : fast_cache_find_file(cache, &wanted);
    const struct manifest_entry *entry = known && number < MANIFEST_NONE
        ? manifest_entry(cache->image, (uint32_t)number) : NULL;
    if (!entry)
        return NULL;
    fast_image_stat(entry, s);
    return known;
}

static bool stat_fd(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int fd,
                    uint64_t to, uint32_t wanted)
{
    char link[64];
    struct stat s;
    if (fd < 0)
        return false;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", notif->pid, fd);
    if (stat(link, &s) < 0)
        return false;
    const struct fast_file *known = S_ISREG(s.st_mode) || S_ISCHR(s.st_mode) ? fast_cache_find_file(cache, &s) : NULL;
    if (!known && S_ISREG(s.st_mode))
        known = stat_open_image_file(cache, link, &s);
    const struct fast_showing pipe = {.manner = FAST_AS_HOST, .dev = (uint32_t)s.st_dev, .uid_from = cache->host_uid,
                                 .uid_to = cache->uid, .uid_else = cache->uid, .gid_from = cache->host_uid,
                                 .gid_to = cache->gid, .gid_else = cache->gid};
    if (known && needs_birth_time(&known->showing, wanted))
        return false;
    if (known)
        fast_show(&known->showing, &s);
    else if (S_ISFIFO(s.st_mode) && s.st_dev == cache->pipe_dev)
        fast_show(&pipe, &s);
    else if (!S_ISDIR(s.st_mode) || !stat_open_directory(cache, link, &s))
        return false;
    return wanted ? deliver_statx(listener, notif, to, &s) : deliver(listener, notif, to, &s, sizeof s);
}

/* Open a directory's placeholder. -1: it has none yet, and Python makes it. */
static int open_place(struct fast_cache *cache, struct fast_resolved *path, uint32_t flags)
{
    char name[sizeof cache->places + 16];
    struct fast_dir *dir = fast_find_itself(cache, path);
    if (!dir || !dir->place || !fast_same_dir(cache, dir))
        return -1;
    snprintf(name, sizeof name, "%.*s%u", (int)cache->places_size, cache->places, dir->place);
    return open(name, O_RDONLY | O_CLOEXEC | (flags & (O_NONBLOCK | O_DIRECTORY)));
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
    enum fast_outcome seen = fast_lookup(path, flags, fd, s);
    if (seen == FAST_PYTHON && path->dir->manifest && !path->dir->absent && link_blob(cache, path))
        seen = fast_lookup(path, flags, fd, s);
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
    if (seen != FAST_PYTHON || flags & O_NOFOLLOW)
        return seen;
    seen = fast_lookup_following(cache, path, O_PATH | O_NOFOLLOW, fd, s);
    if (seen != FAST_FOUND)
        return seen;
    if (*fd >= 0)
        close(*fd);
    return S_ISREG(s->st_mode) || S_ISDIR(s->st_mode) ? lookup_or_link(cache, path, host_flags, fd, s) : FAST_PYTHON;
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

static bool open_name(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd,
                      uint64_t name, uint32_t flags)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    /* 0100000 is O_LARGEFILE, which every 64-bit program may set and none needs. */
    if (flags & ~(uint32_t)(O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_DIRECTORY | 0100000) ||
        !fast_resolve(cache, notif, dirfd, name, &path))
        return false;
    enum fast_outcome seen = open_for_reading(cache, &path, flags, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_MISSING)
        return notify_answer_error(listener, notif->id, ENOENT), true;
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
        if (cache->over_files)
            return false;
        notify_answer_error(listener, notif->id, EACCES);
        return true;
    }
    if (!directory) {
        if (!(flags & O_NONBLOCK))
            fcntl(fd, F_SETFL, 0);
        fast_cache_remember_file(cache, &path.dir->showing, &s);
    }
    return give_fd(cache, listener, notif, fd, flags & O_CLOEXEC);
}

static bool access_name(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd,
                        uint64_t name, uint32_t mode)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    /* For writing ask Python, which knows what is read-only. */
    if (mode & ~7u || mode & 2 || !fast_resolve(cache, notif, dirfd, name, &path))
        return false;
    enum fast_outcome seen = fast_lookup(&path, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_FOUND) {
        if (fd >= 0)
            close(fd);
        if (!fast_is_plain(cache, &path, &s, true))
            return false;
        fast_show(&path.dir->showing, &s);
    }
    if (seen == FAST_MISSING)
        notify_answer_error(listener, notif->id, ENOENT);
    else if (!fast_permits(cache, &s, mode) && cache->over_files)
        return false;
    else if (fast_permits(cache, &s, mode))
        notify_answer_value(listener, notif->id, 0);
    else
        notify_answer_error(listener, notif->id, EACCES);
    return true;
}

static bool read_link(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd,
                      uint64_t name, uint64_t to, int room)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    char text[FAST_LONGEST_NAME];
    if (room <= 0 || !fast_resolve(cache, notif, dirfd, name, &path))
        return false;
    enum fast_outcome seen = fast_lookup(&path, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_MISSING)
        return notify_answer_error(listener, notif->id, ENOENT), true;
    ssize_t n = S_ISLNK(s.st_mode) ? fast_read_link(&path, fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    if (!S_ISLNK(s.st_mode))
        return notify_answer_error(listener, notif->id, EINVAL), true;
    if (n < 0 || (path.dir->layered && s.st_nlink != 1 && cache->links_changed))
        return false;
    if (n > room)
        n = room;
    if (!notify_is_valid(listener, notif->id))
        return true;
    if (guest_write(notif->pid, to, text, n) == n)
        notify_answer_value(listener, notif->id, n);
    else
        notify_answer_error(listener, notif->id, EFAULT);
    return true;
}

/* newfstatat and statx. `wanted` is statx's mask, or 0. */
static bool stat_at(struct fast_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd, uint64_t name,
                    uint32_t flags, uint64_t to, uint32_t wanted)
{
    char first = 1;
    if (flags & ~(uint32_t)(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT))
        return false;
    if (flags & AT_EMPTY_PATH && (name == 0 || (guest_read(notif->pid, name, &first, 1) == 1 && !first)))
        return stat_fd(cache, listener, notif, dirfd, to, wanted);
    return stat_name(cache, listener, notif, dirfd, name, !(flags & AT_SYMLINK_NOFOLLOW), to, wanted);
}

static bool answer(Listener *self, const struct seccomp_notif *notif)
{
    struct fast_cache *cache = self->cache;
    int listener = self->fd;
    const __u64 *a = notif->data.args;
    switch (notif->data.nr) {
    case SYS_stat:
        return stat_name(cache, listener, notif, AT_FDCWD, a[ARG_stat_filename], true, a[ARG_stat_statbuf], 0);
    case SYS_lstat:
        return stat_name(cache, listener, notif, AT_FDCWD, a[ARG_lstat_filename], false, a[ARG_lstat_statbuf], 0);
    case SYS_fstat:
        return stat_fd(cache, listener, notif, (int)a[ARG_fstat_fd], a[ARG_fstat_statbuf], 0);
    case SYS_newfstatat:
        return stat_at(cache, listener, notif, (int)a[ARG_newfstatat_dfd], a[ARG_newfstatat_filename],
                       (uint32_t)a[ARG_newfstatat_flag], a[ARG_newfstatat_statbuf], 0);
    case SYS_statx: {
        uint32_t mask = (uint32_t)a[ARG_statx_mask];
        return !(mask & 0x80000000u) &&
               stat_at(cache, listener, notif, (int)a[ARG_statx_dfd], a[ARG_statx_filename],
                       (uint32_t)a[ARG_statx_flags], a[ARG_statx_buffer], mask | STATX_TYPE);
    }
    case SYS_open:
        return open_name(cache, listener, notif, AT_FDCWD, a[ARG_open_filename], (uint32_t)a[ARG_open_flags]);
    case SYS_openat:
        return open_name(cache, listener, notif, (int)a[ARG_openat_dfd], a[ARG_openat_filename],
                         (uint32_t)a[ARG_openat_flags]);
    case SYS_access:
        return access_name(cache, listener, notif, AT_FDCWD, a[ARG_access_filename], (uint32_t)a[ARG_access_mode]);
    case SYS_faccessat:
        return access_name(cache, listener, notif, (int)a[ARG_faccessat_dfd], a[ARG_faccessat_filename],
                           (uint32_t)a[ARG_faccessat_mode]);
    case SYS_faccessat2:
        return !(a[ARG_faccessat2_flags] & ~(uint64_t)AT_EACCESS) &&
               access_name(cache, listener, notif, (int)a[ARG_faccessat2_dfd], a[ARG_faccessat2_filename],
                           (uint32_t)a[ARG_faccessat2_mode]);
    case SYS_readlink:
        return read_link(cache, listener, notif, AT_FDCWD, a[ARG_readlink_path], a[ARG_readlink_buf],
                         (int)a[ARG_readlink_bufsiz]);
    case SYS_readlinkat:
        return read_link(cache, listener, notif, (int)a[ARG_readlinkat_dfd], a[ARG_readlinkat_pathname],
                         a[ARG_readlinkat_buf], (int)a[ARG_readlinkat_bufsiz]);
    case SYS_getdents64:
        return fast_answer_getdents(cache, listener, notif, (int)a[ARG_getdents64_fd], a[ARG_getdents64_dirent],
                                    (int)a[ARG_getdents64_count]);
    default:
        return false;
    }
}

bool fast_answer(Listener *listener, const struct seccomp_notif *notif)
{
    if (atomic_load(&listener->cache->off))
        return false;
    /* Starting a program waits for the guest, so the lock must not be held meanwhile. */
    if (notif->data.nr == SYS_execve)
        return fast_answer_execve(listener, notif);
    if (atomic_load(&listener->cache->held.stale) || atomic_load(&listener->cache->held.full)) {
        pthread_rwlock_wrlock(&listener->cache->lock);
        fast_held_tidy(listener->cache);
        pthread_rwlock_unlock(&listener->cache->lock);
    }
    pthread_rwlock_rdlock(&listener->cache->lock);
    bool done = answer(listener, notif);
    pthread_rwlock_unlock(&listener->cache->lock);
    return done;
}
