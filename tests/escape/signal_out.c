/* build: signal_out
 *
 * signal_out PID [all]: sends SIGURG, which is ignored by default, to a process in every way there is, to its group,
 * and to all processes. Prints which calls succeeded: natively they do for a process of the same user.
 * signal_out wait: waits for one.
 */
#include "step.h"
#include <sys/socket.h>

static void owner(const char *label, int command, pid_t pid) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    struct { int type, pid; } who = {1 /* F_OWNER_PID */, pid};
    long set = command == F_SETOWN ? fcntl(pair[0], F_SETOWN, pid) : fcntl(pair[0], 15 /* F_SETOWN_EX */, &who);
    fcntl(pair[0], 10 /* F_SETSIG */, SIGURG);
    fcntl(pair[0], F_SETFL, O_ASYNC);
    MUST(write(pair[1], "x", 1));
    (void)set; /* setting the owner sends no signal: the other process knows whether one comes */
    say("%s: tried", label);
    close(pair[0]), close(pair[1]);
}

static int wait_for_one(void) {
    sigset_t set;
    int got;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    MUST(sigprocmask(SIG_BLOCK, &set, NULL));
    say("waits");
    MUST(sigwait(&set, &got));
    say("got it");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2 || !strcmp(argv[1], "wait"))
        return wait_for_one();
    signal(SIGURG, SIG_IGN);
    pid_t pid = atoi(argv[1]);
    siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};
    OK(kill(pid, SIGURG));
    OK(kill(-pid, SIGURG));
    OK(syscall(SYS_tkill, pid, SIGURG));
    OK(syscall(SYS_tgkill, pid, pid, SIGURG));
    OK(sigqueue(pid, SIGURG, (union sigval){0}));
    OK(syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGURG, &info));
    int handle = syscall(SYS_pidfd_open, pid, 0);
    OK(syscall(SYS_pidfd_send_signal, handle, SIGURG, NULL, 0));
    OK(syscall(SYS_pidfd_send_signal, handle, SIGURG, NULL, 4)); /* to its group */
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG, ._sigev_un._tid = pid};
    OK(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &(int){0}));
    owner("F_SETOWN", F_SETOWN, pid);
    owner("F_SETOWN_EX", 15, pid);
    owner("F_SETOWN of the group", F_SETOWN, -pid);
    if (argc > 2)
        say("to everybody: %s", kill(-1, SIGURG) == 0 || errno == ESRCH ? "tried" : errname(errno));
    return 0;
}
