/* native: resolving a guest's name to a host file, and showing its attributes. What is not simple is left to Python. */
#include "fastpath/resolve.h"

#include "layer/own_dirs.h"
#include "host/host.h"
#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool is_dots(const char *word)
{
    return strcmp(word, "..") == 0;
}

/* Find where the last component begins. False: it is empty, `.` or too long. What ends in "/." or ".." is a directory,
 * as with a slash alone; no change is made by such a name. */
static bool cut(struct fast_resolved *path, ssize_t size)
{
    if (size > 2 && path->name[size - 1] == '.' && path->name[size - 2] == '/')
        path->name[--size] = 0;
    path->slash = size > 1 && path->name[size - 1] == '/';
    if (path->slash)
        path->name[--size] = 0;
    if (size <= 0 || path->name[size - 1] == '/')
        return false;
    char *slash = memrchr(path->name, '/', size);
    path->size = size;
    path->cut = slash ? slash - path->name + 1 : 0;
    const char *last = path->name + path->cut;
    size_t last_size = size - path->cut;
    path->slash |= is_dots(last);
    return last_size <= 255 && !(last[0] == '.' && last_size == 1);
}

bool fast_stat_dir(struct fast_cache *cache, struct fast_dir *dir, struct stat *s)
{
    int held = fast_held_fd(cache, dir);
    if (held >= 0)
        return fstat(held, s) == 0;
    const char *rel = dir->text + dir->key_size;
    int fd = host_open_beneath(dir->root_fd, *rel ? rel : ".", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return false;
    bool known = fstat(fd, s) == 0;
    close(fd);
    return known;
}

/* The identity that was taught with a directory that does not exist is that of the one above the missing word. */
static bool same_above(const struct fast_dir *dir)
{
    char rel[FAST_LONGEST_NAME + 1];
    struct stat s;
    memcpy(rel, dir->text + dir->key_size, dir->rel_size + 1);
    char *slash = strrchr(rel, '/');
    *(slash ? slash : rel) = 0;
    int fd = host_open_beneath(dir->root_fd, *rel ? rel : ".", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return false;
    bool same = fstat(fd, &s) == 0 && s.st_dev == dir->host_dev && s.st_ino == dir->host_ino;
    close(fd);
    return same;
}

bool fast_same_dir(struct fast_cache *cache, struct fast_dir *dir)
{
    struct stat s;
    if (dir->host_ino && dir->absent)
        return same_above(dir);
    return !dir->host_ino || (fast_stat_dir(cache, dir, &s) && s.st_dev == dir->host_dev && s.st_ino == dir->host_ino);
}

/* A directory of the box's own, or a mount point, that was taught alone. */
static bool is_given_directory(const struct fast_dir *dir)
{
    return dir->showing.manner == FAST_AS_GIVEN && !dir->own && S_ISDIR(dir->showing.given.st_mode);
}

struct fast_dir *fast_find_itself(struct fast_cache *cache, struct fast_resolved *path)
{
    if (path->size + 1 >= sizeof path->name)
        return NULL;
    path->name[path->size] = '/';
    struct fast_dir *dir = fast_cache_find(cache, path->start, path->name, path->size + 1);
    path->name[path->size] = 0;
    return dir && !dir->absent && !dir->missing ? dir : NULL; /* the host may just have made it */
}

/* The name must be that of a directory: was just this one taught? Then it does not matter where its name lies. */
static bool find_directory(struct fast_cache *cache, struct fast_resolved *path)
{
    struct fast_dir *dir = fast_find_itself(cache, path);
    /* A mount's root is Python's: statx tells that it is one. */
    if (!dir || dir->own || dir->showing.manner != FAST_AS_HOST || !dir->rel_size ||
        __atomic_load_n(&dir->stale, __ATOMIC_ACQUIRE))
        return false;
    path->dir = dir;
    path->own = NULL;
    path->held = -1;
    memcpy(path->host, dir->text + dir->key_size, dir->rel_size);
    path->host[dir->rel_size - 1] = 0;
    return true;
}

/* Find the taught directory that the name lies in, or the entry of the name itself if that was taught alone. */
static bool find(struct fast_cache *cache, struct fast_resolved *path)
{
    if (path->slash && find_directory(cache, path))
        return true;
    path->own = NULL;
    if (is_dots(path->name + path->cut))
        return false;
    path->dir = fast_cache_find(cache, path->start, path->name, path->cut);
    path->held = path->dir ? fast_held_fd(cache, path->dir) : -1;
    struct fast_own *own = path->dir ? __atomic_load_n(&path->dir->own, __ATOMIC_ACQUIRE) : NULL;
    if (own && __atomic_load_n(&path->dir->stale, __ATOMIC_ACQUIRE))
        return false;
    if (own) {
        path->dir = fast_own_name(own, path->name + path->cut, path->size - path->cut);
        path->own = own;
        path->held = path->dir && fast_own_is_beneath(path) ? fast_held_fd(cache, path->dir) : -1;
        if (path->dir && !fast_own_is_beneath(path)) {
            memcpy(path->host, path->dir->text, path->dir->rel_size + 1);
            return true;
        }
    }
    if (path->dir) {
        memcpy(path->host, path->dir->text + path->dir->key_size, path->dir->rel_size + 1);
        if (!path->dir->absent)
            memcpy(path->host + path->dir->rel_size, path->name + path->cut, path->size - path->cut + 1);
        return !__atomic_load_n(&path->dir->stale, __ATOMIC_ACQUIRE);
    }
    path->dir = fast_cache_find(cache, path->start, path->name, path->size);
    if (path->dir)
        memcpy(path->host, path->dir->text + path->dir->key_size, path->dir->rel_size + 1);
    return path->dir && (!__atomic_load_n(&path->dir->stale, __ATOMIC_ACQUIRE) || is_given_directory(path->dir));
}

/* The name into path->name; its length. */
static ssize_t read_name(const struct fast_asker *asker, uint64_t address, struct fast_resolved *path)
{
    if (!asker->name)
        return guest_string(asker->tid, address, path->name, sizeof path->name);
    memcpy(path->name, asker->name, asker->name_size + 1);
    return (ssize_t)asker->name_size;
}

bool fast_resolve(struct fast_cache *cache, const struct fast_asker *asker, int dirfd, uint64_t address,
                  struct fast_resolved *path)
{
    path->own = NULL;
    if (!cut(path, read_name(asker, address, path)))
        return false;
    if (path->name[0] == '/') {
        path->start = 0;
    } else if (!fast_start(cache, asker, dirfd, &path->start)) {
        return false;
    }
    /* A name that begins in an open directory is looked up in that one, even if the host has since replaced it. */
    return find(cache, path) && (!path->start || path->held >= 0 || fast_same_dir(cache, path->dir));
}

void fast_image_stat(const struct manifest_entry *entry, struct stat *s)
{
    bool link = S_ISLNK(entry->mode), directory = S_ISDIR(entry->mode);
    uint64_t size = link ? entry->count : directory ? 4096 : entry->size;
    *s = (struct stat){.st_ino = entry->inode + 1ULL, .st_mode = entry->mode, .st_nlink = entry->nlink,
                       .st_uid = entry->uid, .st_gid = entry->gid,
                           .st_rdev = makedev(entry->rdev_major, entry->rdev_minor), .st_size = size,
                       .st_blksize = 4096,
                       .st_blocks = directory || S_ISREG(entry->mode) ? (size + 4095) / 4096 * 8 : 0};
    s->st_mtim.tv_sec = entry->mtime_ns / 1000000000, s->st_mtim.tv_nsec = entry->mtime_ns % 1000000000;
    if (s->st_mtim.tv_nsec < 0)
        s->st_mtim.tv_sec--, s->st_mtim.tv_nsec += 1000000000;
    s->st_atim = s->st_ctim = s->st_mtim;
}

/* C judges by the mode alone. */
static bool has_acl(const struct manifest *m, const struct manifest_entry *entry)
{
    static const char name[] = "system.posix_acl_access";
    return entry->xattrs_size && memmem(m->xattrs + entry->xattrs, entry->xattrs_size, name, sizeof name - 1);
}

/* fast_lookup in an image. A file that was never opened has no link yet: FAST_PYTHON. */
static enum fast_outcome look_in_image(struct fast_resolved *path, uint64_t flags, int *fd, struct stat *host)
{
    char name[16];
    size_t size = strlen(path->host);
    uint32_t id = manifest_find(path->dir->manifest, path->host, size && path->host[size - 1] == '/' ? size - 1 : size);
    const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(path->dir->manifest, id);
    if (id == MANIFEST_NONE)
        return FAST_MISSING;
    if (!entry || path->dir->absent || has_acl(path->dir->manifest, entry))
        return FAST_PYTHON;
    fast_image_stat(entry, host);
    host->st_dev = path->dir->host_dev;
    *fd = -1;
    if (flags & O_PATH || S_ISDIR(entry->mode))
        return FAST_FOUND;
    if (!S_ISREG(entry->mode))
        return FAST_PYTHON;
    snprintf(name, sizeof name, "%u", entry->inode);
    *fd = openat(path->dir->root_fd, name, (int)flags | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? FAST_PYTHON : FAST_FOUND;
}

/* Is the word missing still behind which the name lies? What the host makes there husk has not looked at, nor what the
 * box has changed where `..` behind it may lead: then it is Python's. */
static enum fast_outcome look_for_missing(const struct fast_resolved *path)
{
    int fd = host_open_beneath(path->dir->root_fd, path->host, O_PATH | O_NOFOLLOW, 0);
    if (fd >= 0)
        close(fd);
    return fd == -ENOENT ? FAST_MISSING : FAST_PYTHON;
}

/* A directory that is held has no such name. Was it removed? As long as it is held the host does not report that, and
 * the name that led to it may lead to another directory now. */
static enum fast_outcome not_beside(struct fast_cache *cache, const struct fast_resolved *path)
{
    struct stat s;
    if (fstat(path->held, &s) == 0 && s.st_nlink)
        return FAST_MISSING;
    atomic_store(&cache->held.stale, true);
    return FAST_PYTHON;
}

/* In a directory that is held. */
static enum fast_outcome look_beside(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                                     struct stat *host)
{
    const char *last = path->name + path->cut;
    *fd = flags & O_PATH ? -1 : host_open_beneath_once(path->held, last, flags, 0, RESOLVE_NO_XDEV);
    if (!(flags & O_PATH) && *fd < 0)
        return *fd == -ENOENT ? not_beside(cache, path) : FAST_PYTHON;
    if (*fd < 0 ? fstatat(path->held, last, host, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) : fstat(*fd, host))
        return *fd < 0 && errno == ENOENT ? not_beside(cache, path) : FAST_PYTHON;
    if (host->st_dev == path->dir->host_dev && host->st_ino < 1ULL << 32 &&
        host_rules_leave(path->dir->root_fd, path->host, host))
        return FAST_FOUND;
    if (*fd >= 0)
        close(*fd);
    return FAST_PYTHON;
}

static enum fast_outcome look_at(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                                 struct stat *host)
{
    if (path->dir->missing)
        return FAST_MISSING;
    if (path->dir->showing.manner == FAST_AS_GIVEN) {
        *fd = -1;
        *host = path->dir->showing.given;
        return flags & O_PATH ? FAST_FOUND : FAST_PYTHON;
    }
    if (path->dir->manifest)
        return look_in_image(path, flags, fd, host);
    if (path->dir->absent)
        return look_for_missing(path);
    if (path->held >= 0 && (flags & O_PATH || path->dir->held_opens) &&
        host_rules_leave(path->dir->root_fd, path->host, NULL))
        return look_beside(cache, path, flags, fd, host);
    *fd = host_open_beneath(path->dir->root_fd, path->host, flags, 0);
    if (*fd == -ENOENT && path->dir->showing.manner != FAST_AS_UPPER) /* else another file may have got its name */
        return FAST_MISSING;
    if (*fd < 0)
        return FAST_PYTHON;
    if (fstat(*fd, host) == 0 &&
        (path->dir->showing.manner == FAST_AS_UPPER ||
         (host->st_dev == path->dir->host_dev && host->st_ino < 1ULL << 32)))
        return FAST_FOUND;
    close(*fd);
    return FAST_PYTHON;
}

enum fast_outcome fast_lookup(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                              struct stat *host)
{
    enum fast_outcome seen = look_at(cache, path, flags, fd, host);
    if (seen != FAST_FOUND || !path->slash || S_ISDIR(host->st_mode))
        return seen;
    if (*fd >= 0)
        close(*fd);
    return FAST_PYTHON;
}

ssize_t fast_read_link(const struct fast_resolved *path, int fd, char *text, size_t room)
{
    if (!path->dir->manifest)
        return fd < 0 ? readlinkat(path->held, path->name + path->cut, text, room) : readlinkat(fd, "", text, room);
    uint32_t id = manifest_find(path->dir->manifest, path->host, strlen(path->host));
    const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(path->dir->manifest, id);
    if (!entry || !S_ISLNK(entry->mode))
        return -1;
    size_t size = entry->count < room ? entry->count : room;
    memcpy(text, path->dir->manifest->strings + entry->first, size);
    return size;
}

/* Follow a symbolic link to a name in the same directory (libz.so.1 -> libz.so.1.2.13), or to an absolute name in a
 * taught directory. */
static bool follow(struct fast_cache *cache, struct fast_resolved *path, const char *text, size_t size)
{
    if (text[0] == '/') {
        memcpy(path->name, text, size + 1);
        path->start = 0;
        return cut(path, size) && find(cache, path);
    }
    if (memchr(text, '/', size) || path->dir->key_size != path->cut || path->cut + size + 1 >= sizeof path->name)
        return false;
    memcpy(path->name + path->cut, text, size + 1);
    return cut(path, path->cut + size) && find(cache, path);
}

enum fast_outcome fast_lookup_following(struct fast_cache *cache, struct fast_resolved *path, uint64_t flags, int *fd,
                                        struct stat *host)
{
    for (int links = 0; links < 8; links++) {
        enum fast_outcome seen = fast_lookup(cache, path, O_PATH | O_NOFOLLOW, fd, host);
        if (seen != FAST_FOUND || !S_ISLNK(host->st_mode) || path->dir->showing.manner != FAST_AS_HOST) {
            if (seen != FAST_FOUND || flags & O_PATH)
                return seen;
            if (*fd >= 0)
                close(*fd);
            return fast_lookup(cache, path, flags, fd, host);
        }
        char text[1024];
        ssize_t n = fast_read_link(path, *fd, text, sizeof text - 1);
        if (*fd >= 0)
            close(*fd);
        if (n <= 0 || n == sizeof text - 1 || memchr(text, 0, n)) /* a link of a forged image may hold a NUL */
            return FAST_PYTHON;
        text[n] = 0;
        if (!follow(cache, path, text, n))
            return FAST_PYTHON;
    }
    return FAST_PYTHON;
}

bool fast_is_plain(struct fast_cache *cache, struct fast_resolved *path, const struct stat *host, bool follow)
{
    /* Of a directory whose names C has changed only the kind is known for sure. */
    if (is_given_directory(path->dir))
        return path->dir->showing.given.st_nlink && !__atomic_load_n(&path->dir->stale, __ATOMIC_ACQUIRE);
    if (path->dir->showing.manner != FAST_AS_HOST)
        return true;
    if (S_ISLNK(host->st_mode))
        return !follow;
    if (S_ISREG(host->st_mode))
        return !path->dir->layered || host->st_nlink == 1 || !cache->links_changed;
    /* A directory's own metadata may have changed in the layer. That of taught directories has not. In other mounts it
     * is the host's. */
    if (!S_ISDIR(host->st_mode) || !path->dir->layered)
        return S_ISDIR(host->st_mode);
    const struct fast_dir *itself = fast_find_itself(cache, path);
    return itself && !itself->own && !__atomic_load_n(&itself->stale, __ATOMIC_ACQUIRE);
}

void fast_show(const struct fast_showing *as, struct stat *s)
{
    switch (as->manner) {
    case FAST_AS_HOST:
        s->st_dev = as->dev;
        if (s->st_uid == as->uid_from)
            s->st_uid = as->uid_to;
        else if (s->st_uid == as->uid_to)
            s->st_uid = as->uid_else;
        if (s->st_gid == as->gid_from)
            s->st_gid = as->gid_to;
        else if (s->st_gid == as->gid_to)
            s->st_gid = as->gid_else;
        return;
    case FAST_AS_UPPER: {
        struct stat host = *s;
        *s = as->given;
        s->st_size = host.st_size, s->st_blksize = host.st_blksize, s->st_blocks = host.st_blocks;
        s->st_atim = host.st_atim, s->st_mtim = host.st_mtim;
        /* The host's change time tells only of writes, and of husk's own set-up, which does not count. */
        if (core_nanoseconds(host.st_ctim) != as->set_up_ns &&
            core_nanoseconds(host.st_ctim) > core_nanoseconds(s->st_ctim))
            s->st_ctim = host.st_ctim;
        return;
    }
    case FAST_AS_GIVEN:
        *s = as->given;
    }
}

bool fast_permits(struct fast_cache *cache, const struct stat *shown, unsigned want)
{
    unsigned shift = 0;
    if (shown->st_uid == cache->uid) {
        shift = 6;
    } else {
        for (uint32_t i = 0; i < cache->group_count; i++)
            if (cache->groups[i] == shown->st_gid)
                shift = 3;
    }
    return (shown->st_mode >> shift & want) == want;
}
