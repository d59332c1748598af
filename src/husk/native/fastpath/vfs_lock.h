/* native: the vfs's lock, and what it guards of C's: the files that C has made in a layer and Python does not know of
 * yet. Whoever has the lock may look at a box's trees and change them: a thread of Python, or one that answers a guest
 * in C. */
#ifndef HUSK_VFS_LOCK_H
#define HUSK_VFS_LOCK_H

#include "core.h"

#include <semaphore.h>

typedef struct {
    PyObject_HEAD
    sem_t free;           /* 1: nobody has the lock */
    unsigned long owner;  /* the thread of Python that has it; 0: none, or C. Read and written with the GIL */
    unsigned depth;       /* how often that thread has taken it */
    PyObject *describe;   /* owned: tells the node of a file that C has made or removed; NULL: C does neither */
    PyObject *nodes;      /* owned dict: such nodes by number */
    /* The rest belongs to whoever has the lock. */
    int64_t room;         /* names that the guest may still make */
    uint64_t next, end;   /* numbers that were set aside for files that C makes */
    uint64_t entered;     /* how many records Python has read by now */
    size_t first, size;   /* records that wait */
    char *records;        /* owned; NULL: nothing was ever made */
} VfsLock;

/* A file that C has made in the directory `owner`, or removed from it: then `mode` is 0. */
struct fast_made {
    uint64_t owner, number;
    int64_t when_ns;
    uint32_t mode, size; /* of its name */
};

extern PyTypeObject *fast_lock_type;
extern PyType_Spec fast_lock_spec;

/* For C, without the GIL. It is never waited for: Python may keep it for long. */
bool fast_lock_try(VfsLock *lock);
void fast_lock_give(VfsLock *lock);
/* Can a name of that size be recorded? */
bool fast_lock_records(VfsLock *lock, size_t size);
/* And may one be made? Then fast_lock_number gives the real file's number. */
bool fast_lock_has_room(const VfsLock *lock);
uint64_t fast_lock_number(VfsLock *lock);
void fast_lock_record(VfsLock *lock, const struct fast_made *made, const char *name);

#endif
