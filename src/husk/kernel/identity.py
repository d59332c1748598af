"""kernel: map host ids to guest ids."""

from __future__ import annotations

import os


class Identity:
    """A box has one user. On the host that is the caller, or an unprivileged id for husk run as root. Files that husk
    makes for the guest belong to the caller. Inside, both ids read as the guest's own."""

    __slots__ = ("_gids", "_uids", "host_gid", "host_uid")

    def __init__(self, uid: int, gid: int, host_uid: int, host_gid: int) -> None:
        self.host_uid, self.host_gid = host_uid, host_gid
        self._uids = {host_uid: uid, os.geteuid(): uid}
        self._gids = {host_gid: gid, os.getegid(): gid}

    def guest_uid(self, host: int) -> int:
        return self._uids.get(host, host)

    def guest_gid(self, host: int) -> int:
        return self._gids.get(host, host)
