"""Layer abi: which walls stand around a box, as the registry's rules ask for them (registry/rules.py).

A file of its own: a run has walls, and a filter that the build made of the rules, so that it does not import them.
"""

from __future__ import annotations


class Walls:
    """Which walls stand around a box. Walls only widen what may run natively.

    `outside`: the policy lets some network traffic into or out of the box, so husk makes its network sockets.

    `one_user`: no process of the box can become another user, not even for husk: its user is not root of an image.

    `own_placeholders`: the placeholder directories a guest sits in belong to its own mount namespace. It is false while
    they are host directories: a name such as ``../../../run/x`` walks from there to the host's real root, whatever the
    process's root is.

    `devices`: the kinds of devices of the host that the box was given, keys of ioctls.DEVICE_TYPES.

    `direct`: the box's mount namespace shows the host's /usr, read-only, where guests may look names up themselves.
    """

    __slots__ = (
        "devices", "direct", "ipc", "landlock", "mount", "net", "one_user", "outside", "own_placeholders", "pid",
        "user",
    )  # fmt: skip

    def __init__(
        self,
        *,
        pid: bool = False,
        net: bool = False,
        mount: bool = False,
        ipc: bool = False,
        user: bool = False,
        landlock: int = 0,
        own_placeholders: bool = False,
        outside: bool = False,
        one_user: bool = True,
        devices: frozenset[str] = frozenset(),
        direct: bool = False,
    ) -> None:
        self.pid = pid
        self.net = net
        self.mount = mount
        self.ipc = ipc
        self.user = user
        self.landlock = landlock
        self.own_placeholders = own_placeholders
        self.one_user = one_user
        self.outside = outside
        self.devices = devices
        self.direct = direct

    def but(self, *, direct: bool, one_user: bool) -> Walls:
        """The same, but for these."""
        kept = {name: getattr(self, name) for name in self.__slots__}
        return Walls(**kept | {"direct": direct, "one_user": one_user})

    @property
    def private_net(self) -> bool:
        """Network sockets run natively, in a namespace that holds nothing but the box's loopback."""
        return self.net and not self.outside

    def __repr__(self) -> str:
        return f"Walls({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


NO_WALLS = Walls()
