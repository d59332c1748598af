/* native: finding the host file behind a guest's name, and how it is shown. Whatever is not plain is left to Python. */
#include "fastpath/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

bool placeholder(name_cache *cache, const char *link, uint32_t *start)
{
    char text[600], *end;
    ssize_t n = readlink(link, text, sizeof text - 1);
    if (n <= (ssize_t)cache->places_size || memcmp(text, cache->places, cache->places_size) != 0)
        return false;
    text[n] = 0;
    unsigned long number = strtoul(text + cache->places_size, &end, 10);
    if (*end || !number || number > UINT32_MAX)
        return false;
    *start = (uint32_t)number;
    return true;
}

/* Where the last component of the name begins; false: it is none that can be asked for. */
static bool cut(struct target *t, ssize_t size)
{
    t->slash = size > 1 && t->name[size - 1] == '/';
    if (t->slash)
        t->name[--size] = 0;
    if (size <= 0 || t->name[size - 1] == '/')
        return false;
    char *slash = memrchr(t->name, '/', size);
    t->size = size;
    t->cut = slash ? slash - t->name + 1 : 0;
    const char *last = t->name + t->cut;
    size_t last_size = size - t->cut;
    return last_size <= 255 && !(last[0] == '.' && (last_size == 1 || (last[1] == '.' && last_size == 2)));
}

bool stat_directory(const struct known_dir *dir, struct stat *s)
{
    const char *rel = dir->text + dir->key_size;
    int fd = open_beneath(dir->root_fd, *rel ? rel : ".", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return false;
    bool known = fstat(fd, s) == 0;
    close(fd);
    return known;
}

bool same_directory(const struct known_dir *dir)
{
    struct stat s;
    return !dir->host_ino || (stat_directory(dir, &s) && s.st_dev == dir->host_dev && s.st_ino == dir->host_ino);
}

/* The taught directory the name lies in, or the name itself where that was taught alone. */
static bool find(name_cache *cache, struct target *t)
{
    t->dir = cache_find(cache, t->start, t->name, t->cut);
    if (t->dir) {
        memcpy(t->host, t->dir->text + t->dir->key_size, t->dir->rel_size);
        memcpy(t->host + t->dir->rel_size, t->name + t->cut, t->size - t->cut + 1);
        return true;
    }
    t->dir = cache_find(cache, t->start, t->name, t->size);
    if (t->dir)
        memcpy(t->host, t->dir->text + t->dir->key_size, t->dir->rel_size + 1);
    return t->dir != NULL;
}

bool locate(name_cache *cache, const struct seccomp_notif *notif, int dirfd, uint64_t address, struct target *t)
{
    if (!cut(t, guest_string(notif->pid, address, t->name, sizeof t->name)))
        return false;
    if (t->name[0] == '/') {
        t->start = 0;
    } else {
        char link[64];
        if (dirfd == AT_CWD)
            snprintf(link, sizeof link, "/proc/%d/cwd", notif->pid);
        else if (dirfd >= 0)
            snprintf(link, sizeof link, "/proc/%d/fd/%d", notif->pid, dirfd);
        else
            return false;
        if (!placeholder(cache, link, &t->start))
            return false;
    }
    /* A name that begins in a held directory is looked for in that one, even if the host has put another in its place. */
    return find(cache, t) && (!t->start || same_directory(t->dir));
}

void image_stat(const struct manifest_entry *entry, struct stat *s)
{
    bool link = S_ISLNK(entry->mode), directory = S_ISDIR(entry->mode);
    uint64_t size = link ? entry->count : directory ? 4096 : entry->size;
    *s = (struct stat){.st_ino = entry->inode + 1ULL, .st_mode = entry->mode, .st_nlink = entry->nlink, .st_uid = entry->uid,
                       .st_gid = entry->gid, .st_rdev = makedev(entry->rdev_major, entry->rdev_minor), .st_size = size,
                       .st_blksize = 4096, .st_blocks = link || !(directory || S_ISREG(entry->mode)) ? 0 : (size + 4095) / 4096 * 8};
    s->st_mtim.tv_sec = entry->mtime_ns / 1000000000, s->st_mtim.tv_nsec = entry->mtime_ns % 1000000000;
    if (s->st_mtim.tv_nsec < 0)
        s->st_mtim.tv_sec--, s->st_mtim.tv_nsec += 1000000000;
    s->st_atim = s->st_ctim = s->st_mtim;
}

/* The same question, of an image. A file that nobody opened yet has no link, which is for Python to make. */
static enum look look_in_image(struct target *t, uint64_t flags, int *fd, struct stat *host)
{
    char name[16];
    size_t size = strlen(t->host);
    uint32_t id = manifest_find(t->dir->manifest, t->host, size && t->host[size - 1] == '/' ? size - 1 : size);
    const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(t->dir->manifest, id);
    if (id == MANIFEST_NONE)
        return MISSING;
    if (!entry || t->dir->absent)
        return PYTHON;
    image_stat(entry, host);
    host->st_dev = t->dir->host_dev;
    *fd = -1;
    if (flags & O_PATH || S_ISDIR(entry->mode))
        return FOUND;
    if (!S_ISREG(entry->mode))
        return PYTHON;
    snprintf(name, sizeof name, "%u", entry->inode);
    *fd = openat(t->dir->root_fd, name, (int)flags | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? PYTHON : FOUND;
}

static enum look look_at(struct target *t, uint64_t flags, int *fd, struct stat *host)
{
    if (t->dir->missing)
        return MISSING;
    if (t->dir->showing.manner == AS_GIVEN) {
        *fd = -1;
        *host = t->dir->showing.given;
        return flags & O_PATH ? FOUND : PYTHON;
    }
    if (t->dir->manifest)
        return look_in_image(t, flags, fd, host);
    *fd = open_beneath(t->dir->root_fd, t->host, flags, 0);
    if (*fd == -ENOENT)
        return MISSING;
    if (*fd < 0)
        return PYTHON;
    if (t->dir->absent) {
        close(*fd);
        return PYTHON;
    }
    if (fstat(*fd, host) == 0 &&
        (t->dir->showing.manner == AS_UPPER || (host->st_dev == t->dir->host_dev && host->st_ino < 1ULL << 32)))
        return FOUND;
    close(*fd);
    return PYTHON;
}

enum look look(struct target *t, uint64_t flags, int *fd, struct stat *host)
{
    enum look seen = look_at(t, flags, fd, host);
    if (seen != FOUND || !t->slash || S_ISDIR(host->st_mode))
        return seen;
    if (*fd >= 0)
        close(*fd);
    return PYTHON;
}

ssize_t link_text(const struct target *t, int fd, char *text, size_t room)
{
    if (!t->dir->manifest)
        return readlinkat(fd, "", text, room);
    uint32_t id = manifest_find(t->dir->manifest, t->host, strlen(t->host));
    const struct manifest_entry *entry = id == MANIFEST_NONE ? NULL : manifest_entry(t->dir->manifest, id);
    if (!entry || !S_ISLNK(entry->mode))
        return -1;
    size_t size = entry->count < room ? entry->count : room;
    memcpy(text, t->dir->manifest->strings + entry->first, size);
    return size;
}

/* Go on where a symbolic link leads: to a neighbour (libz.so.1 -> libz.so.1.2.13), or to an absolute name whose directory
 * was taught, too. */
static bool follow(name_cache *cache, struct target *t, const char *text, size_t size)
{
    if (text[0] == '/') {
        memcpy(t->name, text, size + 1);
        t->start = 0;
        return cut(t, size) && find(cache, t);
    }
    if (memchr(text, '/', size) || t->dir->key_size != t->cut || t->cut + size + 1 >= sizeof t->name)
        return false;
    memcpy(t->name + t->cut, text, size + 1);
    return cut(t, t->cut + size) && find(cache, t);
}

enum look look_through(name_cache *cache, struct target *t, uint64_t flags, int *fd, struct stat *host)
{
    for (int links = 0; links < 8; links++) {
        enum look seen = look(t, O_PATH | O_NOFOLLOW, fd, host);
        if (seen != FOUND || !S_ISLNK(host->st_mode) || t->dir->showing.manner != AS_HOST) {
            if (seen != FOUND || flags & O_PATH)
                return seen;
            if (*fd >= 0)
                close(*fd);
            return look(t, flags, fd, host);
        }
        char text[1024];
        ssize_t n = link_text(t, *fd, text, sizeof text - 1);
        if (*fd >= 0)
            close(*fd);
        if (n <= 0 || n == sizeof text - 1 || memchr(text, 0, n)) /* no link of Linux's holds a NUL; a forged image's may */
            return PYTHON;
        text[n] = 0;
        if (!follow(cache, t, text, n))
            return PYTHON;
    }
    return PYTHON;
}

struct known_dir *itself(name_cache *cache, struct target *t)
{
    if (t->size + 1 >= sizeof t->name)
        return NULL;
    t->name[t->size] = '/';
    struct known_dir *dir = cache_find(cache, t->start, t->name, t->size + 1);
    t->name[t->size] = 0;
    return dir;
}

/* May the answer be told as it is? */
bool plain(name_cache *cache, struct target *t, const struct stat *host, bool follow)
{
    if (t->dir->showing.manner != AS_HOST)
        return true;
    if (S_ISLNK(host->st_mode))
        return !follow;
    if (S_ISREG(host->st_mode))
        return !t->dir->layered || host->st_nlink == 1 || !cache->links_changed;
    /* A directory's own metadata may have changed in the layer; taught ones have not. */
    return S_ISDIR(host->st_mode) && itself(cache, t);
}

void show(const struct showing *as, struct stat *s)
{
    switch (as->manner) {
    case AS_HOST:
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
    case AS_UPPER: {
        struct stat host = *s;
        *s = as->given;
        s->st_size = host.st_size, s->st_blksize = host.st_blksize, s->st_blocks = host.st_blocks;
        s->st_atim = host.st_atim, s->st_mtim = host.st_mtim;
        /* The host's change time speaks only of writes (and of our own set-up, which does not count). */
        if (nanoseconds(host.st_ctim) != as->set_up_ns && nanoseconds(host.st_ctim) > nanoseconds(s->st_ctim))
            s->st_ctim = host.st_ctim;
        return;
    }
    case AS_GIVEN:
        *s = as->given;
    }
}

bool permitted(name_cache *cache, const struct stat *shown, unsigned want)
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
