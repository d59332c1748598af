/* build: gate_signals -pthread
 *
 * Signal actions, set and asked for so often that a runtime may let the host answer: from the C library and from an
 * instruction of its own, with bad arguments, in children of fork, vfork and posix_spawn, in threads, under a filter
 * and a tracer of its own, and with a signal at every instruction of the call. Every action is checked against what was
 * set.
 */
#include "single_step.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static char *self;
static volatile int came;
static void plain(int number) { came += number > 0; }
static void informed(int number, siginfo_t *info, void *context) { (void)info, (void)context, came += number > 0; }

/* The call, at a place of this program; 1000: it has changed a register that a call leaves alone. */
static long raw(long number, void *act, void *old, long size) {
    long result, rdi = number, rbx = 11, rsi = (long)act, rdx = (long)old;
    register long r10 __asm__("r10") = size, r8 __asm__("r8") = 88, r9 __asm__("r9") = 99;
    register long r12 __asm__("r12") = 12, r13 __asm__("r13") = 13, r14 __asm__("r14") = 14, r15 __asm__("r15") = 15;
    __asm__ volatile("nop; movl %[nr], %%eax; syscall"
                     : "=&a"(result), "+D"(rdi), "+S"(rsi), "+d"(rdx), "+b"(rbx), "+r"(r10), "+r"(r8), "+r"(r9),
                       "+r"(r12), "+r"(r13), "+r"(r14), "+r"(r15)
                     : [nr] "i"(SYS_rt_sigaction)
                     : "rcx", "r11", "memory", "cc");
    if (rdi != number || rsi != (long)act || rdx != (long)old || rbx != 11 || r10 != size || r8 != 88 || r9 != 99 ||
        r12 != 12 || r13 != 13 || r14 != 14 || r15 != 15)
        return 1000;
    errno = result < 0 ? (int)-result : 0;
    return result < 0 ? -1 : result;
}

static void arguments(void) {
    struct kernel_action set = {0}, old;
    char *pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(munmap(pages + 4096, 4096));
    char *end = pages + 4096;
    for (int i = 0; i < 5; i++)
        MUST(raw(SIGUSR1, &set, NULL, 8) ? -1 : 0);
    STEP(raw(SIGUSR1, &set, NULL, 8));
    STEP(raw(SIGUSR1, &set, &old, 8));
    STEP(raw(SIGUSR1, NULL, &old, 8));
    STEP(raw(SIGUSR1, NULL, NULL, 8));
    STEP(raw(SIGPWR, NULL, &old, 8));
    STEP(raw(0, &set, NULL, 8));
    STEP(raw(65, &set, NULL, 8));
    STEP(raw(-1, &set, NULL, 8));
    STEP(raw(64, &set, &old, 8));
    STEP(raw(SIGKILL, &set, NULL, 8));
    STEP(raw(SIGKILL, NULL, &old, 8));
    STEP(raw(SIGUSR1, &set, NULL, 7));
    STEP(raw(SIGUSR1, NULL, NULL, 7));
    STEP(raw(SIGUSR1 | 1L << 32, &set, &old, 8));
    STEP(raw(SIGUSR1, (void *)8, NULL, 8));
    STEP(raw(SIGUSR1, end, NULL, 8));
    STEP(raw(SIGUSR1, end - 8, NULL, 8));
    STEP(raw(SIGUSR1, end - 4, NULL, 8));
    STEP(raw(SIGUSR1, end - sizeof set, NULL, 8));
    STEP(raw(SIGUSR1, &set, (void *)8, 8));
    STEP(raw(SIGUSR1, NULL, (void *)8, 8));
    STEP(raw(SIGUSR1, NULL, end - 8, 8));
    STEP(raw(SIGUSR1, (char *)&set + 1, NULL, 8));
    MUST(munmap(pages, 4096));
}

/* ---- what was set is what is found ------------------------------------------------------------------------------- */

#define ACTIONS 5
static struct sigaction actions[ACTIONS];
static const int SIGNALS[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPWR, SIGFPE, SIGTERM};

static int differs(const struct sigaction *one, const struct sigaction *other) {
    return one->sa_handler != other->sa_handler || (one->sa_flags ^ other->sa_flags) & ~0x04000000;
}

/* From each action to each other one. */
static int all_changes(int number, int rounds) {
    struct sigaction old;
    int wrong = 0;
    for (int i = 0; i < rounds * ACTIONS * ACTIONS; i++) {
        const struct sigaction *from = &actions[i / ACTIONS % ACTIONS], *to = &actions[i % ACTIONS];
        wrong += sigaction(number, from, NULL) != 0;
        wrong += sigaction(number, to, &old) != 0 || differs(&old, from);
        if (number != SIGPWR) /* of which husk shows what it has installed */
            wrong += sigaction(number, NULL, &old) != 0 || differs(&old, to);
    }
    return wrong + (sigaction(number, &actions[0], NULL) != 0);
}

static void changes(void) {
    int wrong = 0;
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        wrong += all_changes(SIGNALS[i], 1);
    say("changes: wrong %d", wrong);
}

static void *of_thread(void *number) { return (void *)(intptr_t)all_changes((int)(intptr_t)number, 1); }

static void threads(void) {
    pthread_t all[4];
    intptr_t wrong = 0;
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&all[i], NULL, of_thread, (void *)(intptr_t)SIGNALS[i]));
    for (int i = 0; i < 4; i++) {
        void *of_it;
        pthread_join(all[i], &of_it);
        wrong += (intptr_t)of_it;
    }
    say("threads: wrong %d", (int)wrong);
}

static int ends_a_read(int action) {
    int ends[2];
    char byte;
    MUST(pipe(ends));
    MUST(sigaction(SIGALRM, &actions[action], NULL));
    pid_t child = MUST(fork());
    if (!child) {
        usleep(30000);
        _exit(write(ends[1], "x", 1) != 1);
    }
    struct itimerval soon = {.it_value = {0, 10000}};
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    int ended = read(ends[0], &byte, 1) == -1 && errno == EINTR;
    while (waitpid(child, NULL, 0) < 0)
        ;
    close(ends[0]);
    close(ends[1]);
    return ended;
}

static void storm(void) {
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    int wrong = 0;
    struct stat s;
    MUST(sigaction(SIGALRM, &actions[2], NULL));
    MUST(setitimer(ITIMER_REAL, &often, NULL));
    for (int i = 0; i < 300; i++) {
        wrong += stat("/usr/bin", &s) != 0;
        wrong += all_changes(SIGUSR1, 0);
    }
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    say("a storm of signals: wrong %d, came %d", wrong, came > 0);
}

/* ---- children ---------------------------------------------------------------------------------------------------- */

static int status_of(pid_t child) {
    int status;
    MUST(waitpid(child, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* What a started program finds: the number of signals that are ignored, and 100 for any that has a handler. */
static int inherited(void) {
    int found = 0;
    for (int number = 1; number < 65; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) == 0)
            found += now.sa_handler == SIG_IGN ? 1 : now.sa_handler == SIG_DFL ? 0 : 100;
    }
    return found;
}

static void children(void) {
    char *argv[] = {self, "inherited", NULL}, *envp[] = {NULL};
    posix_spawnattr_t attributes;
    sigset_t defaults;
    struct sigaction old;
    volatile int found = 0, defaulted = 0, wrong = 0;
    MUST(sigaction(SIGUSR1, &actions[2], NULL));
    MUST(sigaction(SIGUSR2, &actions[3], NULL));
    MUST(sigaction(SIGHUP, &actions[1], NULL));
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGHUP);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    for (int i = 0; i < 4; i++) {
        pid_t child;
        MUST(posix_spawn(&child, self, NULL, NULL, argv, envp) ? -1 : 0);
        found += status_of(child);
        MUST(posix_spawn(&child, self, NULL, &attributes, argv, envp) ? -1 : 0);
        defaulted += status_of(child);
        /* The parent keeps its own. */
        wrong += sigaction(SIGUSR1, NULL, &old) || differs(&old, &actions[2]);
        wrong += sigaction(SIGUSR2, NULL, &old) || differs(&old, &actions[3]);
        wrong += sigaction(SIGHUP, NULL, &old) || differs(&old, &actions[1]);
    }
    say("posix_spawn: ignored %d, with defaults %d, wrong in the parent %d", found, defaulted, wrong);
    found = wrong = 0;
    for (int i = 0; i < 4; i++) {
        pid_t child = vfork();
        if (!child) {
            sigaction(SIGUSR1, &actions[0], NULL);
            sigaction(SIGUSR2, &actions[0], &old);
            execve(self, argv, envp);
            _exit(99);
        }
        found += status_of(child);
        wrong += sigaction(SIGUSR1, NULL, &old) || differs(&old, &actions[2]);
        child = MUST(fork());
        if (!child)
            _exit(all_changes(SIGUSR1, 1) + (system("exit 3") != 3 << 8));
        wrong += status_of(child);
    }
    say("vfork: ignored %d, wrong %d", found, wrong);
    for (int i = 1; i < 4; i++)
        MUST(sigaction(i == 1 ? SIGHUP : i == 2 ? SIGUSR1 : SIGUSR2, &actions[0], NULL));
    STEP(system("exit 5"));
}

/* ---- a filter and a tracer of its own ---------------------------------------------------------------------------- */

static void refused(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIGUSR1, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    int right = 0;
    pid_t child = MUST(fork());
    if (!child) {
        all_changes(SIGUSR2, 1);
        MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
        for (int i = 0; i < 50; i++) {
            right += sigaction(SIGUSR1, &actions[i & 1], NULL) == -1 && errno == EDOM;
            right += sigaction(SIGUSR2, &actions[i & 1], NULL) == 0;
        }
        _exit(right);
    }
    say("a filter of its own: right %d", status_of(child));
}

static void traced(void) {
    int status, seen = 0, right = 0, entries = 0;
    pid_t child = MUST(fork());
    if (!child) {
        all_changes(SIGUSR2, 1);
        MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        for (int i = 0; i < 20; i++)
            sigaction(SIGUSR1, &actions[i & 1], NULL);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    MUST(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    while (MUST(ptrace(PTRACE_SYSCALL, child, 0, 0)), MUST(waitpid(child, &status, 0)), WIFSTOPPED(status)) {
        struct user_regs_struct regs;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        MUST(ptrace(PTRACE_GETREGS, child, 0, &regs));
        if (regs.orig_rax != SYS_rt_sigaction || entries++ % 2)
            continue;
        seen++;
        right += regs.rdi == SIGUSR1 && regs.rdx == 0 && regs.r10 == 8;
    }
    say("a tracer saw %d, right %d", seen, right);
}

/* ---- a signal at every instruction ------------------------------------------------------------------------------- */

static int ask_inside(void) {
    struct sigaction old;
    int wrong = sigaction(SIGUSR2, &actions[1], &old) || differs(&old, &actions[0]);
    return wrong + (sigaction(SIGUSR2, &actions[0], &old) || differs(&old, &actions[1]));
}

static void every_instruction(int mode, const char *title, int stride) {
    volatile int wrong = 0;
    struct sigaction old;
    what = mode;
    wrong_inside = 0;
    for (volatile int i = 0; i < 2; i++) {
        for (at = 0; at < 300; at += stride) {
            int here = at;
            MUST(sigaction(SIGUSR1, &actions[i + 1], NULL)); /* ignored, or a handler */
            if (mode == JUMP && sigsetjmp(away, 1) != 0)
                continue;
            steps = 0;
            trap(1);
            int result = sigaction(SIGUSR1, &actions[0], &old);
            trap(0);
            wrong += result != 0 || differs(&old, &actions[i + 1]);
            wrong += sigaction(SIGUSR1, NULL, &old) || differs(&old, &actions[0]);
            if (forked_here)
                _exit(wrong + all_changes(SIGUSR2, 1) != 0);
            if (steps <= here)
                break; /* it has fewer instructions */
        }
    }
    say("%s at every instruction: wrong %d inside %ld", title, wrong, wrong_inside);
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1)
        return inherited();
    actions[1].sa_handler = SIG_IGN;
    actions[2].sa_handler = plain;
    actions[3].sa_handler = plain;
    actions[3].sa_flags = SA_RESTART;
    actions[4].sa_sigaction = informed;
    actions[4].sa_flags = SA_SIGINFO | SA_NODEFER;
    pid_t child = MUST(fork()); /* whose place it is that is led away first */
    if (!child) {
        arguments();
        changes();
        _exit(0);
    }
    say("first child %d", status_of(child));
    changes();
    children();
    changes();
    say("ends a read: without SA_RESTART %d, with it %d, again %d", ends_a_read(2), ends_a_read(3), ends_a_read(4));
    storm();
    handle_steps();
    every_instruction(ASK, "a question", 3);
    every_instruction(FORK, "a fork", 11);
    every_instruction(JUMP, "a jump", 2);
    threads();
    refused();
    traced();
    changes();
    arguments();
    return 0;
}
