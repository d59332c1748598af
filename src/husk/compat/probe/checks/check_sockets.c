/* compat/probe: checks of sockets: families and types, addresses, messages, options.
 *
 * Everything stays on the machine: Unix sockets in the scratch directory or without a name, and the loopback. */
#include "probe.h"

#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#define ANY_LENGTH(value) ((socklen_t[]){sizeof(value)})

static void pair(int type, int ends[2])
{
    NEED(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
}

static bool says(int fd, const char *text)
{
    char got[64] = {0};
    return recv(fd, got, sizeof got, 0) == (ssize_t)strlen(text) && !strcmp(got, text);
}

static struct sockaddr_un unix_name(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    probe_scratch();
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    return address;
}

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int inet(int type)
{
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "a network socket");
    return fd;
}

/* A socket that listens on the loopback, and where. */
static int listener(struct sockaddr_in *where)
{
    int fd = inet(SOCK_STREAM);
    socklen_t length = sizeof *where;
    *where = loopback(0);
    NEED(bind(fd, (void *)where, length) == 0, "bind to the loopback");
    NEED(listen(fd, 4) == 0 && getsockname(fd, (void *)where, &length) == 0, "listen");
    return fd;
}

static void tcp_pair(int ends[2])
{
    struct sockaddr_in where;
    int listening = listener(&where);
    ends[0] = inet(SOCK_STREAM);
    NEED(connect(ends[0], (void *)&where, sizeof where) == 0, "connect to the loopback");
    ends[1] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    NEED(ends[1] >= 0, "accept4");
}

/* -- making: the socket does what its kind does -- */

static void unix_kind(int type)
{
    int fd = (int)MUST(CALL(socket, AF_UNIX, type | SOCK_CLOEXEC, 0)), kind = -1;
    socklen_t length = sizeof kind;
    EFFECT(getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0);
    EFFECT(kind == type || (type == SOCK_RAW && kind == SOCK_DGRAM));
}

CHECK(socket, "family=AF_UNIX type=SOCK_STREAM")
{
    unix_kind(SOCK_STREAM);
}
CHECK(socket, "family=AF_UNIX type=SOCK_DGRAM")
{
    unix_kind(SOCK_DGRAM);
}
CHECK(socket, "family=AF_UNIX type=SOCK_SEQPACKET")
{
    unix_kind(SOCK_SEQPACKET);
}
CHECK(socket, "family=AF_UNIX type=SOCK_RAW: it is a datagram socket")
{
    unix_kind(SOCK_RAW);
}

CHECK(socket, "family=AF_UNIX type=SOCK_RDM: there is none")
{
    ANSWERS(CALL(socket, AF_UNIX, SOCK_RDM, 0), ESOCKTNOSUPPORT);
}

CHECK(socket, "a flag that does not exist")
{
    ANSWERS(CALL(socket, AF_UNIX, SOCK_STREAM | 0x40, 0), EINVAL);
}

CHECK(socket, "type=SOCK_NONBLOCK")
{
    int fd = (int)MUST(CALL(socket, AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    char one;
    EFFECT(recv(fd, &one, 1, 0) == -1 && errno == EAGAIN);
}

CHECK(socket, "type=SOCK_CLOEXEC")
{
    EFFECT(fcntl((int)MUST(CALL(socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), F_GETFD) == FD_CLOEXEC);
}

static void network_kind(int family, int type, int protocol)
{
    int fd = (int)MUST(CALL(socket, family, type | SOCK_CLOEXEC, protocol)), kind = -1;
    socklen_t length = sizeof kind;
    EFFECT(getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == type);
}

CHECK(socket, "family=AF_INET type=SOCK_STREAM")
{
    network_kind(AF_INET, SOCK_STREAM, 0);
}
CHECK(socket, "family=AF_INET type=SOCK_STREAM protocol=6")
{
    network_kind(AF_INET, SOCK_STREAM, IPPROTO_TCP);
}
CHECK(socket, "family=AF_INET type=SOCK_DGRAM")
{
    network_kind(AF_INET, SOCK_DGRAM, 0);
}
CHECK(socket, "family=AF_INET type=SOCK_DGRAM protocol=136: UDP-Lite")
{
    network_kind(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
}
CHECK(socket, "family=AF_INET6 type=SOCK_STREAM")
{
    network_kind(AF_INET6, SOCK_STREAM, 0);
}
CHECK(socket, "family=AF_INET6 type=SOCK_DGRAM")
{
    network_kind(AF_INET6, SOCK_DGRAM, 0);
}

CHECK(socket, "family=AF_INET type=SOCK_DGRAM protocol=1: pings, or the user's group may not")
{
    MUST_OR(CALL(socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP), EACCES, EPERM);
}

CHECK(socket, "family=AF_INET type=SOCK_RAW: or not without privilege")
{
    MUST_OR(CALL(socket, AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), EPERM);
}

CHECK(socket, "family=AF_INET type=SOCK_STREAM protocol=262: many paths, or built without")
{
    MUST_OR(CALL(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262), EPROTONOSUPPORT);
}

CHECK(socket, "family=AF_INET type=SOCK_SEQPACKET: or there is none")
{
    MUST_OR(CALL(socket, AF_INET, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), ESOCKTNOSUPPORT, EPROTONOSUPPORT);
}

CHECK(socket, "family=AF_NETLINK type=SOCK_RAW protocol=0: lists the loopback")
{
    int fd = (int)MUST(CALL(socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    struct { struct nlmsghdr head; struct rtgenmsg body; } ask = {
        {sizeof ask, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    static char answer[16384];
    NEED(send(fd, &ask, sizeof ask, 0) == (ssize_t)sizeof ask, "send");
    EFFECT(recv(fd, answer, sizeof answer, 0) > 0 && memmem(answer, sizeof answer, "lo", 3) != NULL);
}

CHECK(socket, "family=AF_NETLINK type=SOCK_DGRAM protocol=15: events of devices")
{
    MUST(CALL(socket, AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT));
}

/* Asking for a family that is not there makes a Linux with modules load one, and it stays. So first look whether it is
 * there: /proc/net lists what is registered, and without /proc/modules there is nothing to load, or nothing to see. */
static void loads_nothing(const char *list, const char *name)
{
    static char text[1 << 16];
    if (probe_read_text("/proc/modules", text, sizeof text) < 0 || probe_read_text(list, text, sizeof text) < 0)
        return;
    if (!strstr(text, name))
        probe_skip("it would make the kernel load a module");
}

CHECK(socket, "family=AF_NETLINK type=SOCK_RAW protocol=12: of the packet filter, or built without")
{
    loads_nothing("/proc/net/netlink", " 12  ");
    MUST_OR(CALL(socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 12), EPROTONOSUPPORT);
}

static void family(int number, int type, const char *name)
{
    loads_nothing("/proc/net/protocols", name);
    MUST_OR(CALL(socket, number, type | SOCK_CLOEXEC, 0), EAFNOSUPPORT, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT);
}

CHECK(socket, "family=AF_PACKET: or not without privilege")
{
    family(AF_PACKET, SOCK_DGRAM, "PACKET");
}
CHECK(socket, "family=AF_ALG: or built without")
{
    family(38, SOCK_SEQPACKET, "ALG");
}
CHECK(socket, "family=AF_VSOCK: or built without")
{
    family(40, SOCK_STREAM, "AF_VSOCK");
}
CHECK(socket, "family=AF_XDP: or built without")
{
    family(44, SOCK_RAW, "XDP");
}

CHECK(socket, "a family that does not exist is EAFNOSUPPORT")
{
    ANSWERS(CALL(socket, 99, SOCK_STREAM, 0), EAFNOSUPPORT);
}

static void makes_pair(int type)
{
    int ends[2] = {-1, -1};
    MUST(CALL(socketpair, AF_UNIX, type, 0, ends));
    EFFECT(send(ends[0], "abc", 3, 0) == 3 && says(ends[1], "abc"));
}

CHECK(socketpair, "family=AF_INET type=SOCK_SEQPACKET: networks have none")
{
    int ends[2];
    ANSWERS(CALL(socketpair, AF_INET, SOCK_SEQPACKET, 0, ends), ESOCKTNOSUPPORT);
}

CHECK(socketpair, "family=AF_UNIX type=SOCK_STREAM")
{
    makes_pair(SOCK_STREAM);
}
CHECK(socketpair, "family=AF_UNIX type=SOCK_DGRAM")
{
    makes_pair(SOCK_DGRAM);
}
CHECK(socketpair, "family=AF_UNIX type=SOCK_SEQPACKET")
{
    makes_pair(SOCK_SEQPACKET);
}

CHECK(socketpair, "a flag that does not exist")
{
    ANSWERS(CALL(socketpair, AF_UNIX, SOCK_STREAM | 0x40, 0, NULL), EINVAL);
}

CHECK(socketpair, "family=AF_INET: there are none")
{
    int ends[2];
    ANSWERS(CALL(socketpair, AF_INET, SOCK_STREAM, 0, ends), EOPNOTSUPP);
}

/* -- naming -- */

CHECK(bind, "a Unix socket: the name is there")
{
    struct sockaddr_un address = unix_name("s");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(CALL(bind, fd, &address, sizeof address));
    EFFECT(probe_exists("s"));
}

CHECK(bind, "a Unix socket: a name that is taken is EADDRINUSE")
{
    struct sockaddr_un address = unix_name("s");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(bind(fd, (void *)&address, sizeof address) == 0, "bind");
    ANSWERS(CALL(bind, other, &address, sizeof address), EADDRINUSE);
}

CHECK(bind, "an abstract Unix socket: another can connect")
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, 60, "husk-probe-%d", (int)getpid());
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(CALL(bind, fd, &address, length));
    EFFECT(listen(fd, 1) == 0 && connect(other, (void *)&address, length) == 0);
}

CHECK(bind, "the loopback: a port is chosen")
{
    struct sockaddr_in address = loopback(0);
    int fd = inet(SOCK_STREAM);
    MUST(CALL(bind, fd, &address, sizeof address));
    EFFECT(getsockname(fd, (void *)&address, ANY_LENGTH(address)) == 0 && address.sin_port != 0);
}

CHECK(bind, "the loopback of IPv6")
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "a socket of IPv6");
    MUST_OR(CALL(bind, fd, &address, sizeof address), EADDRNOTAVAIL);
    EFFECT(getsockname(fd, (void *)&address, ANY_LENGTH(address)) == 0 && address.sin6_port != 0);
}

CHECK(connect, "a Unix socket")
{
    struct sockaddr_un address = unix_name("s");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(bind(fd, (void *)&address, sizeof address) == 0 && listen(fd, 1) == 0, "bind");
    MUST(CALL(connect, other, &address, sizeof address));
    int end = accept(fd, NULL, NULL);
    EFFECT(end >= 0 && send(other, "abc", 3, 0) == 3 && says(end, "abc"));
}

CHECK(connect, "a Unix socket: a name that does not exist is ENOENT")
{
    struct sockaddr_un address = unix_name("nothing");
    ANSWERS(CALL(connect, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), &address, sizeof address), ENOENT);
}

CHECK(connect, "the loopback")
{
    struct sockaddr_in where;
    int listening = listener(&where), fd = inet(SOCK_STREAM);
    MUST(CALL(connect, fd, &where, sizeof where));
    int end = accept(listening, NULL, NULL);
    EFFECT(end >= 0 && send(fd, "abc", 3, 0) == 3 && says(end, "abc"));
}

CHECK(connect, "the loopback: a port without a listener is ECONNREFUSED")
{
    struct sockaddr_in where;
    close(listener(&where));
    ANSWERS(CALL(connect, inet(SOCK_STREAM), &where, sizeof where), ECONNREFUSED);
}

CHECK(listen, "a connection waits")
{
    struct sockaddr_in where = loopback(0);
    int fd = inet(SOCK_STREAM);
    NEED(bind(fd, (void *)&where, sizeof where) == 0, "bind to the loopback");
    MUST(CALL(listen, fd, 4));
    NEED(getsockname(fd, (void *)&where, ANY_LENGTH(where)) == 0, "getsockname");
    EFFECT(connect(inet(SOCK_STREAM), (void *)&where, sizeof where) == 0);
}

CHECK(accept, "tells the peer's address")
{
    struct sockaddr_in where, peer = {0}, own = {0};
    int listening = listener(&where), fd = inet(SOCK_STREAM);
    NEED(connect(fd, (void *)&where, sizeof where) == 0, "connect");
    socklen_t length = sizeof peer;
    MUST(CALL(accept, listening, &peer, &length));
    EFFECT(getsockname(fd, (void *)&own, ANY_LENGTH(own)) == 0 && peer.sin_port == own.sin_port);
}

CHECK(accept, "without an address")
{
    struct sockaddr_in where;
    int listening = listener(&where), fd = inet(SOCK_STREAM);
    NEED(connect(fd, (void *)&where, sizeof where) == 0, "connect");
    EFFECT(send((int)MUST(CALL(accept, listening, NULL, NULL)), "abc", 3, 0) == 3 && says(fd, "abc"));
}

CHECK(accept4, "flags=SOCK_CLOEXEC")
{
    struct sockaddr_in where;
    int listening = listener(&where), fd = inet(SOCK_STREAM);
    NEED(connect(fd, (void *)&where, sizeof where) == 0, "connect");
    EFFECT(fcntl((int)MUST(CALL(accept4, listening, NULL, NULL, SOCK_CLOEXEC)), F_GETFD) == FD_CLOEXEC);
}

CHECK(accept4, "flags=SOCK_NONBLOCK")
{
    struct sockaddr_in where;
    int listening = listener(&where), fd = inet(SOCK_STREAM);
    char one;
    NEED(connect(fd, (void *)&where, sizeof where) == 0, "connect");
    EFFECT(recv((int)MUST(CALL(accept4, listening, NULL, NULL, SOCK_NONBLOCK)), &one, 1, 0) == -1 && errno == EAGAIN);
}

CHECK(getsockname, "of a Unix socket: the name it was given")
{
    struct sockaddr_un address = unix_name("s"), seen = {0};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(bind(fd, (void *)&address, sizeof address) == 0, "bind");
    socklen_t length = sizeof seen;
    MUST(CALL(getsockname, fd, &seen, &length));
    EFFECT(!strcmp(seen.sun_path, "s") && length == offsetof(struct sockaddr_un, sun_path) + 2);
}

CHECK(getpeername, "of a connection over the loopback")
{
    struct sockaddr_in where, seen = {0};
    listener(&where);
    int fd = inet(SOCK_STREAM);
    NEED(connect(fd, (void *)&where, sizeof where) == 0, "connect");
    socklen_t length = sizeof seen;
    MUST(CALL(getpeername, fd, &seen, &length));
    EFFECT(seen.sin_port == where.sin_port && seen.sin_addr.s_addr == where.sin_addr.s_addr);
}

CHECK(getpeername, "without a connection is ENOTCONN")
{
    struct sockaddr_in seen;
    socklen_t length = sizeof seen;
    ANSWERS(CALL(getpeername, inet(SOCK_STREAM), &seen, &length), ENOTCONN);
}

/* -- sending and receiving -- */

CHECK(sendto, "to the peer of a pair")
{
    int ends[2];
    pair(SOCK_STREAM, ends);
    EFFECT(MUST(CALL(sendto, ends[0], "abc", 3, 0, NULL, 0)) == 3 && says(ends[1], "abc"));
}

CHECK(sendto, "to an address of the loopback")
{
    struct sockaddr_in where = loopback(0);
    int fd = inet(SOCK_DGRAM), other = inet(SOCK_DGRAM);
    NEED(bind(fd, (void *)&where, sizeof where) == 0, "bind to the loopback");
    NEED(getsockname(fd, (void *)&where, ANY_LENGTH(where)) == 0, "getsockname");
    EFFECT(MUST(CALL(sendto, other, "abc", 3, 0, &where, sizeof where)) == 3 && says(fd, "abc"));
}

CHECK(sendto, "to the name of a Unix socket")
{
    struct sockaddr_un address = unix_name("s");
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    NEED(bind(fd, (void *)&address, sizeof address) == 0, "bind");
    EFFECT(MUST(CALL(sendto, other, "abc", 3, 0, &address, sizeof address)) == 3 && says(fd, "abc"));
}

CHECK(sendto, "flags=MSG_NOSIGNAL: EPIPE without SIGPIPE")
{
    int ends[2];
    pair(SOCK_STREAM, ends);
    close(ends[1]);
    ANSWERS(CALL(sendto, ends[0], "abc", 3, MSG_NOSIGNAL, NULL, 0), EPIPE);
}

CHECK(sendto, "flags=MSG_DONTWAIT: a full buffer is EAGAIN")
{
    int ends[2];
    static char many[1 << 16];
    pair(SOCK_STREAM, ends);
    long value = 0;
    for (int n = 0; n < 1000 && value >= 0; n++)
        value = CALL(sendto, ends[0], many, sizeof many, MSG_DONTWAIT, NULL, 0);
    ANSWERS(value, EAGAIN);
}

CHECK(sendto, "flags=MSG_FASTOPEN: connects too, or is switched off")
{
    struct sockaddr_in where;
    int listening = listener(&where), fd = inet(SOCK_STREAM);
    long value = CALL(sendto, fd, "abc", 3, MSG_FASTOPEN, &where, sizeof where);
    MUST_OR(value, EOPNOTSUPP);
    int end = accept(listening, NULL, NULL);
    EFFECT(end >= 0 && says(end, "abc"));
}

CHECK(recvfrom, "tells the sender of a datagram")
{
    struct sockaddr_in where = loopback(0), own = loopback(0), sender = {0};
    int fd = inet(SOCK_DGRAM), other = inet(SOCK_DGRAM);
    char text[8] = {0};
    NEED(bind(fd, (void *)&where, sizeof where) == 0 && bind(other, (void *)&own, sizeof own) == 0, "bind");
    NEED(getsockname(fd, (void *)&where, ANY_LENGTH(where)) == 0, "getsockname");
    NEED(getsockname(other, (void *)&own, ANY_LENGTH(own)) == 0, "getsockname");
    NEED(sendto(other, "abc", 3, 0, (void *)&where, sizeof where) == 3, "sendto");
    socklen_t length = sizeof sender;
    EFFECT(MUST(CALL(recvfrom, fd, text, 8, 0, &sender, &length)) == 3 && !strcmp(text, "abc"));
    EFFECT(sender.sin_port == own.sin_port);
}

CHECK(recvfrom, "flags=MSG_PEEK: the bytes stay")
{
    int ends[2];
    char text[8] = {0};
    pair(SOCK_STREAM, ends);
    NEED(send(ends[0], "abc", 3, 0) == 3, "send");
    EFFECT(MUST(CALL(recvfrom, ends[1], text, 8, MSG_PEEK, NULL, NULL)) == 3 && says(ends[1], "abc"));
}

CHECK(recvfrom, "flags=MSG_DONTWAIT: nothing there is EAGAIN")
{
    int ends[2];
    char text[8];
    pair(SOCK_STREAM, ends);
    ANSWERS(CALL(recvfrom, ends[1], text, 8, MSG_DONTWAIT, NULL, NULL), EAGAIN);
}

CHECK(recvfrom, "flags=MSG_TRUNC: the whole length of a datagram")
{
    int ends[2];
    char text[2];
    pair(SOCK_DGRAM, ends);
    NEED(send(ends[0], "abcdef", 6, 0) == 6, "send");
    EFFECT(MUST(CALL(recvfrom, ends[1], text, 2, MSG_TRUNC, NULL, NULL)) == 6);
}

CHECK(recvfrom, "flags=MSG_WAITALL: waits for all of it")
{
    int ends[2];
    char text[8] = {0};
    pair(SOCK_STREAM, ends);
    pid_t pid = probe_fork();
    if (pid == 0) {
        (void)!send(ends[0], "abc", 3, 0);
        probe_sleep(10);
        (void)!send(ends[0], "def", 3, 0);
        _exit(0);
    }
    EFFECT(MUST(CALL(recvfrom, ends[1], text, 6, MSG_WAITALL, NULL, NULL)) == 6 && !strcmp(text, "abcdef"));
}

CHECK(recvfrom, "flags=MSG_OOB: urgent data")
{
    int ends[2];
    char one = 0;
    tcp_pair(ends);
    NEED(send(ends[0], "x", 1, MSG_OOB) == 1, "send");
    long value = -EINVAL;
    for (int n = 0; n < 1000 && value == -EINVAL; n++, probe_sleep(1))
        value = CALL(recvfrom, ends[1], &one, 1, MSG_OOB, NULL, NULL);
    EFFECT(MUST(value) == 1 && one == 'x');
}

/* A message with one buffer, and room for what comes along. */
struct parcel {
    struct msghdr head;
    struct iovec part;
    char text[16];
    union { char bytes[256]; struct cmsghdr align; } extra;
};

static void prepare(struct parcel *parcel, const char *text, size_t length, size_t room)
{
    memset(parcel, 0, sizeof *parcel);
    memcpy(parcel->text, text, length);
    parcel->part = (struct iovec){parcel->text, room};
    parcel->head = (struct msghdr){.msg_iov = &parcel->part, .msg_iovlen = 1};
}

static void enclose(struct parcel *parcel, int type, const void *value, size_t size)
{
    parcel->head.msg_control = &parcel->extra;
    parcel->head.msg_controllen = CMSG_SPACE(size);
    struct cmsghdr *first = CMSG_FIRSTHDR(&parcel->head);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = type;
    first->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(first), value, size);
}

static const void *enclosed(struct parcel *parcel, int type)
{
    struct cmsghdr *first = CMSG_FIRSTHDR(&parcel->head);
    return first && first->cmsg_type == type ? CMSG_DATA(first) : NULL;
}

CHECK(sendmsg, "a descriptor comes along")
{
    int ends[2], fd = probe_memfd(33), got = -1;
    struct parcel out, in;
    pair(SOCK_STREAM, ends);
    prepare(&out, "abc", 3, 3);
    enclose(&out, SCM_RIGHTS, &fd, sizeof fd);
    EFFECT(MUST(CALL(sendmsg, ends[0], &out.head, 0)) == 3);
    prepare(&in, "", 0, 16);
    in.head.msg_control = &in.extra;
    in.head.msg_controllen = sizeof in.extra;
    NEED(recvmsg(ends[1], &in.head, MSG_CMSG_CLOEXEC) == 3, "recvmsg");
    const void *data = enclosed(&in, SCM_RIGHTS);
    if (data)
        memcpy(&got, data, sizeof got);
    EFFECT(got >= 0 && got != fd && probe_size(got) == 33 && fcntl(got, F_GETFD) == FD_CLOEXEC);
}

CHECK(sendmsg, "with an address of the loopback")
{
    struct sockaddr_in where = loopback(0);
    struct parcel out;
    int fd = inet(SOCK_DGRAM);
    NEED(bind(fd, (void *)&where, sizeof where) == 0, "bind to the loopback");
    NEED(getsockname(fd, (void *)&where, ANY_LENGTH(where)) == 0, "getsockname");
    prepare(&out, "abc", 3, 3);
    out.head.msg_name = &where;
    out.head.msg_namelen = sizeof where;
    EFFECT(MUST(CALL(sendmsg, inet(SOCK_DGRAM), &out.head, 0)) == 3 && says(fd, "abc"));
}

CHECK(sendmsg, "flags=MSG_FASTOPEN: connects too, or is switched off")
{
    struct sockaddr_in where;
    struct parcel out;
    int listening = listener(&where);
    prepare(&out, "abc", 3, 3);
    out.head.msg_name = &where;
    out.head.msg_namelen = sizeof where;
    MUST_OR(CALL(sendmsg, inet(SOCK_STREAM), &out.head, MSG_FASTOPEN), EOPNOTSUPP);
    int end = accept(listening, NULL, NULL);
    EFFECT(end >= 0 && says(end, "abc"));
}

CHECK(recvmsg, "the sender's credentials come along")
{
    int ends[2], on = 1;
    struct parcel in;
    struct ucred who = {0, 0, 0};
    pair(SOCK_STREAM, ends);
    NEED(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0, "SO_PASSCRED");
    NEED(send(ends[0], "abc", 3, 0) == 3, "send");
    prepare(&in, "", 0, 16);
    in.head.msg_control = &in.extra;
    in.head.msg_controllen = sizeof in.extra;
    EFFECT(MUST(CALL(recvmsg, ends[1], &in.head, 0)) == 3 && !memcmp(in.text, "abc", 3));
    const void *data = enclosed(&in, SCM_CREDENTIALS);
    if (data)
        memcpy(&who, data, sizeof who);
    EFFECT(who.pid == getpid() && who.uid == getuid() && who.gid == getgid());
}

CHECK(recvmsg, "a datagram that does not fit says so")
{
    int ends[2];
    struct parcel in;
    pair(SOCK_DGRAM, ends);
    NEED(send(ends[0], "abcdef", 6, 0) == 6, "send");
    prepare(&in, "", 0, 2);
    EFFECT(MUST(CALL(recvmsg, ends[1], &in.head, 0)) == 2 && (in.head.msg_flags & MSG_TRUNC));
}

static void two_parcels(struct mmsghdr both[2], struct parcel parcels[2], const char *one, const char *two, size_t room)
{
    prepare(&parcels[0], one, strlen(one), room);
    prepare(&parcels[1], two, strlen(two), room);
    both[0] = (struct mmsghdr){parcels[0].head, 0};
    both[1] = (struct mmsghdr){parcels[1].head, 0};
}

CHECK(sendmmsg, "two datagrams at once")
{
    int ends[2];
    struct mmsghdr both[2];
    struct parcel parcels[2];
    pair(SOCK_DGRAM, ends);
    two_parcels(both, parcels, "one", "two", 3);
    EFFECT(MUST(CALL(sendmmsg, ends[0], both, 2, 0)) == 2 && both[1].msg_len == 3);
    EFFECT(says(ends[1], "one") && says(ends[1], "two"));
}

CHECK(sendmmsg, "flags=MSG_FASTOPEN: connects too, or is switched off")
{
    struct sockaddr_in where;
    struct mmsghdr both[2];
    struct parcel parcels[2];
    listener(&where);
    two_parcels(both, parcels, "one", "two", 3);
    both[0].msg_hdr.msg_name = &where;
    both[0].msg_hdr.msg_namelen = sizeof where;
    EFFECT(MUST_OR(CALL(sendmmsg, inet(SOCK_STREAM), both, 1, MSG_FASTOPEN), EOPNOTSUPP) == 1);
}

CHECK(recvmmsg, "two datagrams at once")
{
    int ends[2];
    struct mmsghdr both[2];
    struct parcel parcels[2];
    pair(SOCK_DGRAM, ends);
    NEED(send(ends[0], "one", 3, 0) == 3 && send(ends[0], "two", 3, 0) == 3, "send");
    two_parcels(both, parcels, "", "", 16);
    EFFECT(MUST(CALL(recvmmsg, ends[1], both, 2, 0, NULL)) == 2 && both[1].msg_len == 3);
    EFFECT(!memcmp(parcels[0].text, "one", 3) && !memcmp(parcels[1].text, "two", 3));
}

CHECK(shutdown, "how=SHUT_WR: the peer reads to the end")
{
    int ends[2];
    char one;
    pair(SOCK_STREAM, ends);
    MUST(CALL(shutdown, ends[0], SHUT_WR));
    EFFECT(recv(ends[1], &one, 1, 0) == 0 && send(ends[1], "x", 1, 0) == 1);
}

CHECK(shutdown, "how=SHUT_RD: one's own end")
{
    int ends[2];
    char one;
    pair(SOCK_STREAM, ends);
    MUST(CALL(shutdown, ends[0], SHUT_RD));
    EFFECT(recv(ends[0], &one, 1, 0) == 0);
}

CHECK(shutdown, "how=SHUT_RDWR: without a connection is ENOTCONN")
{
    ANSWERS(CALL(shutdown, inet(SOCK_STREAM), SHUT_RDWR), ENOTCONN);
}

/* -- options -- */

static void sets(int fd, int level, int option, int wish, int wanted)
{
    int now = -1;
    socklen_t length = sizeof now;
    MUST(CALL(setsockopt, fd, level, option, &wish, sizeof wish));
    EFFECT(getsockopt(fd, level, option, &now, &length) == 0 && now == wanted);
}

CHECK(setsockopt, "level=SOL_SOCKET optname=2: SO_REUSEADDR")
{
    sets(inet(SOCK_STREAM), SOL_SOCKET, SO_REUSEADDR, 1, 1);
}
CHECK(setsockopt, "level=SOL_SOCKET optname=7: SO_SNDBUF, doubled")
{
    sets(inet(SOCK_STREAM), SOL_SOCKET, SO_SNDBUF, 20000, 40000);
}
CHECK(setsockopt, "level=SOL_SOCKET optname=9: SO_KEEPALIVE")
{
    sets(inet(SOCK_STREAM), SOL_SOCKET, SO_KEEPALIVE, 1, 1);
}
CHECK(setsockopt, "level=SOL_SOCKET optname=15: SO_REUSEPORT")
{
    sets(inet(SOCK_STREAM), SOL_SOCKET, SO_REUSEPORT, 1, 1);
}
CHECK(setsockopt, "level=SOL_SOCKET optname=16: SO_PASSCRED")
{
    int ends[2];
    pair(SOCK_STREAM, ends);
    sets(ends[0], SOL_SOCKET, SO_PASSCRED, 1, 1);
}
CHECK(setsockopt, "level=SOL_SOCKET optname=60: SO_ZEROCOPY")
{
    sets(inet(SOCK_STREAM), SOL_SOCKET, 60, 1, 1);
}
CHECK(setsockopt, "level=SOL_SOCKET optname=76: SO_PASSPIDFD")
{
    int ends[2];
    pair(SOCK_STREAM, ends);
    sets(ends[0], SOL_SOCKET, 76, 1, 1);
}

CHECK(setsockopt, "level=SOL_SOCKET optname=20: SO_RCVTIMEO ends a wait")
{
    int ends[2];
    char one;
    struct timeval brief = {0, 5000};
    pair(SOCK_STREAM, ends);
    MUST(CALL(setsockopt, ends[0], SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief));
    EFFECT(recv(ends[0], &one, 1, 0) == -1 && errno == EAGAIN);
}

CHECK(setsockopt, "level=SOL_SOCKET optname=26: SO_ATTACH_FILTER drops datagrams")
{
    struct sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {1, drop};
    struct sockaddr_in where = loopback(0);
    int fd = inet(SOCK_DGRAM);
    char one;
    NEED(bind(fd, (void *)&where, sizeof where) == 0, "bind to the loopback");
    NEED(getsockname(fd, (void *)&where, ANY_LENGTH(where)) == 0, "getsockname");
    MUST(CALL(setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
    NEED(sendto(inet(SOCK_DGRAM), "x", 1, 0, (void *)&where, sizeof where) == 1, "sendto");
    probe_sleep(5);
    EFFECT(recv(fd, &one, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

CHECK(setsockopt, "level=SOL_SOCKET optname=25: SO_BINDTODEVICE, the loopback")
{
    MUST_OR(CALL(setsockopt, inet(SOCK_DGRAM), SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), EPERM);
}

CHECK(setsockopt, "level=SOL_SOCKET optname=44: SO_LOCK_FILTER")
{
    int one = 1;
    MUST(CALL(setsockopt, inet(SOCK_DGRAM), SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one));
}

CHECK(setsockopt, "level=SOL_NETLINK optname=11: NETLINK_EXT_ACK")
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "a socket of netlink");
    sets(fd, SOL_NETLINK, 11, 1, 1);
}

CHECK(setsockopt, "level=IPPROTO_TCP optname=1: TCP_NODELAY")
{
    sets(inet(SOCK_STREAM), IPPROTO_TCP, TCP_NODELAY, 1, 1);
}
CHECK(setsockopt, "level=IPPROTO_TCP optname=4: TCP_KEEPIDLE")
{
    sets(inet(SOCK_STREAM), IPPROTO_TCP, TCP_KEEPIDLE, 77, 77);
}
CHECK(setsockopt, "level=IPPROTO_TCP optname=23: TCP_FASTOPEN")
{
    sets(inet(SOCK_STREAM), IPPROTO_TCP, TCP_FASTOPEN, 1, 1);
}

CHECK(setsockopt, "level=IPPROTO_TCP optname=31: TCP_ULP of a name that does not exist")
{
    int ends[2];
    tcp_pair(ends);
    ANSWERS(CALL(setsockopt, ends[0], IPPROTO_TCP, 31, "husk-none", 9), ENOENT, ENOPROTOOPT);
}

CHECK(setsockopt, "level=IPPROTO_IP optname=2: IP_TTL")
{
    sets(inet(SOCK_DGRAM), IPPROTO_IP, IP_TTL, 7, 7);
}

CHECK(setsockopt, "level=IPPROTO_IP optname=32: IP_MULTICAST_IF, the loopback")
{
    struct in_addr address = {htonl(INADDR_LOOPBACK)};
    MUST(CALL(setsockopt, inet(SOCK_DGRAM), IPPROTO_IP, IP_MULTICAST_IF, &address, sizeof address));
}

CHECK(setsockopt, "level=IPPROTO_IP optname=50: IP_UNICAST_IF, the loopback")
{
    unsigned index = htonl(1);
    MUST(CALL(setsockopt, inet(SOCK_DGRAM), IPPROTO_IP, 50, &index, sizeof index));
}

CHECK(setsockopt, "level=IPPROTO_IPV6 optname=16: IPV6_UNICAST_HOPS")
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "a socket of IPv6");
    sets(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 7, 7);
}

CHECK(setsockopt, "level=IPPROTO_IPV6 optname=76: IPV6_UNICAST_IF, the loopback")
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned index = htonl(1);
    NEED(fd >= 0, "a socket of IPv6");
    MUST(CALL(setsockopt, fd, IPPROTO_IPV6, 76, &index, sizeof index));
}

CHECK(setsockopt, "level=IPPROTO_IPV6 optname=26: IPV6_V6ONLY")
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "a socket of IPv6");
    sets(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1, 1);
}

CHECK(setsockopt, "level=IPPROTO_IPV6 optname=17: IPV6_MULTICAST_IF, the loopback")
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), index = 1;
    NEED(fd >= 0, "a socket of IPv6");
    MUST(CALL(setsockopt, fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index));
}

CHECK(getsockopt, "level=IPPROTO_IP optname=32: IP_MULTICAST_IF, which is none")
{
    struct in_addr address = {1};
    socklen_t length = sizeof address;
    MUST(CALL(getsockopt, inet(SOCK_DGRAM), IPPROTO_IP, IP_MULTICAST_IF, &address, &length));
    EFFECT(address.s_addr == 0);
}

CHECK(getsockopt, "level=IPPROTO_IPV6 optname=17: IPV6_MULTICAST_IF, which is none")
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), index = 1;
    socklen_t length = sizeof index;
    NEED(fd >= 0, "a socket of IPv6");
    MUST(CALL(getsockopt, fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, &length));
    EFFECT(index == 0);
}

CHECK(getsockopt, "level=SOL_NETLINK optname=11: NETLINK_EXT_ACK, which is off")
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0), on = 1;
    socklen_t length = sizeof on;
    NEED(fd >= 0, "a socket of netlink");
    MUST(CALL(getsockopt, fd, SOL_NETLINK, 11, &on, &length));
    EFFECT(on == 0);
}

CHECK(getsockopt, "level=SOL_SOCKET optname=3: SO_TYPE")
{
    int kind = -1;
    socklen_t length = sizeof kind;
    MUST(CALL(getsockopt, inet(SOCK_STREAM), SOL_SOCKET, SO_TYPE, &kind, &length));
    EFFECT(kind == SOCK_STREAM && length == sizeof kind);
}

CHECK(getsockopt, "level=SOL_SOCKET optname=4: SO_ERROR of a refused connection, once")
{
    struct sockaddr_in where;
    close(listener(&where));
    int fd = inet(SOCK_STREAM | SOCK_NONBLOCK), error = -1;
    socklen_t length = sizeof error;
    bool refused = connect(fd, (void *)&where, sizeof where) == -1 && errno == ECONNREFUSED;
    struct pollfd one = {fd, POLLOUT, 0};
    poll(&one, 1, 2000);
    MUST(CALL(getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &length));
    EFFECT(refused || error == ECONNREFUSED);
}

CHECK(getsockopt, "level=SOL_SOCKET optname=17: SO_PEERCRED")
{
    int ends[2];
    struct ucred who = {0, 0, 0};
    socklen_t length = sizeof who;
    pair(SOCK_STREAM, ends);
    MUST(CALL(getsockopt, ends[0], SOL_SOCKET, SO_PEERCRED, &who, &length));
    EFFECT(who.pid == getpid() && who.uid == geteuid() && who.gid == getegid());
}

CHECK(getsockopt, "level=SOL_SOCKET optname=59: SO_PEERGROUPS")
{
    int ends[2];
    static gid_t groups[65536];
    socklen_t length = sizeof groups;
    pair(SOCK_STREAM, ends);
    MUST(CALL(getsockopt, ends[0], SOL_SOCKET, 59, groups, &length));
}

CHECK(getsockopt, "level=SOL_SOCKET optname=77: SO_PEERPIDFD")
{
    int ends[2], fd = -1;
    socklen_t length = sizeof fd;
    pair(SOCK_STREAM, ends);
    MUST(CALL(getsockopt, ends[0], SOL_SOCKET, 77, &fd, &length));
    EFFECT(fd >= 0);
}

CHECK(getsockopt, "level=SOL_SOCKET optname=39: SO_DOMAIN")
{
    int number = -1;
    socklen_t length = sizeof number;
    MUST(CALL(getsockopt, inet(SOCK_STREAM), SOL_SOCKET, SO_DOMAIN, &number, &length));
    EFFECT(number == AF_INET);
}

CHECK(getsockopt, "level=IPPROTO_TCP optname=11: TCP_INFO")
{
    int ends[2];
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    tcp_pair(ends);
    MUST(CALL(getsockopt, ends[0], IPPROTO_TCP, TCP_INFO, &info, &length));
    EFFECT(info.tcpi_state == 1);
}

CHECK(getsockopt, "level=IPPROTO_IPV6 optname=26: IPV6_V6ONLY")
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), now = -1;
    socklen_t length = sizeof now;
    NEED(fd >= 0, "a socket of IPv6");
    MUST(CALL(getsockopt, fd, IPPROTO_IPV6, IPV6_V6ONLY, &now, &length));
    EFFECT(now == 0 || now == 1);
}

CHECK(getsockopt, "an unknown option is ENOPROTOOPT")
{
    int now;
    socklen_t length = sizeof now;
    ANSWERS(CALL(getsockopt, inet(SOCK_STREAM), SOL_SOCKET, 9999, &now, &length), ENOPROTOOPT);
}
