/* build: own_filter
 *
 * own_filter FILE: a guest's own seccomp filters against its supervisor's. Each is installed in a child that then reads
 * FILE: a filter that lets everything pass, one that logs, one that asks a listener nothing reads from, one that asks a
 * tracer, one that answers success without running the call; a tracer that changes a harmless call after the filters
 * have seen it; and the ways to get a listener. On an unprotected host some of them read the file, and a listener can
 * be had.
 */
#include "step.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static const char *file;
static char text[16];

/* `answer` for open, openat and getppid; everything else passes. */
static long install(unsigned answer, unsigned flags) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, answer),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* 0: read; else an errno. */
static int reads(long fd) {
    if (fd < 0)
        return errno;
    return read(fd, text, 8) == 8 && memcmp(text, "ORIGINAL", 8) == 0 ? 0 : EBADF;
}

static void under(const char *name, unsigned answer) {
    int status;
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(install(answer, 0));
        _exit(reads(syscall(SYS_open, file, O_RDONLY)));
    }
    MUST(waitpid(child, &status, 0));
    say("%s: %s", name, status ? errname(WEXITSTATUS(status)) : "read");
}

/* The tracer is asked after all filters have answered, and then makes open of getppid: are they asked again? */
static void rewritten(void) {
    int status;
    pid_t child = MUST(fork());
    if (child == 0) {
        MUST(ptrace(PTRACE_TRACEME, 0, 0, 0));
        raise(SIGSTOP);
        MUST(install(SECCOMP_RET_TRACE, 0));
        register long number __asm__("rax") = SYS_getppid;
        register const char *name __asm__("rdi") = file;
        register long flags __asm__("rsi") = O_RDONLY;
        __asm__ volatile("syscall" : "+r"(number) : "r"(name), "r"(flags) : "rcx", "r11", "memory");
        errno = number < 0 ? -number : 0;
        _exit(reads(number < 0 ? -1 : number));
    }
    MUST(waitpid(child, &status, 0));
    MUST(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL));
    for (int more = 0;;) {
        MUST(ptrace(PTRACE_CONT, child, 0, more));
        MUST(waitpid(child, &status, 0));
        if (!WIFSTOPPED(status))
            break;
        more = 0;
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)) {
            struct user_regs_struct is;
            MUST(ptrace(PTRACE_GETREGS, child, 0, &is));
            if (is.orig_rax == SYS_getppid) {
                is.orig_rax = SYS_open;
                MUST(ptrace(PTRACE_SETREGS, child, 0, &is));
            }
        }
    }
    say("another call by a tracer: %s", status ? errname(WEXITSTATUS(status)) : "read");
}

static void listeners(void) {
    static const unsigned FLAGS[] = {SECCOMP_FILTER_FLAG_NEW_LISTENER,
                                     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
                                     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_LOG};
    int had = 0;
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++) {
        int status;
        pid_t child = MUST(fork());
        if (child == 0)
            _exit(install(SECCOMP_RET_ALLOW, FLAGS[i]) < 0);
        MUST(waitpid(child, &status, 0));
        had += status == 0;
    }
    say("listeners: %d", had);
    uint64_t id = 1;
    int valid = 0;
    for (int fd = 0; fd < 1024; fd++)
        valid += ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0 || errno == ENOENT;
    say("found: %d", valid);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 96;
    file = argv[1];
    under("lets pass", SECCOMP_RET_ALLOW);
    under("logs", SECCOMP_RET_LOG);
    under("asks nobody", SECCOMP_RET_USER_NOTIF);
    under("asks no tracer", SECCOMP_RET_TRACE);
    under("says done", SECCOMP_RET_ERRNO);
    rewritten();
    listeners();
    return 0;
}
