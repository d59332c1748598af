/* PIDFD_GET_INFO: what a pidfd tells of a living process, of a zombie and of one that is gone; and what is no pidfd.
 *
 * build: proc_pidfd */
#include "step.h"

#include <sys/ioctl.h>

struct info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ids[8];
    int32_t exit_code;
    uint32_t more[2];
};

#define FIRST _IOC(_IOC_READ | _IOC_WRITE, 0xFF, 11, 64)
#define SECOND _IOC(_IOC_READ | _IOC_WRITE, 0xFF, 11, 72)
enum { PID = 1, IDS = 2, CGROUP = 4, EXIT = 8 };

static struct info info;
static int child;

static void ask(const char *who, int fd, unsigned long command, uint64_t mask) {
    memset(&info, 0, sizeof info);
    info.mask = mask;
    say("%s = %s", who, ioctl(fd, command, &info) < 0 ? errname(errno) : "0");
}

static void show(int pid, int parent) {
    int mine = 1;
    uint32_t ids[2] = {getuid(), getgid()};
    for (int i = 0; i < 8; i++)
        mine &= info.ids[i] == ids[i % 2];
    say("pid %d, tgid %d, parent %d, ids %d, mask %lx", info.pid == (uint32_t)pid, info.tgid == (uint32_t)pid,
        info.ppid == (uint32_t)parent, mine, (long)info.mask & (PID | IDS | EXIT));
}

int main(void) {
    int self, fd, file;
    MUST(self = syscall(SYS_pidfd_open, getpid(), 0));
    ask("self", self, FIRST, PID | IDS);
    show(getpid(), getppid());
    MUST(child = fork());
    if (!child) {
        pause();
        _exit(1);
    }
    MUST(fd = syscall(SYS_pidfd_open, child, 0));
    ask("child", fd, FIRST, PID);
    show(child, getpid());
    ask("child, with its exit", fd, SECOND, PID | EXIT);
    show(child, getpid());
    MUST(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    siginfo_t told;
    MUST(waitid(P_PIDFD, fd, &told, WEXITED | WNOWAIT));
    ask("zombie", fd, FIRST, PID);
    show(child, getpid());
    MUST(waitid(P_PIDFD, fd, &told, WEXITED));
    ask("gone", fd, FIRST, PID);
    MUST(file = open(".", O_RDONLY));
    ask("a directory", file, FIRST, PID);
    ask("a pipe", 77, FIRST, PID);
    STEP(ioctl(self, FIRST, (void *)8));
    STEP(ioctl(self, FIRST, NULL));
    return 0;
}
