"""Layer abi, registry rows: sockets, System V IPC and POSIX message queues.

Data only. husk judges every address that a guest gives, so calls that carry one are virtual, and those that may hide
one behind a pointer (sendmsg) are virtual always. Addresses that a guest gets are harmless, but may have to be
translated: the C core (native/fastpath/messages.c) lets those calls run in the host where nothing has to be. See
docs/design/007-network.md.
"""

from __future__ import annotations

from errno import EAFNOSUPPORT, EINVAL, ENOPROTOOPT, EOPNOTSUPP, EPERM, EPROTONOSUPPORT, ESOCKTNOSUPPORT

from husk.abi import numbers
from husk.abi.registry.rules import (
    ALWAYS,
    DIRECT_NAMES,
    IPC_WALL,
    NET_WALL,
    NEVER,
    PRIVATE_NET,
    RESTARTS,
    Arg,
    ArgTest,
    Row,
    Rule,
    Verdict,
    carries_cookie,
    is_null,
    made_at,
    native,
    native_if,
    refuse,
    refused_if,
    virtual,
    virtual_if,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FAMILY = Arg(0, "the family")
TYPE = Arg(1, "the type", numbers.SOCK_TYPE_MASK)  # the other bits are SOCK_CLOEXEC and SOCK_NONBLOCK
NO_FLAGS = Arg(1, "the type").has_any(numbers.NO_SOCK_FLAGS)
PROTOCOL = Arg(2, "the protocol")
LEVEL, OPTION = Arg(1, "the level"), Arg(2, "the option")

UNIX = FAMILY.is_in(numbers.AF_UNIX)
INET = FAMILY.is_in(numbers.AF_INETS)
NETLINK = FAMILY.is_in(numbers.AF_NETLINK)
SOCKET_LEVEL, TCP_LEVEL = LEVEL.is_in(numbers.SOL_SOCKET), LEVEL.is_in(numbers.IPPROTO_TCP)
IP_LEVEL, IPV6_LEVEL = LEVEL.is_in(numbers.SOL_IP), LEVEL.is_in(numbers.SOL_IPV6)

VIRTUAL = Verdict("virtual")
KEPT_IPC = Verdict("virtual", "without an ipc namespace husk keeps the keys, ids and names, which the host would share")
ACCEPT = "takes a connection from a socket the guest holds; virtual where the peer's name may have to be translated"
HOST_ROUTES = "it would choose routes, interfaces or groups of the host's network"
LARGE_SET = {"the bits above 255": 0xFFFFFF00}


def ipc(nr: int, signature: str, reason: str, eintr: str = NEVER) -> Row:
    return native(nr, signature, reason, native_if(IPC_WALL), otherwise=KEPT_IPC, family="ipc", eintr=eintr)


def unless_address(index: int, family: str, nr: int, signature: str, reason: str, *rules: Rule) -> Row:
    """Native without an address in argument `index`, virtual with one."""
    no_address = native_if(is_null(index, "the address"))
    return native(nr, signature, reason, *rules, no_address, otherwise=VIRTUAL, family=family, eintr=RESTARTS)


def no_option(level: ArgTest, options: Mapping[str, int], errno: int, reason: str) -> Rule:
    return refused_if(errno, reason, level, OPTION.is_in(options), quiet=True)


def no_fast_open(index: int) -> Rule:
    return refused_if(
        EOPNOTSUPP,
        "it connects as well, past the check of connect; programs fall back to connect",
        Arg(index, "flags").has_any(numbers.MSG_FASTOPEN),
        quiet=True,
    )


NO_PIDFDS = no_option(SOCKET_LEVEL, numbers.SO_PIDFDS, ENOPROTOOPT,
                      "it would hand out a handle of husk, which connects in the guest's place")

ROWS = (
    # Making
    native(
        41,
        "socket(family: AF_*, type: SOCK_*, protocol: int)",
        "a new socket is connected to nothing; the listed families load no kernel modules and stay in the box",
        refused_if(EINVAL, "Linux has no such flags", NO_FLAGS, quiet=True),
        native_if(UNIX, TYPE.is_in(numbers.UNIX_TYPES)),
        refused_if(ESOCKTNOSUPPORT, "Unix sockets have no such type", UNIX, quiet=True),
        # Linux would give the same errno, but the reason would not be reported.
        refused_if(
            EPERM,
            "raw sockets need a capability that no guest has",
            INET,
            TYPE.is_in({"SOCK_RAW": 3}),
            PROTOCOL.is_in(numbers.RAW_PROTOCOLS),
        ),
        native_if(PRIVATE_NET, INET, TYPE.is_in(numbers.INET_TYPES), PROTOCOL.is_in(numbers.INET_PROTOCOLS)),
        virtual_if(INET, TYPE.is_in(numbers.MAPPED_TYPES), PROTOCOL.is_in(numbers.MAPPED_PROTOCOLS)),
        refused_if(
            EPROTONOSUPPORT,
            "hardly a program uses UDP-Lite, and its code in the host's kernel would be within a guest's reach",
            INET,
            PROTOCOL.is_in(numbers.IPPROTO_UDPLITE),
        ),
        refused_if(
            EPROTONOSUPPORT,
            "servers written in Go try it first and fall back to TCP",
            INET,
            PROTOCOL.is_in(numbers.IPPROTO_MPTCP),
            quiet=True,
        ),
        refused_if(
            ESOCKTNOSUPPORT,
            "networks have no such type of socket here",
            INET,
            TYPE.is_in(numbers.NO_INET_TYPES),
            quiet=True,
        ),
        refused_if(EPERM, "raw sockets bypass every rule about addresses", INET, TYPE.is_in({"SOCK_RAW": 3})),
        refused_if(EPROTONOSUPPORT, "asking for this protocol would load kernel modules on the host", INET),
        native_if(NET_WALL, NETLINK, PROTOCOL.is_in(numbers.NETLINK_OWN)),
        virtual_if(NETLINK, PROTOCOL.is_in(numbers.NETLINK_OWN)),
        refused_if(EPROTONOSUPPORT, "only routing is served, and device events, of which a box gets none", NETLINK),
        otherwise=refuse(EAFNOSUPPORT, "this family reaches devices or kernel modules of the host"),
        family="sockets",
    ),
    native(
        53,
        "socketpair(family: AF_*, type: SOCK_*, protocol: int, usockvec: *int)",
        "two ends inside the box, without a name",
        refused_if(EINVAL, "Linux has no such flags", NO_FLAGS, quiet=True),
        native_if(UNIX, TYPE.is_in(numbers.UNIX_TYPES)),
        refused_if(ESOCKTNOSUPPORT, "Unix sockets have no such type", UNIX, quiet=True),
        refused_if(ESOCKTNOSUPPORT, "networks have no such type of socket", INET, TYPE.is_in(numbers.NO_INET_TYPES),
                   quiet=True),
        otherwise=refuse(EOPNOTSUPP, "only Unix sockets come in pairs"),
    ),
    # Naming
    virtual("sockets", 49, "bind(fd: fd, umyaddr: *sockaddr, addrlen: socklen)",
            "carries an address, which for a Unix socket is a path to be made in the virtual tree"),
    virtual("sockets", 42, "connect(fd: fd, uservaddr: *sockaddr, addrlen: socklen)",
            "carries an address: a path of the virtual tree, or a network peer the policy has to allow",
            eintr=RESTARTS),
    native(
        50,
        "listen(fd: fd, backlog: int)",
        "opens a socket the guest holds to connections; virtual where these may come from outside the box",
        native_if(PRIVATE_NET),
        otherwise=VIRTUAL,
        family="sockets",
    ),
    unless_address(1, "sockets", 43, "accept(fd: fd, upeer_sockaddr: *sockaddr, upeer_addrlen: *socklen)", ACCEPT),
    unless_address(1, "sockets", 288,
                   "accept4(fd: fd, upeer_sockaddr: *sockaddr, upeer_addrlen: *socklen, flags: accept)",
                   ACCEPT),
    virtual("sockets", 51, "getsockname(fd: fd, usockaddr: *sockaddr, usockaddr_len: *socklen)",
            "husk bound a Unix socket under a name of its own choice; the guest must see the name it gave"),
    virtual("sockets", 52, "getpeername(fd: fd, usockaddr: *sockaddr, usockaddr_len: *socklen)",
            "the other end may be such a socket too"),
    # Sending and receiving
    unless_address(4, "sendmsg", 44,
                   "sendto(fd: fd, buff: buf, len: size, flags: MSG_*, addr: *sockaddr, addr_len: socklen)",
                   "sends to the peer of a connected socket; virtual with an address, which husk has to judge",
                   no_fast_open(3)),
    virtual(
        "sendmsg",
        46,
        "sendmsg(fd: fd, msg: *msghdr, flags: MSG_*)",
        "hides an address behind a pointer, and a Unix datagram's would be looked up by the host",
        no_fast_open(2),
        eintr=RESTARTS,
    ),
    virtual("sendmsg", 307, "sendmmsg(fd: fd, mmsg: *mmsghdr, vlen: uint, flags: MSG_*)",
            "sendmsg several times", no_fast_open(3), eintr=RESTARTS),
    unless_address(4, "sendmsg", 45,
                   "recvfrom(fd: fd, ubuf: buf, size: size, flags: MSG_*, addr: *sockaddr, addr_len: *socklen)",
                   "receives from a socket the guest holds; virtual where the sender's name may have to be translated"),
    virtual("sendmsg", 47, "recvmsg(fd: fd, msg: *msghdr, flags: MSG_*)",
            "may ask for the sender's name; the C core lets it run in the host unless that has to be translated; native"
            " where a descriptor comes from husk: an O_PATH one, or through a gate",
            native_if(carries_cookie(5)),
            native_if(DIRECT_NAMES, made_at("the resident region's", numbers.RESIDENT_DIRECT),
                      Arg(0, "the descriptor").is_in({"the gate's": numbers.GATE_CHANNEL}),
                      Arg(2, "flags").within({"MSG_DONTWAIT": 0x40, "MSG_CMSG_CLOEXEC": 0x40000000})),
            eintr=RESTARTS),
    virtual("sendmsg", 299, "recvmmsg(fd: fd, mmsg: *mmsghdr, vlen: uint, flags: MSG_*, timeout: *timespec)",
            "recvmsg several times", eintr=RESTARTS),
    native(48, "shutdown(fd: fd, how: SHUT_*)", "closes one direction of a socket the guest holds"),
    native(
        54,
        "setsockopt(fd: fd, level: SOL_*, optname: int, optval: buf, optlen: socklen)",
        "changes a socket the guest holds; options that reach further want CAP_NET_ADMIN",
        NO_PIDFDS,
        no_option(SOCKET_LEVEL, numbers.SO_ZEROCOPY, EOPNOTSUPP, "husk sends some messages from memory of its own"),
        no_option(TCP_LEVEL, numbers.TCP_HARMFUL, ENOPROTOOPT,
                  "loads kernel modules, or connects past the check of connect"),
        virtual_if(SOCKET_LEVEL, OPTION.is_in(numbers.SO_PASSCRED)),
        native_if(PRIVATE_NET),
        virtual_if(SOCKET_LEVEL, OPTION.is_in(numbers.SO_OWN_FILTERS)),
        no_option(SOCKET_LEVEL, numbers.SO_FILTERS, EPERM,
                  "husk's own filter on this socket keeps out packets of foreign senders"),
        virtual_if(SOCKET_LEVEL, OPTION.is_in(numbers.SO_BINDS)),
        no_option(IP_LEVEL, numbers.IP_HARMFUL, EPERM, HOST_ROUTES),
        no_option(IPV6_LEVEL, numbers.IPV6_HARMFUL, EPERM, HOST_ROUTES),
        virtual_if(IPV6_LEVEL, OPTION.is_in(numbers.IPV6_KEPT)),
        virtual_if(IPV6_LEVEL, OPTION.is_in(numbers.IPV6_TWINS)),
        virtual_if(IP_LEVEL, OPTION.is_in(numbers.IP_GROUPS)),
        virtual_if(IPV6_LEVEL, OPTION.is_in(numbers.IPV6_GROUPS)),
        native_if(NET_WALL),
        virtual_if(LEVEL.is_in(numbers.SOL_NETLINK)),
        family="sockets",
    ),
    native(
        55,
        "getsockopt(fd: fd, level: SOL_*, optname: int, optval: buf, optlen: *socklen)",
        "reads an option of a socket the guest holds",
        virtual_if(SOCKET_LEVEL, OPTION.is_in(numbers.SO_PEERCRED)),
        NO_PIDFDS,
        no_option(SOCKET_LEVEL, numbers.SO_PEERGROUPS, ENOPROTOOPT,
                  "it would tell the groups of husk's caller, since husk connects in the guest's place"),
        native_if(PRIVATE_NET),
        virtual_if(IPV6_LEVEL, OPTION.is_in(numbers.IPV6_KEPT)),
        virtual_if(IP_LEVEL, OPTION.is_in(numbers.IP_MULTICAST_IF)),
        virtual_if(IPV6_LEVEL, OPTION.is_in(numbers.IPV6_MULTICAST_IF)),
        # Netlink sockets are emulated where there is no network namespace: the host knows them as Unix sockets.
        native_if(NET_WALL),
        virtual_if(SOCKET_LEVEL, OPTION.is_in(numbers.SO_KINDS)),
        virtual_if(LEVEL.is_in(numbers.SOL_NETLINK)),
        family="sockets",
    ),
    # System V IPC
    virtual("shm", 29, "shmget(key: key, size: size, shmflg: IPC_*)",
            "husk keeps the segments: no limit counts memory that no process has attached"),
    virtual("shm", 30, "shmat(shmid: int, shmaddr: addr, shmflg: SHM_*)",
            "husk makes the guest map the memfd that is the segment"),
    virtual("shm", 31, "shmctl(shmid: int, cmd: ipc_command, buf: *shmid_ds)", "husk keeps the segments"),
    virtual("shm", 67, "shmdt(shmaddr: addr)", "husk makes the guest unmap the segment at that address"),
    native(
        64,
        "semget(key: key, nsems: int, semflg: IPC_*)",
        "keys belong to the box's own ipc namespace",
        refused_if(
            EINVAL,
            "semaphores take the host's own memory, and sets of up to 32,000 would be gigabytes that no limit counts",
            Arg(1, "nsems").has_any(LARGE_SET),
        ),
        native_if(IPC_WALL),
        otherwise=KEPT_IPC,
        family="ipc",
    ),
    ipc(65, "semop(semid: int, tsops: *sembuf, nsops: uint)",
        "acts on semaphores of the box's own ipc namespace", eintr=ALWAYS),
    ipc(220, "semtimedop(semid: int, tsops: *sembuf, nsops: uint, timeout: *timespec)",
        "acts on semaphores of the box's own ipc namespace", eintr=ALWAYS),
    ipc(66, "semctl(semid: int, semnum: int, cmd: ipc_command, arg: ulong)",
        "acts on semaphores of the box's own ipc namespace"),
    ipc(68, "msgget(key: key, msgflg: IPC_*)", "keys belong to the box's own ipc namespace"),
    ipc(69, "msgsnd(msqid: int, msgp: *msgbuf, msgsz: size, msgflg: msgop)",
        "sends to a queue of the box's own ipc namespace", eintr=ALWAYS),
    ipc(70, "msgrcv(msqid: int, msgp: *msgbuf, msgsz: size, msgtyp: long, msgflg: msgop)",
        "receives from a queue of the box's own ipc namespace", eintr=ALWAYS),
    ipc(71, "msgctl(msqid: int, cmd: ipc_command, buf: *msqid_ds)", "acts on a queue of the box's own ipc namespace"),
    # POSIX message queues: their names are not paths, they live in the ipc namespace
    ipc(240, "mq_open(u_name: text, oflag: O_*, mode: mode, u_attr: *mq_attr)",
        "queue names belong to the box's own ipc namespace and are no paths"),
    ipc(241, "mq_unlink(u_name: text)", "queue names belong to the box's own ipc namespace and are no paths"),
    native(242, "mq_timedsend(mqdes: fd, u_msg_ptr: buf, msg_len: size, msg_prio: uint, u_abs_timeout: *timespec)",
        "sends to a queue the guest holds", eintr=RESTARTS),
    native(243,
           "mq_timedreceive(mqdes: fd, u_msg_ptr: buf, msg_len: size, u_msg_prio: *uint, u_abs_timeout: *timespec)",
        "receives from a queue the guest holds", eintr=RESTARTS),
    native(244, "mq_notify(mqdes: fd, u_notification: *sigevent)",
        "asks for a signal to the caller when a queue it holds fills"),
    native(245, "mq_getsetattr(mqdes: fd, u_mqstat: *mq_attr, u_omqstat: *mq_attr)",
        "reads or sets attributes of a queue the guest holds"),
)
