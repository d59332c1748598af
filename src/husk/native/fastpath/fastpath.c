/* native: calls answered without Python, from what the name cache knows and what the host says right now.
 *
 * Each answer here must be the one Python would give; whatever is not plain (a symlink at the end, a directory that was
 * not taught, a hard link, a foreign device, any surprise from the host) is left to Python by returning false. */
#include "fastpath/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>


#define EMPTY_PATH 0x1000
#define NOFOLLOW 0x100
#define NO_AUTOMOUNT 0x800

static bool deliver(int listener, const struct seccomp_notif *notif, uint64_t address, const void *data, size_t size)
{
    if (!still_valid(listener, notif->id))
        return true; /* nobody waits any more */
    if (guest_write(notif->pid, address, data, size) == (ssize_t)size)
        answer_value(listener, notif->id, 0);
    else
        answer_error(listener, notif->id, EFAULT);
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
        .stx_mask = STATX_BASIC_STATS | 0x1000 /* STATX_MNT_ID */, .stx_blksize = s->st_blksize, .stx_nlink = s->st_nlink,
        .stx_uid = s->st_uid, .stx_gid = s->st_gid, .stx_mode = s->st_mode, .stx_ino = s->st_ino, .stx_size = s->st_size,
        .stx_blocks = s->st_blocks, .stx_rdev_major = major(s->st_rdev), .stx_rdev_minor = minor(s->st_rdev),
        .stx_dev_major = s->st_dev >> 8 & 0xfff, .stx_dev_minor = s->st_dev & 0xff, .stx_mnt_id = s->st_dev & 0xffff,
        .stx_attributes_mask = 0x2000 /* STATX_ATTR_MOUNT_ROOT: no root of a mount is ever answered here */,
    };
    timestamp(&x.stx_atime, s->st_atim);
    timestamp(&x.stx_mtime, s->st_mtim);
    timestamp(&x.stx_ctime, s->st_ctim);
    return deliver(listener, notif, address, &x, sizeof x);
}

/* `wanted` is statx's mask, or 0 for the older calls. When a file of the box's own was made, only Python knows. */
static bool knows_birth(const struct showing *showing, uint32_t wanted)
{
    return wanted & STATX_BTIME && showing->manner != AS_HOST;
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

static bool by_name(name_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd, uint64_t name,
                    bool follow, uint64_t to, uint32_t wanted)
{
    struct target t;
    struct stat s;
    int fd;
    if (!locate(cache, notif, dirfd, name, &t))
        return false;
    enum look seen = follow ? look_through(cache, &t, O_PATH | O_NOFOLLOW, &fd, &s) : look(&t, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == PYTHON)
        return false;
    if (seen == MISSING)
        return answer_error(listener, notif->id, ENOENT), true;
    if (fd >= 0)
        close(fd);
    if (!plain(cache, &t, &s, follow) || knows_birth(&t.dir->showing, wanted))
        return false;
    show(&t.dir->showing, &s);
    return wanted ? deliver_statx(listener, notif, to, &s) : deliver(listener, notif, to, &s, sizeof s);
}

/* A directory the guest holds, by its placeholder: the key of length 0 names where a walk from there begins. */
static bool held_directory(name_cache *cache, const char *link, struct stat *s)
{
    uint32_t start;
    struct known_dir *dir = placeholder(cache, link, &start) ? cache_find(cache, start, "", 0) : NULL;
    if (!dir || dir->missing || dir->absent || dir->showing.manner != AS_HOST)
        return false;
    const char *rel = dir->text + dir->key_size;
    if (dir->manifest) {
        uint32_t id = manifest_find(dir->manifest, rel, dir->rel_size ? dir->rel_size - 1 : 0);
        const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(dir->manifest, id);
        if (!entry)
            return false;
        image_stat(entry, s);
        show(&dir->showing, s);
        return true;
    }
    bool known = stat_directory(dir, s) && s->st_dev == dir->host_dev && s->st_ino < 1ULL << 32 &&
                 (!dir->host_ino || s->st_ino == dir->host_ino);
    if (known)
        show(&dir->showing, s);
    return known;
}

/* A file of the image, by the link it was opened through: its blob may be that of many files. */
static const struct handle *image_file(name_cache *cache, const char *link, struct stat *s)
{
    char text[600], *end;
    ssize_t n = cache->image ? readlink(link, text, sizeof text - 1) : -1;
    if (n <= (ssize_t)cache->images_size || memcmp(text, cache->images, cache->images_size) != 0)
        return NULL;
    text[n] = 0;
    unsigned long number = strtoul(text + cache->images_size, &end, 10);
    struct stat wanted = {.st_dev = cache->image_dev, .st_ino = number + 1};
    const struct handle *known = *end ? NULL : cache_handle(cache, &wanted);
    const struct manifest_entry *entry = known && number < MANIFEST_NONE ? manifest_entry(cache->image, (uint32_t)number) : NULL;
    if (!entry)
        return NULL;
    image_stat(entry, s);
    return known;
}

static bool by_descriptor(name_cache *cache, int listener, const struct seccomp_notif *notif, int fd, uint64_t to,
                          uint32_t wanted)
{
    char link[64];
    struct stat s;
    if (fd < 0)
        return false;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", notif->pid, fd);
    if (stat(link, &s) < 0)
        return false;
    const struct handle *known = S_ISREG(s.st_mode) || S_ISCHR(s.st_mode) ? cache_handle(cache, &s) : NULL;
    if (!known && S_ISREG(s.st_mode))
        known = image_file(cache, link, &s);
    const struct showing pipe = {.manner = AS_HOST, .dev = (uint32_t)s.st_dev, .uid_from = cache->host_uid,
                                 .uid_to = cache->uid, .uid_else = cache->uid, .gid_from = cache->host_uid,
                                 .gid_to = cache->gid, .gid_else = cache->gid};
    if (known && knows_birth(&known->showing, wanted))
        return false;
    if (known)
        show(&known->showing, &s);
    else if (S_ISFIFO(s.st_mode) && s.st_dev == cache->pipe_dev)
        show(&pipe, &s);
    else if (!S_ISDIR(s.st_mode) || !held_directory(cache, link, &s))
        return false;
    return wanted ? deliver_statx(listener, notif, to, &s) : deliver(listener, notif, to, &s, sizeof s);
}

/* Open a directory that has a placeholder already; -1: leave it to Python. */
static int open_place(name_cache *cache, struct target *t, uint32_t flags)
{
    char name[sizeof cache->places + 16];
    struct known_dir *dir = itself(cache, t);
    if (!dir || !dir->place || !same_directory(dir))
        return -1;
    snprintf(name, sizeof name, "%.*s%u", (int)cache->places_size, cache->places, dir->place);
    return open(name, O_RDONLY | O_CLOEXEC | (flags & (O_NONBLOCK | O_DIRECTORY)));
}

/* The first time anybody opens a file of the image it gets its link (vfs/image/image_lower.py). What is not plain, such as another
 * file system, is Python's to solve. */
static bool link_blob(name_cache *cache, const struct target *t)
{
    char blob[sizeof cache->blobs + 72], name[16], *end = blob;
    uint32_t id = manifest_find(t->dir->manifest, t->host, strlen(t->host));
    const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(t->dir->manifest, id);
    if (!entry || !S_ISREG(entry->mode) || t->dir->manifest != cache->image || !*cache->blobs)
        return false;
    end += snprintf(blob, sizeof blob, "%s%02x/", cache->blobs, entry->blob[0]);
    for (size_t i = 0; i < sizeof entry->blob; i++)
        end += sprintf(end, "%02x", entry->blob[i]);
    snprintf(name, sizeof name, "%u", entry->inode);
    return linkat(AT_FDCWD, blob, t->dir->root_fd, name, 0) == 0;
}

static enum look look_to_open(name_cache *cache, struct target *t, uint64_t flags, int *fd, struct stat *s)
{
    enum look seen = look(t, flags, fd, s);
    if (seen == PYTHON && t->dir->manifest && !t->dir->absent && link_blob(cache, t))
        seen = look(t, flags, fd, s);
    return seen;
}

static bool open_name(name_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd, uint64_t name, uint32_t flags)
{
    struct target t;
    struct stat s;
    int fd;
    /* 0100000 is O_LARGEFILE, which every 64-bit program may set and none needs. */
    if (flags & ~(uint32_t)(O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_DIRECTORY | 0100000) || !locate(cache, notif, dirfd, name, &t))
        return false;
    /* Not blocking even if the host put a FIFO there meanwhile; plain() then refuses it. On a host directory any guest can
     * make a FIFO, and merely opening one is felt at its other end: there, and after ELOOP, look first. */
    uint64_t host_flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | (flags & O_NOFOLLOW);
    bool careful = !t.dir->layered && t.dir->showing.manner == AS_HOST;
    enum look seen = careful ? PYTHON : look_to_open(cache, &t, host_flags, &fd, &s);
    if (seen == PYTHON && !(flags & O_NOFOLLOW)) {
        seen = look_through(cache, &t, O_PATH | O_NOFOLLOW, &fd, &s);
        if (seen == FOUND) {
            if (fd >= 0)
                close(fd);
            seen = S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) ? look_to_open(cache, &t, host_flags, &fd, &s) : PYTHON;
        }
    }
    if (seen == PYTHON)
        return false;
    if (seen == MISSING)
        return answer_error(listener, notif->id, ENOENT), true;
    bool done = false, directory = S_ISDIR(s.st_mode);
    if (directory) {
        if (fd >= 0)
            close(fd);
        fd = open_place(cache, &t, flags);
        if (fd < 0)
            return false;
    }
    if ((directory || (S_ISREG(s.st_mode) && !(flags & O_DIRECTORY))) && plain(cache, &t, &s, true)) {
        struct stat shown = s;
        show(&t.dir->showing, &shown);
        if (!permitted(cache, &shown, 4)) {
            answer_error(listener, notif->id, EACCES);
            done = true;
        } else { /* opening for reading changed nothing: that the caller still waits is for the hand-over to find out */
            if (!directory) {
                if (!(flags & O_NONBLOCK))
                    fcntl(fd, F_SETFL, 0);
                cache_remember_handle(cache, &t.dir->showing, &s);
            }
            int got;
            if (cache->watched) {
                got = add_descriptor(listener, notif, fd, flags & O_CLOEXEC);
                close(fd);
                fd = -1;
                if (got >= 0)
                    answer_value(listener, notif->id, got);
            } else {
                got = answer_descriptor(listener, notif, fd, flags & O_CLOEXEC);
            }
            if (got < 0 && got != -ENOENT && got != -EMFILE)
                answer_error(listener, notif->id, -got);
            done = got != -EMFILE; /* Python has somebody to tell that a table is full */
        }
    }
    if (fd >= 0)
        close(fd);
    return done;
}

static bool may_access(name_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd, uint64_t name, uint32_t mode)
{
    struct target t;
    struct stat s;
    int fd;
    if (mode & ~7u || mode & 2 || !locate(cache, notif, dirfd, name, &t)) /* writing: read-only trees are Python's to know */
        return false;
    enum look seen = look(&t, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == PYTHON)
        return false;
    if (seen == FOUND) {
        if (fd >= 0)
            close(fd);
        if (!plain(cache, &t, &s, true))
            return false;
        show(&t.dir->showing, &s);
    }
    if (seen == MISSING)
        answer_error(listener, notif->id, ENOENT);
    else if (permitted(cache, &s, mode))
        answer_value(listener, notif->id, 0);
    else
        answer_error(listener, notif->id, EACCES);
    return true;
}

static bool read_link(name_cache *cache, int listener, const struct seccomp_notif *notif, int dirfd, uint64_t name, uint64_t to, int room)
{
    struct target t;
    struct stat s;
    int fd;
    char text[LONGEST_NAME];
    if (room <= 0 || !locate(cache, notif, dirfd, name, &t))
        return false;
    enum look seen = look(&t, O_PATH | O_NOFOLLOW, &fd, &s);
    if (seen == PYTHON)
        return false;
    if (seen == MISSING)
        return answer_error(listener, notif->id, ENOENT), true;
    ssize_t n = S_ISLNK(s.st_mode) ? link_text(&t, fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    if (!S_ISLNK(s.st_mode))
        return answer_error(listener, notif->id, EINVAL), true;
    if (n < 0 || (t.dir->layered && s.st_nlink != 1 && cache->links_changed))
        return false;
    if (n > room)
        n = room;
    if (!still_valid(listener, notif->id))
        return true;
    if (guest_write(notif->pid, to, text, n) == n)
        answer_value(listener, notif->id, n);
    else
        answer_error(listener, notif->id, EFAULT);
    return true;
}

static bool answer(Listener *self, const struct seccomp_notif *notif)
{
    name_cache *cache = self->cache;
    int listener = self->fd;
    const __u64 *a = notif->data.args;
    char first = 1;
    switch (notif->data.nr) {
    case SYS_stat:
        return by_name(cache, listener, notif, AT_CWD, a[0], true, a[1], 0);
    case SYS_lstat:
        return by_name(cache, listener, notif, AT_CWD, a[0], false, a[1], 0);
    case SYS_fstat:
        return by_descriptor(cache, listener, notif, (int)a[0], a[1], 0);
    case SYS_newfstatat:
    case SYS_statx: {
        bool extended = notif->data.nr == SYS_statx;
        uint32_t wanted = extended ? (uint32_t)a[3] | STATX_TYPE : 0;
        uint32_t flags = (uint32_t)(extended ? a[2] : a[3]);
        uint64_t to = extended ? a[4] : a[2];
        if (flags & ~(uint32_t)(EMPTY_PATH | NOFOLLOW | NO_AUTOMOUNT) || (extended && a[3] & 0x80000000u))
            return false;
        if (flags & EMPTY_PATH && (a[1] == 0 || (guest_read(notif->pid, a[1], &first, 1) == 1 && !first)))
            return by_descriptor(cache, listener, notif, (int)a[0], to, wanted);
        return by_name(cache, listener, notif, (int)a[0], a[1], !(flags & NOFOLLOW), to, wanted);
    }
    case SYS_open:
        return open_name(cache, listener, notif, AT_CWD, a[0], (uint32_t)a[1]);
    case SYS_openat:
        return open_name(cache, listener, notif, (int)a[0], a[1], (uint32_t)a[2]);
    case SYS_access:
        return may_access(cache, listener, notif, AT_CWD, a[0], (uint32_t)a[1]);
    case SYS_faccessat:
        return may_access(cache, listener, notif, (int)a[0], a[1], (uint32_t)a[2]);
    case SYS_faccessat2:
        return !(a[3] & ~0x200ULL) && may_access(cache, listener, notif, (int)a[0], a[1], (uint32_t)a[2]);
    case SYS_readlink:
        return read_link(cache, listener, notif, AT_CWD, a[0], a[1], (int)a[2]);
    case SYS_getdents64:
        return list_directory(cache, listener, notif, (int)a[0], a[1], (int)a[2]);
    case SYS_readlinkat:
        return read_link(cache, listener, notif, (int)a[0], a[1], a[2], (int)a[3]);
    default:
        return false;
    }
}

bool cache_answer(Listener *listener, const struct seccomp_notif *notif)
{
    /* Starting a program waits for the guest: no lock is held meanwhile. */
    if (notif->data.nr == SYS_execve)
        return programs_execve(listener, notif);
    pthread_rwlock_rdlock(&listener->cache->lock);
    bool done = answer(listener, notif);
    pthread_rwlock_unlock(&listener->cache->lock);
    return done;
}
