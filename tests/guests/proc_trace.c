/* build: proc_trace -pthread
 *
 * One process inspects and changes its own child: ptrace in its forms, kcmp, pidfd_getfd.
 */
#include "step.h"
#include <linux/kcmp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>

static volatile long word = 11;
static int gate[2];

static void next(const char *label, pid_t pid) {
    int status;
    pid_t got = waitpid(pid, &status, __WALL);
    if (got == pid && WIFSTOPPED(status))
        say("%s: stopped by %d event %d", label, WSTOPSIG(status), status >> 16);
    else
        say("%s: %s", label, got < 0 ? errname(errno) : status_text(status));
}

static pid_t sleeper(void) {
    int ready[2];
    MUST(pipe(ready));
    pid_t pid = MUST(fork());
    if (pid == 0) {
        prctl(PR_SET_PTRACER, -1L, 0, 0, 0); /* for hosts with Yama */
        word = 22;
        MUST(write(ready[1], "", 1));
        for (char byte; read(gate[0], &byte, 1) == 1;)
            if (getppid() == 77) /* only the tracer can make it so */
                _exit(7);
        _exit(0);
    }
    MUST(read(ready[0], &(char){0}, 1));
    close(ready[0]), close(ready[1]);
    until_asleep(pid); /* in its read */
    return pid;
}

static void trace_me(void) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        STEP(ptrace(PTRACE_TRACEME, 0, 0, 0));
        STEP(ptrace(PTRACE_TRACEME, 0, 0, 0));
        word = 33;
        raise(SIGUSR1);
        _exit(word == 44 ? 5 : 6);
    }
    next("asked to be traced", pid);
    STEP(ptrace(PTRACE_PEEKDATA, pid, &word, 0));
    STEP(ptrace(PTRACE_POKEDATA, pid, &word, 44));
    STEP(ptrace(PTRACE_PEEKDATA, pid, (void *)8, 0));
    siginfo_t info;
    STEP(ptrace(PTRACE_GETSIGINFO, pid, 0, &info));
    say("signal %d of the child's own %d", info.si_signo, info.si_pid == pid);
    STEP(ptrace(PTRACE_SEIZE, pid, 0, 0));
    STEP(ptrace(PTRACE_CONT, pid, 0, 0));
    next("the signal was taken away", pid);
    STEP(ptrace(PTRACE_CONT, pid, 0, 0));
}

static void attach(void) {
    pid_t pid = sleeper();
    STEP(ptrace(PTRACE_ATTACH, pid, 0, 0));
    next("attached", pid);
    struct user_regs_struct regs;
    STEP(ptrace(PTRACE_GETREGS, pid, 0, &regs));
    say("in read %d", regs.orig_rax == SYS_read);
    STEP(ptrace(PTRACE_PEEKDATA, pid, &word, 0));
    STEP(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXIT));
    STEP(ptrace(PTRACE_SETOPTIONS, pid, 0, 1 << 30));
    STEP(ptrace(PTRACE_SYSCALL, pid, 0, 0));
    MUST(write(gate[1], "x", 1));
    /* The read is begun once more, ends, and getppid follows: entry and exit of each. */
    for (int i = 0; i < 20; i++) {
        next("system call", pid);
        MUST(ptrace(PTRACE_GETREGS, pid, 0, &regs));
        if (regs.orig_rax == SYS_getppid && regs.rax != (unsigned long)-ENOSYS)
            break;
        MUST(ptrace(PTRACE_SYSCALL, pid, 0, 0));
    }
    regs.rax = 77;
    STEP(ptrace(PTRACE_SETREGS, pid, 0, &regs));
    STEP(ptrace(PTRACE_CONT, pid, 0, 0));
    next("about to exit", pid);
    unsigned long message = 0;
    STEP(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message));
    say("%s", status_text((int)message));
    STEP(ptrace(PTRACE_DETACH, pid, 0, 0));
    next("detached", pid);
    STEP(ptrace(PTRACE_ATTACH, pid, 0, 0));
}

static void seize(void) {
    pid_t pid = sleeper();
    STEP(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
    STEP(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL));
    STEP(ptrace(PTRACE_GETREGS, pid, 0, &(struct user_regs_struct){0}));
    STEP(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
    next("interrupted", pid);
    pid_t second = MUST(fork());
    if (second == 0) {
        STEP(ptrace(PTRACE_SEIZE, pid, 0, 0));
        STEP(ptrace(PTRACE_CONT, pid, 0, 0));
        _exit(0);
    }
    wait_for(second);
    STEP(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0 || ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    STEP(kill(pid, SIGKILL));
    next("killed", pid);
    STEP(ptrace(PTRACE_SEIZE, getpid(), 0, 0));
    STEP(ptrace(PTRACE_SEIZE, 0x3fffffff, 0, 0));
    STEP(ptrace(0x7777, getpid(), 0, 0));
}

/* A virtual call of a traced process is a call like any other. */
static void virtual_calls(void) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        int fd = open("/dev/null", O_RDONLY);
        struct stat st;
        _exit(fd < 0 || fstat(fd, &st) || stat("/", &st) || access("/nowhere", F_OK) == 0);
    }
    next("child", pid);
    MUST(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD));
    int stops = 0, opened = 0, status;
    for (;;) {
        struct user_regs_struct regs;
        MUST(ptrace(PTRACE_SYSCALL, pid, 0, 0));
        MUST(waitpid(pid, &status, 0));
        if (!WIFSTOPPED(status))
            break;
        MUST(ptrace(PTRACE_GETREGS, pid, 0, &regs));
        stops++;
        opened += regs.orig_rax == SYS_openat && (long)regs.rax >= 0;
    }
    say("system call stops %d, opened %d, %s", stops, opened, status_text(status));
}

/* Calls that need a supervisor to stop the thread: it cannot do so while another tracer has stopped the thread. */
static void supervised_calls(void) {
    pid_t pid = MUST(fork());
    if (pid == 0) {
        MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
        STEP(chdir("/"));
        execl("/bin/sh", "sh", "-c", "exit 9", NULL);
        _exit(errno);
    }
    int status;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status))
        MUST(ptrace(PTRACE_CONT, pid, 0, 0)); /* natively there is a trap after execve */
    say("the traced program: %s", WEXITSTATUS(status) == 9 ? "executed" : errname(WEXITSTATUS(status)));
}

static void *other_thread(void *fd) {
    pid_t me = getpid();
    STEP(syscall(SYS_kcmp, me, me, KCMP_FILE, (long)fd, (long)fd));
    STEP(syscall(SYS_kcmp, gettid(), me, KCMP_VM, 0, 0));
    STEP(syscall(SYS_kcmp, gettid(), me, KCMP_FILES, 0, 0));
    return NULL;
}

static void compare_and_take(void) {
    pid_t pid = sleeper();
    int copy = MUST(dup(gate[0]));
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, (void *)(long)copy);
    pthread_join(thread, NULL);
    STEP(syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, gate[0], gate[0]));
    STEP(syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, gate[0], copy));
    say("another file %d", syscall(SYS_kcmp, getpid(), pid, KCMP_FILE, gate[0], gate[1]) > 0);
    say("another memory %d", syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0) > 0);
    STEP(syscall(SYS_kcmp, getpid(), 0x3fffffff, KCMP_VM, 0, 0));
    STEP(syscall(SYS_kcmp, getpid(), pid, 99, 0, 0));
    int handle = MUST(syscall(SYS_pidfd_open, pid, 0));
    int taken = STEP(syscall(SYS_pidfd_getfd, handle, gate[1], 0) >= 0);
    taken = MUST(syscall(SYS_pidfd_getfd, handle, gate[1], 0));
    say("the same file %ld, close-on-exec %d", syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, taken, gate[1]),
        fcntl(taken, F_GETFD));
    STEP(syscall(SYS_pidfd_getfd, handle, 999, 0));
    STEP(syscall(SYS_pidfd_getfd, handle, gate[1], 1));
    STEP(syscall(SYS_pidfd_getfd, gate[0], gate[1], 0));
    MUST(kill(pid, SIGKILL));
    wait_for(pid);
    STEP(syscall(SYS_pidfd_getfd, handle, gate[1], 0));
    close(handle);
}

int main(void) {
    MUST(pipe(gate));
    trace_me();
    attach();
    seize();
    virtual_calls();
    supervised_calls();
    compare_and_take();
    return 0;
}
