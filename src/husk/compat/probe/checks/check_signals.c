/* compat/probe: checks of signals: handlers, masks, waiting, sending, and descriptors of processes. */
#include "probe.h"

#include <setjmp.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

#define USR1_BIT (1UL << (SIGUSR1 - 1))

static volatile sig_atomic_t caught;
static volatile int value_seen, sender_seen, on_stack;
static char alternate[65536];

static void note(int number, siginfo_t *info, void *context)
{
    char here;
    (void)context;
    on_stack = &here >= alternate && &here < alternate + sizeof alternate;
    value_seen = info->si_value.sival_int;
    sender_seen = info->si_pid;
    caught = number;
}

static void catch_signal(int number, int flags)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
    NEED(sigaction(number, &action, NULL) == 0, "sigaction");
}

static void block_usr1(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    NEED(sigprocmask(SIG_BLOCK, &set, NULL) == 0, "sigprocmask");
}

static bool arrived(int number)
{
    for (int n = 0; n < 2000 && caught != number; n++)
        probe_sleep(1);
    return caught == number;
}

static bool died_of(pid_t pid, int number)
{
    int status = probe_wait(pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == number;
}

/* -- handlers -- */

/* The kernel's own structure, and a restorer, which x86-64 wants. */
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};
#define RESTORER 0x04000000UL

void probe_restore(void);
__asm__(".globl probe_restore\nprobe_restore:\n mov $15, %eax\n syscall\n");

static void plain_note(int number)
{
    caught = number;
}

CHECK(rt_sigaction, "a handler runs")
{
    struct action action = {plain_note, RESTORER, probe_restore, 0};
    MUST(CALL(rt_sigaction, SIGUSR1, &action, NULL, 8));
    NEED(raise(SIGUSR1) == 0, "raise");
    EFFECT(caught == SIGUSR1);
}

CHECK(rt_sigaction, "a question about the action")
{
    struct action now = {.handler = plain_note};
    signal(SIGUSR2, SIG_IGN);
    MUST(CALL(rt_sigaction, SIGUSR2, NULL, &now, 8));
    EFFECT((void (*)(int))now.handler == SIG_IGN);
}

CHECK(rt_sigaction, "SA_RESETHAND: once only")
{
    struct action action = {plain_note, RESTORER | (unsigned)SA_RESETHAND, probe_restore, 0}, now = {0};
    MUST(CALL(rt_sigaction, SIGUSR1, &action, NULL, 8));
    NEED(raise(SIGUSR1) == 0, "raise");
    EFFECT(caught == SIGUSR1 && RAW(rt_sigaction, SIGUSR1, NULL, &now, 8) == 0 && now.handler == SIG_DFL);
}

static volatile int depth;

static void nested(int number)
{
    if (depth++ == 0)
        raise(number);
    caught = depth;
}

CHECK(rt_sigaction, "SA_NODEFER: a handler is interrupted by its own signal")
{
    struct action action = {nested, RESTORER | SA_NODEFER, probe_restore, 0};
    MUST(CALL(rt_sigaction, SIGUSR1, &action, NULL, 8));
    NEED(raise(SIGUSR1) == 0, "raise");
    EFFECT(depth == 2);
}

CHECK(rt_sigaction, "without SA_RESTART a read ends with EINTR, with it goes on")
{
    int ends[2];
    char one;
    probe_pipe(ends);
    struct action action = {plain_note, RESTORER, probe_restore, 0};
    struct itimerval soon = {.it_value = {0, 5000}};
    MUST(CALL(rt_sigaction, SIGALRM, &action, NULL, 8));
    NEED(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    EFFECT(read(ends[0], &one, 1) == -1 && errno == EINTR);
    struct action restarts = {plain_note, RESTORER | SA_RESTART, probe_restore, 0};
    MUST(CALL(rt_sigaction, SIGALRM, &restarts, NULL, 8));
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(30);
        (void)!write(ends[1], "x", 1);
        _exit(0);
    }
    NEED(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    EFFECT(read(ends[0], &one, 1) == 1);
}

CHECK(rt_sigaction, "SIGKILL has no handler")
{
    struct action action = {plain_note, RESTORER, probe_restore, 0};
    ANSWERS(CALL(rt_sigaction, SIGKILL, &action, NULL, 8), EINVAL);
}

static sigjmp_buf place;

static void out_of_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    value_seen = info->si_addr == (void *)16;
    caught = number;
    siglongjmp(place, 1);
}

CHECK(rt_sigaction, "SIGSEGV tells the address of the fault")
{
    struct sigaction action = {.sa_sigaction = out_of_fault, .sa_flags = SA_SIGINFO};
    struct action now = {0};
    NEED(sigaction(SIGSEGV, &action, NULL) == 0, "sigaction");
    MUST(CALL(rt_sigaction, SIGSEGV, NULL, &now, 8));
    if (sigsetjmp(place, 1) == 0)
        *(volatile char *)16 = 1;
    EFFECT(caught == SIGSEGV && value_seen);
}

static void change_register(int number, siginfo_t *info, void *context)
{
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] = 4711;
    caught = number;
}

CHECK(rt_sigreturn, "what a handler writes into its context counts")
{
    struct sigaction action = {.sa_sigaction = change_register, .sa_flags = SA_SIGINFO};
    NEED(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
    long seen = 0, pid = getpid(), number = SIGUSR1, call = NR_kill;
    __asm__ volatile("xor %%rbx, %%rbx\n syscall\n mov %%rbx, %0\n"
                     : "=r"(seen), "+a"(call)
                     : "D"(pid), "S"(number)
                     : "rbx", "rcx", "r11", "memory");
    if (call < 0)
        MUST(call);
    EFFECT(caught == SIGUSR1 && seen == 4711);
}

CHECK(sigaltstack, "a handler runs there")
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, now = {0};
    MUST(CALL(sigaltstack, &stack, NULL));
    MUST(CALL(sigaltstack, NULL, &now));
    EFFECT(now.ss_sp == alternate && now.ss_size == sizeof alternate);
    catch_signal(SIGUSR1, SA_ONSTACK);
    NEED(raise(SIGUSR1) == 0, "raise");
    EFFECT(on_stack);
}

/* -- masks and waiting -- */

CHECK(rt_sigprocmask, "how=SIG_BLOCK")
{
    uint64_t set = USR1_BIT, old = ~0UL;
    catch_signal(SIGUSR1, 0);
    MUST(CALL(rt_sigprocmask, SIG_BLOCK, &set, &old, 8));
    NEED(raise(SIGUSR1) == 0, "raise");
    EFFECT(caught == 0 && old == 0);
}

CHECK(rt_sigprocmask, "how=SIG_UNBLOCK")
{
    uint64_t set = USR1_BIT;
    catch_signal(SIGUSR1, 0);
    block_usr1();
    NEED(raise(SIGUSR1) == 0, "raise");
    MUST(CALL(rt_sigprocmask, SIG_UNBLOCK, &set, NULL, 8));
    EFFECT(caught == SIGUSR1);
}

CHECK(rt_sigprocmask, "how=SIG_SETMASK")
{
    uint64_t set = USR1_BIT, now = 0;
    MUST(CALL(rt_sigprocmask, SIG_SETMASK, &set, NULL, 8));
    EFFECT(RAW(rt_sigprocmask, SIG_BLOCK, NULL, &now, 8) == 0 && now == USR1_BIT);
}

CHECK(rt_sigpending, "tells a blocked signal")
{
    uint64_t set = 0;
    block_usr1();
    NEED(raise(SIGUSR1) == 0, "raise");
    MUST(CALL(rt_sigpending, &set, 8));
    EFFECT(set & USR1_BIT);
}

CHECK(rt_sigtimedwait, "takes a blocked signal, or times out")
{
    uint64_t set = USR1_BIT;
    siginfo_t info = {0};
    struct timespec brief = {0, 2000000}, patience = {8, 0};
    block_usr1();
    EFFECT(CALL(rt_sigtimedwait, &set, &info, &brief, 8) == -EAGAIN);
    NEED(raise(SIGUSR1) == 0, "raise");
    EFFECT(MUST(CALL(rt_sigtimedwait, &set, &info, &patience, 8)) == SIGUSR1 && info.si_pid == getpid());
}

CHECK(rt_sigsuspend, "lets a blocked signal through")
{
    uint64_t none = 0;
    catch_signal(SIGUSR1, 0);
    block_usr1();
    NEED(raise(SIGUSR1) == 0 && caught == 0, "raise");
    long value = CALL(rt_sigsuspend, &none, 8);
    if (value != -EINTR)
        MUST(value);
    EFFECT(value == -EINTR && caught == SIGUSR1);
}

CHECK(pause, "ends with a signal")
{
    struct itimerval soon = {.it_value = {0, 5000}, .it_interval = {0, 5000}};
    catch_signal(SIGALRM, 0);
    NEED(setitimer(ITIMER_REAL, &soon, NULL) == 0, "setitimer");
    long value = CALL(pause);
    if (value != -EINTR)
        MUST(value);
    EFFECT(value == -EINTR && caught == SIGALRM);
}

CHECK(restart_syscall, "without something to restart is EINTR")
{
    ANSWERS(CALL(restart_syscall), EINTR);
}

CHECK(restart_syscall, "a sleep goes on after a stop")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        struct timespec wish = {0, 60000000};
        int64_t before = probe_now();
        long value = RAW(nanosleep, &wish, NULL);
        _exit(value == 0 && probe_now() - before >= 60000000 ? 0 : 1);
    }
    probe_sleep(10);
    NEED(kill(pid, SIGSTOP) == 0 && waitpid(pid, NULL, WUNTRACED) == pid && kill(pid, SIGCONT) == 0, "SIGSTOP");
    EFFECT(probe_wait(pid) == 0);
}

/* -- sending -- */

CHECK(kill, "a child")
{
    pid_t pid = probe_sleeper();
    MUST(CALL(kill, pid, SIGTERM));
    EFFECT(died_of(pid, SIGTERM));
}

CHECK(kill, "sig=0: whether a process is there")
{
    MUST(CALL(kill, getpid(), 0));
    ANSWERS(CALL(kill, 0x3fffffff, 0), ESRCH);
}

CHECK(kill, "a group")
{
    pid_t pid = probe_sleeper();
    NEED(setpgid(pid, pid) == 0, "setpgid");
    MUST(CALL(kill, -pid, SIGTERM));
    EFFECT(died_of(pid, SIGTERM));
}

CHECK(kill, "sig=SIGSTOP: stops, and SIGCONT goes on")
{
    pid_t pid = probe_sleeper();
    int status = 0;
    MUST(CALL(kill, pid, SIGSTOP));
    EFFECT(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    NEED(kill(pid, SIGCONT) == 0, "kill");
    EFFECT(waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status));
}

CHECK(tkill, "the thread itself")
{
    catch_signal(SIGUSR1, 0);
    MUST(CALL(tkill, gettid(), SIGUSR1));
    EFFECT(arrived(SIGUSR1));
}

CHECK(tgkill, "the thread itself")
{
    catch_signal(SIGUSR1, 0);
    MUST(CALL(tgkill, getpid(), gettid(), SIGUSR1));
    EFFECT(arrived(SIGUSR1));
}

CHECK(tgkill, "a thread of another process is ESRCH")
{
    ANSWERS(CALL(tgkill, getpid(), 0x3fffffff, 0), ESRCH);
}

static siginfo_t queued(void)
{
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = 4711;
    return info;
}

CHECK(rt_sigqueueinfo, "the value arrives")
{
    siginfo_t info = queued();
    catch_signal(SIGUSR1, 0);
    MUST(CALL(rt_sigqueueinfo, getpid(), SIGUSR1, &info));
    EFFECT(arrived(SIGUSR1) && value_seen == 4711);
}

CHECK(rt_sigqueueinfo, "signals of real time wait in order")
{
    siginfo_t info = queued();
    uint64_t set = 1UL << 39; /* signal 40 */
    NEED(RAW(rt_sigprocmask, SIG_BLOCK, &set, NULL, 8) == 0, "rt_sigprocmask");
    info.si_signo = 40;
    for (int n = 1; n <= 2; n++) {
        info.si_value.sival_int = n;
        MUST(CALL(rt_sigqueueinfo, getpid(), 40, &info));
    }
    struct timespec patience = {8, 0};
    siginfo_t got = {0};
    EFFECT(RAW(rt_sigtimedwait, &set, &got, &patience, 8) == 40 && got.si_value.sival_int == 1);
    EFFECT(RAW(rt_sigtimedwait, &set, &got, &patience, 8) == 40 && got.si_value.sival_int == 2);
}

CHECK(rt_tgsigqueueinfo, "the value arrives")
{
    siginfo_t info = queued();
    catch_signal(SIGUSR1, 0);
    MUST(CALL(rt_tgsigqueueinfo, getpid(), gettid(), SIGUSR1, &info));
    EFFECT(arrived(SIGUSR1) && value_seen == 4711);
}

/* -- descriptors of processes -- */

CHECK(pidfd_open, "readable when the process has ended")
{
    pid_t pid = probe_sleeper();
    int fd = (int)MUST(CALL(pidfd_open, pid, 0));
    struct { int fd; short events, got; } one = {fd, 1, 0};
    EFFECT(RAW(poll, &one, 1, 0) == 0 && kill(pid, SIGKILL) == 0 && RAW(poll, &one, 1, 5000) == 1);
    EFFECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(pidfd_open, "flags=PIDFD_NONBLOCK")
{
    int fd = (int)MUST(CALL(pidfd_open, probe_sleeper(), O_NONBLOCK));
    siginfo_t info;
    EFFECT(RAW(waitid, 3 /* P_PIDFD */, fd, &info, WEXITED, NULL) == -EAGAIN);
}

CHECK(pidfd_open, "flags=PIDFD_THREAD")
{
    int fd = (int)MUST(CALL(pidfd_open, gettid(), O_EXCL));
    EFFECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(pidfd_send_signal, "a child")
{
    pid_t pid = probe_sleeper();
    int fd = (int)RAW(pidfd_open, pid, 0);
    MUST(CALL(pidfd_send_signal, fd < 0 ? 777 : fd, SIGTERM, NULL, 0));
    EFFECT(died_of(pid, SIGTERM));
}
