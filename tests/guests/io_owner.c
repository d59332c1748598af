/* build: io_owner
 *
 * Who owns a descriptor and is told by a signal when it is ready: a process, a process group, nobody; by fcntl and by
 * ioctl; and which error comes first.
 */
#include "step.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

struct owner { int type, pid; };

static volatile int told;
static void count(int sig) { (void)sig, told++; }

static void whose(const char *label, int fd) {
    struct owner who = {77, 77};
    int by_ioctl = 77;
    MUST(fcntl(fd, 16 /* F_GETOWN_EX */, &who));
    ioctl(fd, 0x8903 /* FIOGETOWN */, &by_ioctl);
    say("%s: me %d my group %d none %d, kind %d, by ioctl the same %d", label, who.pid == getpid() && who.type == 1,
        who.pid == getpgrp() && who.type == 2, who.pid == 0, who.type, by_ioctl == (who.type == 2 ? -who.pid : who.pid));
}

int main(void) {
    int pair[2], ends[2], none = 0, group, self;
    setpgid(0, 0);
    group = -getpgrp(), self = getpid();
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(pipe(ends));
    signal(SIGIO, count);
    whose("at first", pair[0]);
    STEP(fcntl(pair[0], F_SETOWN, group));
    whose("F_SETOWN of the group", pair[0]);
    MUST(fcntl(pair[0], F_SETFL, O_ASYNC));
    pid_t child = fork();
    if (child == 0) { /* in the same group */
        MUST(write(pair[1], "x", 1));
        for (int i = 0; i < 1000 && !told; i++)
            nap_ms(1);
        say("a child was told %d", told > 0);
        _exit(0);
    }
    wait_for(child);
    say("and so was I %d", told > 0);
    STEP(fcntl(pair[0], F_SETOWN, 0));
    whose("F_SETOWN of none", pair[0]);
    STEP(fcntl(pair[0], F_SETOWN, -0x3fffffff));
    STEP(fcntl(pair[0], F_SETOWN, 0x80000000));
    STEP(fcntl(99, F_SETOWN, group));
    struct owner process = {1, self}, all = {2, -group}, nobody = {1, 0}, strange = {7, self}, gone = {2, 0x3fffffff},
                 away = {1, 0x3fffffff}, thread_away = {0, 0x3fffffff}, negative = {1, -1};
    STEP(fcntl(pair[0], 15 /* F_SETOWN_EX */, &process));
    whose("F_SETOWN_EX of a process", pair[0]);
    STEP(fcntl(pair[0], 15, &all));
    whose("F_SETOWN_EX of the group", pair[0]);
    STEP(fcntl(pair[0], 15, &nobody));
    whose("F_SETOWN_EX of none", pair[0]);
    STEP(fcntl(pair[0], 15, &strange));
    STEP(fcntl(pair[0], 15, &gone));
    STEP(fcntl(pair[0], 15, &away));
    STEP(fcntl(pair[0], 15, &thread_away));
    STEP(fcntl(pair[0], 15, &negative));
    STEP(fcntl(pair[0], 15, (void *)8));
    STEP(fcntl(99, 15, (void *)8));
    int path = MUST(open("/", O_PATH));
    STEP(fcntl(path, F_SETOWN, -0x3fffffff));
    STEP(fcntl(path, 15, (void *)8));
    STEP(ioctl(pair[0], 0x8901 /* FIOSETOWN */, &self));
    whose("FIOSETOWN of a process", pair[0]);
    STEP(ioctl(pair[0], 0x8902 /* SIOCSPGRP */, &group));
    whose("SIOCSPGRP of the group", pair[0]);
    STEP(ioctl(pair[0], 0x8901, &none));
    whose("FIOSETOWN of none", pair[0]);
    STEP(ioctl(pair[0], 0x8901, (void *)8));
    STEP(ioctl(ends[0], 0x8901, &self));
    STEP(ioctl(99, 0x8901, (void *)8));
    return 0;
}
