/* build: fuzz_calls -pthread
 *
 * fuzz_calls LIST SEED CALLS ROUNDS: makes random system calls, plausible and absurd ones, from several threads and
 * processes. LIST has one "number name" for each call of the registry. A worker makes CALLS calls, at most, from one seed;
 * it may crash, block or be replaced: the supervisor, which fuzzes nothing, ends it and starts the next with the next
 * seed. After each round the supervisor looks whether the box still answers, prints one line, and waits for a byte.
 * fuzz_calls LIST SEED CALLS replays one worker, and says each call first.
 *
 * Left out are only calls that would end the worker every time (exit, exit_group; others are made by a child) and
 * processes whose death would end the supervisor. PTRACE_TRACEME is made by a child, too: it would make the supervisor a
 * tracer, who has to bury each thread by itself.
 */
#define _GNU_SOURCE
#include "values.h"
#include "shapes.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define MOST_CALLS 1024
#define WORKERS 2
#define URETPROBE 335 /* both end a caller that is no probe's trampoline */
#define UPROBE 336

static struct {
    long nr;
    char name[40];
    const char *shape;
} calls[MOST_CALLS];
static unsigned call_count;
static bool saying;

struct shared {
    atomic_ulong made[WORKERS];
    atomic_uint within[WORKERS][THREADS]; /* which call a thread is in, so that the supervisor can say where one is stuck */
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
            if (strcmp(SHAPES[i].call, calls[call_count].name) == 0)
                calls[call_count].shape = SHAPES[i].shape;
        call_count++;
    }
    fclose(list);
}

static uint64_t open_how(Random *r) {
    uint64_t *how = (void *)room(r, 32);
    how[0] = one_in(r, 4) ? odd_number(r) : next(r) & 0x6ffff;
    how[1] = one_in(r, 2) ? 0 : below(r, 010000);
    how[2] = one_in(r, 8) ? odd_number(r) : below(r, 64);
    how[3] = one_in(r, 4) ? odd_number(r) : 0;
    return (uint64_t)how;
}

static uint64_t strings(Random *r) {
    if (one_in(r, 10))
        return bad_address(r);
    uint64_t *vector = (void *)(heap_of(r) + PAGE * below(r, HEAP_PAGES - 1));
    unsigned count = one_in(r, 8) ? below(r, 300) : below(r, 5);
    for (unsigned i = 0; i < count; i++)
        vector[i] = one_in(r, 12) ? bad_address(r) : name(r);
    vector[count] = 0;
    return (uint64_t)vector;
}

static uint64_t value(Random *r, char kind, size_t *size) {
    if (one_in(r, 50))
        kind = '?';
    switch (kind) {
    case 'p': return name(r);
    case 'f': return descriptor(r);
    case 'i': return odd_number(r);
    case 'g': return one_in(r, 3) ? 0 : one_in(r, 2) ? 1UL << below(r, 32) : next(r) & next(r) & 0xffffff;
    case 'm': return one_in(r, 6) ? odd_number(r) : below(r, 010000) | (one_in(r, 3) ? below(r, 16) << 12 : 0);
    case 's': return soup(r);
    case 'o': return one_in(r, 8) ? bad_address(r) : (uint64_t)room(r, 1 + below(r, 8192));
    case 'n': return one_in(r, 4) ? odd_number(r) : below(r, 5000);
    case 'a': {
        if (one_in(r, 12))
            return bad_address(r);
        char *place = room(r, 128);
        socket_address(r, place, size);
        return (uint64_t)place;
    }
    case 'l': return *size;
    case 'L': {
        if (one_in(r, 8))
            return bad_address(r);
        uint32_t *length = (void *)room(r, 4);
        *length = one_in(r, 4) ? odd_number(r) : below(r, 200);
        return (uint64_t)length;
    }
    case 'M': return message(r);
    case 'P': return process(r);
    case 'c': return one_in(r, 4) ? odd_number(r) : (next(r) & next(r) & 0xfffff000) & (one_in(r, 8) ? ~0UL : ~0x100UL);
    case 'S': return below(r, 6) ? 0 : below(r, 66); /* most signals end the worker */
    case 'V': return one_in(r, 60) ? bad_address(r) : VICTIM + PAGE * below(r, VICTIM_PAGES);
    case 'v': return one_in(r, 60) ? odd_number(r) : PAGE * below(r, 4);
    case 'h': return open_how(r);
    case 'x': return strings(r);
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

/* ---- a worker */

static void tick(int signal) {
    (void)signal;
}

/* A call may block for ever, where Linux would: the clock interrupts it. The fuzzing may have switched it off. */
static void wind_the_clock(void) {
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, NULL);
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
    struct itimerspec often = {{0, 15000000}, {0, 15000000}};
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

static void in_a_child(long nr, const uint64_t *a) {
    pid_t child = fork();
    if (child == 0) {
        alarm(1);
        signal(SIGALRM, SIG_DFL);
        raw(nr, a);
        _exit(0);
    }
    for (int i = 0; child > 0 && waitpid(child, NULL, WNOHANG) == 0; i++) {
        if (i == 400)
            kill(child, SIGKILL);
        usleep(500);
    }
}

static void one_call(Random *r, atomic_uint *within) {
    unsigned which = below(r, call_count);
    uint64_t arguments[6] = {0};
    size_t size = below(r, 130);
    for (int i = 0; calls[which].shape[i]; i++)
        arguments[i] = value(r, calls[which].shape[i], &size);
    long nr = calls[which].nr;
    if (saying) {
        char text[300] = "";
        for (int i = 0; calls[which].shape[i]; i++) {
            size_t length = strlen(text);
            if (calls[which].shape[i] == 'p' && arguments[i] >= HEAP && arguments[i] < FLIP)
                snprintf(text + length, sizeof text - length, " \"%.60s\"", (char *)arguments[i]);
            else
                snprintf(text + length, sizeof text - length, " %lx", arguments[i]);
        }
        dprintf(2, "%d %s%s\n", r->thread, calls[which].name, text);
    }
    if (would_harm_us(nr, arguments))
        return;
    *within = which;
    if (nr == SYS_execve || nr == SYS_execveat || nr == SYS_rt_sigreturn || nr == UPROBE || nr == URETPROBE ||
        nr == SYS_arch_prctl || nr == SYS_brk || (nr == SYS_ptrace && arguments[0] == PTRACE_TRACEME))
        in_a_child(nr, arguments);
    else
        raw(nr, arguments);
}

static atomic_bool over;

static void *flip(void *seed) {
    static const char *const NAMES[] = {"/tmp/file", "/given/file", "/etc/passwd", "/proc/self/mem", "../../../etc/x",
                                        "/usr/bin/true", "", "/copied/file"};
    Random r = {(uint64_t)seed | 1, 0};
    for (;;) {
        char *place = (char *)FLIP + below(&r, 2) * 64;
        if (one_in(&r, 3)) {
            uint64_t word = odd_number(&r);
            memcpy(place + 8 * below(&r, 8), &word, 8);
        } else {
            strcpy(place, NAMES[below(&r, COUNT(NAMES))]);
        }
        for (volatile int i = 0; i < 2000; i++)
            ;
        if (over)
            return NULL;
        if (one_in(&r, 64))
            usleep(200); /* two cores, and others want them too */
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
        }
        if (i % 25 == 0)
            wind_the_clock();
        one_call(&job->r, &shared->within[job->worker][job->r.thread]);
        shared->made[job->worker]++;
    }
    return NULL;
}

static _Noreturn void work(uint64_t seed, unsigned long count, int worker) {
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
        jobs[i] = (struct job){{seed * 0x9e3779b97f4a7c15 + i * 0x1234567 + 1, i}, count / THREADS, worker};
    pthread_create(&flipping, NULL, flip, (void *)seed);
    pthread_create(&second, NULL, make_calls, &jobs[1]);
    make_calls(&jobs[0]);
    pthread_join(second, NULL);
    _exit(0);
}

/* ---- the supervisor */

static void answers(void) {
    char text[16] = "";
    int fd = open("/given/file", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, 8) != 8 || memcmp(text, "ORIGINAL", 8) != 0) {
        printf("the box no longer reads: %s\n", strerror(errno));
        exit(1);
    }
    close(fd);
    fd = open("/tmp/answer", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0 || unlink("/tmp/answer") != 0) {
        printf("the box no longer writes: %s\n", strerror(errno));
        exit(1);
    }
    pid_t child = vfork();
    if (child == 0) {
        execl("/usr/bin/true", "true", NULL);
        _exit(errno);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("the box no longer executes: status %x, %s\n", status, strerror(errno));
        exit(1);
    }
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count < 4)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_list(words[1]);
    uint64_t seed = strtoull(words[2], NULL, 0);
    unsigned long each = strtoul(words[3], NULL, 0), rounds = count > 4 ? strtoul(words[4], NULL, 0) : 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    supervisor = getpid();
    umask(0);
    if (!rounds) {
        saying = true;
        work(seed, each, 0);
    }
    unsigned long made = 0, crashed = 0, stuck = 0, whole = 0;
    for (unsigned long round = 0; round < rounds; round++) {
        pid_t pids[WORKERS];
        unsigned long seen[WORKERS] = {0};
        double since[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            shared->made[i] = 0;
            since[i] = now();
            fflush(stdout);
            pids[i] = fork();
            if (pids[i] == 0)
                work(seed + round * WORKERS + i, each, i);
        }
        for (int left = WORKERS; left;) {
            for (int i = 0; i < WORKERS; i++) {
                int status;
                if (pids[i] <= 0)
                    continue;
                if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
                    *(status == 0 ? &whole : &crashed) += 1;
                    kill(-pids[i], SIGKILL); /* what it started */
                    pids[i] = 0, left--;
                } else if (shared->made[i] != seen[i]) {
                    seen[i] = shared->made[i], since[i] = now();
                } else if (now() - since[i] > 0.7) {
                    stuck++, since[i] = now() + 1e9;
                    for (int thread = 0; thread < THREADS; thread++)
                        printf("stuck in %s\n", calls[shared->within[i][thread]].name);
                    kill(-pids[i], SIGKILL);
                    kill(pids[i], SIGKILL);
                }
            }
            usleep(1000);
        }
        for (int i = 0; i < WORKERS; i++)
            made += shared->made[i];
        answers();
        printf("round %lu made %lu whole %lu crashed %lu stuck %lu\n", round, made, whole, crashed, stuck);
        char byte;
        if (read(0, &byte, 1) != 1)
            return 1;
    }
    printf("done\n");
    return 0;
}
