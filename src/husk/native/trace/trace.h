/* native/trace: a census of what guests ask for. Under trace the filter notifies every call; what is native is noted
 * here and continued at once (docs/design/014-tracing.md).
 *
 * Only the leading receiver comes here (notify/leader.c), so nothing is locked; `trace_own_begin` alone is called by
 * others. Python reads the tables when the receivers have left. */
#ifndef HUSK_TRACE_H
#define HUSK_TRACE_H

#include "core.h"

#include <linux/filter.h>
#include <sys/types.h>

#define TRACE_SLOTS 64          /* a program's calls over time, in so many equal parts of the run */
#define TRACE_TASKS 16384       /* threads that are known at a time */
#define TRACE_RUNS 8192         /* programs in one trace */
#define TRACE_KINDS 32768       /* calls with different telling values */
#define TRACE_ADDRESSES 1024    /* different socket addresses in calls that C answers */
#define TRACE_ADDRESS 128       /* bytes of one, as Linux's sockaddr_storage */
#define TRACE_TEXT 1024         /* bytes of a program's arguments that are kept */
#define TRACE_PAST 16           /* calls of a thread that are remembered, for signals */
#define TRACE_OWN 8             /* threads that may make a call for husk at the same time */
#define TRACE_NONE UINT32_MAX

enum trace_way { TRACE_NATIVE, TRACE_REFUSED, TRACE_ANSWERED };

struct trace_call {
    int nr;
    uint64_t args[4];       /* the first four */
};

/* A thread of a guest. */
struct trace_task {
    pid_t tid, tgid;        /* on the host */
    int shown;              /* its number in the box */
    uint32_t run;           /* its program, or TRACE_NONE: the table was full */
    uint32_t next;          /* in its bucket, or in the list of free ones */
    bool loading;           /* its calls are husk's own, until the loader leaves */
    uint32_t received;      /* so many calls; the last of them, the newest at (received - 1) % TRACE_PAST: */
    struct trace_call past[TRACE_PAST];
};

/* A process, from one start of a program to the next. */
struct trace_run {
    int pid, parent;        /* in the box; 0: not known */
    pid_t tgid;             /* on the host */
    int status;             /* given to exit; -1: not seen */
    bool executed;          /* the program's name and arguments are known */
    uint32_t threads;       /* known tasks of the process */
    uint64_t count;
    int64_t began_ns, ended_ns;
    uint32_t slots[TRACE_SLOTS];
    uint32_t argv_size, exe_size;
    char *texts;            /* owned: argv, each with its NUL, then the path of the program; NULL: none */
};

/* A call with one set of telling values. */
struct trace_kind {
    int nr, way, error;
    uint64_t values[6];     /* those that tell nothing are 0 */
    uint64_t count;
    uint64_t args[6];       /* of the first such call … */
    int first;              /* … and who made it, as the box numbers threads */
    uint32_t next;
};

struct trace_address {
    int nr;
    uint32_t size;
    uint64_t count;
    uint8_t bytes[TRACE_ADDRESS];
};

/* A line of the log. Python unpacks it: "<qiHBB6Q". */
struct trace_line {
    int64_t when_ns;
    int32_t tid;
    uint16_t nr;
    uint8_t way, error;
    uint64_t args[6];
};

typedef struct {
    PyObject_HEAD
    struct sock_filter *rules; /* owned: the box's ordinary filter, which says what becomes of a call */
    size_t rules_count;
    uint8_t telling[CALL_NUMBERS]; /* a bit for each argument whose value is told apart */
    int64_t began_ns, slot_ns;
    struct trace_task *tasks;  /* owned, as everything below */
    uint32_t *task_buckets, task_free, task_count;
    struct trace_run *runs;
    uint32_t run_count;
    struct trace_kind *kinds;
    uint32_t *kind_buckets, kind_count;
    uint64_t unsorted[CALL_NUMBERS][3]; /* calls whose values had no room, by way */
    struct trace_address *addresses;
    uint32_t address_count;
    struct trace_line *lines;  /* grows to `lines_most` */
    size_t lines_count, lines_room, lines_most;
    uint64_t lost_lines, lost_runs, lost_tasks, lost_addresses;
    int own[TRACE_OWN];        /* threads that make a call for husk; 0: free. Atomic */
} Recorder;

/* recorder.c: the Python class. */
extern PyTypeObject *trace_recorder_type;
extern PyType_Spec trace_recorder_spec;

/* received.c. True: the call has been written down and answered. Otherwise whoever answers it writes it down. */
bool trace_answer(Recorder *recorder, int listener, const struct seccomp_notif *notif);
void trace_answered_in_c(Recorder *recorder, const struct seccomp_notif *notif);
/* Did husk itself make this call? Stores the thread's number in the box in `shown_tid`. */
bool trace_caller(Recorder *recorder, const struct seccomp_notif *notif, int *shown_tid);
void trace_loader_asked(Recorder *recorder, pid_t tid); /* its calls are husk's own until the loader leaves */
/* Between both, a call of the thread is husk's own. `recorder` may be NULL. */
void trace_own_begin(Recorder *recorder, pid_t tid);
void trace_own_end(Recorder *recorder, pid_t tid);

/* rules.c: a small interpreter of the filters that walls/filter.py makes. */
bool trace_rules_are_sound(const struct sock_filter *rules, size_t count);
uint32_t trace_rules_run(const struct sock_filter *rules, size_t count, const struct seccomp_data *data);

/* tasks.c */
struct trace_task *trace_task_get(Recorder *recorder, pid_t tid); /* NULL: the table is full, or it is gone */
void trace_task_drop(Recorder *recorder, struct trace_task *task);
void trace_process_ended(Recorder *recorder, struct trace_task *task, int status);
void trace_program_begins(Recorder *recorder, struct trace_task *task); /* the loader is about to leave */

/* interrupted.c: a signal thunk asks whether the call that it interrupted had begun. */
bool trace_call_had_begun(const struct trace_task *task, pid_t tid, const uint64_t args[6]);

#endif
