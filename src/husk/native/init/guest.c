/* native/init: the guest's first steps. It drops all rights, sets up Landlock and the filter, and executes its program:
 * the one of the plan, or, in a box that is kept ready, the one that husk names later.
 *
 * While such a box waits no other guest runs in it (husk takes care of that), so no process can disturb it. What it
 * does when told (mmap, dup, fchdir) is native and needs no name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef HELPER_LINGERS
#define HELPER_LINGERS (void)0 /* a test makes the helper slow here, as on a busy host */
#endif

static void drop_identity(void)
{
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int cap = 0; cap < 64; cap++)
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* fails behind the last capability, or if we have none */
    if (init_plan->flags & PLAN_SWITCH_USER &&
        (setgroups(0, NULL) < 0 || setresgid(init_plan->gid, init_plan->gid, init_plan->gid) < 0 ||
         setresuid(init_plan->uid, init_plan->uid, init_plan->uid) < 0))
        init_give_up(STEP_USER);
    struct { uint32_t version; int pid; } header = {0x20080522, 0};
    struct { uint32_t effective, permitted, inheritable; } none[2] = {{0}};
    if (syscall(SYS_capset, &header, none) < 0)
        init_give_up(STEP_CAPABILITIES);
}

static void raise_landlock(void)
{
    struct { uint64_t fs, net, scoped; } ruleset = {init_plan->landlock_fs, init_plan->landlock_net,
                                                    init_plan->landlock_scoped};
    struct __attribute__((packed)) { uint64_t allowed; int32_t parent; } rule = {init_plan->landlock_loader, LOADER_FD};
    size_t size = init_plan->landlock_abi >= 6 ? 24 : init_plan->landlock_abi >= 4 ? 16 : 8;
    int fd = syscall(SYS_landlock_create_ruleset, &ruleset, size, 0);
    if (fd < 0 || syscall(SYS_landlock_add_rule, fd, 1 /* path beneath */, &rule, 0) < 0)
        init_give_up(STEP_LANDLOCK);
    rule.parent = init_root_loader;
    if (init_root_loader >= 0 && syscall(SYS_landlock_add_rule, fd, 1, &rule, 0) < 0)
        init_give_up(STEP_LANDLOCK);
    rule.allowed = 4; /* read files: neither directories nor programs */
    const int shown[] = {init_shown_usr, init_shown_cache, init_directories};
    for (int i = 0; i < 3; i++) {
        rule.parent = shown[i];
        if (rule.parent >= 0 && syscall(SYS_landlock_add_rule, fd, 1, &rule, 0) < 0)
            init_give_up(STEP_LANDLOCK);
    }
    if (init_mqueues >= 0) {
        rule.allowed = 2 | 4; /* write and read files */
        rule.parent = init_mqueues;
        syscall(SYS_landlock_add_rule, fd, 1, &rule, 0);
    }
    if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        init_give_up(STEP_LANDLOCK);
    close(fd);
}

/* One message tells a box kept ready what to run: sizes, and five descriptors: 0, 1, 2, the working directory, and the
 * texts. The helper receives it into the descriptor table it shares with us: the filter may notify recvmsg. */
static struct init_start start;
static int told_fds[5];

static void wait_for_start(void)
{
    struct iovec part = {&start, sizeof start};
    union { char bytes[CMSG_SPACE(sizeof told_fds)]; struct cmsghdr align; } control = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                            .msg_controllen = sizeof control};
    ssize_t got;
    while ((got = recvmsg(START_FD, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (got == 0)
        _exit(0); /* husk no longer needs the box; the reaper ends it */
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    if (got != sizeof start || !rights || rights->cmsg_len != CMSG_LEN(sizeof told_fds))
        init_give_up(STEP_START);
    memcpy(told_fds, CMSG_DATA(rights), sizeof told_fds);
}

static char **strings(const char **text, const char *end, uint32_t count, int step)
{
    char **list = init_split_strings(text, end, count);
    if (!list)
        init_give_up(step);
    return list;
}

static const char *planned(char ***argv, char ***envp)
{
    const char *base = (const char *)init_plan, *end = base + init_plan_size, *text = base + init_plan->argv_offset;
    *argv = strings(&text, end, init_plan->argv_count, STEP_PLAN);
    text = base + init_plan->envp_offset;
    *envp = strings(&text, end, init_plan->envp_count, STEP_PLAN);
    return base + init_plan->program_offset;
}

static const char *told(char ***argv, char ***envp)
{
    const char *text = mmap(NULL, start.size, PROT_READ, MAP_PRIVATE, told_fds[4], 0);
    if (text == MAP_FAILED || fchdir(told_fds[3]) < 0)
        init_give_up(STEP_START);
    for (int i = 0; i < 3; i++)
        if (dup2(told_fds[i], i) < 0) /* none of the five is 0, 1 or 2: these are in use */
            init_give_up(STEP_START);
    const char *end = text + start.size;
    char **program = strings(&text, end, 1, STEP_START);
    *argv = strings(&text, end, start.argv_count, STEP_START);
    *envp = strings(&text, end, start.envp_count, STEP_START);
    return *program;
}

/* The filter notifies sendmsg, and husk has no listener yet to answer. So a helper sends the listener for us. It shares
 * our memory and our descriptors, and is made before the filter, so it has none. It is a child of the reaper, which
 * reaps it.
 *
 * A process without a filter is what a guest could take over with ptrace or by writing to its stack. Two things prevent
 * that, each by itself: it is made before Landlock, so it is outside the guest's domain; and the guest's program does
 * not begin before the helper has ended, however slow the host is. */
static volatile int helper_gets, helper_done;
static volatile int helper_lives; /* its thread id; the kernel clears it when the helper has ended */

static int hand_over(void *unused)
{
    (void)unused;
    /* Under trace the filter notifies the guest's FUTEX_WAKE too. So we do not rely on it. */
    const struct timespec pause = {0, 1000000};
    while (!helper_gets)
        syscall(SYS_futex, &helper_gets, 0 /* FUTEX_WAIT */, 0, &pause, NULL, 0);
    init_send_fd(REPORT_LISTENER, helper_gets, STEP_LISTENER);
    if (init_plan->flags & PLAN_WAIT)
        wait_for_start();
    helper_done = 1;
    HELPER_LINGERS;
    return 0;
}

static void start_helper(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int flags = CLONE_VM | CLONE_FILES | CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    if (clone(hand_over, stack + sizeof stack, flags, NULL, &helper_lives, NULL, &helper_lives) < 0)
        init_give_up(STEP_LISTENER);
}

static void send_listener(int listener)
{
    helper_gets = listener; /* never 0: that is the guest's standard input */
    syscall(SYS_futex, &helper_gets, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
    for (int id; (id = helper_lives) != 0;)
        syscall(SYS_futex, &helper_lives, 0 /* FUTEX_WAIT */, id, NULL, NULL, 0);
    if (!helper_done)
        init_give_up(STEP_LISTENER);
}

static void reset_signals(void)
{
    for (int signal = 1; signal < 65; signal++) {
        struct { uint64_t handler, flags, restorer, mask; } fresh = {0};
        syscall(SYS_rt_sigaction, signal, &fresh, NULL, 8);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void set_limits(void)
{
    for (uint32_t i = 0; i < init_plan->limit_count; i++) {
        struct rlimit had, limit = {init_plan->limits[i].soft, init_plan->limits[i].hard};
        if (getrlimit((int)init_plan->limits[i].resource, &had) == 0 && limit.rlim_max > had.rlim_max)
            limit.rlim_max = had.rlim_max; /* never more than the caller has */
        if (limit.rlim_cur > limit.rlim_max)
            limit.rlim_cur = limit.rlim_max;
        if (setrlimit((int)init_plan->limits[i].resource, &limit) < 0)
            init_give_up(STEP_LIMITS);
    }
}

/* The listener, which the caller closes. */
static int install_filter(void)
{
    struct sock_fprog program = {init_plan->filter_count,
                                 (struct sock_filter *)((char *)init_plan + init_plan->filter_offset)};
    init_report(REPORT_GUEST, 0, 0);
    int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                           SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
    if (listener < 0)
        init_give_up(STEP_FILTER);
    return listener;
}

_Noreturn void init_become_guest(void)
{
    /* SIGTTOU is still ignored here, so that a background process may come to the foreground. */
    if ((init_plan->flags & PLAN_LEADS ? setsid() : setpgid(0, 0)) < 0 ||
        (init_plan->flags & PLAN_TERMINAL && tcsetpgrp(TERMINAL_FD, getpid()) < 0))
        init_give_up(STEP_TERMINAL);
    reset_signals();
    set_limits();
    if (fchdir(WORKDIR_FD) < 0) /* a placeholder that husk opened; this root has no name for it */
        init_give_up(STEP_WORKDIR);
    drop_identity();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        init_give_up(STEP_NO_NEW_PRIVS);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    start_helper(); /* before Landlock: see above */
    if (init_plan->landlock_abi)
        raise_landlock();
    umask(022);
    /* Only the three standard descriptors survive the execve below. */
    syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */);
    int listener = install_filter();
    send_listener(listener);
    close(listener);
    /* From here on this process is a guest like any other, and husk resolves the program's name. */
    char **argv, **envp;
    const char *name = init_plan->flags & PLAN_WAIT ? told(&argv, &envp) : planned(&argv, &envp);
    syscall(SYS_execve, name, argv, envp);
    init_report(REPORT_EXEC_FAILED, errno, 0);
    _exit(errno == ENOENT ? 127 : 126);
}
