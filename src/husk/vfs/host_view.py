"""vfs: where the host has what a name shows, and how to show it — what the name cache is taught.

A view holds until `Invalidation.announce` is called for the directory it was made for. Trees make views; this is only
their shape.
"""

from __future__ import annotations

from husk.abi.structs import pack_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import HostStat, Manifest, Showing
    from husk.vfs.node import Stat

SAME = (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)  # every host id is shown as it is


class HostView:
    """`rel` beneath `root_fd` on the host.

    `host_ino` is the inode of a directory that is known by its identity, not by its name; else 0. `layered`: hard links
    and changed files may live elsewhere in the layer. `manifest`: the names are in there, not on the host. `info`: what
    the host said of a directory when the view was made.
    """

    __slots__ = ("host_dev", "host_ino", "info", "layered", "manifest", "rel", "root_fd", "showing")

    def __init__(
        self,
        root_fd: int,
        rel: bytes,
        host_dev: int,
        showing: Showing,
        *,
        host_ino: int = 0,
        layered: bool = False,
        manifest: Manifest | None = None,
        info: HostStat | None = None,
    ) -> None:
        self.root_fd, self.rel, self.host_dev, self.showing = root_fd, rel, host_dev, showing
        self.host_ino, self.layered, self.manifest, self.info = host_ino, layered, manifest, info


MISSING = HostView(-1, b"", 0, ("host", 0, SAME, SAME))


def given_view(info: Stat) -> HostView:
    """Nothing of the host: the answer itself."""
    return HostView(-1, b"", 0, ("given", pack_stat(info)))


def host_showing(dev: int, uids: dict[int, int], gids: dict[int, int]) -> Showing | None:
    """How to show host files as files of the tree `dev`; None where C cannot map their owners."""
    owner, group = _mapped(uids), _mapped(gids)
    return None if owner is None or group is None else ("host", dev, owner, group)


def _mapped(ids: dict[int, int]) -> tuple[int, int, int] | None:
    """(host id, guest id shown for it, id shown for the host's user with that guest id); None for any other map."""
    if not ids:
        return SAME
    *overflow, (host, own) = ids.items()
    if any(number != own for number, _ in overflow):
        return None
    return host, own, overflow[0][1] if overflow else own
