/* native: changes of an `rw` mount that are made without Python (docs/design/024-changes.md).
 *
 * Python says for which directories: those of a host tree that husk changes with its own credentials, and where no rule
 * has named the directory or one above it. Here the common form alone is done: a new regular file, a regular file with
 * one name removed or renamed, its mode and times, by name, and by descriptor where the file was made here. Everything
 * is judged before the host is asked to change something, and any doubt or error of the host leaves the call to Python,
 * which then finds nothing changed. So what is answered here are successes only. In a layer it is the same, but the
 * changes are own_dirs.c's.
 *
 * The directory is held or opened beneath the mount's root, without links and by its guard, and has the identity that
 * was taught. The last component is used in that directory only, by calls that follow no link. What was changed is
 * written down for Python, in the order in which it happened. */
#include "fastpath/changes.h"

#include "call_table.h"
#include "fastpath/own_dirs.h"
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

#define MOST_NOTED (256 << 10) /* bytes; then Python makes a change, and reads them all */

/* ---- what was changed -------------------------------------------------------------------------------------------- */

/* Records: a letter, and one name, or two, each with its NUL. On the host: a added, d deleted, m other metadata, r
 * renamed, R renamed over another file. In a layer: A, D, M, n and N. The lock is held while a change is made, so the
 * records have their order. */
struct fast_changes {
    pthread_mutex_t lock;
    atomic_size_t size;
    char *text;   /* owned; NULL: nothing was ever noted */
    pid_t asked;  /* the thread whose status file is open, … */
    int status;   /* … owned; -1: none */
};

struct fast_changes *fast_changes_new(void)
{
    struct fast_changes *changes = calloc(1, sizeof *changes);
    if (changes) {
        pthread_mutex_init(&changes->lock, NULL);
        changes->status = -1;
    }
    return changes;
}

void fast_changes_free(struct fast_changes *changes)
{
    if (!changes)
        return;
    pthread_mutex_destroy(&changes->lock);
    if (changes->status >= 0)
        close(changes->status);
    free(changes->text);
    free(changes);
}

/* Lock, and make sure that `size` bytes can be noted. */
static bool begin(struct fast_changes *changes, size_t size)
{
    if (!changes || pthread_mutex_trylock(&changes->lock))
        return false;
    if (!changes->text)
        changes->text = malloc(MOST_NOTED);
    if (changes->text && changes->size + size <= MOST_NOTED)
        return true;
    pthread_mutex_unlock(&changes->lock);
    return false;
}

/* The umask of a thread; -1: it is gone. With the lock. One program makes many files, so its status file stays open:
 * that takes two fifths off the price. The open file is that thread's for good. Once it is gone the file says so, even
 * if its number is used again. */
static int umask_of(struct fast_changes *changes, const struct fast_asker *asker)
{
    char path[FAST_LONGEST_LINK];
    if (asker->umask)
        return asker->umask - 1;
    int found = changes->asked == asker->tid ? guest_umask_from(changes->status) : -1;
    if (found >= 0)
        return found;
    if (changes->status >= 0)
        close(changes->status);
    fast_task_link(path, asker, "status", -1);
    changes->status = open(path, O_RDONLY | O_CLOEXEC);
    changes->asked = asker->tid;
    return guest_umask_from(changes->status);
}

static void note(struct fast_changes *changes, const char *text, size_t size)
{
    memcpy(changes->text + changes->size, text, size);
    changes->size += size;
}

static void note_name(struct fast_changes *changes, const struct fast_resolved *path)
{
    note(changes, path->dir->changes, strlen(path->dir->changes));
    note(changes, path->name + path->cut, path->size - path->cut + 1);
}

static void note_own_name(struct fast_changes *changes, const struct fast_resolved *path)
{
    const char *above = fast_own_path(path->own);
    note(changes, above, strlen(above));
    note(changes, path->name + path->cut, path->size - path->cut + 1);
}

static size_t noted_size(const struct fast_resolved *path)
{
    return strlen(path->own ? fast_own_path(path->own) : path->dir->changes) + path->size - path->cut + 1;
}

PyObject *fast_py_take_changes(Listener *self, PyObject *Py_UNUSED(noargs))
{
    struct fast_changes *changes = self->changes;
    if (!changes || !atomic_load(&changes->size))
        return PyTuple_New(0);
    char *text = malloc(MOST_NOTED);
    size_t size = 0;
    if (!text)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&changes->lock);
    size = changes->size;
    memcpy(text, changes->text, size);
    changes->size = 0;
    pthread_mutex_unlock(&changes->lock);
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at < size;) {
        char kind[2] = {text[at++]};
        const char *one = text + at, *other = "";
        at += strlen(one) + 1;
        if (strchr("rRnN", kind[0])) {
            other = text + at;
            at += strlen(other) + 1;
        }
        PyObject *record = Py_BuildValue("syy", kind, one, other);
        if (!record || PyList_Append(list, record) < 0)
            Py_CLEAR(list);
        Py_XDECREF(record);
    }
    free(text);
    return list;
}

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

/* A call that changes something, and what it gets. */
struct change {
    struct fast_cache *cache;
    struct fast_changes *changes;
    const struct fast_asker *asker;
    struct fast_reply *reply; /* a value of 0 and no descriptor, unless a file is opened */
};

/* A name in a directory where the guest may make and remove names. */
struct place {
    struct fast_resolved path;
    int fd;        /* of the directory … */
    bool opened;   /* … which leave() closes */
    struct stat shown; /* the directory's attributes as the guest sees them */
};

static void leave(struct place *place)
{
    if (place->opened)
        close(place->fd);
}

static bool find(const struct change *c, int dirfd, uint64_t name, struct fast_resolved *path)
{
    path->own = NULL;
    /* A watcher sees more of a change than the change itself: who opened what, and when it was closed. */
    return !c->cache->watched && fast_resolve(c->cache, c->asker, dirfd, name, path) && !path->slash;
}

/* With the name found, where the guest may do `want` in the directory (2 write, 1 search). */
static bool enter_host(struct fast_cache *cache, struct place *place, unsigned want)
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
    leave(place);
    return false;
}

/* Is this a regular file with one name that the guest may remove from its directory, whatever is done with it then? */
static bool may_take(struct fast_cache *cache, const struct place *place, const struct stat *found)
{
    const struct fast_dir *dir = place->path.dir;
    struct stat shown = *found;
    fast_show(&dir->showing, &shown);
    return S_ISREG(found->st_mode) && found->st_nlink == 1 && found->st_dev == dir->host_dev &&
           (!(place->shown.st_mode & S_ISVTX) || shown.st_uid == cache->uid || place->shown.st_uid == cache->uid) &&
           host_may_change(dir->root_fd, place->path.host, found);
}

static const char *last_of(const struct place *place)
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
static int make_file(const struct change *c, const struct place *place, uint32_t flags,
                     uint32_t *mode)
{
    struct fast_changes *changes = c->changes;
    if (!begin(changes, 1 + noted_size(&place->path)))
        return -1;
    int umask = umask_of(changes, c->asker), fd = -1;
    *mode &= ~(uint32_t)umask & 01777; /* no set-uid files on the host */
    /* Linux looks for a free descriptor first: without one nothing is made. */
    if (umask >= 0 && guest_has_free_fd(c->asker->tid) && c->asker->waits(c->asker))
        fd = openat(place->fd, last_of(place),
                    (int)(flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOFOLLOW)) | O_CREAT | O_EXCL | O_NOCTTY |
                        O_CLOEXEC, *mode);
    if (fd >= 0) {
        note(changes, "a", 1);
        note_name(changes, &place->path);
    }
    pthread_mutex_unlock(&changes->lock);
    return fd;
}

/* Make it in a directory of the box's own. -1: nothing was made. */
static int make_own(const struct change *c, const struct fast_resolved *path, uint32_t flags,
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
    if (begin(changes, 1 + noted_size(path))) {
        int umask = umask_of(changes, c->asker);
        if (umask >= 0 && c->asker->waits(c->asker))
            fd = fast_own_make(cache, path, (int)(flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOFOLLOW)),
                               mode & ~(uint32_t)umask & 01777, &showing, &s, &when);
        if (fd >= 0) {
            note(changes, "A", 1);
            note_own_name(changes, path);
        }
        pthread_mutex_unlock(&changes->lock);
    }
    if (fd >= 0 && when)
        fast_cache_remember_made(cache, &showing, &s, when); /* before another thread may remove it */
    fast_own_leave(cache);
    return fd;
}

/* Truncate one that is there, for writing. -1: nothing happened. */
static int truncate_own(const struct change *c, const struct fast_resolved *path,
                        uint32_t flags)
{
    struct fast_cache *cache = c->cache;
    struct fast_changes *changes = c->changes;
    int fd = -1;
    if (flags & O_EXCL || !(flags & O_TRUNC) || !(flags & O_ACCMODE) || !guest_has_free_fd(c->asker->tid) ||
        !fast_own_enter(cache, path, FAST_TRUNCATE))
        return -1;
    if (begin(changes, 1 + noted_size(path))) {
        if (c->asker->waits(c->asker))
            fd = fast_own_truncate(cache, path, (int)(flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_NOFOLLOW)));
        if (fd >= 0) {
            note(changes, "C", 1);
            note_own_name(changes, path);
        }
        pthread_mutex_unlock(&changes->lock);
    }
    fast_own_leave(cache);
    return fd;
}

static bool create_own(const struct change *c, const struct fast_resolved *path,
                       uint32_t flags, uint32_t mode)
{
    bool perhaps_new = path->dir->missing || fast_own_is_beneath(path);
    int fd = perhaps_new ? make_own(c, path, flags, mode) : truncate_own(c, path, flags);
    c->reply->fd = fd;
    return fd >= 0;
}

static bool create(const struct change *c, int dirfd,
                   uint64_t name, uint32_t flags, uint32_t mode)
{
    struct place place;
    struct stat s;
    const uint32_t known = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | O_APPEND |
                           O_NOFOLLOW | 0100000 /* O_LARGEFILE */;
    if (!(flags & O_CREAT) || flags & ~known || (flags & O_ACCMODE) == O_ACCMODE ||
        !find(c, dirfd, name, &place.path))
        return false;
    if (place.path.own)
        return create_own(c, &place.path, flags, mode);
    if (!enter_host(c->cache, &place, 3))
        return false;
    int fd = make_file(c, &place, flags, &mode);
    if (fd < 0) {
        leave(&place);
        return false;
    }
    int64_t when = born(fd, &s);
    if ((s.st_mode & 07777) != mode)
        fchmod(fd, mode); /* the directory has a default ACL */
    if (when && s.st_ino < 1ULL << 32)
        fast_cache_remember_made(c->cache, &place.path.dir->showing, &s, when);
    c->reply->fd = fd;
    leave(&place);
    return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool unlink_own(const struct change *c, const struct fast_resolved *path)
{
    struct fast_changes *changes = c->changes;
    bool done = false;
    if (!fast_own_enter(c->cache, path, FAST_REMOVE))
        return false;
    if (begin(changes, 1 + noted_size(path))) {
        done = c->asker->waits(c->asker) && fast_own_remove(c->cache, path);
        if (done) {
            note(changes, "D", 1);
            note_own_name(changes, path);
        }
        pthread_mutex_unlock(&changes->lock);
    }
    fast_own_leave(c->cache);
    return done;
}

static bool unlink_file(const struct change *c, int dirfd, uint64_t name)
{
    struct place place;
    struct stat s;
    bool done = false, found = find(c, dirfd, name, &place.path);
    if (place.path.own) /* even where C does not know what the name is */
        return !place.path.slash && unlink_own(c, &place.path);
    if (!found || !enter_host(c->cache, &place, 3))
        return false;
    if (fstatat(place.fd, last_of(&place), &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 &&
        may_take(c->cache, &place, &s) && c->asker->waits(c->asker) &&
        begin(c->changes, 1 + noted_size(&place.path))) {
        done = unlinkat(place.fd, last_of(&place), 0) == 0;
        if (done) {
            note(c->changes, "d", 1);
            note_name(c->changes, &place.path);
        }
        pthread_mutex_unlock(&c->changes->lock);
    }
    leave(&place);
    return done;
}

/* A file gets a name that is free, or that of another file, in directories of one mount. */
static bool move(const struct change *c, const struct place *from, const struct place *to,
                 bool may_replace)
{
    struct stat s, other;
    if (from->path.dir->root_fd != to->path.dir->root_fd ||
        fstatat(from->fd, last_of(from), &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
        !may_take(c->cache, from, &s))
        return false;
    bool replaces = fstatat(to->fd, last_of(to), &other, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0;
    if (replaces ? !may_replace || !may_take(c->cache, to, &other) || (other.st_ino == s.st_ino) : errno != ENOENT)
        return false;
    if (!c->asker->waits(c->asker) ||
        !begin(c->changes, 1 + noted_size(&from->path) + noted_size(&to->path)))
        return false;
    /* What is free stays free until then, or Python looks again. */
    bool done = syscall(SYS_renameat2, from->fd, last_of(from), to->fd, last_of(to), replaces ? 0 : 1) == 0;
    if (done) {
        note(c->changes, replaces ? "R" : "r", 1);
        note_name(c->changes, &from->path);
        note_name(c->changes, &to->path);
    }
    pthread_mutex_unlock(&c->changes->lock);
    return done;
}

static bool move_on_host(const struct change *c, struct place *from, struct place *to,
                         bool may_replace)
{
    bool done = false;
    if (!enter_host(c->cache, from, 3))
        return false;
    if (enter_host(c->cache, to, 3)) {
        done = move(c, from, to, may_replace);
        leave(to);
    }
    leave(from);
    return done;
}

/* In directories of the box's own. */
static bool move_own(const struct change *c, const struct fast_resolved *from,
                     const struct fast_resolved *to, bool may_replace)
{
    struct fast_changes *changes = c->changes;
    bool replaces, done = false;
    if (!fast_own_enter_both(c->cache, from, to, &replaces))
        return false;
    if ((may_replace || !replaces) && begin(changes, 1 + noted_size(from) + noted_size(to))) {
        done = c->asker->waits(c->asker) && fast_own_move(c->cache, from, to);
        if (done) {
            note(changes, replaces ? "N" : "n", 1);
            note_own_name(changes, from);
            note_own_name(changes, to);
        }
        pthread_mutex_unlock(&changes->lock);
    }
    fast_own_leave(c->cache);
    return done;
}

static bool rename_file(const struct change *c,
                        int old_dirfd, uint64_t old, int new_dirfd, uint64_t new, uint32_t flags)
{
    struct place from, to;
    bool done, may_replace = !flags;
    if (flags & ~(uint32_t)RENAME_NOREPLACE || !find(c, old_dirfd, old, &from.path) ||
        !find(c, new_dirfd, new, &to.path))
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
static int made_here(const struct change *c, int guest_fd, bool times_only)
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

static bool set_held_times(const struct change *c, int guest_fd, uint64_t times)
{
    struct timespec when[2];
    int fd = read_times(c->asker, times, when) ? made_here(c, guest_fd, true) : -1;
    if (fd < 0)
        return false;
    bool done = c->asker->waits(c->asker) && set_times(fd, when);
    close(fd);
    return done;
}

static bool set_held_mode(const struct change *c, int guest_fd, uint32_t mode)
{
    int fd = made_here(c, guest_fd, false);
    if (fd < 0)
        return false;
    bool done = c->asker->waits(c->asker) && set_mode(fd, mode);
    close(fd);
    return done;
}

/* By name: the guest's own regular file, which has one name, in a directory of the host. The caller closes it. */
static int open_own(struct fast_cache *cache, const struct place *place)
{
    const struct fast_dir *dir = place->path.dir;
    struct stat s;
    int fd = openat(place->fd, last_of(place), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_nlink == 1 && s.st_dev == dir->host_dev &&
        s.st_uid == cache->host_uid && host_may_change(dir->root_fd, place->path.host, &s)) {
        fast_show(&dir->showing, &s);
        if (s.st_uid == cache->uid)
            return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* What a name is given: times, or where those are NULL a mode. */
static bool set_on_host(const struct change *c, struct place *place,
                        const struct timespec *when, uint32_t mode)
{
    bool done = false;
    if (!enter_host(c->cache, place, 1))
        return false;
    int fd = open_own(c->cache, place);
    if (fd >= 0 && c->asker->waits(c->asker) && begin(c->changes, 1 + noted_size(&place->path))) {
        done = when ? set_times(fd, when) : set_mode(fd, mode);
        if (done) {
            note(c->changes, "m", 1);
            note_name(c->changes, &place->path);
        }
        pthread_mutex_unlock(&c->changes->lock);
    }
    if (fd >= 0)
        close(fd);
    leave(place);
    return done;
}

static bool set_in_layer(const struct change *c, const struct fast_resolved *path,
                         const struct timespec *when, uint32_t mode)
{
    struct fast_changes *changes = c->changes;
    bool done = false;
    /* A set-uid file is Python's, which notices when it is written to, and one that may be running. */
    if (when ? fast_own_is_past(path)
             : mode & 06000 || (path->dir->showing.given.st_mode & 0111 && !(mode & 0111)) ||
                   !fast_own_enter(c->cache, path, FAST_SET_MODE))
        return false;
    if (begin(changes, 1 + noted_size(path))) {
        done = c->asker->waits(c->asker) && (when ? fast_own_set_times(c->cache, path, when)
                                                             : fast_own_set_mode(c->cache, path, mode & 01777));
        if (done) {
            note(changes, "M", 1);
            note_own_name(changes, path);
        }
        pthread_mutex_unlock(&changes->lock);
    }
    if (!when)
        fast_own_leave(c->cache);
    return done;
}

static bool set_named(const struct change *c, int dirfd,
                      uint64_t name, uint32_t flags, const struct timespec *when, uint32_t mode)
{
    struct place place;
    if (flags & ~(uint32_t)AT_SYMLINK_NOFOLLOW || !find(c, dirfd, name, &place.path))
        return false;
    bool done = place.path.own ? set_in_layer(c, &place.path, when, mode)
                               : set_on_host(c, &place, when, mode);
    return done;
}

static bool set_named_times(const struct change *c, const uint64_t *a)
{
    struct timespec when[2];
    return read_times(c->asker, a[ARG_utimensat_utimes], when) &&
           set_named(c, (int)a[ARG_utimensat_dfd], a[ARG_utimensat_filename], (uint32_t)a[ARG_utimensat_flags], when,
                     0);
}

bool fast_change(Listener *self, const struct fast_asker *asker, int nr, const uint64_t *a, struct fast_reply *reply)
{
    const struct change change = {self->cache, self->changes, asker, reply}, *c = &change;
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
    case SYS_unlink:
        return unlink_file(c, AT_FDCWD, a[ARG_unlink_pathname]);
    case SYS_unlinkat:
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
