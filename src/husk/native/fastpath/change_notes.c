/* native: what C has changed without Python, written down for it in the order in which it happened. Python reads it
 * before it notes a change of its own. */
#include "fastpath/change.h"

#include "fastpath/changes.h"
#include "layer/own_dirs.h"
#include "notify/notify.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_NOTED (256 << 10) /* bytes; then Python makes a change, and reads them all */

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

bool fast_notes_begin(struct fast_changes *changes, size_t size)
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

/* One program makes many files, so its status file stays open: that takes two fifths off the price. The open file is
 * that thread's for good. Once it is gone the file says so, even if its number is used again. */
int fast_notes_umask(struct fast_changes *changes, const struct fast_asker *asker)
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

static void put(struct fast_changes *changes, const char *text, size_t size)
{
    memcpy(changes->text + changes->size, text, size);
    changes->size += size;
}

static const char *above(const struct fast_resolved *path)
{
    return path->own ? fast_own_path(path->own) : path->dir->changes;
}

void fast_note(struct fast_changes *changes, char kind, const struct fast_resolved *path)
{
    if (kind)
        put(changes, &kind, 1);
    put(changes, above(path), strlen(above(path)));
    put(changes, path->name + path->cut, path->size - path->cut + 1);
}

size_t fast_noted_size(const struct fast_resolved *path)
{
    return 1 + strlen(above(path)) + path->size - path->cut + 1;
}

void fast_notes_end(struct fast_changes *changes)
{
    pthread_mutex_unlock(&changes->lock);
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
