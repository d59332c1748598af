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

#define IDLE_NS 100000       /* without a request for this long, it sleeps; … */
#define FIRST_NS 300000      /* … before the first: the guest waits for the ordinary call that woke it */
#define EAGER_IDLE_NS 2000000
#define LOST_NS 300000       /* as long as this no look takes: others wanted the processor */
#define USEFUL_NS 20000      /* of polling for each request: then it is worth more than what others do meanwhile */
#define LOOKS 16             /* before it looks at the clock, and whether gates came or went */
#define MOST_ODD 8           /* guesses of a guest; then it gets no listings */
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
    const struct gate_call *call; /* which it makes; NULL: one that has no gate */
};

static uint64_t field(const struct request *request, unsigned at)
{
    return request->words[at / 8];
}

static const uint64_t *arguments(const struct request *request)
{
    return &request->words[GATE_REQUEST_ARGS / 8];
}

/* The call that it makes. NULL: one that has no gate. */
static const struct gate_call *call_of(const struct request *request)
{
    const struct gate_call *call = gate_call((int)field(request, GATE_REQUEST_NR));
    return call && field(request, GATE_REQUEST_NR) == (uint64_t)call->nr ? call : NULL;
}

/* How many words the name takes, with its NUL. */
static unsigned name_words(const struct request *request)
{
    return (unsigned)field(request, GATE_REQUEST_SIZE) / 8 + 1;
}

/* The times that the call sets, behind the name. NULL: it has none. */
static const uint64_t *times_of(const struct request *request)
{
    bool has_times = request->call && request->call->size == GATE_TIMES && arguments(request)[2];
    return has_times ? &request->words[GATE_REQUEST_WORDS + name_words(request)] : NULL;
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
            if (field(request, GATE_REQUEST_SIZE) > GATE_LONGEST_NAME)
                return false;
            request->call = call_of(request);
            count += name_words(request) + (times_of(request) ? GATE_TIMES_BYTES / 8 : 0);
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

/* Is it about what belongs to the thread: a descriptor, or the umask of what is made? */
static bool is_of_thread(const struct gate_call *call, const uint64_t args[6])
{
    return call->name == GATE_NO_NAME || (call->size == GATE_TIMES && !args[call->name]) ||
           call->size == GATE_MAKES || (gate_is_open_call(call) && gate_is_change(call, args));
}

/* Where the name begins, and who asks. False: no thread of the process has that number, or the guest has not said which
 * it is. */
static bool begin(struct fast_cache *cache, struct gate_process *gate, const struct request *request,
                  const struct gate_call *call, struct fast_asker *asker)
{
    bool absolute = *asker->name == '/';
    if (!absolute) {
        asker->ino = field(request, GATE_REQUEST_INO);
        asker->start = fast_start_told(cache, field(request, GATE_REQUEST_DEV), asker->ino);
    }
    if ((absolute || (asker->start && *asker->name)) && !is_of_thread(call, arguments(request)))
        return true;
    pid_t inside = (pid_t)(field(request, GATE_REQUEST_TID) & INT_MAX);
    asker->tid = inside ? find_thread(gate, inside) : 0;
    asker->process = gate->tgid;
    asker->umask = (int)(field(request, GATE_REQUEST_TID) >> 32 & 01777);
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

static bool still_lives(const struct fast_asker *asker)
{
    return is_alive(asker->call);
}

/* The records of a directory, into the pages. What the guest says it holds is no proof, so its descriptor is looked at:
 * by a duplicate, which only of a directory may be closed here. */
static bool list(struct gate_keeper *keeper, struct gate_process *gate, const struct fast_asker *asker,
                 const uint64_t args[6], struct fast_reply *reply)
{
    struct fast_cache *cache = keeper->listener->cache;
    struct fast_listed listed;
    struct stat s;
    uint32_t start, room = (uint32_t)args[2] < GATE_LISTING_BYTES ? (uint32_t)args[2] : GATE_LISTING_BYTES;
    int fd = (int)args[0];
    if (cache->watched || fd < 0 || keeper->odd_listings > MOST_ODD || !asker->ino ||
        !fast_start(cache, asker, fd, &start))
        return false;
    int shared = asker->tid == gate->tgid ? (int)syscall(SYS_pidfd_getfd, gate->pidfd, fd, 0)
                                          : guest_get_fd(asker->tid, fd);
    if (shared < 0)
        return false;
    if (fstat(shared, &s) < 0 || !S_ISDIR(s.st_mode) || fast_start_told(cache, s.st_dev, s.st_ino) != start) {
        keeper->odd_listings++;
        fast_list_close(shared);
        return false;
    }
    if (!fast_list_begin(cache, shared, start, (int)room, &listed))
        return false;
    memcpy(gate->pages + GATE_LISTING_AT, listed.records, listed.size);
    memcpy(reply->data, &listed.before, sizeof listed.before);
    reply->size = sizeof listed.before;
    reply->value = listed.size;
    fast_list_end(&listed, true);
    return true;
}

/* What the slot says of the reply: the size of its data, or one of the words for it. */
static uint64_t judge(struct gate_keeper *keeper, struct gate_process *gate, const struct request *request,
                      const struct gate_call *call, struct fast_reply *reply)
{
    struct fast_cache *cache = keeper->listener->cache;
    const uint64_t *args = arguments(request);
    bool by_number = false, found = false, done = false;
    struct fast_asker asker = {.tid = gate->tgid, .by_number = &by_number,
                               .name = (const char *)request->words + GATE_REQUEST_NAME,
                               .name_size = field(request, GATE_REQUEST_SIZE), .times = times_of(request),
                               .waits = still_lives, .call = gate};
    if (!fast_begin(cache))
        return GATE_DECLINED;
    found = begin(cache, gate, request, call, &asker);
    if (found && gate_is_listing(call))
        done = list(keeper, gate, &asker, args, reply);
    else if (found && gate_is_change(call, args))
        done = (!gate_is_open_call(call) || gate->channel >= 0) &&
               fast_change(keeper->listener, &asker, call->nr, args, reply);
    else if (found)
        done = ask(gate, call, cache, &asker, args, reply);
    fast_end(cache);
    if (by_number && !is_alive(gate)) {
        fast_starts_release(&cache->starts); /* what was kept just now may be another process's */
        return GATE_DECLINED;
    }
    if (done)
        return gate_is_listing(call) ? GATE_LISTING : reply->size;
    return !found && !field(request, GATE_REQUEST_TID) ? GATE_WHO : GATE_DECLINED;
}

/* Has a thread still to copy the last listing? */
static bool is_listing_there(const struct gate_process *gate)
{
    const uint8_t *slot = gate->pages + GATE_SLOTS + gate->lister * GATE_SLOT_BYTES;
    return gate->listed && __atomic_load_n((const uint32_t *)(const void *)slot, __ATOMIC_ACQUIRE) ==
                               (gate->listed | GATE_TAKEN);
}

/* Does the answer leave something behind, so that the guest has to take it? */
static bool has_effect(const struct gate_call *call, const uint64_t args[6])
{
    return gate_is_open_call(call) || gate_is_listing(call) || gate_is_change(call, args);
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
    const struct gate_call *call = copy_request(slot, &request, &sum) ? request.call : NULL;
    if (call && gate_is_listing(call) && is_listing_there(gate))
        call = NULL;
    if (call && has_effect(call, arguments(&request)) && !take((uint32_t *)(void *)slot, posted))
        return;
    if (call)
        size = judge(keeper, gate, &request, call, &reply);
    if (reply.fd >= 0) {
        size = size != GATE_DECLINED && gate_send(gate, reply.fd, sum) ? GATE_DESCRIPTOR : GATE_DECLINED;
        close(reply.fd);
    }
    if (size == GATE_LISTING) {
        gate->lister = (unsigned)(slot - gate->pages - GATE_SLOTS) / GATE_SLOT_BYTES;
        gate->listed = turn;
    }
    if (size == GATE_DECLINED || size == GATE_WHO)
        reply.size = 0, reply.value = 0; /* nothing of an answer that was not given */
    gate->declined = size == GATE_DECLINED ? gate->declined + 1 : 0;
    memcpy(slot + GATE_SLOT_DATA, reply.data, reply.size <= GATE_LARGEST_DATA ? reply.size : 0);
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

/* How it went. */
struct polling {
    unsigned long answered; /* requests */
    bool pushed;            /* another task took the processor, and hardly anything was asked before that */
    bool paid;              /* there were as many requests as the time is worth */
};

/* Poll until nothing is asked, or another task takes the processor (then there is a hole in time) and hardly anything
 * was asked before that: a notification costs husk more than a request, and two switches. */
static struct polling poll_a_while(struct gate_keeper *keeper)
{
    struct polling done = {0};
    unsigned long counted = 0;
    int64_t before = core_now_ns(), began = before, asked = before + FIRST_NS - IDLE_NS;
    while (!atomic_load(&keeper->ended)) {
        unsigned found = scan_all(keeper);
        while (atomic_load(&keeper->waiting))
            sched_yield();
        done.answered += found;
        int64_t now = core_now_ns();
        if (now - before > LOST_NS && !keeper->eager) {
            done.pushed = (int64_t)(done.answered - counted) * USEFUL_NS <= before - began;
            if (done.pushed)
                break;
            counted = done.answered;
            asked = began = now; /* the hole is nobody's silence */
        }
        before = now;
        if (found)
            asked = now;
        else if (now - asked > (keeper->eager ? EAGER_IDLE_NS : IDLE_NS))
            break;
    }
    done.paid = !done.pushed && (int64_t)(done.answered - counted) * USEFUL_NS >= before - began;
    return done;
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
        leave_their_processor(keeper);
        const struct polling done = poll_a_while(keeper);
        fall_asleep(keeper);
        unsigned pause = __atomic_load_n(&keeper->pause, __ATOMIC_RELAXED);
        unsigned longest = done.pushed ? GATE_LONGEST_PAUSE : GATE_IDLE_PAUSE;
        if (keeper->eager || done.paid)
            pause = 1;
        else if (pause < longest)
            pause = pause * 4 < longest ? pause * 4 : longest;
        __atomic_store_n(&keeper->pause, pause, __ATOMIC_RELAXED);
        struct timespec used;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        atomic_store(&keeper->processor_ns, core_nanoseconds(used));
        atomic_fetch_add(&keeper->answered, done.answered);
    }
    return NULL;
}

void gate_wake_poller(struct gate_keeper *keeper)
{
    if (!atomic_exchange(&keeper->wanted, 1))
        syscall(SYS_futex, &keeper->wanted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
