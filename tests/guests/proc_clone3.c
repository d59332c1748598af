/* build: proc_clone3 -lpthread
 *
 * clone3(2) for children with memory of their own: what it refuses, what it hands out, which registers and signals
 * parent and child have afterwards. Threads and vfork are not asked for here.
 */
#include "step.h"
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sys/time.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static long make(struct clone_args *args) { return syscall(SYS_clone3, args, sizeof *args); }

static void refusals(void) {
    struct { struct clone_args known; uint64_t more; } args = {.known = {.exit_signal = SIGCHLD}, .more = 1};
    struct clone_args *at_edge = (void *)edge_buffer(64);
    STEP(syscall(SYS_clone3, NULL, 88));
    STEP(syscall(SYS_clone3, &args, 0));
    STEP(syscall(SYS_clone3, &args, 63));
    STEP(syscall(SYS_clone3, &args, 4097));
    STEP(syscall(SYS_clone3, NULL, 4097));
    STEP(syscall(SYS_clone3, &args, sizeof args));
    memset(at_edge, 0, 64);
    STEP(syscall(SYS_clone3, at_edge, 88));
#define WITH(...) (args.known = (struct clone_args){__VA_ARGS__}, make(&args.known))
    STEP(WITH(.flags = 1ULL << 63));
    STEP(WITH(.flags = 1ULL << 34));
    STEP(WITH(.flags = SIGCHLD));
    STEP(WITH(.flags = CLONE_DETACHED));
    STEP(WITH(.exit_signal = 65));
    STEP(WITH(.exit_signal = 1ULL << 40));
    STEP(WITH(.stack = 65536));
    STEP(WITH(.stack_size = 65536));
    STEP(WITH(.stack = -65536ULL, .stack_size = 4096));
    STEP(WITH(.flags = CLONE_PARENT, .exit_signal = SIGCHLD));
    STEP(WITH(.flags = CLONE_THREAD, .exit_signal = SIGCHLD));
    STEP(WITH(.flags = CLONE_THREAD));
    STEP(WITH(.flags = CLONE_SIGHAND));
    STEP(WITH(.flags = CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM));
    STEP(WITH(.set_tid = 8));
    STEP(WITH(.set_tid_size = 1));
    STEP(WITH(.set_tid = 8, .set_tid_size = 33));
    STEP(WITH(.flags = CLONE_PIDFD, .pidfd = 8));
    STEP(WITH(.flags = CLONE_PIDFD | CLONE_PARENT_SETTID, .pidfd = (uintptr_t)&args, .parent_tid = (uintptr_t)&args));
    STEP(WITH(.flags = CLONE_INTO_CGROUP, .cgroup = 1ULL << 40));
    STEP(WITH(.flags = CLONE_INTO_CGROUP, .cgroup = 999));
    args.known = (struct clone_args){.flags = CLONE_INTO_CGROUP};
    STEP(syscall(SYS_clone3, &args, 80));
}

static void small_struct(void) {
    struct clone_args *args = (void *)edge_buffer(64);
    memset(args, 0, 64);
    args->exit_signal = SIGCHLD;
    pid_t child = syscall(SYS_clone3, args, 64);
    if (child == 0)
        _exit(5);
    say("%s", status_text(wait_for(child)));
}

static void numbers(void) {
    int parent_tid = 0, child_tid = 0, pidfd = -1, status;
    struct clone_args args = {.flags = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
                              .parent_tid = (uintptr_t)&parent_tid,
                              .child_tid = (uintptr_t)&child_tid,
                              .exit_signal = SIGCHLD};
    pid_t child = MUST(make(&args));
    if (child == 0)
        _exit(child_tid == getpid() && child_tid == gettid() && getppid() != child_tid);
    status = wait_for(child);
    say("%s, parent_tid %d, child_tid %d", status_text(status), parent_tid == child, child_tid);
    for (int both = 0; both < 2; both++) {
        siginfo_t info = {0};
        args = (struct clone_args){.flags = CLONE_PIDFD | (both ? CLONE_PARENT_SETTID : 0),
                                   .pidfd = (uintptr_t)&pidfd,
                                   .parent_tid = (uintptr_t)&parent_tid,
                                   .exit_signal = SIGCHLD};
        parent_tid = -2;
        child = MUST(make(&args));
        if (child == 0)
            _exit(pidfd == -1 || fcntl(pidfd, F_GETFD) == -1 ? 6 : 7);
        struct pollfd poller = {.fd = pidfd, .events = POLLIN};
        STEP(poll(&poller, 1, -1));
        say("close-on-exec %d", fcntl(pidfd, F_GETFD));
        STEP(waitid(P_PIDFD, pidfd, &info, WEXITED));
        say("it is the child %d, exit %d, parent_tid %d", info.si_pid == child, info.si_status,
            parent_tid == (both ? child : -2));
        close(pidfd);
    }
}

/* Linux keeps all registers but rax, rcx and r11. Both sides look, and the child does so on its own stack. */
static long registers(struct clone_args *args, size_t size, uint64_t *stack, uint64_t *seen) {
    long result;
    register uint64_t r8 __asm__("r8") = 0x8888, r9 __asm__("r9") = 0x9999, r10 __asm__("r10") = 0x1010;
    register uint64_t r12 __asm__("r12") = (uintptr_t)seen, r13 __asm__("r13") = 0x1313;
    register uint64_t r14 __asm__("r14") = (uintptr_t)stack, r15 __asm__("r15") = size;
    __asm__ volatile("syscall\n"
                     "mov %%rdi, 0(%%r12)\n mov %%rsi, 8(%%r12)\n mov %%rdx, 16(%%r12)\n mov %%r8, 24(%%r12)\n"
                     "mov %%r9, 32(%%r12)\n mov %%r10, 40(%%r12)\n mov %%r13, 48(%%r12)\n"
                     "test %%rax, %%rax\n jnz 1f\n"
                     /* the child: exit with the number of the first register that differs */
                     "mov $1, %%edi\n cmp %%rbx, 0(%%r12)\n jne 2f\n"
                     "mov $2, %%edi\n cmp %%r15, 8(%%r12)\n jne 2f\n"
                     "mov $3, %%edi\n cmpq $0x2222, 16(%%r12)\n jne 2f\n"
                     "mov $4, %%edi\n cmpq $0x8888, 24(%%r12)\n jne 2f\n"
                     "mov $5, %%edi\n cmpq $0x9999, 32(%%r12)\n jne 2f\n"
                     "mov $6, %%edi\n cmpq $0x1010, 40(%%r12)\n jne 2f\n"
                     "mov $7, %%edi\n cmpq $0x1313, 48(%%r12)\n jne 2f\n"
                     "mov $8, %%edi\n cmp %%r14, %%rsp\n jne 2f\n"
                     "mov $42, %%edi\n"
                     "2: mov $60, %%eax\n syscall\n"
                     "1:\n"
                     : "=a"(result), "+r"(r8), "+r"(r9), "+r"(r10), "+r"(r13)
                     : "a"(SYS_clone3), "D"(args), "S"(size), "d"(0x2222UL), "b"(args), "r"(r12), "r"(r14), "r"(r15)
                     : "rcx", "r11", "memory");
    return result;
}

static void same_registers(void) {
    static uint64_t stack[512], seen[7];
    struct clone_args args = {.stack = (uintptr_t)stack, .stack_size = sizeof stack, .exit_signal = SIGCHLD};
    pid_t child = MUST(registers(&args, sizeof args, stack + 512, seen));
    say("parent: %d %d %lx %lx %lx %lx %lx", seen[0] == (uintptr_t)&args, seen[1] == sizeof args, seen[2], seen[3],
        seen[4], seen[5], seen[6]);
    say("child: %s", status_text(wait_for(child)));
}

static void note(int number) { (void)number; }

static void masks(void) {
    sigset_t blocked, now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGRTMIN + 3);
    MUST(sigprocmask(SIG_SETMASK, &blocked, NULL));
    MUST(raise(SIGUSR1));
    struct clone_args args = {.exit_signal = SIGCHLD};
    pid_t child = MUST(make(&args));
    MUST(sigprocmask(SIG_SETMASK, NULL, &now));
    int same = 1;
    for (int i = 1; i < 65; i++)
        same &= sigismember(&now, i) == sigismember(&blocked, i);
    sigpending(&now);
    if (child == 0)
        _exit(2 * same + sigismember(&now, SIGUSR1));
    say("same mask %d, pending %d", same, sigismember(&now, SIGUSR1));
    say("child: %s", status_text(wait_for(child)));
}

static void cleared_handlers(void) {
    struct sigaction act = {.sa_handler = note}, found;
    MUST(sigaction(SIGUSR1, &act, NULL));
    act.sa_flags = SA_RESTART;
    MUST(sigaction(SIGTERM, &act, NULL));
    MUST(sigaction(SIGSEGV, &act, NULL));
    MUST(sigaction(SIGRTMAX, &act, NULL));
    act.sa_handler = SIG_IGN;
    MUST(sigaction(SIGUSR2, &act, NULL));
    struct clone_args args = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    pid_t child = MUST(make(&args));
    if (child)
        say("%s", status_text(wait_for(child)));
    const int asked[] = {SIGUSR1, SIGTERM, SIGSEGV, SIGRTMAX, SIGUSR2, SIGINT};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        MUST(sigaction(asked[i], NULL, &found));
        say("%s: signal %d is %s", child ? "parent" : "child", asked[i],
            found.sa_handler == SIG_DFL   ? "the default"
            : found.sa_handler == SIG_IGN ? "ignored"
                                          : "handled");
    }
    if (child == 0)
        _exit(0);
}

static void relations(void) {
    int status, ends[2];
    MUST(pipe(ends));
    struct clone_args args = {.flags = CLONE_FILES | CLONE_FS, .exit_signal = SIGCHLD};
    pid_t child = MUST(make(&args));
    if (child == 0) {
        umask(0123);
        _exit(close(ends[0]));
    }
    say("%s", status_text(wait_for(child)));
    STEP(fcntl(ends[0], F_GETFD));
    say("umask %o", umask(022));
    volatile int *ran = (void *)MUST(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    args = (struct clone_args){.flags = CLONE_VFORK, .exit_signal = SIGCHLD};
    child = MUST(make(&args));
    if (child == 0) {
        nap_ms(20);
        *ran = 1;
        _exit(3);
    }
    say("the parent has waited %d", *ran);
    say("%s", status_text(wait_for(child)));
    args = (struct clone_args){.exit_signal = SIGUSR1};
    signal(SIGUSR1, note);
    child = MUST(make(&args));
    if (child == 0)
        _exit(4);
    STEP(waitpid(child, &status, 0));
    STEP(waitpid(child, &status, __WALL) == child);
    say("%s", status_text(status));
    pid_t grandparent = getpid(), middle = MUST(fork());
    if (middle == 0) {
        args = (struct clone_args){.flags = CLONE_PARENT};
        child = make(&args);
        if (child == 0)
            _exit(getppid() == grandparent);
        _exit(waitpid(child, &status, __WALL) == -1 && errno == ECHILD ? 8 : 9);
    }
    say("middle: %s", status_text(wait_for(middle)));
    STEP(waitpid(-1, &status, __WALL) > 0);
    say("child: %s", status_text(status));
}

static void *make_many(void *failed) {
    for (int i = 0; i < 12; i++) {
        struct clone_args args = {.exit_signal = SIGCHLD};
        pid_t child = make(&args);
        if (child == 0)
            _exit(i);
        int status;
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        *(int *)failed += child < 0 || WEXITSTATUS(status) != i;
    }
    return NULL;
}

/* Signals all the time, and threads that all make children. */
static void under_signals(void) {
    struct sigaction act = {.sa_handler = note};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    pthread_t threads[3];
    int failed[3] = {0};
    MUST(sigaction(SIGALRM, &act, NULL));
    MUST(setitimer(ITIMER_REAL, &often, NULL));
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, make_many, &failed[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    MUST(setitimer(ITIMER_REAL, &never, NULL));
    say("failed: %d %d %d", failed[0], failed[1], failed[2]);
}

int main(void) {
    static const struct named_case cases[] = {
        CASE(refusals),  CASE(small_struct), CASE(numbers),       CASE(same_registers), CASE(masks),
        CASE(cleared_handlers), CASE(relations), CASE(under_signals),
    };
    run_cases(cases, sizeof cases / sizeof *cases);
    return 0;
}
