/* build: reach
 *
 * reach PID…: tries to reach the memory, registers and descriptors of the given processes, its parent, process 1, and
 * every process with an id up to its own. The address is invalid, so EFAULT means that only the address was wrong:
 * natively that is so for processes of the same user. Also asks its parent to trace it. Harmless on any host: it
 * detaches at once.
 */
#include "step.h"
#include <linux/kcmp.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

enum { WAYS = 7 };
static const char *const ways[WAYS] = {"read", "write", "compare", "take", "seize", "attach", "peek"};

/* 0 or an errno. */
static int reach(int way, pid_t pid) {
    char byte = 0;
    struct iovec mine = {&byte, 1}, theirs = {(void *)8, 1};
    int status, handle;
    long got = -1;
    errno = 0;
    switch (way) {
    case 0: got = process_vm_readv(pid, &mine, 1, &theirs, 1, 0); break;
    case 1: got = process_vm_writev(pid, &mine, 1, &theirs, 1, 0); break;
    case 2: got = syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0); break;
    case 3:
        handle = syscall(SYS_pidfd_open, pid, 0);
        if (handle < 0 && errno == ENOENT)
            errno = ESRCH; /* newer kernels: the id of a thread, not of a process */
        if (handle >= 0) {
            got = syscall(SYS_pidfd_getfd, handle, 0, 0);
            int error = errno;
            close(handle);
            if (got >= 0)
                close(got);
            errno = error;
        } else if (errno == ENOENT) {
            errno = EINVAL; /* the id of a thread that is not a group leader: kernels before 6.16 say EINVAL */
        }
        break;
    case 4:
        got = ptrace(PTRACE_SEIZE, pid, 0, 0);
        if (got == 0) {
            ptrace(PTRACE_INTERRUPT, pid, 0, 0);
            waitpid(pid, &status, __WALL);
            ptrace(PTRACE_DETACH, pid, 0, 0);
        }
        break;
    case 5:
        got = ptrace(PTRACE_ATTACH, pid, 0, 0);
        if (got == 0) {
            waitpid(pid, &status, __WALL);
            ptrace(PTRACE_DETACH, pid, 0, 0);
        }
        break;
    case 6: got = ptrace(PTRACE_PEEKDATA, pid, (void *)8, 0); break;
    }
    return got < 0 ? errno : 0;
}

static void report(const char *whose, pid_t pid) {
    for (int way = 0; way < WAYS; way++) {
        int error = reach(way, pid);
        say("%s %s: %s", ways[way], whose, error ? errname(error) : "done");
    }
}

int main(int argc, char **argv) {
    report("parent", getppid());
    report("first", 1);
    for (int i = 1; i < argc; i++)
        report("stranger", atoi(argv[i]));
    int reached = 0;
    for (pid_t pid = getpid() > 40000 ? getpid() - 40000 : 1; pid < getpid(); pid++)
        for (int way = 0; way < WAYS; way++) {
            int error = reach(way, pid);
            if (error != EPERM && error != ESRCH && error != EINVAL) {
                reached++;
                say("%s %d: %s", ways[way], pid, error ? errname(error) : "done");
            }
        }
    say("reached by number: %d", reached);
    pid_t child = MUST(fork());
    if (child == 0)
        for (;;)
            pause();
    until_asleep(child);
    report("own", child);
    MUST(kill(child, SIGKILL));
    wait_for(child);
    /* The parent of a box's first program must not trace it. */
    say("traced by the parent: %s", ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 ? "done" : errname(errno));
    raise(SIGWINCH);
    say("went on");
    return 0;
}
