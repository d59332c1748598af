/* native: what all rooms of husk._core share. Each room has a header of its own that names its doors.
 *
 * Names. Every external function, variable and struct begins with a prefix that tells its room:
 *
 *   core.c      core_                       the module object, errors, time
 *   notify/     notify_, guest_             the listener and its answers; a guest thread's memory and descriptors
 *   fastpath/   fast_                       calls answered without Python
 *   layer/      fast_                       the same in layers: names that the box has made or hidden
 *   direct/     fast_direct_, fast_py_      names and programs that guests need not ask for
 *   gate/       gate_                       questions that come by shared memory
 *   remote/     remote_                     calls made by a stopped guest thread
 *   trace/      trace_                      a census of what guests ask for
 *   host/       host_                       calls husk makes on the host
 *   store/      manifest_, tree_, blob_     the store's formats
 *   client/     client_                     husk, the command, a program of its own
 *   init/       init_                       husk-init, a program of its own
 *   loader/     loader_                     husk-loader, a program of its own
 *
 * `_py_` follows the prefix where Python calls the function, which then holds the GIL. The C struct of a Python class
 * has the class's name: Listener, Call, Recorder, Manifest, Tree, VfsLock. tests/unit/test_native_names.py checks the
 * built objects and the headers.
 *
 * Ownership. A function that returns a descriptor gives it to the caller. A descriptor argument stays the caller's
 * unless the declaration says otherwise. Errors in C are -errno. Code without the GIL never calls Python. */
#ifndef HUSK_CORE_H
#define HUSK_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "call_table.h" /* CALL_NUMBERS, from the registry */

/* Interrupts a waiting call of one of husk's own threads. Its handler does nothing. */
#define CORE_WAKE_SIGNAL (SIGRTMIN + 7)

/* Saturates: a guest can set a file's time up to the year 2446 (ext4), and 64 bits of nanoseconds end in 2262. Use it
 * to compare times. To show a time exactly use host_stat. */
static inline int64_t core_nanoseconds(struct timespec t)
{
    int64_t ns;
    if (__builtin_mul_overflow(t.tv_sec, 1000000000LL, &ns) || __builtin_add_overflow(ns, t.tv_nsec, &ns))
        return t.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

static inline int64_t core_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return core_nanoseconds(t);
}

#define CORE_RESTRICTING 8

/* One seccomp listener, and what its threads need to answer without Python. */
typedef struct {
    PyObject_HEAD
    int fd;                        /* owned */
    volatile int stopped;          /* set once; receivers leave at the next wake-up */
    struct fast_cache *cache;      /* a counted reference; NULL: every call goes to Python */
    uint64_t cookie;               /* marks husk's own remote calls for the filter */
    struct fast_changes *changes;  /* owned; what C changed on the host, until Python reads it */
    struct notify_leader *leader;  /* owned; which thread receives */
    struct remote_exec_table *execs; /* owned; programs that wait for their loader */
    struct remote_messages *messages; /* owned; headers of messages that guests' own threads send */
    int marks;                     /* atomic: some thread of the run has rules of its own (remote/restrict.c) */
    uint64_t restricting[CORE_RESTRICTING]; /* atomic: threads that husk makes take on such rules right now; 0: free */
    pid_t restrictors[CORE_RESTRICTING];    /* atomic: which threads of husk make them */
    struct gate_keeper *gates;     /* owned; NULL: guests ask by notification only */
    int loader_fd;                 /* borrowed */
    int mapped;                    /* network addresses have to be translated */
    int confined;                  /* a name that a guest slips into a native send leads nowhere */
    PyObject *recorder;            /* a strong reference to a Recorder (trace/trace.h); NULL: nothing is traced */
    uint64_t closing[(CALL_NUMBERS + 63) / 64]; /* native calls that are notified because they close gates */
    uint64_t shown[(CALL_NUMBERS + 63) / 64]; /* a bit for each call that Python must see, even if C could answer */
} Listener;

/* One received notification. Lives until answered. Answering twice is an error, which the kernel reports as ENOENT. */
typedef struct {
    PyObject_HEAD
    Listener *listener; /* strong reference */
    struct seccomp_notif notif;
    int64_t received_ns;
    int shown_tid; /* under trace: the thread's number in the box; else 0 */
    bool own;      /* under trace: husk itself made it in the guest's place */
    bool answered;
} Call;

PyObject *core_raise_errno(int error); /* sets OSError, returns NULL */

/* The end of a dealloc. An instance of a type that was made at run time holds a reference to it. */
static inline void core_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

#endif
