/*
 * The floor under every virtual call: a supervisor that answers seccomp notifications and does nothing else.
 *
 *     echo_supervisor REPETITIONS COUNT
 *
 * Prints like calls.c: per repetition the mean cost, in nanoseconds, of a getppid() that the supervisor answers with 0.
 * Supervisor and caller are two processes, as they are in husk: two threads would not pay for switching address spaces.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Newer than the headers of Debian 12. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int listen_to_getppid(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail("no_new_privs");
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                   SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
}

/* Child: install the filter, tell the parent the listener's number, call. */
static void call(int tell, long repetitions, long count)
{
    int listener = listen_to_getppid();

    if (write(tell, &listener, sizeof listener) != sizeof listener || listener < 0)
        fail("seccomp listener");
    for (long repetition = 0; repetition <= repetitions; repetition++) {
        double start = now();
        for (long n = 0; n < count; n++)
            if (syscall(SYS_getppid) != 0)
                fail("getppid");
        double cost = (now() - start) / count;
        if (repetition)
            printf("%.1f\n", cost);
    }
    fflush(stdout);
    _exit(0);
}

/* Parent: receive and answer, exactly as often as the child will ask. */
static void answer(int listener, long times)
{
    struct seccomp_notif request;
    struct seccomp_notif_resp response;

    /* Kernels before 6.6 do not know the flag; the figure is then simply larger. */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) < 0)
        fprintf(stderr, "echo_supervisor: no synchronous wake-up on this kernel\n");
    while (times--) {
        memset(&request, 0, sizeof request);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
            fail("receive");
        memset(&response, 0, sizeof response);
        response.id = request.id;
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0)
            fail("send");
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: echo_supervisor REPETITIONS COUNT\n");
        return 2;
    }
    long repetitions = atol(argv[1]), count = atol(argv[2]);
    int ends[2], listener, status;

    if (pipe(ends) < 0)
        fail("pipe");
    /* A shared descriptor table, so that the number the child learns is ours too. */
    pid_t child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child < 0)
        fail("clone");
    if (child == 0)
        call(ends[1], repetitions, count);
    if (read(ends[0], &listener, sizeof listener) != sizeof listener || listener < 0)
        return 1;
    answer(listener, (repetitions + 1) * count);
    waitpid(child, &status, 0);
    return status != 0;
}
