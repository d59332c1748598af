/* build: net_interface
 *
 * What the interface ioctls say of lo, asked on several sockets, and of an interface that is not there.
 */
#include "step.h"
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static const struct { const char *name; unsigned long command; } COMMANDS[] = {
    {"SIOCGIFINDEX", SIOCGIFINDEX}, {"SIOCGIFFLAGS", SIOCGIFFLAGS}, {"SIOCGIFMTU", SIOCGIFMTU},
    {"SIOCGIFMETRIC", SIOCGIFMETRIC}, {"SIOCGIFHWADDR", SIOCGIFHWADDR}, {"SIOCGIFTXQLEN", SIOCGIFTXQLEN},
    {"SIOCGIFMAP", SIOCGIFMAP}, {"SIOCGIFADDR", SIOCGIFADDR}, {"SIOCGIFNETMASK", SIOCGIFNETMASK},
    {"SIOCGIFDSTADDR", SIOCGIFDSTADDR}, {"SIOCGIFBRDADDR", SIOCGIFBRDADDR},
};

static void ask(int fd, const char *kind, const char *interface) {
    for (unsigned i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        struct ifreq asked = {0};
        strcpy(asked.ifr_name, interface);
        if (ioctl(fd, COMMANDS[i].command, &asked) < 0) {
            say("%s %s %s %s", kind, interface, COMMANDS[i].name, errname(errno));
            continue;
        }
        say("%s %s %s family %d value %x", kind, interface, COMMANDS[i].name, asked.ifr_addr.sa_family,
            COMMANDS[i].command == SIOCGIFFLAGS ? 0 : *(unsigned *)&asked.ifr_addr.sa_data[2]);
    }
}

int main(void) {
    int sockets[] = {socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_DGRAM, 0), socket(AF_INET6, SOCK_DGRAM, 0),
                     socket(AF_UNIX, SOCK_STREAM, 0)};
    const char *kinds[] = {"tcp", "udp", "udp6", "unix"};
    for (int i = 0; i < 4; i++) {
        ask(sockets[i], kinds[i], "lo");
        ask(sockets[i], kinds[i], "nosuch0");
        struct ifreq asked = {.ifr_ifindex = 1};
        STEP(ioctl(sockets[i], SIOCGIFNAME, &asked));
        say("number 1 is %s", asked.ifr_name);
        asked.ifr_ifindex = 9999;
        STEP(ioctl(sockets[i], SIOCGIFNAME, &asked));
        char room[sizeof(struct ifreq)] = {0};
        struct ifconf all = {.ifc_len = sizeof room, .ifc_buf = room};
        STEP(ioctl(sockets[i], SIOCGIFCONF, &all));
        say("first of the list %s, %d bytes", room, all.ifc_len);
        all.ifc_len = sizeof room - 1;
        STEP(ioctl(sockets[i], SIOCGIFCONF, &all));
        say("no room %d", all.ifc_len);
        STEP(ioctl(sockets[i], SIOCGIFCONF, NULL));
        STEP(ioctl(sockets[i], SIOCGIFMTU, NULL));
    }
    struct ethtool_ts_info stamps = {.cmd = ETHTOOL_GET_TS_INFO};
    struct ifreq asked = {.ifr_name = "lo", .ifr_data = (char *)&stamps};
    STEP(ioctl(sockets[1], SIOCETHTOOL, &asked));
    say("time stamps %x, clock %d, %x %x", stamps.so_timestamping, stamps.phc_index, stamps.tx_types, stamps.rx_filters);
    STEP(ioctl(0, SIOCGIFMTU, &asked));
    STEP(ioctl(999, SIOCGIFMTU, &asked));
    return 0;
}
