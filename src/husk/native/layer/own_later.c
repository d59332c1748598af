/* native: directories of the host that show unchanged in a layer, until C makes or hides a name in them.
 *
 * While nothing is changed there, all that was taught of them holds (resolve.c). With the first change they become
 * directories like any that the box has changed (own_dirs.c). Python takes over what the host said of the directory at
 * that moment, before it looks at anything: so each record of a change finds a directory of the box. */
#include "layer/own_tables.h"

#include <stdlib.h>
#include <string.h>

void fast_own_free_later(struct fast_later *later)
{
    free(later);
}

/* What it is from now on. NULL: it is not plain any more, or there is no memory. */
static struct fast_own *begin(struct fast_cache *cache, struct fast_dir *dir, struct stat *host)
{
    const struct fast_later *later = dir->later;
    if (!fast_stat_dir(cache, dir, host) || host->st_dev != dir->host_dev)
        return NULL;
    struct stat shown = *host;
    fast_show(&dir->showing, &shown);
    struct fast_own *own = shown.st_mode & S_ISGID ? NULL : calloc(1, sizeof *own);
    if (!own)
        return NULL;
    *own = (struct fast_own){.owner = dir->owner, .files_fd = later->files_fd, .shown = shown, .dev = dir->showing.dev,
                             .uid = later->uid, .gid = later->gid, .removable = later->removable,
                             .path = strdup(later->path), .beneath = malloc(sizeof *dir + dir->rel_size + 1)};
    own->none = fast_own_new_entry(own, 0);
    if (!own->path || !own->beneath || !own->none) {
        fast_own_end(own);
        return NULL;
    }
    *own->beneath = (struct fast_dir){.owner = dir->owner, .host_dev = dir->host_dev, .root_fd = dir->root_fd,
                                      .showing = dir->showing, .layered = true, .rel_size = dir->rel_size};
    memcpy(own->beneath->text, dir->text + dir->key_size, dir->rel_size + 1);
    return own;
}

bool fast_own_begin(struct fast_cache *cache, const struct fast_resolved *path)
{
    struct fast_layer *layer = cache->layer;
    struct fast_dir *dir = path->dir;
    if (path->own || !dir->later || !fast_lock_try(layer->lock))
        return false;
    struct stat host;
    struct fast_own *own = fast_cache_own(cache, dir->owner);
    if (!own && fast_lock_records(layer->lock, 1, sizeof host) && (own = begin(cache, dir, &host))) {
        struct fast_record record = {.deed = FAST_DIRECTORY_BEGUN, .owner = dir->owner, .new_size = sizeof host};
        fast_own_add(layer, own);
        fast_lock_record(layer->lock, &record, NULL, &host);
    }
    if (own)
        fast_cache_begin_own(cache, dir->owner, own);
    fast_lock_give(layer->lock);
    return dir->own;
}

PyObject *fast_py_cache_later(Listener *self, PyObject *args)
{
    unsigned start, uid, gid;
    const char *key, *path;
    Py_ssize_t key_size;
    int files_fd, removable;
    VfsLock *lock;
    if (!PyArg_ParseTuple(args, "Iy#yiIIpO!:cache_later", &start, &key, &key_size, &path, &files_fd, &uid, &gid,
                          &removable, fast_lock_type, &lock))
        return NULL;
    struct fast_cache *cache = self->cache;
    size_t size = strlen(path);
    struct fast_later *later = cache && cache->layer && size < FAST_LONGEST_NAME ? malloc(sizeof *later + size + 1)
                                                                                 : NULL;
    if (!later)
        Py_RETURN_NONE;
    *later = (struct fast_later){files_fd, uid, gid, removable};
    memcpy(later->path, path, size + 1);
    if (!cache->layer->lock)
        cache->layer->lock = (VfsLock *)Py_NewRef((PyObject *)lock);
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    struct fast_dir *dir = fast_cache_find(cache, start, key, (size_t)key_size);
    if (dir && dir->layered && !dir->own && !dir->later && !dir->missing && !dir->absent && !dir->manifest &&
        dir->showing.manner == FAST_AS_HOST) {
        dir->later = later;
        later = NULL;
    }
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    free(later);
    Py_RETURN_NONE;
}
