/* compat/probe: checks of making, replacing, ending and awaiting processes, of groups and sessions, and of reaching
 * into other processes. */
#include "probe.h"

#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static bool exited(long pid, int code)
{
    int status = 0;
    return waitpid((pid_t)pid, &status, __WALL) == pid && WIFEXITED(status) && WEXITSTATUS(status) == code;
}

/* -- making -- */

CHECK(fork, "a child with a copy of the memory")
{
    volatile int mine = 1;
    long pid = MUST(CALL(fork));
    if (pid == 0) {
        mine = 2;
        _exit(mine + 40);
    }
    EFFECT(exited(pid, 42) && mine == 1);
}

/* The child runs on its parent's stack, so neither may return from a function in between. */
CHECK(vfork, "the parent waits, and shares its memory")
{
    static volatile int shared;
    probe_tell_call(NR_vfork, (const long[6]){0});
    register long value __asm__("rax") = NR_vfork;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "movl $7, %1\n"
                     "mov $43, %%edi\n"
                     "mov $60, %%eax\n"
                     "syscall\n"
                     "1:"
                     : "+r"(value), "=m"(shared)
                     :
                     : "rcx", "rdi", "r11", "memory");
    long pid = value;
    MUST(pid);
    EFFECT(shared == 7 && exited(pid, 43));
}

static volatile int thread_ran;
static char thread_stack[65536] __attribute__((aligned(16)));

static int runs(void *argument)
{
    thread_ran = *(int *)argument;
    return 44;
}

/* glibc's clone calls a function on a new stack; its registers are those that the check names. */
static void clone_child(int flags)
{
    static int given = 5;
    thread_ran = 0;
    long report[6] = {flags | SIGCHLD, (long)thread_stack, 0, 0, 0, 0};
    probe_tell_call(NR_clone, report);
    int pid = clone(runs, thread_stack + sizeof thread_stack, flags | SIGCHLD, &given, NULL, NULL, NULL);
    MUST(pid < 0 ? -errno : pid);
    EFFECT(exited(pid, 44));
}

CHECK(clone, "a child, as fork makes it")
{
    long pid = MUST(CALL(clone, SIGCHLD, 0, 0, 0, 0));
    if (pid == 0)
        _exit(45);
    EFFECT(exited(pid, 45));
}

CHECK(clone, "clone_flags=CLONE_VM: shares the memory")
{
    clone_child(CLONE_VM);
    EFFECT(thread_ran == 5);
}

CHECK(clone, "clone_flags=CLONE_VFORK: the parent waits")
{
    clone_child(CLONE_VM | CLONE_VFORK);
    EFFECT(thread_ran == 5);
}

static int makes_file_descriptor(void *argument)
{
    *(volatile int *)argument = dup2(2, 150) == 150 || dup2(0, 150) == 150;
    return 44;
}

CHECK(clone, "clone_flags=CLONE_FILES: shares descriptors")
{
    static int made;
    probe_memfd(0);
    long report[6] = {CLONE_VM | CLONE_FILES | SIGCHLD, (long)thread_stack, 0, 0, 0, 0};
    probe_tell_call(NR_clone, report);
    int pid = clone(makes_file_descriptor, thread_stack + sizeof thread_stack, CLONE_VM | CLONE_FILES | SIGCHLD, &made);
    MUST(pid < 0 ? -errno : pid);
    EFFECT(exited(pid, 44) && made && fcntl(150, F_GETFD) >= 0);
}

static int changes_umask(void *argument)
{
    (void)argument;
    umask(0123);
    return 44;
}

CHECK(clone, "clone_flags=CLONE_FS: shares umask and directory")
{
    umask(022);
    long report[6] = {CLONE_VM | CLONE_FS | SIGCHLD, (long)thread_stack, 0, 0, 0, 0};
    probe_tell_call(NR_clone, report);
    int pid = clone(changes_umask, thread_stack + sizeof thread_stack, CLONE_VM | CLONE_FS | SIGCHLD, NULL);
    MUST(pid < 0 ? -errno : pid);
    EFFECT(exited(pid, 44) && umask(0) == 0123);
}

CHECK(clone, "clone_flags=CLONE_SIGHAND: shares handlers")
{
    clone_child(CLONE_VM | CLONE_SIGHAND);
}

CHECK(clone, "clone_flags=CLONE_SYSVSEM")
{
    clone_child(CLONE_SYSVSEM);
}

CHECK(clone, "clone_flags=CLONE_IO")
{
    clone_child((int)CLONE_IO);
}

CHECK(clone, "clone_flags=CLONE_PTRACE: without a tracer it does nothing")
{
    clone_child(CLONE_PTRACE);
}

CHECK(clone, "clone_flags=CLONE_UNTRACED")
{
    clone_child(CLONE_UNTRACED);
}

CHECK(clone, "clone_flags=CLONE_PARENT_SETTID")
{
    int tid = -1;
    long pid = MUST(CALL(clone, CLONE_PARENT_SETTID | SIGCHLD, 0, &tid, 0, 0));
    if (pid == 0)
        _exit(45);
    EFFECT(exited(pid, 45) && tid == pid);
}

CHECK(clone, "clone_flags=CLONE_CHILD_SETTID")
{
    volatile int tid = -1;
    long pid = MUST(CALL(clone, CLONE_CHILD_SETTID | SIGCHLD, 0, 0, &tid, 0));
    if (pid == 0)
        _exit(tid == gettid() ? 45 : 46);
    EFFECT(exited(pid, 45));
}

CHECK(clone, "clone_flags=CLONE_PIDFD")
{
    int fd = -1;
    long pid = MUST(CALL(clone, CLONE_PIDFD | SIGCHLD, 0, &fd, 0, 0));
    if (pid == 0)
        _exit(45);
    siginfo_t info = {0};
    EFFECT(fd >= 0 && RAW(waitid, 3, fd, &info, WEXITED, NULL) == 0 && info.si_pid == pid && info.si_status == 45);
}

CHECK(clone, "clone_flags=CLONE_PARENT: a sibling")
{
    int *ended = (int *)probe_shared(1);
    pid_t middle = probe_fork();
    if (middle == 0) {
        long pid = MUST(CALL(clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
        if (pid == 0)
            _exit(45);
        *ended = (int)pid;
        _exit(0);
    }
    probe_wait(middle);
    NEED(*ended > 0, "a child");
    EFFECT(exited(*ended, 45));
}

static int thread_sets(void *argument)
{
    *(volatile int *)argument = (int)gettid();
    return 0;
}

CHECK(clone, "clone_flags=CLONE_THREAD: a thread of the same process")
{
    volatile int tid = 0, cleared = -1;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    long report[6] = {flags, (long)thread_stack, 0, (long)&cleared, 0, 0};
    probe_tell_call(NR_clone, report);
    int made = clone(thread_sets, thread_stack + sizeof thread_stack, flags, (void *)&tid, NULL, NULL, &cleared);
    MUST(made < 0 ? -errno : made);
    for (int n = 0; n < 2000 && cleared; n++)
        probe_sleep(1);
    EFFECT(tid == made && tid != getpid() && cleared == 0);
}

static unsigned long tls_block[8];

static int reads_fs(void *argument)
{
    unsigned long word;
    __asm__ volatile("mov %%fs:0, %0" : "=r"(word));
    *(volatile unsigned long *)argument = word;
    return 0;
}

CHECK(clone, "clone_flags=CLONE_SETTLS: a thread block of its own")
{
    static volatile unsigned long seen;
    tls_block[0] = 0x6b7375685f746c73;
    int flags = CLONE_VM | CLONE_VFORK | CLONE_SETTLS | SIGCHLD;
    long report[6] = {flags, (long)thread_stack, 0, 0, (long)tls_block, 0};
    probe_tell_call(NR_clone, report);
    int pid = clone(reads_fs, thread_stack + sizeof thread_stack, flags, (void *)&seen, NULL, tls_block, NULL);
    MUST(pid < 0 ? -errno : pid);
    waitpid(pid, NULL, 0);
    EFFECT(seen == tls_block[0]);
}

/* A new namespace ends with the child. */
static void in_new(int flag)
{
    long pid = MUST_OR(CALL(clone, flag | SIGCHLD, 0, 0, 0, 0), EPERM);
    if (pid == 0)
        _exit(45);
    EFFECT(exited(pid, 45));
}

CHECK(clone, "clone_flags=CLONE_NEWUSER: or users may not")
{
    in_new(CLONE_NEWUSER);
}
CHECK(clone, "clone_flags=CLONE_NEWNS: or not without privilege")
{
    in_new(CLONE_NEWNS);
}
CHECK(clone, "clone_flags=CLONE_NEWPID: or not without privilege")
{
    in_new(CLONE_NEWPID);
}
CHECK(clone, "clone_flags=CLONE_NEWNET: or not without privilege")
{
    in_new(CLONE_NEWNET);
}
CHECK(clone, "clone_flags=CLONE_NEWUTS: or not without privilege")
{
    in_new(CLONE_NEWUTS);
}
CHECK(clone, "clone_flags=CLONE_NEWIPC: or not without privilege")
{
    in_new(CLONE_NEWIPC);
}
CHECK(clone, "clone_flags=CLONE_NEWCGROUP: or not without privilege")
{
    in_new(CLONE_NEWCGROUP);
}

CHECK(clone3, "a child, as fork makes it")
{
    uint64_t arguments[11] = {[4] = SIGCHLD};
    long pid = MUST(CALL(clone3, arguments, 64));
    if (pid == 0)
        _exit(45);
    EFFECT(exited(pid, 45));
}

/* -- replacing -- */

/* The program itself, which lists its checks; /proc/self/exe may be missing, so nothing is assumed of its name. */
static int own_program(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    NEED(fd >= 0, "/proc/self/exe");
    return fd;
}

static char *const LIST_ARGUMENTS[] = {"husk-probe", "--list", "execve", NULL};
static char *const NO_ENVIRONMENT[] = {NULL};

static void executes(bool by_descriptor)
{
    int ends[2], program = own_program();
    char text[4096] = {0}, path[512] = {0};
    probe_pipe(ends);
    pid_t pid = probe_fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        if (by_descriptor)
            MUST(CALL(execveat, program, "", LIST_ARGUMENTS, NO_ENVIRONMENT, AT_EMPTY_PATH));
        NEED(readlink("/proc/self/exe", path, sizeof path - 1) > 0, "/proc/self/exe");
        MUST(CALL(execve, path, LIST_ARGUMENTS, NO_ENVIRONMENT));
        _exit(1);
    }
    close(ends[1]);
    for (size_t length = 0; length < sizeof text - 1;) {
        ssize_t got = read(ends[0], text + length, sizeof text - 1 - length);
        if (got <= 0)
            break;
        length += (size_t)got;
    }
    EFFECT(probe_wait(pid) == 0 && strstr(text, "execve\t") != NULL);
}

CHECK(execve, "the program runs, with its arguments")
{
    executes(false);
}

CHECK(execve, "a name that does not exist is ENOENT")
{
    probe_scratch();
    ANSWERS(CALL(execve, "./nothing", LIST_ARGUMENTS, NO_ENVIRONMENT), ENOENT);
}

CHECK(execve, "a file that may not be executed is EACCES")
{
    NEED(close(probe_file("f", "#!/bin/sh\n")) == 0, "close");
    ANSWERS(CALL(execve, "./f", LIST_ARGUMENTS, NO_ENVIRONMENT), EACCES);
}

CHECK(execve, "a file that is no program is ENOEXEC")
{
    NEED(close(probe_file("f", "no program\n")) == 0 && chmod("f", 0755) == 0, "chmod");
    ANSWERS(CALL(execve, "./f", LIST_ARGUMENTS, NO_ENVIRONMENT), ENOEXEC);
}

CHECK(execveat, "flags=AT_EMPTY_PATH: by descriptor")
{
    executes(true);
}

CHECK(execveat, "flags=AT_SYMLINK_NOFOLLOW: a link is ELOOP")
{
    NEED(close(probe_file("f", "#!/bin/sh\n")) == 0 && chmod("f", 0755) == 0 && symlink("f", "l") == 0, "symlink");
    ANSWERS(CALL(execveat, AT_FDCWD, "l", LIST_ARGUMENTS, NO_ENVIRONMENT, AT_SYMLINK_NOFOLLOW), ELOOP);
}

/* -- ending and waiting -- */

CHECK(exit, "a thread ends, the process goes on")
{
    struct probe_thread thread;
    int done = 0;
    probe_thread_start(&thread, thread_sets, &done); /* the C library's clone ends it by exit */
    probe_thread_join(&thread);
    pid_t pid = probe_fork();
    if (pid == 0)
        (void)CALL(exit, 46);
    EFFECT(done && exited(pid, 46));
}

CHECK(exit_group, "the code arrives")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        (void)CALL(exit_group, 47);
    EFFECT(exited(pid, 47));
}

CHECK(wait4, "code and accounts of a child")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(3);
    int status = 0;
    struct rusage usage = {.ru_maxrss = -1};
    EFFECT(MUST(CALL(wait4, pid, &status, 0, &usage)) == pid && WEXITSTATUS(status) == 3 && usage.ru_maxrss >= 0);
}

CHECK(wait4, "options=WNOHANG: nothing yet")
{
    EFFECT(MUST(CALL(wait4, probe_sleeper(), NULL, WNOHANG, NULL)) == 0);
}

CHECK(wait4, "without a child is ECHILD")
{
    ANSWERS(CALL(wait4, -1, NULL, 0, NULL), ECHILD);
}

CHECK(waitid, "which=P_PID")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(3);
    siginfo_t info = {0};
    MUST(CALL(waitid, P_PID, pid, &info, WEXITED, NULL));
    EFFECT(info.si_pid == pid && info.si_code == CLD_EXITED && info.si_status == 3);
}

CHECK(waitid, "which=P_ALL: WNOWAIT leaves the child")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(3);
    siginfo_t info = {0};
    MUST(CALL(waitid, P_ALL, 0, &info, WEXITED | WNOWAIT, NULL));
    EFFECT(info.si_pid == pid && exited(pid, 3));
}

CHECK(waitid, "which=P_PGID")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(20);
        _exit(3);
    }
    NEED(setpgid(pid, pid) == 0, "setpgid");
    siginfo_t info = {0};
    MUST(CALL(waitid, P_PGID, pid, &info, WEXITED, NULL));
    EFFECT(info.si_pid == pid);
}

CHECK(waitid, "which=P_PIDFD")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(3);
    int fd = (int)RAW(pidfd_open, pid, 0);
    siginfo_t info = {0};
    MUST(CALL(waitid, 3, fd < 0 ? 777 : fd, &info, WEXITED, NULL));
    EFFECT(info.si_pid == pid && info.si_status == 3);
}

/* -- names of processes -- */

CHECK(getpid, "as the parent knows it")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(CALL(getpid) % 251 + 1);
    EFFECT(exited(pid, pid % 251 + 1));
}

CHECK(gettid, "of the first thread it is the pid")
{
    EFFECT(MUST(CALL(gettid)) == getpid());
}

CHECK(getppid, "the maker")
{
    pid_t me = getpid(), pid = probe_fork();
    if (pid == 0)
        _exit(CALL(getppid) == me ? 0 : 1);
    EFFECT(exited(pid, 0));
}

CHECK(getpgrp, "what setpgid set")
{
    pid_t pid = probe_fork();
    if (pid == 0)
        _exit(setpgid(0, 0) == 0 && CALL(getpgrp) == getpid() ? 0 : 1);
    EFFECT(exited(pid, 0));
}

CHECK(setpgid, "a child leads a group")
{
    pid_t pid = probe_sleeper();
    MUST(CALL(setpgid, pid, pid));
    EFFECT(getpgid(pid) == pid);
}

CHECK(setpgid, "a process that does not exist is ESRCH")
{
    ANSWERS(CALL(setpgid, 0x3fffffff, 0), ESRCH);
}

CHECK(setsid, "leader of session and group")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        MUST(CALL(setsid));
        _exit(getsid(0) == getpid() && getpgrp() == getpid() ? 0 : 1);
    }
    EFFECT(exited(pid, 0));
}

CHECK(setsid, "the leader of a group is EPERM")
{
    NEED(getpgrp() == getpid(), "a group of its own");
    ANSWERS(CALL(setsid), EPERM);
}

CHECK(getpgid, "pid=0: one's own")
{
    EFFECT(MUST(CALL(getpgid, 0)) == getpgrp());
}

CHECK(getpgid, "of a child")
{
    EFFECT(MUST(CALL(getpgid, probe_sleeper())) == getpgrp());
}

CHECK(getpgid, "a process that does not exist is ESRCH")
{
    ANSWERS(CALL(getpgid, 0x3fffffff), ESRCH);
}

CHECK(getsid, "pid=0: one's own")
{
    EFFECT(MUST(CALL(getsid, 0)) == getsid(getpid()));
}

CHECK(getsid, "of a child")
{
    EFFECT(MUST(CALL(getsid, probe_sleeper())) == getsid(0));
}

/* -- reaching into a child -- */

static volatile long secret = 4711;

CHECK(process_vm_readv, "memory of a child")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        probe_sleep(8000);
        _exit(0);
    }
    long seen = 0;
    struct iovec mine = {&seen, 8}, theirs = {(void *)&secret, 8};
    EFFECT(MUST(CALL(process_vm_readv, pid, &mine, 1, &theirs, 1, 0)) == 8 && seen == 4711);
}

CHECK(process_vm_writev, "memory of a child")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        for (int n = 0; n < 4000 && secret == 4711; n++)
            probe_sleep(1);
        _exit((int)secret);
    }
    long wish = 5;
    struct iovec mine = {&wish, 8}, theirs = {(void *)&secret, 8};
    EFFECT(MUST(CALL(process_vm_writev, pid, &mine, 1, &theirs, 1, 0)) == 8 && exited(pid, 5));
}

CHECK(kcmp, "type=KCMP_FILE: shared with a child, or built without")
{
    int fd = probe_memfd(0), other = probe_memfd(0);
    pid_t pid = probe_sleeper();
    EFFECT(MUST(CALL(kcmp, getpid(), pid, 0, fd, fd)) == 0);
    EFFECT(MUST(CALL(kcmp, getpid(), pid, 0, fd, other)) != 0);
}

CHECK(kcmp, "type=KCMP_VM: not shared with a child")
{
    EFFECT(MUST(CALL(kcmp, getpid(), probe_sleeper(), 1, 0, 0)) != 0);
}

CHECK(pidfd_getfd, "a descriptor of a child")
{
    int *number = (int *)probe_shared(1);
    pid_t pid = probe_fork();
    if (pid == 0) {
        int fd = probe_memfd(33);
        *(volatile int *)number = fd;
        probe_sleep(8000);
        _exit(0);
    }
    while (!*(volatile int *)number)
        probe_sleep(1);
    int fd = (int)RAW(pidfd_open, pid, 0);
    int copy = (int)MUST(CALL(pidfd_getfd, fd < 0 ? 777 : fd, *number, 0));
    EFFECT(probe_size(copy) == 33);
}

CHECK(process_mrelease, "a process that is not dying is EINVAL")
{
    int fd = (int)RAW(pidfd_open, probe_sleeper(), 0);
    ANSWERS(CALL(process_mrelease, fd < 0 ? 777 : fd, 0), EINVAL, EBADF);
}

CHECK(setns, "a descriptor of something else is EINVAL")
{
    ANSWERS(CALL(setns, probe_memfd(0), 0), EINVAL);
}

/* -- tracing a child -- */

/* A child that asked to be traced and has stopped itself. */
static pid_t stopped_child(void)
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
            _exit(1);
        raise(SIGSTOP);
        _exit(48);
    }
    int status = 0;
    NEED(waitpid(pid, &status, WUNTRACED) == pid, "waitpid");
    errno = EPERM;
    NEED(WIFSTOPPED(status), "PTRACE_TRACEME");
    return pid;
}

CHECK(ptrace, "request=PTRACE_TRACEME")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        MUST(CALL(ptrace, PTRACE_TRACEME, 0, 0, 0));
        raise(SIGUSR1); /* deadly, but for a tracer */
        _exit(48);
    }
    int status = 0;
    EFFECT(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
}

CHECK(ptrace, "request=PTRACE_PEEKDATA")
{
    pid_t pid = stopped_child();
    long seen = 0;
    MUST(CALL(ptrace, PTRACE_PEEKDATA, pid, &secret, &seen));
    EFFECT(seen == 4711);
}

CHECK(ptrace, "request=PTRACE_POKEDATA")
{
    pid_t pid = stopped_child();
    long seen = 0;
    MUST(CALL(ptrace, PTRACE_POKEDATA, pid, &secret, 12));
    EFFECT(RAW(ptrace, PTRACE_PEEKDATA, pid, &secret, &seen) == 0 && seen == 12);
}

CHECK(ptrace, "request=PTRACE_GETREGS")
{
    pid_t pid = stopped_child();
    struct user_regs_struct registers = {0};
    MUST(CALL(ptrace, PTRACE_GETREGS, pid, 0, &registers));
    EFFECT(registers.rsp != 0 && registers.rip != 0);
}

CHECK(ptrace, "request=PTRACE_SETREGS")
{
    pid_t pid = stopped_child();
    struct user_regs_struct registers = {0}, after = {0};
    NEED(ptrace(PTRACE_GETREGS, pid, 0, &registers) == 0, "PTRACE_GETREGS");
    registers.r15 = 4711;
    MUST(CALL(ptrace, PTRACE_SETREGS, pid, 0, &registers));
    EFFECT(ptrace(PTRACE_GETREGS, pid, 0, &after) == 0 && after.r15 == 4711);
}

CHECK(ptrace, "request=PTRACE_GETREGSET")
{
    pid_t pid = stopped_child();
    struct user_regs_struct registers = {0};
    struct iovec part = {&registers, sizeof registers};
    MUST(CALL(ptrace, PTRACE_GETREGSET, pid, 1, &part));
    EFFECT(registers.rsp != 0 && part.iov_len == sizeof registers);
}

CHECK(ptrace, "request=PTRACE_CONT")
{
    pid_t pid = stopped_child();
    MUST(CALL(ptrace, PTRACE_CONT, pid, 0, 0));
    EFFECT(exited(pid, 48));
}

CHECK(ptrace, "request=PTRACE_SINGLESTEP")
{
    pid_t pid = stopped_child();
    int status = 0;
    MUST(CALL(ptrace, PTRACE_SINGLESTEP, pid, 0, 0));
    EFFECT(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
}

CHECK(ptrace, "request=PTRACE_SYSCALL: stops at the next call")
{
    pid_t pid = stopped_child();
    int status = 0;
    NEED(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0, "PTRACE_SETOPTIONS");
    MUST(CALL(ptrace, PTRACE_SYSCALL, pid, 0, 0));
    EFFECT(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
}

CHECK(ptrace, "request=PTRACE_SETOPTIONS: PTRACE_O_TRACEEXIT stops at the end")
{
    pid_t pid = stopped_child();
    int status = 0;
    MUST(CALL(ptrace, PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT));
    NEED(ptrace(PTRACE_CONT, pid, 0, 0) == 0, "PTRACE_CONT");
    EFFECT(waitpid(pid, &status, 0) == pid && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8));
}

CHECK(ptrace, "request=PTRACE_GETSIGINFO")
{
    pid_t pid = stopped_child();
    siginfo_t info = {0};
    MUST(CALL(ptrace, PTRACE_GETSIGINFO, pid, 0, &info));
    EFFECT(info.si_signo == SIGSTOP);
}

CHECK(ptrace, "request=PTRACE_GETSIGMASK")
{
    pid_t pid = stopped_child();
    uint64_t mask = ~0UL;
    MUST(CALL(ptrace, PTRACE_GETSIGMASK, pid, 8, &mask));
    EFFECT(mask != ~0UL);
}

CHECK(ptrace, "request=PTRACE_PEEKSIGINFO: nothing waits")
{
    pid_t pid = stopped_child();
    struct { uint64_t offset; uint32_t flags; int32_t count; } which = {0, 0, 1};
    siginfo_t info;
    EFFECT(MUST(CALL(ptrace, PTRACE_PEEKSIGINFO, pid, &which, &info)) == 0);
}

CHECK(ptrace, "request=PTRACE_PEEKUSER")
{
    pid_t pid = stopped_child();
    long word = 0;
    MUST(CALL(ptrace, PTRACE_PEEKUSER, pid, offsetof(struct user, regs.rsp), &word));
    EFFECT(word != 0);
}

CHECK(ptrace, "request=PTRACE_DETACH")
{
    pid_t pid = stopped_child();
    MUST(CALL(ptrace, PTRACE_DETACH, pid, 0, 0));
    EFFECT(exited(pid, 48));
}

CHECK(ptrace, "request=PTRACE_ATTACH")
{
    pid_t pid = probe_sleeper();
    int status = 0;
    MUST(CALL(ptrace, PTRACE_ATTACH, pid, 0, 0));
    EFFECT(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
}

CHECK(ptrace, "request=PTRACE_SEIZE")
{
    pid_t pid = probe_sleeper();
    int status = 0;
    MUST(CALL(ptrace, PTRACE_SEIZE, pid, 0, 0));
    NEED(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0, "PTRACE_INTERRUPT");
    EFFECT(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
}

CHECK(ptrace, "request=PTRACE_INTERRUPT")
{
    pid_t pid = probe_sleeper();
    int status = 0;
    NEED(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0, "PTRACE_SEIZE");
    MUST(CALL(ptrace, PTRACE_INTERRUPT, pid, 0, 0));
    EFFECT(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
}

CHECK(ptrace, "request=PTRACE_GET_SYSCALL_INFO")
{
    pid_t pid = stopped_child();
    char info[88] = {0};
    NEED(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) == 0, "PTRACE_SETOPTIONS");
    NEED(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && waitpid(pid, NULL, 0) == pid, "PTRACE_SYSCALL");
    EFFECT(MUST(CALL(ptrace, 0x420e, pid, sizeof info, info)) > 0 && info[0] >= 1);
}

CHECK(ptrace, "request=PTRACE_GET_RSEQ_CONFIGURATION")
{
    pid_t pid = stopped_child();
    uint64_t configuration[3] = {0};
    EFFECT(MUST(CALL(ptrace, 0x420f, pid, sizeof configuration, configuration)) == sizeof configuration);
}

CHECK(ptrace, "request=PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG")
{
    pid_t pid = stopped_child();
    uint64_t configuration[4] = {~0UL, 0, 0, 0};
    MUST(CALL(ptrace, 0x4211, pid, sizeof configuration, configuration));
    EFFECT(configuration[0] == 0);
}

CHECK(ptrace, "request=PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG: off")
{
    pid_t pid = stopped_child();
    uint64_t configuration[4] = {0, 0, 0, 0};
    MUST(CALL(ptrace, 0x4210, pid, sizeof configuration, configuration));
}

CHECK(ptrace, "request=PTRACE_ARCH_PRCTL: the base of FS")
{
    pid_t pid = stopped_child();
    unsigned long base = 0;
    MUST(CALL(ptrace, 30, pid, &base, 0x1003));
    EFFECT(base != 0);
}

CHECK(ptrace, "request=PTRACE_SECCOMP_GET_FILTER: or not without privilege")
{
    pid_t pid = stopped_child();
    MUST_OR(CALL(ptrace, PTRACE_SECCOMP_GET_FILTER, pid, 0, 0), EACCES, EINVAL, ENOENT, EPERM);
}
