/* native: directories that are the box's own, whose names C knows, and the files it makes there. */
#ifndef HUSK_OWN_DIRS_H
#define HUSK_OWN_DIRS_H

#include "fastpath/resolve.h"
#include "fastpath/vfs_lock.h"

/* own_dirs.c. All with the cache's lock held. */
void fast_own_init(struct fast_cache *cache);
void fast_own_free(struct fast_cache *cache);
void fast_own_forget(struct fast_cache *cache, uint64_t owner); /* with the write lock; 0: all of them */
/* The directory's metadata, or a name that it lacks, was taught: with the write lock. */
void fast_own_taught(struct fast_cache *cache, uint64_t owner);
/* What the directory has by this name: a file that C made, or nothing (`missing`). NULL: only Python knows. */
struct fast_dir *fast_own_name(struct fast_own *own, const char *name, size_t size);
/* May C make a file of that name there, and does Python leave it room? Or may it remove one? Then the vfs's lock is
 * C's, until fast_own_leave. */
bool fast_own_enter(struct fast_cache *cache, const struct fast_resolved *path, bool remove);
/* Make the real file; its descriptor, or -1. */
int fast_own_make(struct fast_cache *cache, const struct fast_resolved *path, int flags, uint32_t mode,
                  struct fast_showing *showing, struct stat *made, int64_t *born_ns);
/* Remove the real file and the name. False: nothing happened. */
bool fast_own_remove(struct fast_cache *cache, const struct fast_resolved *path);
void fast_own_leave(struct fast_cache *cache);
const char *fast_own_path(const struct fast_own *own); /* as the guest sees it, with a slash */

PyObject *fast_py_cache_own(Listener *self, PyObject *args);

#endif
