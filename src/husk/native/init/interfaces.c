/* native/init: the interfaces of a new network namespace: lo, and for a private network eth0, which leads nowhere.
 *
 * Programs join multicast groups and send broadcasts without naming an interface, and look for an address of their
 * machine that is not loopback. With lo alone the first fails with ENODEV, the second with ENETUNREACH, the third finds
 * none. Routes to lo would help the first two only. eth0 is one end of a pair; the other is in a network namespace
 * where nobody is. Where that cannot be made it is a bridge without ports, and without that a box has lo alone. What is
 * sent there reaches the box's own sockets and no other place. (docs/design/007-network.md) */
#define _GNU_SOURCE
#include "init.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* kernel/net/network.py knows these, too. The network is one for documentation (RFC 5737), so it is nobody's. */
#define ETH "eth0"
#define ETH_ADDRESS 0xc6336401u /* 198.51.100.1 */
#define ETH_MASK 0xffffff00u

static void put_address(struct sockaddr *into, uint32_t ip)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(ip)};
    memcpy(into, &address, sizeof address);
}

static int set_address(int fd, unsigned long command, uint32_t ip)
{
    struct ifreq request = {.ifr_name = ETH};
    put_address(&request.ifr_addr, ip);
    return ioctl(fd, command, &request);
}

static void add_route(int fd, uint32_t network, uint32_t mask)
{
    struct rtentry route = {.rt_flags = RTF_UP, .rt_dev = (char *)ETH};
    put_address(&route.rt_dst, network);
    put_address(&route.rt_genmask, mask);
    (void)!ioctl(fd, SIOCADDRT, &route);
}

/* ---- a pair ------------------------------------------------------------------------------------------------------ */

int init_far_network = -1;

/* A netlink request under construction. */
struct request {
    struct nlmsghdr header;
    struct ifinfomsg link;
    char room[256];
};

static struct rtattr *put(struct request *request, unsigned short type, const void *data, size_t size)
{
    struct rtattr *attribute = (void *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    if (size)
        memcpy(RTA_DATA(attribute), data, size);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
    return attribute;
}

/* What was put since is within the attribute. */
static void end(struct request *request, struct rtattr *attribute)
{
    attribute->rta_len = (unsigned short)((char *)request + request->header.nlmsg_len - (char *)attribute);
}

/* Make the pair through a socket of the far network: eth0 goes to the network of this process. */
static bool make_pair(int far)
{
    struct request request = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof request.link), .nlmsg_type = RTM_NEWLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK},
        .link = {.ifi_flags = IFF_UP, .ifi_change = IFF_UP}, /* else eth0 has no carrier */
    };
    struct { struct nlmsghdr header; struct nlmsgerr error; char rest[512]; } answer;
    const struct ifinfomsg near = {0};
    uint32_t here = (uint32_t)getpid();
    struct rtattr *info = put(&request, IFLA_LINKINFO, NULL, 0);
    put(&request, IFLA_INFO_KIND, "veth", 5);
    struct rtattr *data = put(&request, IFLA_INFO_DATA, NULL, 0);
    struct rtattr *peer = put(&request, VETH_INFO_PEER, &near, sizeof near);
    put(&request, IFLA_IFNAME, ETH, sizeof ETH);
    put(&request, IFLA_NET_NS_PID, &here, sizeof here);
    end(&request, peer), end(&request, data), end(&request, info);
    return send(far, &request, request.header.nlmsg_len, 0) == (ssize_t)request.header.nlmsg_len &&
           recv(far, &answer, sizeof answer, 0) >= (ssize_t)(sizeof answer.header + sizeof answer.error) &&
           answer.header.nlmsg_type == NLMSG_ERROR && answer.error.error == 0;
}

static void set_default(const char *name, const char *value)
{
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, value, 1);
        close(fd);
    }
}
#define DEFAULTS "/proc/sys/net/ipv6/conf/default/"

/* Before the interface exists: else its link-local IPv6 address could not be used for a second, in which the kernel
 * looks for neighbours that have the same. */
static void expect_no_neighbours(void)
{
    set_default(DEFAULTS "accept_dad", "0");
}

/* The network of this process becomes that of the far end, and the box gets another one. False: there is no pair. */
static bool add_pair(void)
{
    int far = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), made = 0;
    int network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    set_default(DEFAULTS "disable_ipv6", "1"); /* the far end looks for nobody */
    if (far >= 0 && network >= 0 && unshare(CLONE_NEWNET) == 0) {
        expect_no_neighbours();
        made = make_pair(far);
    } else {
        set_default(DEFAULTS "disable_ipv6", "0");
    }
    if (far >= 0)
        close(far);
    if (made)
        init_far_network = network;
    else if (network >= 0)
        close(network);
    return made;
}

/* ---- addresses and routes ---------------------------------------------------------------------------------------- */

static bool add_bridge(int fd)
{
    expect_no_neighbours();
    return ioctl(fd, SIOCBRADDBR, ETH) == 0;
}

static void raise_eth(int fd)
{
    struct ifreq request = {.ifr_name = ETH, .ifr_flags = IFF_UP | IFF_RUNNING | IFF_BROADCAST | IFF_MULTICAST};
    if (set_address(fd, SIOCSIFADDR, ETH_ADDRESS) < 0 ||
        set_address(fd, SIOCSIFNETMASK, ETH_MASK) < 0 ||
        set_address(fd, SIOCSIFBRDADDR, ETH_ADDRESS | ~ETH_MASK) < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return;
    add_route(fd, 0xe0000000u, 0xf0000000u); /* multicast */
    add_route(fd, 0xffffffffu, 0xffffffffu); /* broadcast */
}

void init_raise_interfaces(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    bool private = init_plan->flags & PLAN_PRIVATE_NETWORK;
    /* The far network has to be held, in the box's root. */
    bool paired = private && init_plan->namespaces & CLONE_NEWNS && add_pair();
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        init_give_up(STEP_LOOPBACK);
    if (paired || (private && add_bridge(fd)))
        raise_eth(fd);
    close(fd);
}
