/* Shared by the programs that learn the number with which a supervisor marks the calls it makes in a guest's place: a
 * filter of the guest's own sees it and returns it, byte by byte, as an error number. */
#include "step.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#define BASE 1000 /* above all errors of Linux */

/* One byte of the sixth argument of the execveat that a supervisor makes of our execve; a negative number: none. */
static int told(int byte) {
    int word = offsetof(struct seccomp_data, args[5]) + (byte & ~3);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 6),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, (byte & 3) * 8),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, BASE),
        BPF_STMT(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_A, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    char *arguments[] = {"true", NULL}, *nothing[] = {NULL};
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    execve("/bin/../bin/true", arguments, nothing); /* spelled so that the call does not just go on */
    return errno - BASE;
}

/* 0: there is none to learn. `shared` is memory that children write to. */
static uint64_t learned(int *shared) {
    uint64_t cookie = 0;
    for (int i = 0; i < 8; i++) {
        *shared = -1;
        pid_t child = MUST(fork());
        if (child == 0) {
            *shared = told(i);
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
        if (*shared >= 0)
            cookie |= (uint64_t)(*shared & 0xff) << (8 * i);
    }
    return cookie;
}
