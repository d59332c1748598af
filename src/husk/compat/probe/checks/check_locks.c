/* compat/probe: checks of futexes, and of what a thread registers with the kernel. */
#include "probe.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>

#define MS 1000000L

/* What a waiter in another process does. In shared memory. */
struct meeting {
    volatile uint32_t word;
    volatile uint32_t other;
    volatile int ready;
    volatile int woken;
};

static struct meeting *meeting(void)
{
    return (struct meeting *)probe_shared(1);
}

static const struct timespec PATIENCE = {8, 0};

/* A child that waits on `word` while it is 0. The kernel is asked by FUTEX_WAIT, whatever call is under test. */
static pid_t waiter(struct meeting *at, volatile uint32_t *word)
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        at->ready = 1;
        long value = RAW(futex, word, FUTEX_WAIT, 0, &PATIENCE, 0, 0);
        at->woken = value == 0;
        _exit(value == 0 ? 0 : 1);
    }
    while (!at->ready)
        probe_sleep(1);
    probe_sleep(5);
    return pid;
}

/* Repeats a waking call until it has woken one, since the waiter may be slow to sleep. */
#define WAKES(call)                                                                                                    \
    do {                                                                                                               \
        long woken_ = 0;                                                                                               \
        for (int n_ = 0; n_ < 1000 && woken_ == 0; n_++) {                                                             \
            woken_ = MUST(call);                                                                                       \
            if (woken_ == 0)                                                                                           \
                probe_sleep(2);                                                                                        \
        }                                                                                                              \
        EFFECT(woken_ == 1);                                                                                           \
    } while (0)

static bool ended_well(pid_t pid)
{
    return probe_wait(pid) == 0;
}

CHECK(futex, "op=FUTEX_WAIT: a value that differs is EAGAIN, a time-out ETIMEDOUT")
{
    uint32_t word = 1;
    struct timespec brief = {0, 2 * MS};
    long other = CALL(futex, &word, FUTEX_WAIT, 0, NULL);
    if (other != -EAGAIN)
        MUST(other);
    EFFECT(other == -EAGAIN);
    int64_t before = probe_now();
    long late = CALL(futex, &word, FUTEX_WAIT, 1, &brief);
    EFFECT(late == -ETIMEDOUT && probe_now() - before >= 2 * MS);
}

CHECK(futex, "op=FUTEX_WAKE: wakes a process that waits on shared memory")
{
    struct meeting *at = meeting();
    pid_t pid = waiter(at, &at->word);
    WAKES(CALL(futex, &at->word, FUTEX_WAKE, 1));
    EFFECT(ended_well(pid) && at->woken);
}

static int waits_privately(void *argument)
{
    struct meeting *at = argument;
    at->woken = RAW(futex, &at->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &PATIENCE) == 0 ? 1 : 2;
    return 0;
}

CHECK(futex, "op=FUTEX_PRIVATE_FLAG: between threads")
{
    struct meeting *at = (struct meeting *)probe_pages(1);
    struct probe_thread thread;
    probe_thread_start(&thread, waits_privately, at);
    WAKES(CALL(futex, &at->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1));
    probe_thread_join(&thread);
    EFFECT(at->woken == 1);
}

/* Repeats a requeueing call until a wake on the other word finds the waiter. */
#define REQUEUES(call)                                                                                                 \
    do {                                                                                                               \
        long woken_ = 0;                                                                                               \
        for (int n_ = 0; n_ < 1000 && woken_ == 0; n_++) {                                                             \
            MUST(call);                                                                                                \
            woken_ = RAW(futex, &at->other, FUTEX_WAKE, 1);                                                            \
            if (woken_ == 0)                                                                                           \
                probe_sleep(2);                                                                                        \
        }                                                                                                              \
        EFFECT(woken_ == 1);                                                                                           \
    } while (0)

CHECK(futex, "op=FUTEX_REQUEUE: a waiter waits on the other word")
{
    struct meeting *at = meeting();
    pid_t pid = waiter(at, &at->word);
    REQUEUES(CALL(futex, &at->word, FUTEX_REQUEUE, 0, 1, &at->other, 0));
    EFFECT(ended_well(pid));
}

CHECK(futex, "op=FUTEX_CMP_REQUEUE")
{
    struct meeting *at = meeting();
    pid_t pid = waiter(at, &at->word);
    EFFECT(CALL(futex, &at->word, FUTEX_CMP_REQUEUE, 0, 1, &at->other, 77) == -EAGAIN);
    REQUEUES(CALL(futex, &at->word, FUTEX_CMP_REQUEUE, 0, 1, &at->other, 0));
    EFFECT(ended_well(pid));
}

CHECK(futex, "op=FUTEX_WAKE_OP: adds to the other word")
{
    struct meeting *at = meeting();
    at->other = 40;
    MUST(CALL(futex, &at->word, FUTEX_WAKE_OP, 1, 1, &at->other, FUTEX_OP(FUTEX_OP_ADD, 2, FUTEX_OP_CMP_EQ, 40)));
    EFFECT(at->other == 42);
}

CHECK(futex, "op=FUTEX_WAIT_BITSET: until an absolute time")
{
    uint32_t word = 0;
    int64_t end = probe_now() + 3 * MS;
    struct timespec until = {end / 1000000000, end % 1000000000};
    long value = CALL(futex, &word, FUTEX_WAIT_BITSET, 0, &until, 0, FUTEX_BITSET_MATCH_ANY);
    if (value != -ETIMEDOUT)
        MUST(value);
    EFFECT(value == -ETIMEDOUT && probe_now() >= end);
}

CHECK(futex, "op=FUTEX_WAKE_BITSET: only waiters of that bit")
{
    struct meeting *at = meeting();
    pid_t pid = probe_fork();
    if (pid == 0) {
        at->ready = 1;
        long value = RAW(futex, &at->word, FUTEX_WAIT_BITSET, 0, NULL, 0, 4);
        _exit(value == 0 ? 0 : 1);
    }
    while (!at->ready)
        probe_sleep(1);
    probe_sleep(5);
    EFFECT(MUST(CALL(futex, &at->word, FUTEX_WAKE_BITSET, 1, 0, 0, 2)) == 0);
    WAKES(CALL(futex, &at->word, FUTEX_WAKE_BITSET, 1, 0, 0, 4));
    EFFECT(ended_well(pid));
}

CHECK(futex, "op=FUTEX_LOCK_PI: the word names the owner")
{
    uint32_t word = 0;
    MUST(CALL(futex, &word, FUTEX_LOCK_PI, 0, NULL));
    EFFECT((word & FUTEX_TID_MASK) == (uint32_t)gettid());
}

CHECK(futex, "op=FUTEX_UNLOCK_PI")
{
    uint32_t word = (uint32_t)gettid();
    MUST(CALL(futex, &word, FUTEX_UNLOCK_PI));
    EFFECT(word == 0);
}

CHECK(futex, "op=FUTEX_TRYLOCK_PI")
{
    uint32_t word = 0;
    MUST(CALL(futex, &word, FUTEX_TRYLOCK_PI));
    EFFECT((word & FUTEX_TID_MASK) == (uint32_t)gettid());
}

CHECK(futex, "op=FUTEX_LOCK_PI2")
{
    uint32_t word = 0;
    MUST(CALL(futex, &word, 13, 0, NULL));
    EFFECT((word & FUTEX_TID_MASK) == (uint32_t)gettid());
}

CHECK(futex, "op=FUTEX_WAIT_REQUEUE_PI: a time-out")
{
    uint32_t word = 0, target = 0;
    int64_t end = probe_now() + 2 * MS;
    struct timespec until = {end / 1000000000, end % 1000000000};
    long value = CALL(futex, &word, FUTEX_WAIT_REQUEUE_PI, 0, &until, &target, 0);
    if (value != -ETIMEDOUT)
        MUST(value);
    EFFECT(value == -ETIMEDOUT);
}

CHECK(futex, "op=FUTEX_CMP_REQUEUE_PI: no waiter")
{
    uint32_t word = 0, target = 0;
    EFFECT(MUST(CALL(futex, &word, FUTEX_CMP_REQUEUE_PI, 1, 0, &target, 0)) == 0);
}

CHECK(futex, "op=FUTEX_FD: Linux has it no more")
{
    uint32_t word = 0;
    ANSWERS(CALL(futex, &word, 2, 0), ENOSYS, EINVAL);
}

/* -- the newer calls -- */

#define FUTEX2_U32 2

CHECK(futex_wake, "wakes a process that waits on shared memory")
{
    struct meeting *at = meeting();
    pid_t pid = waiter(at, &at->word);
    WAKES(CALL(futex_wake, &at->word, 0xffffffff, 1, FUTEX2_U32));
    EFFECT(ended_well(pid));
}

CHECK(futex_wait, "a value that differs is EAGAIN, a time-out ETIMEDOUT")
{
    uint32_t word = 1;
    long other = CALL(futex_wait, &word, 0, 0xffffffff, FUTEX2_U32, NULL, CLOCK_MONOTONIC);
    if (other != -EAGAIN)
        MUST(other);
    EFFECT(other == -EAGAIN);
    struct timespec past = {0, 1};
    EFFECT(CALL(futex_wait, &word, 1, 0xffffffff, FUTEX2_U32, &past, CLOCK_MONOTONIC) == -ETIMEDOUT);
}

struct waitv {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};

CHECK(futex_waitv, "tells which of two words woke it")
{
    struct meeting *at = meeting();
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(5);
        at->other = 1;
        for (int n = 0; n < 1000 && RAW(futex, &at->other, FUTEX_WAKE, 1) == 0; n++)
            probe_sleep(2);
        _exit(0);
    }
    struct waitv both[2] = {{0, (uint64_t)&at->word, FUTEX2_U32, 0}, {0, (uint64_t)&at->other, FUTEX2_U32, 0}};
    long value = CALL(futex_waitv, both, 2, 0, NULL, CLOCK_MONOTONIC);
    if (value != -EAGAIN) /* the word had changed already */
        EFFECT(MUST(value) == 1);
    EFFECT(at->other == 1);
}

CHECK(futex_requeue, "a waiter waits on the other word")
{
    struct meeting *at = meeting();
    pid_t pid = waiter(at, &at->word);
    struct waitv both[2] = {{0, (uint64_t)&at->word, FUTEX2_U32, 0}, {0, (uint64_t)&at->other, FUTEX2_U32, 0}};
    REQUEUES(CALL(futex_requeue, both, 0, 0, 1));
    EFFECT(ended_well(pid));
}

/* -- what a thread registers -- */

static struct {
    struct robust_list_head head;
    struct {
        struct robust_list list;
        volatile uint32_t word;
    } lock;
} *robust;

static int dies_holding(void *unused)
{
    (void)unused;
    robust->head.list.next = &robust->lock.list;
    robust->lock.list.next = &robust->head.list;
    robust->head.futex_offset = (char *)&robust->lock.word - (char *)&robust->lock.list;
    robust->lock.word = (uint32_t)gettid();
    return CALL(set_robust_list, &robust->head, sizeof robust->head) == 0 ? 0 : 1;
}

CHECK(set_robust_list, "a lock whose holder died says so")
{
    robust = (void *)probe_shared(1);
    MUST(CALL(set_robust_list, &robust->head, sizeof robust->head));
    robust->head.list.next = &robust->head.list;
    NEED(probe_child_exit(dies_holding, NULL) == 0, "set_robust_list in a child");
    EFFECT(robust->lock.word & FUTEX_OWNER_DIED);
}

CHECK(get_robust_list, "pid=0: tells what set_robust_list was told")
{
    struct robust_list_head head = {.list = {&head.list}}, *got = NULL;
    size_t size = 0;
    NEED(RAW(set_robust_list, &head, sizeof head) == 0, "set_robust_list");
    MUST(CALL(get_robust_list, 0, &got, &size));
    EFFECT(got == &head && size == sizeof head);
    head.list.next = &head.list;
}

CHECK(get_robust_list, "of a child")
{
    struct robust_list_head *got = NULL;
    size_t size = 0;
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(2000);
        _exit(0);
    }
    MUST(CALL(get_robust_list, pid, &got, &size));
    EFFECT(size == sizeof *got);
}

static volatile int clear_tid;

static int asks_to_clear(void *unused)
{
    (void)unused;
    /* Ends as a thread does, by exit(2): the memory is shared, so the maker sees the word cleared. */
    return CALL(set_tid_address, &clear_tid) == gettid() ? 0 : 1;
}

CHECK(set_tid_address, "the word is cleared when the thread ends")
{
    clear_tid = 1;
    struct probe_thread thread;
    probe_thread_start(&thread, asks_to_clear, NULL);
    for (int n = 0; n < 2000 && clear_tid; n++)
        probe_sleep(1);
    EFFECT(clear_tid == 0);
}

struct rseq_area {
    uint32_t cpu_id_start;
    uint32_t cpu_id;
    uint64_t section;
    uint32_t flags;
    uint32_t more[11];
} __attribute__((aligned(64)));

static struct rseq_area rseq_block;

static int registers_rseq(void *argument)
{
    /* A new thread, made without the C library, has none registered. */
    rseq_block.cpu_id = ~0u;
    *(volatile long *)argument = CALL(rseq, &rseq_block, 32, 0, 0x53053053);
    (void)RAW(sched_yield);
    return 0;
}

CHECK(rseq, "the kernel writes the processor's number")
{
    volatile long value = 1;
    struct probe_thread thread;
    probe_thread_start(&thread, registers_rseq, (void *)&value);
    probe_thread_join(&thread);
    MUST(value);
    EFFECT(rseq_block.cpu_id < 65536);
}

/* -- membarrier -- */

CHECK(membarrier, "cmd=MEMBARRIER_CMD_QUERY")
{
    EFFECT(MUST(CALL(membarrier, 0, 0, 0)) & 8);
}

CHECK(membarrier, "cmd=MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED")
{
    EFFECT(RAW(membarrier, 8, 0, 0) == -EPERM);
    MUST(CALL(membarrier, 16, 0, 0));
    EFFECT(RAW(membarrier, 8, 0, 0) == 0);
}

static void barrier(int command, int registration)
{
    NEED(registration == 0 || RAW(membarrier, registration, 0, 0) == 0, "registering for the barrier");
    MUST(CALL(membarrier, command, 0, 0));
}

CHECK(membarrier, "cmd=MEMBARRIER_CMD_GLOBAL")
{
    barrier(1, 0);
}
CHECK(membarrier, "cmd=MEMBARRIER_CMD_GLOBAL_EXPEDITED")
{
    barrier(2, 0);
}
CHECK(membarrier, "cmd=MEMBARRIER_CMD_PRIVATE_EXPEDITED")
{
    barrier(8, 16);
}
CHECK(membarrier, "cmd=MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE")
{
    barrier(32, 64);
}
CHECK(membarrier, "cmd=MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ")
{
    barrier(128, 256);
}

CHECK(membarrier, "cmd=MEMBARRIER_CMD_GET_REGISTRATIONS")
{
    NEED(RAW(membarrier, 16, 0, 0) == 0, "registering for a barrier");
    EFFECT(MUST(CALL(membarrier, 512, 0, 0)) & 16);
}
