/* Resolving a guest's name, and the link that the host shows for its descriptor, with a name cache of some taught
 * directories: the resulting host name lies in a taught directory, is terminated, and its last component has no slash. */
#include "input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static ssize_t say_link(char *text, size_t room)
{
    size_t size = eat_byte();
    static const char PLACES[] = "/state/places/";
    char link[600];
    memcpy(link, PLACES, sizeof PLACES - 1);
    size_t head = eat_byte() & 1 ? sizeof PLACES - 1 : 0;
    if (size > sizeof link - head)
        size = sizeof link - head;
    eat(link + head, size);
    size += head;
    if (size > room)
        size = room;
    memcpy(text, link, size);
    return size ? (ssize_t)size : -1;
}

/* What a symbolic link holds, and what the host says of a file. */
static ssize_t say_text(char *text, size_t room)
{
    size_t size = eat_byte() * (eat_byte() & 1 ? 5 : 1);
    if (size > room)
        size = room;
    eat(text, size);
    return (ssize_t)size;
}

static int say_stat(struct stat *s)
{
    static const unsigned KINDS[] = {S_IFLNK | 0777, S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK | 0777};
    *s = (struct stat){.st_mode = KINDS[eat_byte() % 4], .st_ino = eat_byte(), .st_nlink = 1};
    return eat_byte() == 255 ? -1 : 0;
}

/* What fdinfo says of a descriptor. */
static ssize_t say_info(char *text, size_t room)
{
    if (eat_byte() & 1)
        return say_text(text, room);
    int mount = eat_byte() & 1, ino = eat_byte() & 3;
    return snprintf(text, room, "pos:\t0\nflags:\t%o\nmnt_id:\t%d\nino:\t%d\n", O_DIRECTORY, mount, ino);
}

#define readlink(path, text, room) say_link(text, room)
#define readlinkat(fd, path, text, room) say_text(text, room)
#define fstat(fd, s) say_stat(s)
#define fstatat(fd, name, s, flags) say_stat(s)
#define close(fd) (0)
#include "../../../src/husk/native/store/manifest.c"
#include "../../../src/husk/native/fastpath/namecache.c"
#include "../../../src/husk/native/fastpath/resolve.c"
#define open(path, flags) (eat_byte() & 1 ? 1000 : -1)
#define pread(fd, text, room, at) say_info(text, room)
#define drop drop_start /* namecache.c has one, too */
#include "../../../src/husk/native/fastpath/starts.c"
#undef drop
#undef open
#undef pread
#undef readlink

void fast_direct_learn(struct fast_cache *cache, struct fast_dir *dir)
{
    (void)cache, (void)dir;
}

void fast_direct_forget(struct fast_cache *cache, const struct fast_dir *dir)
{
    (void)cache, (void)dir;
}

void fast_direct_changed(struct fast_cache *cache)
{
    (void)cache;
}

void fast_direct_give(struct fast_cache *cache, const struct fast_showing *showing, const struct stat *host)
{
    (void)cache, (void)showing, (void)host;
}

void fast_direct_take_back(struct fast_cache *cache, uint64_t ino)
{
    (void)cache, (void)ino;
}

void fast_direct_close(struct fast_cache *cache)
{
    (void)cache;
}

void fast_direct_free(struct fast_direct *direct)
{
    (void)direct;
}

ssize_t guest_string(pid_t tid, uint64_t address, char *to, size_t limit)
{
    (void)tid;
    if (address == 0)
        return -EFAULT;
    size_t size = 0;
    while (input_size && size < limit - 1) {
        char c = (char)eat_byte();
        if (!c)
            break;
        to[size++] = c;
    }
    if (size == limit - 1)
        return -ENAMETOOLONG;
    to[size] = 0;
    return (ssize_t)size;
}

int guest_get_fd(pid_t tid, int fd)
{
    (void)tid, (void)fd;
    return eat_byte() & 3 ? 1001 : -EPERM;
}

static int opened; /* how many names the host was asked for */

int host_open_beneath(int root, const char *name, uint64_t flags, uint64_t mode)
{
    (void)flags, (void)mode;
    MUST(root == 5 && strlen(name) < 2 * FAST_LONGEST_NAME);
    MUST(++opened <= 20);
    return eat_byte() & 3 ? 7 : -(int)(1 + eat_byte() % 40);
}

int host_open_beneath_once(int root, const char *name, uint64_t flags, uint64_t mode, uint64_t resolve)
{
    (void)flags, (void)mode, (void)resolve;
    MUST(root == 9 && *name && !strchr(name, '/') && strcmp(name, "..") != 0);
    return eat_byte() & 3 ? 7 : -(int)(1 + eat_byte() % 40);
}

bool host_rules_leave(int root, const char *relative, const struct stat *found)
{
    (void)relative, (void)found;
    MUST(root == 5);
    return eat_byte() & 7;
}

/* Some directories are held, as held.c says from one look-up to the next. */
void fast_held_init(struct fast_held *held)
{
    held->watch = -1;
}

void fast_held_free(struct fast_held *held)
{
    (void)held;
}

int fast_held_fd(struct fast_cache *cache, struct fast_dir *dir)
{
    (void)cache, (void)dir;
    return eat_byte() & 1 ? 9 : -1;
}

/* Only Python needs it, and Python is not linked here. */
PyTypeObject *manifest_type;

const struct manifest *manifest_of(PyObject *object)
{
    (void)object;
    abort();
}

PyObject *core_raise_errno(int number)
{
    (void)number;
    abort();
}

void fast_listing_free(struct fast_cache *cache, struct fast_dir *dir)
{
    (void)cache, (void)dir;
    abort(); /* nothing is forgotten here */
}

void fast_own_init(struct fast_cache *cache)
{
    (void)cache;
}

void fast_own_free(struct fast_cache *cache)
{
    (void)cache;
}

void fast_own_forget(struct fast_cache *cache, uint64_t owner)
{
    (void)cache, (void)owner;
}

void fast_own_taught(struct fast_cache *cache, uint64_t owner)
{
    (void)cache, (void)owner;
}

struct fast_dir *fast_own_name(struct fast_own *own, const char *name, size_t size)
{
    (void)own, (void)name, (void)size;
    return NULL;
}

struct fast_programs *fast_programs_new(void)
{
    return calloc(1, 1);
}

void fast_programs_free(struct fast_programs *programs)
{
    free(programs);
}

void fast_programs_forget(struct fast_cache *cache)
{
    (void)cache;
}

static struct fast_dir *teach(struct fast_cache *cache, uint32_t start, const char *key, const char *rel,
                              enum fast_manner manner)
{
    size_t key_size = strlen(key), rel_size = strlen(rel);
    struct fast_dir *dir = calloc(1, sizeof *dir + key_size + rel_size + 1);
    dir->owner = 64, dir->root_fd = 5, dir->start = start, dir->showing.manner = manner;
    dir->key_size = (uint16_t)key_size, dir->rel_size = (uint16_t)rel_size;
    memcpy(dir->text, key, key_size);
    memcpy(dir->text + key_size, rel, rel_size + 1);
    dir->hash = hash_of(start, key, key_size);
    dir->next = cache->buckets[dir->hash % FAST_BUCKETS];
    cache->buckets[dir->hash % FAST_BUCKETS] = dir;
    dir->next_of_owner = cache->owners[owner_bucket(64)];
    cache->owners[owner_bucket(64)] = dir;
    cache->known++;
    return dir;
}

static void check(const struct fast_resolved *target)
{
    const struct fast_dir *dir = target->dir;
    size_t length = strnlen(target->host, sizeof target->host);
    bool itself = dir->key_size == target->size + 1; /* without its last slash */
    MUST(length < sizeof target->host && length >= dir->rel_size - (size_t)itself &&
         memcmp(target->host, dir->text + dir->key_size, dir->rel_size - (size_t)itself) == 0);
    MUST(target->size < sizeof target->name && target->cut <= target->size && target->name[target->size] == 0);
    if (itself || dir->absent) {
        MUST(length == dir->rel_size - (size_t)itself && (dir->absent || (target->slash && target->held < 0)));
    } else if (dir->key_size == target->cut) { /* a directory, and a name in it */
        const char *last = target->host + dir->rel_size;
        MUST(*last && !strchr(last, '/') && strcmp(last, ".") && strcmp(last, ".."));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fast_cache *cache;
    static char deep[4097];
    if (!cache) {
        cache = fast_cache_new();
        memset(deep, 'd', 4095);
        for (int i = 0; i < 4095; i += 2)
            deep[i + 1] = '/';
        strcpy(cache->places, "/state/places/");
        cache->places_size = strlen(cache->places);
        teach(cache, 0, "/usr/bin/", "usr/bin/", FAST_AS_HOST);
        teach(cache, 0, "/", "", FAST_AS_HOST);
        teach(cache, 0, "/tmp/file", "files/7", FAST_AS_UPPER);
        teach(cache, 0, "/tmp", "", FAST_AS_GIVEN)->showing.given.st_mode = S_IFDIR;
        teach(cache, 0, "/usr/bin/../", "usr/bin/../", FAST_AS_HOST);
        teach(cache, 0, "/usr/none/../", "usr/none", FAST_AS_HOST)->absent = true;
        teach(cache, 0, "/deep/", deep, FAST_AS_HOST);
        teach(cache, 3, "", "home/", FAST_AS_HOST);
        teach(cache, 3, "sub/", "home/sub/", FAST_AS_HOST);
        teach(cache, 4294967295u, "../", "up/", FAST_AS_HOST);
    }
    input = data, input_size = size;
    struct fast_asker asker = {.tid = 1};
    struct fast_resolved *target = malloc(sizeof *target);
    int dirfd = eat_byte() & 1 ? AT_FDCWD : (int8_t)eat_byte();
    uint8_t flags = eat_byte();
    opened = 0;
    fast_starts_release(&cache->starts);
    cache->starts.numbered = flags & 8;
    for (int uses = 0; uses < 4; uses++) /* so that a file of /proc is kept */
        if (flags & 8)
            fast_start(cache, &asker, dirfd, &(uint32_t){0});
    if (fast_resolve(cache, &asker, dirfd, 1, target)) {
        check(target);
        struct stat host = {0};
        int fd = -1;
        fast_find_itself(cache, target);
        enum fast_outcome seen = flags & 1 ? fast_lookup(cache, target, O_PATH, &fd, &host)
                                   : fast_lookup_following(cache, target, flags & 2 ? O_PATH : O_RDONLY, &fd, &host);
        if (seen != FAST_PYTHON) { /* else it is not used any more */
            check(target);
            fast_is_plain(cache, target, &host, flags & 2);
            fast_show(&target->dir->showing, &host);
            fast_permits(cache, &host, flags & 7);
        }
    }
    free(target);
    return 0;
}
