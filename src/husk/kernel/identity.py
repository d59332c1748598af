"""kernel: which host ids stand for the guest's own."""

from __future__ import annotations

import os


class Identity:
    """A box has one user. On the host it is the caller, or an unprivileged id when root started husk; files husk makes
    for the guest belong to the caller. Both read as the guest's own inside."""

    __slots__ = ("_gids", "_uids", "host_gid", "host_uid")

    def __init__(self, uid: int, gid: int, host_uid: int, host_gid: int) -> None:
        self.host_uid, self.host_gid = host_uid, host_gid
        self._uids = {host_uid: uid, os.geteuid(): uid}
        self._gids = {host_gid: gid, os.getegid(): gid}

    def guest_uid(self, host: int) -> int:
        return self._uids.get(host, host)

    def guest_gid(self, host: int) -> int:
        return self._gids.get(host, host)
