/* build: join_group
 *
 * join_group: the way to the reaper by process groups. Its group is in the guest's session. A guest that joins it and
 * makes it the owner of a descriptor could send it any signal, on kernels where Landlock's scope does not hold for a
 * group that the caller is in. Prints what each call says.
 */
#include "step.h"
#include <sys/ioctl.h>
#include <sys/socket.h>

static void own(const char *label, int pair[2], int which, pid_t group) {
    struct { int type, pid; } who = {2 /* F_OWNER_PGRP */, group};
    int negative = -group;
    long set = which == 0   ? fcntl(pair[0], F_SETOWN, -group)
               : which == 1 ? fcntl(pair[0], 15 /* F_SETOWN_EX */, &who)
               : which == 2 ? ioctl(pair[0], 0x8901 /* FIOSETOWN */, &negative)
                            : ioctl(pair[0], 0x8902 /* SIOCSPGRP */, &negative);
    say("%s: %s", label, set < 0 ? errname(errno) : "done");
}

int main(void) {
    static const char *const labels[] = {"F_SETOWN", "F_SETOWN_EX", "FIOSETOWN", "SIOCSPGRP"};
    pid_t reaper = getppid();
    pid_t child = MUST(fork());
    if (child == 0) { /* not the first program: the leader of its group may join no other */
        int pair[2];
        MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
        say("join: %s", setpgid(0, reaper) < 0 ? errname(errno) : "done");
        say("join, by its number: %s", setpgid(getpid(), reaper) < 0 ? errname(errno) : "done");
        say("join, with a wide number: %s",
            syscall(SYS_setpgid, 0L, 1L << 32 | reaper) < 0 ? errname(errno) : "done");
        signal(SIGRTMIN + 1, SIG_IGN); /* it reaches this process too; its default is to kill */
        fcntl(pair[0], 10 /* F_SETSIG */, SIGRTMIN + 1);
        fcntl(pair[0], F_SETFL, O_ASYNC);
        for (int i = 0; i < 4; i++) {
            own(labels[i], pair, i, reaper);
            MUST(write(pair[1], "x", 1));
        }
        say("a group of its own: %s", setpgid(0, 0) < 0 ? errname(errno) : "done");
        say("the first one's: %s", setpgid(0, getppid()) < 0 ? errname(errno) : "done");
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    return 0;
}
