/* build: sock_control
 *
 * IP options and control messages of datagrams on loopback, IPv4 (argument 4) or IPv6 (6): where a packet came in, its
 * hop limit and traffic class, also where there is little room for them; and binding to an interface.
 */
#include "step.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int six, receiver, sender;
static union { struct sockaddr any; struct sockaddr_in four; struct sockaddr_in6 six; } at;
static socklen_t at_size;

static void on(int level, int option, const char *name) {
    int one = 1, set = setsockopt(receiver, level, option, &one, sizeof one), got = -1;
    socklen_t size = sizeof got;
    say("%s = %d, %d, now %d", name, set, getsockopt(receiver, level, option, &got, &size), got);
}

static void receive(const char *label, size_t room) {
    char data[100], control[512] __attribute__((aligned(8))), text[64];
    memset(control, 0x55, sizeof control);
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
    int n = recvmsg(receiver, &message, 0);
    say("%s: %d bytes, flags %x, control %zu, behind it %x", label, n, message.msg_flags, message.msg_controllen,
        (unsigned char)control[room]);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        unsigned size = one->cmsg_len - CMSG_LEN(0);
        unsigned char *value = CMSG_DATA(one);
        if (one->cmsg_level == SOL_IP && one->cmsg_type == IP_PKTINFO && size == sizeof(struct in_pktinfo)) {
            struct in_pktinfo *info = (void *)value;
            char own[64];
            say("  pktinfo %d %s %s", info->ipi_ifindex, inet_ntop(AF_INET, &info->ipi_addr, text, 64),
                inet_ntop(AF_INET, &info->ipi_spec_dst, own, 64));
        } else if (one->cmsg_level == SOL_IPV6 && one->cmsg_type == IPV6_PKTINFO && size == sizeof(struct in6_pktinfo)) {
            struct in6_pktinfo *info = (void *)value;
            say("  pktinfo %u %s", info->ipi6_ifindex, inet_ntop(AF_INET6, &info->ipi6_addr, text, 64));
        } else if (size >= 16) { /* an address: is it where we are? */
            say("  level %d type %d size %u, same port and address %d", one->cmsg_level, one->cmsg_type, size,
                memcmp(value + 2, (char *)&at + 2, six ? 22 : 6) == 0);
        } else {
            say("  level %d type %d size %u value %d", one->cmsg_level, one->cmsg_type, size, size ? value[0] : -1);
        }
    }
}

static void send_with(const char *label, int level, int type, const void *value, size_t size) {
    char control[128] __attribute__((aligned(8))) = {0};
    struct iovec part = {"hello", 5};
    struct msghdr message = {.msg_name = &at, .msg_namelen = at_size, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
    struct cmsghdr *one = CMSG_FIRSTHDR(&message);
    one->cmsg_level = level, one->cmsg_type = type, one->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(one), value, size);
    long sent = sendmsg(sender, &message, 0);
    say("%s = %ld %s", label, sent, sent < 0 ? errname(errno) : "");
    if (sent > 0)
        receive(label, 400);
}

int main(int count, char **words) {
    six = count > 1 && words[1][0] == '6';
    receiver = MUST(socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
    sender = MUST(socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
    at.any.sa_family = six ? AF_INET6 : AF_INET;
    if (six)
        at.six.sin6_addr = in6addr_loopback;
    else
        at.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at_size = six ? sizeof at.six : sizeof at.four;
    MUST(bind(receiver, &at.any, at_size));
    MUST(getsockname(receiver, &at.any, &at_size));
    if (six) {
        on(SOL_IPV6, IPV6_RECVPKTINFO, "RECVPKTINFO"), on(SOL_IPV6, IPV6_RECVHOPLIMIT, "RECVHOPLIMIT");
        on(SOL_IPV6, IPV6_RECVTCLASS, "RECVTCLASS"), on(SOL_IPV6, 74 /* IPV6_RECVORIGDSTADDR */, "RECVORIGDSTADDR");
    } else {
        on(SOL_IP, IP_PKTINFO, "PKTINFO"), on(SOL_IP, IP_RECVTTL, "RECVTTL"), on(SOL_IP, IP_RECVTOS, "RECVTOS");
        on(SOL_IP, 20 /* IP_RECVORIGDSTADDR */, "RECVORIGDSTADDR");
    }
    for (int room = 0; room < 140; room += room < 8 ? 8 : 4) {
        MUST(sendto(sender, "hello", 5, 0, &at.any, at_size));
        receive("room", room);
    }
    int hops = 33, class = 0x2c, none = -1, many = 999;
    int level = six ? SOL_IPV6 : SOL_IP, ttl = six ? IPV6_HOPLIMIT : IP_TTL, tos = six ? IPV6_TCLASS : IP_TOS;
    send_with("hops", level, ttl, &hops, sizeof hops);
    send_with("class", level, tos, &class, sizeof class);
    send_with("too many hops", level, ttl, &many, sizeof many);
    send_with("too short", level, ttl, &hops, 2);
    if (six)
        send_with("default hops", level, ttl, &none, sizeof none);
    struct in_pktinfo four = {.ipi_ifindex = 1, .ipi_spec_dst.s_addr = htonl(INADDR_LOOPBACK)};
    struct in6_pktinfo other = {.ipi6_ifindex = 1, .ipi6_addr = IN6ADDR_LOOPBACK_INIT};
    send_with("from lo", level, six ? IPV6_PKTINFO : IP_PKTINFO, six ? (void *)&other : &four,
              six ? sizeof other : sizeof four);
    four.ipi_ifindex = other.ipi6_ifindex = 9999;
    send_with("from no interface", level, six ? IPV6_PKTINFO : IP_PKTINFO, six ? (void *)&other : &four,
              six ? sizeof other : sizeof four);
    if (six)
        STEP(setsockopt(sender, SOL_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops)),
            STEP(setsockopt(sender, SOL_IPV6, IPV6_TCLASS, &class, sizeof class));
    else
        STEP(setsockopt(sender, SOL_IP, IP_TTL, &hops, sizeof hops)),
            STEP(setsockopt(sender, SOL_IP, IP_TOS, &class, sizeof class));
    MUST(sendto(sender, "hello", 5, 0, &at.any, at_size));
    receive("set for all", 400);
    STEP(setsockopt(sender, SOL_SOCKET, SO_BINDTODEVICE, "nosuch0", 8));
    STEP(setsockopt(sender, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
    char name[IFNAMSIZ] = "";
    socklen_t size = sizeof name;
    STEP(getsockopt(sender, SOL_SOCKET, SO_BINDTODEVICE, name, &size));
    say("bound to %s, %u", name, size);
    MUST(sendto(sender, "hello", 5, 0, &at.any, at_size));
    receive("from lo", 0);
    return 0;
}
