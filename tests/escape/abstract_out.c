/* build: abstract_out
 *
 * Tries to reach servers of the host by every kind of address: an abstract name, a path, a path that leads up and out
 * of the working directory, and TCP and UDP ports on loopback. Arguments: abstract name, absolute path, TCP port, UDP
 * port. Sends a word where it gets through; prints how each attempt ended.
 */
#include "step.h"
#include "sock_unix.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static void attempt(const char *label, int type, const struct sockaddr *address, socklen_t size) {
    int fd = MUST(socket(address->sa_family, type, 0)), passed[2] = {fd, fd};
    struct iovec part = {"escaped", 7};
    union { char bytes[64]; struct cmsghdr align; } room = {0};
    struct msghdr message = {.msg_name = (void *)address, .msg_namelen = size, .msg_iov = &part, .msg_iovlen = 1};
    if (type == SOCK_DGRAM) {
        sendto(fd, "escaped", 7, MSG_DONTWAIT, address, size);
        sendmsg(fd, &message, MSG_DONTWAIT);
        struct mmsghdr several = {.msg_hdr = message};
        sendmmsg(fd, &several, 1, MSG_DONTWAIT);
        if (address->sa_family == AF_UNIX) {
            message.msg_control = &room, message.msg_controllen = CMSG_SPACE(4);
            *CMSG_FIRSTHDR(&message) = (struct cmsghdr){.cmsg_len = CMSG_LEN(4), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), passed, 4);
            sendmsg(fd, &message, MSG_DONTWAIT);
        }
    } else {
        sendto(fd, "escaped", 7, MSG_FASTOPEN | MSG_NOSIGNAL, address, size);
    }
    int result = connect(fd, address, size);
    say("%s: %s", label, result ? errname(errno) : "connected");
    if (result == 0)
        (void)!send(fd, "escaped", 7, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strncpy(name.sun_path + 1, argv[1], sizeof name.sun_path - 2);
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(argv[1]);
    attempt("abstract stream", SOCK_STREAM, (struct sockaddr *)&name, size);
    strcat(name.sun_path + 1, "-dgram");
    attempt("abstract datagram", SOCK_DGRAM, (struct sockaddr *)&name, size + 6);
    for (int up = 0; up < 12; up += 3) {
        char path[200] = "";
        for (int i = 0; i < up; i++)
            strcat(path, "../");
        strcat(path, up ? argv[2] + 1 : argv[2]);
        name_of(&name, path);
        attempt("path", SOCK_STREAM, (struct sockaddr *)&name, sizeof name);
        strcat(path, "-dgram");
        name_of(&name, path);
        attempt("path of datagrams", SOCK_DGRAM, (struct sockaddr *)&name, sizeof name);
    }
    for (int port = 3; port < 5; port++) {
        int type = port == 3 ? SOCK_STREAM : SOCK_DGRAM;
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[port])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four.sin_port};
        attempt("loopback", type, (struct sockaddr *)&four, sizeof four);
        four.sin_addr.s_addr = 0;
        attempt("any", type, (struct sockaddr *)&four, sizeof four);
        four.sin_addr.s_addr = htonl(0x7f010203);
        attempt("another loopback", type, (struct sockaddr *)&four, sizeof four);
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &six.sin6_addr);
        attempt("loopback in IPv6", type, (struct sockaddr *)&six, sizeof six);
    }
    return 0;
}
