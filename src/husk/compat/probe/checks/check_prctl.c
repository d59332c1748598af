/* compat/probe: checks of prctl, option by option, and of personality, unshare and seccomp. */
#include "probe.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* -- prctl -- */

CHECK(prctl, "option=PR_SET_NAME")
{
    char name[17] = {0};
    MUST(CALL(prctl, PR_SET_NAME, "probing", 0, 0, 0));
    EFFECT(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "probing"));
}

CHECK(prctl, "option=PR_GET_NAME")
{
    char name[17] = {0};
    MUST(CALL(prctl, PR_GET_NAME, name, 0, 0, 0));
    EFFECT(name[0] != 0);
}

CHECK(prctl, "option=PR_SET_PDEATHSIG: the child dies with its parent")
{
    int ends[2];
    char one;
    probe_pipe(ends);
    pid_t parent = probe_fork();
    if (parent == 0) {
        int *ready = (int *)probe_shared(1);
        if (fork() == 0) {
            MUST(CALL(prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
            *(volatile int *)ready = 1;
            probe_sleep(8000);
            _exit(0);
        }
        for (int n = 0; n < 4000 && !*(volatile int *)ready; n++)
            probe_sleep(1);
        _exit(0);
    }
    close(ends[1]);
    probe_wait(parent);
    int64_t before = probe_now();
    EFFECT(read(ends[0], &one, 1) == 0 && probe_now() - before < 7000000000);
}

CHECK(prctl, "option=PR_GET_PDEATHSIG")
{
    int number = -1;
    NEED(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "PR_SET_PDEATHSIG");
    MUST(CALL(prctl, PR_GET_PDEATHSIG, &number, 0, 0, 0));
    EFFECT(number == SIGKILL);
}

CHECK(prctl, "option=PR_GET_DUMPABLE")
{
    long value = MUST(CALL(prctl, PR_GET_DUMPABLE, 0, 0, 0, 0));
    EFFECT(value >= 0 && value <= 2);
}

CHECK(prctl, "option=PR_SET_DUMPABLE")
{
    MUST(CALL(prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
    EFFECT(prctl(PR_GET_DUMPABLE) == 0);
}

CHECK(prctl, "option=PR_SET_DUMPABLE: 7 is EINVAL")
{
    ANSWERS(CALL(prctl, PR_SET_DUMPABLE, 7, 0, 0, 0), EINVAL);
}

CHECK(prctl, "option=PR_GET_KEEPCAPS")
{
    EFFECT(MUST(CALL(prctl, PR_GET_KEEPCAPS, 0, 0, 0, 0)) == 0);
}

CHECK(prctl, "option=PR_SET_KEEPCAPS")
{
    MUST(CALL(prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0));
    EFFECT(prctl(PR_GET_KEEPCAPS) == 1);
}

CHECK(prctl, "option=PR_GET_TIMING")
{
    EFFECT(MUST(CALL(prctl, PR_GET_TIMING, 0, 0, 0, 0)) == PR_TIMING_STATISTICAL);
}

CHECK(prctl, "option=PR_SET_TIMING: the only way there is")
{
    MUST(CALL(prctl, PR_SET_TIMING, PR_TIMING_STATISTICAL, 0, 0, 0));
}

CHECK(prctl, "option=PR_GET_SECCOMP")
{
    long mode = MUST(CALL(prctl, PR_GET_SECCOMP, 0, 0, 0, 0));
    EFFECT(mode == 0 || mode == 2);
}

/* Lets every call through but getppid, which gets this errno. */
static struct sock_filter FILTER[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NR_getppid, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EUCLEAN),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog PROGRAM = {4, FILTER};

static void no_new_privileges(void)
{
    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
}

CHECK(prctl, "option=PR_SET_SECCOMP arg2=2: a filter answers a call")
{
    no_new_privileges();
    MUST(CALL(prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &PROGRAM, 0, 0));
    EFFECT(RAW(getppid) == -EUCLEAN);
}

CHECK(prctl, "option=PR_CAPBSET_READ")
{
    long value = MUST(CALL(prctl, PR_CAPBSET_READ, 0, 0, 0, 0));
    EFFECT(value == 0 || value == 1);
}

CHECK(prctl, "option=PR_CAPBSET_DROP: or not without privilege")
{
    MUST_OR(CALL(prctl, PR_CAPBSET_DROP, 0, 0, 0, 0), EPERM);
    EFFECT(prctl(PR_CAPBSET_READ, 0) == 0);
}

CHECK(prctl, "option=PR_GET_TSC")
{
    int mode = -1;
    MUST(CALL(prctl, PR_GET_TSC, &mode, 0, 0, 0));
    EFFECT(mode == PR_TSC_ENABLE || mode == PR_TSC_SIGSEGV);
}

CHECK(prctl, "option=PR_SET_TSC: the time stamp counter faults")
{
    MUST(CALL(prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0));
    pid_t pid = (pid_t)RAW(fork);
    if (pid == 0) {
        unsigned low, high;
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
        (void)RAW(exit_group, 0);
    }
    int status = 0;
    EFFECT(RAW(wait4, pid, &status, 0, NULL) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

CHECK(prctl, "option=PR_GET_SECUREBITS")
{
    EFFECT(MUST(CALL(prctl, PR_GET_SECUREBITS, 0, 0, 0, 0)) >= 0);
}

CHECK(prctl, "option=PR_SET_SECUREBITS: as they are, or not without privilege")
{
    int now = prctl(PR_GET_SECUREBITS);
    MUST_OR(CALL(prctl, PR_SET_SECUREBITS, now < 0 ? 0 : now, 0, 0, 0), EPERM);
}

CHECK(prctl, "option=PR_SET_TIMERSLACK")
{
    MUST(CALL(prctl, PR_SET_TIMERSLACK, 77777, 0, 0, 0));
    EFFECT(prctl(PR_GET_TIMERSLACK) == 77777);
}

CHECK(prctl, "option=PR_GET_TIMERSLACK")
{
    EFFECT(MUST(CALL(prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0)) > 0);
}

CHECK(prctl, "option=PR_MCE_KILL")
{
    MUST_OR(CALL(prctl, PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0), EINVAL);
    EFFECT(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_EARLY);
}

CHECK(prctl, "option=PR_MCE_KILL_GET")
{
    EFFECT(MUST_OR(CALL(prctl, PR_MCE_KILL_GET, 0, 0, 0, 0), EINVAL) <= 2);
}

CHECK(prctl, "option=PR_SET_CHILD_SUBREAPER: orphans come to it")
{
    int *orphan = (int *)probe_shared(1);
    MUST(CALL(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    pid_t middle = probe_fork();
    if (middle == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            probe_sleep(20);
            _exit(9);
        }
        *orphan = pid;
        _exit(0);
    }
    probe_wait(middle);
    int status = 0;
    EFFECT(waitpid(*orphan, &status, 0) == *orphan && WEXITSTATUS(status) == 9);
}

CHECK(prctl, "option=PR_GET_CHILD_SUBREAPER")
{
    int on = -1;
    MUST(CALL(prctl, PR_GET_CHILD_SUBREAPER, &on, 0, 0, 0));
    EFFECT(on == 0);
}

CHECK(prctl, "option=PR_SET_NO_NEW_PRIVS")
{
    MUST(CALL(prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    EFFECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

CHECK(prctl, "option=PR_GET_NO_NEW_PRIVS")
{
    long value = MUST(CALL(prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    EFFECT(value == 0 || value == 1);
}

CHECK(prctl, "option=PR_GET_TID_ADDRESS: or the kernel was built without")
{
    static int word;
    int *address = NULL;
    NEED(RAW(set_tid_address, &word) > 0, "set_tid_address");
    MUST_OR(CALL(prctl, PR_GET_TID_ADDRESS, &address, 0, 0, 0), EINVAL);
    EFFECT(address == &word);
}

CHECK(prctl, "option=PR_SET_THP_DISABLE")
{
    MUST(CALL(prctl, PR_SET_THP_DISABLE, 1, 0, 0, 0));
    EFFECT(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
}

CHECK(prctl, "option=PR_GET_THP_DISABLE")
{
    EFFECT(MUST(CALL(prctl, PR_GET_THP_DISABLE, 0, 0, 0, 0)) >= 0);
}

CHECK(prctl, "option=PR_CAP_AMBIENT: a question")
{
    long value = MUST(CALL(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0, 0, 0));
    EFFECT(value == 0 || value == 1);
}

CHECK(prctl, "option=PR_GET_SPECULATION_CTRL: or the processor needs none")
{
    MUST_OR(CALL(prctl, PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0), ENODEV, EINVAL);
}

CHECK(prctl, "option=PR_SET_SPECULATION_CTRL: disabled, or the processor needs none")
{
    MUST_OR(CALL(prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0), ENODEV, ENXIO, EPERM,
            EINVAL);
}

CHECK(prctl, "option=PR_SET_MDWE: memory that was written cannot become executable")
{
    MUST(CALL(prctl, 65, 1, 0, 0, 0));
    char *page = probe_pages(1);
    page[0] = 1;
    EFFECT(mprotect(page, 4096, PROT_READ | PROT_EXEC) == -1 && errno == EACCES);
}

CHECK(prctl, "option=PR_GET_MDWE")
{
    EFFECT(MUST(CALL(prctl, 66, 0, 0, 0, 0)) == 0);
}

CHECK(prctl, "option=PR_GET_AUXV")
{
    unsigned long words[64] = {0};
    EFFECT(MUST(CALL(prctl, 0x41555856, words, sizeof words, 0, 0)) > 0 && words[0] != 0);
}

CHECK(prctl, "option=PR_SET_VMA arg2=0: a name for memory, or the kernel was built without")
{
    char text[1 << 16];
    char *page = probe_pages(1);
    MUST_OR(CALL(prctl, 0x53564d41, 0, page, 4096, "probe name"), EINVAL);
    EFFECT(probe_read_text("/proc/self/maps", text, sizeof text) > 0 && strstr(text, "[anon:probe name]"));
}

CHECK(prctl, "option=PR_SET_PTRACER: anyone, or the kernel was built without Yama")
{
    MUST_OR(CALL(prctl, 0x59616d61, -1, 0, 0, 0), EINVAL);
}

CHECK(prctl, "option=PR_SET_MM arg2=15: the size of the map")
{
    unsigned size = 0;
    MUST(CALL(prctl, PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0));
    EFFECT(size >= 64);
}

CHECK(prctl, "option=PR_SET_MM: a field, or not without privilege")
{
    ANSWERS(CALL(prctl, PR_SET_MM, PR_SET_MM_START_BRK, 1, 0, 0), EPERM, EINVAL); /* 1 is no address it could have */
}

CHECK(prctl, "an unknown option is EINVAL")
{
    ANSWERS(CALL(prctl, 0x7fffffff, 0, 0, 0, 0), EINVAL);
}

/* -- personality -- */

CHECK(personality, "personality=0xffffffff: a question")
{
    EFFECT(MUST(CALL(personality, 0xffffffff)) >= 0);
}

CHECK(personality, "personality=PER_LINUX")
{
    MUST(CALL(personality, 0));
    EFFECT(RAW(personality, 0xffffffff) == 0);
}

CHECK(personality, "personality=PER_LINUX32: uname tells another machine")
{
    struct { char fields[6][65]; } name;
    MUST(CALL(personality, 8));
    EFFECT(RAW(uname, &name) == 0 && !strcmp(name.fields[4], "i686"));
}

CHECK(personality, "personality=ADDR_NO_RANDOMIZE")
{
    MUST(CALL(personality, 0x40000));
    EFFECT(RAW(personality, 0xffffffff) == 0x40000);
}

CHECK(personality, "personality=READ_IMPLIES_EXEC")
{
    MUST(CALL(personality, 0x400000));
    EFFECT(RAW(personality, 0xffffffff) == 0x400000);
}

/* -- unshare -- */

static void stops_sharing(int flag)
{
    MUST(CALL(unshare, flag));
}

CHECK(unshare, "unshare_flags=CLONE_FS: a thread's directory is its own")
{
    stops_sharing(CLONE_FS);
}
CHECK(unshare, "unshare_flags=CLONE_FILES")
{
    stops_sharing(CLONE_FILES);
}
CHECK(unshare, "unshare_flags=CLONE_SYSVSEM")
{
    stops_sharing(CLONE_SYSVSEM);
}
CHECK(unshare, "unshare_flags=CLONE_VM: nothing to do in a process of one thread")
{
    stops_sharing(CLONE_VM);
}
CHECK(unshare, "unshare_flags=CLONE_SIGHAND: nothing to do in a process of one thread")
{
    stops_sharing(CLONE_SIGHAND);
}

static ino_t own_namespace(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

static void leaves(int flag, const char *path)
{
    ino_t before = own_namespace(path);
    MUST_OR(CALL(unshare, flag), EPERM);
    EFFECT(before == 0 || own_namespace(path) != before);
}

CHECK(unshare, "unshare_flags=CLONE_NEWUSER: or users may not")
{
    leaves(CLONE_NEWUSER, "/proc/self/ns/user");
}
CHECK(unshare, "unshare_flags=CLONE_NEWNS: or not without privilege")
{
    leaves(CLONE_NEWNS, "/proc/self/ns/mnt");
}
CHECK(unshare, "unshare_flags=CLONE_NEWPID: or not without privilege")
{
    leaves(CLONE_NEWPID, "/proc/self/ns/pid_for_children");
}
CHECK(unshare, "unshare_flags=CLONE_NEWNET: or not without privilege")
{
    leaves(CLONE_NEWNET, "/proc/self/ns/net");
}
CHECK(unshare, "unshare_flags=CLONE_NEWUTS: or not without privilege")
{
    leaves(CLONE_NEWUTS, "/proc/self/ns/uts");
}
CHECK(unshare, "unshare_flags=CLONE_NEWIPC: or not without privilege")
{
    leaves(CLONE_NEWIPC, "/proc/self/ns/ipc");
}
CHECK(unshare, "unshare_flags=CLONE_NEWCGROUP: or not without privilege")
{
    leaves(CLONE_NEWCGROUP, "/proc/self/ns/cgroup");
}
CHECK(unshare, "unshare_flags=CLONE_NEWTIME: or not without privilege")
{
    leaves(0x80, "/proc/self/ns/time_for_children");
}

CHECK(unshare, "an unknown flag is EINVAL")
{
    ANSWERS(CALL(unshare, 0x1), EINVAL);
}

/* -- seccomp -- */

CHECK(seccomp, "op=SECCOMP_SET_MODE_FILTER: a filter answers a call")
{
    no_new_privileges();
    MUST(CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, &PROGRAM));
    EFFECT(RAW(getppid) == -EUCLEAN);
}

CHECK(seccomp, "op=SECCOMP_SET_MODE_FILTER flags=1: all threads")
{
    no_new_privileges();
    MUST(CALL(seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &PROGRAM));
    EFFECT(RAW(getppid) == -EUCLEAN);
}

CHECK(seccomp, "op=SECCOMP_SET_MODE_FILTER flags=2: logged")
{
    no_new_privileges();
    MUST(CALL(seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &PROGRAM));
    EFFECT(RAW(getppid) == -EUCLEAN);
}

CHECK(seccomp, "op=SECCOMP_SET_MODE_FILTER flags=8: a listener, unless there is one already")
{
    no_new_privileges();
    int fd = (int)MUST_OR(CALL(seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &PROGRAM), EBUSY);
    EFFECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(seccomp, "op=SECCOMP_SET_MODE_STRICT: another call is deadly")
{
    pid_t pid = probe_fork();
    if (pid == 0) {
        long value = CALL(seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
        if (value == 0)
            (void)RAW(getppid);
        MUST(value);
        (void)RAW(exit, 1);
    }
    int status = probe_wait(pid);
    EFFECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

CHECK(seccomp, "op=SECCOMP_GET_ACTION_AVAIL")
{
    unsigned action = SECCOMP_RET_ERRNO;
    MUST(CALL(seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
}

CHECK(seccomp, "op=SECCOMP_GET_NOTIF_SIZES")
{
    unsigned short sizes[3] = {0};
    MUST(CALL(seccomp, SECCOMP_GET_NOTIF_SIZES, 0, sizes));
    EFFECT(sizes[0] >= 80 && sizes[1] >= 24 && sizes[2] >= 64);
}

CHECK(seccomp, "a filter that is none is EINVAL")
{
    struct sock_fprog empty = {0, FILTER};
    no_new_privileges();
    ANSWERS(CALL(seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty), EINVAL);
}
