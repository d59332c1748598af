/* What the fuzzer puts into registers and structures: names, descriptors, addresses of sockets, and soup. */
#ifndef FUZZ_VALUES_H
#define FUZZ_VALUES_H

#include "memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 10 /* what stands below is never handed to a call on purpose */
#define LAST_FD 60

static pid_t supervisor;

/* ---- names: a grammar of what a box holds */

static const char *const ROOTS[] = {
    "", "/", "/tmp/", "/workspace/", "/given/", "/copied/", "/shared/", "/proc/self/", "/proc/", "/dev/", "/usr/bin/",
    "/etc/", "/home/user/", "/sys/", "/proc/self/fd/", "/proc/thread-self/", "/proc/self/task/", "//", "./", "../",
    "/dev/fd/", "/dev/pts/", "/proc/1/", "/dev/shm/", "/run/", "/proc/self/cwd/", "/proc/self/root/", "/proc/sys/",
};
static const char *const PARTS[] = {
    "a", "b", "file", "dir", "link", "loop", "fifo", "socket", "deep/x/y", "dangling", "..", ".", "", "fd", "exe", "cwd",
    "root", "maps", "mem", "status", "self", "null", "tty", "ptmx", "0", "1", "12", "15", "30", "true", "sh", "passwd",
    "new", "new/", "file/", "dir/..", "link/..", "dir/../..", "environ", "cmdline", "stat", "comm", "net/tcp", "mounts",
    "script", "bad-script", "program", "\xff\xfe", "a b", "\n", "(deleted)", "fixed", "kernel", "urandom", "-1",
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static size_t make_name(Random *r, char *out, size_t bound) {
    size_t length = 0;
    if (one_in(r, 40)) { /* long: a part, or all of it */
        static const size_t LENGTHS[] = {254, 255, 256, 4094, 4095, 4096, 4097, 5000};
        length = LENGTHS[below(r, COUNT(LENGTHS))];
        if (length >= bound)
            length = bound - 1;
        memset(out, 'x', length);
        if (one_in(r, 2))
            for (size_t i = 0; i < length; i += 1 + below(r, 300))
                out[i] = '/';
        out[length] = 0;
        return length + 1;
    }
    length = snprintf(out, bound, "%s", ROOTS[below(r, COUNT(ROOTS))]);
    for (unsigned i = below(r, 4); i < 4 && length + 20 < bound; i++)
        length += snprintf(out + length, bound - length, "%s%s", PARTS[below(r, COUNT(PARTS))], i < 3 ? "/" : "");
    if (one_in(r, 60))
        out[below(r, length + 1)] = next(r);
    return length + 1;
}

static uint64_t name(Random *r) {
    if (one_in(r, 14))
        return bad_address(r);
    if (one_in(r, 6))
        return FLIP + below(r, 2) * 64; /* changes while husk looks */
    char text[5100];
    size_t size = make_name(r, text, sizeof text);
    char *place = room(r, size);
    memcpy(place, text, size);
    return (uint64_t)place;
}

/* ---- descriptors */

static uint64_t descriptor(Random *r) {
    switch (below(r, 12)) {
    case 0: return AT_FDCWD;
    case 1: return odd_number(r);
    case 2: return LAST_FD + below(r, 20); /* closed, unless the fuzzing made it */
    default: return FIRST_FD + below(r, LAST_FD - FIRST_FD);
    }
}

static void take(int *at, int fd) {
    if (fd < 0)
        return;
    if (fd != *at && *at < LAST_FD) {
        dup2(fd, *at);
        close(fd);
    }
    ++*at;
}

static void take_two(int *at, const int fds[2]) {
    take(at, fds[0]);
    take(at, fds[1]);
}

static void open_descriptors(void) {
    static const char *const READ[] = {"/given/file", "/copied/file", "/proc/self/status", "/usr/bin/true", "/etc/passwd",
                                       "/proc/self/maps", "/dev/urandom", "/given/script"};
    static const char *const WRITE[] = {"/tmp/file", "/shared/file", "/workspace/file", "/dev/null", "/copied/new"};
    static const char *const DIRS[] = {"/", "/tmp", "/given", "/copied", "/shared", "/proc", "/proc/self/fd", "/tmp/dir"};
    int at = FIRST_FD, two[2];
    for (size_t i = 0; i < COUNT(READ); i++)
        take(&at, open(READ[i], O_RDONLY | O_NONBLOCK));
    for (size_t i = 0; i < COUNT(WRITE); i++)
        take(&at, open(WRITE[i], O_RDWR | O_CREAT | O_NONBLOCK, 0644));
    for (size_t i = 0; i < COUNT(DIRS); i++)
        take(&at, open(DIRS[i], O_RDONLY | O_DIRECTORY));
    take(&at, open("/given/file", O_PATH));
    take(&at, open("/tmp/link", O_PATH | O_NOFOLLOW));
    take(&at, open("/tmp/fifo", O_RDWR | O_NONBLOCK));
    take(&at, open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK));
    if (pipe2(two, O_NONBLOCK) == 0)
        take_two(&at, two);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, two) == 0)
        take_two(&at, two);
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, two) == 0)
        take_two(&at, two);
    take(&at, socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
    take(&at, socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK, NETLINK_ROUTE));
    take(&at, memfd_create("fuzz", MFD_ALLOW_SEALING));
    take(&at, eventfd(1, EFD_NONBLOCK));
    take(&at, epoll_create1(0));
    take(&at, inotify_init1(IN_NONBLOCK));
    take(&at, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
    take(&at, syscall(SYS_pidfd_open, getpid(), 0));
    sigset_t none;
    sigemptyset(&none);
    take(&at, signalfd(-1, &none, SFD_NONBLOCK));
    for (; at < LAST_FD; at++)
        close(at);
}

/* The tree the grammar speaks of; whatever went missing comes back. */
static void make_tree(void) {
    mkdir("/tmp/dir", 0755);
    mkdir("/tmp/deep", 0755);
    mkdir("/tmp/deep/x", 0755);
    symlink("file", "/tmp/link");
    symlink("loop", "/tmp/loop");
    symlink("/nowhere/at/all", "/tmp/dangling");
    mkfifo("/tmp/fifo", 0666);
    link("/tmp/file", "/tmp/b");
    symlink("../given/file", "/shared/link");
}

/* ---- structures */

static void socket_address(Random *r, char *out, size_t *size) {
    memset(out, 0, 128);
    switch (below(r, 7)) {
    case 0: case 1: {
        struct sockaddr_un *unix_name = (void *)out;
        unix_name->sun_family = AF_UNIX;
        char text[200];
        size_t length = make_name(r, text, sizeof text);
        if (one_in(r, 4))
            text[0] = 0; /* abstract */
        if (length > sizeof unix_name->sun_path)
            length = sizeof unix_name->sun_path;
        memcpy(unix_name->sun_path, text, length);
        *size = 2 + length;
        break;
    }
    case 2: case 3: {
        struct sockaddr_in *v4 = (void *)out;
        static const uint32_t HOSTS[] = {0, 0x7f000001, 0xffffffff, 0xa9fea9fe, 0x08080808, 0x7f123456, 0xe0000001};
        v4->sin_family = AF_INET;
        v4->sin_port = htons(below(r, 3) ? 40000 + below(r, 20) : next(r));
        v4->sin_addr.s_addr = htonl(HOSTS[below(r, COUNT(HOSTS))]);
        *size = sizeof *v4;
        break;
    }
    case 4: {
        struct sockaddr_in6 *v6 = (void *)out;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(40000 + below(r, 20));
        inet_pton(AF_INET6, one_in(r, 2) ? "::ffff:127.0.0.1" : one_in(r, 2) ? "::1" : "::", &v6->sin6_addr);
        *size = sizeof *v6;
        break;
    }
    default:
        for (int i = 0; i < 128; i += 8) {
            uint64_t word = odd_number(r);
            memcpy(out + i, &word, 8);
        }
        if (one_in(r, 2)) {
            uint16_t family = below(r, 46);
            memcpy(out, &family, 2);
        }
        *size = below(r, 129);
    }
    if (one_in(r, 8))
        *size = odd_number(r);
}

/* Words that may be counts, flags, descriptors or pointers: an iovec, a msghdr, clone_args, open_how, a rlimit … */
static uint64_t soup(Random *r) {
    if (one_in(r, 12))
        return bad_address(r);
    if (one_in(r, 12))
        return FLIP + 8 * below(r, 16);
    size_t size = 8 * (1 + below(r, 32));
    char *place = room(r, size);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word;
        switch (below(r, 8)) {
        case 0: word = (uint64_t)heap_of(r) + 8 * below(r, 1024); break;
        case 1: word = descriptor(r); break;
        case 2: word = bad_address(r); break;
        case 3: word = below(r, 300); break;
        case 4: word = 1UL << below(r, 32); break;
        case 5: word = 0; break;
        default: word = odd_number(r);
        }
        memcpy(place + i, &word, 8);
    }
    return (uint64_t)place;
}

/* A msghdr that makes sense until somebody looks closer: name, parts and control message all there. */
static uint64_t message(Random *r) {
    if (one_in(r, 8))
        return soup(r);
    char *base = heap_of(r) + PAGE * below(r, HEAP_PAGES - 1);
    struct msghdr *header = (void *)base;
    struct iovec *parts = (void *)(base + 256);
    size_t name_size;
    memset(header, 0, 128);
    socket_address(r, base + 512, &name_size);
    header->msg_name = one_in(r, 3) ? NULL : base + 512;
    header->msg_namelen = name_size;
    for (int i = 0; i < 4; i++)
        parts[i] = (struct iovec){one_in(r, 8) ? (void *)bad_address(r) : base + 1024, one_in(r, 8) ? odd_number(r) : below(r, 64)};
    header->msg_iov = one_in(r, 16) ? (void *)bad_address(r) : parts;
    header->msg_iovlen = one_in(r, 10) ? odd_number(r) : below(r, 5);
    struct cmsghdr *control = (void *)(base + 2048);
    int *payload = (void *)CMSG_DATA(control);
    unsigned count = one_in(r, 10) ? below(r, 260) : below(r, 4);
    for (unsigned i = 0; i < count; i++)
        payload[i] = descriptor(r);
    control->cmsg_level = one_in(r, 6) ? (int)odd_number(r) : SOL_SOCKET;
    control->cmsg_type = one_in(r, 6) ? (int)odd_number(r) : one_in(r, 4) ? SCM_CREDENTIALS : SCM_RIGHTS;
    control->cmsg_len = one_in(r, 8) ? odd_number(r) : CMSG_LEN(count * 4);
    if (one_in(r, 2)) {
        header->msg_control = control;
        header->msg_controllen = one_in(r, 8) ? odd_number(r) : CMSG_SPACE(count * 4);
    }
    return (uint64_t)base;
}

/* Another process: never the supervisor of the fuzzing, nor everybody, for that would end the program itself. */
static uint64_t process(Random *r) {
    pid_t pid;
    switch (below(r, 6)) {
    case 0: pid = getpid(); break;
    case 1: pid = 1; break;
    case 2: pid = below(r, 64); break;
    case 3: pid = -(int)below(r, 1000) - 2; break;
    case 4: pid = odd_number(r); break;
    default: pid = gettid();
    }
    return pid == supervisor || pid == -supervisor || pid == 0 || pid == -1 ? 99999 : (uint64_t)pid;
}

#endif
