/* native: keeping a guest thread and its receiver on one processor while a descriptor is handed over.
 *
 * A notification and its answer stay on one processor (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP), but the hand-over of a
 * descriptor in between does not: the kernel wakes the guest, and then us, wherever a processor idles. Waking an idle
 * processor costs about 70 µs on the virtual machines this was measured on, and an open paid it twice. So both are bound
 * to this processor for those microseconds. The guest cannot notice: it waits in its call from before the first change
 * until after the last, and gets back exactly the mask it had.
 *
 * Binding costs several microseconds itself and gains nothing where the other processors are awake. So it is done only
 * after a hand-over without it was slow, and now and then left out again to see.
 * Rejected: SCHED_IDLE for receivers, which makes the scheduler count their processor as idle, but starves them under
 * load; binding receivers for good, which strands them behind a busy guest. */
#define _GNU_SOURCE
#include "core.h"

#include "pin.h"

#include <sched.h>

#define SLOW_NS 20000 /* an idle processor had to be woken */
#define BOUND_ROUNDS 64

static __thread int bound_rounds; /* how many more hand-overs to bind */

static bool bind_both(struct pin *pin, pid_t tid)
{
    static __thread bool known;
    static __thread cpu_set_t mine; /* as it was before we ever bound ourselves */
    cpu_set_t here;
    int cpu = sched_getcpu();

    if (!known)
        known = sched_getaffinity(0, sizeof mine, &mine) == 0;
    if (!known || cpu < 0 || CPU_COUNT(&mine) < 2 || sched_getaffinity(tid, sizeof pin->guest, &pin->guest) < 0 ||
        !CPU_ISSET(cpu, &pin->guest))
        return false;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    if (sched_setaffinity(0, sizeof here, &here) < 0)
        return false;
    pin->own = mine;
    pin->tid = tid;
    sched_setaffinity(tid, sizeof here, &here); /* where this is refused, only our own half helps */
    return true;
}

bool pin_if_it_helps(struct pin *pin, pid_t tid)
{
    pin->tid = 0;
    if (bound_rounds > 0 && bind_both(pin, tid)) {
        bound_rounds--;
        return true;
    }
    pin->began_ns = now_ns();
    return false;
}

void pin_release(struct pin *pin)
{
    if (!pin->tid) {
        if (now_ns() - pin->began_ns > SLOW_NS)
            bound_rounds = BOUND_ROUNDS;
        return;
    }
    sched_setaffinity(pin->tid, sizeof pin->guest, &pin->guest);
    sched_setaffinity(0, sizeof pin->own, &pin->own);
    pin->tid = 0;
}
