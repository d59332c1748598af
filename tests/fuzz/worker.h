/* A worker of the fuzzer: makes calls from a seed until it has made enough, or dies. */
#ifndef FUZZ_WORKER_H
#define FUZZ_WORKER_H

#include "values.h"
#include "shapes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define MOST_CALLS 1024
#define MOST_ERRNO 133
#define WORKERS 2
#define URETPROBE 335 /* both kill a caller that is not a probe's trampoline */
#define UPROBE 336

static struct {
    long nr;
    char name[40];
    const char *shape;
    const uint64_t *const *sets;
} calls[MOST_CALLS];
static unsigned call_count;
static bool saying;

struct shared {
    atomic_ulong made[WORKERS];
    atomic_uint within[WORKERS][THREADS]; /* which call a thread is in, so that the supervisor can say where one is stuck */
    atomic_uint answers[MOST_CALLS][MOST_ERRNO + 1]; /* by call of the list and errno; 0 is success */
};
static struct shared *shared;

static long raw(long nr, const uint64_t *a) {
    register uint64_t r10 __asm__("r10") = a[3];
    register uint64_t r8 __asm__("r8") = a[4];
    register uint64_t r9 __asm__("r9") = a[5];
    long result;
    bool forks = nr == SYS_clone || nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone3;
    if (forks) /* the child ends at once, without touching a stack it may not have */
        __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tmov $60, %%eax\n\txor %%edi, %%edi\n\tsyscall\n1:"
                         : "=a"(result)
                         : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    else
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
    return result;
}

static void read_list(const char *path) {
    FILE *list = fopen(path, "re");
    if (!list) {
        perror(path);
        exit(1);
    }
    while (call_count < MOST_CALLS && fscanf(list, "%ld %39s", &calls[call_count].nr, calls[call_count].name) == 2) {
        long nr = calls[call_count].nr;
        if (nr == SYS_exit || nr == SYS_exit_group)
            continue;
        calls[call_count].shape = "??????";
        for (size_t i = 0; i < COUNT(SHAPES); i++)
            if (strcmp(SHAPES[i].call, calls[call_count].name) == 0) {
                calls[call_count].shape = SHAPES[i].shape;
                calls[call_count].sets = SHAPES[i].sets;
            }
        call_count++;
    }
    fclose(list);
}

static uint64_t from_set(Random *r, const uint64_t *set) {
    return absurd(r, 5) ? odd_number(r) : set[1 + below(r, set[0])];
}

static uint64_t some_of_set(Random *r, const uint64_t *set) {
    uint64_t flags = 0;
    for (unsigned left = one_in(r, 4) ? 0 : 1 + below(r, 3); left; left--)
        flags |= from_set(r, set);
    return flags;
}

static uint64_t value(Random *r, char kind, const uint64_t *const *sets, size_t *size) {
    static const uint64_t TIMES[] = {3, 0x3fffffff, 0x3ffffffe, 0}; /* UTIME_NOW, UTIME_OMIT */
    if (absurd(r, 20))
        kind = '?';
    switch (kind) {
    case 'p': return name(r);
    case 'f': return one_in(r, 2) ? one_of(r, &plain) : descriptor(r);
    case 'd': return one_in(r, 3) ? (uint64_t)AT_FDCWD : one_of(r, &directories);
    case 'k': return one_of(r, &sockets);
    case 'j': return one_of(r, &specials);
    case '|': return one_of(r, &pipes);
    case 'y': return one_of(r, one_in(r, 2) ? &terminals : &plain);
    case 'i': return r->polite ? below(r, 4) : odd_number(r);
    case 'g': return r->polite || one_in(r, 3) ? 0 : one_in(r, 2) ? 1UL << below(r, 32) : next(r) & next(r) & 0xffffff;
    case 'm': return absurd(r, 3) ? odd_number(r) : r->polite ? from_set(r, MODES) : below(r, 0200000);
    case 's': return soup(r);
    case 'o': return absurd(r, 8) ? bad_address(r) : (uint64_t)room(r, r->polite ? 4096 : 1 + below(r, 8192));
    case 'n': return absurd(r, 4) ? odd_number(r) : below(r, r->polite ? 4000 : 5000);
    case 'a': {
        if (absurd(r, 12))
            return bad_address(r);
        char *place = room(r, 128);
        socket_address(r, place, size);
        return (uint64_t)place;
    }
    case 'l': return *size;
    case 'L': {
        if (absurd(r, 8))
            return bad_address(r);
        uint32_t *length = (void *)room(r, 4);
        *length = absurd(r, 4) ? odd_number(r) : below(r, 200);
        return (uint64_t)length;
    }
    case 'M': return message(r);
    case 'P': return process(r);
    case 'S': return below(r, 6) ? 0 : below(r, 66); /* most signals end the worker */
    case 'V': return absurd(r, 60) ? bad_address(r) : VICTIM + PAGE * below(r, VICTIM_PAGES);
    case 'v': return absurd(r, 60) ? odd_number(r) : PAGE * (1 + below(r, 4));
    case 'h': return open_how(r);
    case 'x': return strings(r);
    case 't': return one_in(r, 4) ? 0 : words(r, 2, NULL, 2) /* a nanosecond, or a second that the clock cuts short */;
    case 'T': return one_in(r, 4) ? 0 : words(r, 4, TIMES, 1000000);
    case 'I': return words(r, 4, NULL, 1000);
    case 'w': return parts(r);
    case 'W': return r->polite ? below(r, 5) : odd_number(r);
    case 'X': return attribute(r);
    case 'q': return polled(r);
    case 'H': return capabilities(r);
    case 'G': return attribute_arguments(r);
    case 'U': return queue_name(r);
    case 'Z': return absurd(r, 4) ? soup(r) : zeros(r);
    case '0': case '1': case '2': case '3': case '4': return from_set(r, sets[kind - '0']);
    case 'A': case 'B': case 'C': case 'D': case 'E': return some_of_set(r, sets[kind - 'A']);
    default:
        switch (below(r, 6)) {
        case 0: return name(r);
        case 1: return descriptor(r);
        case 2: return soup(r);
        case 3: return bad_address(r);
        default: return odd_number(r);
        }
    }
}

static void tick(int signal) {
    (void)signal;
}

/* A call may block for ever, as on Linux: the clock interrupts it. The fuzzing may have switched the clock off. */
static void wind_the_clock(void) {
    struct sigaction action = {.sa_handler = tick};
    static const int OURS[] = {SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGUSR1, SIGUSR2, SIGTTIN, SIGTTOU, SIGHUP, SIGINT, SIGTERM};
    for (size_t i = 0; i < COUNT(OURS); i++)
        sigaction(OURS[i], &action, NULL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    /* One clock for each thread: a process's signal may go to the thread that is not blocked. */
    static __thread timer_t clock;
    static __thread bool there;
    if (there)
        timer_delete(clock);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    event._sigev_un._tid = gettid();
    struct itimerspec often = {{0, 5000000}, {0, 5000000}};
    there = timer_create(CLOCK_MONOTONIC, &event, &clock) == 0 && timer_settime(clock, 0, &often, NULL) == 0;
}

static bool would_harm_us(long nr, const uint64_t *a) {
    if (nr == SYS_ptrace) /* stopped by a tracer, or a tracer unawares (PTRACE_TRACEME is 0), it could not supervise */
        return (pid_t)a[1] == supervisor || a[0] == 0;
    if (nr != SYS_kill && nr != SYS_tkill && nr != SYS_tgkill && nr != SYS_rt_sigqueueinfo &&
        nr != SYS_rt_tgsigqueueinfo && nr != SYS_prlimit64 && nr != SYS_pidfd_open && nr != SYS_process_vm_writev &&
        nr != SYS_ptrace)
        return false;
    pid_t first = a[0], second = a[1];
    return first == supervisor || first == -1 || first == -supervisor ||
           ((nr == SYS_tgkill || nr == SYS_rt_tgsigqueueinfo || nr == SYS_ptrace) && second == supervisor);
}

static void count(unsigned which, long result) {
    if (result >= 0 || -result <= MOST_ERRNO)
        shared->answers[which][result < 0 ? -result : 0]++;
}

static void in_a_child(unsigned which, const uint64_t *a) {
    pid_t child = fork();
    if (child == 0) {
        alarm(1);
        signal(SIGALRM, SIG_DFL);
        /* A program that was executed cannot say so: it counts as success unless the call comes back. */
        count(which, 0);
        long result = raw(calls[which].nr, a);
        if (result < 0) {
            shared->answers[which][0]--;
            count(which, result);
        }
        _exit(0);
    }
    for (int i = 0; child > 0 && waitpid(child, NULL, WNOHANG) == 0; i++) {
        if (i == 400)
            kill(child, SIGKILL);
        usleep(500);
    }
}

/* Calls that disable or end a worker when they succeed. */
static bool ends_us(long nr, const uint64_t *a) {
    return nr == SYS_execve || nr == SYS_execveat || nr == SYS_rt_sigreturn || nr == UPROBE || nr == URETPROBE ||
           nr == SYS_arch_prctl || nr == SYS_brk || nr == SYS_seccomp || nr == SYS_close_range || nr == SYS_unshare ||
           (nr == SYS_ptrace && a[0] == PTRACE_TRACEME) || (nr == SYS_prctl && a[0] == PR_SET_SECCOMP);
}

/* How much of a name may be read: the other thread may have overwritten its end. */
static int readable(uint64_t address) {
    uint64_t left = address >= EDGE ? EDGE + 2 * PAGE - address : HEAP + THREADS * HEAP_PAGES * PAGE - address;
    return left < 60 ? (int)left : 60;
}

static void one_call(Random *r, atomic_uint *within) {
    unsigned which = below(r, call_count);
    uint64_t arguments[6] = {0};
    size_t size = below(r, 130);
    r->polite = below(r, 2);
    r->tree = below(r, COUNT(TREES));
    for (int i = 0; calls[which].shape[i]; i++)
        arguments[i] = value(r, calls[which].shape[i], calls[which].sets, &size);
    long nr = calls[which].nr;
    if (saying) {
        char text[300] = "";
        for (int i = 0; calls[which].shape[i]; i++) {
            size_t length = strlen(text);
            if (calls[which].shape[i] == 'p' && arguments[i] >= HEAP && arguments[i] < FLIP)
                snprintf(text + length, sizeof text - length, " \"%.*s\"", readable(arguments[i]), (char *)arguments[i]);
            else
                snprintf(text + length, sizeof text - length, " %lx", arguments[i]);
        }
        dprintf(2, "%d %s%s\n", r->thread, calls[which].name, text);
    }
    if (would_harm_us(nr, arguments))
        return;
    *within = which;
    if (ends_us(nr, arguments))
        in_a_child(which, arguments);
    else
        count(which, raw(nr, arguments));
}

static atomic_bool over;

static void *flip(void *seed) {
    static const char *const NAMES[] = {"/tmp/file", "/given/file", "/etc/passwd", "/proc/self/mem", "../../../etc/x",
                                        "/usr/bin/true", "", "/copied/file"};
    Random r = {.state = (uint64_t)seed | 1};
    for (;;) {
        char *place = (char *)FLIP + below(&r, 2) * 64;
        if (one_in(&r, 3)) {
            uint64_t word = odd_number(&r);
            memcpy(place + 8 * below(&r, 8), &word, 8);
        } else {
            strcpy(place, NAMES[below(&r, COUNT(NAMES))]);
        }
        for (volatile int i = 0; i < 500; i++)
            ;
        if (over)
            return NULL;
        if (one_in(&r, 16))
            usleep(100); /* two cores, and others want them too */
    }
}

/* A process for other calls to act on; it only waits. */
static void keep_a_pet(void) {
    if (pet > 0 && waitpid(pet, NULL, WNOHANG) == 0)
        return;
    pet = fork();
    if (pet == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
}

struct job {
    Random r;
    unsigned long calls;
    int worker;
};

static void *make_calls(void *at) {
    struct job *job = at;
    for (unsigned long i = 0; i < job->calls; i++) {
        if (i % 100 == 0 && job->r.thread == 0) {
            make_tree();
            open_descriptors();
            keep_a_pet();
        }
        if (i % 25 == 0)
            wind_the_clock();
        one_call(&job->r, &shared->within[job->worker][job->r.thread]);
        shared->made[job->worker]++;
    }
    return NULL;
}

static _Noreturn void work(uint64_t seed, unsigned long wanted, int worker) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    setpgid(0, 0);
    struct rlimit file = {1 << 20, 1 << 20}, time = {4, 4}, space = {1UL << 30, 1UL << 30};
    setrlimit(RLIMIT_FSIZE, &file);
    setrlimit(RLIMIT_CPU, &time);
    setrlimit(RLIMIT_AS, &space);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (!saying) {
        int nothing = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(nothing, fd);
        close_range(3, ~0U, 0);
    }
    map_memory();
    pthread_t flipping, second;
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){{.state = seed * 0x9e3779b97f4a7c15 + i * 0x1234567 + 1, .thread = i}, wanted / THREADS, worker};
    pthread_create(&flipping, NULL, flip, (void *)seed);
    pthread_create(&second, NULL, make_calls, &jobs[1]);
    make_calls(&jobs[0]);
    pthread_join(second, NULL);
    _exit(0);
}

#endif
