"""add_key(2), request_key(2), keyctl(2): the key rings of the box."""

from __future__ import annotations

import errno
import time

from husk.kernel.call import Call, Reply, i32, text, u32
from husk.kernel.cred.keyrings import (
    DEFAULT,
    LINK,
    NAMED_SESSION,
    POSSESSOR,
    READ,
    RING_OF_SESSION,
    SEARCH,
    SETATTR,
    VIEW,
    WRITE,
    Caller,
    Key,
    Keyrings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PAYLOAD, LARGEST_USER_KEY, PAGE, MOST_TEXT, MOST_TYPE = (1 << 20) - 1, 32767, 4096, 4096, 32
TYPES = (b"keyring", b"user", b"logon")  # what a user may make; others are of file systems and networks
ALL_PERMISSIONS = 0x3F3F3F3F
UNCHANGED = 0xFFFFFFFF
MOVE_EXCL = 1


def add_key(call: Call) -> Reply:
    size, ring = call.args[3], i32(call, 4)
    if size > MOST_PAYLOAD:
        raise OSError(errno.EINVAL, "too large for a key")
    kind = _type(call, 0)
    description = _text(call, 1) if call.args[1] else b""
    if description[:1] == b"." and kind == b"keyring":
        raise OSError(errno.EPERM, "such names are the kernel's")
    payload = call.raw.read(call.args[2], size) if size else b""
    with _rings(call) as (rings, caller):
        return _add(rings, rings.look_up(caller, ring, WRITE, create=True), kind, description, payload)


def request_key(call: Call) -> Reply:
    kind, description = _type(call, 0), _text(call, 1)
    if call.args[2]:
        _text(call, 2)
    with _rings(call) as (rings, caller):
        into = rings.look_up(caller, i32(call, 3), WRITE, create=True) if i32(call, 3) else None
        _known(kind, errno.ENOKEY)
        problem: OSError | None = None
        for ring in rings.roots(caller):
            try:
                found = rings.search(ring, kind, description, possessed=True)
            except OSError as why:
                problem = problem if problem and problem.errno == errno.ENOKEY else why
                continue
            if into is not None:
                rings.link(found, into)
            return found.serial
        raise problem or OSError(errno.ENOKEY, "no such key; nothing in a box makes one on request")


def keyctl(call: Call) -> Reply:
    work = OPTIONS.get(i32(call, 0))
    if work is None:
        raise OSError(errno.EOPNOTSUPP, "husk's key rings do not have this operation")
    return work(call)


# -- what they mean ----------------------------------------------------------------------------------------------------


class _rings:
    """The rings of the box, locked, and who asks."""

    __slots__ = ("_call", "_keyrings")

    def __init__(self, call: Call) -> None:
        self._call, self._keyrings = call, call.kernel.keyrings

    def __enter__(self) -> tuple[Keyrings, Caller]:
        caller = Caller(self._call.tid, self._call.raw.tgid())
        if not self._call.raw.valid():
            raise OSError(errno.ESRCH, "the caller is gone")
        self._keyrings.lock.acquire()
        return self._keyrings, caller

    def __exit__(self, *_error: object) -> None:
        self._keyrings.lock.release()


def _text(call: Call, n: int, most: int = MOST_TEXT) -> bytes:
    try:
        return text(call, n, most)
    except OSError as problem:
        if problem.errno != errno.ENAMETOOLONG:
            raise
        raise OSError(errno.EINVAL, "too long") from None


def _type(call: Call, n: int) -> bytes:
    kind = _text(call, n, MOST_TYPE)
    if not kind:
        raise OSError(errno.EINVAL, "no type of keys")
    if kind[:1] == b".":
        raise OSError(errno.EPERM, "such types are the kernel's")
    return kind


def _known(kind: bytes, number: int) -> None:
    if kind not in TYPES:
        raise OSError(number, "no such type of keys in a box")


def _add(rings: Keyrings, ring: Key, kind: bytes, description: bytes, payload: bytes) -> int:
    _known(kind, errno.ENODEV)
    links = ring.ring()
    _judge_payload(kind, payload)
    if not description or (kind == b"logon" and description.find(b":") < 1):
        raise OSError(errno.EINVAL, "no description")
    old = links.get((kind, description))
    if old is not None and kind != b"keyring" and not (old.revoked or old.invalid):
        if not old.allows(WRITE, possessed=True):
            raise OSError(errno.EACCES, "the key's permissions forbid it")
        rings.room_for(len(payload) - len(old.payload))
        old.payload, old.expires = payload, 0.0
        return old.serial
    perm = DEFAULT | WRITE << POSSESSOR | (READ << POSSESSOR if kind != b"logon" else 0)
    key = rings.make(kind, description, perm, payload)
    rings.link(key, ring)
    return key.serial


def _judge_payload(kind: bytes, payload: bytes) -> None:
    if (kind == b"keyring") == bool(payload) or len(payload) > LARGEST_USER_KEY:
        raise OSError(errno.EINVAL, "no content for such a key")


def _get_ring_id(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        return rings.look_up(caller, i32(call, 1), SEARCH, create=bool(i32(call, 2))).serial


def _join_session(call: Call) -> Reply:
    name = _text(call, 1) if call.args[1] else None
    if name is not None and name[:1] == b".":
        raise OSError(errno.EPERM, "such names are the kernel's")
    with _rings(call) as (rings, caller):
        if name is None:
            ring = rings.make(b"keyring", b"_ses", RING_OF_SESSION)
        else:
            found = rings.named_session(name)
            if found is not None and found is rings.session(caller):
                return 0
            ring = found or rings.make(b"keyring", name, NAMED_SESSION)
        rings.join(caller, ring)
        return ring.serial


def _update(call: Call) -> Reply:
    size = call.args[3]
    if size > PAGE:
        raise OSError(errno.EINVAL, "too large for an update")
    payload = call.raw.read(call.args[2], size) if size else b""
    with _rings(call) as (rings, caller):
        key = rings.look_up(caller, i32(call, 1), WRITE)
        if key.links is not None:
            raise OSError(errno.EOPNOTSUPP, "a ring has no content of its own")
        _judge_payload(key.type, payload)
        rings.room_for(len(payload) - len(key.payload))
        key.payload, key.expires = payload, 0.0
        return 0


def _revoke(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        try:
            key = rings.look_up(caller, i32(call, 1), WRITE)
        except PermissionError:
            key = rings.look_up(caller, i32(call, 1), SETATTR)
        key.revoked, key.payload = True, b""
        if key.links is not None:
            key.links.clear()
        return 0


def _chown(call: Call) -> Reply:
    uid, gid = u32(call, 2), u32(call, 3)
    if uid == gid == UNCHANGED:
        return 0
    with _rings(call) as (rings, caller):
        key = rings.look_up(caller, i32(call, 1), SETATTR, create=True, partial=True)
        if uid not in (UNCHANGED, key.uid) or (gid not in (UNCHANGED, key.gid) and gid not in call.creds.groups):
            raise OSError(errno.EACCES, "only to a group of one's own")
        key.gid = key.gid if gid == UNCHANGED else gid
        return 0


def _setperm(call: Call) -> Reply:
    perm = u32(call, 2)
    if perm & ~ALL_PERMISSIONS:
        raise OSError(errno.EINVAL, "no such permission")
    with _rings(call) as (rings, caller):
        rings.look_up(caller, i32(call, 1), SETATTR, create=True, partial=True).perm = perm
        return 0


def _describe(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        key = rings.look_up(caller, i32(call, 1), VIEW, partial=True)
        told = b"%s;%d;%d;%08x;%s\0" % (key.type, key.uid, key.gid, key.perm, key.description)
    return _hand_out(call, told)


def _hand_out(call: Call, told: bytes) -> int:
    """The length; the bytes too, where there is room for all of them."""
    if call.args[2] and call.args[3] >= len(told):
        call.raw.write(call.args[2], told)
    return len(told)


def _clear(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        rings.look_up(caller, i32(call, 1), WRITE, create=True).ring().clear()
        rings.sweep()
        return 0


def _link(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        ring = rings.look_up(caller, i32(call, 2), WRITE, create=True)
        key = rings.look_up(caller, i32(call, 1), LINK, create=True)
        ring.ring()
        rings.room_for(4)
        rings.link(key, ring)
        return 0


def _unlink(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        ring = rings.look_up(caller, i32(call, 2), WRITE)
        key = rings.look_up(caller, i32(call, 1), 0, partial=True)
        if ring.ring().get((key.type, key.description)) is not key:
            raise OSError(errno.ENOENT, "the ring does not hold it")
        del ring.ring()[key.type, key.description]
        rings.sweep()
        return 0


def _search(call: Call) -> Reply:
    kind, description = _type(call, 2), _text(call, 3)
    with _rings(call) as (rings, caller):
        _, possessed = rings.find(caller, i32(call, 1))
        ring = rings.look_up(caller, i32(call, 1), SEARCH)
        into = rings.look_up(caller, i32(call, 4), WRITE, create=True) if i32(call, 4) else None
        _known(kind, errno.ENOKEY)
        ring.ring()
        key = rings.search(ring, kind, description, possessed=possessed)
        if into is not None:
            if not key.allows(LINK, possessed=possessed):
                raise OSError(errno.EACCES, "the key's permissions forbid it")
            rings.link(key, into)
        return key.serial


def _read(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        key, possessed = rings.find(caller, i32(call, 1))
        key.validate()
        if not key.allows(READ, possessed=possessed) and not (possessed and key.allows(SEARCH, possessed=True)):
            raise OSError(errno.EACCES, "the key's permissions forbid it")
        if key.type == b"logon":
            raise OSError(errno.EOPNOTSUPP, "for the kernel to read alone")
        told = key.payload
        if key.links is not None:
            told = b"".join(one.serial.to_bytes(4, "little") for one in key.links.values())
    return _hand_out(call, told)


def _set_timeout(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        key = rings.look_up(caller, i32(call, 1), SETATTR, create=True, partial=True)
        key.expires = time.monotonic() + u32(call, 2) if u32(call, 2) else 0.0
        return 0


def _assume_authority(call: Call) -> Reply:
    if i32(call, 1) < 0:
        raise OSError(errno.EINVAL, "no key")
    if i32(call, 1):
        raise OSError(errno.ENOKEY, "no key is being made on request")
    return 0


def _no_authority(call: Call) -> Reply:
    raise OSError(errno.EPERM, "no key is being made on request")


def _get_security(call: Call) -> Reply:
    """As where no security module labels keys."""
    with _rings(call) as (rings, caller):
        rings.look_up(caller, i32(call, 1), VIEW, partial=True)
    if call.args[2] and call.args[3]:
        call.raw.write(call.args[2], b"\0")
    return 1


def _invalidate(call: Call) -> Reply:
    with _rings(call) as (rings, caller):
        rings.look_up(caller, i32(call, 1), SEARCH).invalid = True
        rings.sweep()
        return 0


def _move(call: Call) -> Reply:
    flags = u32(call, 4)
    if flags & ~MOVE_EXCL:
        raise OSError(errno.EINVAL, "unknown flag")
    with _rings(call) as (rings, caller):
        key = rings.look_up(caller, i32(call, 1), LINK, create=True)
        old = rings.look_up(caller, i32(call, 2), WRITE)
        new = rings.look_up(caller, i32(call, 3), WRITE, create=True)
        name = key.type, key.description
        if old.ring().get(name) is not key:
            raise OSError(errno.ENOENT, "the ring does not hold it")
        if flags & MOVE_EXCL and name in new.ring():
            raise OSError(errno.EEXIST, "the ring holds one of this name")
        rings.link(key, new)
        if old is not new:
            del old.ring()[name]
        return 0


OPTIONS: dict[int, Callable[[Call], Reply]] = {
    0: _get_ring_id,
    1: _join_session,
    2: _update,
    3: _revoke,
    4: _chown,
    5: _setperm,
    6: _describe,
    7: _clear,
    8: _link,
    9: _unlink,
    10: _search,
    11: _read,
    12: _no_authority,  # instantiate
    13: _no_authority,  # negate
    15: _set_timeout,
    16: _assume_authority,
    17: _get_security,
    19: _no_authority,  # reject
    20: _no_authority,  # instantiate from an iovec
    21: _invalidate,
    30: _move,
}
