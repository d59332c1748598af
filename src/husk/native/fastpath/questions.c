/* native: questions about names and handles, answered by data alone: stat and its kin, access, readlink.
 *
 * Here: from a question to a reply. Not here: how the question came and how the reply goes back (fastpath.c for a
 * notification, gate/ for a slot in shared memory). Each reply must be the one Python would give. Everything else (a
 * directory that was not taught, a hard link, another device, any unexpected answer of the host) is left to Python by
 * returning false. */
#include "direct/direct.h"

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

_Static_assert(sizeof(struct statx) <= FAST_LARGEST_REPLY && sizeof(struct stat) <= FAST_LARGEST_REPLY, "room");

static bool give(struct fast_reply *reply, const void *data, size_t size, int64_t value)
{
    reply->value = value;
    reply->size = size;
    if (size)
        memcpy(reply->data, data, size);
    return true;
}

static bool fail(struct fast_reply *reply, int error)
{
    return give(reply, NULL, 0, -error);
}

static void timestamp(struct statx_timestamp *to, struct timespec from)
{
    to->tv_sec = from.tv_sec;
    to->tv_nsec = from.tv_nsec;
}

static bool give_statx(struct fast_reply *reply, const struct stat *s)
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
    return give(reply, &x, sizeof x, 0);
}

/* Does statx ask for the birth time of a file of the box's own, which only Python knows? `wanted` is statx's mask, or 0
 * for the older calls. */
static bool needs_birth_time(const struct fast_showing *showing, uint32_t wanted)
{
    return wanted & STATX_BTIME && showing->manner != FAST_AS_HOST;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static bool stat_name(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t name, bool follow,
                      uint32_t wanted, struct fast_reply *reply)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    if (!fast_resolve(cache, asker, dirfd, name, &path))
        return false;
    enum fast_outcome seen = follow ? fast_lookup_following(cache, &path, O_PATH | O_NOFOLLOW, &fd, &s)
                                    : fast_lookup(cache, &path, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_MISSING)
        return fail(reply, ENOENT);
    if (fd >= 0)
        close(fd);
    if (!fast_is_plain(cache, &path, &s, follow) || needs_birth_time(&path.dir->showing, wanted))
        return false;
    fast_direct_asked(cache, path.dir, &s);
    fast_show(&path.dir->showing, &s);
    return wanted ? give_statx(reply, &s) : give(reply, &s, sizeof s, 0);
}

/* Attributes of an open directory, found by its placeholder: the empty key is the directory itself. */
static bool stat_open_directory(struct fast_cache *cache, const char *link, struct stat *s)
{
    uint32_t start;
    struct fast_dir *dir = fast_placeholder(cache, link, &start) ? fast_cache_find(cache, start, "", 0) : NULL;
    if (!dir || dir->missing || dir->absent || dir->own || dir->stale ||
        dir->showing.manner != FAST_AS_HOST)
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

static bool stat_fd(struct fast_cache *cache, const struct fast_asker *asker, int fd, uint32_t wanted,
                    struct fast_reply *reply)
{
    char link[FAST_LONGEST_LINK];
    struct stat s;
    if (fd < 0)
        return false;
    fast_task_link(link, asker, "fd", fd);
    if (stat(link, &s) < 0)
        return false;
    const struct fast_file *known = S_ISREG(s.st_mode) ? fast_direct_opened(cache, link, &s)
        : S_ISCHR(s.st_mode) ? fast_cache_find_file(cache, &s) : NULL;
    if (known && !fast_file_is_meant(known, asker->tid, link))
        return false;
    if (!known && S_ISREG(s.st_mode))
        known = stat_open_image_file(cache, link, &s);
    const struct fast_showing pipe = {.manner = FAST_AS_HOST, .dev = (uint32_t)s.st_dev, .uid_from = cache->host_uid,
                                 .uid_to = cache->uid, .uid_else = cache->uid, .gid_from = cache->host_uid,
                                 .gid_to = cache->gid, .gid_else = cache->gid};
    if (known && needs_birth_time(&known->showing, wanted))
        return false;
    if (known) {
        if (!known->name && !known->only_tid) /* else guests would have to look at more than the file */
            fast_direct_give(cache, &known->showing, &s);
        fast_show(&known->showing, &s);
    } else if (S_ISFIFO(s.st_mode) && s.st_dev == cache->pipe_dev)
        fast_show(&pipe, &s);
    else if (!S_ISDIR(s.st_mode) || !stat_open_directory(cache, link, &s)) {
        return false;
    }
    return wanted ? give_statx(reply, &s) : give(reply, &s, sizeof s, 0);
}

static bool access_name(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t name,
                        uint32_t mode, struct fast_reply *reply)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    /* For writing ask Python, which knows what is read-only. */
    if (mode & ~7u || mode & 2 || !fast_resolve(cache, asker, dirfd, name, &path))
        return false;
    enum fast_outcome seen = fast_lookup_following(cache, &path, O_PATH | O_NOFOLLOW, &fd, &s);
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
        return fail(reply, ENOENT);
    if (fast_permits(cache, &s, mode))
        return give(reply, NULL, 0, 0);
    return !cache->over_files && fail(reply, EACCES);
}

static bool read_link(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t name, int room,
                      struct fast_reply *reply)
{
    struct fast_resolved path;
    struct stat s;
    int fd;
    char text[FAST_LARGEST_REPLY];
    if (room <= 0 || !fast_resolve(cache, asker, dirfd, name, &path))
        return false;
    enum fast_outcome seen = fast_lookup(cache, &path, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == FAST_PYTHON)
        return false;
    if (seen == FAST_MISSING)
        return fail(reply, ENOENT);
    ssize_t n = S_ISLNK(s.st_mode) ? fast_read_link(&path, fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    if (!S_ISLNK(s.st_mode))
        return fail(reply, EINVAL);
    if (n < 0 || (path.dir->layered && s.st_nlink != 1 && cache->links_changed))
        return false;
    return give(reply, text, n > room ? room : n, n > room ? room : n);
}

static bool get_cwd(struct fast_cache *cache, const struct fast_asker *asker, uint64_t room, struct fast_reply *reply)
{
    uint32_t number;
    /* What is watched has a mirror, which the host may take away. */
    if (cache->watched || !fast_start(cache, asker, AT_FDCWD, &number))
        return false;
    const struct fast_path *known = &cache->paths[number % FAST_PATHS];
    if (!known->text || known->number != number || known->size > room || known->size > sizeof reply->data)
        return false;
    struct fast_dir *dir = known->on_host ? fast_cache_find(cache, number, "", 0) : NULL;
    struct stat s;
    if (known->on_host && (!dir || !fast_stat_dir(cache, dir, &s) || s.st_dev != dir->host_dev ||
                           s.st_ino != dir->host_ino || !s.st_nlink))
        return false;
    return give(reply, known->text, known->size, known->size);
}

/* newfstatat and statx. `wanted` is statx's mask, or 0. */
static bool stat_at(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t name, uint32_t flags,
                    uint32_t wanted, struct fast_reply *reply)
{
    char first = asker->name ? *asker->name : 1;
    if (flags & ~(uint32_t)(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT))
        return false;
    if (flags & AT_EMPTY_PATH && name && !asker->name && guest_read(asker->tid, name, &first, 1) != 1)
        return false;
    if (flags & AT_EMPTY_PATH && (!name || !first))
        return stat_fd(cache, asker, dirfd, wanted, reply);
    return stat_name(cache, asker, dirfd, name, !(flags & AT_SYMLINK_NOFOLLOW), wanted, reply);
}

bool fast_ask(struct fast_cache *cache, const struct fast_asker *asker, int nr, const uint64_t a[6],
              struct fast_reply *reply)
{
    switch (nr) {
    case SYS_stat:
        reply->to = a[ARG_stat_statbuf];
        return stat_name(cache, asker, AT_FDCWD, a[ARG_stat_filename], true, 0, reply);
    case SYS_lstat:
        reply->to = a[ARG_lstat_statbuf];
        return stat_name(cache, asker, AT_FDCWD, a[ARG_lstat_filename], false, 0, reply);
    case SYS_fstat:
        reply->to = a[ARG_fstat_statbuf];
        return stat_fd(cache, asker, (int)a[ARG_fstat_fd], 0, reply);
    case SYS_newfstatat:
        reply->to = a[ARG_newfstatat_statbuf];
        return stat_at(cache, asker, (int)a[ARG_newfstatat_dfd], a[ARG_newfstatat_filename],
                       (uint32_t)a[ARG_newfstatat_flag], 0, reply);
    case SYS_statx: {
        uint32_t mask = (uint32_t)a[ARG_statx_mask];
        reply->to = a[ARG_statx_buffer];
        return !(mask & 0x80000000u) && stat_at(cache, asker, (int)a[ARG_statx_dfd], a[ARG_statx_filename],
                                                (uint32_t)a[ARG_statx_flags], mask | STATX_TYPE, reply);
    }
    case SYS_access:
        return access_name(cache, asker, AT_FDCWD, a[ARG_access_filename], (uint32_t)a[ARG_access_mode], reply);
    case SYS_faccessat:
        return access_name(cache, asker, (int)a[ARG_faccessat_dfd], a[ARG_faccessat_filename],
                           (uint32_t)a[ARG_faccessat_mode], reply);
    case SYS_faccessat2:
        return !(a[ARG_faccessat2_flags] & ~(uint64_t)AT_EACCESS) &&
               access_name(cache, asker, (int)a[ARG_faccessat2_dfd], a[ARG_faccessat2_filename],
                           (uint32_t)a[ARG_faccessat2_mode], reply);
    case SYS_getcwd:
        reply->to = a[ARG_getcwd_buf];
        return get_cwd(cache, asker, a[ARG_getcwd_size], reply);
    case SYS_readlink:
        reply->to = a[ARG_readlink_buf];
        return read_link(cache, asker, AT_FDCWD, a[ARG_readlink_path], (int)a[ARG_readlink_bufsiz], reply);
    case SYS_readlinkat:
        reply->to = a[ARG_readlinkat_buf];
        return read_link(cache, asker, (int)a[ARG_readlinkat_dfd], a[ARG_readlinkat_pathname],
                         (int)a[ARG_readlinkat_bufsiz], reply);
    default:
        return false;
    }
}
