/* build: sig_actions -pthread
 *
 * sigaction(2) gives back what was set, and handlers run the way their flags ask: each case in a child of its own.
 * The old action is always asked for while a new one is set; the mere question stands in sig_query.c.
 */
#include "step.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/signalfd.h>
#include <ucontext.h>

static volatile sig_atomic_t count, depth, deepest, order_at;
static char order[32];

static void plain(int sig) { (void)sig; count++; }
static void with_info(int sig, siginfo_t *info, void *context) { (void)sig; (void)info; (void)context; count++; }

#define RESTORER 0x04000000 /* glibc adds it on the way in and does not take it off on the way out */

struct kernel_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };

static void given_back(void) {
    const int flags[] = {0, SA_RESTART, SA_SIGINFO, SA_NODEFER, SA_RESETHAND, SA_ONSTACK, SA_NOCLDSTOP | SA_NOCLDWAIT,
                         SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER | SA_RESETHAND};
    const int signals[] = {SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGSEGV, SIGRTMIN, SIGRTMAX};
    const struct sigaction none = {.sa_handler = SIG_DFL};
    int wrong = 0;
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
        for (unsigned j = 0; j < sizeof signals / sizeof *signals; j++) {
            struct sigaction set = {.sa_flags = flags[i]}, other = {.sa_handler = plain}, old;
            if (flags[i] & SA_SIGINFO)
                set.sa_sigaction = with_info;
            else
                set.sa_handler = plain;
            sigaddset(&set.sa_mask, SIGTERM);
            sigaddset(&set.sa_mask, SIGRTMAX);
            MUST(sigaction(signals[j], &set, NULL));
            /* Again the same, then another, then none: what was set comes back each time. */
            const struct sigaction *next[] = {&set, &other, &none};
            const struct sigaction *expected[] = {&set, &set, &other};
            for (int k = 0; k < 3; k++) {
                MUST(sigaction(signals[j], next[k], &old));
                old.sa_flags &= ~RESTORER;
                if (old.sa_handler != expected[k]->sa_handler || old.sa_flags != expected[k]->sa_flags ||
                    memcmp(&old.sa_mask, &expected[k]->sa_mask, 8)) {
                    say("signal %d flags %x, round %d: got handler %s flags %x", signals[j], flags[i], k,
                        old.sa_handler == expected[k]->sa_handler ? "same" : "OTHER", old.sa_flags);
                    wrong++;
                }
            }
        }
    say("%d wrong", wrong);
    struct sigaction action, ignore = {.sa_handler = SIG_IGN, .sa_flags = SA_RESTART};
    STEP(sigaction(SIGUSR2, &ignore, NULL));
    STEP(sigaction(SIGUSR2, &none, &action));
    say("ignored %d flags %x", action.sa_handler == SIG_IGN, action.sa_flags);
    signal(SIGUSR2, plain);
    MUST(sigaction(SIGUSR2, &none, &action));
    say("signal() sets flags %x", action.sa_flags);
    signal(SIGUSR2, plain);
    say("signal() returns the old one %d", signal(SIGUSR2, SIG_DFL) == plain);
}

static void refused(void) {
    struct sigaction action = {.sa_handler = plain};
    struct kernel_action raw = {plain, RESTORER, plain, 0}, next = raw, odd = raw, last = raw;
    STEP(sigaction(SIGKILL, &action, NULL));
    STEP(sigaction(SIGSTOP, &action, NULL));
    STEP(sigaction(SIGKILL, NULL, &action));
    STEP(syscall(SYS_rt_sigaction, 0, &raw, NULL, 8));
    STEP(syscall(SYS_rt_sigaction, 65, &raw, NULL, 8));
    STEP(syscall(SYS_rt_sigaction, -1, NULL, NULL, 8));
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, &raw, NULL, 4));
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, (void *)8, NULL, 8));
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, NULL, (void *)8, 8));
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 8));
    /* The new action stands although the old one could not be delivered. */
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, &raw, (void *)8, 8));
    struct kernel_action *edge = (void *)edge_buffer(sizeof *edge);
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, &next, edge, 8));
    say("handler stands %d flags %lx", edge->handler == (void *)plain, edge->flags);
    odd.flags |= 0x400; /* an unknown bit: Linux clears it, so that programs can probe */
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, &odd, NULL, 8));
    STEP(syscall(SYS_rt_sigaction, SIGUSR1, &last, edge, 8));
    say("flags %lx", edge->flags);
}

static siginfo_t seen;
static int context_ok;

static void look(int sig, siginfo_t *info, void *context) {
    (void)sig;
    seen = *info;
    context_ok = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != 0;
    count++;
}

static void information(void) {
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGRTMIN + 2, &action, NULL));
    MUST(sigaction(SIGCHLD, &action, NULL));
    kill(getpid(), SIGUSR1);
    say("kill: signo %d code %d from me %d uid %d context %d", seen.si_signo, seen.si_code, seen.si_pid == getpid(), seen.si_uid == getuid(), context_ok);
    raise(SIGUSR1);
    say("raise: code %d", seen.si_code);
    union sigval value = {.sival_int = 4711};
    sigqueue(getpid(), SIGRTMIN + 2, value);
    say("sigqueue: code %d value %d", seen.si_code, seen.si_value.sival_int);
    pid_t pid = fork();
    if (pid == 0)
        _exit(5);
    wait_for(pid);
    say("SIGCHLD: code %d status %d child %d", seen.si_code == CLD_EXITED, seen.si_status, seen.si_pid == pid);
}

static void nesting(int sig) {
    count++;
    if (++depth > deepest)
        deepest = depth;
    if (count < 4)
        raise(sig);
    depth--;
}

static void deferred_or_not(void) {
    struct sigaction action = {.sa_handler = nesting};
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    say("without SA_NODEFER: runs %d depth %d", (int)count, (int)deepest);
    count = depth = deepest = 0;
    action.sa_flags = SA_NODEFER;
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    say("with SA_NODEFER: runs %d depth %d", (int)count, (int)deepest);
}

static void once(void) {
    struct sigaction action = {.sa_handler = plain, .sa_flags = SA_RESETHAND}, none = {.sa_handler = SIG_DFL}, now;
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    MUST(sigaction(SIGUSR1, &none, &now));
    say("runs %d, default again %d flags %x", (int)count, now.sa_handler == SIG_DFL, now.sa_flags);
    raise(SIGUSR1);
}

static char *stack_low, *stack_high;
static void on_stack(int sig) {
    char here;
    stack_t stack;
    sigaltstack(NULL, &stack);
    (void)sig;
    count = (&here >= stack_low && &here < stack_high) + 2 * !!(stack.ss_flags & SS_ONSTACK);
}

static void alternate_stack(void) {
    stack_t stack = {.ss_size = 65536};
    stack.ss_sp = stack_low = malloc(stack.ss_size);
    stack_high = stack_low + stack.ss_size;
    STEP(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_handler = on_stack, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    say("on the alternate stack %d", (int)count);
    action.sa_flags = 0;
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    say("on the plain stack %d", (int)count);
    stack.ss_size = 100;
    STEP(sigaltstack(&stack, NULL));
}

static void note(int sig) {
    order[order_at++] = sig == SIGUSR1 ? 'a' : 'b';
    if (sig == SIGUSR1)
        raise(SIGUSR2);
    order[order_at++] = sig == SIGUSR1 ? 'A' : 'B';
}

static void nested_signals(void) {
    struct sigaction action = {.sa_handler = note};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGUSR2, &action, NULL));
    raise(SIGUSR1);
    say("inside %s", order);
    memset(order, 0, sizeof order), order_at = 0;
    sigaddset(&action.sa_mask, SIGUSR2);
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    say("masked %s", order);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    say("mask restored %d", !sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
}

static sigjmp_buf back;
static void jump(int sig) { siglongjmp(back, sig); }

static void jumping_out(void) {
    struct sigaction action = {.sa_handler = jump};
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGSEGV, &action, NULL));
    volatile int jumps = 0;
    while (jumps < 1000)
        if (sigsetjmp(back, 1) == 0) {
            raise(SIGUSR1);
            break;
        } else
            jumps++;
    say("%d jumps", jumps);
    volatile int faults = 0;
    while (faults < 100)
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)8 = 1;
        else
            faults++;
    say("%d faults", faults);
    /* Out of calls that husk answers, too: the next call must not see anything of the one left behind. */
    struct stat st;
    volatile int opened = 0;
    for (volatile int i = 0; i < 200; i++)
        if (sigsetjmp(back, 1) == 0) {
            kill(getpid(), SIGUSR1);
        } else {
            int fd = open("/dev/null", O_RDONLY);
            opened += fd == 3 && stat("/", &st) == 0;
            close(fd);
        }
    say("%d opened", opened);
}

static void inherited(void) {
    struct sigaction action = {.sa_handler = plain}, now;
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigaction(SIGUSR2, &action, NULL));
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGUSR1);
        say("handler runs in the child %d", (int)count);
        signal(SIGUSR1, SIG_IGN);
        signal(SIGUSR2, SIG_DFL);
        raise(SIGUSR2);
        _exit(0);
    }
    say("child %s", status_text(wait_for(pid)));
    MUST(sigaction(SIGUSR1, &action, &now));
    say("parent keeps its own %d, runs %d", now.sa_handler == plain, (int)count);
    pid = vfork();
    if (pid == 0) {
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGUSR1, &ignore, NULL);
        kill(getpid(), SIGUSR2); /* the handler runs in the child, in memory it shares with its parent */
        _exit(count == 1 ? 7 : 8);
    }
    say("vfork child %s", status_text(wait_for(pid)));
    MUST(sigaction(SIGUSR1, &action, &now));
    say("parent keeps its own %d", now.sa_handler == plain);
    raise(SIGUSR1);
    say("runs %d", (int)count);
}

static void waiting(void) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, &old);
    union sigval value;
    for (int i = 1; i <= 3; i++)
        value.sival_int = i, sigqueue(getpid(), SIGRTMIN, value);
    raise(SIGUSR1), raise(SIGUSR1); /* an ordinary signal is pending once */
    siginfo_t info;
    struct timespec none = {0, 0};
    for (int i = 0; i < 5; i++) {
        int sig = sigtimedwait(&set, &info, &none);
        say("sigtimedwait %s value %d", sig < 0 ? errname(errno) : sigabbrev_np(sig) ? sigabbrev_np(sig) : "RT", sig == SIGRTMIN ? info.si_value.sival_int : 0);
    }
    int fd = MUST(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    struct signalfd_siginfo got = {0};
    STEP(read(fd, &got, sizeof got));
    raise(SIGUSR1);
    STEP(read(fd, &got, sizeof got));
    say("signalfd %u", got.ssi_signo);
    struct sigaction action = {.sa_handler = plain};
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    STEP(sigsuspend(&old));
    say("runs %d", (int)count);
}

static pthread_t target;
static volatile int right_thread, ready;
static void check_thread(int sig) { (void)sig; right_thread += pthread_equal(pthread_self(), target) != 0; count++; }

static void *spin(void *unused) {
    ready = 1;
    while (count < 100)
        sched_yield();
    return unused;
}

static void to_a_thread(void) {
    struct sigaction action = {.sa_handler = check_thread};
    MUST(sigaction(SIGUSR1, &action, NULL));
    pthread_create(&target, NULL, spin, NULL);
    while (!ready)
        sched_yield();
    for (int i = 1; i <= 100; i++) {
        pthread_kill(target, SIGUSR1);
        while (count < i)
            sched_yield();
    }
    pthread_join(target, NULL);
    say("delivered %d, in the right thread %d", (int)count, right_thread);
}

static void fault(int sig, siginfo_t *info, void *context) {
    ucontext_t *state = context;
    say("SIG%s code %d address %lx", sigabbrev_np(sig), info->si_code, sig == SIGSEGV ? (long)info->si_addr : 0L);
    state->uc_mcontext.gregs[REG_RIP] += sig == SIGTRAP ? 0 : 2;
}

static void faults(void) {
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGSEGV, &action, NULL));
    MUST(sigaction(SIGILL, &action, NULL));
    MUST(sigaction(SIGFPE, &action, NULL));
    MUST(sigaction(SIGTRAP, &action, NULL));
    __asm__ volatile("movl (%%rax), %%ecx" : : "a"(0x123) : "rcx", "memory");
    __asm__ volatile("ud2");
    __asm__ volatile("xorl %%edx, %%edx; movl $1, %%eax; xorl %%ecx, %%ecx; divl %%ecx" : : : "rax", "rcx", "rdx");
    __asm__ volatile("int3");
    say("went on");
}

static const struct named_case cases[] = {
    CASE(given_back), CASE(refused), CASE(information), CASE(deferred_or_not), CASE(once), CASE(alternate_stack),
    CASE(nested_signals), CASE(jumping_out), CASE(inherited), CASE(waiting), CASE(to_a_thread), CASE(faults),
};

int main(void) {
    run_cases(cases, sizeof cases / sizeof *cases);
    return 0;
}
