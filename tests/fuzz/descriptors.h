/* The descriptors that the fuzzer's workers have open: some of every kind a guest can have. */
#ifndef FUZZ_DESCRIPTORS_H
#define FUZZ_DESCRIPTORS_H

#include "memory.h"
#include "names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FIRST_FD 10 /* lower ones are never passed to a call on purpose */
#define LAST_FD 60

/* Where the kinds begin and end: a call that wants a directory should often get one. */
static struct span {
    int first, end;
} directories, sockets, pipes, terminals, specials, plain;

static uint64_t descriptor(Random *r) {
    switch (r->polite ? 3 : below(r, 12)) {
    case 0: return AT_FDCWD;
    case 1: return odd_number(r);
    case 2: return LAST_FD + below(r, 20); /* closed, unless the fuzzing made it */
    default: return FIRST_FD + below(r, LAST_FD - FIRST_FD);
    }
}

static uint64_t one_of(Random *r, const struct span *span) {
    return absurd(r, 4) || span->first >= span->end ? descriptor(r) : span->first + below(r, span->end - span->first);
}

static void take(int *at, int fd) {
    /* A slot keeps its kind: if it cannot be opened now it keeps its descriptor. */
    if (fd >= 0 && fd != *at) {
        dup2(fd, *at);
        close(fd);
    }
    ++*at;
}

static void take_two(int *at, const int fds[2]) {
    take(at, fds[0]);
    take(at, fds[1]);
}

/* A listening socket with a connection that waits to be accepted. */
static int listener_with_connection(void) {
    struct sockaddr_un address = {AF_UNIX, "/tmp/listens"};
    int listens = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), knocks = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    unlink(address.sun_path);
    bind(listens, (void *)&address, sizeof address);
    listen(listens, 3);
    connect(knocks, (void *)&address, sizeof address);
    close(knocks);
    return listens;
}

static void open_descriptors(void) {
    static const char *const READ[] = {"/given/file", "/copied/file", "/proc/self/status", "/usr/bin/true", "/etc/passwd",
                                       "/proc/self/maps", "/dev/urandom", "/given/script"};
    static const char *const WRITE[] = {"/tmp/file", "/shared/file", "/workspace/file", "/dev/null", "/copied/new"};
    static const char *const DIRS[] = {"/", "/tmp", "/given", "/copied", "/shared", "/proc", "/proc/self/fd", "/tmp/dir"};
    int at = FIRST_FD, two[2] = {-1, -1};
    plain.first = at;
    for (size_t i = 0; i < COUNT(READ); i++)
        take(&at, open(READ[i], O_RDONLY | O_NONBLOCK));
    for (size_t i = 0; i < COUNT(WRITE); i++)
        take(&at, open(WRITE[i], O_RDWR | O_CREAT | O_NONBLOCK, 0644));
    take(&at, memfd_create("fuzz", MFD_ALLOW_SEALING));
    plain.end = directories.first = at;
    for (size_t i = 0; i < COUNT(DIRS); i++)
        take(&at, open(DIRS[i], O_RDONLY | O_DIRECTORY));
    directories.end = at;
    take(&at, open("/given/file", O_PATH));
    take(&at, open("/tmp/link", O_PATH | O_NOFOLLOW));
    terminals.first = at;
    take(&at, open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK));
    ioctl(at - 1, TIOCSPTLCK, &(int){0});
    take(&at, ioctl(at - 1, 0x5441 /* TIOCGPTPEER */, O_RDWR | O_NOCTTY | O_NONBLOCK));
    take(&at, open("/dev/tty", O_RDWR | O_NONBLOCK)); /* with -t only */
    terminals.end = pipes.first = at;
    take(&at, open("/tmp/fifo", O_RDWR | O_NONBLOCK));
    for (int i = 0; i < 2; i++) { /* two, so that tee and splice have somewhere to go */
        two[0] = two[1] = -1;
        if (pipe2(two, O_NONBLOCK) == 0)
            write(two[1], "water", 5);
        take_two(&at, two);
    }
    pipes.end = sockets.first = at;
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        two[0] = two[1] = -1;
        if (socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, two) == 0)
            write(two[1], "water", 5);
        take_two(&at, two);
    }
    take(&at, listener_with_connection());
    take(&at, socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockets.end = specials.first = at;
    take(&at, eventfd(1, EFD_NONBLOCK));
    take(&at, epoll_create1(0));
    take(&at, inotify_init1(IN_NONBLOCK));
    take(&at, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    take(&at, syscall(SYS_pidfd_open, getpid(), 0));
    sigset_t none;
    sigemptyset(&none);
    take(&at, signalfd(-1, &none, SFD_NONBLOCK));
    specials.end = at;
    for (; at < LAST_FD; at++)
        close(at);
}

/* The tree that the grammar names; what is missing is made again. */
static void make_tree(void) {
    static const char *const TOPS[] = {"/workspace", "/shared", "/copied", "/tmp"};
    umask(0);
    for (size_t i = 0; i < COUNT(TOPS); i++) {
        chmod(TOPS[i], 0777);
        if (chdir(TOPS[i]) < 0)
            continue;
        mkdir("dir", 0755);
        mkdir("deep", 0755);
        mkdir("deep/x", 0755);
        chmod("dir", 0755);
        close(open("file", O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644));
        chmod("file", 0644);
        setxattr("file", "user.a", "water", 5, 0);
        close(open("dir/in", O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644));
        symlink("file", "link");
        mkfifo("fifo", 0666);
        link("file", "b");
    }
    symlink("loop", "/tmp/loop");
    symlink("/nowhere/at/all", "/tmp/dangling");
    symlink("/usr/bin/true", "/tmp/program");
}

#endif
