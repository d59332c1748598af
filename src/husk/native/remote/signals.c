/* native: rt_sigaction(2), so that no signal can make a virtual call fail with EINTR.
 *
 * Goal. Linux never interrupts open() or stat() of an ordinary file. But a notified call can be interrupted until husk
 * has received it, and if the handler lacks SA_RESTART the guest sees EINTR. Receiving faster only makes that rarer.
 * Forcing SA_RESTART on every handler would restart read() and wait4(), and shells rely on these being interrupted.
 * Chosen: husk installs a handler without SA_RESTART *with* it, behind a thunk in the resident page. The thunk runs
 * before the handler, sees in the signal frame which call is about to be restarted, and turns it into EINTR exactly
 * when that is a call Linux would have interrupted (docs/design/002-signals.md).
 *
 * Nothing here is a security decision: the resident page belongs to the guest, and a guest that lies in it changes only
 * its own signal handling. That is why the call may be continued after its arguments were read. */
#include "remote/remote.h"

#include "call_table.h"
#include "loader/resident.h"
#include "notify/notify.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

struct kernel_sigaction {
    uint64_t handler, flags, restorer, mask;
};

#define RESIDENT(field) (HUSK_RESIDENT_DATA + offsetof(struct husk_resident, field))

/* Two threads of one guest may ask at once, and must not get the same slot. */
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static void unlock_in_child(void)
{
    slots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* the thread that held it is not in the child */
}

static __attribute__((constructor)) void install_fork_handler(void)
{
    pthread_atfork(NULL, NULL, unlock_in_child);
}

static bool is_thunk(uint64_t handler)
{
    return handler >= HUSK_THUNK(0) && handler < HUSK_THUNK(HUSK_THUNKS);
}

/* Faults of the thread itself interrupt no call, and programs often chain and inspect their handlers: unchanged. */
#define FAULTS (1ULL << (SIGSEGV - 1) | 1ULL << (SIGBUS - 1) | 1ULL << (SIGFPE - 1) | 1ULL << (SIGILL - 1) | \
                1ULL << (SIGTRAP - 1) | 1ULL << (SIGSYS - 1))

static bool is_function(uint64_t handler)
{
    return handler != (uint64_t)(uintptr_t)SIG_DFL && handler != (uint64_t)(uintptr_t)SIG_IGN;
}

/* The thunk that leads to `handler`, made if there is none yet. 0: there is no resident page, or no slot left. Slots
 * are never freed: a vfork child shares them with its parent, and 128 different handlers in one program are many. */
static uint64_t thunk_for(pid_t tid, uint64_t handler)
{
    uint64_t slots[HUSK_THUNKS], thunk = 0;
    pthread_mutex_lock(&slots_lock);
    if (guest_read(tid, RESIDENT(slot_handler), slots, sizeof slots) == sizeof slots) {
        for (int i = 0; i < HUSK_THUNKS; i++) {
            if (slots[i] == handler) {
                thunk = HUSK_THUNK(i);
                break;
            }
            if (slots[i] == 0) {
                if (guest_write(tid, RESIDENT(slot_handler[i]), &handler, sizeof handler) == sizeof handler)
                    thunk = HUSK_THUNK(i);
                break;
            }
        }
    }
    pthread_mutex_unlock(&slots_lock);
    return thunk;
}

static uint64_t thunked_signals(pid_t tid)
{
    uint64_t mask;
    return guest_read(tid, RESIDENT(thunked_mask), &mask, sizeof mask) == sizeof mask ? mask : 0;
}

/* Run the call in the guest with `act`, then show the guest its own handler where the old one was a thunk. */
static int run_and_translate(Listener *listener, const struct seccomp_notif *notif, uint64_t act)
{
    pid_t tid = notif->pid;
    const __u64 *a = notif->data.args;
    uint64_t old_address = a[ARG_rt_sigaction_oact];
    struct remote_thread thread;
    long result = 0;
    int error = remote_attach(tid);
    if (error)
        return error;
    if (notify_answer_value(listener->fd, notif->id, 0)) { /* the tid was reused */
        remote_abandon(tid);
        return 0;
    }
    error = remote_wait_stop(&thread, tid);
    if (!error)
        error = remote_block_signals(&thread);
    if (error)
        return 0; /* answered; the thread is gone */
    uint64_t args[6] = {a[ARG_rt_sigaction_sig], act, old_address, a[ARG_rt_sigaction_sigsetsize], listener->cookie,
                        listener->cookie};
    if (remote_call(&thread, SYS_rt_sigaction, args, &result))
        return 0;
    struct kernel_sigaction old;
    uint64_t real;
    if (result == 0 && guest_read(tid, old_address, &old, sizeof old) == sizeof old && is_thunk(old.handler) &&
        guest_read(tid, RESIDENT(slot_handler[(old.handler - HUSK_RESIDENT) / HUSK_THUNK_STRIDE]), &real,
                   sizeof real) == sizeof real) {
        old.handler = real;
        old.flags &= ~(uint64_t)SA_RESTART;
        guest_write(tid, old_address, &old, 2 * sizeof(uint64_t));
    }
    remote_finish(&thread, result);
    return 0;
}

/* Puts a thunk in the place of a handler without SA_RESTART, and notes in the resident page which signals have one.
 * False: `act` is to be installed as it came. */
static bool install_thunk(pid_t tid, uint64_t bit, uint64_t thunked, struct kernel_sigaction *act)
{
    if (act->flags & SA_RESTART) {
        if (!is_thunk(act->handler) && thunked & bit) {
            /* Only a new handler clears the bit: what a vfork child resets to the default is still a thunk in its
             * parent. */
            uint64_t without_this = thunked & ~bit;
            guest_write(tid, RESIDENT(thunked_mask), &without_this, sizeof without_this);
        }
        return false;
    }
    uint64_t thunk = is_thunk(act->handler) ? act->handler : thunk_for(tid, act->handler);
    if (!thunk)
        return false;
    uint64_t with_this = thunked | bit;
    act->handler = thunk;
    act->flags |= SA_RESTART;
    return guest_write(tid, RESIDENT(thunked_mask), &with_this, sizeof with_this) == sizeof with_this;
}

/* Each receiving thread has scratch memory of its own in every guest. */
static uint64_t scratch_address(void)
{
    static int receivers;
    static __thread int receiver = -1;
    if (receiver < 0)
        receiver = __atomic_fetch_add(&receivers, 1, __ATOMIC_RELAXED) % HUSK_SCRATCH_SLOTS;
    return RESIDENT(scratch[receiver]);
}

int remote_answer_sigaction(Listener *listener, const struct seccomp_notif *notif)
{
    pid_t tid = notif->pid;
    const __u64 *a = notif->data.args;
    int signal = (int)a[ARG_rt_sigaction_sig];
    uint64_t act_address = a[ARG_rt_sigaction_act], old_address = a[ARG_rt_sigaction_oact];
    struct kernel_sigaction act;

    if (signal < 1 || signal > 64 || a[ARG_rt_sigaction_sigsetsize] != 8 || FAULTS & 1ULL << (signal - 1))
        return notify_answer_continue(listener->fd, notif->id); /* the host kernel answers EINVAL itself */
    uint64_t bit = 1ULL << (signal - 1);
    bool handled = act_address && guest_read(tid, act_address, &act, sizeof act) == sizeof act &&
        is_function(act.handler);
    if (!handled && !old_address) /* back to the default, sixty times in every child of glibc's posix_spawn */
        return notify_answer_continue(listener->fd, notif->id);
    uint64_t thunked = thunked_signals(tid);
    if (!notify_is_valid(listener->fd, notif->id))
        return 0; /* what follows writes, and the tid may have been reused */
    bool patched = handled && install_thunk(tid, bit, thunked, &act);
    if (!old_address || !(thunked & bit)) {
        /* C libraries pass the kernel a copy of their own, on the stack. Changing that in place avoids the stop. */
        if (!patched || guest_write(tid, act_address, &act, sizeof act) == sizeof act)
            return notify_answer_continue(listener->fd, notif->id);
    }
    if (patched) {
        act_address = scratch_address();
        if (guest_write(tid, act_address, &act, sizeof act) != sizeof act)
            return notify_answer_continue(listener->fd, notif->id);
    }
    if (run_and_translate(listener, notif, act_address))
        /* another process traces it: the call runs unchanged */
        return notify_answer_continue(listener->fd, notif->id);
    return 0;
}
