"""Layer abi, registry rows: sockets, System V IPC and POSIX message queues.

Data only. The argument for native sends: `socket` and `socketpair` decide what kinds of socket can exist in a box, so
that whatever address a later call carries (sendmsg hides it behind a pointer) leads nowhere outside.

Goal: no name the host resolves. Unix datagram sockets resolve one per message, in sendto and sendmsg, even when made
by socketpair. Notifying every send would cost each stream its speed; so they exist only where names are confined.
"""

from __future__ import annotations

from errno import EAFNOSUPPORT, ENOSYS, EOPNOTSUPP, EPROTONOSUPPORT, ESOCKTNOSUPPORT

from husk.abi import numbers
from husk.abi.rules import IPC_WALL, NET_WALL, UNIX_NAME_WALL, Arg, Row, native, native_if, refuse, refused_if, virtual

FAMILY = Arg(0, "the family")
TYPE = Arg(1, "the type", numbers.SOCK_TYPE_MASK)  # the other bits are SOCK_CLOEXEC and SOCK_NONBLOCK
PROTOCOL = Arg(2, "the protocol")

UNIX = FAMILY.is_in(numbers.AF_UNIX)
INET = FAMILY.is_in(numbers.AF_INETS)

UNIX_DATAGRAM_OPEN = (
    "each datagram may carry a path, which the host would resolve from the guest's working directory; no wall on this "
    "machine confines that"
)
NO_IPC_WALL = refuse(ENOSYS, "without an ipc namespace the guest would share keys and queues with the host")


def ipc(nr: int, name: str, reason: str, interruptible: bool = False) -> Row:
    return native(nr, name, reason, native_if(IPC_WALL), otherwise=NO_IPC_WALL, interruptible=interruptible)


ROWS = (
    # Making
    native(
        41,
        "socket",
        "a fresh socket reaches nobody; families are listed so that none loads kernel modules or leaves the box",
        native_if(UNIX, TYPE.is_in(numbers.CONNECTED_TYPES)),
        native_if(UNIX_NAME_WALL, UNIX, TYPE.is_in(numbers.DATAGRAM_TYPES)),
        refused_if(ESOCKTNOSUPPORT, UNIX_DATAGRAM_OPEN, UNIX),
        native_if(NET_WALL, INET, TYPE.is_in(numbers.INET_TYPES), PROTOCOL.is_in(numbers.INET_PROTOCOLS)),
        refused_if(
            EPROTONOSUPPORT,
            "servers written in Go try it first and fall back to TCP",
            NET_WALL,
            INET,
            PROTOCOL.is_in(numbers.IPPROTO_MPTCP),
            quiet=True,
        ),
        refused_if(EPROTONOSUPPORT, "asking for this protocol would load kernel modules on the host", NET_WALL, INET),
        native_if(NET_WALL, FAMILY.is_in(numbers.AF_NETLINK), PROTOCOL.is_in(numbers.NETLINK_ROUTE)),
        refused_if(
            EPROTONOSUPPORT, "only the routing kind of netlink is served", NET_WALL, FAMILY.is_in(numbers.AF_NETLINK)
        ),
        refused_if(EAFNOSUPPORT, "without a network namespace such a socket would be on the host's network", INET),
        otherwise=refuse(EAFNOSUPPORT, "this family reaches devices or kernel modules of the host"),
    ),
    native(
        53,
        "socketpair",
        "two ends inside the box, without a name",
        native_if(UNIX, TYPE.is_in(numbers.CONNECTED_TYPES)),
        native_if(UNIX_NAME_WALL, UNIX, TYPE.is_in(numbers.DATAGRAM_TYPES)),
        refused_if(ESOCKTNOSUPPORT, UNIX_DATAGRAM_OPEN, UNIX),
        otherwise=refuse(EOPNOTSUPP, "only Unix sockets come in pairs"),
    ),
    # Naming
    virtual(49, "bind", "carries an address, which for a Unix socket is a path to be made in the virtual tree"),
    virtual(42, "connect", "carries an address: a path of the virtual tree, or a network peer the policy has to allow"),
    native(50, "listen", "opens a socket the guest holds to those who can name it"),
    native(43, "accept", "takes a connection from a socket the guest holds", interruptible=True),
    native(288, "accept4", "takes a connection from a socket the guest holds", interruptible=True),
    virtual(51, "getsockname", "a Unix socket was bound under a name of husk's, which the guest must see as its own"),
    virtual(52, "getpeername", "the other end may be such a socket too"),
    # Sending and receiving
    native(
        44,
        "sendto",
        "connected Unix sockets ignore its address, network ones exist only inside the box's own network namespace",
        interruptible=True,
    ),
    native(
        46,
        "sendmsg",
        "connected Unix sockets ignore its address, network ones exist only inside the box's own network namespace; "
        "descriptors it passes are the guest's own",
        interruptible=True,
    ),
    native(307, "sendmmsg", "sendmsg several times", interruptible=True),
    native(45, "recvfrom", "receives from a socket the guest holds", interruptible=True),
    native(47, "recvmsg", "receives from a socket the guest holds, passed descriptors included", interruptible=True),
    native(299, "recvmmsg", "recvmsg several times", interruptible=True),
    native(48, "shutdown", "closes one direction of a socket the guest holds"),
    native(54, "setsockopt", "changes a socket the guest holds; options that reach further want CAP_NET_ADMIN"),
    native(55, "getsockopt", "reads an option of a socket the guest holds"),
    # System V IPC. semop, msgsnd and msgrcv give EINTR after any handler, with or without SA_RESTART
    ipc(29, "shmget", "keys belong to the box's own ipc namespace"),
    ipc(30, "shmat", "maps a segment of the box's own ipc namespace"),
    ipc(31, "shmctl", "acts on a segment of the box's own ipc namespace"),
    ipc(67, "shmdt", "unmaps a segment of the box's own ipc namespace"),
    ipc(64, "semget", "keys belong to the box's own ipc namespace"),
    ipc(65, "semop", "acts on semaphores of the box's own ipc namespace"),
    ipc(220, "semtimedop", "acts on semaphores of the box's own ipc namespace"),
    ipc(66, "semctl", "acts on semaphores of the box's own ipc namespace"),
    ipc(68, "msgget", "keys belong to the box's own ipc namespace"),
    ipc(69, "msgsnd", "sends to a queue of the box's own ipc namespace"),
    ipc(70, "msgrcv", "receives from a queue of the box's own ipc namespace"),
    ipc(71, "msgctl", "acts on a queue of the box's own ipc namespace"),
    # POSIX message queues: their names are not paths, they live in the ipc namespace
    ipc(240, "mq_open", "queue names belong to the box's own ipc namespace and are no paths"),
    ipc(241, "mq_unlink", "queue names belong to the box's own ipc namespace and are no paths"),
    ipc(242, "mq_timedsend", "sends to a queue the guest holds", interruptible=True),
    ipc(243, "mq_timedreceive", "receives from a queue the guest holds", interruptible=True),
    ipc(244, "mq_notify", "asks for a signal to the caller when a queue it holds fills"),
    ipc(245, "mq_getsetattr", "reads or sets attributes of a queue the guest holds"),
)
