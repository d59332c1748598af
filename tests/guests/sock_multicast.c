/* build: sock_multicast
 *
 * Multicast groups and broadcasts on lo: joining and leaving, what is received where, and the errors.
 */
#include "step.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define GROUP "239.255.77.7"
static struct in_addr address(const char *text) {
    struct in_addr made;
    inet_pton(AF_INET, text, &made);
    return made;
}

static int make(const char *ip, int port, int joined, const char *group) {
    int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), one = 1;
    struct ip_mreqn in = {.imr_multiaddr = address(group), .imr_ifindex = 1};
    if (joined)
        STEP(setsockopt(fd, SOL_IP, IP_ADD_MEMBERSHIP, &in, sizeof in));
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = port, .sin_addr = address(ip)};
    STEP(bind(fd, (struct sockaddr *)&at, sizeof at));
    return fd;
}

static int port_of(int fd) {
    struct sockaddr_in at;
    socklen_t size = sizeof at;
    MUST(getsockname(fd, (struct sockaddr *)&at, &size));
    char text[64];
    say("bound to %s", inet_ntop(AF_INET, &at.sin_addr, text, sizeof text));
    return at.sin_port;
}

static void heard(const char *label, int fd) {
    char text[100] = "", from[64] = "-";
    struct sockaddr_in sender = {0};
    socklen_t size = sizeof sender;
    struct pollfd one = {fd, POLLIN, 0};
    int n = poll(&one, 1, 50) == 1 ? recvfrom(fd, text, sizeof text - 1, 0, (struct sockaddr *)&sender, &size) : 0;
    if (n > 0)
        inet_ntop(AF_INET, &sender.sin_addr, from, sizeof from);
    say("%s: %d %s from %s", label, n, text, from);
}

static void tell(int fd, const char *ip, int port, const char *text) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port, .sin_addr = address(ip)};
    long sent = sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to);
    say("to %s: %ld %s", ip, sent, sent < 0 ? errname(errno) : "");
}

int main(void) {
    struct ip_mreq lo = {.imr_multiaddr = address(GROUP), .imr_interface = address("127.0.0.1")}, none = {0};
    struct ip_mreqn other = {.imr_multiaddr = address(GROUP), .imr_ifindex = 9999};
    int sender = MUST(socket(AF_INET, SOCK_DGRAM, 0)), one = 1;
    struct in_addr interface = address("127.0.0.1"), got = {0};
    socklen_t size = sizeof got;
    STEP(setsockopt(sender, SOL_IP, IP_MULTICAST_IF, &interface, sizeof interface));
    STEP(getsockopt(sender, SOL_IP, IP_MULTICAST_IF, &got, &size));
    say("interface %x, %u", got.s_addr, size);

    int first = make("0.0.0.0", 0, 0, GROUP), port = port_of(first);
    tell(sender, GROUP, port, "nobody");
    heard("before joining", first);
    STEP(setsockopt(first, SOL_IP, IP_ADD_MEMBERSHIP, &lo, sizeof lo));
    STEP(setsockopt(first, SOL_IP, IP_ADD_MEMBERSHIP, &lo, sizeof lo));
    STEP(setsockopt(first, SOL_IP, IP_ADD_MEMBERSHIP, &none, sizeof none));
    STEP(setsockopt(first, SOL_IP, IP_ADD_MEMBERSHIP, &other, sizeof other));
    STEP(setsockopt(first, SOL_IP, IP_ADD_MEMBERSHIP, &lo, 4));
    tell(sender, GROUP, port, "member");
    heard("member", first);
    int second = make("0.0.0.0", port, 1, GROUP), bound = make(GROUP, port, 1, GROUP);
    port_of(second), port_of(bound);
    tell(sender, GROUP, port, "three");
    heard("first", first), heard("second", second), heard("bound to the group", bound);
    tell(bound, "127.0.0.1", port, "unicast");
    heard("not to the group", bound);
    close(second), close(bound);
    recv(first, &got, sizeof got, MSG_DONTWAIT);
    tell(sender, "239.255.77.8", port, "other group");
    heard("of another group", first);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port, .sin_addr = address(GROUP)}, peer;
    STEP(connect(sender, (struct sockaddr *)&to, sizeof to));
    STEP(send(sender, "connected", 9, 0));
    heard("connected", first);
    size = sizeof peer;
    MUST(getpeername(sender, (struct sockaddr *)&peer, &size));
    say("peer is the group %d", peer.sin_addr.s_addr == to.sin_addr.s_addr && peer.sin_port == port);
    STEP(setsockopt(first, SOL_IP, IP_DROP_MEMBERSHIP, &lo, sizeof lo));
    STEP(setsockopt(first, SOL_IP, IP_DROP_MEMBERSHIP, &lo, sizeof lo));

    int caller = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = address("127.0.0.1")};
    MUST(bind(caller, (struct sockaddr *)&own, sizeof own));
    tell(caller, "127.255.255.255", port, "refused");
    STEP(setsockopt(caller, SOL_SOCKET, SO_BROADCAST, &one, sizeof one));
    tell(caller, "127.255.255.255", port, "all");
    heard("broadcast", first);
    int stream = MUST(socket(AF_INET, SOCK_STREAM, 0));
    say("a stream joins: %d", setsockopt(stream, SOL_IP, IP_ADD_MEMBERSHIP, &lo, sizeof lo));
    return 0;
}
