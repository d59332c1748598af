/* native: blobs on their way into the store, many at a time.
 *
 * A blob is written under its own hash in a staging directory, which is nobody else's. When all are written and synced,
 * `publish` renames them to their places; only then do they exist. Nothing here ever opens a published blob for
 * writing, and a rename never replaces one. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEX 64
#define PLACE (6 + HEX + 1) /* "ab/cd/" and the hash */

static void write_hex(char *to, const uint8_t hash[32])
{
    for (int i = 0; i < 32; i++) {
        to[2 * i] = "0123456789abcdef"[hash[i] >> 4];
        to[2 * i + 1] = "0123456789abcdef"[hash[i] & 15];
    }
    to[HEX] = 0;
}

static void place_of(char place[PLACE], const char *hex)
{
    snprintf(place, PLACE, "%.2s/%.2s/%.64s", hex, hex + 2, hex);
}

/* 1: it is there; 0: not; -EUCLEAN: what is there cannot be it. */
static int present(int blobs, const char *hex, uint64_t size)
{
    char place[PLACE];
    struct stat s;
    place_of(place, hex);
    if (fstatat(blobs, place, &s, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return S_ISREG(s.st_mode) && (uint64_t)s.st_size == size ? 1 : -EUCLEAN;
}

static int write_whole(int fd, const uint8_t *from, size_t size)
{
    while (size) {
        ssize_t put = write(fd, from, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        from += put, size -= put;
    }
    return 0;
}

/* 1: staged; 0: it is known already; -errno. */
static int stage_blob(int stage, int blobs, const char *hex, const uint8_t *content, size_t size, bool change_mode)
{
    int there = present(blobs, hex, size);
    if (there)
        return there < 0 ? there : 0;
    int fd = openat(stage, hex, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
    if (fd < 0)
        return errno == EEXIST ? 0 : -errno; /* another file of this ingest has the same content */
    int error = write_whole(fd, content, size);
    if (!error && change_mode && fchmod(fd, 0444) < 0)
        error = -errno;
    if (close(fd) < 0 && !error)
        error = -errno;
    return error ? error : 1;
}

PyObject *tree_stage(Tree *tree, PyObject *args)
{
    /* change_mode: the umask takes bits of 0444 away. -> (blobs, bytes) that are new */
    unsigned first;
    Py_buffer sizes, hashes, content;
    int stage, blobs, change_mode;
    if (!PyArg_ParseTuple(args, "Iy*y*y*iip:stage", &first, &sizes, &hashes, &content, &stage, &blobs, &change_mode))
        return NULL;
    uint64_t count = sizes.len / 4, new_blobs = 0, new_bytes = 0;
    int error = 0;
    char hex[HEX + 1] = "";
    if (first > tree->todo_count || count > tree->todo_count - first || (uint64_t)hashes.len != count * 32)
        error = -EINVAL;
    Py_BEGIN_ALLOW_THREADS
    const uint8_t *from = content.buf, *end = from + content.len;
    for (uint64_t i = 0; i < count && !error; i++) {
        uint32_t size;
        memcpy(&size, (const char *)sizes.buf + 4 * i, 4);
        if (size == UINT32_MAX)
            continue;
        if (size > (size_t)(end - from)) {
            error = -EINVAL;
            break;
        }
        struct item *item = &tree->items[tree->todo[first + i]];
        memcpy(item->hash, (const uint8_t *)hashes.buf + 32 * i, 32);
        write_hex(hex, item->hash);
        int staged = stage_blob(stage, blobs, hex, from, size, change_mode);
        if (staged < 0)
            error = staged;
        else
            item->state |= ITEM_HASHED;
        if (staged > 0)
            new_blobs++, new_bytes += size;
        from += size;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&sizes);
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&content);
    if (error) {
        errno = -error;
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, hex);
    }
    return Py_BuildValue("(KK)", (unsigned long long)new_blobs, (unsigned long long)new_bytes);
}

PyObject *blobs_missing(Tree *tree, PyObject *args)
{
    /* The index names blobs that a collection may have taken since. */
    int blobs;
    unsigned long missing = 0;
    if (!PyArg_ParseTuple(args, "i:missing", &blobs))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (uint32_t i = 0; i < tree->count; i++) {
        struct item *item = &tree->items[i];
        char hex[HEX + 1];
        if (!S_ISREG(item->mode) || !(item->state & ITEM_HASHED))
            continue;
        write_hex(hex, item->hash);
        if (present(blobs, hex, item->size) != 1) {
            item->state &= ~ITEM_HASHED;
            missing++;
        }
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLong(missing);
}

struct names {
    char (*list)[HEX + 1]; /* owned */
    size_t count, room;
};

static int compare_hex(const void *a, const void *b)
{
    return memcmp(a, b, HEX);
}

static bool is_hash(const char *name)
{
    return strlen(name) == HEX && strspn(name, "0123456789abcdef") == HEX;
}

/* The names of a staging directory that belong to this part. Sorted, so that neighbours go to the same directory. */
static int list_stage(int stage, unsigned part, unsigned parts, struct names *names)
{
    int fd = openat(stage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        int error = -errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    int error = 0;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(directory))) {
        if (!is_hash(entry->d_name) || strtoul((char[]){entry->d_name[0], entry->d_name[1], 0}, NULL, 16) % parts != part)
            continue;
        if (names->count == names->room) {
            size_t room = names->room ? names->room * 2 : 4096;
            void *list = realloc(names->list, room * sizeof *names->list);
            if (!list) {
                error = -ENOMEM;
                break;
            }
            names->list = list, names->room = room;
        }
        memcpy(names->list[names->count++], entry->d_name, HEX + 1);
    }
    if (!entry && errno)
        error = -errno;
    closedir(directory);
    qsort(names->list, names->count, sizeof *names->list, compare_hex);
    return error;
}

static int move_blob(int stage, int blobs, const char *hex)
{
    char place[PLACE], parent[6];
    place_of(place, hex);
    for (int tries = 0;; tries++) {
        if (!renameat2(stage, hex, blobs, place, RENAME_NOREPLACE))
            return 0;
        if (errno == ENOENT && !tries) { /* the first blob of this directory */
            snprintf(parent, sizeof parent, "%.2s", hex);
            if (mkdirat(blobs, parent, 0755) < 0 && errno != EEXIST)
                return -errno;
            snprintf(parent, sizeof parent, "%.5s", place);
            if (mkdirat(blobs, parent, 0755) < 0 && errno != EEXIST)
                return -errno;
            continue;
        }
        /* File systems that cannot rename so can link, which never replaces either. */
        if (errno == EINVAL && linkat(stage, hex, blobs, place, 0) < 0 && errno != EEXIST)
            return -errno;
        if (errno == EINVAL || errno == EEXIST) /* another writer was first: its content is the same */
            return unlinkat(stage, hex, 0) < 0 ? -errno : 0;
        return -errno;
    }
}

PyObject *blobs_publish(PyObject *self, PyObject *args)
{
    (void)self;
    int stage, blobs, error;
    unsigned part, parts;
    struct names names = {0};
    if (!PyArg_ParseTuple(args, "iiII:publish_blobs", &stage, &blobs, &part, &parts))
        return NULL;
    if (!parts || part >= parts)
        return raise_errno(EINVAL);
    Py_BEGIN_ALLOW_THREADS
    error = list_stage(stage, part, parts, &names);
    for (size_t i = 0; i < names.count && !error; i++)
        error = move_blob(stage, blobs, names.list[i]);
    Py_END_ALLOW_THREADS
    free(names.list);
    return error ? raise_errno(-error) : PyLong_FromSize_t(names.count);
}

PyObject *sync_file_system(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, result;
    if (!PyArg_ParseTuple(args, "i:syncfs", &fd))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = syncfs(fd);
    Py_END_ALLOW_THREADS
    return result < 0 ? raise_errno(errno) : Py_NewRef(Py_None);
}
