"""vfs: POSIX ACLs, as Linux keeps them in two extended attributes.

A value is a version and entries of tag, permission and id, all little-endian. Here such values are read, checked,
judged by, and changed with a mode. Ids in them are the box's own. Where ACLs are kept is for the trees.
"""

from __future__ import annotations

import errno
import struct

from husk.vfs.node import ACLS, error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.vfs.node import Credentials

    Entries = list[tuple[int, int, int]]  # tag, permission, id

VERSION = struct.Struct("<I")
ENTRY = struct.Struct("<HHI")
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NAMED = USER | GROUP
NO_ID = 0xFFFFFFFF
# The order of tags in a valid ACL: each may follow those that are listed with it. 0 is the beginning.
FOLLOWS = {
    USER_OBJ: {0},
    USER: {USER_OBJ, USER},
    GROUP_OBJ: {USER_OBJ, USER},
    GROUP: {GROUP_OBJ, GROUP},
    MASK: {GROUP_OBJ, GROUP},
    OTHER: {GROUP_OBJ, GROUP, MASK},
}
LETTERS = {USER_OBJ: "user", USER: "user", GROUP_OBJ: "group", GROUP: "group", MASK: "mask", OTHER: "other"}


def parse(value: bytes) -> Entries:
    """The entries; none if the value stands for "no ACL". EINVAL, or EOPNOTSUPP for a version that Linux never had."""
    if not value:
        return []
    if len(value) < VERSION.size:
        raise error(errno.EINVAL)
    if VERSION.unpack_from(value)[0] != 2:
        raise error(errno.EOPNOTSUPP)
    if (len(value) - VERSION.size) % ENTRY.size:
        raise error(errno.EINVAL)
    entries = [(tag, perm, who if tag & NAMED else NO_ID) for tag, perm, who in ENTRY.iter_unpack(value[4:])]
    if any(tag not in FOLLOWS or (tag & NAMED and who == NO_ID) for tag, _, who in entries):
        raise error(errno.EINVAL)
    return entries


def check(entries: Entries) -> None:
    """EINVAL unless the entries are complete and in order. As Linux does, this lets one id stand there twice."""
    last, named = 0, False
    for tag, perm, _ in entries:
        if perm & ~7 or last not in FOLLOWS[tag]:
            raise error(errno.EINVAL)
        named, last = named or bool(tag & NAMED), tag
    if last != OTHER or (named and not any(tag == MASK for tag, _, _ in entries)):
        raise error(errno.EINVAL)


def pack(entries: Entries) -> bytes:
    return VERSION.pack(2) + b"".join(ENTRY.pack(*entry) for entry in entries)


def mode_of(entries: Entries, mode: int) -> tuple[int, bool]:
    """(`mode` with the permissions of the ACL, does that mode say all of it?). The group bits are the mask's."""
    perms = {tag: perm for tag, perm, _ in entries}
    bits = perms[USER_OBJ] << 6 | perms.get(MASK, perms[GROUP_OBJ]) << 3 | perms[OTHER]
    return mode & ~0o777 | bits, len(entries) == 3


def allows(value: bytes, creds: Credentials, gid: int, want: int) -> bool:
    """The judgement of an access ACL on a user who is not the file's owner. `gid` is the file's group."""
    entries = parse(value)
    mask = next((perm for tag, perm, _ in entries if tag == MASK), 7)
    in_group = False
    for tag, perm, who in entries:
        if tag == USER and who == creds.uid:
            return not want & ~(perm & mask)
        if (tag == GROUP_OBJ and gid in creds.groups) or (tag == GROUP and who in creds.groups):
            in_group = True
            if not want & ~perm:
                return not want & ~mask
        if tag == OTHER:
            return not in_group and not want & ~perm
    return False


def with_mode(value: bytes, mode: int) -> bytes:
    """The access ACL after a chmod: the group bits are the mask's, if there is one."""
    entries = parse(value)
    group = MASK if any(tag == MASK for tag, _, _ in entries) else GROUP_OBJ
    now = {USER_OBJ: mode >> 6 & 7, group: mode >> 3 & 7, OTHER: mode & 7}
    return pack([(tag, now.get(tag, perm), who) for tag, perm, who in entries])


def inherited(default: bytes, mode: int) -> tuple[int, bytes | None]:
    """(mode, access ACL) of something made with `mode` in a directory that has this default ACL. None: the mode says it
    all."""
    entries = parse(default)
    group = MASK if any(tag == MASK for tag, _, _ in entries) else GROUP_OBJ
    asked = {USER_OBJ: mode >> 6 & 7, group: mode >> 3 & 7, OTHER: mode & 7}
    made = [(tag, perm & asked.get(tag, 7), who) for tag, perm, who in entries]
    mode, is_plain = mode_of(made, mode)
    return mode, None if is_plain else pack(made)


def group_permissions(value: bytes) -> int:
    """What the file's own group may do. The mode's group bits say the mask instead, which may be more."""
    entries = parse(value)
    perms = {tag: perm for tag, perm, _ in entries}
    return perms[GROUP_OBJ] & perms.get(MASK, 7)


def of_box(attributes: dict[bytes, bytes], uids: dict[int, int], gids: dict[int, int]) -> dict[bytes, bytes]:
    """The ACLs among `attributes`, with other ids. Broken ones are left out: they may come from a foreign image."""
    found = {}
    for name in ACLS:
        if name in attributes:
            try:
                entries = parse(attributes[name])
                check(entries)
            except OSError:
                continue
            maps = {USER: uids, GROUP: gids}
            found[name] = pack([(tag, perm, maps.get(tag, {}).get(who, who)) for tag, perm, who in entries])
    return found


def as_text(value: bytes) -> str:
    """For a person, as getfacl shows it."""
    parts = []
    for tag, perm, who in parse(value):
        bits = "".join(letter if perm & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
        parts.append(f"{LETTERS[tag]}:{who if tag & NAMED else ''}:{bits}")
    return ",".join(parts)


