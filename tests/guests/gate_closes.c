/* build: gate_closes
 *
 * Whoever may see or refuse a program's calls does so, however often the program asked before: a filter of its own, and a
 * tracer that counts.
 */
#include "step.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static int asked(int times, int expected) {
    struct stat s;
    int right = 0;
    for (int i = 0; i < times; i++) {
        errno = 0;
        stat("/usr/bin", &s);
        right += errno == expected;
    }
    return right;
}

static void refuse(int through_prctl) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
    };
    struct sock_fprog program = {4, filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(through_prctl ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                       : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
}

/* How often a tracer sees a child enter newfstatat. */
static void count(void) {
    int status, seen = 0, entries = 0;
    pid_t child = MUST(fork());
    if (!child) {
        asked(200, 0);
        MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        _exit(asked(20, 0));
    }
    MUST(waitpid(child, &status, 0));
    MUST(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    while (MUST(ptrace(PTRACE_SYSCALL, child, 0, 0)), MUST(waitpid(child, &status, 0)), WIFSTOPPED(status)) {
        struct user_regs_struct regs;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        MUST(ptrace(PTRACE_GETREGS, child, 0, &regs));
        seen += regs.orig_rax == SYS_newfstatat && entries++ % 2 == 0;
    }
    say("a tracer saw %d, right %d", seen, WEXITSTATUS(status));
}

int main(void) {
    say("at first %d", asked(400, 0));
    for (int way = 0; way < 2; way++) {
        pid_t child = MUST(fork());
        if (!child) {
            int before = asked(200, 0);
            refuse(way);
            say("a filter of its own, way %d: before %d, refused %d", way, before, asked(100, EDOM));
            _exit(0);
        }
        wait_for(child);
        say("its parent %d", asked(100, 0));
    }
    count();
    say("at last %d", asked(100, 0));
    return 0;
}
