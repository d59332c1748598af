/* native: leader and followers. The leader receives, answers what C can answer, and goes into Python with the rest.
 *
 * Several threads in the receiving ioctl would be simplest, but a notification wakes all of them. Handing the lead over
 * at every call for Python costs a wake-up on another processor each time, and a cold cache; most such calls take
 * microseconds. So the leader stays leader while it is in Python, and one follower, the deputy, watches it. Only when a
 * call lasts (a large file is copied, a host file system is slow) does the deputy become leader; the old leader follows
 * when it comes back. The price: behind such a call others wait for up to two looks of the deputy. */
#include "notify/notify.h"

#include <pthread.h>
#include <stdlib.h>

#define LONG_NS 3000000LL           /* a leader that is in Python for this long is replaced */
#define FIRST_LOOK_NS 3000000LL     /* the deputy's pause while there is work … */
#define IDLE_LOOK_NS 96000000LL     /* … growing to this while there is none */

enum state { NO_LEADER, RECEIVING, IN_PYTHON };

struct notify_leader {
    int state;                /* enum state, atomic */
    pthread_t thread;         /* the leader, or the last one */
    int64_t since_ns;         /* when the leader went into Python */
    unsigned long rounds;     /* how often it did, so that the deputy sees work */
    pthread_mutex_t deputy;   /* held by the deputy; the other followers queue for it */
    pthread_mutex_t guard;    /* of `change` */
    pthread_cond_t change;
};

struct notify_leader *notify_leader_new(void)
{
    struct notify_leader *leader = calloc(1, sizeof *leader);
    if (!leader)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&leader->change, &attributes);
    pthread_mutex_init(&leader->deputy, NULL);
    pthread_mutex_init(&leader->guard, NULL);
    return leader;
}

void notify_leader_free(struct notify_leader *leader)
{
    free(leader);
}

/* Become leader if the state still is `from`. */
static bool claim(struct notify_leader *leader, int from)
{
    if (!__atomic_compare_exchange_n(&leader->state, &from, RECEIVING, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return false;
    leader->thread = pthread_self();
    return true;
}

static void pause_for(struct notify_leader *leader, int64_t ns)
{
    int64_t until = core_now_ns() + ns;
    struct timespec t = {until / 1000000000LL, until % 1000000000LL};
    pthread_mutex_lock(&leader->guard);
    pthread_cond_timedwait(&leader->change, &leader->guard, &t);
    pthread_mutex_unlock(&leader->guard);
}

bool notify_leader_acquire(struct notify_leader *leader, const volatile int *stopped)
{
    /* Back from Python, and still leader. */
    if (pthread_equal(leader->thread, pthread_self()) && claim(leader, IN_PYTHON))
        return true;
    pthread_mutex_lock(&leader->deputy);
    int64_t look = FIRST_LOOK_NS;
    unsigned long seen = 0;
    bool mine = false;
    while (!*stopped && !mine) {
        mine = claim(leader, NO_LEADER);
        if (!mine && __atomic_load_n(&leader->state, __ATOMIC_SEQ_CST) == IN_PYTHON &&
            core_now_ns() - leader->since_ns > LONG_NS)
            mine = claim(leader, IN_PYTHON);
        if (mine)
            break;
        pause_for(leader, look);
        look = leader->rounds != seen ? FIRST_LOOK_NS : look * 2 < IDLE_LOOK_NS ? look * 2 : IDLE_LOOK_NS;
        seen = leader->rounds;
    }
    pthread_mutex_unlock(&leader->deputy);
    return mine;
}

void notify_leader_enter_python(struct notify_leader *leader)
{
    leader->rounds++;
    leader->since_ns = core_now_ns();
    __atomic_store_n(&leader->state, IN_PYTHON, __ATOMIC_SEQ_CST);
}

void notify_leader_release(struct notify_leader *leader)
{
    __atomic_store_n(&leader->state, NO_LEADER, __ATOMIC_SEQ_CST);
    notify_leader_wake_followers(leader);
}

void notify_leader_wake_followers(struct notify_leader *leader)
{
    pthread_mutex_lock(&leader->guard);
    pthread_cond_broadcast(&leader->change);
    pthread_mutex_unlock(&leader->guard);
}
