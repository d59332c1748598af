/* native: directories that are made, removed and dated in directories of the box's own (own_dirs.c).
 *
 * A directory that C makes is known to C at once, so that what is made in it needs no Python. Its owner is its number,
 * marked so that it is no address. All of this with the cache's lock for reading and the vfs's lock. */
#include "layer/own_tables.h"

#include "host/host.h"
#include "notify/notify.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- making ------------------------------------------------------------------------------------------------------ */

static struct fast_own *new_own(const struct fast_own *above, const struct fast_resolved *path, uint64_t number,
                                uint32_t mode)
{
    size_t before = strlen(above->path), size = fast_own_name_size(path);
    struct fast_own *own = calloc(1, sizeof *own);
    if (!own)
        return NULL;
    *own = (struct fast_own){.owner = number | FAST_OWNER_MADE, .files_fd = above->files_fd, .dev = above->dev,
                             .uid = above->uid, .gid = above->gid, .removable = true,
                             .path = malloc(before + size + 2)};
    own->shown = (struct stat){.st_dev = above->dev, .st_ino = number, .st_mode = S_IFDIR | mode, .st_nlink = 2,
                               .st_uid = above->uid, .st_gid = above->gid};
    own->none = fast_own_new_entry(own, 0);
    if (!own->path || !own->none) {
        fast_own_end(own);
        return NULL;
    }
    memcpy(own->path, above->path, before);
    memcpy(own->path + before, path->name + path->cut, size);
    memcpy(own->path + before + size, "/", 2);
    return own;
}

bool fast_own_mkdir(struct fast_cache *cache, const struct fast_resolved *path, uint32_t mode)
{
    struct fast_layer *layer = cache->layer;
    struct fast_own *above = path->own;
    char key[FAST_LONGEST_NAME + 1];
    int64_t when;
    if (path->size + 1 >= FAST_LONGEST_NAME ||
        strlen(above->path) + fast_own_name_size(path) + 2 >= FAST_LONGEST_NAME || !fast_lock_date(layer->lock, &when))
        return false;
    uint64_t number = fast_lock_number(layer->lock);
    struct fast_name *one = fast_own_name_of(path), *fresh = one ? NULL : fast_own_new_name(path->name + path->cut,
                                                                               fast_own_name_size(path));
    struct fast_own *own = new_own(above, path, number, mode);
    if (!own || (!one && !fresh)) {
        if (own)
            fast_own_end(own);
        free(fresh);
        return false;
    }
    fast_own_spoil(cache, above, false); /* before the name is there: guests may look at what is told to be missing */
    if (one)
        fast_own_lead(above, one, NULL, 0);
    else
        fast_own_add_name(cache, above, fresh);
    memcpy(key, path->name, path->size);
    key[path->size] = '/';
    /* Names in one that the guest may not search are Python's: it says why not. */
    if (fast_permits(cache, &own->shown, 1) &&
        fast_cache_publish_own(cache, path->start, key, path->size + 1, own, own->owner)) {
        (one ? one : fresh)->child = own->owner;
        fast_own_add(layer, own);
    } else {
        fast_own_end(own);
    }
    struct fast_record record = {.deed = FAST_DIRECTORY_MADE, .mode = S_IFDIR | mode, .owner = above->owner,
                                 .number = number, .when_ns = when, .size = (uint32_t)fast_own_name_size(path)};
    fast_lock_record(layer->lock, &record, path->name + path->cut, NULL);
    return true;
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

/* Is every name that the host has there hidden? */
static bool all_hidden(struct fast_own *own)
{
    char records[8192] __attribute__((aligned(8)));
    const struct fast_dir *dir = own->beneath;
    const char *rel = dir->text + dir->key_size;
    int fd = host_open_beneath(dir->root_fd, *rel ? rel : ".", O_RDONLY | O_DIRECTORY, 0);
    bool hidden = fd >= 0;
    ssize_t size = 0;
    while (hidden && (size = syscall(SYS_getdents64, fd, records, sizeof records)) > 0) {
        for (ssize_t at = 0; hidden && at < size;) {
            const struct dirent64 *entry = (const void *)(records + at);
            const char *name = entry->d_name;
            at += entry->d_reclen;
            if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                continue;
            const struct fast_name *one = fast_own_find_name(own, name, strlen(name));
            hidden = one && one->entry == own->none;
        }
    }
    if (fd >= 0)
        close(fd);
    return hidden && size == 0;
}

static bool is_empty(struct fast_own *own)
{
    for (size_t i = 0; i < NAME_BUCKETS; i++)
        for (const struct fast_name *one = own->names[i]; one; one = one->next)
            if (one->entry != own->none)
                return false;
    return !own->beneath || all_hidden(own);
}

/* Works somebody in it? Then getcwd has to tell that it is gone, which Python does. */
static bool is_worked_in(const struct fast_cache *cache, const struct fast_own *own)
{
    for (size_t i = 0; i < FAST_PATHS; i++)
        if (cache->paths[i].text && cache->paths[i].owner == own->owner)
            return true;
    return false;
}

static bool may_remove(const struct fast_cache *cache, const struct fast_own *above, const struct fast_own *own)
{
    bool others = above->shown.st_mode & S_ISVTX && above->shown.st_uid != cache->uid;
    return own->removable && (!others || own->shown.st_uid == cache->uid) && !is_worked_in(cache, own);
}

bool fast_own_rmdir(struct fast_cache *cache, struct fast_resolved *path)
{
    struct fast_own *above = path->own;
    struct fast_name *one = fast_own_name_of(path), *fresh = NULL;
    /* One where changes began before it had a name here is known by what its name leads to. */
    const struct fast_dir *itself = one ? NULL : fast_find_itself(cache, path);
    struct fast_own *own = one ? fast_cache_own(cache, one->child) : itself ? itself->own : NULL;
    struct stat host;
    int64_t when;
    if (!own || !may_remove(cache, above, own) || !is_empty(own))
        return false;
    enum fast_host_answer found = above->beneath ? fast_own_ask_host(cache, path, &host) : FAST_HOST_LACKS;
    if (found == FAST_HOST_UNSURE || (found == FAST_HOST_HAS && !S_ISDIR(host.st_mode)) ||
        !fast_lock_date(cache->layer->lock, &when))
        return false;
    if (!one && !(fresh = fast_own_new_name(path->name + path->cut, fast_own_name_size(path))))
        return false;
    own->removed = true;
    fast_cache_retire(cache, own->owner);
    if (one) {
        fast_own_lead(above, one, above->none, 0);
        one->child = 0;
    } else {
        fresh->entry = above->none;
        fast_own_add_name(cache, above, fresh);
    }
    fast_own_spoil(cache, above, true);
    struct fast_record record = {.deed = FAST_DIRECTORY_REMOVED, .owner = above->owner, .number = own->owner,
                                 .when_ns = when, .size = (uint32_t)fast_own_name_size(path),
                                 .new_size = found == FAST_HOST_HAS ? sizeof host : 0};
    fast_lock_record(cache->layer->lock, &record, path->name + path->cut, &host);
    return true;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

bool fast_own_date_directory(struct fast_cache *cache, const struct fast_resolved *path, const struct timespec when[2])
{
    struct fast_own *own = fast_cache_own(cache, fast_own_name_of(path)->child);
    int64_t times[2], now;
    if (!own || own->shown.st_uid != cache->uid || !fast_lock_date(cache->layer->lock, &now))
        return false;
    for (int i = 0; i < 2; i++)
        times[i] = when[i].tv_nsec == UTIME_NOW ? now : when[i].tv_nsec == UTIME_OMIT ? FAST_OMITTED
                                                                                      : core_nanoseconds(when[i]);
    fast_own_spoil(cache, own, false);
    struct fast_record record = {.deed = FAST_DIRECTORY_DATED, .owner = own->owner, .when_ns = now,
                                 .new_size = sizeof times};
    fast_lock_record(cache->layer->lock, &record, NULL, times);
    return true;
}
