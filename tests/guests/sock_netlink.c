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

int main(void) {
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
