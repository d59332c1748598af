/* build: sock_netlink
 *
 * Routing netlink, as getifaddrs uses it. Only what every Linux has is shown: the loopback.
 */
#include "step.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void dump(int type, int answer) {
    struct { struct nlmsghdr head; struct rtgenmsg body; } question = {
        {NLMSG_LENGTH(sizeof(struct rtgenmsg)), type, NLM_F_REQUEST | NLM_F_DUMP, 7, 0}, {AF_UNSPEC}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK}, from = {.nl_pid = 99};
    int fd = MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    STEP(bind(fd, (struct sockaddr *)&kernel, sizeof kernel));
    struct sockaddr_nl own = {0};
    socklen_t size = sizeof own;
    STEP(getsockname(fd, (struct sockaddr *)&own, &size));
    say("size %u, family %d", size, own.nl_family);
    STEP(sendto(fd, &question, sizeof question, 0, (struct sockaddr *)&kernel, sizeof kernel));
    static char room[65536];
    int found = 0, done = 0;
    while (!done) {
        struct iovec part = {room, sizeof room};
        struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
        int n = MUST(recvmsg(fd, &message, 0));
        for (struct nlmsghdr *one = (void *)room; NLMSG_OK(one, (unsigned)n); one = NLMSG_NEXT(one, n)) {
            done |= one->nlmsg_type == NLMSG_DONE;
            found += one->nlmsg_type == answer;
            if (one->nlmsg_seq != 7 || from.nl_pid != 0)
                say("not an answer of the kernel's to us");
        }
    }
    say("found some: %d", found > 0);
    close(fd);
}

/* One question about a link or a route: what is answered, or which error. */
static void ask(int type, int flags, int index, const char *name, const char *to) {
    struct { struct nlmsghdr head; union { struct ifinfomsg link; struct rtmsg route; } body; char rest[64]; } question = {
        .head = {0, type, NLM_F_REQUEST | flags, 9, 0}};
    size_t body = type == RTM_GETROUTE ? sizeof question.body.route : sizeof question.body.link;
    question.head.nlmsg_len = NLMSG_LENGTH(body);
    if (type == RTM_GETROUTE)
        question.body.route.rtm_family = AF_INET, question.body.route.rtm_dst_len = 32;
    else
        question.body.link.ifi_index = index;
    struct rtattr *more = (void *)((char *)&question + question.head.nlmsg_len);
    if (name || to) {
        more->rta_type = name ? (int)IFLA_IFNAME : (int)RTA_DST;
        more->rta_len = RTA_LENGTH(name ? strlen(name) + 1 : 4);
        if (name)
            strcpy(RTA_DATA(more), name);
        else
            inet_pton(AF_INET, to, RTA_DATA(more));
        question.head.nlmsg_len += RTA_ALIGN(more->rta_len);
    }
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};
    socklen_t size = sizeof own;
    int fd = MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    MUST(bind(fd, (struct sockaddr *)&own, size));
    MUST(getsockname(fd, (struct sockaddr *)&own, &size));
    MUST(send(fd, &question, question.head.nlmsg_len, 0));
    static char room[16384] __attribute__((aligned(8)));
    int n = MUST(recv(fd, room, sizeof room, 0));
    struct nlmsghdr *first = (void *)room;
    say("ask %d %x %d %s %s: type %d flags %x mine %d error %d", type, flags, index, name ? name : "-", to ? to : "-",
        first->nlmsg_type, first->nlmsg_flags, first->nlmsg_pid == own.nl_pid && own.nl_pid,
        first->nlmsg_type == NLMSG_ERROR ? ((struct nlmsgerr *)NLMSG_DATA(first))->error : 0);
    if (first->nlmsg_type == RTM_NEWROUTE && to) {
        struct rtmsg *route = NLMSG_DATA(first);
        say("route to %d bits, type %d, cloned %d", route->rtm_dst_len, route->rtm_type, !!(route->rtm_flags & RTM_F_CLONED));
        int left = RTM_PAYLOAD(first);
        for (struct rtattr *one = RTM_RTA(route); RTA_OK(one, left); one = RTA_NEXT(one, left))
            if (one->rta_type == RTA_DST || one->rta_type == RTA_PREFSRC || one->rta_type == RTA_OIF)
                say("attribute %d: %x", one->rta_type, *(unsigned *)RTA_DATA(one));
    }
    say("some bytes %d", n > 16);
    close(fd);
}

static void names_and_options(void) {
    int fds[2], one = 1, group = RTNLGRP_LINK, got[4] = {0};
    struct sockaddr_nl own = {.nl_family = AF_NETLINK}, peer = {0};
    for (int i = 0; i < 2; i++) {
        socklen_t size = sizeof own;
        own = (struct sockaddr_nl){.nl_family = AF_NETLINK};
        fds[i] = MUST(socket(AF_NETLINK, i ? SOCK_DGRAM : SOCK_RAW, NETLINK_ROUTE));
        STEP(connect(fds[i], (struct sockaddr *)&own, sizeof own));
        MUST(getsockname(fds[i], (struct sockaddr *)&own, &size));
        say("port is pid %d", own.nl_pid == (unsigned)getpid());
        STEP(getpeername(fds[i], (struct sockaddr *)&peer, &size));
        say("peer %u %x", peer.nl_pid, peer.nl_groups);
        static const int options[] = {SO_TYPE, SO_DOMAIN, SO_PROTOCOL};
        for (int each = 0; each < 3; each++) {
            int value = -1;
            size = sizeof value;
            STEP(getsockopt(fds[i], SOL_SOCKET, options[each], &value, &size));
            say("option %d", value);
        }
    }
    struct sockaddr_nl taken = {.nl_family = AF_NETLINK, .nl_pid = getpid()};
    STEP(bind(MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)), (struct sockaddr *)&taken, sizeof taken));
    STEP(setsockopt(fds[0], SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group));
    socklen_t size = 0;
    STEP(getsockopt(fds[0], SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, NULL, &size));
    say("room for groups %d", size >= 4);
    size = sizeof got[0];
    STEP(getsockopt(fds[0], SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS, got, &size));
    say("groups %x", got[0]);
    STEP(setsockopt(fds[0], SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, &group, sizeof group));
    STEP(setsockopt(fds[0], SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof one));
    STEP(setsockopt(fds[0], SOL_NETLINK, 999, &one, sizeof one));
    struct sockaddr_nl others = {.nl_family = AF_NETLINK, .nl_groups = 1};
    STEP(sendto(fds[0], "hello, there and all", 20, 0, (struct sockaddr *)&others, sizeof others));
    STEP(socket(AF_NETLINK, SOCK_STREAM, NETLINK_ROUTE));
    STEP(socket(AF_NETLINK, SOCK_SEQPACKET, NETLINK_ROUTE));
}

int main(void) {
    ask(RTM_GETLINK, 0, 1, NULL, NULL);
    ask(RTM_GETLINK, 0, 0, "lo", NULL);
    ask(RTM_GETLINK, 0, 1234590, NULL, NULL);
    ask(RTM_GETLINK, 0, 0, "nosuch0", NULL);
    ask(RTM_GETADDR, NLM_F_ROOT, 0, NULL, NULL);
    ask(RTM_GETROUTE, NLM_F_ROOT, 0, NULL, NULL);
    ask(RTM_GETRULE, NLM_F_DUMP, 0, NULL, NULL);
    ask(RTM_GETROUTE, 0, 0, NULL, "127.0.0.2");
    ask(1026, NLM_F_DUMP, 0, NULL, NULL);
    names_and_options();
    dump(RTM_GETLINK, RTM_NEWLINK);
    dump(RTM_GETADDR, RTM_NEWADDR);
    struct ifaddrs *all;
    MUST(getifaddrs(&all));
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (strcmp(one->ifa_name, "lo") || !one->ifa_addr)
            continue;
        char text[64] = "";
        if (one->ifa_addr->sa_family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text, sizeof text);
        else if (one->ifa_addr->sa_family == AF_INET6)
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, text, sizeof text);
        say("lo family %d %s, up %d, loopback %d", one->ifa_addr->sa_family, text, !!(one->ifa_flags & IFF_UP),
            !!(one->ifa_flags & IFF_LOOPBACK));
    }
    freeifaddrs(all);
    STEP(socket(AF_NETLINK, SOCK_RAW, 31));
    struct sockaddr_nl resolvers = {.nl_family = AF_NETLINK, .nl_groups = 1 << (RTNLGRP_IPV4_MROUTE_R - 1)};
    STEP(bind(MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)), (struct sockaddr *)&resolvers, sizeof resolvers));
    /* Events of devices: a subscriber gets none here. */
    struct sockaddr_nl events = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int fd = OK(socket(AF_NETLINK, SOCK_DGRAM, NETLINK_KOBJECT_UEVENT));
    STEP(bind(fd, (struct sockaddr *)&events, sizeof events));
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq asked = {.ifr_name = "lo", .ifr_data = (char *)&driver};
    STEP(ioctl(fd, SIOCETHTOOL, &asked));
    return 0;
}
