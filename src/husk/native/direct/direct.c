/* native: the table of directories in which guests look names up themselves (loader/directories.h).
 *
 * husk writes it with the cache's lock held for writing, so a directory is forgotten here before a change becomes
 * visible. Guests may read it at any moment: a record's turn is 0 while it changes. What it says of owners was asked of
 * every file of the directory, at a time that is before any change since. */
#include "direct/direct.h"

#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES_FOR_ONE 4096   /* of a directory whose owners are looked up, for each time that husk was asked there */
#define MOST_ENTRIES 4096    /* of such a directory */
#define COARSE_NS 3000000000 /* of file systems that keep times in seconds, and a little more */

/* Where the record of a key is, or could be. NULL: another key's. */
static struct husk_directory *find(struct husk_directories *table, const struct fast_dir *dir)
{
    for (unsigned i = 0; i < HUSK_DIRECTORY_PROBES; i++) {
        struct husk_directory *d = &table->records[(dir->hash + i) & (HUSK_DIRECTORY_COUNT - 1)];
        if (d->turn && d->hash == dir->hash && d->key_size == dir->key_size &&
            memcmp(d->text, dir->text, dir->key_size) == 0)
            return d;
    }
    return NULL;
}

static struct husk_directory *room_for(struct husk_directories *table, const struct fast_dir *dir)
{
    struct husk_directory *found = find(table, dir);
    for (unsigned i = 0; !found && i < HUSK_DIRECTORY_PROBES; i++) {
        struct husk_directory *d = &table->records[(dir->hash + i) & (HUSK_DIRECTORY_COUNT - 1)];
        if (!d->turn)
            found = d;
    }
    return found ? found : &table->records[dir->hash & (HUSK_DIRECTORY_COUNT - 1)];
}

static void set_turn(struct husk_directory *d, uint32_t turn)
{
    __atomic_store_n(&d->turn, turn, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* How the host's root is shown, and everything else that is the same for all records. False: this one differs. */
static bool agrees(struct husk_directories *table, const struct fast_dir *dir)
{
    struct stat root = {.st_uid = 0};
    fast_show(&dir->showing, &root);
    if (!table->host_dev) {
        table->host_dev = dir->host_dev;
        table->dev = (uint32_t)root.st_dev;
        table->root_uid = root.st_uid;
        table->root_gid = root.st_gid;
    }
    return table->host_dev == dir->host_dev && table->dev == root.st_dev && table->root_uid == root.st_uid &&
           table->root_gid == root.st_gid;
}

/* Is it the one file? Then the path of its directory. */
static int path_of_file(const struct fast_direct *direct, const struct fast_dir *dir, char path[HUSK_DIRECTORY_TEXT])
{
    static const char name[] = HUSK_ONE_FILE;
    const char *last = strrchr(name, '/') + 1;
    if (dir->key_size != sizeof name - 1 || memcmp(dir->text, name, sizeof name - 1) != 0 || dir->manifest ||
        dir->absent || dir->showing.manner != FAST_AS_HOST || strcmp(dir->text + dir->key_size, last) != 0 ||
        !agrees(direct->table, dir))
        return -1;
    return snprintf(path, HUSK_DIRECTORY_TEXT, "%s%.*s", HUSK_SHOWN, (int)(last - name), name);
}

/* The path by which guests find the directory; its size. -1: they do not. */
static int path_of(const struct fast_direct *direct, const struct fast_dir *dir, char path[HUSK_DIRECTORY_TEXT])
{
    if (dir->root_fd != direct->root_fd || dir->manifest || dir->showing.manner != FAST_AS_HOST ||
        dir->text[dir->key_size - 1] != '/' || !agrees(direct->table, dir))
        return -1;
    int size = snprintf(path, HUSK_DIRECTORY_TEXT, "%s%s/%s", HUSK_SHOWN, direct->name, dir->text + dir->key_size);
    return size < HUSK_DIRECTORY_TEXT && (path[size - 1] == '/') == !dir->absent ? size : -1;
}

void fast_direct_learn(struct fast_cache *cache, struct fast_dir *dir)
{
    struct fast_direct *direct = &cache->direct;
    char path[HUSK_DIRECTORY_TEXT] = "";
    if (!direct->table || dir->start || !dir->key_size ||
        (dir->missing && dir->text[dir->key_size - 1] == '/'))
        return;
    bool file = dir->text[dir->key_size - 1] != '/';
    int size = dir->missing ? 0 : file ? path_of_file(direct, dir, path) : path_of(direct, dir, path);
    if (size < 0 || (size_t)size + dir->key_size >= HUSK_DIRECTORY_TEXT)
        return;
    struct husk_directory *d = room_for(direct->table, dir);
    set_turn(d, 0);
    d->hash = dir->hash;
    d->owned_before = 0;
    d->key_size = dir->key_size;
    d->path_size = (uint16_t)size;
    d->kind = dir->missing  ? HUSK_MISSING_NAME
              : file        ? HUSK_KNOWN_FILE
              : dir->absent ? HUSK_ABSENT_DIRECTORY
                            : HUSK_DIRECTORY;
    memcpy(d->text, dir->text, dir->key_size);
    memcpy(d->text + dir->key_size, path, (size_t)size);
    if (!++direct->turn)
        direct->turn = 1;
    set_turn(d, direct->turn);
    dir->direct = true;
}

void fast_direct_forget(struct fast_cache *cache, const struct fast_dir *dir)
{
    struct husk_directory *d = dir->direct && cache->direct.table ? find(cache->direct.table, dir) : NULL;
    if (d)
        set_turn(d, 0);
}

void fast_direct_changed(struct fast_cache *cache)
{
    struct husk_directories *table = cache->direct.table;
    if (!table)
        return;
    __atomic_store_n(&table->links_changed, cache->links_changed, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&table->changes, 1, __ATOMIC_SEQ_CST);
}

/* Do all files in it that guests see without an owner belong to root, user and group? */
static bool belongs_to_root(int fd, const struct fast_cache *cache)
{
    DIR *entries = fdopendir(fd);
    if (!entries) {
        close(fd);
        return false;
    }
    bool roots = true;
    unsigned count = 0;
    struct stat s;
    for (struct dirent *each; roots && (each = readdir(entries));) {
        if (fstatat(dirfd(entries), each->d_name, &s, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
            continue; /* gone; what comes instead has another change time */
        /* The box's user may be nobody. */
        bool known_uid =
            s.st_uid == 0 || (s.st_uid == cache->host_uid && s.st_uid != cache->direct.table->unknown_uid);
        roots = ++count < MOST_ENTRIES && known_uid && s.st_gid == 0;
    }
    closedir(entries);
    return roots;
}

static void look_up_owners(struct fast_cache *cache, struct fast_dir *dir, unsigned asked)
{
    struct timespec now;
    struct stat s;
    struct husk_directory *d = find(cache->direct.table, dir);
    const char *rel = dir->text + dir->key_size;
    int fd = d ? host_open_beneath(dir->root_fd, *rel ? rel : ".", O_RDONLY | O_DIRECTORY, 0) : -1;
    if (fd < 0)
        return;
    uint32_t enough = fstat(fd, &s) == 0 ? (uint32_t)(s.st_size / BYTES_FOR_ONE) : UINT32_MAX;
    /* Once is enough. Other threads that answer may be here, too: at worst they look as well. */
    __atomic_store_n(&dir->enough, asked < enough ? enough : UINT32_MAX, __ATOMIC_RELAXED);
    if (asked < enough) {
        close(fd);
        return;
    }
    d->inode = s.st_ino;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (belongs_to_root(fd, cache))
        __atomic_store_n(&d->owned_before, core_nanoseconds(now) - COARSE_NS, __ATOMIC_SEQ_CST);
}

/* Where the file is, or may be put. */
static struct husk_roots *place_for(struct husk_directories *table, uint64_t ino)
{
    struct husk_roots *place = NULL;
    for (unsigned i = 0; i < HUSK_ROOTS_PROBES; i++) {
        struct husk_roots *r = &table->roots[(ino + i) & (HUSK_ROOTS_COUNT - 1)];
        if (r->ino == ino)
            return r;
        if (!place && !r->ino)
            place = r;
    }
    return place ? place : &table->roots[(ino + (ino >> 8) % HUSK_ROOTS_PROBES) & (HUSK_ROOTS_COUNT - 1)];
}

/* The next guest that looks at the file need not ask. Not if the file was changed just now: its owner could be changed
 * in the same moment, and its time stay the same. */
static void remember_roots(struct husk_directories *table, const struct stat *host)
{
    static atomic_flag writing = ATOMIC_FLAG_INIT;
    struct husk_roots *r = place_for(table, host->st_ino);
    struct timespec now;
    int64_t changed_ns = core_nanoseconds(host->st_ctim);
    if (host->st_dev != table->host_dev || (r->ino == host->st_ino && r->changed_ns == changed_ns))
        return;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (changed_ns >= core_nanoseconds(now) - COARSE_NS || atomic_flag_test_and_set(&writing))
        return; /* another thread writes: the file will be asked for again */
    __atomic_store_n(&r->ino, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&r->changed_ns, changed_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&r->ino, host->st_ino, __ATOMIC_SEQ_CST);
    atomic_flag_clear(&writing);
}

void fast_direct_asked(struct fast_cache *cache, struct fast_dir *dir, const struct stat *host)
{
    if (!dir->direct || host->st_uid || host->st_gid || dir->absent || dir->missing)
        return;
    remember_roots(cache->direct.table, host);
    uint32_t asked = __atomic_add_fetch(&dir->asked, 1, __ATOMIC_RELAXED);
    uint32_t enough = __atomic_load_n(&dir->enough, __ATOMIC_RELAXED);
    if (asked >= enough && enough != UINT32_MAX)
        look_up_owners(cache, dir, asked);
}

/* The directory that guests know under this path. NULL: none. */
static struct fast_dir *known_by_path(struct fast_cache *cache, const char *path, size_t size)
{
    const struct husk_directories *table = cache->direct.table;
    size_t shown = strlen(HUSK_SHOWN);
    /* Most are spelled as they are. */
    struct fast_dir *dir = fast_cache_find(cache, 0, path + shown, size - shown);
    for (unsigned i = 0; !dir && i < HUSK_DIRECTORY_COUNT; i++) {
        const struct husk_directory *d = &table->records[i];
        if (d->turn && d->kind == HUSK_DIRECTORY && d->path_size == size &&
            memcmp(d->text + d->key_size, path, size) == 0)
            dir = fast_cache_find(cache, 0, d->text, d->key_size);
    }
    return dir && dir->direct && !dir->absent && !dir->missing ? dir : NULL;
}

const struct fast_file *fast_direct_opened(struct fast_cache *cache, const char *link, const struct stat *host)
{
    const struct fast_file *known = fast_cache_find_file(cache, host);
    if (known && cache->direct.table && !host->st_uid && !host->st_gid)
        remember_roots(cache->direct.table, host);
    /* Known ones count, too; but to find their directory costs as much as the answer. One that is known through a mount
     * may be another name of a file that the guest opened itself. */
    bool through_mount = known && cache->direct.table &&
        (known->showing.manner != FAST_AS_HOST || known->showing.dev != cache->direct.table->dev);
    if (known && !through_mount &&
        (!cache->direct.table || host->st_uid || __atomic_add_fetch(&cache->direct.known, 1, __ATOMIC_RELAXED) % 4))
        return known;
    char text[600];
    size_t shown = strlen(HUSK_SHOWN);
    ssize_t size = cache->direct.table ? readlink(link, text, sizeof text - 1) : -1;
    if (size <= (ssize_t)shown || memcmp(text, HUSK_SHOWN "/", shown + 1) != 0)
        return known;
    text[size] = 0;
    struct fast_dir *dir = known_by_path(cache, text, (size_t)(strrchr(text, '/') + 1 - text));
    if (!dir || host->st_dev != dir->host_dev || host->st_ino >> 32 || (host->st_nlink != 1 && cache->links_changed))
        return known;
    fast_direct_asked(cache, dir, host);
    fast_cache_remember_file(cache, &dir->showing, host);
    return fast_cache_find_file(cache, host);
}

static void note_links(struct husk_directories *table)
{
    __atomic_store_n(&table->links_shown, 1, __ATOMIC_SEQ_CST);
}

void fast_direct_opening(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host)
{
    struct husk_directories *table = cache->direct.table;
    if (table && host->st_nlink > 1 && host->st_dev == table->host_dev &&
        (showing->manner != FAST_AS_HOST || showing->dev != table->dev))
        note_links(table);
}

PyObject *fast_py_cache_links(Listener *self, PyObject *Py_UNUSED(noargs))
{
    if (self->cache && self->cache->direct.table)
        note_links(self->cache->direct.table);
    Py_RETURN_NONE;
}

void fast_direct_site(struct fast_cache *cache, const struct husk_site *site)
{
    struct husk_directories *table = cache->direct.table;
    if (!table || table->site_count == HUSK_MOST_SITES)
        return;
    for (uint32_t i = 0; i < table->site_count; i++)
        if (memcmp(&table->sites[i], site, sizeof *site) == 0)
            return;
    table->sites[table->site_count] = *site;
    __atomic_fetch_add(&table->site_count, 1, __ATOMIC_SEQ_CST);
}

bool fast_direct_is_open(const struct fast_cache *cache)
{
    return cache && cache->direct.table && __atomic_load_n(&cache->direct.table->open, __ATOMIC_SEQ_CST);
}

void fast_direct_close(struct fast_cache *cache)
{
    if (cache && cache->direct.table)
        __atomic_store_n(&cache->direct.table->open, 0, __ATOMIC_SEQ_CST);
}

void fast_direct_free(struct fast_direct *direct)
{
    if (direct->table)
        munmap(direct->table, HUSK_DIRECTORIES_BYTES);
    direct->table = NULL;
}

static uint32_t overflow(const char *what)
{
    char text[16];
    return host_read_proc(text, sizeof text, "/proc/sys/kernel/overflow%s", what) > 0
        ? (uint32_t)strtoul(text, NULL, 10) : 65534;
}

/* cache_direct(table_fd, root_fd, name): guests see the directory `root_fd`, the host's `name`, in their own root. The
 * cache borrows root_fd, which outlives it. */
PyObject *fast_py_cache_direct(Listener *self, PyObject *args)
{
    int table_fd, root_fd;
    const char *name;
    struct stat s;
    if (!PyArg_ParseTuple(args, "iiy:cache_direct", &table_fd, &root_fd, &name))
        return NULL;
    struct fast_cache *cache = self->cache;
    if (!cache || cache->direct.table || strlen(name) >= sizeof cache->direct.name)
        Py_RETURN_NONE;
    if (fstat(table_fd, &s) < 0 || s.st_size != HUSK_DIRECTORIES_BYTES)
        Py_RETURN_NONE;
    struct husk_directories *table =
        mmap(NULL, HUSK_DIRECTORIES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, table_fd, 0);
    if (table == MAP_FAILED)
        return core_raise_errno(errno);
    pthread_rwlock_wrlock(&cache->lock);
    table->unknown_uid = overflow("uid");
    table->unknown_gid = overflow("gid");
    strcpy(cache->direct.name, name);
    cache->direct.root_fd = root_fd;
    cache->direct.table = table;
    pthread_rwlock_unlock(&cache->lock);
    __atomic_store_n(&table->open, 1, __ATOMIC_SEQ_CST);
    Py_RETURN_NONE;
}
