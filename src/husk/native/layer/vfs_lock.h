/* native: the vfs's lock, and what it guards of C's: what C has changed in a layer and Python does not know of yet.
 * Whoever has the lock may look at a box's trees and change them: a thread of Python, or one that answers a guest in
 * C. */
#ifndef HUSK_VFS_LOCK_H
#define HUSK_VFS_LOCK_H

#include "core.h"

#include <semaphore.h>

typedef struct {
    PyObject_HEAD
    sem_t free;           /* 1: nobody has the lock */
    unsigned long owner;  /* the thread of Python that has it; 0: none, or C. Read and written with the GIL */
    unsigned depth;       /* how often that thread has taken it */
    PyObject *describe;   /* owned: tells the node of a file that C has made or removed; NULL: C changes nothing */
    PyObject *owners;     /* owned dict: the directories where C changes something, each first in a tuple, by owner */
    PyObject *nodes;      /* owned dict: the nodes of files by number */
    /* The rest belongs to whoever has the lock. */
    int64_t room;         /* names that the guest may still make */
    uint64_t next, end;   /* numbers that were set aside for files that C makes */
    uint64_t entered;     /* how many records Python has read by now */
    size_t first, size;   /* records that wait */
    char *records;        /* owned; NULL: nothing was ever made */
    int clock;            /* owned: a file without a name, by which the host dates changes; -1: none yet */
} VfsLock;

/* What C has done to a file of the directory `owner`, to a directory in it, or to itself. */
enum fast_deed {
    FAST_MADE, FAST_REMOVED, FAST_MODE_SET, FAST_MOVED, /* of files */
    FAST_DIRECTORY_MADE, FAST_DIRECTORY_REMOVED, FAST_DIRECTORY_DATED,
    FAST_DIRECTORY_BEGUN, /* one of the host has become the box's, who keeps its attributes from then on */
};
#define FAST_OMITTED INT64_MIN
struct fast_record {
    enum fast_deed deed;
    uint32_t mode;       /* of what was made, and FAST_MODE_SET; else 0 */
    uint64_t owner;
    uint64_t number;     /* FAST_REMOVED, 0: a file of the host was hidden. FAST_DIRECTORY_REMOVED: of that its owner */
    uint64_t to;         /* FAST_MOVED: the directory where it is now */
    int64_t when_ns;
    uint32_t size;       /* of its name; where it is about the owner itself, or FAST_MODE_SET, there is none … */
    uint32_t new_size;   /* … and of what follows: where FAST_MOVED the name it got; where something was removed or
                          * begun a struct stat of the host's; two times, in nanoseconds or omitted */
};

extern PyTypeObject *fast_lock_type;
extern PyType_Spec fast_lock_spec;

/* For C, without the GIL. It is never waited for: Python may keep it for long. */
bool fast_lock_try(VfsLock *lock);
void fast_lock_give(VfsLock *lock);
/* Can so many records, with so many bytes of names, be written? */
bool fast_lock_records(VfsLock *lock, size_t count, size_t size);
/* And may one be made? Then fast_lock_number gives the real file's number. */
bool fast_lock_has_room(const VfsLock *lock);
uint64_t fast_lock_number(VfsLock *lock);
void fast_lock_record(VfsLock *lock, const struct fast_record *record, const char *name, const void *more);
/* Now, as the host dates changes (vfs/clock.py). */
bool fast_lock_date(VfsLock *lock, int64_t *when_ns);

#endif
