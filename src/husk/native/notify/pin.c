/* native: pinning a guest thread and its receiver to one processor while a descriptor is injected.
 *
 * A notification and its answer stay on one processor (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP). The injection of a
 * descriptor in between does not: the kernel wakes the guest, and then the receiver, on any idle processor. Waking an
 * idle processor costs about 70 µs on the virtual machines this was measured on, and an open paid it twice. So both
 * threads are pinned to this processor for those microseconds. The guest cannot notice: it waits in its call from
 * before the first change until after the last, and gets back exactly the affinity it had.
 *
 * Pinning costs several microseconds itself and gains nothing where the other processors are awake. So it is done only
 * after an injection without it was slow, and now and then left out again to measure. The receiver stays pinned from
 * one injection to the next as long as the same guest thread calls. It is unpinned when another thread calls, which may
 * run on another processor and would be pulled over, and before Python is entered. The guest never stays pinned: its
 * clones would inherit the affinity.
 * Rejected: SCHED_IDLE for receivers, which makes the scheduler count their processor as idle, but starves them under
 * load; pinning receivers for good, which strands them behind a busy guest; pinning only one of the two, after which
 * the other is woken elsewhere (seen in the scheduler's trace). */
#define _GNU_SOURCE
#include "notify/notify.h"

#include <sched.h>

#define SLOW_NS 20000 /* an idle processor had to be woken */
#define PINNED_ROUNDS 256

static __thread int pinned_rounds;   /* how many more injections to pin */
static __thread pid_t pinned_for;    /* the guest thread this receiver is pinned for; 0: it is not pinned */
static __thread cpu_set_t here, everywhere;

static bool pin_receiver(pid_t tid)
{
    static __thread bool known;
    int cpu = sched_getcpu();

    if (pinned_for == tid)
        return true;
    if (!known)
        known = sched_getaffinity(0, sizeof everywhere, &everywhere) == 0;
    if (!known || cpu < 0 || CPU_COUNT(&everywhere) < 2)
        return false;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    if (sched_setaffinity(0, sizeof here, &here) < 0)
        return false;
    pinned_for = tid;
    return true;
}

void notify_unpin_receiver(pid_t caller)
{
    if (!pinned_for || pinned_for == caller)
        return;
    sched_setaffinity(0, sizeof everywhere, &everywhere);
    pinned_for = 0;
}

void notify_pin_begin(struct notify_pin *pin, pid_t tid)
{
    pin->tid = 0;
    pin->began_ns = 0;
    if (pinned_rounds > 0 && pin_receiver(tid)) {
        pinned_rounds--;
        cpu_set_t both;
        if (sched_getaffinity(tid, sizeof pin->guest, &pin->guest) == 0) {
            CPU_AND(&both, &here, &pin->guest);
            /* Where this is refused, or the guest may not run on this processor, only the receiver is pinned. */
            if (CPU_COUNT(&both) && sched_setaffinity(tid, sizeof here, &here) == 0)
                pin->tid = tid;
        }
        return;
    }
    notify_unpin_receiver(0);
    pin->began_ns = core_now_ns();
}

void notify_pin_end(struct notify_pin *pin)
{
    if (pin->tid)
        sched_setaffinity(pin->tid, sizeof pin->guest, &pin->guest);
    else if (pin->began_ns && core_now_ns() - pin->began_ns > SLOW_NS)
        pinned_rounds = PINNED_ROUNDS;
    pin->tid = 0;
}
