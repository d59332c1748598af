/* compat/probe: checks of fcntl, command by command. */
#include "probe.h"

#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>

/* Newer than the headers that this may be built with. */
#define F_DUPFD_QUERY_ 1027
#define F_CREATED_QUERY_ 1028

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

/* -- the descriptor -- */

CHECK(fcntl, "cmd=F_DUPFD")
{
    int fd = probe_file("f", "0123456789");
    EFFECT(MUST(CALL(fcntl, fd, F_DUPFD, 50)) == 50);
    NEED(lseek(fd, 4, SEEK_SET) == 4, "lseek");
    EFFECT(lseek(50, 0, SEEK_CUR) == 4 && fcntl(50, F_GETFD) == 0);
}

CHECK(fcntl, "cmd=F_DUPFD_CLOEXEC")
{
    EFFECT(MUST(CALL(fcntl, probe_memfd(0), F_DUPFD_CLOEXEC, 50)) == 50 && fcntl(50, F_GETFD) == FD_CLOEXEC);
}

CHECK(fcntl, "cmd=F_GETFD")
{
    int fd = probe_memfd(0), plain = dup(fd);
    EFFECT(MUST(CALL(fcntl, fd, F_GETFD)) == FD_CLOEXEC && CALL(fcntl, plain, F_GETFD) == 0);
}

CHECK(fcntl, "cmd=F_SETFD")
{
    int fd = probe_memfd(0);
    MUST(CALL(fcntl, fd, F_SETFD, 0));
    EFFECT(fcntl(fd, F_GETFD) == 0);
}

CHECK(fcntl, "cmd=F_GETFL")
{
    int ends[2];
    probe_pipe(ends);
    EFFECT((MUST(CALL(fcntl, ends[1], F_GETFL)) & O_ACCMODE) == O_WRONLY);
    EFFECT((MUST(CALL(fcntl, ends[0], F_GETFL)) & O_ACCMODE) == O_RDONLY);
}

CHECK(fcntl, "cmd=F_SETFL: O_NONBLOCK")
{
    int ends[2];
    char one;
    probe_pipe(ends);
    MUST(CALL(fcntl, ends[0], F_SETFL, O_NONBLOCK));
    EFFECT(read(ends[0], &one, 1) == -1 && errno == EAGAIN);
}

CHECK(fcntl, "cmd=F_SETFL: O_APPEND")
{
    int fd = probe_file("f", "hello");
    MUST(CALL(fcntl, fd, F_SETFL, O_APPEND));
    EFFECT(write(fd, "!", 1) == 1 && probe_holds("f", "hello!"));
}

CHECK(fcntl, "cmd=F_DUPFD_QUERY")
{
    int fd = probe_memfd(0), same = dup(fd), other = probe_memfd(0);
    EFFECT(MUST(CALL(fcntl, fd, F_DUPFD_QUERY_, same)) == 1 && CALL(fcntl, fd, F_DUPFD_QUERY_, other) == 0);
}

CHECK(fcntl, "cmd=F_CREATED_QUERY")
{
    probe_scratch();
    int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0600), again = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    NEED(fd >= 0 && again >= 0, "open");
    EFFECT(MUST(CALL(fcntl, fd, F_CREATED_QUERY_)) == 1 && CALL(fcntl, again, F_CREATED_QUERY_) == 0);
}

CHECK(fcntl, "an unknown command is EINVAL")
{
    ANSWERS(CALL(fcntl, probe_memfd(0), 9999), EINVAL);
}

CHECK(fcntl, "a descriptor that is not open is EBADF")
{
    ANSWERS(CALL(fcntl, 777, F_GETFD), EBADF);
}

/* -- locks -- */

static struct flock whole(short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    return lock;
}

/* A child that holds a lock of the file, until it is killed. */
static pid_t holder(const char *name, short type)
{
    int *ready = (int *)probe_shared(1);
    pid_t pid = probe_fork();
    if (pid == 0) {
        struct flock lock = whole(type);
        int fd = open(name, O_RDWR | O_CLOEXEC);
        *ready = fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0 ? 1 : 2;
        probe_sleep(8000);
        _exit(0);
    }
    while (!*(volatile int *)ready)
        probe_sleep(1);
    errno = EAGAIN;
    NEED(*ready == 1, "F_SETLK in a child");
    return pid;
}

CHECK(fcntl, "cmd=F_SETLK: against another process")
{
    int fd = probe_file("f", "");
    holder("f", F_WRLCK);
    struct flock lock = whole(F_WRLCK);
    long value = CALL(fcntl, fd, F_SETLK, &lock);
    if (value != -EACCES)
        ANSWERS(value, EAGAIN);
}

CHECK(fcntl, "cmd=F_SETLK: read locks are shared")
{
    int fd = probe_file("f", "");
    holder("f", F_RDLCK);
    struct flock lock = whole(F_RDLCK);
    MUST(CALL(fcntl, fd, F_SETLK, &lock));
}

CHECK(fcntl, "cmd=F_GETLK: tells who holds it")
{
    int fd = probe_file("f", "");
    pid_t pid = holder("f", F_WRLCK);
    struct flock lock = whole(F_WRLCK);
    MUST(CALL(fcntl, fd, F_GETLK, &lock));
    EFFECT(lock.l_type == F_WRLCK && lock.l_pid == pid);
}

CHECK(fcntl, "cmd=F_SETLKW: waits until it is free")
{
    int fd = probe_file("f", "");
    pid_t pid = holder("f", F_WRLCK), killer = probe_fork();
    if (killer == 0) {
        probe_sleep(20);
        kill(pid, SIGKILL);
        _exit(0);
    }
    struct flock lock = whole(F_WRLCK);
    MUST(CALL(fcntl, fd, F_SETLKW, &lock));
}

static int second_open(void)
{
    int fd = open("f", O_RDWR | O_CLOEXEC);
    NEED(fd >= 0, "open");
    return fd;
}

CHECK(fcntl, "cmd=F_OFD_SETLK: against another open file of the same process")
{
    int fd = probe_file("f", ""), other = second_open();
    struct flock lock = whole(F_WRLCK), again = whole(F_WRLCK);
    MUST(CALL(fcntl, fd, F_OFD_SETLK, &lock));
    EFFECT(fcntl(other, F_OFD_SETLK, &again) == -1 && errno == EAGAIN);
}

CHECK(fcntl, "cmd=F_OFD_GETLK")
{
    int fd = probe_file("f", ""), other = second_open();
    struct flock lock = whole(F_WRLCK), seen = whole(F_WRLCK);
    (void)!fcntl(fd, F_OFD_SETLK, &lock);
    MUST(CALL(fcntl, other, F_OFD_GETLK, &seen));
    EFFECT(seen.l_type == F_WRLCK && seen.l_pid == -1);
}

CHECK(fcntl, "cmd=F_OFD_SETLKW")
{
    int fd = probe_file("f", ""), other = second_open();
    struct flock lock = whole(F_WRLCK), again = whole(F_WRLCK);
    MUST(CALL(fcntl, fd, F_OFD_SETLKW, &lock));
    EFFECT(fcntl(other, F_OFD_SETLK, &again) == -1 && errno == EAGAIN);
}

/* -- leases and notes -- */

CHECK(fcntl, "cmd=F_SETLEASE")
{
    NEED(close(probe_file("f", "")) == 0, "close");
    int fd = open("f", O_RDONLY | O_CLOEXEC);
    NEED(fd >= 0, "open");
    MUST(CALL(fcntl, fd, F_SETLEASE, F_RDLCK));
    EFFECT(fcntl(fd, F_GETLEASE) == F_RDLCK);
}

CHECK(fcntl, "cmd=F_GETLEASE")
{
    EFFECT(MUST(CALL(fcntl, probe_file("f", ""), F_GETLEASE)) == F_UNLCK);
}

CHECK(fcntl, "cmd=F_NOTIFY: a signal when a file is made")
{
    probe_scratch();
    struct sigaction action = {.sa_handler = note};
    NEED(sigaction(SIGIO, &action, NULL) == 0, "sigaction");
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    MUST(CALL(fcntl, dir, F_NOTIFY, DN_CREATE));
    probe_file("f", "");
    for (int n = 0; n < 2000 && !caught; n++)
        probe_sleep(1);
    EFFECT(caught == SIGIO);
}

/* -- signals of a descriptor -- */

static int socket_pair(int ends[2])
{
    NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    return ends[0];
}

CHECK(fcntl, "cmd=F_SETOWN: the owner gets SIGIO")
{
    int ends[2], fd = socket_pair(ends);
    struct sigaction action = {.sa_handler = note};
    NEED(sigaction(SIGIO, &action, NULL) == 0, "sigaction");
    MUST(CALL(fcntl, fd, F_SETOWN, getpid()));
    NEED(fcntl(fd, F_SETFL, O_ASYNC) == 0 && write(ends[1], "x", 1) == 1, "O_ASYNC");
    for (int n = 0; n < 2000 && !caught; n++)
        probe_sleep(1);
    EFFECT(caught == SIGIO);
}

CHECK(fcntl, "cmd=F_GETOWN")
{
    int ends[2], fd = socket_pair(ends);
    bool set = fcntl(fd, F_SETOWN, getpid()) == 0;
    EFFECT(MUST(CALL(fcntl, fd, F_GETOWN)) == (set ? getpid() : 0));
}

struct owner {
    int type;
    int pid;
};

CHECK(fcntl, "cmd=F_SETOWN_EX")
{
    int ends[2], fd = socket_pair(ends);
    struct owner owner = {F_OWNER_TID, gettid()};
    MUST(CALL(fcntl, fd, F_SETOWN_EX, &owner));
    EFFECT(fcntl(fd, F_GETOWN) == getpid());
}

CHECK(fcntl, "cmd=F_GETOWN_EX")
{
    int ends[2], fd = socket_pair(ends);
    struct owner owner = {-1, -1};
    bool set = fcntl(fd, F_SETOWN, getpid()) == 0;
    MUST(CALL(fcntl, fd, F_GETOWN_EX, &owner));
    EFFECT(owner.pid == (set ? getpid() : 0));
}

CHECK(fcntl, "cmd=F_GETOWNER_UIDS: or the kernel was built without")
{
    int ends[2], fd = socket_pair(ends);
    uint32_t ids[2] = {~0u, ~0u};
    MUST_OR(CALL(fcntl, fd, 17, ids), EINVAL);
    EFFECT(ids[0] != ~0u);
}

CHECK(fcntl, "cmd=F_SETSIG")
{
    int ends[2], fd = socket_pair(ends);
    MUST(CALL(fcntl, fd, F_SETSIG, SIGUSR1));
    EFFECT(fcntl(fd, F_GETSIG) == SIGUSR1);
}

CHECK(fcntl, "cmd=F_GETSIG")
{
    int ends[2], fd = socket_pair(ends);
    EFFECT(MUST(CALL(fcntl, fd, F_GETSIG)) == 0);
}

/* -- pipes, memory files, hints -- */

CHECK(fcntl, "cmd=F_SETPIPE_SZ")
{
    int ends[2];
    static char many[8192];
    probe_pipe(ends);
    EFFECT(MUST(CALL(fcntl, ends[0], F_SETPIPE_SZ, 4096)) == 4096);
    NEED(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "F_SETFL");
    EFFECT(write(ends[1], many, 8192) == 4096);
}

CHECK(fcntl, "cmd=F_GETPIPE_SZ")
{
    int ends[2];
    probe_pipe(ends);
    EFFECT(MUST(CALL(fcntl, ends[0], F_GETPIPE_SZ)) >= 4096);
}

CHECK(fcntl, "cmd=F_ADD_SEALS")
{
    int fd = probe_memfd(10);
    MUST(CALL(fcntl, fd, F_ADD_SEALS, F_SEAL_WRITE));
    EFFECT(write(fd, "x", 1) == -1 && errno == EPERM);
}

CHECK(fcntl, "cmd=F_GET_SEALS")
{
    int fd = probe_memfd(10);
    NEED(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == 0, "F_ADD_SEALS");
    EFFECT(MUST(CALL(fcntl, fd, F_GET_SEALS)) == F_SEAL_GROW);
}

CHECK(fcntl, "cmd=F_SET_RW_HINT")
{
    int fd = probe_file("f", "");
    uint64_t wish = RWH_WRITE_LIFE_SHORT, now = 0;
    MUST(CALL(fcntl, fd, F_SET_RW_HINT, &wish));
    EFFECT(fcntl(fd, F_GET_RW_HINT, &now) == 0 && now == wish);
}

CHECK(fcntl, "cmd=F_GET_RW_HINT")
{
    uint64_t now = ~0UL;
    MUST(CALL(fcntl, probe_file("f", ""), F_GET_RW_HINT, &now));
    EFFECT(now == 0);
}

CHECK(fcntl, "cmd=F_GET_FILE_RW_HINT: Linux has it no more since 5.17")
{
    uint64_t now = ~0UL;
    MUST_OR(CALL(fcntl, probe_file("f", ""), F_GET_FILE_RW_HINT, &now), EINVAL);
}

CHECK(fcntl, "cmd=F_SET_FILE_RW_HINT: Linux has it no more since 5.17")
{
    uint64_t wish = 0;
    MUST_OR(CALL(fcntl, probe_file("f", ""), F_SET_FILE_RW_HINT, &wish), EINVAL);
}
