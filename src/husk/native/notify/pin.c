/* native: keeping a guest thread and its receiver on one processor while a descriptor is handed over.
 *
 * A notification and its answer stay on one processor (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP), but the hand-over of a
 * descriptor in between does not: the kernel wakes the guest, and then us, wherever a processor idles. Waking an idle
 * processor costs about 70 µs on the virtual machines this was measured on, and an open paid it twice. So both are bound
 * to this processor for those microseconds. The guest cannot notice: it waits in its call from before the first change
 * until after the last, and gets back exactly the mask it had.
 *
 * Binding costs several microseconds itself and gains nothing where the other processors are awake. So it is done only
 * after a hand-over without it was slow, and now and then left out again to see. The receiver's own half is kept from one
 * hand-over to the next, as long as the same guest thread goes on asking: it is let go when another one calls, which may
 * run on another processor and would be pulled over, and before Python is entered. The guest's half is never kept: what
 * it clones would inherit it.
 * Rejected: SCHED_IDLE for receivers, which makes the scheduler count their processor as idle, but starves them under
 * load; binding receivers for good, which strands them behind a busy guest; binding only one of the two, after which
 * the other is woken elsewhere (seen in the scheduler's trace). */
#define _GNU_SOURCE
#include "core.h"

#include "notify/pin.h"

#include <sched.h>

#define SLOW_NS 20000 /* an idle processor had to be woken */
#define BOUND_ROUNDS 256

static __thread int bound_rounds; /* how many more hand-overs to bind */
static __thread pid_t burst;      /* whose calls this thread is bound for; 0: it is not bound */
static __thread cpu_set_t here, everywhere;

static bool bind_self(pid_t tid)
{
    static __thread bool known;
    int cpu = sched_getcpu();

    if (burst == tid)
        return true;
    if (!known)
        known = sched_getaffinity(0, sizeof everywhere, &everywhere) == 0;
    if (!known || cpu < 0 || CPU_COUNT(&everywhere) < 2)
        return false;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    if (sched_setaffinity(0, sizeof here, &here) < 0)
        return false;
    burst = tid;
    return true;
}

void pin_let_go(pid_t caller)
{
    if (!burst || burst == caller)
        return;
    sched_setaffinity(0, sizeof everywhere, &everywhere);
    burst = 0;
}

void pin_if_it_helps(struct pin *pin, pid_t tid)
{
    pin->tid = 0;
    pin->began_ns = 0;
    if (bound_rounds > 0 && bind_self(tid)) {
        bound_rounds--;
        cpu_set_t both;
        if (sched_getaffinity(tid, sizeof pin->guest, &pin->guest) == 0) {
            CPU_AND(&both, &here, &pin->guest);
            /* Where this is refused, or the guest keeps off this processor, only our own half helps. */
            if (CPU_COUNT(&both) && sched_setaffinity(tid, sizeof here, &here) == 0)
                pin->tid = tid;
        }
        return;
    }
    pin_let_go(0);
    pin->began_ns = now_ns();
}

void pin_release(struct pin *pin)
{
    if (pin->tid)
        sched_setaffinity(pin->tid, sizeof pin->guest, &pin->guest);
    else if (pin->began_ns && now_ns() - pin->began_ns > SLOW_NS)
        bound_rounds = BOUND_ROUNDS;
    pin->tid = 0;
}
