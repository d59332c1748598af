/* A guest's name, and where the host says its descriptor leads, against a name cache with some taught directories: the
 * host name that comes out lies in a taught directory, ends where it should, and its last part holds no slash. */
#include "input.h"

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

#define readlink(path, text, room) say_link(text, room)
#define readlinkat(fd, path, text, room) say_text(text, room)
#define fstat(fd, s) say_stat(s)
#define close(fd) (0)
#include "../../../src/husk/native/store/manifest.c"
#include "../../../src/husk/native/fastpath/namecache.c"
#include "../../../src/husk/native/fastpath/resolve.c"
#undef readlink

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

static int opened; /* which names the host was asked for */

int open_beneath(int root, const char *name, uint64_t flags, uint64_t mode)
{
    (void)flags, (void)mode;
    MUST(root == 5 && strlen(name) < 2 * LONGEST_NAME);
    MUST(++opened <= 20);
    return eat_byte() & 3 ? 7 : -(int)(1 + eat_byte() % 40);
}

/* Asked for by Python alone, which is not here. */
PyTypeObject Manifest_type;

const struct manifest *manifest_of(PyObject *object)
{
    (void)object;
    abort();
}

PyObject *raise_errno(int number)
{
    (void)number;
    abort();
}

void listing_free(name_cache *cache, struct known_dir *dir)
{
    (void)cache, (void)dir;
    abort(); /* nothing is forgotten here */
}

struct programs *programs_new(void)
{
    return calloc(1, 1);
}

void programs_free(struct programs *programs)
{
    free(programs);
}

void programs_forget(struct programs *programs)
{
    (void)programs;
}

static void teach(name_cache *cache, uint32_t start, const char *key, const char *rel, enum manner manner)
{
    size_t key_size = strlen(key), rel_size = strlen(rel);
    struct known_dir *dir = calloc(1, sizeof *dir + key_size + rel_size + 1);
    dir->owner = 64, dir->root_fd = 5, dir->start = start, dir->showing.manner = manner;
    dir->key_size = (uint16_t)key_size, dir->rel_size = (uint16_t)rel_size;
    memcpy(dir->text, key, key_size);
    memcpy(dir->text + key_size, rel, rel_size + 1);
    dir->hash = hash_of(start, key, key_size);
    dir->next = cache->buckets[dir->hash % BUCKETS];
    cache->buckets[dir->hash % BUCKETS] = dir;
    dir->next_of_owner = cache->owners[owner_bucket(64)];
    cache->owners[owner_bucket(64)] = dir;
    cache->known++;
}

static void check(const struct target *target)
{
    const struct known_dir *dir = target->dir;
    size_t length = strnlen(target->host, sizeof target->host);
    MUST(length < sizeof target->host && memcmp(target->host, dir->text + dir->key_size, dir->rel_size) == 0);
    MUST(target->size < sizeof target->name && target->cut <= target->size && target->name[target->size] == 0);
    if (dir->key_size == target->cut) { /* a directory, and a name in it */
        const char *last = target->host + dir->rel_size;
        MUST(*last && !strchr(last, '/') && strcmp(last, ".") && strcmp(last, ".."));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static name_cache *cache;
    static char deep[4097];
    if (!cache) {
        cache = cache_new();
        memset(deep, 'd', 4095);
        for (int i = 0; i < 4095; i += 2)
            deep[i + 1] = '/';
        strcpy(cache->places, "/state/places/");
        cache->places_size = strlen(cache->places);
        teach(cache, 0, "/usr/bin/", "usr/bin/", AS_HOST);
        teach(cache, 0, "/", "", AS_HOST);
        teach(cache, 0, "/tmp/file", "files/7", AS_UPPER);
        teach(cache, 0, "/deep/", deep, AS_HOST);
        teach(cache, 3, "", "home/", AS_HOST);
        teach(cache, 3, "sub/", "home/sub/", AS_HOST);
        teach(cache, 4294967295u, "../", "up/", AS_HOST);
    }
    input = data, input_size = size;
    struct seccomp_notif notif = {.pid = 1};
    struct target *target = malloc(sizeof *target);
    int dirfd = eat_byte() & 1 ? AT_CWD : (int8_t)eat_byte();
    uint8_t flags = eat_byte();
    opened = 0;
    if (locate(cache, &notif, dirfd, 1, target)) {
        check(target);
        struct stat host = {0};
        int fd = -1;
        itself(cache, target);
        enum look seen = flags & 1 ? look(target, O_PATH, &fd, &host)
                                   : look_through(cache, target, flags & 2 ? O_PATH : O_RDONLY, &fd, &host);
        if (seen != PYTHON) { /* else nobody looks at it any more */
            check(target);
            plain(cache, target, &host, flags & 2);
            show(&target->dir->showing, &host);
            permitted(cache, &host, flags & 7);
        }
    }
    free(target);
    return 0;
}
