/* native: writing blobs into the store, many at a time.
 *
 * A blob is written as ab/<hash> in a staging directory that only this ingest uses. When all blobs are written and
 * synced, `publish` renames them to the same place below blake3/; only then do they exist. Where the store has no
 * directory ab yet, the whole staged directory is renamed: one rename instead of hundreds. Nothing here ever opens a
 * published blob for writing, and a rename never replaces one. */
#include "store/tree.h"

#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define HEX 64
#define PLACE (3 + HEX + 1) /* "ab/" and the hash; both in the stage and in the store */
#define FOLDERS 256

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
    memcpy(place, hex, 2);
    place[2] = '/';
    memcpy(place + 3, hex, HEX + 1);
}

/* 1: the blob is there; 0: it is not; -EUCLEAN: another kind of file, or one of another size, has its name. */
static int present(int blobs, const char *place, uint64_t size)
{
    struct stat s;
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

/* Makes a new file, and its directory if there is none yet. The caller closes it. -errno */
static int create_in_folder(int top, const char *place)
{
    const char folder[3] = {place[0], place[1], 0};
    for (int tries = 0;; tries++) {
        int fd = openat(top, place, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
        if (fd >= 0)
            return fd;
        if (errno != ENOENT || tries)
            return -errno;
        if (mkdirat(top, folder, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
}

/* 1: staged; 0: the store or this ingest has it already; -errno. */
static int stage_blob(int stage, int blobs, const char *hex, const uint8_t *content, size_t size, bool change_mode)
{
    char place[PLACE];
    place_of(place, hex);
    int there = present(blobs, place, size);
    if (there)
        return there < 0 ? there : 0;
    int fd = create_in_folder(stage, place);
    if (fd < 0)
        return fd == -EEXIST ? 0 : fd; /* EEXIST: another file of this ingest has the same content */
    int error = write_whole(fd, content, size);
    if (!error && change_mode && fchmod(fd, 0444) < 0)
        error = -errno;
    if (close(fd) < 0 && !error)
        error = -errno;
    return error ? error : 1;
}

PyObject *tree_py_stage(Tree *tree, PyObject *args)
{
    /* change_mode: needed if the umask clears bits of 0444. -> (blobs, bytes) that are new */
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
        struct tree_item *item = &tree->items[tree->todo[first + i]];
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

PyObject *tree_py_missing(Tree *tree, PyObject *args)
{
    /* The index may name blobs that a collection has deleted since. */
    int blobs;
    unsigned long missing = 0;
    if (!PyArg_ParseTuple(args, "i:missing", &blobs))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (uint32_t i = 0; i < tree->count; i++) {
        struct tree_item *item = &tree->items[i];
        char hex[HEX + 1], place[PLACE];
        if (!S_ISREG(item->mode) || !(item->state & ITEM_HASHED))
            continue;
        write_hex(hex, item->hash);
        place_of(place, hex);
        if (present(blobs, place, item->size) != 1) {
            item->state &= ~ITEM_HASHED;
            missing++;
        }
    }
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLong(missing);
}

static bool is_hash(const char *name)
{
    return strlen(name) == HEX && strspn(name, "0123456789abcdef") == HEX;
}

/* Moves one blob to its place in a directory that exists. -errno */
static int move_blob(int stage, int blobs, const char *hex)
{
    char place[PLACE];
    place_of(place, hex);
    if (!renameat2(stage, place, blobs, place, RENAME_NOREPLACE))
        return 0;
    /* File systems without RENAME_NOREPLACE can link, which never replaces a file either. */
    if (errno == EINVAL && !linkat(stage, place, blobs, place, 0))
        errno = EEXIST;
    if (errno != EEXIST) /* EEXIST: our link, or another writer was first; its content is the same */
        return -errno;
    return unlinkat(stage, place, 0) < 0 ? -errno : 0;
}

static int move_each(int stage, int blobs, const char *folder)
{
    int fd = openat(stage, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (!directory) {
        int error = -errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    int error = 0;
    struct dirent *entry;
    /* Removing the name that readdir has just returned does not disturb the listing. */
    while (!error && (errno = 0, (entry = readdir(directory)))) {
        if (is_hash(entry->d_name) && !strncmp(entry->d_name, folder, 2))
            error = move_blob(stage, blobs, entry->d_name);
    }
    if (!error)
        error = -errno;
    closedir(directory);
    return error;
}

/* Publishes all blobs staged in one of the 256 directories. -errno */
static int publish_folder(int stage, int blobs, const char *folder)
{
    /* ENOENT: nothing is staged here */
    if (!renameat2(stage, folder, blobs, folder, RENAME_NOREPLACE) || errno == ENOENT)
        return 0;
    if (errno == EINVAL) { /* the file system has no RENAME_NOREPLACE */
        if (mkdirat(blobs, folder, 0755) < 0 && errno != EEXIST)
            return -errno;
    } else if (errno != EEXIST)
        return -errno;
    return move_each(stage, blobs, folder);
}

PyObject *blob_py_publish(PyObject *self, PyObject *args)
{
    (void)self;
    int stage, blobs, error = 0;
    unsigned part, parts;
    if (!PyArg_ParseTuple(args, "iiII:publish_blobs", &stage, &blobs, &part, &parts))
        return NULL;
    if (part >= parts || parts > FOLDERS)
        return core_raise_errno(EINVAL);
    Py_BEGIN_ALLOW_THREADS
    for (unsigned number = part; number < FOLDERS && !error; number += parts) {
        char folder[12];
        snprintf(folder, sizeof folder, "%02x", number);
        error = publish_folder(stage, blobs, folder);
    }
    Py_END_ALLOW_THREADS
    return error ? core_raise_errno(-error) : Py_NewRef(Py_None);
}

PyObject *blob_py_syncfs(PyObject *self, PyObject *args)
{
    (void)self;
    int fd, result;
    if (!PyArg_ParseTuple(args, "i:syncfs", &fd))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = syncfs(fd);
    Py_END_ALLOW_THREADS
    return result < 0 ? core_raise_errno(errno) : Py_NewRef(Py_None);
}
