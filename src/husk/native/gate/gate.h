/* native/gate: a way for guests to ask about names without a system call (docs/design/025-gate.md). */
#ifndef HUSK_GATE_H
#define HUSK_GATE_H

#include "core.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "gate/layout.h"
#include "host/host.h"

/* entry.S: the guest's code. */
extern const char gate_code[], gate_code_end[];

#define GATE_MOST 64
#define GATE_MOST_THREADS 64 /* to find one anew takes a look at all threads of the process */
#define GATE_FIRST_PAUSE 4 /* ordinary calls that wake the poller */
#define GATE_LONGEST_PAUSE 4096 /* the same, after it was pushed aside again and again … */
#define GATE_IDLE_PAUSE 32 /* … and where it polled in vain, while nobody else wanted the processor */
#define GATE_MOST_ASKERS 32

/* One gate: one process image that has its pages. */
struct gate_process {
    pid_t tgid;           /* 0: free */
    int pidfd;            /* owned */
    uint64_t base;        /* in the guest */
    uint8_t *pages;       /* owned: husk's mapping of the same memory */
    int channel;          /* owned: the socket through which it gets descriptors; -1: it gets none */
    unsigned unread;      /* requests in a row for which a message was still in it */
    uint64_t names_entry; /* where the process's direct names are answered; 0: it has none */
    unsigned stubs;
    uint64_t sites[GATE_MOST_STUBS]; /* of the stubs: where their `syscall` instructions are */
    bool polled;          /* by the poller, which alone changes it; `awake` says so to the guest */
    unsigned declined;    /* in a row */
    uint32_t seen[GATE_SLOT_COUNT]; /* of each slot: the state that was looked at last. The poller's; so are … */
    unsigned lister;      /* … the slot whose listing is in the pages … */
    uint32_t listed;      /* … and its turn */
    /* Threads as the guest numbers them, in its pid namespace, and as husk does. The poller's. */
    struct gate_thread { pid_t inside, outside; } threads[GATE_MOST_THREADS];
    unsigned next_thread;
};

/* All gates of one listener. */
struct gate_keeper {
    pthread_mutex_t lock; /* of the gates; the poller holds it while it looks at them, again and again */
    struct gate_process gates[GATE_MOST];
    atomic_int closed;    /* for good: no gate opens any more */
    atomic_int wanted;    /* futex: the poller is to wake up */
    atomic_int waiting;   /* how many threads want the lock: the poller leaves it alone meanwhile */
    atomic_int ended;
    bool eager;
    bool lone;            /* there is one processor: nothing is polled, and gates are for calls without a name */
    cpu_set_t processors; /* the poller's: the thread that starts it may be pinned (notify/pin.c) */
    atomic_int receiver;  /* the processor that the receiver ran on last, and with it the guest: not the poller's */
    int started;          /* the poller's thread runs */
    pthread_t poller;
    Listener *listener;   /* borrowed; outlives the poller */
    /* Calls of threads, and where they call rt_sigaction. The leader's. */
    struct gate_counter {
        pid_t tid, tgid;
        unsigned count, failures, sigactions, opens;
        unsigned asks; /* all that a gate could have answered */
        bool asker;    /* its program asked often before */
        uint64_t sigaction;
    } counters[64];
    /* Programs that asked often: their later processes get a gate at once, before they start threads. The leader's. */
    struct gate_program { uint64_t identity[2]; } askers[GATE_MOST_ASKERS];
    unsigned next_asker;
    /* Sites by file, in the order they were found. */
    struct gate_site { uint64_t dev, ino, offset; int nr, between; } known[128];
    unsigned known_sites;
    struct { uint64_t dev, ino; } libraries[16]; /* whose sites are known */
    unsigned library_count;
    bool knows_sigaction; /* one of them is rt_sigaction's */
    unsigned asked, pause; /* calls since the poller slept; how many have to come before it is woken */
    unsigned odd_listings; /* asked for of what is no directory of the box. The poller's */
    atomic_ulong answered; /* requests that the poller answered */
    atomic_long processor_ns; /* the poller's processor time */
};

/* keeper.c. A listener without one has no gates. */
/* NULL: no memory. `eager`: for tests, which want gates used even where that is slower. */
struct gate_keeper *gate_keeper_new(Listener *listener, bool eager);
void gate_keeper_end(struct gate_keeper *keeper);        /* waits for the poller; then nothing is answered any more */
void gate_keeper_free(struct gate_keeper *keeper);
/* A call came by notification. True: it was answered, so that the thread makes it once more. */
bool gate_notified(struct gate_keeper *keeper, const struct seccomp_notif *notif);
void gate_executed(struct gate_keeper *keeper, pid_t tgid); /* a new program: its gate is gone */
void gate_close(struct gate_keeper *keeper); /* some guest will be told apart from the others: no gates any more */
void gate_lock(struct gate_keeper *keeper); /* of keeper->lock, which the poller lets go for it */
bool gate_is_over(const struct seccomp_notif *notif); /* does this native call close them? as in walls/gates.py */
PyObject *gate_py_use(Listener *self, PyObject *noargs);
/* Which of its arguments are the name and the buffer, and how large that is. NULL: it has no gate. */
struct gate_call { int nr; uint8_t name, out; uint16_t size; }; /* as in a stub */
const struct gate_call *gate_call(int nr);
bool gate_may_lead(int nr); /* has it a stub of some kind? */
bool gate_is_alone(int nr); /* direct names never answer it, so its site is led away when a gate opens */
bool gate_is_open_call(const struct gate_call *call);
bool gate_is_listing(const struct gate_call *call);
bool gate_needs_direct(const struct gate_call *call); /* only processes with direct names make it through a gate */
/* Does it change files or names, not a position alone? */
bool gate_is_change(const struct gate_call *call, const uint64_t args[6]);

/* install.c */
/* What lies around the call site of a notification. */
struct gate_view {
    struct host_mapping mapping;
    int between;        /* bytes of other instructions that the site has, as struct husk_site */
    bool led;           /* the site leads to direct names, by the guest's own doing */
    uint64_t inherited; /* the gate that a parent left, to which sites of this mapping lead; 0: none */
    uint64_t sigaction; /* where the process calls rt_sigaction, as far as is known; 0: nowhere */
};
/* False: this is no process whose sites can be changed now. */
bool gate_look(const struct gate_keeper *keeper, const struct seccomp_notif *notif, struct gate_view *view);
/* 0, or -errno. In either case the call was answered, unless it is REMOTE_TRACED. */
int gate_install(struct gate_keeper *keeper, struct gate_process *place, const struct seccomp_notif *notif,
                 const struct gate_view *view);
int gate_add_site(struct gate_keeper *keeper, struct gate_process *gate, const struct seccomp_notif *notif,
                  const struct gate_view *view);
void gate_remember_caller(struct gate_keeper *keeper, const struct seccomp_notif *notif); /* its site, by file */
bool gate_leads_sigaction(pid_t tid); /* does the process's call of rt_sigaction lead away already? Or it cannot */
void gate_remember_site(struct gate_keeper *keeper, const struct gate_site *found);
void gate_drop(struct gate_process *gate);
bool gate_is_there(const struct gate_process *gate); /* has its process still the pages? */

/* channel.c: how descriptors come through a gate */
/* One for a process that waits in this notified call; the guest has the other end, and is told which file that is. The
 * caller closes it. -1: it gets none. */
int gate_make_channel(int listener, const struct seccomp_notif *notif, struct stat *theirs);
/* Send `fd` with the sum of the request that it answers. False: nothing was sent. */
bool gate_send(struct gate_process *gate, int fd, uint64_t sum);
PyObject *gate_py_is_channel(PyObject *self, PyObject *args);

/* sites.c: all call sites of C libraries that may be led away. */
void gate_learn_interpreter(struct gate_keeper *keeper, int fd); /* a dynamic loader, and the C library beside it */
/* A process made calls from this mapping. */
void gate_learn_library(struct gate_keeper *keeper, pid_t tid, const struct host_mapping *mapping);
PyObject *gate_py_search_library(PyObject *self, PyObject *args);

/* poller.c */
void *gate_poll(void *keeper); /* the thread */
void gate_wake_poller(struct gate_keeper *keeper);
/* Copies the request out of a slot that the guest may be writing to, and answers it. `posted`: the slot's state. */
void gate_serve(struct gate_keeper *keeper, struct gate_process *gate, uint8_t *slot, uint32_t posted);

#endif
