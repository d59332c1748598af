/* native: directories that are the box's own, whose names C knows, and the files it makes there. */
#ifndef HUSK_OWN_DIRS_H
#define HUSK_OWN_DIRS_H

#include "fastpath/resolve.h"
#include "layer/vfs_lock.h"

/* own_dirs.c. All with the cache's lock held. */
void fast_own_init(struct fast_cache *cache);
void fast_own_free(struct fast_cache *cache);
void fast_own_forget(struct fast_cache *cache, uint64_t owner); /* with the write lock; 0: all of them */
/* The directory's metadata, or a name that it lacks, was taught: with the write lock. */
void fast_own_taught(struct fast_cache *cache, uint64_t owner);
/* What the directory has by this name: a file that C made, nothing (`missing`), or what the host has beneath it. NULL:
 * only Python knows. */
struct fast_dir *fast_own_name(struct fast_own *own, const char *name, size_t size);
bool fast_own_is_beneath(const struct fast_resolved *path); /* did the name lead to what the host has? */
/* May C do this to a file of that name, and does Python leave it room for the record? Then the vfs's lock is C's, until
 * fast_own_leave. */
enum fast_wish {
    FAST_MAKE, FAST_REMOVE, FAST_SET_MODE, FAST_TRUNCATE, FAST_REMOVE_DIRECTORY, FAST_DATE_DIRECTORY
};
bool fast_own_enter(struct fast_cache *cache, const struct fast_resolved *path, enum fast_wish wish);
/* And may the file `from` get the name `to`? `replaces`: another file has that name. */
bool fast_own_enter_both(struct fast_cache *cache, const struct fast_resolved *from, const struct fast_resolved *to,
                         bool *replaces);
void fast_own_leave(struct fast_cache *cache);
/* own_later.c: did the name lead to a directory where C has changed nothing so far, but may? Then it is to be resolved
 * again. */
bool fast_own_begin(struct fast_cache *cache, const struct fast_resolved *path);
void fast_own_free_later(struct fast_later *later);
PyObject *fast_py_cache_later(Listener *self, PyObject *args);
/* Make the real file; its descriptor, or -1. */
int fast_own_make(struct fast_cache *cache, const struct fast_resolved *path, int flags, uint32_t mode,
                  struct fast_showing *showing, struct stat *made, int64_t *born_ns);
/* Truncate the real file, and open it; its descriptor, or -1. */
int fast_own_truncate(struct fast_cache *cache, const struct fast_resolved *path, int flags);
/* Remove the real file and the name. False: nothing happened; so for the following. */
bool fast_own_remove(struct fast_cache *cache, struct fast_resolved *path);
bool fast_own_set_mode(struct fast_cache *cache, const struct fast_resolved *path, uint32_t mode);
bool fast_own_move(struct fast_cache *cache, const struct fast_resolved *from, const struct fast_resolved *to);
/* Without the vfs's lock: the times are the real file's. */
bool fast_own_set_times(struct fast_cache *cache, const struct fast_resolved *path, const struct timespec when[2]);
/* own_subdirs.c: the same for directories. Where one of that name is, C has to know it. */
bool fast_own_mkdir(struct fast_cache *cache, const struct fast_resolved *path, uint32_t mode);
bool fast_own_rmdir(struct fast_cache *cache, struct fast_resolved *path);
bool fast_own_date_directory(struct fast_cache *cache, const struct fast_resolved *path, const struct timespec when[2]);
/* Was what `path` found changed since? Then it must not be remembered of a file. */
bool fast_own_is_past(const struct fast_resolved *path);
const char *fast_own_path(const struct fast_own *own); /* as the guest sees it, with a slash */

PyObject *fast_py_cache_own(Listener *self, PyObject *args);

#endif
