/* native: messages and connections. Most of these calls may continue in the host, and need no Python.
 *
 * Receiving: only Unix names, and the addresses of a mapped network, have to be translated. Continuing is safe although
 * guest memory was read: nothing that these calls return decides anything. A guest that changes its msghdr or its
 * descriptor in between sees an untranslated address: a number in one of husk's directories, or a port of a loopback
 * that it cannot use.
 *
 * Sending without an address, and sending or connecting to loopback, may continue where names are confined. `confined`
 * means: every path leads into the box's own empty root, whether it begins there or in a placeholder, and every other
 * address into the box's own network namespace. So an address that a guest puts in after our check leads nowhere.
 *
 * Netlink continues there too, and must: Linux judges the sender's capabilities, and husk, which owns the box's user
 * namespace, has all capabilities over its network. */
#include "fastpath/fastpath.h"

#include "call_table.h"
#include "notify/notify.h"

#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_HEADERS = 64 }; /* of recvmmsg and sendmmsg */
struct guest_msghdr { /* as in the guest's memory */
    uint64_t name;
    uint32_t name_size, gap;
    uint64_t parts, part_count, control, control_size;
    uint32_t flags, gap2;
};
struct guest_mmsghdr {
    struct guest_msghdr header;
    uint32_t length, gap;
};

/* The guest address of the message's address, or of the room for one; 0: none. The host reports faults. */
static uint64_t address_in(pid_t tid, uint64_t where)
{
    struct guest_msghdr header;
    return guest_read(tid, where, &header, sizeof header) == sizeof header ? header.name : 0;
}

static uint64_t address_in_any(pid_t tid, uint64_t where, uint32_t count)
{
    struct guest_mmsghdr headers[MOST_HEADERS];
    if (count > MOST_HEADERS)
        count = MOST_HEADERS;
    ssize_t size = count * sizeof *headers;
    if (guest_read(tid, where, headers, size) != size)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (headers[i].header.name)
            return headers[i].header.name;
    return 0;
}

static bool has_control(pid_t tid, uint64_t where)
{
    struct guest_msghdr header;
    return guest_read(tid, where, &header, sizeof header) == sizeof header && header.control && header.control_size;
}

static bool is_netlink(pid_t tid, uint64_t address)
{
    sa_family_t family;
    return guest_read(tid, address, &family, sizeof family) == sizeof family && family == AF_NETLINK;
}

static bool peer_is_unnamed(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    return getpeername(fd, (struct sockaddr *)&address, &size) == 0 && size <= sizeof(sa_family_t);
}

enum { AUTOBOUND = sizeof(sa_family_t) + 6 }; /* of a name that Linux made up, for SO_PASSCRED */

/* A pair that husk made: both ends have no name, and the other is husk's. A socket that husk connected has a name at
 * one end. */
static bool is_stand_in(int fd)
{
    struct sockaddr_storage own;
    struct ucred peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    return peer_is_unnamed(fd) && getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           (own_size <= sizeof(sa_family_t) || own_size == AUTOBOUND) &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0 &&
           peer.pid == getpid();
}

static bool needs_translation(Listener *listener, const struct seccomp_notif *notif, int fd_number)
{
    int fd = guest_get_fd(notif->pid, fd_number);
    if (fd < 0)
        return fd == -EPERM; /* pidfd_getfd is denied: Python fails too, and says why. Otherwise the host says EBADF */
    int family = 0, type = 0;
    bool needed;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    if (family != AF_UNIX) /* TCP messages carry no address, only connections do */
        needed = listener->mapped && (family == AF_INET || family == AF_INET6) &&
                 (type != SOCK_STREAM || notif->data.nr == SYS_accept || notif->data.nr == SYS_accept4);
    else /* a connected pair may also be a stand-in for a netlink socket */
        needed = (listener->mapped && type == SOCK_SEQPACKET) || !peer_is_unnamed(fd);
    close(fd);
    return needed;
}

/* Control messages of datagrams tell addresses, too, in a mapped network, and those of a stand-in for a netlink socket
 * credentials of husk. */
static bool control_needs_translation(Listener *listener, const struct seccomp_notif *notif, int fd_number)
{
    int fd = listener->mapped ? guest_get_fd(notif->pid, fd_number) : -1;
    if (fd < 0)
        return false;
    int family = 0, type = 0;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    bool needed = family == AF_UNIX ? type == SOCK_SEQPACKET && is_stand_in(fd) : type == SOCK_DGRAM;
    close(fd);
    return needed;
}

/* Is it an address of the box's own loopback? For others Python has to resolve a path, or to say why it refuses. */
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

/* sendmsg: the guest can still change the header, which holds the address. So only without address, or to netlink. */
static bool may_send(const Listener *listener, pid_t tid, uint64_t address)
{
    return listener->confined && (!address || is_netlink(tid, address));
}

static bool may_reach(const Listener *listener, pid_t tid, uint64_t address, uint64_t size)
{
    return listener->confined && (is_netlink(tid, address) || stays_on_loopback(tid, address, size));
}

bool fast_answer_message(Listener *listener, const struct seccomp_notif *notif)
{
    const __u64 *a = notif->data.args;
    pid_t tid = notif->pid;
    switch (notif->data.nr) {
    case SYS_accept:
        if (needs_translation(listener, notif, (int)a[ARG_accept_fd]))
            return false;
        break;
    case SYS_accept4:
        if (needs_translation(listener, notif, (int)a[ARG_accept4_fd]))
            return false;
        break;
    case SYS_recvfrom:
        if (a[ARG_recvfrom_addr] && needs_translation(listener, notif, (int)a[ARG_recvfrom_fd]))
            return false;
        break;
    case SYS_recvmsg:
        if (address_in(tid, a[ARG_recvmsg_msg]) && needs_translation(listener, notif, (int)a[ARG_recvmsg_fd]))
            return false;
        if (has_control(tid, a[ARG_recvmsg_msg]) &&
            control_needs_translation(listener, notif, (int)a[ARG_recvmsg_fd]))
            return false;
        break;
    case SYS_recvmmsg:
        if (address_in_any(tid, a[ARG_recvmmsg_mmsg], (uint32_t)a[ARG_recvmmsg_vlen]) &&
            needs_translation(listener, notif, (int)a[ARG_recvmmsg_fd]))
            return false;
        if (has_control(tid, a[ARG_recvmmsg_mmsg]) &&
            control_needs_translation(listener, notif, (int)a[ARG_recvmmsg_fd]))
            return false;
        break;
    case SYS_sendmsg:
        if (!may_send(listener, tid, address_in(tid, a[ARG_sendmsg_msg])))
            return false;
        break;
    case SYS_sendmmsg:
        if (!may_send(listener, tid, address_in_any(tid, a[ARG_sendmmsg_mmsg], (uint32_t)a[ARG_sendmmsg_vlen])))
            return false;
        break;
    case SYS_sendto:
        if (!may_reach(listener, tid, a[ARG_sendto_addr], a[ARG_sendto_addr_len]))
            return false;
        break;
    case SYS_connect:
        if (!may_reach(listener, tid, a[ARG_connect_uservaddr], a[ARG_connect_addrlen]))
            return false;
        break;
    default:
        return false;
    }
    notify_answer_continue(listener->fd, notif->id);
    return true;
}
