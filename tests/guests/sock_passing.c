/* build: sock_passing
 *
 * What is passed along with a message: descriptors (SCM_RIGHTS) and credentials (SCM_CREDENTIALS, SO_PEERCRED).
 */
#include "step.h"
#include "sock_unix.h"

union room {
    char bytes[256];
    struct cmsghdr align;
};

static void put(struct msghdr *message, union room *room, int type, const void *value, size_t size) {
    memset(room, 0, sizeof *room);
    message->msg_control = room;
    message->msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    control->cmsg_level = SOL_SOCKET, control->cmsg_type = type, control->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(control), value, size);
}

static void take(int fd, int flags, size_t room_size) {
    char text[16] = {0};
    union room room;
    struct iovec part = {text, 15};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = room_size};
    struct sockaddr_un name;
    message.msg_name = &name, message.msg_namelen = sizeof name;
    ssize_t n = recvmsg(fd, &message, flags);
    say("recvmsg %zd %s: %s, flags %x", n, n < 0 ? errname(errno) : "", text, message.msg_flags);
    if (n < 0)
        return;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
        size_t size = control->cmsg_len - CMSG_LEN(0);
        if (control->cmsg_type == SCM_CREDENTIALS) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(control), sizeof who);
            say("credentials: pid is mine %d, uid is mine %d, gid is mine %d", who.pid == getpid(), who.uid == getuid(),
                who.gid == getgid());
            continue;
        }
        for (size_t at = 0; at + 4 <= size; at += 4) {
            int got;
            memcpy(&got, CMSG_DATA(control) + at, 4);
            say("descriptor: close-on-exec %d, writes %zd", fcntl(got, F_GETFD), write(got, "!", 1));
            close(got);
        }
    }
}

static void ask(const char *label, int fd) {
    struct ucred who = {0};
    socklen_t size = sizeof who;
    MUST(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size));
    say("%s: pid is mine %d, uid is mine %d", label, who.pid == getpid(), who.uid == getuid());
}

static void send_all(int from, int to) {
    int file = MUST(open("file", O_RDWR | O_CREAT | O_APPEND, 0600)), two[2] = {file, file};
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union room room;
    put(&message, &room, SCM_RIGHTS, two, sizeof two);
    STEP(sendmsg(from, &message, 0));
    take(to, 0, sizeof room);
    STEP(sendmsg(from, &message, 0));
    take(to, MSG_CMSG_CLOEXEC, sizeof room);
    STEP(sendmsg(from, &message, 0));
    take(to, 0, CMSG_SPACE(0));
    int bad = 99;
    put(&message, &room, SCM_RIGHTS, &bad, sizeof bad);
    STEP(sendmsg(from, &message, 0));
    CMSG_FIRSTHDR(&message)->cmsg_len = 3;
    STEP(sendmsg(from, &message, 0));
    struct ucred own = {getpid(), getuid(), getgid()};
    put(&message, &room, SCM_CREDENTIALS, &own, sizeof own);
    STEP(sendmsg(from, &message, 0));
    take(to, 0, sizeof room);
    own.pid = 1;
    put(&message, &room, SCM_CREDENTIALS, &own, sizeof own);
    STEP(sendmsg(from, &message, 0));
    own = (struct ucred){getpid(), 0, getgid()};
    put(&message, &room, SCM_CREDENTIALS, &own, sizeof own);
    STEP(sendmsg(from, &message, 0));
    int one = 1;
    MUST(setsockopt(to, SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    own.uid = getuid();
    put(&message, &room, SCM_CREDENTIALS, &own, sizeof own);
    STEP(sendmsg(from, &message, 0));
    take(to, 0, sizeof room);
    STEP(send(from, "unasked", 7, 0));
    take(to, 0, sizeof room);
    close(file);
    size_t size;
    free(get_file("file", &size));
    say("the file has %zu bytes", size);
}

int main(void) {
    int pair[2], types[3] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    for (int i = 0; i < 3; i++) {
        say("-- type %d", types[i]);
        MUST(socketpair(AF_UNIX, types[i], 0, pair));
        send_all(pair[0], pair[1]);
        ask("pair", pair[0]);
        close(pair[0]), close(pair[1]);
    }
    struct sockaddr_un address;
    name_of(&address, "sock");
    int server = MUST(socket(AF_UNIX, SOCK_STREAM, 0)), client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    ask("fresh", client);
    MUST(bind(server, ADDRESS(address), sizeof address));
    MUST(listen(server, 5));
    MUST(connect(client, ADDRESS(address), sizeof address));
    int peer = MUST(accept(server, NULL, NULL));
    ask("accepted", peer);
    ask("connected", client);
    struct ucred who;
    for (socklen_t size = 0; size < 16; size += 5) {
        socklen_t told = size;
        int result = getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &told);
        say("room %u: %d, told %u", size, result, told);
    }
    STEP(getsockopt(peer, SOL_SOCKET, SO_PEERCRED, NULL, NULL));
    return 0;
}
