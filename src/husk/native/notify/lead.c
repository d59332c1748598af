/* native: who receives. One thread leads: it receives, answers what C can answer, and goes into Python with the rest.
 *
 * Several threads in the receiving ioctl would be simplest, but a notification wakes all of them. Passing the lead on at
 * every call for Python costs a wake-up on another processor each, and a cold cache; most such calls take microseconds.
 * So the leader keeps the lead while it is in Python, and a deputy watches: only when one call lasts (a large file is
 * copied, a host file system is slow) does the deputy take over, and the old leader falls in behind when it comes back.
 * The price: behind such a call others wait for up to two looks of the deputy. */
#include "core.h"

#include <stdlib.h>

#define LONG_NS 3000000LL           /* a call in Python that lasts this long loses the lead */
#define FIRST_LOOK_NS 3000000LL     /* the deputy's pause while there is work … */
#define IDLE_LOOK_NS 96000000LL     /* … growing to this while there is none */

enum state { NOBODY, RECEIVING, IN_PYTHON };

struct lead {
    int state;                /* enum state, atomic */
    pthread_t leader;
    int64_t since_ns;         /* when the leader went into Python */
    unsigned long rounds;     /* counts how often, for the deputy to see work */
    pthread_mutex_t deputy;   /* held by the one who watches; the others queue up behind */
    pthread_mutex_t guard;    /* of `change` */
    pthread_cond_t change;
};

struct lead *lead_new(void)
{
    struct lead *lead = calloc(1, sizeof *lead);
    if (!lead)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lead->change, &attributes);
    pthread_mutex_init(&lead->deputy, NULL);
    pthread_mutex_init(&lead->guard, NULL);
    return lead;
}

void lead_free(struct lead *lead)
{
    free(lead);
}

static bool claim(struct lead *lead, int from)
{
    if (!__atomic_compare_exchange_n(&lead->state, &from, RECEIVING, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return false;
    lead->leader = pthread_self();
    return true;
}

static void pause_for(struct lead *lead, int64_t ns)
{
    int64_t until = now_ns() + ns;
    struct timespec t = {until / 1000000000LL, until % 1000000000LL};
    pthread_mutex_lock(&lead->guard);
    pthread_cond_timedwait(&lead->change, &lead->guard, &t);
    pthread_mutex_unlock(&lead->guard);
}

bool lead_take(struct lead *lead, const volatile int *stopped)
{
    /* Back from Python, and nobody took over meanwhile. */
    if (pthread_equal(lead->leader, pthread_self()) && claim(lead, IN_PYTHON))
        return true;
    pthread_mutex_lock(&lead->deputy);
    int64_t look = FIRST_LOOK_NS;
    unsigned long seen = 0;
    bool mine = false;
    while (!*stopped && !mine) {
        mine = claim(lead, NOBODY);
        if (!mine && __atomic_load_n(&lead->state, __ATOMIC_SEQ_CST) == IN_PYTHON && now_ns() - lead->since_ns > LONG_NS)
            mine = claim(lead, IN_PYTHON);
        if (mine)
            break;
        pause_for(lead, look);
        look = lead->rounds != seen ? FIRST_LOOK_NS : look * 2 < IDLE_LOOK_NS ? look * 2 : IDLE_LOOK_NS;
        seen = lead->rounds;
    }
    pthread_mutex_unlock(&lead->deputy);
    return mine;
}

void lead_into_python(struct lead *lead)
{
    lead->rounds++;
    lead->since_ns = now_ns();
    __atomic_store_n(&lead->state, IN_PYTHON, __ATOMIC_SEQ_CST);
}

void lead_drop(struct lead *lead)
{
    __atomic_store_n(&lead->state, NOBODY, __ATOMIC_SEQ_CST);
    lead_wake(lead);
}

void lead_wake(struct lead *lead)
{
    pthread_mutex_lock(&lead->guard);
    pthread_cond_broadcast(&lead->change);
    pthread_mutex_unlock(&lead->guard);
}
