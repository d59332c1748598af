/* build: no_filter -static
 *
 * no_filter: first of all looks for a process that was made just after it, attaches to it with ptrace, and lets it make
 * a system call that no guest may make. The process that hands over a box's listener has no filter, so a guest that
 * controls it has none either. Prints what the call returned: "nobody" if there was no such process, or attaching
 * failed.
 */
#include "step.h"

#include <sys/ptrace.h>
#include <sys/user.h>

/* Its next system call becomes userfaultfd(UFFD_USER_MODE_ONLY), which husk's filter refuses. */
static long call_in(pid_t pid) {
    struct user_regs_struct registers;
    int status;
    ptrace(PTRACE_INTERRUPT, pid, 0, 0);
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, pid, 0, &registers) != 0)
        return -EPERM;
    /* It was in a system call, so a syscall instruction is right behind it. */
    registers.rip -= 2;
    registers.rax = SYS_userfaultfd, registers.orig_rax = -1;
    registers.rdi = 1;
    ptrace(PTRACE_SETREGS, pid, 0, &registers);
    for (int i = 0; i < 2; i++)
        if (ptrace(PTRACE_SYSCALL, pid, 0, 0) != 0 || waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
            return -EPERM;
    ptrace(PTRACE_GETREGS, pid, 0, &registers);
    ptrace(PTRACE_DETACH, pid, 0, 0);
    return (long)registers.rax;
}

int main(void) {
    for (pid_t pid = getpid() + 1; pid < getpid() + 40; pid++) {
        if (ptrace(PTRACE_SEIZE, pid, 0, 0) != 0)
            continue;
        long result = call_in(pid);
        printf("%s\n", result >= 0 ? "a call without a filter" : errname(-result));
        return 0;
    }
    printf("nobody\n");
    return 0;
}
