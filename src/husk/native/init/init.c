/* native/init: husk-init, the first process of a box. It builds the walls, starts the guest, and ends with it.
 *
 *   husk ──spawns──▶ builder (this program; still as privileged as husk)
 *                      makes namespaces, maps its ids or waits until husk has, mounts an empty root, brings up
 *                      loopback
 *                      └─clone(CLONE_PARENT)─▶ reaper: pid 1 of the box, child of husk; no filter, no Landlock domain
 *                                               └─fork─▶ guest: drops everything, Landlock, filter, then execve
 *
 * The reaper is trusted code that guests cannot reach: a pid namespace, or Landlock's signal scope, makes it immune to
 * their signals. It watches the control socket: when husk ends or dies, the socket hangs up and the reaper kills every
 * process of the box. The only input is the plan that husk wrote to descriptor 4. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

const struct init_plan *init_plan;
size_t init_plan_size;

void init_report(uint32_t kind, int32_t a, int32_t b)
{
    struct init_report message = {.kind = kind, .a = a, .b = b};
    /* If husk is gone, the poll in watch() notices it. */
    (void)!send(CONTROL_FD, &message, sizeof message, MSG_NOSIGNAL);
}

_Noreturn void init_give_up(int step)
{
    init_report(REPORT_FAILED, step, errno);
    _exit(125);
}

void init_send_fd(uint32_t kind, int fd, int step)
{
    struct init_report message = {.kind = kind};
    struct iovec part = {&message, sizeof message};
    union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                            .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    if (sendmsg(CONTROL_FD, &header, MSG_NOSIGNAL) < 0)
        init_give_up(step);
}

/* ---- reaper ------------------------------------------------------------------------------------------------------ */

static int parent_of(int pid)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    char *end = strrchr(text, ')'); /* the last one: the process name may contain brackets */
    int parent;
    return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

/* Without a pid namespace the kernel does not kill the others when we die. So find our descendants and kill them until
 * none is left. Orphans become our children (subreaper), so no descendant can hide behind a dead parent. False: some
 * are left, and husk has to end them. */
static bool kill_descendants(void)
{
    for (int round = 0; round < 1000; round++) {
        int killed = 0;
        DIR *proc = opendir("/proc");
        struct dirent *entry;
        while (proc && (entry = readdir(proc))) {
            if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
                continue;
            int pid = atoi(entry->d_name), ancestor = pid;
            for (int depth = 0; depth < 10000 && (ancestor = parent_of(ancestor)) > 1; depth++) {
                if (ancestor == getpid()) {
                    killed += kill(pid, SIGKILL) == 0;
                    break;
                }
            }
        }
        if (proc)
            closedir(proc);
        while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
            ;
        if (!killed && waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD)
            return true;
        if (round > 10)
            usleep(1000);
    }
    return false;
}

static _Noreturn void end_box(void)
{
    if (!(init_plan->namespaces & CLONE_NEWPID) && !kill_descendants())
        _exit(1);
    _exit(0); /* as pid 1 of a namespace: the kernel kills the rest */
}

/* The person's terminal modes before husk sets raw mode, and after. */
static struct termios person_was, person_raw;
static int watches_person;

static void save_terminal(void)
{
    watches_person = init_plan->flags & PLAN_PERSON && tcgetattr(PERSON_FD, &person_was) == 0;
    person_raw = person_was;
    cfmakeraw(&person_raw);
}

/* husk died without restoring the terminal (SIGKILL, a crash). The person's shell would not show what is typed. Only
 * the reaper still knows the modes. The host kernel tells us of husk's death before it tells husk's parent, so usually
 * the shell finds its terminal restored. But the shell may have been faster, or another program may use the terminal by
 * now. So the modes are restored only if they still are as husk left them. */
static void restore_terminal(void)
{
    struct termios is;
    if (watches_person && tcgetattr(PERSON_FD, &is) == 0 && is.c_lflag == person_raw.c_lflag &&
        is.c_iflag == person_raw.c_iflag && is.c_oflag == person_raw.c_oflag)
        tcsetattr(PERSON_FD, TCSANOW, &person_was);
}

/* Reads from the control socket whether husk ends the box, or has died. */
static void read_how_it_ends(int flags)
{
    char said = 0;
    ssize_t got;
    while ((got = recv(CONTROL_FD, &said, 1, flags)) < 0 && errno == EINTR)
        ;
    if (got != 1 || said != SAID_END)
        restore_terminal();
}

static void reap(pid_t guest)
{
    int status;
    pid_t pid;
    struct rusage usage;
    while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &usage)) > 0) {
        /* A guest asked to be traced by its parent (PTRACE_TRACEME) while we were its parent: refuse by detaching. */
        if (WIFSTOPPED(status) && ptrace(PTRACE_DETACH, pid, NULL, (long)(WSTOPSIG(status) & 0x7f)) == 0)
            continue;
        if (pid != guest)
            continue;
        if (WIFSTOPPED(status)) {
            init_report(REPORT_STOPPED, WSTOPSIG(status), 0);
            continue;
        }
        struct init_report message = {.kind = REPORT_ENDED, .a = status};
        getrusage(RUSAGE_CHILDREN, &usage);
        message.user_us = usage.ru_utime.tv_sec * 1000000LL + usage.ru_utime.tv_usec;
        message.system_us = usage.ru_stime.tv_sec * 1000000LL + usage.ru_stime.tv_usec;
        message.max_rss_kb = usage.ru_maxrss;
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        message.when_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
        (void)!send(CONTROL_FD, &message, sizeof message, MSG_NOSIGNAL);
        /* The guest may have ended because husk died: its calls fail when the listener closes, a moment before the
         * control socket does. So wait for husk to say SAID_END or to hang up, which happens at once. */
        if (watches_person)
            read_how_it_ends(0);
        end_box();
    }
}

static int child_pipe[2]; /* SIGCHLD writes to it, so that poll returns */

static void on_child(int signal)
{
    int saved = errno;
    (void)signal;
    (void)!write(child_pipe[1], "", 1);
    errno = saved;
}

/* Signals of keys (SIGINT and so on) go to the person's foreground job. husk sends them to us, and we pass them on to
 * the guest's process group. The reaper does it because the guest's pid cannot be reused before we have reaped it.
 * SIGHUP comes from the host kernel, which tells a session's leader that its terminal is gone. */
static volatile pid_t guest_group;

static void pass_on(int signal)
{
    int saved = errno;
    if (guest_group && kill(-guest_group, signal) < 0) /* it has not made its group yet */
        kill(guest_group, signal);
    errno = saved;
}

/* husk is about to close the terminal's other end, and first lets the guest know (SIGUSR1, sandbox/launch.py). Without
 * this, a guest that writes could get EIO before the host kernel tells us, and the signal comes too late. When SIGUSR1
 * is ignored, husk knows that the signal was sent. */
static volatile sig_atomic_t hung_up;

static void hang_up(int signal)
{
    pass_on(SIGHUP);
    hung_up = 1;
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

static void pass_on_hang_up(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (!hung_up || info->si_code != SI_KERNEL)
        pass_on(signal);
}

/* The box's own session. The reaper leads it, not the guest: then the guest's parent is in the same session but in
 * another process group, so the guest's group is not orphaned and a key can stop it. Where husk itself leads a session,
 * no key can stop it in any case; there the guest begins a session of its own, as the program would have without husk.
 * Leading gives nothing else that a guest could use. */
static void begin_session(void)
{
    if (setsid() < 0 || (init_plan->flags & PLAN_TERMINAL && ioctl(TERMINAL_FD, TIOCSCTTY, 0) < 0))
        init_give_up(STEP_TERMINAL);
}

static _Noreturn void watch(pid_t guest)
{
    struct pollfd watched[2] = {{.fd = CONTROL_FD, .events = POLLIN}, {.fd = child_pipe[0], .events = POLLIN}};
    for (;;) {
        reap(guest);
        if (poll(watched, 2, -1) < 0)
            continue;
        if (watched[0].revents) {
            read_how_it_ends(MSG_DONTWAIT);
            end_box();
        }
        char drain[64];
        (void)!read(child_pipe[0], drain, sizeof drain);
    }
}

/* A core file of a crashed process may hold registers, but no memory. All processes of the box inherit this. A guest
 * that writes to this file writes to a copy (vfs/proc/proc_tree.py). The limit on core files (sandbox/limits/limits.py)
 * does the same and more. But where the caller's own hard limit is 0 it cannot be set to 1, and then a host that pipes
 * core files to a program still does so. */
static void dump_no_memory(void)
{
    int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* a kernel without core files */
    (void)!write(fd, "0", 1);
    close(fd);
}

static void read_plan(void)
{
    struct stat size;
    if (fstat(PLAN_FD, &size) < 0)
        init_give_up(STEP_PLAN);
    init_plan_size = (size_t)size.st_size;
    init_plan = mmap(NULL, init_plan_size, PROT_READ, MAP_PRIVATE, PLAN_FD, 0);
    if (init_plan == MAP_FAILED || !init_plan_is_sound(init_plan, init_plan_size))
        init_give_up(STEP_PLAN);
}

/* Everything that comes from here has this limit, which no guest can change, and husk can end it without our help.
 * Linux does not use the limit for anything (sandbox/orphans.py). */
static void mark_processes(void)
{
    struct rlimit mark = {init_plan->mark, init_plan->mark};
    if (setrlimit(RLIMIT_LOCKS, &mark) < 0 && !(init_plan->namespaces & CLONE_NEWPID))
        init_give_up(STEP_MARK); /* a pid namespace ends with its first process in any case */
}

/* The loader writes a page of code into each program (loader/main.c). Where that is forbidden it would die without a
 * word. */
static void try_new_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0)
        init_give_up(STEP_NEW_CODE);
    munmap(page, 4096);
}

static pid_t start_guest(void)
{
    pid_t guest = fork();
    if (guest < 0)
        init_give_up(STEP_REAPER);
    if (guest == 0) {
        if (init_plan->flags & PLAN_PERSON)
            close(PERSON_FD); /* before anything else: a guest never holds it */
        init_become_guest();
    }
    if (!(init_plan->flags & PLAN_LEADS)) /* who leads a group cannot begin a session */
        setpgid(guest, guest); /* the guest does this too, whichever is first */
    return guest;
}

/* Only the reaper runs from here on, as husk's child. */
static _Noreturn void become_reaper(void)
{
    for (int signal = 1; signal < 65; signal++) { /* by the raw call: the C library keeps 32 and 33 for itself */
        struct { uint64_t handler, flags, restorer, mask; } ignored = {.handler = (uintptr_t)SIG_IGN};
        if (signal != SIGCHLD && signal != SIGKILL && signal != SIGSTOP)
            syscall(SYS_rt_sigaction, signal, &ignored, NULL, 8);
    }
    begin_session();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (pipe2(child_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        init_give_up(STEP_REAPER);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = on_child, .sa_flags = SA_RESTART}, NULL);
    save_terminal();
    init_report(REPORT_REAPER, 0, 0); /* husk learns our pid from the message's credentials */
    pid_t guest = start_guest();
    guest_group = guest;
    static const int passed_on[] = {SIGINT, SIGQUIT, SIGTSTP, SIGCONT};
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaction(passed_on[i], &(struct sigaction){.sa_handler = pass_on, .sa_flags = SA_RESTART}, NULL);
    sigaction(SIGHUP, &(struct sigaction){.sa_sigaction = pass_on_hang_up, .sa_flags = SA_RESTART | SA_SIGINFO}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = hang_up, .sa_flags = SA_RESTART}, NULL);
    close(0), close(1), close(2), close(LOADER_FD), close(PLAN_FD), close(WORKDIR_FD), close(init_mqueues);
    close(init_shown_usr), close(init_shown_cache), close(init_directories);
    if (init_plan->flags & PLAN_TERMINAL)
        close(TERMINAL_FD);
    if (init_plan->flags & PLAN_WAIT)
        close(START_FD);
    prctl(PR_SET_NAME, "husk-reaper", 0, 0, 0);
    watch(guest);
}

int main(void)
{
    read_plan();
    mark_processes();
    try_new_code();
    dump_no_memory();
    init_build();
    pid_t reaper = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
    if (reaper < 0)
        init_give_up(STEP_REAPER);
    if (reaper > 0)
        _exit(0);
    become_reaper();
}
