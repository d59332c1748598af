/* build: sock_ports
 *
 * Who may have a port of the loopback: by address, family and options; clients, ends of connections, disconnecting.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <linux/errqueue.h> /* after time.h */

typedef union {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} address_t;

static const int on = 1;

/* "only ::" is "::" of a socket for IPv6 alone. */
static const char *const PLACES[] = {"0.0.0.0", "127.0.0.1", "127.0.0.2", "::", "only ::", "::1", "::ffff:127.0.0.1"};
enum { PLACE_COUNT = sizeof PLACES / sizeof *PLACES };

static socklen_t set(address_t *address, const char *ip, int port) {
    memset(address, 0, sizeof *address);
    if (strchr(ip, ':')) {
        address->six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        inet_pton(AF_INET6, strcmp(ip, "only ::") ? ip : "::", &address->six.sin6_addr);
        return sizeof address->six;
    }
    address->four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &address->four.sin_addr);
    return sizeof address->four;
}

static int make(const char *ip, int type) {
    int fd = MUST(socket(strchr(ip, ':') ? AF_INET6 : AF_INET, type, 0));
    if (!strcmp(ip, "only ::"))
        MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    return fd;
}

static int try_bind(int fd, const char *ip, int port) {
    address_t address;
    socklen_t size = set(&address, ip, port);
    return bind(fd, &address.any, size);
}

static int try_connect(int fd, const char *ip, int port) {
    address_t address;
    socklen_t size = set(&address, ip, port);
    return connect(fd, &address.any, size);
}

static int port_of(int fd) {
    address_t address;
    socklen_t size = sizeof address;
    MUST(getsockname(fd, &address.any, &size));
    return ntohs(address.any.sa_family == AF_INET ? address.four.sin_port : address.six.sin6_port);
}

/* A port that is free everywhere. */
static int free_port(int type) {
    int fd = make("::", type);
    MUST(try_bind(fd, "::", 0));
    int port = port_of(fd);
    close(fd);
    return port;
}

static void name(const char *label, int fd, int port) {
    address_t address;
    char text[64], line[300] = "";
    for (int peer = 0; peer < 2; peer++) {
        socklen_t size = sizeof address;
        if ((peer ? getpeername : getsockname)(fd, &address.any, &size) == -1) {
            snprintf(line + strlen(line), 64, ", peer %s", errname(errno));
            continue;
        }
        int six = address.any.sa_family == AF_INET6, at = ntohs(six ? address.six.sin6_port : address.four.sin_port);
        inet_ntop(address.any.sa_family, six ? (void *)&address.six.sin6_addr : (void *)&address.four.sin_addr, text, 64);
        snprintf(line + strlen(line), 100, "%s %s %s", peer ? ", peer" : "own", text, !at ? "0" : at == port ? "P" : "other");
    }
    say("%s: %s", label, line);
}

/* Two sockets want one port: every pair of addresses. The options are the same for both. */
static void pairs(int type, int option, int listens) {
    say("-- pairs: %s%s%s", type == SOCK_STREAM ? "tcp" : "udp",
        option == SO_REUSEADDR ? ", reuse address" : option ? ", reuse port" : "", listens ? ", the first listens" : "");
    for (int i = 0; i < PLACE_COUNT; i++) {
        char line[400] = "";
        int port = free_port(type), first = make(PLACES[i], type);
        if (option)
            MUST(setsockopt(first, SOL_SOCKET, option, &on, sizeof on));
        MUST(try_bind(first, PLACES[i], port));
        if (listens)
            MUST(listen(first, 1));
        for (int j = 0; j < PLACE_COUNT; j++) {
            int second = make(PLACES[j], type);
            if (option)
                MUST(setsockopt(second, SOL_SOCKET, option, &on, sizeof on));
            errno = 0;
            int result = try_bind(second, PLACES[j], port);
            snprintf(line + strlen(line), 50, " %s", result == 0 ? "ok" : errno == EADDRINUSE ? "--" : errname(errno));
            if (result == 0 && type == SOCK_STREAM && option && !listens)
                snprintf(line + strlen(line), 50, "/%s", listen(second, 1) == 0 ? "listens" : errname(errno));
            close(second);
        }
        say("%-16s:%s", PLACES[i], line);
        close(first);
    }
}

static int server_at(const char *ip, int *port) {
    int server = make(ip, SOCK_STREAM);
    MUST(try_bind(server, ip, 0));
    MUST(listen(server, 4));
    *port = port_of(server);
    return server;
}

/* The port of a client is taken while its connection lives, and while the host remembers it. */
static void clients(const char *ip, const char *same_port_elsewhere) {
    say("-- client at %s", ip);
    int port, server = server_at(ip, &port), client = make(ip, SOCK_STREAM);
    MUST(try_connect(client, ip, port));
    int accepted = MUST(accept(server, NULL, NULL)), own = port_of(client), other = make(ip, SOCK_STREAM);
    name("accepted", accepted, port);
    STEP(try_bind(other, ip, own));
    int elsewhere = make(same_port_elsewhere, SOCK_STREAM);
    STEP(try_bind(elsewhere, same_port_elsewhere, own));
    close(elsewhere);
    MUST(shutdown(client, SHUT_WR));
    char byte;
    MUST(recv(accepted, &byte, 1, 0));
    close(accepted);
    MUST(recv(client, &byte, 1, 0));
    close(client);
    STEP(try_bind(other, ip, own)); /* TIME_WAIT */
    STEP(try_bind(other, ip, port));
    close(server);
    STEP(try_bind(other, ip, port)); /* the server's end is gone */
    close(other);
}

/* What address a server sees, by the address that its client used. */
static void dialled(const char *at, const char *const *ips) {
    int port, server = server_at(at, &port);
    for (; *ips; ips++) {
        char label[100];
        snprintf(label, sizeof label, "server at %s, dialled %s", at, *ips);
        int client = make(*ips, SOCK_STREAM);
        MUST(try_connect(client, *ips, port));
        int accepted = MUST(accept(server, NULL, NULL));
        name(label, accepted, port);
        name("  its client", client, port);
        close(client), close(accepted);
        client = make("::", SOCK_STREAM);
        if (strchr(*ips, ':')) {
            MUST(try_bind(client, "::", 0));
            MUST(try_connect(client, *ips, port));
            accepted = MUST(accept(server, NULL, NULL));
            name("  by a socket at ::", accepted, port);
            close(accepted);
        }
        close(client);
    }
    close(server);
}

static void refused(const char *ip) {
    say("-- refused at %s", ip);
    int port = free_port(SOCK_STREAM), client = make(ip, SOCK_STREAM | SOCK_NONBLOCK), error = -1;
    STEP(try_connect(client, ip, port));
    struct pollfd ready = {.fd = client, .events = POLLOUT};
    STEP(poll(&ready, 1, 60000));
    socklen_t size = sizeof error;
    MUST(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &size));
    say("events %x, %s", ready.revents, errname(error));
    STEP(try_connect(client, ip, port));
    close(client);
    STEP(try_connect(client = make(ip, SOCK_STREAM), ip, 0));
    close(client);

    /* A socket that the kernel gave a port loses it again. */
    client = make(ip, SOCK_STREAM);
    MUST(try_bind(client, ip, 0));
    int own = port_of(client), other = make(ip, SOCK_STREAM);
    STEP(try_connect(client, ip, port));
    STEP(try_bind(other, ip, own));
    close(client), close(other);

    client = make(ip, SOCK_STREAM);
    MUST(try_bind(client, ip, 0));
    own = port_of(client);
    STEP(try_connect(client, ip, own)); /* to itself */
    name("itself", client, own);
    STEP(try_connect(client, "192.0.2.1", 9)); /* already connected: the address does not matter */
    close(client);
}

static void datagrams(const char *ip, const char *any) {
    say("-- datagrams at %s", ip);
    char text[16];
    int server = make(ip, SOCK_DGRAM), client = make(ip, SOCK_DGRAM);
    MUST(try_bind(server, any, 0));
    int port = port_of(server);
    address_t address;
    socklen_t size = set(&address, ip, port);
    name("fresh", client, port);
    STEP(sendto(client, "one", 3, 0, &address.any, size));
    name("after a send", client, port);
    int own = port_of(client);
    STEP(try_bind(client, ip, 0));
    STEP(try_connect(client, ip, port));
    name("connected", client, port);
    int other = make(ip, SOCK_DGRAM);
    STEP(try_bind(other, ip, own));
    close(other);
    struct sockaddr nothing = {.sa_family = AF_UNSPEC};
    STEP(connect(client, &nothing, sizeof nothing));
    name("disconnected", client, port);
    STEP(try_connect(client, ip, port));
    own = port_of(client);
    size = set(&address, ip, own);
    STEP(sendto(server, "two", 3, 0, &address.any, size));
    STEP(recv(client, text, sizeof text, 0)); /* it hears its peer again */
    STEP(try_connect(client, ip, 0));
    name("to port 0", client, port);
    size = set(&address, ip, 0);
    STEP(sendto(client, "x", 1, 0, &address.any, size));
    close(client), close(server);

    /* Connected before its server exists. */
    port = free_port(SOCK_DGRAM), client = make(ip, SOCK_DGRAM), server = make(any, SOCK_DGRAM);
    STEP(try_connect(client, ip, port));
    STEP(try_bind(server, any, port));
    STEP(send(client, "three", 5, 0));
    STEP(recv(server, text, sizeof text, 0));
    name("late server", server, port);
    close(client), close(server);
}

/* What the error queue tells of a port that nobody has. */
static void told_errors(const char *ip) {
    say("-- errors at %s", ip);
    int six = strchr(ip, ':') != NULL, port = free_port(SOCK_DGRAM), client = make(ip, SOCK_DGRAM);
    STEP(setsockopt(client, six ? SOL_IPV6 : SOL_IP, six ? IPV6_RECVERR : IP_RECVERR, &on, sizeof on));
    MUST(try_connect(client, ip, port));
    STEP(send(client, "four", 4, 0));
    struct pollfd ready = {.fd = client};
    STEP(poll(&ready, 1, 60000));
    address_t address, *by;
    char data[16], text[64], control[256];
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    STEP(recvmsg(client, &message, MSG_ERRQUEUE));
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    if (first) {
        struct sock_extended_err *error = (struct sock_extended_err *)CMSG_DATA(first);
        by = (address_t *)SO_EE_OFFENDER(error);
        inet_ntop(by->any.sa_family, six ? (void *)&by->six.sin6_addr : (void *)&by->four.sin_addr, text, sizeof text);
        say("level %d, type %d: %s, origin %d, type %d, code %d, by %s", first->cmsg_level, first->cmsg_type,
            errname(error->ee_errno), error->ee_origin, error->ee_type, error->ee_code, text);
        say("about port %s", ntohs(six ? address.six.sin6_port : address.four.sin_port) == port ? "P" : "other");
    }
    close(client);
}

static void families(void) {
    say("-- families");
    int types[] = {SOCK_STREAM, SOCK_DGRAM};
    for (int i = 0; i < 2; i++) {
        int fd = make("::", types[i]);
        MUST(try_bind(fd, "::1", 0));
        STEP(try_connect(fd, "::ffff:127.0.0.1", 9));
        close(fd), fd = make("::", types[i]);
        MUST(try_bind(fd, "::ffff:127.0.0.1", 0));
        STEP(try_connect(fd, "::1", 9));
        close(fd), fd = make("only ::", types[i]);
        STEP(try_connect(fd, "::ffff:127.0.0.1", 9));
        STEP(try_bind(fd, "::ffff:127.0.0.1", 0));
        STEP(try_bind(fd, "::1", 80));
        STEP(try_bind(fd, "2001:db8::1", 80));
        close(fd), fd = make("0.0.0.0", types[i]);
        STEP(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
        STEP(try_bind(fd, "192.0.2.1", 80));
        close(fd);
    }
}

int main(void) {
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        pairs(type, 0, 0);
        pairs(type, SO_REUSEADDR, 0);
        pairs(type, SO_REUSEPORT, 0);
    }
    pairs(SOCK_STREAM, SO_REUSEADDR, 1);
    clients("127.0.0.1", "::1");
    clients("::1", "127.0.0.1");
    say("-- dialled");
    dialled("0.0.0.0", (const char *const[]){"127.0.0.1", "127.0.0.2", "0.0.0.0", NULL});
    dialled("::", (const char *const[]){"127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1", "::ffff:127.0.0.3", "::", NULL});
    dialled("only ::", (const char *const[]){"::1", NULL});
    refused("127.0.0.1");
    refused("::1");
    datagrams("127.0.0.1", "0.0.0.0");
    datagrams("::1", "::");
    datagrams("::ffff:127.0.0.1", "::");
    told_errors("127.0.0.1");
    told_errors("::1");
    families();
    return 0;
}
