/* build: sock_stream
 *
 * Unix stream and seqpacket sockets: names of every kind, what each end is told, errors and their order, ends.
 */
#include "step.h"
#include "sock_unix.h"
#include <poll.h>

static int listener(int type, const struct sockaddr_un *address, socklen_t size) {
    int fd = MUST(socket(AF_UNIX, type, 0));
    if (bind(fd, (const struct sockaddr *)address, size) != 0) {
        say("bind %s", errname(errno));
        return -1;
    }
    MUST(listen(fd, 5));
    return fd;
}

static void talk(const char *label, int type, const struct sockaddr_un *address, socklen_t size, int bound) {
    char text[32] = {0};
    int server = listener(type, address, size);
    int client = MUST(socket(AF_UNIX, type, 0));
    if (bound) {
        struct sockaddr_un own;
        name_of(&own, "client");
        MUST(bind(client, ADDRESS(own), sizeof own));
    }
    say("-- %s", label);
    STEP(connect(client, (const struct sockaddr *)address, size));
    struct sockaddr_un from = {0};
    socklen_t from_size = sizeof from;
    int peer = MUST(accept(server, ADDRESS(from), &from_size));
    say_address("accepted from", &from, from_size);
    say_names("server", server);
    say_names("client", client);
    say_names("peer", peer);
    STEP(send(client, "first", 5, 0));
    struct iovec parts[2] = {{"sec", 3}, {"ond", 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    STEP(sendmsg(client, &message, 0));
    STEP(recv(peer, text, type == SOCK_STREAM ? 5 : 32, 0));
    struct iovec room = {text, 32};
    struct sockaddr_un name;
    struct msghdr got = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &room, .msg_iovlen = 1};
    STEP(recvmsg(peer, &got, 0));
    say("got %.6s, name %u, flags %x", text, got.msg_namelen, got.msg_flags);
    STEP(connect(client, (const struct sockaddr *)address, size));
    STEP(sendto(client, "x", 1, 0, (const struct sockaddr *)address, size));
    if (type == SOCK_SEQPACKET)
        STEP(recv(peer, text, 32, 0));
    STEP(shutdown(client, SHUT_WR));
    STEP(recv(peer, text, 32, 0));
    STEP(send(client, "x", 1, MSG_NOSIGNAL));
    STEP(sendmsg(client, &message, MSG_NOSIGNAL));
    close(client);
    struct pollfd end = {.fd = peer, .events = POLLIN | POLLOUT};
    STEP(poll(&end, 1, 1000));
    say("events %x", end.revents);
    STEP(sendmsg(peer, &message, MSG_NOSIGNAL));
    close(peer);
    close(server);
}

static void cut(void) {
    /* Addresses that do not fit, and sizes that make no sense. */
    struct sockaddr_un address, told;
    name_of(&address, "a-name-of-some-length");
    int server = listener(SOCK_STREAM, &address, sizeof address);
    for (int room = -1; room <= 8; room++) {
        memset(&told, 'x', sizeof told);
        socklen_t size = room;
        int result = getsockname(server, ADDRESS(told), &size);
        say("room %d: %d %s, size %u, then %.8s", room, result, result ? errname(errno) : "", size,
            room >= 2 ? told.sun_path : "-");
    }
    socklen_t size = sizeof told;
    STEP(getsockname(server, NULL, &size));
    STEP(getsockname(server, ADDRESS(told), NULL));
    STEP(getsockname(-1, NULL, NULL));
    STEP(getpeername(0, NULL, NULL));
    close(server);
}

static void wrong(void) {
    struct sockaddr_un address;
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    name_of(&address, "a-name-of-some-length");
    STEP(bind(fd, ADDRESS(address), sizeof address));
    STEP(connect(fd, ADDRESS(address), sizeof address));
    name_of(&address, "missing");
    STEP(connect(fd, ADDRESS(address), sizeof address));
    STEP(connect(fd, ADDRESS(address), 2));
    STEP(connect(fd, ADDRESS(address), 1));
    STEP(connect(fd, ADDRESS(address), 111));
    STEP(connect(fd, NULL, 10));
    address.sun_family = AF_INET;
    STEP(connect(fd, ADDRESS(address), sizeof address));
    STEP(bind(fd, ADDRESS(address), sizeof address));
    name_of(&address, "missing/below");
    STEP(bind(fd, ADDRESS(address), sizeof address));
    name_of(&address, ".");
    STEP(bind(fd, ADDRESS(address), sizeof address));
    STEP(connect(fd, ADDRESS(address), sizeof address));
    name_of(&address, "twice");
    STEP(bind(fd, ADDRESS(address), sizeof address));
    name_of(&address, "again");
    STEP(bind(fd, ADDRESS(address), sizeof address));
    STEP(connect(fd, ADDRESS(address), sizeof address));
    name_of(&address, "twice");
    STEP(connect(fd, ADDRESS(address), sizeof address));
    STEP(accept(fd, NULL, NULL));
    int other = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(listen(fd, 1));
    STEP(connect(other, ADDRESS(address), sizeof address));
    STEP(listen(other, 1));
    int packet = MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    STEP(connect(packet, ADDRESS(address), sizeof address));
    socklen_t size = abstract_of(&address, "nobody");
    STEP(connect(packet, ADDRESS(address), size));
    struct sockaddr_un told;
    size = sizeof told;
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    STEP(accept(fd, ADDRESS(told), &size));
    STEP(accept4(fd, ADDRESS(told), &size, 12345));
    STEP(accept(0, ADDRESS(told), &size));
    close(fd), close(other), close(packet);
}

static void broken(int signal) { say("signal %d", signal); }

static void pipe_signal(void) {
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    signal(SIGPIPE, broken);
    close(pair[1]);
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    STEP(sendmsg(pair[0], &message, 0));
    STEP(send(pair[0], "x", 1, 0));
    close(pair[0]);
}

static void much(void) {
    /* More than the buffers hold: the sender waits in sendmsg until the peer reads. */
    int pair[2];
    size_t size = 3 << 20;
    char *data = malloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = i % 251;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    if (fork() == 0) {
        close(pair[0]);
        struct iovec parts[2] = {{data, 100}, {data + 100, size - 100}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        _exit(sendmsg(pair[1], &message, 0) == (ssize_t)size ? 0 : 1);
    }
    close(pair[1]);
    usleep(20000);
    char *copy = malloc(size + 1);
    size_t done = 0;
    for (ssize_t n; (n = read(pair[0], copy + done, size + 1 - done)) > 0;)
        done += n;
    int status;
    wait(&status);
    say("sent and received %zu, same %d, sender %s", done, memcmp(data, copy, size) == 0, status_text(status));
    close(pair[0]);
}

/* A name's mode is its socket's, less the umask. */
static void modes(void) {
    struct sockaddr_un address;
    struct stat st;
    name_of(&address, "mode");
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    STEP(fchmod(fd, 0765));
    MUST(fstat(fd, &st));
    say("the socket's own mode %o", st.st_mode);
    mode_t before = umask(0123);
    STEP(bind(fd, ADDRESS(address), sizeof address));
    umask(before);
    MUST(stat("mode", &st));
    say("the name's mode %o", st.st_mode);
    STEP(fchmod(fd, 0700));
    MUST(stat("mode", &st));
    say("later changes stay with the socket %o", st.st_mode);
    MUST(unlink("mode"));
    close(fd);
}

int main(void) {
    struct sockaddr_un address;
    for (int i = 0; i < 2; i++) {
        int type = i ? SOCK_SEQPACKET : SOCK_STREAM;
        name_of(&address, i ? "packets" : "stream");
        talk("by path", type, &address, sizeof address, 0);
        socklen_t size = offsetof(struct sockaddr_un, sun_path) + strlen(address.sun_path);
        unlink(address.sun_path);
        talk("by path, without its NUL, from a bound one", type, &address, size, 1);
        unlink("client");
        size = abstract_of(&address, "abstract");
        talk("abstract", type, &address, size, 0);
    }
    int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    STEP(bind(fd, ADDRESS(address), 2));
    say_names("autobound", fd);
    close(fd);
    cut();
    wrong();
    pipe_signal();
    much();
    modes();
    return 0;
}
