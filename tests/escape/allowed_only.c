/* build: allowed_only
 *
 * allowed_only OPEN SHUT: a policy allows connections to one port of the host's loopback, OPEN. Tries to reach another
 * port, SHUT, by every way to write the address and every call that takes one. The host knows which of the two servers
 * received something; natively both do. Prints how many ways it tried.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int tried;

static struct sockaddr_in four(const char *address, int port) {
    struct sockaddr_in made = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, address, &made.sin_addr);
    return made;
}

static int fresh(int family, int type) {
    int fd = socket(family, type, 0); /* a host without IPv6 has none: every call on it then fails */
    struct timeval soon = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    tried++;
    return fd;
}

static void six(const char *address, int port) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET6, address, &to.sin6_addr) != 1)
        _exit(96);
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        int fd = fresh(AF_INET6, type);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            send(fd, "6", 1, MSG_NOSIGNAL);
        close(fd);
    }
}

/* As a program's user would write it: decimal, hexadecimal, octal, short. */
static void written(const char *address, const char *port) {
    struct addrinfo *found, wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    if (getaddrinfo(address, port, &wanted, &found) != 0)
        return;
    int fd = fresh(AF_INET, SOCK_STREAM);
    connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
    freeaddrinfo(found);
}

static void several(int fd, struct sockaddr_in *first, struct sockaddr_in *second) {
    struct iovec part = {"m", 1};
    struct mmsghdr all[3];
    memset(all, 0, sizeof all);
    for (int i = 0; i < 3; i++)
        all[i].msg_hdr = (struct msghdr){.msg_name = i == 1 ? second : first, .msg_namelen = sizeof *first, .msg_iov = &part, .msg_iovlen = 1};
    sendmmsg(fd, all, 3, MSG_NOSIGNAL);
    sendmsg(fd, &all[1].msg_hdr, MSG_NOSIGNAL);
    sendto(fd, "t", 1, MSG_NOSIGNAL, (struct sockaddr *)second, sizeof *second);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 96;
    int open = atoi(argv[1]), shut = atoi(argv[2]);
    struct sockaddr_in good = four("127.0.0.1", open), bad = four("127.0.0.1", shut), unspecified = bad, any = four("0.0.0.0", shut);
    unspecified.sin_family = AF_UNSPEC;
    static const char *const WRITTEN[] = {"127.0.0.1", "0.0.0.0", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.9.8.7", "localhost"};
    for (size_t i = 0; i < sizeof WRITTEN / sizeof *WRITTEN; i++)
        written(WRITTEN[i], argv[2]);
    static const char *const SIX[] = {"::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"};
    for (size_t i = 0; i < sizeof SIX / sizeof *SIX; i++)
        six(SIX[i], shut);
    /* A socket connected to the allowed port, disconnected, and connected elsewhere. */
    int fd = fresh(AF_INET, SOCK_STREAM);
    struct timeval whenever = {60, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &whenever, sizeof whenever);
    say("open: %s", connect(fd, (struct sockaddr *)&good, sizeof good) == 0 ? "connected" : errname(errno));
    connect(fd, (struct sockaddr *)&unspecified, sizeof unspecified);
    connect(fd, (struct sockaddr *)&bad, sizeof bad);
    close(fd);
    /* AF_UNSPEC. */
    fd = fresh(AF_INET, SOCK_DGRAM);
    bind(fd, (struct sockaddr *)&unspecified, sizeof unspecified);
    sendto(fd, "u", 1, MSG_NOSIGNAL, (struct sockaddr *)&unspecified, sizeof unspecified);
    close(fd);
    /* Sending that connects (MSG_FASTOPEN). */
    fd = fresh(AF_INET, SOCK_STREAM);
    sendto(fd, "f", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&bad, sizeof bad);
    several(fd, &good, &bad);
    close(fd);
    /* Datagrams: alone, among others, from a socket that is connected to what is allowed, and of the other family. */
    fd = fresh(AF_INET, SOCK_DGRAM);
    several(fd, &good, &bad);
    several(fd, &good, &any);
    connect(fd, (struct sockaddr *)&good, sizeof good);
    several(fd, &good, &bad);
    connect(fd, (struct sockaddr *)&bad, sizeof bad);
    send(fd, "c", 1, MSG_NOSIGNAL);
    close(fd);
    fd = fresh(AF_INET6, SOCK_DGRAM);
    sendto(fd, "4", 1, MSG_NOSIGNAL, (struct sockaddr *)&bad, sizeof bad);
    close(fd);
    say("ways: %d", tried);
    return 0;
}
