"""kernel: map host ids to guest ids."""

from __future__ import annotations

import os

from husk.vfs.host_view import SAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.native._core import Showing


class Identity:
    """A box has one user. On the host that is the caller, or an unprivileged id for husk run as root. Files that husk
    makes for the guest belong to the caller. Inside, both ids read as the guest's own."""

    __slots__ = ("_gids", "_uids", "host_gid", "host_uid")

    def __init__(self, uid: int, gid: int, host_uid: int, host_gid: int) -> None:
        self.host_uid, self.host_gid = host_uid, host_gid
        self._uids = {host_uid: uid, os.geteuid(): uid}
        self._gids = {host_gid: gid, os.getegid(): gid}

    def showing(self, dev: int) -> Showing | None:
        """How C shows a host file of this device that no tree has; None where C cannot map its owners."""
        owner, group = _one_change(self._uids), _one_change(self._gids)
        return ("host", dev, owner, group) if owner and group and not dev >> 20 else None

    def guest_uid(self, host: int) -> int:
        return self._uids.get(host, host)

    def guest_gid(self, host: int) -> int:
        return self._gids.get(host, host)


def _one_change(ids: dict[int, int]) -> tuple[int, int, int] | None:
    changed = [(host, guest, guest) for host, guest in ids.items() if host != guest]
    return None if len(changed) > 1 else changed[0] if changed else SAME
