/* build: sig_queue -pthread
 *
 * Signals as messages: real-time ones and their order, waiting for them, signalfd, alternate stacks, pidfds, and what a
 * parent learns of its children.
 */
#include "step.h"
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <ucontext.h>

static char order[64];
static int taken;
static void note(int sig, siginfo_t *info, void *context) {
    (void)context;
    order[taken++] = sig == SIGRTMIN ? 'a' + info->si_value.sival_int : sig == SIGRTMIN + 1 ? 'A' + info->si_value.sival_int : 'u';
}

static sigset_t some(int first, ...) {
    sigset_t set;
    va_list more;
    sigemptyset(&set);
    va_start(more, first);
    for (int sig = first; sig; sig = va_arg(more, int))
        sigaddset(&set, sig);
    va_end(more);
    return set;
}

static void queues(void) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigset_t set = some(SIGRTMIN, SIGRTMIN + 1, SIGUSR1, 0), pending, old;
    /* All blocked while one runs: else they nest, the last delivered runs first. */
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGRTMIN, &action, NULL));
    MUST(sigaction(SIGRTMIN + 1, &action, NULL));
    MUST(sigaction(SIGUSR1, &action, NULL));
    MUST(sigprocmask(SIG_BLOCK, &set, &old));
    for (int i = 0; i < 3; i++) {
        STEP(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i}));
        STEP(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}));
        MUST(kill(getpid(), SIGUSR1)); /* three become one */
    }
    STEP(sigpending(&pending));
    say("pending %d %d %d %d", sigismember(&pending, SIGRTMIN), sigismember(&pending, SIGRTMIN + 1),
        sigismember(&pending, SIGUSR1), sigismember(&pending, SIGUSR2));
    MUST(sigprocmask(SIG_SETMASK, &old, NULL));
    say("order %s", order);
    STEP(sigqueue(getpid(), 65, (union sigval){0}));
    STEP(sigqueue(0x3fffffff, SIGUSR1, (union sigval){0}));
    siginfo_t forged = {.si_signo = SIGUSR1, .si_code = SI_USER};
    STEP(syscall(SYS_rt_sigqueueinfo, getppid(), SIGUSR1, &forged));
    forged.si_code = SI_QUEUE - 10;
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    STEP(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGUSR1, &forged));
    siginfo_t got;
    STEP(sigwaitinfo(&set, &got));
    say("code %d", got.si_code);
    STEP(sigtimedwait(&set, &got, &(struct timespec){0, 1000000}));
    STEP(sigtimedwait(&set, &got, &(struct timespec){0, 1000000000}));
    STEP(sigtimedwait((void *)8, &got, NULL));
    pid_t child = fork();
    if (child == 0) {
        struct rlimit few = {4, 4};
        MUST(setrlimit(RLIMIT_SIGPENDING, &few));
        int sent = 0;
        while (sent < 100 && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
            sent++;
        /* Others of the same user count too, so only the end is sure. */
        say("at most four queued %d, then %s; a standard one %d", sent <= 4, errname(errno), kill(getpid(), SIGUSR1));
        _exit(0);
    }
    wait_for(child);
    MUST(sigprocmask(SIG_SETMASK, &old, NULL));
}

static void descriptors(void) {
    sigset_t set = some(SIGUSR2, SIGRTMIN + 2, 0), old;
    MUST(sigprocmask(SIG_BLOCK, &set, &old));
    int fd = STEP(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    struct signalfd_siginfo info[3];
    STEP(read(fd, info, sizeof info));
    STEP(read(fd, info, 10));
    MUST(kill(getpid(), SIGUSR2));
    MUST(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 5}));
    struct pollfd poll_fd = {fd, POLLIN, 0};
    STEP(poll(&poll_fd, 1, 0));
    say("%zd signals", read(fd, info, sizeof info) / (ssize_t)sizeof *info);
    say("%d of me %d, %d with %d", info[0].ssi_signo == SIGUSR2, info[0].ssi_pid == (unsigned)getpid(),
        (int)info[1].ssi_signo == SIGRTMIN + 2, info[1].ssi_int);
    sigset_t only = some(SIGRTMIN + 2, 0);
    STEP(signalfd(fd, &only, 0) == fd);
    MUST(kill(getpid(), SIGUSR2));
    STEP(read(fd, info, sizeof info));
    STEP(signalfd(0, &only, 0));
    STEP(signalfd(-1, &only, 1));
    siginfo_t got;
    MUST(sigwaitinfo(&set, &got));
    MUST(sigprocmask(SIG_SETMASK, &old, NULL));
    close(fd);
}

static char *stack_area;
static volatile int on_stack, change_error;
static void on_alternate(int sig) {
    (void)sig;
    char here;
    stack_t now, other = {.ss_sp = stack_area, .ss_size = 65536};
    on_stack = &here > stack_area && &here < stack_area + 65536;
    sigaltstack(NULL, &now);
    on_stack += 10 * now.ss_flags;
    change_error = sigaltstack(&other, NULL) ? errno : 0;
}

static void stacks(void) {
    stack_area = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = stack_area, .ss_size = 65536}, old;
    STEP(sigaltstack(NULL, &old));
    say("flags %d", old.ss_flags);
    STEP(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_handler = on_alternate, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGUSR1, &action, NULL));
    raise(SIGUSR1);
    say("on it %d, changing it there %s", on_stack, errname(change_error));
    stack.ss_flags = (int)(1U << 31); /* SS_AUTODISARM */
    STEP(sigaltstack(&stack, NULL));
    raise(SIGUSR1);
    say("on it %d, changing it there %s", on_stack, change_error ? errname(change_error) : "-");
    stack.ss_flags = 0, stack.ss_size = 100;
    STEP(sigaltstack(&stack, NULL));
    stack.ss_flags = 77, stack.ss_size = 65536;
    STEP(sigaltstack(&stack, NULL));
    stack.ss_flags = SS_DISABLE;
    STEP(sigaltstack(&stack, NULL));
    raise(SIGUSR1);
    say("on it %d", on_stack % 10);
}

static void pidfds(void) {
    int gate[2];
    MUST(pipe(gate));
    pid_t pid = fork();
    if (pid == 0) {
        close(gate[1]);
        MUST(read(gate[0], &(char){0}, 1) + 1);
        _exit(3);
    }
    int fd = STEP(syscall(SYS_pidfd_open, pid, 0) >= 0) ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    STEP(syscall(SYS_pidfd_open, 0x3fffffff, 0));
    STEP(syscall(SYS_pidfd_open, pid, 1));
    STEP(syscall(SYS_pidfd_open, -1, 0));
    STEP(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    STEP(syscall(SYS_pidfd_send_signal, 0, SIGUSR1, NULL, 0));
    STEP(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 1 << 20));
    struct pollfd poll_fd = {fd, POLLIN, 0};
    STEP(poll(&poll_fd, 1, 0));
    siginfo_t info = {0};
    STEP(waitid(P_PIDFD, fd, &info, WEXITED | WNOHANG));
    STEP(syscall(SYS_pidfd_send_signal, fd, SIGSTOP, NULL, 0));
    STEP(waitid(P_PIDFD, fd, &info, WSTOPPED));
    say("stopped %d", info.si_code == CLD_STOPPED);
    STEP(syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0));
    STEP(waitid(P_PIDFD, fd, &info, WCONTINUED));
    close(gate[0]), close(gate[1]);
    STEP(poll(&poll_fd, 1, -1));
    STEP(waitid(P_PIDFD, fd, &info, WEXITED));
    say("exited %d with %d", info.si_code == CLD_EXITED, info.si_status);
    STEP(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
    STEP(waitid(P_PIDFD, fd, &info, WEXITED));
    close(fd);
    int from_clone = -1;
    pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &from_clone, NULL, 0);
    if (pid == 0)
        _exit(4);
    STEP(waitid(P_PIDFD, from_clone, &info, WEXITED));
    say("exited with %d, close-on-exec %d", info.si_status, fcntl(from_clone, F_GETFD));
    close(from_clone);
}

static volatile int child_code, child_status, child_right;
static pid_t awaited;
static void on_child(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    child_code = info->si_code, child_status = info->si_status, child_right = info->si_pid == awaited;
}

static void children(void) {
    sigset_t set = some(SIGCHLD, 0), old;
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO};
    MUST(sigaction(SIGCHLD, &action, NULL));
    MUST(sigprocmask(SIG_BLOCK, &set, &old));
    awaited = fork();
    if (awaited == 0)
        for (;;)
            pause();
    const int ends[] = {SIGSTOP, SIGCONT, SIGTERM};
    for (int i = 0; i < 3; i++) {
        MUST(kill(awaited, ends[i]));
        sigsuspend(&old);
        say("SIGCHLD %d: code %d status %d", child_right, child_code, child_status);
    }
    wait_for(awaited);
    action.sa_flags |= SA_NOCLDSTOP | SA_NOCLDWAIT;
    MUST(sigaction(SIGCHLD, &action, NULL));
    awaited = fork();
    if (awaited == 0)
        _exit(5);
    sigsuspend(&old);
    say("SIGCHLD %d: code %d status %d", child_right, child_code, child_status);
    STEP(waitpid(awaited, NULL, 0));
    signal(SIGCHLD, SIG_DFL);
    MUST(sigprocmask(SIG_SETMASK, &old, NULL));
}

static void *victim(void *tid) {
    sigset_t set = some(SIGUSR1, 0);
    int got;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    __atomic_store_n((int *)tid, gettid(), __ATOMIC_RELEASE);
    sigwait(&set, &got);
    return (void *)(long)got;
}

static void threads(void) {
    pthread_t thread;
    int tid = 0;
    pthread_create(&thread, NULL, victim, &tid);
    while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
        nap_ms(1);
    STEP(syscall(SYS_tgkill, getpid(), tid, 0));
    STEP(syscall(SYS_tgkill, tid, tid, 0));
    STEP(syscall(SYS_tgkill, getpid(), 0x3fffffff, 0));
    STEP(syscall(SYS_tgkill, -1, tid, 0));
    STEP(syscall(SYS_tkill, tid, 65));
    STEP(syscall(SYS_tkill, tid, SIGUSR1));
    void *got;
    pthread_join(thread, &got);
    say("the thread took %ld", (long)got);
}

static void addresses(void) {
    STEP(kill(getpid(), 0));
    STEP(kill(getpid(), 65));
    STEP(kill(0x3fffffff, 0));
    STEP(kill(-0x3fffffff, 0));
    STEP(kill(INT_MIN, 0));
    pid_t pid = fork();
    if (pid == 0) {
        MUST(setsid());
        signal(SIGTERM, SIG_IGN);
        STEP(kill(0, SIGTERM));
        STEP(kill(-getpid(), 0));
        _exit(0);
    }
    wait_for(pid);
}

int main(void) {
    queues();
    descriptors();
    stacks();
    pidfds();
    children();
    threads();
    addresses();
    return 0;
}
