/* native: a call that changes names or metadata, judged and made without Python: what changes.c (files) and
 * change_dirs.c (directories) have in common. */
#ifndef HUSK_CHANGE_H
#define HUSK_CHANGE_H

#include "layer/own_dirs.h"

/* change_notes.c: the record of what C has changed, for Python. */
/* Lock, and make sure that `size` bytes can be noted. */
bool fast_notes_begin(struct fast_changes *changes, size_t size);
void fast_notes_end(struct fast_changes *changes);
size_t fast_noted_size(const struct fast_resolved *path); /* of a note of one name, or of the second one */
/* A deed (see change_notes.c) and a name; 0: the second name of the last note. */
void fast_note(struct fast_changes *changes, char kind, const struct fast_resolved *path);
/* The umask of a thread; -1: it is gone. With the lock. */
int fast_notes_umask(struct fast_changes *changes, const struct fast_asker *asker);

/* A call that changes something, and what it gets. */
struct fast_change {
    struct fast_cache *cache;
    struct fast_changes *changes;
    const struct fast_asker *asker;
    struct fast_reply *reply; /* a value of 0 and no descriptor, unless a file is opened */
};

/* A name in a directory where the guest may make and remove names. */
struct fast_target {
    struct fast_resolved path;
    int fd;        /* of the directory … */
    bool opened;   /* … which fast_change_leave() closes */
    struct stat shown; /* the directory's attributes as the guest sees them */
};

/* changes.c: find the name. Where it lies in a directory of the box's own, `path->own` says so even if C does not know
 * what the name is. */
bool fast_change_find(const struct fast_change *c, int dirfd, uint64_t name, struct fast_resolved *path);
/* Likewise, for a name that comes or goes: in a directory of the host that the box has not changed so far, too. */
bool fast_change_find_anew(const struct fast_change *c, int dirfd, uint64_t name, struct fast_resolved *path);
/* With the name found, where the guest may do `want` in the host's directory (2 write, 1 search). */
bool fast_change_enter(struct fast_cache *cache, struct fast_target *place, unsigned want);
void fast_change_leave(const struct fast_target *place);
const char *fast_change_name(const struct fast_target *place); /* the last component */
/* May the guest take the name of what was found from its directory on the host? */
bool fast_change_may_take(struct fast_cache *cache, const struct fast_target *place, const struct stat *found);
/* Do it in a directory of the box's own, and note it as `kind`. False: nothing happened. */
bool fast_change_own(const struct fast_change *c, struct fast_resolved *path, enum fast_wish wish,
                     bool (*deed)(struct fast_cache *cache, struct fast_resolved *path), char kind);

/* change_dirs.c: false: nothing was changed, and Python decides. */
bool fast_change_mkdir(const struct fast_change *c, int dirfd, uint64_t name, uint32_t mode);
bool fast_change_rmdir(const struct fast_change *c, int dirfd, uint64_t name);

#endif
