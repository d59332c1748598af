/* native: the thread that answers what guests ask through their gates.
 *
 * It polls only while requests come in quick succession, and only while it has a processor to itself: where others
 * want to run, notifications are cheaper. All that it reads in a slot, the guest may change at any moment: it is copied
 * once, and the copy is judged. What a guest can gain by lying in a slot is an answer that it could have asked for. */
#include "gate/gate.h"

#include "fastpath/resolve.h"
#include "host/host.h"
#include "notify/notify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IDLE_NS 60000        /* without a request for this long, it sleeps */
#define EAGER_IDLE_NS 2000000
#define LOST_NS 300000       /* as long as this no look takes: others wanted the processor */
#define USEFUL_NS 20000      /* of polling for each request: then it is worth more than what others do meanwhile */
#define WORTHWHILE 16        /* requests for which it was worth waking up */
#define LOOKS 16             /* before it looks at the clock, and whether gates came or went */
#define MOST_DECLINED 256    /* in a row, before a gate is left asleep until the poller wakes up again */

static uint32_t *word(struct gate_process *gate, unsigned at)
{
    return (uint32_t *)(void *)(gate->pages + at);
}

static void set_awake(struct gate_process *gate, bool awake)
{
    gate->polled = awake;
    __atomic_store_n(word(gate, GATE_AWAKE), awake, __ATOMIC_SEQ_CST);
}

/* ---- one request ------------------------------------------------------------------------------------------------- */

struct request {
    uint64_t words[GATE_REQUEST_BYTES / 8];
};

static uint64_t field(const struct request *request, unsigned at)
{
    return request->words[at / 8];
}

/* Copy it, once. False: it is none. */
static bool copy_request(const uint8_t *slot, struct request *request, uint64_t *sum)
{
    const volatile uint64_t *from = (const volatile uint64_t *)(const void *)(slot + GATE_SLOT_REQUEST);
    unsigned count = GATE_REQUEST_WORDS;
    *sum = 0;
    for (unsigned i = 0; i < count; i++) {
        request->words[i] = from[i];
        *sum = (*sum ^ request->words[i]) * GATE_SUM_FACTOR;
        *sum ^= *sum >> GATE_SUM_SHIFT;
        if (i == GATE_REQUEST_WORDS - 1) {
            uint64_t size = field(request, GATE_REQUEST_SIZE);
            if (size > GATE_LONGEST_NAME)
                return false;
            count += (unsigned)size / 8 + 1;
        }
    }
    const char *name = (const char *)request->words + GATE_REQUEST_NAME;
    size_t size = field(request, GATE_REQUEST_SIZE);
    return memchr(name, 0, size + 1) == name + size;
}

/* Is the process still there? Only then what /proc said was about it. */
static bool is_alive(const struct gate_process *gate)
{
    return syscall(SYS_pidfd_send_signal, gate->pidfd, 0, NULL, 0) == 0 || errno == EPERM;
}

/* The last number of its NSpid line: its own in the innermost namespace. 0: it is gone. */
static pid_t number_inside(pid_t process, const char *thread)
{
    char text[4096];
    ssize_t n = host_read_proc(text, sizeof text, "/proc/%d/task/%.20s/status", process, thread);
    if (n <= 0)
        return 0;
    char *line = strstr(text, "\nNSpid:"), *end = line ? strchr(line + 1, '\n') : NULL;
    if (!end)
        return 0;
    *end = 0;
    char *last = strrchr(line, '\t');
    return last ? atoi(last + 1) : 0;
}

/* The thread of the gate's process that calls itself `inside`. 0: there is none, as with a child of vfork. */
static pid_t find_thread(struct gate_process *gate, pid_t inside)
{
    char name[64];
    for (unsigned i = 0; i < GATE_MOST_THREADS; i++)
        if (gate->threads[i].inside == inside)
            return gate->threads[i].outside;
    snprintf(name, sizeof name, "/proc/%d/task", gate->tgid);
    DIR *threads = opendir(name);
    pid_t found = 0;
    for (struct dirent *each; !found && threads && (each = readdir(threads));)
        if (*each->d_name != '.' && number_inside(gate->tgid, each->d_name) == inside)
            found = atoi(each->d_name);
    if (threads)
        closedir(threads);
    if (found)
        gate->threads[gate->next_thread++ % GATE_MOST_THREADS] = (struct gate_thread){inside, found};
    return found;
}

/* Where the name begins. False: no thread of the process has that number, or the guest has not said which it is. */
static bool begin(struct fast_cache *cache, struct gate_process *gate, const struct request *request,
                  struct fast_asker *asker)
{
    if (*asker->name == '/')
        return true;
    asker->ino = field(request, GATE_REQUEST_INO);
    asker->start = fast_start_told(cache, field(request, GATE_REQUEST_DEV), asker->ino);
    if (asker->start && *asker->name)
        return true;
    pid_t inside = (pid_t)(field(request, GATE_REQUEST_TID) & INT_MAX);
    asker->tid = inside ? find_thread(gate, inside) : 0;
    asker->process = gate->tgid;
    return asker->tid;
}

_Static_assert(GATE_OPENS == FAST_OPENS, "the guest asks for what husk answers");

/* The reply of a call that opens has a descriptor, or none; that of another call has data for its buffer. */
static bool ask(struct gate_process *gate, const struct gate_call *call, struct fast_cache *cache,
                const struct fast_asker *asker, const uint64_t args[6], struct fast_reply *reply)
{
    if (gate_is_open_call(call))
        return gate->channel >= 0 && fast_open(cache, asker, call->nr, args, reply);
    return fast_ask(cache, asker, call->nr, args, reply) &&
        (reply->size == 0 || reply->size == call->size ||
         (call->size == GATE_ANY_SIZE && reply->size >= 8 && reply->size <= GATE_LARGEST_DATA));
}

/* What the slot says of the reply: the size of its data, or GATE_DECLINED or GATE_WHO. */
static uint64_t judge(struct gate_keeper *keeper, struct gate_process *gate, const struct request *request,
                      const struct gate_call *call, struct fast_reply *reply)
{
    struct fast_cache *cache = keeper->listener->cache;
    const char *name = (const char *)request->words + GATE_REQUEST_NAME;
    bool by_number = false, found = false, done = false;
    struct fast_asker asker = {.tid = gate->tgid, .by_number = &by_number, .name = name,
                               .name_size = field(request, GATE_REQUEST_SIZE)};
    if (!fast_begin(cache))
        return GATE_DECLINED;
    found = begin(cache, gate, request, &asker);
    done = found && ask(gate, call, cache, &asker, &request->words[GATE_REQUEST_ARGS / 8], reply);
    fast_end(cache);
    if (by_number && !is_alive(gate)) {
        fast_starts_release(&cache->starts); /* what was kept just now may be another process's */
        return GATE_DECLINED;
    }
    if (done)
        return reply->size;
    return !found && !field(request, GATE_REQUEST_TID) ? GATE_WHO : GATE_DECLINED;
}

/* The request's turn is husk's now. False: the guest has withdrawn it. */
static bool take(uint32_t *state, uint32_t posted)
{
    uint32_t taken = (posted & ~(uint32_t)GATE_STATES) | GATE_TAKEN;
    return __atomic_compare_exchange_n(state, &posted, taken, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void gate_serve(struct gate_keeper *keeper, struct gate_process *gate, uint8_t *slot, uint32_t posted)
{
    struct request request;
    struct fast_reply reply;
    uint64_t sum = 0, size = GATE_DECLINED;
    uint32_t turn = posted & ~(uint32_t)GATE_STATES;
    reply.fd = -1, reply.size = 0, reply.value = 0;
    if (copy_request(slot, &request, &sum)) {
        const struct gate_call *call = gate_call((int)field(&request, GATE_REQUEST_NR));
        if (call && field(&request, GATE_REQUEST_NR) != (uint64_t)call->nr)
            call = NULL;
        /* A file that was sent is there, whether or not the guest still waits for it. */
        if (gate_is_open_call(call) && !take((uint32_t *)(void *)slot, posted))
            return;
        if (call)
            size = judge(keeper, gate, &request, call, &reply);
    }
    if (reply.fd >= 0) {
        size = size != GATE_DECLINED && gate_send(gate, reply.fd, sum) ? GATE_DESCRIPTOR : GATE_DECLINED;
        close(reply.fd);
    }
    gate->declined = size == GATE_DECLINED ? gate->declined + 1 : 0;
    memcpy(slot + GATE_SLOT_DATA, reply.data, size <= GATE_LARGEST_DATA ? size : 0);
    memcpy(slot + GATE_SLOT_VALUE, &reply.value, sizeof reply.value);
    memcpy(slot + GATE_SLOT_SIZE, &size, sizeof size);
    memcpy(slot + GATE_SLOT_SUM, &sum, sizeof sum);
    __atomic_store_n((uint32_t *)(void *)(slot + GATE_SLOT_ANSWERED), turn, __ATOMIC_RELEASE);
}

/* ---- polling ----------------------------------------------------------------------------------------------------- */

/* Serve what is posted; how many there were. A request that was answered stays posted, so its turn is compared. */
static unsigned scan(struct gate_keeper *keeper, struct gate_process *gate)
{
    unsigned found = 0;
    for (unsigned i = 0; i < GATE_SLOT_COUNT; i++) {
        uint8_t *slot = gate->pages + GATE_SLOTS + i * GATE_SLOT_BYTES;
        uint32_t state = __atomic_load_n((uint32_t *)(void *)slot, __ATOMIC_ACQUIRE);
        if ((state & GATE_STATES) != GATE_POSTED || state == gate->seen[i])
            continue;
        gate->seen[i] = state;
        gate_serve(keeper, gate, slot, state);
        found++;
    }
    return found;
}

/* Look at all gates some times, or until somebody wants the lock; how many requests there were. */
static unsigned scan_all(struct gate_keeper *keeper)
{
    struct gate_process *polled[GATE_MOST];
    unsigned count = 0, found = 0;
    pthread_mutex_lock(&keeper->lock);
    for (int i = 0; i < GATE_MOST; i++) {
        struct gate_process *gate = &keeper->gates[i];
        if (!gate->tgid)
            continue;
        if (!gate->polled && gate->declined <= MOST_DECLINED)
            set_awake(gate, true);
        else if (gate->polled && gate->declined > MOST_DECLINED)
            set_awake(gate, false);
        if (gate->polled)
            polled[count++] = gate;
    }
    for (unsigned look = 0; look < LOOKS && !atomic_load(&keeper->waiting); look++) {
        unsigned before = found;
        for (unsigned i = 0; i < count; i++)
            found += scan(keeper, polled[i]);
        if (found == before)
            __builtin_ia32_pause();
    }
    pthread_mutex_unlock(&keeper->lock);
    return found;
}

static void fall_asleep(struct gate_keeper *keeper)
{
    pthread_mutex_lock(&keeper->lock);
    for (int i = 0; i < GATE_MOST; i++) {
        if (keeper->gates[i].tgid) {
            set_awake(&keeper->gates[i], false);
            keeper->gates[i].declined = 0;
        }
    }
    pthread_mutex_unlock(&keeper->lock);
}

/* Poll until nothing is asked, or another task takes the processor (then there is a hole in time) and hardly anything
 * was asked before that: a notification costs husk more than a request, and two switches. How many requests there were.
 */
static unsigned long poll_a_while(struct gate_keeper *keeper, bool *pushed)
{
    unsigned long answered = 0, counted = 0;
    int64_t asked = core_now_ns(), before = asked, began = asked;
    *pushed = false;
    while (!atomic_load(&keeper->ended)) {
        unsigned found = scan_all(keeper);
        while (atomic_load(&keeper->waiting))
            sched_yield();
        answered += found;
        int64_t now = core_now_ns();
        if (now - before > LOST_NS && !keeper->eager) {
            *pushed = (int64_t)(answered - counted) * USEFUL_NS <= before - began;
            if (*pushed)
                break;
            counted = answered;
            asked = began = now; /* the hole is nobody's silence */
        }
        before = now;
        if (found)
            asked = now;
        else if (now - asked > (keeper->eager ? EAGER_IDLE_NS : IDLE_NS))
            break;
    }
    return answered;
}

/* Guest and receiver share a processor while they take turns (SYNC_WAKE_UP), and the scheduler may well put whom they
 * wake there, too. Polling there, it would keep those from asking whom it waits for. */
static void leave_their_processor(struct gate_keeper *keeper)
{
    cpu_set_t others = keeper->processors;
    int theirs = atomic_load(&keeper->receiver);
    if (CPU_COUNT(&others) > 1 && theirs >= 0 && theirs < CPU_SETSIZE)
        CPU_CLR(theirs, &others);
    sched_setaffinity(0, sizeof others, &others);
}

void *gate_poll(void *argument)
{
    struct gate_keeper *keeper = argument;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!atomic_load(&keeper->ended)) {
        if (!atomic_exchange(&keeper->wanted, 0)) {
            syscall(SYS_futex, &keeper->wanted, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
            continue;
        }
        bool pushed;
        leave_their_processor(keeper);
        unsigned long answered = poll_a_while(keeper, &pushed);
        fall_asleep(keeper);
        unsigned pause = __atomic_load_n(&keeper->pause, __ATOMIC_RELAXED);
        if (keeper->eager)
            pause = 1;
        else if (pushed || answered < WORTHWHILE)
            pause = pause * 4 < GATE_LONGEST_PAUSE ? pause * 4 : GATE_LONGEST_PAUSE;
        else
            pause = GATE_FIRST_PAUSE;
        __atomic_store_n(&keeper->pause, pause, __ATOMIC_RELAXED);
        struct timespec used;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        atomic_store(&keeper->processor_ns, core_nanoseconds(used));
        atomic_fetch_add(&keeper->answered, answered);
    }
    return NULL;
}

void gate_wake_poller(struct gate_keeper *keeper)
{
    if (!atomic_exchange(&keeper->wanted, 1))
        syscall(SYS_futex, &keeper->wanted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
