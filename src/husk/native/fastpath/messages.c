/* native: messages and connections. Most may go on in the host after all, and need no Python.
 *
 * Receiving: only Unix names, and the addresses of a mapped network, have to be translated. Continuing is safe although
 * guest memory was looked at: nothing these calls bring along decides anything. A guest that changes its msghdr, or the
 * descriptor, in between sees an address untranslated: a number in a directory of husk's, or a port of a loopback that
 * it cannot use.
 *
 * Sending without an address, and sending or connecting to loopback, may go on where names are confined: where a path
 * leads to the box's own empty root, whether it begins there or in a placeholder, and every other address into its own
 * network namespace (`confined`). What a guest slips in after our look then leads nowhere.
 *
 * Netlink goes on there too, and must: Linux judges the sender's capabilities, and husk, which owns the box's user
 * namespace, has all of them over its network. */
#include "fastpath/fastpath.h"

#include "notify/notify.h"

#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_LOOKED_AT = 64 };
struct guest_msghdr { /* as the guest's memory holds it */
    uint64_t name;
    uint32_t name_size, gap;
    uint64_t parts, part_count, control, control_size;
    uint32_t flags, gap2;
};
struct guest_mmsghdr {
    struct guest_msghdr header;
    uint32_t length, gap;
};

/* Where the message has its address, or room for one; 0 if it has none. A fault is the host's to report. */
static uint64_t address_of(const struct seccomp_notif *notif)
{
    uint64_t where = notif->data.args[1];
    switch (notif->data.nr) {
    case SYS_recvmsg: case SYS_sendmsg: {
        struct guest_msghdr header;
        return guest_read(notif->pid, where, &header, sizeof header) == sizeof header ? header.name : 0;
    }
    case SYS_recvmmsg: case SYS_sendmmsg: {
        struct guest_mmsghdr headers[MOST_LOOKED_AT];
        uint32_t count = (uint32_t)notif->data.args[2] < MOST_LOOKED_AT ? (uint32_t)notif->data.args[2] : MOST_LOOKED_AT;
        ssize_t size = count * sizeof *headers;
        if (guest_read(notif->pid, where, headers, size) != size)
            return 0;
        for (uint32_t i = 0; i < count; i++)
            if (headers[i].header.name)
                return headers[i].header.name;
        return 0;
    }
    case SYS_connect:
        return where;
    default: /* accept, recvfrom and sendto: the filter has seen that the pointer is there */
        return notif->data.args[4];
    }
}

static bool is_netlink(const struct seccomp_notif *notif, uint64_t address)
{
    sa_family_t family;
    return guest_read(notif->pid, address, &family, sizeof family) == sizeof family && family == AF_NETLINK;
}

static bool peer_is_unnamed(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    return getpeername(fd, (struct sockaddr *)&address, &size) == 0 && size <= sizeof(sa_family_t);
}

static bool needs_translation(Listener *listener, const struct seccomp_notif *notif)
{
    int fd = guest_get_fd(notif->pid, (int)notif->data.args[0]);
    if (fd < 0)
        return fd == -EPERM; /* where pidfd_getfd is denied Python fails too, with a reason; else the host says EBADF */
    int family = 0, type = 0;
    bool needed;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    if (family != AF_UNIX) /* a TCP stream's messages carry no address, only its connections do */
        needed = listener->mapped && (family == AF_INET || family == AF_INET6) &&
                 (type != SOCK_STREAM || notif->data.nr == SYS_accept || notif->data.nr == SYS_accept4);
    else /* a connected pair may also be a stand-in for a netlink socket */
        needed = (listener->mapped && type == SOCK_SEQPACKET) || !peer_is_unnamed(fd);
    close(fd);
    return needed;
}

/* An address of the box's own loopback. Others are Python's: it has to find a path, or to say why not. */
static bool stays_on_loopback(pid_t tid, uint64_t address, uint64_t length)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } to;
    size_t size = (uint32_t)length;
    if (size < sizeof to.four || size > sizeof(struct sockaddr_storage))
        return false;
    if (size > sizeof to)
        size = sizeof to;
    if (guest_read(tid, address, &to, size) != (ssize_t)size)
        return false;
    if (to.any.sa_family == AF_INET)
        return ntohl(to.four.sin_addr.s_addr) >> 24 == 127;
    return to.any.sa_family == AF_INET6 && size >= sizeof to.six && IN6_IS_ADDR_LOOPBACK(&to.six.sin6_addr);
}

bool fast_answer_message(Listener *listener, const struct seccomp_notif *notif)
{
    uint64_t address = address_of(notif);
    switch (notif->data.nr) {
    case SYS_accept: case SYS_accept4:
        if (needs_translation(listener, notif))
            return false;
        break;
    case SYS_recvfrom: case SYS_recvmsg: case SYS_recvmmsg:
        if (address && needs_translation(listener, notif))
            return false;
        break;
    case SYS_sendmsg: case SYS_sendmmsg:
        if (!listener->confined || (address && !is_netlink(notif, address)))
            return false;
        break;
    case SYS_sendto: case SYS_connect: {
        uint64_t size = notif->data.args[notif->data.nr == SYS_sendto ? 5 : 2];
        if (!listener->confined || !(is_netlink(notif, address) || stays_on_loopback(notif->pid, address, size)))
            return false;
        break;
    }
    default:
        return false;
    }
    notify_answer_continue(listener->fd, notif->id);
    return true;
}
