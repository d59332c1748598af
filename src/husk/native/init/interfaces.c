/* native/init: the interfaces of a new network namespace: lo, and for a private network eth0, which leads nowhere.
 *
 * Programs join multicast groups and send broadcasts without naming an interface, and look for an address of their
 * machine that is not loopback. With lo alone the first fails with ENODEV, the second with ENETUNREACH, the third finds
 * none. Routes to lo would help the first two only. A bridge without ports is the interface that most kernels can make;
 * what is sent there reaches the box's own sockets and no other place. Without it a box has lo alone, as before. */
#define _GNU_SOURCE
#include "init.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/route.h>
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

/* Before the interface exists: else its link-local IPv6 address could not be used for a second, in which the kernel
 * looks for neighbours that have the same. */
static void expect_no_neighbours(void)
{
    int fd = open("/proc/sys/net/ipv6/conf/default/accept_dad", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "0", 1);
        close(fd);
    }
}

static void add_eth(int fd)
{
    struct ifreq request = {.ifr_name = ETH, .ifr_flags = IFF_UP | IFF_RUNNING | IFF_BROADCAST | IFF_MULTICAST};
    expect_no_neighbours();
    if (ioctl(fd, SIOCBRADDBR, ETH) < 0 || set_address(fd, SIOCSIFADDR, ETH_ADDRESS) < 0 ||
        set_address(fd, SIOCSIFNETMASK, ETH_MASK) < 0 ||
        set_address(fd, SIOCSIFBRDADDR, ETH_ADDRESS | ~ETH_MASK) < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return; /* this kernel has no bridges */
    add_route(fd, 0xe0000000u, 0xf0000000u); /* multicast */
    add_route(fd, 0xffffffffu, 0xffffffffu); /* broadcast */
}

void init_raise_interfaces(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        init_give_up(STEP_LOOPBACK);
    if (init_plan->flags & PLAN_PRIVATE_NETWORK)
        add_eth(fd);
    close(fd);
}
