/* native: a call that changes names or metadata, judged and made without Python: what changes.c (files) and
 * change_dirs.c (directories) have in common. */
#ifndef HUSK_CHANGE_H
#define HUSK_CHANGE_H

#include "fastpath/change_notes.h"

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

/* change_dirs.c: false: nothing was changed, and Python decides. */
bool fast_change_mkdir(const struct fast_change *c, int dirfd, uint64_t name, uint32_t mode);
bool fast_change_rmdir(const struct fast_change *c, int dirfd, uint64_t name);

#endif
