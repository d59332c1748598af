/* native: directories that are made and removed without Python (docs/design/024-changes.md): in an `rw` mount here, in
 * a layer by own_subdirs.c.
 *
 * A directory that C makes on the host is known to C at once, with its parent's rules: none has named it. The guard
 * is told, too, because rules for projects except what the guest makes in directories of its own. One that C removes is
 * for Python like one that a host process removed. */
#include "fastpath/change.h"

#include "layer/own_dirs.h"
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- making ------------------------------------------------------------------------------------------------------ */

static bool make_own(const struct fast_change *c, const struct fast_resolved *path, uint32_t mode)
{
    bool done = false;
    if (!fast_own_enter(c->cache, path, FAST_MAKE))
        return false;
    if (fast_notes_begin(c->changes, fast_noted_size(path))) {
        int umask = fast_notes_umask(c->changes, c->asker);
        done = umask >= 0 && c->asker->waits(c->asker) &&
               fast_own_mkdir(c->cache, path, mode & ~(uint32_t)umask & 01777);
        if (done)
            fast_note(c->changes, 'A', path);
        fast_notes_end(c->changes);
    }
    fast_own_leave(c->cache);
    return done;
}

static int64_t nanoseconds(struct statx_timestamp t)
{
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Another process, or another thread of the guest's, may have put another directory there meanwhile. The new one was
 * born when it was changed last. */
static bool is_new(const struct fast_target *place, const struct statx *x)
{
    int64_t changed = nanoseconds(x->stx_ctime);
    return S_ISDIR(x->stx_mode) && makedev(x->stx_dev_major, x->stx_dev_minor) == place->path.dir->host_dev &&
           nanoseconds(x->stx_mtime) == changed &&
           (!(x->stx_mask & STATX_BTIME) || nanoseconds(x->stx_btime) == changed);
}

/* Its mode is the guest's, even if the one above has a default ACL, which no guest sees. */
static void set_mode(const struct fast_target *place, const struct statx *made, uint32_t mode)
{
    struct stat s;
    int fd = openat(place->fd, fast_change_name(place), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &s) == 0 && s.st_ino == made->stx_ino && s.st_dev == place->path.dir->host_dev)
        fchmod(fd, mode | (place->shown.st_mode & S_ISGID));
    close(fd);
}

/* What C and the guard know of it from now on. */
static void make_known(const struct fast_change *c, const struct fast_target *place, uint32_t mode)
{
    struct statx x;
    if (statx(place->fd, fast_change_name(place), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
              STATX_BASIC_STATS | STATX_BTIME, &x) < 0 || !is_new(place, &x))
        return;
    if ((x.stx_mode & 01777u) != mode)
        set_mode(place, &x, mode);
    const struct stat s = {.st_dev = place->path.dir->host_dev, .st_ino = x.stx_ino};
    host_made_directory(place->path.dir->root_fd, &s);
    fast_cache_publish_below(c->cache, &place->path, x.stx_ino);
}

static bool make_on_host(const struct fast_change *c, struct fast_target *place, uint32_t mode)
{
    bool done = false;
    if (!fast_notes_begin(c->changes, fast_noted_size(&place->path)))
        return false;
    int umask = fast_notes_umask(c->changes, c->asker);
    mode &= ~(uint32_t)umask & 01777;
    if (umask >= 0 && c->asker->waits(c->asker))
        done = mkdirat(place->fd, fast_change_name(place), mode) == 0;
    if (done)
        fast_note(c->changes, 'a', &place->path);
    fast_notes_end(c->changes);
    if (done)
        make_known(c, place, mode);
    return done;
}

bool fast_change_mkdir(const struct fast_change *c, int dirfd, uint64_t name, uint32_t mode)
{
    struct fast_target place;
    if (!fast_change_find_anew(c, dirfd, name, &place.path))
        return false;
    if (place.path.own)
        return make_own(c, &place.path, mode);
    if (!fast_change_enter(c->cache, &place, 3))
        return false;
    bool done = make_on_host(c, &place, mode);
    fast_change_leave(&place);
    return done;
}

/* ---- removing ---------------------------------------------------------------------------------------------------- */

static bool remove_on_host(const struct fast_change *c, struct fast_target *place)
{
    bool done = false;
    struct stat s;
    if (fstatat(place->fd, fast_change_name(place), &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
        S_ISDIR(s.st_mode) && fast_change_may_take(c->cache, place, &s) && c->asker->waits(c->asker) &&
        fast_notes_begin(c->changes, fast_noted_size(&place->path))) {
        done = unlinkat(place->fd, fast_change_name(place), AT_REMOVEDIR) == 0;
        if (done) {
            fast_note(c->changes, 'd', &place->path);
            host_removed_directory(place->path.dir->root_fd, &s);
        }
        fast_notes_end(c->changes);
    }
    return done;
}

bool fast_change_rmdir(const struct fast_change *c, int dirfd, uint64_t name)
{
    struct fast_target place;
    bool found = fast_change_find_anew(c, dirfd, name, &place.path);
    if (place.path.own)
        return !place.path.slash && fast_change_own(c, &place.path, FAST_REMOVE_DIRECTORY, fast_own_rmdir, 'D');
    if (!found || !fast_change_enter(c->cache, &place, 3))
        return false;
    bool done = remove_on_host(c, &place);
    fast_change_leave(&place);
    return done;
}
