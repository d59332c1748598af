/* build: sock_credentials -lpthread
 *
 * Credentials of messages (SO_PASSCRED): each message tells which process sent it, whatever it carries and however the
 * two got their sockets. And that such a send waits, breaks and fails as any other.
 */
#include "step.h"
#include "sock_unix.h"
#include <pthread.h>
#include <sys/wait.h>

enum { PLAIN, WITH_FILE, CLAIMED, LAST };
static const char *manners[] = {"plain", "with a descriptor", "claimed"};
static pid_t first;
static volatile int signals;

static void count(int signal) {
    (void)signal;
    signals++;
}

static ssize_t send_one(int fd, int manner, struct ucred claim, int flags) {
    union {
        char bytes[64];
        struct cmsghdr align;
    } room = {{0}};
    struct iovec parts[2] = {{"me", 2}, {"ssage", 5}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (manner != PLAIN) {
        size_t size = manner == WITH_FILE ? sizeof fd : sizeof claim;
        message.msg_control = &room, message.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET, control->cmsg_len = CMSG_LEN(size);
        control->cmsg_type = manner == WITH_FILE ? SCM_RIGHTS : SCM_CREDENTIALS;
        memcpy(CMSG_DATA(control), manner == WITH_FILE ? (void *)&fd : (void *)&claim, size);
    }
    return sendmsg(fd, &message, flags);
}

static struct ucred myself(void) {
    return (struct ucred){getpid(), getuid(), getgid()};
}

static void take(const char *label, int fd, pid_t sender) {
    char text[16] = {0};
    union {
        char bytes[128];
        struct cmsghdr align;
    } room;
    struct iovec part = {text, 7};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    ssize_t n = recvmsg(fd, &message, 0);
    say("%s: %zd %s, flags %x", label, n, text, message.msg_flags);
    for (struct cmsghdr *control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
        struct ucred who;
        int got;
        if (control->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&who, CMSG_DATA(control), sizeof who);
            say("  from the %s, uid %s, gid %s, %zu bytes",
                who.pid == sender ? "sender" : who.pid == first ? "first process" : who.pid ? "wrong process" : "void",
                who.uid == getuid() ? "right" : "wrong", who.gid == getgid() ? "right" : "wrong",
                (size_t)control->cmsg_len);
        } else {
            memcpy(&got, CMSG_DATA(control), sizeof got);
            say("  a descriptor: %d", close(got));
        }
    }
}

static void from_children(int from, int to) {
    for (int manner = PLAIN; manner < LAST; manner++) {
        pid_t child = MUST(fork());
        if (!child) {
            ssize_t sent = send_one(from, manner, myself(), 0);
            struct ucred foreign = {first, getuid(), getgid()};
            ssize_t forged = send_one(from, CLAIMED, foreign, 0);
            say("%s: sent %zd, as its parent %zd %s", manners[manner], sent, forged, errname(errno));
            foreign = (struct ucred){1, getuid(), getgid()};
            forged = send_one(from, CLAIMED, foreign, 0);
            say("as process 1: %zd %s", forged, errname(errno));
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0)); /* the sender is gone when its message is received */
        take(manners[manner], to, child);
    }
}

static void *send_from_thread(void *fd) {
    send_one(*(int *)fd, PLAIN, myself(), 0);
    return NULL;
}

/* All threads of a new process at once: none of them may be the one that is told apart. */
static void crowd(int from, int to) {
    pthread_t threads[8];
    pid_t child = MUST(fork());
    if (!child) {
        for (int i = 0; i < 8; i++)
            pthread_create(&threads[i], NULL, send_from_thread, &from);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
    for (int i = 0; i < 8; i++)
        take("crowd", to, child);
}

static void pairs(int type) {
    int pair[2], one = 1;
    say("-- type %d", type);
    MUST(socketpair(AF_UNIX, type, 0, pair));
    MUST(send_one(pair[0], PLAIN, myself(), 0));
    take("nobody asks", pair[1], first);
    MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    from_children(pair[0], pair[1]);
    pthread_t thread;
    pthread_create(&thread, NULL, send_from_thread, &pair[0]);
    pthread_join(thread, NULL);
    take("thread", pair[1], first);
    crowd(pair[0], pair[1]);
    MUST(send(pair[0], "message", 7, 0));
    take("send", pair[1], first);
    MUST(send_one(pair[1], PLAIN, myself(), 0)); /* the sender asks, the receiver does not */
    take("other way", pair[0], first);
    STEP(send_one(99, PLAIN, myself(), 0));
    close(pair[1]);
    STEP(send_one(pair[0], PLAIN, myself(), MSG_NOSIGNAL));
    int before = signals;
    STEP(send_one(pair[0], PLAIN, myself(), 0));
    say("signals: %d", signals - before);
    close(pair[0]);
}

static void waiting(void) {
    static char block[300000], got[4096];
    int pair[2], one = 1, status;
    say("-- waiting");
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    struct iovec parts[3] = {{block, 100000}, {block + 100000, 1}, {block + 100001, 199999}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    pid_t child = MUST(fork());
    if (!child) {
        memset(block + 100000, 'b', 200000);
        ssize_t sent = sendmsg(pair[0], &message, 0);
        say("all of it: %zd", sent);
        _exit(0);
    }
    size_t all = 0, bs = 0;
    while (all < sizeof block) {
        ssize_t n = MUST(read(pair[1], got, sizeof got));
        for (ssize_t i = 0; i < n; i++)
            bs += got[i] == 'b';
        all += n;
    }
    MUST(waitpid(child, &status, 0));
    say("received %zu, %zu of them b, status %d", all, bs, status);
    for (int signal = SIGTERM, i = 0; i < 2; i++, signal = SIGKILL) {
        child = MUST(fork());
        if (!child) {
            sendmsg(pair[0], &message, 0); /* a part of it, then nobody reads */
            _exit(0);
        }
        MUST(read(pair[1], got, 1)); /* so a part has come */
        kill(child, signal);
        MUST(waitpid(child, &status, 0));
        while (recv(pair[1], got, sizeof got, MSG_DONTWAIT) > 0)
            ;
        say("killed by %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    int filled = 0;
    while (send_one(pair[0], PLAIN, myself(), MSG_DONTWAIT) > 0)
        filled++;
    say("full: %s, %d", errname(errno), filled > 10);
    ualarm(100000, 0);
    STEP(send_one(pair[0], PLAIN, myself(), 0));
    struct timeval limit = {0, 100000};
    MUST(setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    STEP(send_one(pair[0], PLAIN, myself(), 0));
}

static void accepted(void) {
    struct sockaddr_un address;
    int one = 1;
    say("-- accepted");
    socklen_t size = abstract_of(&address, "credentials");
    int server = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(setsockopt(server, SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    MUST(bind(server, ADDRESS(address), size));
    MUST(listen(server, 5));
    struct ucred who;
    socklen_t room = sizeof who;
    MUST(getsockopt(server, SOL_SOCKET, SO_PEERCRED, &who, &room));
    say("the listener tells: pid %d, uid %d", who.pid == getpid(), who.uid == getuid());
    MUST(connect(client, ADDRESS(address), size));
    int peer = MUST(accept(server, NULL, NULL));
    from_children(client, peer);
}

static ssize_t send_named(int fd, int with_file, struct sockaddr_un *to, socklen_t size, int flags) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room = {{0}};
    struct iovec part = {"message", 7};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = to, .msg_namelen = size};
    if (!with_file)
        return sendto(fd, "message", 7, flags, (void *)to, size);
    message.msg_control = &room, message.msg_controllen = sizeof room;
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
    return sendmsg(fd, &message, flags);
}

/* Datagrams to a name, from sockets without one, as a log server gets them. */
static void named(int abstract) {
    struct sockaddr_un address, stale;
    int one = 1, back = MUST(open(".", O_RDONLY | O_DIRECTORY));
    char where[] = "/tmp/named-XXXXXX"; /* the working directory may be another user's */
    MUST(mkdtemp(where) ? chdir(where) : -1);
    say("-- to %s name", abstract ? "an abstract" : "a");
    name_of(&address, "server"), name_of(&stale, "stale");
    socklen_t size = abstract ? abstract_of(&address, "server") : sizeof address;
    int server = MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), gone = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(bind(server, ADDRESS(address), size));
    if (!abstract) {
        MUST(bind(gone, ADDRESS(stale), sizeof stale));
        MUST(close(gone));
    }
    MUST(setsockopt(server, SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    for (int with_file = 0; with_file < 2; with_file++) {
        pid_t child = MUST(fork());
        if (!child) {
            int fd = MUST(socket(AF_UNIX, SOCK_DGRAM, 0)), filled = 0;
            STEP(send_named(fd, with_file, &stale, sizeof stale, 0));
            STEP(send_named(fd, with_file, &address, size, 0));
            say_names("the sender", fd);
            say("no descriptor is left: %d", dup(0) == fd + 1);
            while (send_named(fd, with_file, &address, size, MSG_DONTWAIT) > 0)
                filled++;
            say("full: %s, %d", errname(errno), filled);
            ualarm(50000, 0);
            STEP(send_named(fd, with_file, &address, size, 0));
            _exit(0);
        }
        MUST(waitpid(child, NULL, 0));
        take("named", server, child);
        char rest[16];
        while (recv(server, rest, sizeof rest, MSG_DONTWAIT) > 0)
            ;
    }
    close(server);
    unlink("server"), unlink("stale");
    MUST(fchdir(back));
    MUST(rmdir(where));
}

int main(void) {
    first = getpid();
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    pairs(SOCK_STREAM);
    pairs(SOCK_DGRAM);
    pairs(SOCK_SEQPACKET);
    accepted();
    named(0);
    named(1);
    waiting();
    return 0;
}
