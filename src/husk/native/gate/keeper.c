/* native: which processes get a gate, and when it is closed. All but gate_keeper_end is for the receiving thread. */
#include "gate/gate.h"

#include "fastpath/fastpath.h"
#include "notify/notify.h"
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_FAILURES 16
#define BUSY_PAUSE 64      /* the poller's pause from which on no gates are opened */
#define OPEN_AFTER 24      /* notified calls of a process before it gets a gate: opening one costs as much, 250 us */
#define DIRECT_AFTER 6     /* with direct names, which need no poller and are answered at any time */
#define LED_TRIES 3        /* looks at such a process before it gets a gate: after 6, 12 and 24 calls */
#define ASKER_CALLS 256     /* of a thread: its program is worth a gate from the second call on */
#define SPAWN_CALLS 16     /* of rt_sigaction: a thread that makes so many is a child of posix_spawn */

static const struct gate_call CALLS[] = {
    {SYS_newfstatat, 1, 2, sizeof(struct stat)}, {SYS_stat, 0, 1, sizeof(struct stat)},
    {SYS_lstat, 0, 1, sizeof(struct stat)},      {SYS_statx, 1, 4, 256},
    {SYS_access, 0, 0, 0},                       {SYS_faccessat, 1, 0, 0},
    {SYS_faccessat2, 1, 0, 0},                   {SYS_readlink, 0, 1, GATE_ANY_SIZE},
    {SYS_readlinkat, 1, 2, GATE_ANY_SIZE},       {SYS_open, 0, 1, GATE_DESCRIPTOR},
    {SYS_openat, 1, 2, GATE_DESCRIPTOR},         {SYS_getdents64, GATE_NO_NAME, 1, GATE_LISTING},
    {SYS_unlink, 0, 0, 0},                       {SYS_unlinkat, 1, 0, 0},
    {SYS_utimensat, 1, 0, GATE_TIMES},           {SYS_fchmod, GATE_NO_NAME, 0, 0},
    {SYS_chmod, 0, 0, 0},                        {SYS_fchmodat, 1, 0, 0},
    {SYS_mkdir, 0, 0, GATE_MAKES},               {SYS_mkdirat, 1, 0, GATE_MAKES},
    {SYS_rmdir, 0, 0, 0},
};

const struct gate_call *gate_call(int nr)
{
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (CALLS[i].nr == nr)
            return &CALLS[i];
    return NULL;
}

bool gate_is_open_call(const struct gate_call *call)
{
    return call && call->size == GATE_DESCRIPTOR;
}

bool gate_is_listing(const struct gate_call *call)
{
    return call && call->size == GATE_LISTING;
}

bool gate_needs_direct(const struct gate_call *call)
{
    return gate_is_open_call(call) || gate_is_listing(call);
}

/* It changes something, whatever its arguments are. */
static bool always_changes(const struct gate_call *call)
{
    switch (call->nr) {
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_utimensat:
    case SYS_fchmod:
    case SYS_chmod:
    case SYS_fchmodat:
    case SYS_mkdir:
    case SYS_mkdirat:
    case SYS_rmdir:
        return true;
    default:
        return false;
    }
}

bool gate_is_change(const struct gate_call *call, const uint64_t args[6])
{
    return gate_is_open_call(call) ? args[call->out] & O_CREAT : always_changes(call);
}

bool gate_is_alone(int nr)
{
    const struct gate_call *call = gate_call(nr);
    return call && (gate_is_listing(call) || always_changes(call));
}

bool gate_may_lead(int nr)
{
    /* As loader/names.c answers them. */
    static const int direct[] = {SYS_fstat, SYS_mmap, SYS_execve, SYS_clone3};
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
        if (direct[i] == nr)
            return true;
    return gate_call(nr) || nr == SYS_rt_sigaction;
}

struct gate_keeper *gate_keeper_new(Listener *listener, bool eager)
{
    cpu_set_t processors;
    if (sched_getaffinity(0, sizeof processors, &processors) < 0)
        return NULL;
    struct gate_keeper *keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        return NULL;
    keeper->processors = processors;
    pthread_mutex_init(&keeper->lock, NULL);
    keeper->listener = listener;
    keeper->eager = eager;
    keeper->lone = CPU_COUNT(&processors) < 2 && !eager; /* polling needs a processor of its own */
    keeper->pause = GATE_FIRST_PAUSE;
    return keeper;
}

void gate_lock(struct gate_keeper *keeper)
{
    atomic_fetch_add(&keeper->waiting, 1);
    pthread_mutex_lock(&keeper->lock);
    atomic_fetch_sub(&keeper->waiting, 1);
}

void gate_keeper_end(struct gate_keeper *keeper)
{
    if (!keeper)
        return;
    atomic_store(&keeper->closed, 1);
    atomic_store(&keeper->ended, 1);
    if (keeper->started) {
        gate_wake_poller(keeper);
        pthread_join(keeper->poller, NULL);
        keeper->started = 0;
    }
}

void gate_keeper_free(struct gate_keeper *keeper)
{
    if (!keeper)
        return;
    gate_keeper_end(keeper);
    for (int i = 0; i < GATE_MOST; i++)
        if (keeper->gates[i].tgid)
            gate_drop(&keeper->gates[i]);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
}

void gate_close(struct gate_keeper *keeper)
{
    if (!keeper || atomic_exchange(&keeper->closed, 1))
        return;
    fast_direct_close(keeper->listener->cache);
    gate_lock(keeper); /* what the poller has taken, it answers first */
    for (int i = 0; i < GATE_MOST; i++)
        if (keeper->gates[i].tgid)
            gate_drop(&keeper->gates[i]);
    pthread_mutex_unlock(&keeper->lock);
}

bool gate_is_over(const struct seccomp_notif *notif)
{
    uint32_t first = (uint32_t)notif->data.args[0];
    switch (notif->data.nr) {
    case SYS_seccomp:
        return first == SECCOMP_SET_MODE_STRICT || first == SECCOMP_SET_MODE_FILTER;
    case SYS_prctl:
        return first == PR_SET_SECCOMP;
    case SYS_ptrace:
        return first == PTRACE_TRACEME || first == PTRACE_ATTACH || first == PTRACE_SEIZE;
    default:
        return false;
    }
}

PyObject *gate_py_use(Listener *self, PyObject *noargs)
{
    (void)noargs;
    struct gate_keeper *keeper = self->gates;
    return Py_BuildValue("(kL)", keeper ? atomic_load(&keeper->answered) : 0UL,
                         keeper ? (long long)atomic_load(&keeper->processor_ns) : 0LL);
}

static struct gate_process *find(struct gate_keeper *keeper, pid_t tgid)
{
    for (int i = 0; i < GATE_MOST; i++)
        if (keeper->gates[i].tgid == tgid)
            return &keeper->gates[i];
    return NULL;
}

void gate_executed(struct gate_keeper *keeper, pid_t tgid)
{
    if (keeper && keeper->counters[tgid % 64].tid == tgid)
        keeper->counters[tgid % 64].asks = 0;
    struct gate_process *gate = keeper ? find(keeper, tgid) : NULL;
    if (!gate)
        return;
    gate_lock(keeper);
    gate_drop(gate);
    pthread_mutex_unlock(&keeper->lock);
}

static bool is_gone(const struct gate_process *gate)
{
    return syscall(SYS_pidfd_send_signal, gate->pidfd, 0, NULL, 0) < 0 && errno == ESRCH;
}

/* A free place, for which the gates of dead processes are dropped. */
static struct gate_process *place(struct gate_keeper *keeper)
{
    struct gate_process *found = find(keeper, 0);
    if (found)
        return found;
    gate_lock(keeper);
    for (int i = 0; i < GATE_MOST; i++)
        if (is_gone(&keeper->gates[i]))
            gate_drop(found = &keeper->gates[i]);
    pthread_mutex_unlock(&keeper->lock);
    return found;
}

static bool has_site(const struct gate_process *gate, uint64_t site)
{
    for (unsigned i = 0; i < gate->stubs; i++)
        if (gate->sites[i] == site)
            return true;
    return false;
}

/* It asked the ordinary way, because the poller sleeps or did not know. */
static void wanted(struct gate_keeper *keeper)
{
    if (++keeper->asked < keeper->pause)
        return;
    keeper->asked = 0;
    atomic_store(&keeper->receiver, sched_getcpu());
    gate_wake_poller(keeper);
}

/* The poller was pushed aside lately, or woken in vain: a gate would not be used soon. Each process that waits shortens
 * the time. A program that asks often is worth another try, and the poller is woken for it at once. */
static bool is_busy(struct gate_keeper *keeper, const struct gate_counter *counter)
{
    unsigned pause = __atomic_load_n(&keeper->pause, __ATOMIC_RELAXED);
    if (counter->asker && pause < GATE_LONGEST_PAUSE)
        __atomic_store_n(&keeper->pause, pause = GATE_FIRST_PAUSE, __ATOMIC_RELAXED);
    if (keeper->eager || pause <= BUSY_PAUSE)
        return false;
    __atomic_store_n(&keeper->pause, pause / 2, __ATOMIC_RELAXED);
    return true;
}

/* Answers of the host alone are quicker than any notification, however busy the machine is: at these calls a gate opens
 * for the sake of rt_sigaction. */
static bool wants_sigaction(struct gate_keeper *keeper, const struct gate_process *gate,
                            const struct seccomp_notif *notif, struct gate_counter *counter)
{
    uint64_t flags;
    if (notif->data.nr == SYS_clone3)
        return keeper->knows_sigaction &&
            guest_read(notif->pid, notif->data.args[0], &flags, sizeof flags) == sizeof flags && flags & CLONE_VFORK &&
            !gate_leads_sigaction(notif->pid);
    counter->sigaction = notif->data.instruction_pointer - 2;
    /* It is too late for this one, which runs in its parent's memory. */
    if (++counter->sigactions == SPAWN_CALLS)
        gate_remember_caller(keeper, notif);
    return gate || keeper->eager;
}

/* An ordinary call from a site that leads to a gate: it is asked for where the poller could answer. */
static bool has_asked(struct gate_keeper *keeper, int nr)
{
    if (gate_call(nr) && !keeper->lone)
        wanted(keeper);
    return false;
}

static struct gate_counter *counter_of(struct gate_keeper *keeper, pid_t tid)
{
    struct gate_counter *counter = &keeper->counters[tid % 64];
    if (counter->tid != tid)
        *counter = (struct gate_counter){.tid = tid, .tgid = guest_thread_group(tid)};
    return counter;
}

static bool is_asker(const struct gate_keeper *keeper, const struct gate_program *program)
{
    for (unsigned i = 0; i < GATE_MOST_ASKERS; i++)
        if (memcmp(&keeper->askers[i], program, sizeof *program) == 0)
            return true;
    return false;
}

/* Count one more; find out at the first whether the program asked often before, and remember if it does. Once more at
 * the second: another program may have been executed unasked. */
static void count_ask(struct gate_keeper *keeper, struct gate_counter *counter)
{
    struct gate_program program;
    unsigned asks = ++counter->asks;
    if ((asks > 2 && asks != ASKER_CALLS) || !fast_direct_identity(counter->tid, program.identity))
        return;
    counter->asker = is_asker(keeper, &program);
    if (asks == ASKER_CALLS && !counter->asker)
        keeper->askers[keeper->next_asker++ % GATE_MOST_ASKERS] = program;
}

/* Would the program rather have its library's call sites led away, the next time it is executed? It starts others, or
 * looks up many names. */
static bool is_worth_leading(struct gate_keeper *keeper, const struct seccomp_notif *notif)
{
    switch (notif->data.nr) {
    case SYS_execve:
    case SYS_clone3:
        return true;
    case SYS_open:
    case SYS_openat:
        return ++counter_of(keeper, notif->pid)->opens == DIRECT_AFTER;
    default:
        return false;
    }
}

bool gate_notified(struct gate_keeper *keeper, const struct seccomp_notif *notif)
{
    int nr = notif->data.nr;
    bool direct = keeper && fast_direct_is_open(keeper->listener->cache);
    bool led_only = gate_needs_direct(gate_call(nr)), asks = gate_call(nr) && (!led_only || direct);
    if (direct && !atomic_load(&keeper->closed) && is_worth_leading(keeper, notif))
        fast_direct_leads(keeper->listener->cache, notif->pid);
    if (!keeper || atomic_load(&keeper->closed) || (asks && keeper->lone && !direct) ||
        (!asks && nr != SYS_rt_sigaction && nr != SYS_clone3))
        return false;
    struct gate_process *gate = find(keeper, notif->pid);
    uint64_t site = notif->data.instruction_pointer - 2;
    if (gate && has_site(gate, site))
        return has_asked(keeper, nr);
    struct gate_counter *counter = counter_of(keeper, notif->pid);
    /* A thread that was started later uses its process's gate. A number that is another thread's by now wakes the
     * poller in vain at worst. */
    struct gate_process *group = !gate && counter->tgid > 0 ? find(keeper, counter->tgid) : NULL;
    if (group && has_site(group, site))
        return has_asked(keeper, nr);
    if (!asks && !wants_sigaction(keeper, gate, notif, counter))
        return false;
    if (asks && !keeper->lone)
        count_ask(keeper, counter);
    bool at_once = keeper->eager || (asks && counter->asker);
    unsigned patience = nr == SYS_clone3 ? 1 : at_once || !asks ? 2 : direct ? DIRECT_AFTER : OPEN_AFTER;
    if (++counter->count < patience << (keeper->eager ? 0 : counter->failures))
        return false;
    counter->count = 0;
    if (asks && !direct && is_busy(keeper, counter))
        return false;
    /* Each failure doubles the time to the next try: looking is not cheap. */
    if (counter->failures < MOST_FAILURES)
        counter->failures++;
    struct gate_view view = {.sigaction = counter->sigaction};
    if (!gate_look(keeper, notif, &view))
        return false;
    if (led_only && !view.led)
        return false;
    if (direct && !view.led)
        fast_direct_leads(keeper->listener->cache, notif->pid);
    /* Direct names are served already. What is left is the poller's, which has to be worth it. */
    if ((view.inherited || view.led) && direct && !keeper->eager) {
        if (counter->failures > LED_TRIES)
            counter->failures = LED_TRIES;
        if (!asks || keeper->lone || (counter->failures < LED_TRIES && !at_once) || is_busy(keeper, counter))
            return false;
    }
    /* Its process id is another process's by now, or it has executed another program without asking. */
    if (gate && (is_gone(gate) || !gate_is_there(gate))) {
        gate_lock(keeper);
        gate_drop(gate);
        pthread_mutex_unlock(&keeper->lock);
        gate = NULL;
    }
    int error;
    if (gate) {
        error = gate_add_site(keeper, gate, notif, &view);
    } else {
        if (!keeper->started && !keeper->lone)
            keeper->started = pthread_create(&keeper->poller, NULL, gate_poll, keeper) == 0;
        gate = keeper->started || keeper->lone ? place(keeper) : NULL;
        error = gate ? gate_install(keeper, gate, notif, &view) : REMOTE_TRACED;
    }
    if (!error)
        counter->failures = 0;
    return error != REMOTE_TRACED;
}
