/* native: files in directories of a layer that are the box's own alone (docs/design/024-changes.md).
 *
 * Python keeps a layer's names. Of a directory without anything of the host in it, Python can tell C all names at once.
 * Then C knows which names are free, and makes a file there, with the vfs's lock (vfs_lock.c): the real one, under a
 * number that Python has set aside, and a record of it. C also removes and renames files there that have one name, and
 * sets their mode. Whoever takes that lock enters first what was recorded. So what one of the two changes, the other
 * one knows before it acts.
 *
 * What C says of a file is never changed in place, because other threads look at it without a lock: there is a new
 * entry, and the old one is kept until everything is forgotten.
 *
 * A directory of the host that the box has changed is known likewise: `beneath` leads to what the host has, and the
 * names are those that differ. C hides a plain file of the host there, and makes files under names that the host lacks.
 *
 * Directories that are made and removed there: own_subdirs.c. Not here: links, and changes of the host's files but that
 * their names are hidden. */
#include "layer/own_tables.h"

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

static size_t bucket_of(const char *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return (hash ^ hash >> 16) % NAME_BUCKETS;
}

/* ---- what C knows ------------------------------------------------------------------------------------------------ */

void fast_own_init(struct fast_cache *cache)
{
    cache->layer = calloc(1, sizeof *cache->layer);
}

unsigned fast_own_end(struct fast_own *own)
{
    unsigned known = own->added;
    for (size_t i = 0; i < NAME_BUCKETS; i++) {
        for (struct fast_name *name = own->names[i], *next; name; name = next) {
            next = name->next;
            if (name->entry && name->entry != own->none)
                known++, free(name->entry);
            free(name);
        }
    }
    for (struct fast_dir *gone = own->gone, *next; gone; gone = next) {
        next = gone->next;
        known++;
        free(gone);
    }
    free(own->path);
    free(own->none);
    free(own->beneath);
    free(own);
    return known;
}

void fast_own_add(struct fast_layer *layer, struct fast_own *own)
{
    own->next = layer->first;
    own->link = &layer->first;
    if (own->next)
        own->next->link = &own->next;
    layer->first = own;
}

static void drop(struct fast_layer *layer, struct fast_own *own)
{
    *own->link = own->next;
    if (own->next)
        own->next->link = own->link;
    layer->known -= fast_own_end(own);
}

void fast_own_forget(struct fast_cache *cache, uint64_t owner)
{
    struct fast_own *own = owner ? fast_cache_own(cache, owner) : NULL;
    if (own)
        drop(cache->layer, own);
    while (!owner && cache->layer && cache->layer->first)
        drop(cache->layer, cache->layer->first);
}

void fast_own_free(struct fast_cache *cache)
{
    if (!cache->layer)
        return;
    fast_own_forget(cache, 0);
    Py_XDECREF((PyObject *)cache->layer->lock);
    free(cache->layer);
}

void fast_own_taught(struct fast_cache *cache, uint64_t owner)
{
    struct fast_own *own = fast_cache_own(cache, owner);
    if (own)
        own->changed = own->files_changed = false;
}

struct fast_name *fast_own_find_name(struct fast_own *own, const char *name, size_t size)
{
    /* Another thread may be adding one at the front. */
    struct fast_name *one = __atomic_load_n(&own->names[bucket_of(name, size)], __ATOMIC_ACQUIRE);
    while (one && (one->size != size || memcmp(one->text, name, size) != 0))
        one = one->next;
    return one;
}

struct fast_dir *fast_own_name(struct fast_own *own, const char *name, size_t size)
{
    struct fast_name *one = fast_own_find_name(own, name, size);
    if (one)
        return __atomic_load_n(&one->entry, __ATOMIC_SEQ_CST);
    return own->beneath ? own->beneath : own->none;
}

bool fast_own_is_beneath(const struct fast_resolved *path)
{
    return path->own && path->dir == path->own->beneath;
}

bool fast_own_is_past(const struct fast_resolved *path)
{
    struct fast_own *own = path->own ? path->own : __atomic_load_n(&path->dir->own, __ATOMIC_SEQ_CST);
    if (!own)
        return __atomic_load_n(&path->dir->stale, __ATOMIC_SEQ_CST);
    const struct fast_dir *now = fast_own_name(own, path->name + path->cut, path->size - path->cut);
    return now != path->dir && (path->own || now != own->beneath);
}

struct fast_name *fast_own_new_name(const char *name, size_t size)
{
    struct fast_name *one = calloc(1, sizeof *one + size + 1);
    if (!one)
        return NULL;
    one->size = size;
    memcpy(one->text, name, size);
    return one;
}

void fast_own_put_name(struct fast_own *own, struct fast_name *one)
{
    size_t bucket = bucket_of(one->text, one->size);
    one->next = own->names[bucket];
    __atomic_store_n(&own->names[bucket], one, __ATOMIC_RELEASE);
}

void fast_own_add_name(struct fast_cache *cache, struct fast_own *own, struct fast_name *one)
{
    own->added++;
    cache->layer->known++;
    fast_own_put_name(own, one);
}

void fast_own_lead(struct fast_own *own, struct fast_name *one, struct fast_dir *entry, uint64_t number)
{
    struct fast_dir *was = one->entry;
    one->number = number;
    __atomic_store_n(&one->entry, entry, __ATOMIC_SEQ_CST);
    if (was && was != own->none) {
        was->next = own->gone;
        own->gone = was;
    }
}

void fast_own_spoil(struct fast_cache *cache, struct fast_own *own, bool files)
{
    if (files ? own->files_changed : own->changed)
        return;
    fast_cache_spoil(cache, own->owner, files);
    own->changed = true;
    own->files_changed |= files;
}

/* ---- may C? ------------------------------------------------------------------------------------------------------ */

const char *fast_own_path(const struct fast_own *own)
{
    return own->path;
}

struct fast_name *fast_own_name_of(const struct fast_resolved *path)
{
    return fast_own_find_name(path->own, path->name + path->cut, path->size - path->cut);
}

size_t fast_own_name_size(const struct fast_resolved *path)
{
    return path->size - path->cut;
}

enum fast_host_answer fast_own_ask_host(struct fast_cache *cache, const struct fast_resolved *path, struct stat *s)
{
    struct fast_dir *dir = path->own->beneath;
    const char *rel = dir->text + dir->key_size, *last = path->name + path->cut;
    char name[2 * FAST_LONGEST_NAME];
    int held = fast_held_fd(cache, dir);
    int fd = held >= 0 ? held : host_open_beneath(dir->root_fd, *rel ? rel : ".", O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return FAST_HOST_UNSURE;
    struct stat itself;
    bool has = fstatat(fd, last, s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0, lacks = !has && errno == ENOENT;
    /* One that is held may have been removed since, and another one stand in its place. */
    lacks = lacks && (held < 0 || (fstat(held, &itself) == 0 && itself.st_nlink));
    if (held < 0)
        close(fd);
    if (!has)
        return lacks ? FAST_HOST_LACKS : FAST_HOST_UNSURE;
    memcpy(name, rel, dir->rel_size);
    memcpy(name + dir->rel_size, last, fast_own_name_size(path) + 1);
    bool plain = s->st_dev == dir->host_dev && s->st_ino < 1ULL << 32 && host_rules_leave(dir->root_fd, name, NULL) &&
                 host_rules_leave(dir->root_fd, name, s);
    return plain ? FAST_HOST_HAS : FAST_HOST_UNSURE;
}

/* Has the host no such name, as far as the directory shows it? */
static bool host_lacks(struct fast_cache *cache, const struct fast_resolved *path)
{
    struct stat s;
    return !path->own->beneath || fast_own_ask_host(cache, path, &s) == FAST_HOST_LACKS;
}

static bool is_free(struct fast_cache *cache, const struct fast_resolved *path, const struct fast_name *one)
{
    return one ? one->entry == path->own->none : host_lacks(cache, path);
}

static bool is_its_own(const struct fast_cache *cache, const struct fast_name *one)
{
    return one->entry && one->entry->showing.given.st_uid == cache->uid;
}

/* Can C take the name from the directory, and may the guest, if it may write there? In a sticky one (/tmp) it has to
 * own the file, or the directory. */
static bool may_take(const struct fast_cache *cache, const struct fast_own *own, const struct fast_name *one)
{
    return one && one->number &&
           (!(own->shown.st_mode & S_ISVTX) || own->shown.st_uid == cache->uid || is_its_own(cache, one));
}

/* Since the name was looked up another thread may have changed it. */
static bool may(struct fast_cache *cache, const struct fast_resolved *path, enum fast_wish wish)
{
    struct fast_layer *layer = cache->layer;
    const struct fast_name *one = fast_own_name_of(path);
    switch (wish) {
    case FAST_MAKE:
        return layer->known < MOST_KNOWN && fast_lock_has_room(layer->lock) && is_free(cache, path, one);
    case FAST_REMOVE:
        return one ? may_take(cache, path->own, one) : path->own->beneath && layer->known < MOST_KNOWN;
    case FAST_SET_MODE:
        return layer->known < MOST_KNOWN && one && one->number && is_its_own(cache, one);
    case FAST_TRUNCATE:
        return one && one->number && is_its_own(cache, one);
    case FAST_REMOVE_DIRECTORY:
        return one ? one->child != 0 : path->own->beneath && layer->known < MOST_KNOWN;
    case FAST_DATE_DIRECTORY:
        return one && one->child;
    }
    return false;
}

bool fast_own_enter(struct fast_cache *cache, const struct fast_resolved *path, enum fast_wish wish)
{
    struct fast_layer *layer = cache->layer;
    bool names = wish == FAST_MAKE || wish == FAST_REMOVE || wish == FAST_REMOVE_DIRECTORY;
    unsigned want = names ? 3 : 1;
    if (!fast_permits(cache, &path->own->shown, want) || !fast_lock_try(layer->lock))
        return false;
    if (!path->own->removed && fast_lock_records(layer->lock, 1, fast_own_name_size(path) + sizeof(struct stat)) &&
        may(cache, path, wish))
        return true;
    fast_own_leave(cache);
    return false;
}

bool fast_own_enter_both(struct fast_cache *cache, const struct fast_resolved *from, const struct fast_resolved *to,
                         bool *replaces)
{
    struct fast_layer *layer = cache->layer;
    if (from->own->dev != to->own->dev || to->own->files_fd < 0 ||
        !fast_permits(cache, &from->own->shown, 3) || !fast_permits(cache, &to->own->shown, 3) ||
        !fast_lock_try(layer->lock))
        return false;
    const struct fast_name *one = fast_own_name_of(from), *other = fast_own_name_of(to);
    *replaces = !is_free(cache, to, other);
    /* What is below the old name on the host must stay hidden: that is Python's. */
    size_t size = fast_own_name_size(from) + 2 * fast_own_name_size(to) + sizeof(struct stat);
    if (!from->own->removed && !to->own->removed && fast_lock_records(layer->lock, 2, size) &&
        layer->known < MOST_KNOWN && one != other &&
        may_take(cache, from->own, one) && one->entry && (!*replaces || may_take(cache, to->own, other)) &&
        host_lacks(cache, from))
        return true;
    fast_own_leave(cache);
    return false;
}

void fast_own_leave(struct fast_cache *cache)
{
    fast_lock_give(cache->layer->lock);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct fast_dir *fast_own_new_entry(const struct fast_own *own, uint64_t number)
{
    char rel[24];
    int size = number ? snprintf(rel, sizeof rel, "%llu", (unsigned long long)number) : 0;
    struct fast_dir *dir = calloc(1, sizeof *dir + size + 1);
    if (!dir)
        return NULL;
    dir->owner = own->owner;
    dir->root_fd = own->files_fd;
    dir->rel_size = (uint16_t)size;
    dir->missing = !number;
    memcpy(dir->text, rel, size);
    return dir;
}

/* An entry for a file that has one, as it is shown from now on. */
static struct fast_dir *next_entry(const struct fast_own *own, const struct fast_name *one)
{
    struct fast_dir *entry = fast_own_new_entry(own, one->number);
    if (entry)
        entry->showing = one->entry->showing;
    return entry;
}

static int64_t nanoseconds(struct statx_timestamp t)
{
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int fast_own_make(struct fast_cache *cache, const struct fast_resolved *path, int flags, uint32_t mode,
                  struct fast_showing *showing, struct stat *made, int64_t *born_ns)
{
    struct fast_layer *layer = cache->layer;
    struct fast_own *own = path->own;
    const char *name = path->name + path->cut;
    size_t size = path->size - path->cut;
    if (own->files_fd < 0)
        return -1;
    uint64_t number = fast_lock_number(layer->lock);
    struct statx x;
    struct fast_name *one = fast_own_find_name(own, name, size), *fresh = one ? NULL : fast_own_new_name(name, size);
    struct fast_dir *entry = fast_own_new_entry(own, number);
    if (!entry || (!one && !fresh)) {
        free(entry);
        free(fresh);
        return -1;
    }
    fast_own_spoil(cache, own, false); /* before the name is there: guests may look at what they were told is missing */
    int fd = openat(own->files_fd, entry->text, flags | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd >= 0 && syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &x) < 0) {
        unlinkat(own->files_fd, entry->text, 0);
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        free(entry);
        free(fresh);
        return -1;
    }
    struct stat given = {.st_dev = own->dev, .st_ino = number, .st_mode = S_IFREG | mode, .st_nlink = 1,
                         .st_uid = own->uid, .st_gid = own->gid, .st_ctim = {x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec}};
    /* Complete before it has its name: other threads are looking. */
    entry->showing = *showing = (struct fast_showing){.manner = FAST_AS_UPPER, .given = given};
    fast_own_lead(own, one ? one : fresh, entry, number);
    if (fresh)
        fast_own_put_name(own, fresh);
    *made = (struct stat){.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor), .st_ino = x.stx_ino};
    *born_ns = x.stx_mask & STATX_BTIME ? nanoseconds(x.stx_btime) : 0;
    struct fast_record record = {.deed = FAST_MADE, .mode = S_IFREG | mode, .owner = own->owner, .number = number,
                                 .when_ns = nanoseconds(x.stx_ctime), .size = (uint32_t)size};
    fast_lock_record(layer->lock, &record, name, NULL);
    layer->known++;
    return fd;
}

/* ---- truncating -------------------------------------------------------------------------------------------------- */

int fast_own_truncate(struct fast_cache *cache, const struct fast_resolved *path, int flags)
{
    struct stat s;
    const struct fast_name *one = fast_own_name_of(path);
    const struct fast_showing *showing = &one->entry->showing;
    unsigned want = (flags & O_ACCMODE) == O_RDWR ? 6 : 2;
    /* What can be executed may be running, which Python knows. */
    if (showing->given.st_mode & (06000 | 0111) || !fast_permits(cache, &showing->given, want))
        return -1;
    int fd = openat(path->own->files_fd, one->entry->text, flags | O_TRUNC | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &s) == 0)
        fast_cache_remember_file(cache, showing, &s);
    return fd;
}

/* ---- removing and renaming --------------------------------------------------------------------------------------- */

/* The real file that a name leads to. `when`: as the host dates it (vfs/clock.py). */
static bool take(struct fast_cache *cache, const struct fast_resolved *path, uint64_t number, int64_t *when)
{
    char real[24];
    struct stat s, below;
    enum fast_host_answer host = path->own->beneath ? fast_own_ask_host(cache, path, &below) : FAST_HOST_LACKS;
    if (host == FAST_HOST_UNSURE)
        return false;
    snprintf(real, sizeof real, "%llu", (unsigned long long)number);
    int fd = openat(path->own->files_fd, real, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool done = fstat(fd, &s) == 0 && unlinkat(path->own->files_fd, real, 0) == 0;
    if (done) {
        fstat(fd, &s); /* again: it tells when the host dates its removal, and so that of the name */
        *when = core_nanoseconds(s.st_ctim);
        fast_cache_forget_file(cache, &s); /* who remembers it looks afterwards whether it still has a name */
        struct fast_record record = {.deed = FAST_REMOVED, .owner = path->own->owner, .number = number,
                                     .when_ns = *when, .size = (uint32_t)fast_own_name_size(path),
                                     .new_size = host == FAST_HOST_HAS ? sizeof below : 0};
        fast_lock_record(cache->layer->lock, &record, path->name + path->cut, &below);
    }
    close(fd);
    return done;
}

/* Hide a plain file of the host. Who has it open is then told by Python what it is. One that can be executed may be a
 * taught program, which is found without a look at its directory. */
static bool hide(struct fast_cache *cache, const struct fast_resolved *path)
{
    struct fast_own *own = path->own;
    struct stat s, shown;
    if (fast_own_ask_host(cache, path, &s) != FAST_HOST_HAS || !S_ISREG(s.st_mode) || s.st_nlink != 1 ||
        s.st_mode & 0111)
        return false;
    shown = s;
    fast_show(&own->beneath->showing, &shown);
    if (own->shown.st_mode & S_ISVTX && own->shown.st_uid != cache->uid && shown.st_uid != cache->uid)
        return false;
    struct fast_record record = {.deed = FAST_REMOVED, .owner = own->owner, .size = (uint32_t)fast_own_name_size(path),
                                 .new_size = sizeof s};
    struct fast_name *one = fast_own_new_name(path->name + path->cut, fast_own_name_size(path));
    if (!one || !fast_lock_date(cache->layer->lock, &record.when_ns)) {
        free(one);
        return false;
    }
    one->entry = own->none;
    fast_own_add_name(cache, own, one);
    fast_own_spoil(cache, own, true);
    fast_cache_forget_file(cache, &s);
    fast_lock_record(cache->layer->lock, &record, path->name + path->cut, &s);
    return true;
}

bool fast_own_remove(struct fast_cache *cache, struct fast_resolved *path)
{
    struct fast_name *one = fast_own_name_of(path);
    int64_t when;
    if (!one)
        return hide(cache, path);
    if (!take(cache, path, one->number, &when))
        return false;
    fast_own_lead(path->own, one, path->own->none, 0);
    fast_own_spoil(cache, path->own, true);
    return true;
}

/* Let the host date a change that the real file does not have, and tell which file it is. */
static bool date(const struct fast_own *own, uint64_t number, struct stat *s)
{
    char real[24];
    snprintf(real, sizeof real, "%llu", (unsigned long long)number);
    return fchmodat(own->files_fd, real, 0600, 0) == 0 && fstatat(own->files_fd, real, s, AT_SYMLINK_NOFOLLOW) == 0;
}

bool fast_own_move(struct fast_cache *cache, const struct fast_resolved *from, const struct fast_resolved *to)
{
    struct fast_name *one = fast_own_name_of(from), *other = fast_own_name_of(to), *fresh = NULL;
    struct fast_dir *entry = next_entry(to->own, one);
    uint64_t number = one->number;
    bool replaces = other && other->entry != to->own->none;
    int64_t when = 0;
    struct stat s;
    if (!other)
        other = fresh = fast_own_new_name(to->name + to->cut, fast_own_name_size(to));
    /* Meanwhile other threads find the old file's entry without a file, and leave that to Python. */
    if (!entry || !other || !(replaces ? take(cache, to, other->number, &when) : date(from->own, number, &s))) {
        free(entry);
        free(fresh);
        return false;
    }
    /* The other file is gone, so the name is moved even if the host refuses to date it. */
    bool dated = !replaces || date(from->own, number, &s);
    if (dated)
        when = core_nanoseconds(s.st_ctim);
    entry->showing.given.st_ctim = (struct timespec){when / 1000000000, when % 1000000000};
    fast_own_spoil(cache, from->own, true);
    fast_own_spoil(cache, to->own, true);
    fast_own_lead(to->own, other, entry, number);
    if (fresh)
        fast_own_put_name(to->own, fresh);
    fast_own_lead(from->own, one, from->own->none, 0);
    if (dated)
        fast_cache_forget_file(cache, &s); /* last: who remembers it looks afterwards whether it is still so */
    cache->layer->known++;
    struct fast_record record = {.deed = FAST_MOVED, .owner = from->own->owner, .number = number, .to = to->own->owner,
                                 .when_ns = when, .size = (uint32_t)fast_own_name_size(from),
                                 .new_size = (uint32_t)fast_own_name_size(to)};
    fast_lock_record(cache->layer->lock, &record, from->name + from->cut, to->name + to->cut);
    return true;
}

/* ---- mode and times ---------------------------------------------------------------------------------------------- */

bool fast_own_set_mode(struct fast_cache *cache, const struct fast_resolved *path, uint32_t mode)
{
    struct fast_name *one = fast_own_name_of(path);
    struct fast_dir *entry = next_entry(path->own, one);
    struct stat s;
    if (!entry || !date(path->own, one->number, &s)) {
        free(entry);
        return false;
    }
    entry->showing.given.st_mode = S_IFREG | mode;
    entry->showing.given.st_ctim = s.st_ctim;
    fast_own_spoil(cache, path->own, true);
    fast_own_lead(path->own, one, entry, one->number);
    fast_cache_forget_file(cache, &s);
    cache->layer->known++;
    struct fast_record record = {.deed = FAST_MODE_SET, .mode = S_IFREG | mode, .owner = path->own->owner,
                                 .number = one->number, .when_ns = core_nanoseconds(s.st_ctim)};
    fast_lock_record(cache->layer->lock, &record, NULL, NULL);
    return true;
}

bool fast_own_set_times(struct fast_cache *cache, const struct fast_resolved *path, const struct timespec when[2])
{
    const struct fast_dir *entry = path->dir;
    return !entry->missing && entry->showing.manner == FAST_AS_UPPER && entry->showing.given.st_uid == cache->uid &&
           utimensat(entry->root_fd, entry->text, when, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- Python's side ----------------------------------------------------------------------------------------------- */

/* What lies beneath a directory: (root_fd, rel, host_dev, showing). */
static bool add_beneath(struct fast_own *own, PyObject *view)
{
    int root_fd;
    unsigned long long host_dev;
    const char *rel;
    Py_ssize_t size;
    PyObject *shown;
    struct fast_showing showing;
    if (view == Py_None)
        return true;
    if (!PyArg_ParseTuple(view, "iy#KO", &root_fd, &rel, &size, &host_dev, &shown) ||
        !fast_parse_showing(shown, &showing))
        return false;
    if (size > FAST_LONGEST_NAME)
        return PyErr_SetString(PyExc_ValueError, "a name that is too long"), false;
    own->beneath = calloc(1, sizeof *own->beneath + size + 2);
    if (!own->beneath)
        return PyErr_NoMemory(), false;
    *own->beneath = (struct fast_dir){.owner = own->owner, .host_dev = host_dev, .root_fd = root_fd,
                                      .showing = showing, .layered = true,
                                      .rel_size = (uint16_t)(size ? size + 1 : 0)};
    memcpy(own->beneath->text, rel, size);
    if (size)
        own->beneath->text[size] = '/';
    return true;
}

/* Its names, from a list of (name, number, inode, mode, uid, gid, ctime, set_up). Mode 0: it is not known how the file
 * is shown. A name that hides one of the host has the kind of a device, as overlayfs writes it. Of a directory the
 * number is its owner. */
static bool add_names(struct fast_own *own, PyObject *names, unsigned room, unsigned *known)
{
    for (Py_ssize_t i = 0; i < PyList_Size(names); i++) {
        const char *text;
        Py_ssize_t size;
        unsigned long long number, ino;
        unsigned mode, uid, gid;
        long long changed, set_up;
        if (!PyArg_ParseTuple(PyList_GetItem(names, i), "y#KKIIILL", &text, &size, &number, &ino, &mode, &uid, &gid,
                              &changed, &set_up))
            return false;
        struct fast_name *one = fast_own_new_name(text, size);
        if (!one)
            return PyErr_NoMemory(), false;
        one->number = number;
        if (S_ISCHR(mode)) {
            one->entry = own->none;
        } else if (S_ISDIR(mode)) {
            one->number = 0;
            one->child = number;
        } else if (mode && *known < room && (one->entry = fast_own_new_entry(own, number))) {
            struct stat given = {.st_dev = own->dev, .st_ino = ino, .st_mode = mode, .st_nlink = 1, .st_uid = uid,
                                 .st_gid = gid, .st_ctim = {changed / 1000000000, changed % 1000000000}};
            one->entry->showing = (struct fast_showing){.manner = FAST_AS_UPPER, .given = given, .set_up_ns = set_up};
            ++*known;
        }
        fast_own_put_name(own, one);
    }
    return true;
}

/* The directory above knows that this one is known. */
static void tell_above(struct fast_own *above, const char *name, size_t size, uint64_t owner)
{
    struct fast_name *one = above ? fast_own_find_name(above, name, size) : NULL, *fresh = NULL;
    if (above && !one)
        one = fresh = fast_own_new_name(name, size);
    if (one && !one->entry)
        one->child = owner;
    if (fresh)
        fast_own_put_name(above, fresh);
}

PyObject *fast_py_cache_own(Listener *self, PyObject *args)
{
    unsigned start, uid, gid;
    unsigned long long owner;
    int files_fd;
    const char *key, *path, *stat_bytes;
    Py_ssize_t key_size, stat_size;
    PyObject *names, *view;
    VfsLock *lock;
    unsigned long long above;
    const char *name;
    Py_ssize_t name_size;
    int removable;
    if (!PyArg_ParseTuple(args, "Iy#KyiIIy#O!OKy#pO!:cache_own", &start, &key, &key_size, &owner, &path, &files_fd,
                          &uid, &gid, &stat_bytes, &stat_size, &PyList_Type, &names, &view, &above, &name, &name_size,
                          &removable, fast_lock_type, &lock))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || !cache->layer || key_size > FAST_LONGEST_NAME || strlen(path) >= FAST_LONGEST_NAME)
        Py_RETURN_NONE;
    if (stat_size != sizeof(struct stat))
        return PyErr_SetString(PyExc_ValueError, "not a struct stat"), NULL;
    struct fast_own *own = calloc(1, sizeof *own);
    if (!own)
        return PyErr_NoMemory();
    *own = (struct fast_own){.owner = owner, .files_fd = files_fd, .uid = uid, .gid = gid, .path = strdup(path),
                              .removable = removable};
    memcpy(&own->shown, stat_bytes, sizeof own->shown);
    own->dev = (uint32_t)own->shown.st_dev;
    own->none = fast_own_new_entry(own, 0);
    unsigned known_names = 0, room = cache->layer->known < MOST_KNOWN ? MOST_KNOWN - cache->layer->known : 0;
    if (!own->path || !own->none || !add_beneath(own, view) || !add_names(own, names, room, &known_names)) {
        fast_own_end(own);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    if (!cache->layer->lock)
        cache->layer->lock = (VfsLock *)Py_NewRef((PyObject *)lock); /* no directory is known yet, so nobody looks */
    Py_BEGIN_ALLOW_THREADS
    pthread_rwlock_wrlock(&cache->lock);
    struct fast_own *known = fast_cache_own(cache, owner);
    if (!known) {
        fast_own_add(cache->layer, own);
        known = own;
        cache->layer->known += known_names;
        own = NULL;
    }
    fast_cache_put_own(cache, start, key, key_size, known, owner);
    tell_above(fast_cache_own(cache, above), name, (size_t)name_size, owner);
    if (own)
        fast_own_end(own); /* this is another spelling of a directory that C knows */
    pthread_rwlock_unlock(&cache->lock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
