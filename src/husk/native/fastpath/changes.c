/* native: changes of an `rw` mount that are made without Python (docs/design/024-changes.md).
 *
 * Python says for which directories: those of a host tree that husk changes with its own credentials, and where no rule
 * has named the directory or one above it. Here the common form alone is done: a new regular file, a regular file with
 * one name removed or renamed, its mode and times, by name, and by descriptor where the file was made here; the times
 * of a directory. To make and remove one: change_dirs.c. Everything is judged before the host is asked to change
 * something, and any doubt or error of the host leaves the call to Python, which then finds nothing changed. So what is
 * answered here are successes only. In a layer it is the same, but the changes are own_dirs.c's.
 *
 * The directory is held or opened beneath the mount's root, without links and by its guard, and has the identity that
 * was taught. The last component is used in that directory only, by calls that follow no link. What was changed is
 * written down for Python, in the order in which it happened. */
#include "fastpath/changes.h"

#include "call_table.h"
#include "fastpath/change.h"
#include "layer/own_dirs.h"
#include "host/host.h"
#include "notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

PyObject *fast_py_cache_changes(Listener *self, PyObject *args)
{
    unsigned start;
    const char *key, *guest;
    Py_ssize_t key_size;
    if (!PyArg_ParseTuple(args, "Iy#y:cache_changes", &start, &key, &key_size, &guest))
        return NULL;
    struct fast_cache *cache = self->cache;
    char *text = cache && strlen(guest) < FAST_LONGEST_NAME ? strdup(guest) : NULL;
    if (!text)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    struct fast_dir *dir = fast_cache_find(cache, start, key, key_size);
    if (dir && !dir->missing && !dir->absent && !dir->layered && dir->host_ino && dir->showing.manner == FAST_AS_HOST) {
        free(dir->changes);
        dir->changes = text;
        text = NULL;
    }
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    free(text);
    Py_RETURN_NONE;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */

void fast_change_leave(const struct fast_target *place)
{
    if (place->opened)
        close(place->fd);
}

bool fast_change_find(const struct fast_change *c, int dirfd, uint64_t name, struct fast_resolved *path)
{
    path->own = NULL;
    /* A watcher sees more of a change than the change itself: who opened what, and when it was closed. */
    return !c->cache->watched && fast_resolve(c->cache, c->asker, dirfd, name, path) && !path->slash;
}

bool fast_change_find_anew(const struct fast_change *c, int dirfd, uint64_t name, struct fast_resolved *path)
{
    bool found = fast_change_find(c, dirfd, name, path);
    return found && fast_own_begin(c->cache, path) ? fast_change_find(c, dirfd, name, path) : found;
}

bool fast_change_enter(struct fast_cache *cache, struct fast_target *place, unsigned want)
{
    struct fast_resolved *path = &place->path;
    place->opened = false;
    if (!path->dir->changes || path->dir->key_size != path->cut ||
        !host_may_change(path->dir->root_fd, path->host, NULL))
        return false;
    place->fd = path->held;
    if (place->fd < 0) {
        const char *rel = path->dir->text + path->dir->key_size;
        place->fd = host_open_beneath(path->dir->root_fd, *rel ? rel : ".", O_PATH | O_DIRECTORY, 0);
        place->opened = place->fd >= 0;
    }
    struct stat *shown = &place->shown;
    if (place->fd < 0)
        return false;
    if (fstat(place->fd, shown) == 0 && shown->st_dev == path->dir->host_dev && shown->st_ino == path->dir->host_ino) {
        fast_show(&path->dir->showing, shown);
        if (fast_permits(cache, shown, want))
            return true;
    }
    fast_change_leave(place);
    return false;
}

bool fast_change_own(const struct fast_change *c, struct fast_resolved *path, enum fast_wish wish,
                     bool (*deed)(struct fast_cache *cache, struct fast_resolved *path), char kind)
{
    bool done = false;
    if (!fast_own_enter(c->cache, path, wish))
        return false;
    if (fast_notes_begin(c->changes, fast_noted_size(path))) {
        done = c->asker->waits(c->asker) && deed(c->cache, path);
        if (done)
            fast_note(c->changes, kind, path);
        fast_notes_end(c->changes);
    }
    fast_own_leave(c->cache);
    return done;
}

bool fast_change_may_take(struct fast_cache *cache, const struct fast_target *place, const struct stat *found)
{
    const struct fast_dir *dir = place->path.dir;
    struct stat shown = *found;
    fast_show(&dir->showing, &shown);
    return found->st_dev == dir->host_dev &&
           (!(place->shown.st_mode & S_ISVTX) || shown.st_uid == cache->uid || place->shown.st_uid == cache->uid) &&
           host_may_change(dir->root_fd, place->path.host, found);
}

/* Is this a regular file with one name that the guest may remove from its directory, whatever is done with it then? */
static bool may_take(struct fast_cache *cache, const struct fast_target *place, const struct stat *found)
{
    return S_ISREG(found->st_mode) && found->st_nlink == 1 && fast_change_may_take(cache, place, found);
}

const char *fast_change_name(const struct fast_target *place)
{
    return place->path.name + place->path.cut;
}

/* ---- new files --------------------------------------------------------------------------------------------------- */

/* When the file was made; 0: the file system does not know. And, in one call, what else is asked for here. */
static int64_t born(int fd, struct stat *s)
{
    struct statx x;
    *s = (struct stat){0};
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
        return 0;
    *s = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor), .st_ino = x.stx_ino, .st_mode = x.stx_mode,
                       .st_nlink = x.stx_nlink, .st_uid = x.stx_uid};
    return x.stx_mask & STATX_BTIME ? x.stx_btime.tv_sec * 1000000000LL + x.stx_btime.tv_nsec : 0;
}

/* Make the file that is not there yet, and leave in `mode` what the umask left of it. -1: nothing was made. */
static int make_file(const struct fast_change *c, const struct fast_target *place, uint32_t flags,
                     uint32_t *mode)
{
    struct fast_changes *changes = c->changes;
    if (!fast_notes_begin(changes, fast_noted_size(&place->path)))
        return -1;
    int umask = fast_notes_umask(changes, c->asker), fd = -1;
    *mode &= ~(uint32_t)umask & 01777; /* no set-uid files on the host */
    /* Linux looks for a free descriptor first: without one nothing is made. */
    if (umask >= 0 && guest_has_free_fd(c->asker->tid) && c->asker->waits(c->asker))
        fd = openat(place->fd, fast_change_name(place),
                    (int)(flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOFOLLOW)) | O_CREAT | O_EXCL | O_NOCTTY |
                        O_CLOEXEC, *mode);
    if (fd >= 0)
        fast_note(changes, 'a', &place->path);
    fast_notes_end(changes);
    return fd;
}

/* Make it in a directory of the box's own. -1: nothing was made. */
static int make_own(const struct fast_change *c, const struct fast_resolved *path, uint32_t flags,
                    uint32_t mode)
{
    struct fast_cache *cache = c->cache;
    struct fast_changes *changes = c->changes;
    struct fast_showing showing;
    struct stat s;
    int64_t when = 0;
    int fd = -1;
    /* A set-uid file is Python's, which notices when it is written to. Linux looks for a free descriptor first. */
    if (mode & 06000 || !guest_has_free_fd(c->asker->tid) || !fast_own_enter(cache, path, FAST_MAKE))
        return -1;
    if (fast_notes_begin(changes, fast_noted_size(path))) {
        int umask = fast_notes_umask(changes, c->asker);
        if (umask >= 0 && c->asker->waits(c->asker))
            fd = fast_own_make(cache, path, (int)(flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOFOLLOW)),
                               mode & ~(uint32_t)umask & 01777, &showing, &s, &when);
        if (fd >= 0)
            fast_note(changes, 'A', path);
        fast_notes_end(changes);
    }
    if (fd >= 0 && when)
        fast_cache_remember_made(cache, &showing, &s, when); /* before another thread may remove it */
    fast_own_leave(cache);
    return fd;
}

/* Truncate one that is there, for writing. -1: nothing happened. */
static int truncate_own(const struct fast_change *c, const struct fast_resolved *path,
                        uint32_t flags)
{
    struct fast_cache *cache = c->cache;
    struct fast_changes *changes = c->changes;
    int fd = -1;
    if (flags & O_EXCL || !(flags & O_TRUNC) || !(flags & O_ACCMODE) || !guest_has_free_fd(c->asker->tid) ||
        !fast_own_enter(cache, path, FAST_TRUNCATE))
        return -1;
    if (fast_notes_begin(changes, fast_noted_size(path))) {
        if (c->asker->waits(c->asker))
            fd = fast_own_truncate(cache, path, (int)(flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOFOLLOW)));
        if (fd >= 0)
            fast_note(changes, 'C', path);
        fast_notes_end(changes);
    }
    fast_own_leave(cache);
    return fd;
}

static bool create_own(const struct fast_change *c, const struct fast_resolved *path,
                       uint32_t flags, uint32_t mode)
{
    bool perhaps_new = path->dir->missing || fast_own_is_beneath(path);
    int fd = perhaps_new ? make_own(c, path, flags, mode) : truncate_own(c, path, flags);
    c->reply->fd = fd;
    return fd >= 0;
}

static bool create(const struct fast_change *c, int dirfd,
                   uint64_t name, uint32_t flags, uint32_t mode)
{
    struct fast_target place;
    struct stat s;
    const uint32_t known = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | O_APPEND |
                           O_NOFOLLOW | 0100000 /* O_LARGEFILE */;
    if (!(flags & O_CREAT) || flags & ~known || (flags & O_ACCMODE) == O_ACCMODE ||
        !fast_change_find_anew(c, dirfd, name, &place.path))
        return false;
    if (place.path.own)
        return create_own(c, &place.path, flags, mode);
    if (!fast_change_enter(c->cache, &place, 3))
        return false;
    int fd = make_file(c, &place, flags, &mode);
    if (fd < 0) {
        fast_change_leave(&place);
        return false;
    }
    int64_t when = born(fd, &s);
    if ((s.st_mode & 07777) != mode)
        fchmod(fd, mode); /* the directory has a default ACL */
    if (when && s.st_ino < 1ULL << 32)
        fast_cache_remember_made(c->cache, &place.path.dir->showing, &s, when);
    c->reply->fd = fd;
    fast_change_leave(&place);
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool unlink_file(const struct fast_change *c, int dirfd, uint64_t name)
{
    struct fast_target place;
    struct stat s;
    bool done = false, found = fast_change_find_anew(c, dirfd, name, &place.path);
    if (place.path.own) /* even where C does not know what the name is */
        return !place.path.slash && fast_change_own(c, &place.path, FAST_REMOVE, fast_own_remove, 'D');
    if (!found || !fast_change_enter(c->cache, &place, 3))
        return false;
    if (fstatat(place.fd, fast_change_name(&place), &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
        may_take(c->cache, &place, &s) && c->asker->waits(c->asker) &&
        fast_notes_begin(c->changes, fast_noted_size(&place.path))) {
        done = unlinkat(place.fd, fast_change_name(&place), 0) == 0;
        if (done)
            fast_note(c->changes, 'd', &place.path);
        fast_notes_end(c->changes);
    }
    fast_change_leave(&place);
    return done;
}

/* A file gets a name that is free, or that of another file, in directories of one mount. */
static bool move(const struct fast_change *c, const struct fast_target *from, const struct fast_target *to,
                 bool may_replace)
{
    struct stat s, other;
    if (from->path.dir->root_fd != to->path.dir->root_fd ||
        fstatat(from->fd, fast_change_name(from), &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
        !may_take(c->cache, from, &s))
        return false;
    bool replaces = fstatat(to->fd, fast_change_name(to), &other, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0;
    if (replaces ? !may_replace || !may_take(c->cache, to, &other) || (other.st_ino == s.st_ino) : errno != ENOENT)
        return false;
    if (!c->asker->waits(c->asker) ||
        !fast_notes_begin(c->changes, fast_noted_size(&from->path) + fast_noted_size(&to->path)))
        return false;
    /* What is free stays free until then, or Python looks again. */
    bool done = syscall(SYS_renameat2, from->fd, fast_change_name(from), to->fd, fast_change_name(to),
                        replaces ? 0 : RENAME_NOREPLACE) == 0;
    if (done) {
        fast_note(c->changes, replaces ? 'R' : 'r', &from->path);
        fast_note(c->changes, 0, &to->path);
    }
    fast_notes_end(c->changes);
    return done;
}

static bool move_on_host(const struct fast_change *c, struct fast_target *from, struct fast_target *to,
                         bool may_replace)
{
    bool done = false;
    if (!fast_change_enter(c->cache, from, 3))
        return false;
    if (fast_change_enter(c->cache, to, 3)) {
        done = move(c, from, to, may_replace);
        fast_change_leave(to);
    }
    fast_change_leave(from);
    return done;
}

/* In directories of the box's own. */
static bool move_own(const struct fast_change *c, const struct fast_resolved *from,
                     const struct fast_resolved *to, bool may_replace)
{
    struct fast_changes *changes = c->changes;
    bool replaces, done = false;
    if (!fast_own_enter_both(c->cache, from, to, &replaces))
        return false;
    if ((may_replace || !replaces) && fast_notes_begin(changes, fast_noted_size(from) + fast_noted_size(to))) {
        done = c->asker->waits(c->asker) && fast_own_move(c->cache, from, to);
        if (done) {
            fast_note(changes, replaces ? 'N' : 'n', from);
            fast_note(changes, 0, to);
        }
        fast_notes_end(changes);
    }
    fast_own_leave(c->cache);
    return done;
}

static bool rename_file(const struct fast_change *c,
                        int old_dirfd, uint64_t old, int new_dirfd, uint64_t new, uint32_t flags)
{
    struct fast_target from, to;
    bool done, may_replace = !flags;
    if (flags & ~(uint32_t)RENAME_NOREPLACE || !fast_change_find(c, old_dirfd, old, &from.path) ||
        !fast_change_find(c, new_dirfd, new, &to.path))
        return false;
    if (from.path.own || to.path.own)
        done = from.path.own && to.path.own && move_own(c, &from.path, &to.path, may_replace);
    else
        done = move_on_host(c, &from, &to, may_replace);
    return done;
}

/* ---- mode and times ---------------------------------------------------------------------------------------------- */

static bool set_mode(int fd, uint32_t mode)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return chmod(link, mode & 01777) == 0; /* no set-uid files on the host */
}

static bool set_times(int fd, const struct timespec when[2])
{
    char link[40];
    if (utimensat(fd, "", when, AT_EMPTY_PATH) == 0)
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* before Linux 5.8 */
    return errno == EINVAL && utimensat(AT_FDCWD, link, when, 0) == 0;
}

PyObject *fast_py_cache_made(Listener *self, PyObject *args)
{
    int fd;
    PyObject *shown;
    struct fast_showing showing;
    struct stat s;
    if (!PyArg_ParseTuple(args, "iO:cache_made", &fd, &shown) || !fast_parse_showing(shown, &showing))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache)
        Py_RETURN_NONE;
    int64_t when = born(fd, &s);
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    fast_cache_remember_made(cache, &showing, &s, when);
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* The file behind a guest's descriptor, if it was made in this run, here or by Python, and is the guest's. In a layer
 * the real file has the times, and Python the rest: `times_only`. The caller closes it. -1: Python knows. */
static int made_here(const struct fast_change *c, int guest_fd, bool times_only)
{
    struct fast_cache *cache = c->cache;
    char link[FAST_LONGEST_LINK];
    struct stat s;
    if (cache->watched || guest_fd < 0)
        return -1;
    fast_task_link(link, c->asker, "fd", guest_fd);
    int fd = open(link, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int64_t when = born(fd, &s);
    const struct fast_file *known = when && S_ISREG(s.st_mode) ? fast_cache_find_file(cache, &s) : NULL;
    if (known && known->born_ns == when && s.st_nlink == 1 &&
        (known->showing.manner == FAST_AS_HOST ? s.st_uid == cache->host_uid
                                               : times_only && known->showing.given.st_uid == cache->uid))
        return fd;
    close(fd);
    return -1;
}

static bool is_time(const struct timespec *t)
{
    return t->tv_nsec == UTIME_NOW || t->tv_nsec == UTIME_OMIT ||
           (t->tv_nsec >= 0 && t->tv_nsec < 1000000000 && t->tv_sec >= 0 && t->tv_sec < 1LL << 31);
}

static bool read_times(const struct fast_asker *asker, uint64_t times, struct timespec when[2])
{
    when[0] = when[1] = (struct timespec){.tv_nsec = UTIME_NOW};
    if (times && asker->times)
        memcpy(when, asker->times, 2 * sizeof *when);
    else if (times && guest_read(asker->tid, times, when, 2 * sizeof *when) != 2 * sizeof *when)
        return false;
    return is_time(&when[0]) && is_time(&when[1]) &&
           !(when[0].tv_nsec == UTIME_OMIT && when[1].tv_nsec == UTIME_OMIT);
}

static bool set_held_times(const struct fast_change *c, int guest_fd, uint64_t times)
{
    struct timespec when[2];
    int fd = read_times(c->asker, times, when) ? made_here(c, guest_fd, true) : -1;
    if (fd < 0)
        return false;
    bool done = c->asker->waits(c->asker) && set_times(fd, when);
    close(fd);
    return done;
}

static bool set_held_mode(const struct fast_change *c, int guest_fd, uint32_t mode)
{
    int fd = made_here(c, guest_fd, false);
    if (fd < 0)
        return false;
    bool done = c->asker->waits(c->asker) && set_mode(fd, mode);
    close(fd);
    return done;
}

/* By name: the guest's own regular file, which has one name, in a directory of the host; or a directory of its own. The
 * caller closes it. */
static int open_own(struct fast_cache *cache, const struct fast_target *place, bool or_directory)
{
    const struct fast_dir *dir = place->path.dir;
    struct stat s;
    int fd = openat(place->fd, fast_change_name(place), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &s) == 0 &&
        ((S_ISREG(s.st_mode) && s.st_nlink == 1) || (or_directory && S_ISDIR(s.st_mode))) &&
        s.st_dev == dir->host_dev && s.st_uid == cache->host_uid &&
        host_may_change(dir->root_fd, place->path.host, &s)) {
        fast_show(&dir->showing, &s);
        if (s.st_uid == cache->uid)
            return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* What a name is given: times, or where those are NULL a mode. */
static bool set_on_host(const struct fast_change *c, struct fast_target *place,
                        const struct timespec *when, uint32_t mode)
{
    bool done = false;
    if (!fast_change_enter(c->cache, place, 1))
        return false;
    int fd = open_own(c->cache, place, when != NULL);
    if (fd >= 0 && c->asker->waits(c->asker) && fast_notes_begin(c->changes, fast_noted_size(&place->path))) {
        done = when ? set_times(fd, when) : set_mode(fd, mode);
        if (done)
            fast_note(c->changes, 'm', &place->path);
        fast_notes_end(c->changes);
    }
    if (fd >= 0)
        close(fd);
    fast_change_leave(place);
    return done;
}

static bool set_in_layer(const struct fast_change *c, const struct fast_resolved *path,
                         const struct timespec *when, uint32_t mode)
{
    struct fast_changes *changes = c->changes;
    bool done = false;
    /* A set-uid file is Python's, which notices when it is written to, and one that may be running. */
    if (when ? fast_own_is_past(path)
             : mode & 06000 || (path->dir->showing.given.st_mode & 0111 && !(mode & 0111)) ||
                   !fast_own_enter(c->cache, path, FAST_SET_MODE))
        return false;
    if (fast_notes_begin(changes, fast_noted_size(path))) {
        done = c->asker->waits(c->asker) && (when ? fast_own_set_times(c->cache, path, when)
                                                             : fast_own_set_mode(c->cache, path, mode & 01777));
        if (done)
            fast_note(changes, 'M', path);
        fast_notes_end(changes);
    }
    if (!when)
        fast_own_leave(c->cache);
    return done;
}

/* Of a directory in one of the box's own. */
static bool date_own_directory(const struct fast_change *c, const struct fast_resolved *path,
                               const struct timespec *when)
{
    bool done = false;
    if (!fast_own_enter(c->cache, path, FAST_DATE_DIRECTORY))
        return false;
    if (fast_notes_begin(c->changes, fast_noted_size(path))) {
        done = c->asker->waits(c->asker) && fast_own_date_directory(c->cache, path, when);
        if (done)
            fast_note(c->changes, 'M', path);
        fast_notes_end(c->changes);
    }
    fast_own_leave(c->cache);
    return done;
}

static bool set_named(const struct fast_change *c, int dirfd,
                      uint64_t name, uint32_t flags, const struct timespec *when, uint32_t mode)
{
    struct fast_target place;
    if (flags & ~(uint32_t)AT_SYMLINK_NOFOLLOW)
        return false;
    bool found = fast_change_find(c, dirfd, name, &place.path);
    if (place.path.own && !place.path.slash && when && (!found || fast_own_is_beneath(&place.path)))
        return date_own_directory(c, &place.path, when);
    return found && (place.path.own ? set_in_layer(c, &place.path, when, mode)
                                    : set_on_host(c, &place, when, mode));
}

static bool set_named_times(const struct fast_change *c, const uint64_t *a)
{
    struct timespec when[2];
    return read_times(c->asker, a[ARG_utimensat_utimes], when) &&
           set_named(c, (int)a[ARG_utimensat_dfd], a[ARG_utimensat_filename], (uint32_t)a[ARG_utimensat_flags], when,
                     0);
}

bool fast_change(Listener *self, const struct fast_asker *asker, int nr, const uint64_t *a, struct fast_reply *reply)
{
    const struct fast_change change = {self->cache, self->changes, asker, reply}, *c = &change;
    reply->value = 0;
    reply->size = 0;
    reply->fd = -1;
    switch (nr) {
    case SYS_open:
        return create(c, AT_FDCWD, a[ARG_open_filename], (uint32_t)a[ARG_open_flags],
                      (uint32_t)a[ARG_open_mode]);
    case SYS_openat:
        return create(c, (int)a[ARG_openat_dfd], a[ARG_openat_filename], (uint32_t)a[ARG_openat_flags],
                      (uint32_t)a[ARG_openat_mode]);
    case SYS_creat:
        return create(c, AT_FDCWD, a[ARG_creat_pathname], O_WRONLY | O_CREAT | O_TRUNC,
                      (uint32_t)a[ARG_creat_mode]);
    case SYS_mkdir:
        return fast_change_mkdir(c, AT_FDCWD, a[ARG_mkdir_pathname], (uint32_t)a[ARG_mkdir_mode]);
    case SYS_mkdirat:
        return fast_change_mkdir(c, (int)a[ARG_mkdirat_dfd], a[ARG_mkdirat_pathname], (uint32_t)a[ARG_mkdirat_mode]);
    case SYS_rmdir:
        return fast_change_rmdir(c, AT_FDCWD, a[ARG_rmdir_pathname]);
    case SYS_unlink:
        return unlink_file(c, AT_FDCWD, a[ARG_unlink_pathname]);
    case SYS_unlinkat:
        if ((uint32_t)a[ARG_unlinkat_flag] == AT_REMOVEDIR)
            return fast_change_rmdir(c, (int)a[ARG_unlinkat_dfd], a[ARG_unlinkat_pathname]);
        return !(uint32_t)a[ARG_unlinkat_flag] &&
               unlink_file(c, (int)a[ARG_unlinkat_dfd], a[ARG_unlinkat_pathname]);
    case SYS_rename:
        return rename_file(c, AT_FDCWD, a[ARG_rename_oldname], AT_FDCWD, a[ARG_rename_newname], 0);
    case SYS_renameat:
        return rename_file(c, (int)a[ARG_renameat_olddfd], a[ARG_renameat_oldname],
                           (int)a[ARG_renameat_newdfd], a[ARG_renameat_newname], 0);
    case SYS_renameat2:
        return rename_file(c, (int)a[ARG_renameat2_olddfd], a[ARG_renameat2_oldname],
                           (int)a[ARG_renameat2_newdfd], a[ARG_renameat2_newname], (uint32_t)a[ARG_renameat2_flags]);
    case SYS_utimensat:
        if (a[ARG_utimensat_filename])
            return set_named_times(c, a);
        return !(uint32_t)a[ARG_utimensat_flags] &&
               set_held_times(c, (int)a[ARG_utimensat_dfd], a[ARG_utimensat_utimes]);
    case SYS_fchmod:
        return set_held_mode(c, (int)a[ARG_fchmod_fd], (uint32_t)a[ARG_fchmod_mode]);
    case SYS_chmod:
        return set_named(c, AT_FDCWD, a[ARG_chmod_filename], 0, NULL, (uint32_t)a[ARG_chmod_mode]);
    case SYS_fchmodat:
        return set_named(c, (int)a[ARG_fchmodat_dfd], a[ARG_fchmodat_filename], 0, NULL,
                         (uint32_t)a[ARG_fchmodat_mode]);
    default:
        return false;
    }
}
