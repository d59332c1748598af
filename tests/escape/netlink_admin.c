/* build: netlink_admin
 *
 * Tries to change the network by routing netlink, by every call that sends: set the MTU of lo, add an address to it,
 * and make a dummy device. Each message asks for an acknowledgement. Linux allows this only with CAP_NET_ADMIN over the
 * network namespace. A guest has no capability, so every attempt must end with EPERM. Prints one line for each attempt:
 * what was sent, by which call, and the errno.
 */
#include "step.h"
#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct request {
    struct nlmsghdr head;
    char body[256];
};

static void attribute(struct request *made, int type, const void *value, int size) {
    struct rtattr *place = (void *)((char *)made + NLMSG_ALIGN(made->head.nlmsg_len));
    *place = (struct rtattr){.rta_len = RTA_LENGTH(size), .rta_type = type};
    memcpy(RTA_DATA(place), value, size);
    made->head.nlmsg_len = NLMSG_ALIGN(made->head.nlmsg_len) + RTA_LENGTH(size);
}

static struct request request(int type, int flags, const void *head, int size) {
    struct request made = {.head = {NLMSG_LENGTH(size), type, NLM_F_REQUEST | NLM_F_ACK | flags, 7, 0}};
    memcpy(made.body, head, size);
    return made;
}

static struct request set_mtu(void) {
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC, .ifi_index = 1};
    struct request made = request(RTM_NEWLINK, 0, &head, sizeof head);
    attribute(&made, IFLA_MTU, &(int){1400}, 4);
    return made;
}

static struct request add_address(void) {
    struct ifaddrmsg head = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1};
    struct request made = request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &head, sizeof head);
    struct in_addr ip = {htonl(0xC6336401)}; /* 198.51.100.1, for documentation */
    attribute(&made, IFA_LOCAL, &ip, 4);
    attribute(&made, IFA_ADDRESS, &ip, 4);
    return made;
}

static struct request make_device(void) {
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC};
    struct request made = request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof head);
    char kind[12] = {0};
    *(struct rtattr *)kind = (struct rtattr){.rta_len = RTA_LENGTH(5), .rta_type = IFLA_INFO_KIND};
    memcpy(kind + RTA_LENGTH(0), "dummy", 5);
    attribute(&made, IFLA_LINKINFO, kind, sizeof kind);
    return made;
}

static struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
enum way { SENDTO, SENDMSG, SENDMMSG, SEND, SENDMSG_PLAIN, SENDMMSG_PLAIN, WRITE, WRITEV, CONNECTED, BEHIND_A_QUESTION, WAYS };
static const char *NAMES[WAYS] = {"sendto", "sendmsg", "sendmmsg", "send", "sendmsg without an address",
    "sendmmsg without an address", "write", "writev", "connect and sendmsg", "after a question"};

static long send_by(enum way way, int fd, const struct request *made) {
    struct { struct nlmsghdr head; struct rtgenmsg body; char gap[3]; } question = {
        {NLMSG_LENGTH(sizeof(struct rtgenmsg)), RTM_GETRULE, NLM_F_REQUEST, 9, 0}, {AF_INET}, {0}};
    struct iovec parts[2] = {{(void *)&question, sizeof question}, {(void *)made, made->head.nlmsg_len}}, *part = parts + 1;
    struct msghdr message = {.msg_name = &kernel, .msg_namelen = sizeof kernel, .msg_iov = part, .msg_iovlen = 1};
    struct msghdr plain = {.msg_iov = part, .msg_iovlen = 1};
    struct mmsghdr several = {.msg_hdr = way == SENDMMSG ? message : plain};
    switch (way) {
    case SENDTO: return sendto(fd, made, part->iov_len, 0, (struct sockaddr *)&kernel, sizeof kernel);
    case SENDMSG: return sendmsg(fd, &message, 0);
    case SENDMMSG: case SENDMMSG_PLAIN: return sendmmsg(fd, &several, 1, 0);
    case SEND: return send(fd, made, part->iov_len, 0);
    case SENDMSG_PLAIN: return sendmsg(fd, &plain, 0);
    case WRITE: return write(fd, made, part->iov_len);
    case WRITEV: return writev(fd, part, 1);
    case CONNECTED: return connect(fd, (struct sockaddr *)&kernel, sizeof kernel) ? -1 : sendmsg(fd, &plain, 0);
    case BEHIND_A_QUESTION:
        message.msg_iov = parts, message.msg_iovlen = 2;
        return sendmsg(fd, &message, 0);
    default: return -1;
    }
}

/* The error of the kernel's acknowledgement, or that of the call itself. */
static int attempt(enum way way, const struct request *made) {
    int fd = MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct timeval patience = {.tv_sec = 20};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    int error = -1;
    if (send_by(way, fd, made) < 0)
        error = errno;
    static char room[65536];
    while (error < 0) {
        int size = recv(fd, room, sizeof room, 0);
        if (size < 0)
            error = errno;
        for (struct nlmsghdr *one = (void *)room; size > 0 && NLMSG_OK(one, (unsigned)size); one = NLMSG_NEXT(one, size))
            if (one->nlmsg_type == NLMSG_ERROR && one->nlmsg_seq == made->head.nlmsg_seq)
                error = -((struct nlmsgerr *)NLMSG_DATA(one))->error;
    }
    close(fd);
    return error;
}

int main(void) {
    struct { const char *name; struct request made; } all[] = {
        {"MTU", set_mtu()}, {"address", add_address()}, {"device", make_device()}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        for (int way = 0; way < WAYS; way++)
            printf("%s by %s: %s\n", all[i].name, NAMES[way], strerrorname_np(attempt(way, &all[i].made)));
    return 0;
}
