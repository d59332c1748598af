/* build: sock_inet
 *
 * TCP and UDP on loopback, IPv4 (argument 4) or IPv6 (6): names, errors, ends, waiting. Ports are the kernel's choice.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

static int family;
typedef union {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_storage room;
} address_t;

static socklen_t size_of_address(void) { return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6); }

static void set(address_t *address, const char *ip, int port) {
    memset(address, 0, sizeof *address);
    address->any.sa_family = family;
    if (family == AF_INET)
        address->four.sin_port = htons(port), inet_pton(AF_INET, ip, &address->four.sin_addr);
    else
        address->six.sin6_port = htons(port), inet_pton(AF_INET6, ip, &address->six.sin6_addr);
}

static int port_of(const address_t *address) { return ntohs(family == AF_INET ? address->four.sin_port : address->six.sin6_port); }

/* The address, and how its port is called: 0, known (one of those we were told before), or new. */
static int known[32], known_count;

/* Forget addresses that are no longer bound: the kernel may choose one of those ports again. */
static void begin(const char *label, const char *ip) {
    known_count = 0;
    say("-- %s %s", label, ip);
}

static void say_name(const char *label, const address_t *address, socklen_t size) {
    char text[64] = "?";
    inet_ntop(family, family == AF_INET ? (void *)&address->four.sin_addr : (void *)&address->six.sin6_addr, text, 64);
    int port = port_of(address), at = 0;
    while (at < known_count && known[at] != port)
        at++;
    if (port && at == known_count && known_count < 32)
        known[known_count++] = port;
    say("%s: %s port %c, size %u", label, text, port ? 'A' + at : '0', size);
}

static void say_names(const char *label, int fd) {
    address_t address;
    char text[64];
    for (int peer = 0; peer < 2; peer++) {
        socklen_t size = sizeof address;
        snprintf(text, sizeof text, "%s %s", label, peer ? "peer" : "own");
        if ((peer ? getpeername : getsockname)(fd, &address.any, &size) == 0)
            say_name(text, &address, size);
        else
            say("%s %s", text, errname(errno));
    }
}

static int bound(int type, const char *ip, address_t *told) {
    socklen_t size = sizeof *told;
    int fd = MUST(socket(family, type, 0));
    set(told, ip, 0);
    MUST(bind(fd, &told->any, size_of_address()));
    MUST(getsockname(fd, &told->any, &size));
    return fd;
}

static void tcp(const char *ip, const char *dial) {
    begin("tcp", ip);
    address_t address, from;
    char text[64];
    int server = bound(SOCK_STREAM, ip, &address), yes = 1;
    STEP(listen(server, 8));
    say_names("server", server);
    set(&address, dial, port_of(&address));
    int client = MUST(socket(family, SOCK_STREAM, 0));
    say_names("fresh", client);
    STEP(connect(client, &address.any, size_of_address()));
    socklen_t size = sizeof from;
    int peer = MUST(accept(server, &from.any, &size));
    say_name("from", &from, size);
    say_names("client", client);
    say_names("peer", peer);
    STEP(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    STEP(connect(client, &address.any, size_of_address()));
    STEP(send(client, "hello", 5, 0));
    struct iovec part = {" world", 6};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_name = &address, .msg_namelen = size_of_address()};
    STEP(sendmsg(client, &message, 0));
    STEP(recv(peer, text, 11, MSG_WAITALL));
    size = sizeof from;
    STEP(sendto(peer, "back", 4, 0, &address.any, size_of_address()));
    STEP(recvfrom(client, text, 64, 0, &from.any, &size));
    say("name of a stream's message: %u", size);
    STEP(shutdown(client, SHUT_WR));
    STEP(recv(peer, text, 64, 0));
    STEP(send(client, "x", 1, MSG_NOSIGNAL));
    close(peer);
    STEP(recv(client, text, 64, 0));
    close(client);

    /* A non-blocking connect does not wait. */
    client = MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    STEP(connect(client, &address.any, size_of_address()));
    struct pollfd ready = {.fd = client, .events = POLLOUT};
    STEP(poll(&ready, 1, 60000));
    int error = -1;
    size = sizeof error;
    MUST(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size));
    say("events %x, error %d", ready.revents, error);
    close(client);

    /* A stream can be disconnected and connected again. */
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    client = MUST(socket(family, SOCK_STREAM, 0));
    STEP(connect(client, &address.any, size_of_address()));
    STEP(connect(client, &none, sizeof none));
    STEP(send(client, "x", 1, MSG_NOSIGNAL));
    STEP(connect(client, &address.any, size_of_address()));
    STEP(send(client, "x", 1, MSG_NOSIGNAL));
    close(client);
    close(server);
    client = MUST(socket(family, SOCK_STREAM, 0));
    STEP(connect(client, &address.any, size_of_address()));
    close(client);
}

static void udp(const char *ip, const char *dial) {
    begin("udp", ip);
    address_t address, from;
    char text[64] = {0};
    int server = bound(SOCK_DGRAM, ip, &address), client = MUST(socket(family, SOCK_DGRAM, 0));
    say_names("server", server);
    set(&address, dial, port_of(&address));
    STEP(send(client, "x", 1, 0));
    STEP(sendto(client, "question", 8, 0, &address.any, size_of_address()));
    socklen_t size = sizeof from;
    STEP(recvfrom(server, text, 64, 0, &from.any, &size));
    say_name("from", &from, size);
    struct iovec part = {"answer", 6};
    struct msghdr message = {.msg_name = &from, .msg_namelen = size, .msg_iov = &part, .msg_iovlen = 1};
    STEP(sendmsg(server, &message, 0));
    part = (struct iovec){text, 3};
    message = (struct msghdr){.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
    STEP(recvmsg(client, &message, 0));
    say("%.3s, flags %x", text, message.msg_flags);
    say_name("answered by", &from, message.msg_namelen);
    STEP(connect(client, &address.any, size_of_address()));
    say_names("connected", client);
    STEP(send(client, "again", 5, 0));
    STEP(recvfrom(server, text, 64, MSG_PEEK, NULL, NULL));
    STEP(recv(server, text, 64, 0));
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    STEP(connect(client, &nothing, sizeof nothing));
    STEP(send(client, "x", 1, 0));
    close(server);
    /* The port has no listener any more: only the second send gets the refusal. */
    STEP(connect(client, &address.any, size_of_address()));
    STEP(send(client, "x", 1, 0));
    struct pollfd told = {.fd = client};
    STEP(poll(&told, 1, 60000));
    say("events %x", told.revents);
    STEP(send(client, "x", 1, 0));
    close(client);
}

static void wrong(const char *loopback) {
    say("-- wrong");
    address_t address;
    set(&address, loopback, 0);
    int fd = MUST(socket(family, SOCK_STREAM, 0)), other = MUST(socket(family, SOCK_DGRAM, 0));
    STEP(bind(fd, &address.any, 3));
    STEP(bind(fd, &address.any, 0));
    STEP(connect(fd, &address.any, 4));
    STEP(bind(fd, NULL, 28));
    address.any.sa_family = AF_UNIX;
    STEP(connect(fd, &address.any, size_of_address()));
    STEP(bind(fd, &address.any, size_of_address()));
    set(&address, loopback, 80);
    STEP(bind(fd, &address.any, size_of_address()));
    set(&address, family == AF_INET ? "192.0.2.1" : "2001:db8::1", 0);
    STEP(bind(fd, &address.any, size_of_address()));
    set(&address, loopback, 0);
    STEP(bind(fd, &address.any, size_of_address()));
    STEP(bind(fd, &address.any, size_of_address()));
    socklen_t size = sizeof address;
    MUST(getsockname(fd, &address.any, &size));
    int second = MUST(socket(family, SOCK_STREAM, 0));
    STEP(bind(second, &address.any, size_of_address()));
    STEP(sendto(other, "x", 1, 0, &address.any, 4));
    STEP(accept(fd, NULL, NULL));
    STEP(accept(other, NULL, NULL));
    STEP(listen(other, 1));
    STEP(socket(family, SOCK_SEQPACKET, 0));
    STEP(socket(family, SOCK_STREAM | 0x40, 0)); /* no flag; Linux looks at flags before anything else */
    STEP(socket(999, SOCK_STREAM | 0x40, 0));
    STEP(socketpair(family, SOCK_STREAM | 0x40, 0, NULL));
    STEP(socketpair(family, SOCK_STREAM, 0, (int[2]){0}));
    int on = 1;
    STEP(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    STEP(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
    STEP(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof on));
    close(fd), close(second), close(other);
}

static void handled(int signal) { (void)signal; }

/* The alarm comes again and again: the first may come before the call has begun, and nothing else would end it. */
static int until_alarm(int server, address_t *from, socklen_t *size) {
    struct sigaction action = {.sa_handler = handled};
    sigaction(SIGALRM, &action, NULL);
    ualarm(30000, 30000);
    int fd = accept(server, &from->any, size), number = errno;
    ualarm(0, 0);
    errno = number;
    return fd;
}

static void waits(const char *loopback) {
    say("-- waits");
    address_t address, from;
    socklen_t size = sizeof from;
    int server = bound(SOCK_STREAM, loopback, &address);
    MUST(listen(server, 1));
    STEP(until_alarm(server, &from, &size));
    if (fork() == 0) {
        usleep(30000);
        int client = socket(family, SOCK_STREAM, 0);
        _exit(connect(client, &address.any, size_of_address()) != 0);
    }
    size = sizeof from;
    OK(accept(server, &from.any, &size));
    int status;
    wait(&status);
    say("client %s", status_text(status));
    struct timeval soon = {0, 20000};
    MUST(setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    STEP(accept(server, &from.any, &size));
    close(server);
}

static void both_families(void) {
    say("-- one socket for both");
    struct sockaddr_in6 any = {.sin6_family = AF_INET6}, told;
    socklen_t size = sizeof told;
    int server = MUST(socket(AF_INET6, SOCK_STREAM, 0)), only;
    size = sizeof only;
    MUST(getsockopt(server, IPPROTO_IPV6, IPV6_V6ONLY, &only, &size));
    say("only IPv6: %d", only);
    MUST(bind(server, (struct sockaddr *)&any, sizeof any));
    MUST(listen(server, 4));
    size = sizeof told;
    MUST(getsockname(server, (struct sockaddr *)&told, &size));
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = told.sin6_port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    STEP(connect(client, (struct sockaddr *)&four, sizeof four));
    size = sizeof told;
    OK(accept(server, (struct sockaddr *)&told, &size));
    char text[64];
    say("from %s", inet_ntop(AF_INET6, &told.sin6_addr, text, sizeof text));
    close(client), close(server);

    server = MUST(socket(AF_INET6, SOCK_STREAM, 0)), only = 1;
    STEP(setsockopt(server, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only));
    MUST(bind(server, (struct sockaddr *)&any, sizeof any));
    MUST(listen(server, 4));
    STEP(setsockopt(server, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only));
    size = sizeof told;
    MUST(getsockname(server, (struct sockaddr *)&told, &size));
    four.sin_port = told.sin6_port;
    client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    STEP(connect(client, (struct sockaddr *)&four, sizeof four));
    close(client), close(server);
}

int main(int argc, char **argv) {
    family = argc > 1 && *argv[1] == '6' ? AF_INET6 : AF_INET;
    const char *loopback = family == AF_INET ? "127.0.0.1" : "::1", *any = family == AF_INET ? "0.0.0.0" : "::";
    tcp(loopback, loopback);
    tcp(any, loopback);
    tcp(any, any);
    udp(loopback, loopback);
    udp(any, loopback);
    wrong(loopback);
    waits(loopback);
    if (family == AF_INET6)
        both_families();
    return 0;
}
