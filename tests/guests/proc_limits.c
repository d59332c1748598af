/* build: proc_limits -pthread
 *
 * Attributes that a process can set: clone's flags, limits, priorities, processors, capabilities, prctl; and which of
 * them it can set for a child.
 */
#include "step.h"
#include <linux/capability.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int shared_value;

static int in_clone(void *fd) {
    shared_value++;
    close((int)(long)fd);
    return chdir("/") ? 1 : 6;
}

static void clones(void) {
    char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct { const char *name; int flags; } kinds[] = {
        {"nothing", 0}, {"VM", CLONE_VM}, {"VM VFORK", CLONE_VM | CLONE_VFORK}, {"FILES", CLONE_FILES}, {"FS", CLONE_FS},
        {"VM SIGHAND FILES FS", CLONE_VM | CLONE_SIGHAND | CLONE_FILES | CLONE_FS}, {"IO SYSVSEM", CLONE_IO | CLONE_SYSVSEM},
    };
    char before[PATH_MAX], after[PATH_MAX];
    MUST(getcwd(before, sizeof before) ? 0 : -1);
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int fd = MUST(open("/dev/null", O_RDONLY)), was = shared_value;
        pid_t pid = clone(in_clone, stack + 65536, kinds[i].flags | SIGCHLD, (void *)(long)fd);
        int status = wait_for(pid);
        MUST(getcwd(after, sizeof after) ? 0 : -1);
        say("clone %s: %s, memory shared %d, descriptor gone %d, directory moved %d", kinds[i].name, status_text(status),
            shared_value - was, fcntl(fd, F_GETFD) < 0, strcmp(before, after) != 0);
        close(fd);
        MUST(chdir(before));
    }
    STEP(clone(in_clone, stack + 65536, CLONE_SIGHAND | SIGCHLD, NULL));
    STEP(clone(in_clone, stack + 65536, CLONE_THREAD | SIGCHLD, NULL));
    STEP(clone(in_clone, stack + 65536, CLONE_FS | CLONE_NEWNS | SIGCHLD, NULL) == -1);
    pid_t parent_tid = 0, child_tid = 0;
    pid_t pid = syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, NULL, &parent_tid, &child_tid, 0);
    if (pid == 0)
        _exit(child_tid == getpid() ? 8 : 9);
    say("%s, parent was told %d", status_text(wait_for(pid)), parent_tid == pid);
    pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0); /* no signal when it ends: __WCLONE finds it */
    if (pid == 0)
        _exit(7);
    int status;
    STEP(waitpid(pid, &status, 0));
    STEP(waitpid(pid, &status, __WCLONE) == pid);
    pid = fork();
    if (pid == 0) {
        pid_t sibling = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
        if (sibling == 0)
            _exit(3);
        int none;
        STEP(waitpid(sibling, &none, 0));
        _exit(0);
    }
    wait_for(pid);
    int mine = wait(&status) > 0;
    say("a child's sibling is mine %d: %s", mine, status_text(status));
}

static pid_t sleeper(void) {
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    until_asleep(pid);
    return pid;
}

static void limits(pid_t child) {
    struct rlimit few = {10, 20}, more = {10, 30}, wrong = {30, 20}, got;
    STEP(prlimit(child, RLIMIT_NOFILE, &few, NULL));
    STEP(prlimit(child, RLIMIT_NOFILE, NULL, &got));
    say("%ld %ld", (long)got.rlim_cur, (long)got.rlim_max);
    STEP(prlimit(child, RLIMIT_NOFILE, &more, NULL));
    STEP(prlimit(child, RLIMIT_NOFILE, &wrong, NULL));
    STEP(prlimit(0x3fffffff, RLIMIT_NOFILE, NULL, &got));
    STEP(prlimit(0, 77, NULL, &got));
    STEP(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, (void *)8, NULL));
    const int kinds[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_RSS, RLIMIT_MEMLOCK, RLIMIT_LOCKS, RLIMIT_MSGQUEUE,
                         RLIMIT_NICE, RLIMIT_RTPRIO, RLIMIT_RTTIME, RLIMIT_STACK, RLIMIT_SIGPENDING};
    int wrongs = 0;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        wrongs += getrlimit(kinds[i], &got) || setrlimit(kinds[i], &got) || got.rlim_cur > got.rlim_max;
    say("limits that cannot be set to what they are %d", wrongs);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit small = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        MUST(setrlimit(RLIMIT_FSIZE, &small));
        int fd = MUST(open("limited", O_CREAT | O_WRONLY, 0600));
        static char page[4096];
        STEP(write(fd, page, 4096));
        STEP(write(fd, page, 1));
        STEP(ftruncate(fd, 10000));
        struct rlimit stack = {1 << 20, 1 << 20};
        STEP(setrlimit(RLIMIT_STACK, &stack));
        struct rlimit data = {0, 0};
        STEP(setrlimit(RLIMIT_DATA, &data));
        STEP(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
        _exit(0);
    }
    wait_for(pid);
    MUST(unlink("limited"));
}

static void priorities(pid_t child) {
    STEP(nice(3));
    STEP(getpriority(PRIO_PROCESS, 0));
    STEP(setpriority(PRIO_PROCESS, child, 7));
    STEP(getpriority(PRIO_PROCESS, child));
    STEP(setpriority(PRIO_PROCESS, child, 1));
    STEP(setpriority(PRIO_PROCESS, 0x3fffffff, 1));
    STEP(setpriority(9, 0, 1));
    cpu_set_t all, one;
    STEP(sched_getaffinity(0, sizeof all, &all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    STEP(sched_setaffinity(child, sizeof one, &one));
    STEP(sched_getaffinity(child, sizeof all, &all));
    say("processors %d", CPU_COUNT(&all));
    CPU_ZERO(&one);
    STEP(sched_setaffinity(0, sizeof one, &one));
    STEP(sched_getaffinity(0x3fffffff, sizeof all, &all));
    STEP(syscall(SYS_sched_getaffinity, 0, 1, &all));
    STEP(sched_getscheduler(child));
    struct sched_param none = {0}, real = {1};
    STEP(sched_setscheduler(child, SCHED_BATCH, &none));
    STEP(sched_getscheduler(child));
    STEP(sched_setscheduler(child, SCHED_IDLE, &none));
    STEP(sched_setscheduler(child, SCHED_FIFO, &real));
    STEP(sched_setscheduler(child, 99, &none));
    STEP(sched_getparam(child, &real));
    STEP(sched_rr_get_interval(0, &(struct timespec){0}));
    STEP(sched_get_priority_max(SCHED_FIFO));
    STEP(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4));
    STEP(syscall(SYS_ioprio_get, 1, 0));
    STEP(syscall(SYS_ioprio_set, 1, child, 3 << 13));
    STEP(syscall(SYS_ioprio_get, 1, child));
    STEP(syscall(SYS_ioprio_set, 1, 0, 1 << 13));
}

static void rights(void) {
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    STEP(syscall(SYS_capget, &head, data));
    say("effective %x permitted %x inheritable %x", data[0].effective, data[0].permitted, data[0].inheritable);
    STEP(syscall(SYS_capset, &head, data));
    data[0].effective = data[0].permitted = 1 << CAP_CHOWN;
    STEP(syscall(SYS_capset, &head, data));
    head.version = 7;
    STEP(syscall(SYS_capget, &head, data));
    say("version %x", head.version);
    STEP(prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) >= 0);
    STEP(prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN));
    STEP(prctl(PR_SET_KEEPCAPS, 1));
    STEP(prctl(PR_GET_KEEPCAPS));
    STEP(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    STEP(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    STEP(prctl(PR_GET_SECUREBITS));
    STEP(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0));
}

static void options(void) {
    int value = 0;
    STEP(prctl(PR_SET_PDEATHSIG, SIGUSR1));
    STEP(prctl(PR_GET_PDEATHSIG, &value));
    say("signal %d", value);
    STEP(prctl(PR_SET_PDEATHSIG, 99));
    STEP(prctl(PR_SET_PDEATHSIG, 0));
    STEP(prctl(PR_SET_CHILD_SUBREAPER, 1));
    STEP(prctl(PR_GET_CHILD_SUBREAPER, &value));
    say("subreaper %d", value);
    STEP(prctl(PR_SET_TIMERSLACK, 70000));
    STEP(prctl(PR_GET_TIMERSLACK));
    STEP(prctl(PR_GET_TIMING));
    STEP(prctl(PR_GET_TSC, &value));
    STEP(prctl(PR_SET_NAME, "a name that is much too long"));
    char name[16];
    STEP(prctl(PR_GET_NAME, name));
    say("%s", name);
    STEP(prctl(PR_SET_NAME, (void *)8));
    STEP(prctl(PR_GET_DUMPABLE));
    STEP(prctl(PR_SET_DUMPABLE, 7));
    STEP(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    STEP(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    STEP(prctl(99999));
}

int main(void) {
    clones();
    pid_t child = sleeper();
    limits(child);
    priorities(child);
    MUST(kill(child, SIGKILL));
    wait_for(child);
    rights();
    options();
    return 0;
}
