/* build: kill_thread -pthread
 *
 * kill_thread CALL: a filter of the guest's own kills the calling thread, not the process, at system call number CALL.
 * 13 is rt_sigaction, and only with a fifth argument, which only a supervisor gives that repeats the call in the
 * guest's place; 81 is fchdir, which a supervisor may use for a chdir. So the leader dies inside the supervisor's own
 * call, while a sibling keeps the process alive. All other guests must still be served, and the process be reaped. On a
 * host without a supervisor neither call is made: the child just ends.
 */
#include "step.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>

#define FIFTH_ARGUMENT offsetof(struct seccomp_data, args[4])

/* As the host takes it: libc would not let us name a restorer of our own. */
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};

static void on_signal(int sig) { (void)sig; }

static void *sleep_on(void *unused) {
    for (;;)
        pause();
    return unused;
}

static void die_within(int call) {
    struct action action = {.handler = on_signal, .flags = 0x04000000 /* SA_RESTORER */}, old;
    pthread_t thread;
    MUST(syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8, 0, 0));
    pthread_create(&thread, NULL, sleep_on, NULL);
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIFTH_ARGUMENT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    if (call == SYS_rt_sigaction)
        syscall(SYS_rt_sigaction, SIGUSR1, &action, &old, 8, 0, 0);
    else
        (void)!chdir("/usr");
    _exit(1);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 96;
    struct stat st;
    pid_t child = MUST(fork());
    if (child == 0)
        die_within(atoi(argv[1]));
    usleep(300000); /* the leader is dead by now, or never will be */
    STEP(stat("/tmp", &st));
    STEP(chdir("/tmp"));
    kill(child, SIGKILL);
    OK(waitpid(child, NULL, 0));
    return 0;
}
