/* native: walking a host directory into a tree. Reads names and metadata, no content. Follows no link, and reaches
 * nothing outside the directory.
 *
 * In C instead of os.scandir: a second ingest of an unchanged tree is only this walk, and should cost little more than
 * find(1). */
#include "store/tree.h"

#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { LEAVE_OUT = 1, SECRET = 2, LOOK_INSIDE = 3 };

struct pattern {
    const char *text;      /* borrowed from the caller's list; without the slashes at both ends */
    size_t size, head, tail; /* head, tail: length of the literal text at its beginning and end */
    int slashes, kind;     /* slashes: the pattern has one component more than that */
    bool anchored, directory, plain; /* anchored: matches from the root; plain: it has no wildcard */
    bool ends;             /* every name it matches ends with `last` */
    char last;
};

struct patterns {
    struct pattern *list; /* owned */
    Py_ssize_t count;
};

/* Most names match no pattern, and there are many patterns. Comparing one byte rejects nearly all of them, the literal
 * text at both ends most others. Only then fnmatch is called. */
static bool matches(const struct pattern *p, const char *path, size_t path_size, size_t name, bool directory)
{
    if ((p->ends && path[path_size - 1] != p->last) || (p->directory && !directory))
        return false;
    const char *text = path + name; /* the last `slashes + 1` components */
    for (int i = 0; i < p->slashes; i++) {
        if (text < path + 2)
            return false;
        for (text -= 2; text > path && *text != '/'; text--)
            ;
        text += *text == '/';
    }
    if (p->anchored && text != path)
        return false;
    size_t size = path + path_size - text;
    if (size < p->head + p->tail || memcmp(text, p->text, p->head) ||
        memcmp(text + size - p->tail, p->text + p->size - p->tail, p->tail))
        return false;
    return p->plain ? size == p->size : !fnmatch(p->text, text, FNM_PATHNAME);
}

static bool parse_patterns(PyObject *list, struct patterns *patterns)
{
    patterns->count = PyList_Size(list);
    patterns->list = patterns->count < 0 ? NULL : calloc(patterns->count + 1, sizeof *patterns->list);
    if (!patterns->list)
        return false;
    for (Py_ssize_t i = 0; i < patterns->count; i++) {
        struct pattern *p = &patterns->list[i];
        int anchored, directory;
        /* The texts live as long as the list, to which the caller holds a reference. */
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "yppi", &p->text, &anchored, &directory, &p->kind))
            return false;
        p->anchored = anchored, p->directory = directory;
        p->size = strlen(p->text);
        for (const char *c = p->text; *c; c++)
            p->slashes += *c == '/';
        p->head = strcspn(p->text, "*?[\\");
        p->plain = p->head == p->size;
        while (!p->plain && !strchr("*?[]\\", p->text[p->size - p->tail - 1]))
            p->tail++;
        if (p->plain)
            p->tail = 0;
        p->ends = p->size && (p->plain || p->tail);
        p->last = p->ends ? p->text[p->size - 1] : 0;
    }
    return true;
}

static bool xattr_is_wanted(const char *name)
{
    /* Labels of the host's security modules and its overlays say nothing about the image, and lists of host users
     * (ACLs) are wrong inside it. */
    return !strncmp(name, "user.", 5) || !strcmp(name, "security.capability");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* xattrs as the manifest has them: sorted by name; each u16 size of name, u32 size of value, name, value. */
int tree_item_xattrs(Tree *tree, struct tree_item *item, int fd)
{
    char names[65536 + 1];
    const char *wanted[4096];
    size_t count = 0;
    ssize_t size = flistxattr(fd, names, sizeof names - 1);
    item->xattrs_size = 0;
    if (size <= 0)
        return size < 0 && errno != ENOTSUP && errno != EPERM ? -errno : 0;
    names[size] = 0;
    for (const char *name = names; name < names + size; name += strlen(name) + 1)
        if (xattr_is_wanted(name) && count < sizeof wanted / sizeof *wanted)
            wanted[count++] = name;
    if (!count)
        return 0;
    qsort(wanted, count, sizeof *wanted, compare_names);
    size_t room = count * (6 + 256 + 65536), used = 0;
    uint8_t *all = malloc(room); /* room for names and values of the largest size Linux allows */
    int error = all ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && !error; i++) {
        uint16_t name_size = strlen(wanted[i]);
        ssize_t got = fgetxattr(fd, wanted[i], all + used + 6 + name_size, 65536);
        if (got < 0) {
            if (errno != ENODATA) /* removed in between */
                error = -errno;
            continue;
        }
        uint32_t value_size = got;
        memcpy(all + used, &name_size, 2);
        memcpy(all + used + 2, &value_size, 4);
        memcpy(all + used + 6, wanted[i], name_size);
        used += 6 + name_size + value_size;
    }
    if (!error && !(item->xattrs = tree_keep(tree, all, used)))
        error = -ENOMEM;
    if (!error)
        item->xattrs_size = used;
    free(all);
    return error;
}

/* One name of the open directory `fd`. -errno ends the walk. */
static int scan_name(Tree *tree, int fd, const char *path, size_t path_size, size_t name,
                     const struct patterns *patterns)
{
    struct stat s;
    char target[MANIFEST_PATH_LIMIT + 2];
    if (fstatat(fd, path + name, &s, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT) /* removed in between: not an error */
            tree_trouble(tree, path, errno);
        return 0;
    }
    const char *kept = tree_keep(tree, path, path_size);
    struct tree_item *item = kept ? tree_new_item(tree) : NULL;
    if (!item)
        return -ENOMEM;
    item->path = kept, item->path_size = path_size;
    tree_item_stat(item, &s);
    for (Py_ssize_t i = 0; i < patterns->count; i++) {
        const struct pattern *p = &patterns->list[i];
        if (!matches(p, path, path_size, name, S_ISDIR(s.st_mode)))
            continue;
        if (p->kind == LOOK_INSIDE && S_ISREG(s.st_mode))
            item->state |= ITEM_MARKED;
        else if (p->kind != LOOK_INSIDE) {
            item->state |= ITEM_DROPPED | (p->kind == SECRET ? ITEM_MARKED : 0);
            return 0;
        }
    }
    if (S_ISLNK(s.st_mode)) {
        ssize_t got = readlinkat(fd, path + name, target, sizeof target);
        if (got < 0 || got > MANIFEST_PATH_LIMIT) {
            tree_trouble(tree, path, got < 0 ? errno : ENAMETOOLONG);
            return 0;
        }
        item->target = tree_keep(tree, target, got);
        item->target_size = got;
        if (!item->target)
            return -ENOMEM;
    }
    return 0;
}

static int scan_directory(Tree *tree, int root, uint32_t id, const struct patterns *patterns, char *buffer, size_t room)
{
    struct tree_item *dir = &tree->items[id];
    const char *dir_path = dir->path;
    char path[MANIFEST_PATH_LIMIT + 1];
    struct stat s;
    int fd = host_open_beneath(root, dir_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) {
        tree_trouble(tree, dir_path, -fd);
        return 0;
    }
    int error = 0;
    if (fstat(fd, &s) < 0 || s.st_dev != dir->dev || s.st_ino != dir->ino)
        tree_trouble(tree, dir_path, ESTALE); /* it was replaced by another directory */
    else if ((error = tree_item_xattrs(tree, dir, fd)) == 0) {
        size_t base = dir->path_size;
        memcpy(path, dir_path, base);
        if (base)
            path[base++] = '/';
        long got;
        while ((got = syscall(SYS_getdents64, fd, buffer, room)) > 0) {
            for (long at = 0; at < got && !error;) {
                struct dirent64 *entry = (struct dirent64 *)(buffer + at);
                at += entry->d_reclen;
                size_t size = strlen(entry->d_name);
                if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
                    continue;
                if (base + size > MANIFEST_PATH_LIMIT) {
                    tree_trouble(tree, dir_path, ENAMETOOLONG);
                    continue;
                }
                memcpy(path + base, entry->d_name, size + 1);
                error = scan_name(tree, fd, path, base + size, base, patterns);
            }
        }
        if (got < 0)
            tree_trouble(tree, dir_path, errno);
    }
    close(fd);
    return error;
}

PyObject *tree_py_scan(Tree *tree, PyObject *args)
{
    int root, cross_mounts, error = 0;
    PyObject *list;
    struct patterns patterns;
    struct stat s;
    if (!PyArg_ParseTuple(args, "iO!p:scan", &root, &PyList_Type, &list, &cross_mounts))
        return NULL;
    if (tree->count) {
        PyErr_SetString(PyExc_RuntimeError, "the tree is not empty");
        return NULL;
    }
    if (fstat(root, &s) < 0)
        return core_raise_errno(errno);
    if (!parse_patterns(list, &patterns)) {
        free(patterns.list);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    size_t room = 256 * 1024;
    char *buffer = malloc(room);
    struct tree_item *top = buffer ? tree_new_item(tree) : NULL;
    if (top && (top->path = tree_keep(tree, "", 0)))
        tree_item_stat(top, &s);
    else
        error = -ENOMEM;
    /* The list itself is the queue: a directory's entries are appended, and scanned in their turn. */
    for (uint32_t id = 0; id < tree->count && !error; id++) {
        const struct tree_item *item = &tree->items[id];
        if (S_ISDIR(item->mode) && !(item->state & ITEM_DROPPED) && (cross_mounts || item->dev == s.st_dev))
            error = scan_directory(tree, root, id, &patterns, buffer, room);
    }
    free(buffer);
    Py_END_ALLOW_THREADS
    free(patterns.list);
    return error ? core_raise_errno(-error) : Py_NewRef(Py_None);
}
