"""Layer abi: what the words in a row's signature mean, and how a value of each kind is spelled for a person.

A row says `openat(dfd: dirfd, filename: path, flags: O_*, mode: mode)`: the names are those of Linux's own definition
of the call, the words behind the colons are kinds. Here: the kinds, and parsing. Not here: any row, and the names of
flags (flags.py). `husk run` does not import this file until a call has to be printed or a hook is set.

Kinds:
  fd, dirfd          a descriptor; one that a relative path starts from (AT_FDCWD is the working directory)
  path, text         a string behind a pointer: a path of the guest's, any other string
  buf                bytes behind a pointer; the argument after it is usually their number
  *NAME              a pointer to a struct or value of that name
  addr               an address in the guest's own memory
  mode, dev          permission bits, a device number
  uid, gid, pid, key ids of users, groups, processes and System V objects
  size, socklen      a number of bytes; the length of the socket address before it
  offset, long, int  signed numbers; uint, ulong are the unsigned ones
  NAME_*, or a name  flags or a choice, by the table of that name in flags.py
"""

from __future__ import annotations

from husk.abi.registry.flags import FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.abi.registry.rules import Row

    Arguments = tuple[tuple[str, str], ...]

AT_FDCWD = -100
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

# Numbers: how many bits Linux reads, and whether they are signed.
NUMBERS = {
    "fd": (32, True),
    "dirfd": (32, True),
    "uid": (32, True),  # -1 means: leave it as it is
    "gid": (32, True),
    "pid": (32, True),
    "key": (32, True),
    "socklen": (32, True),
    "int": (32, True),
    "uint": (32, False),
    "size": (64, False),
    "offset": (64, True),
    "long": (64, True),
    "ulong": (64, False),
}
POINTERS = frozenset(("path", "text", "buf", "addr"))
OTHERS = frozenset(("mode", "dev"))

_parsed: dict[str, Arguments] = {}


def arguments(row: Row) -> Arguments:
    """Name and kind of each argument of a call, in order."""
    found = _parsed.get(row.signature)
    if found is None:
        inside = row.signature.partition("(")[2].rstrip(")")
        pairs = [word.partition(": ") for word in inside.split(", ")] if inside else []
        found = _parsed[row.signature] = tuple((name, kind) for name, _, kind in pairs)
    return found


def positions(row: Row, *kinds: str) -> tuple[int, ...]:
    """Where a call has its arguments of these kinds."""
    return tuple(n for n, (_, kind) in enumerate(arguments(row)) if kind in kinds)


def address(row: Row) -> tuple[int, int] | None:
    """Where a call has a socket address that it brings along, and that address's length."""
    kinds = [kind for _, kind in arguments(row)]
    for n in range(len(kinds) - 1):
        if kinds[n : n + 2] == ["*sockaddr", "socklen"]:
            return n, n + 1
    return None


def spell_address(packed: bytes) -> str:
    """A socket address as `1.2.3.4:80`, `[::1]:80`, `unix:/path` or `unix:@abstract`."""
    family = int.from_bytes(packed[:2], "little")
    if family == AF_UNIX:
        path = packed[2:]
        abstract = path[:1] == b"\0"
        return "unix:@" + _decoded(path[1:]) if abstract else "unix:" + _decoded(path.split(b"\0")[0])
    port = int.from_bytes(packed[2:4], "big")
    if family == AF_INET and len(packed) >= 8:
        return ".".join(str(byte) for byte in packed[4:8]) + f":{port}"
    if family == AF_INET6 and len(packed) >= 24:
        import socket

        return f"[{socket.inet_ntop(socket.AF_INET6, packed[8:24])}]:{port}"
    return f"family {family}"


def _decoded(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def is_known(kind: str) -> bool:
    named = kind in NUMBERS or kind in POINTERS or kind in OTHERS or kind in FLAGS
    return named or (kind[:1] == "*" and len(kind) > 1)


def spell(kind: str, value: int) -> str:
    """The value of one argument, as strace would write it."""
    if kind in FLAGS:
        return FLAGS[kind].spell(value)
    if kind in NUMBERS:
        width, signed = NUMBERS[kind]
        value &= (1 << width) - 1
        if signed and value >> (width - 1):
            value -= 1 << width
        return "AT_FDCWD" if kind == "dirfd" and value == AT_FDCWD else str(value)
    if kind == "mode":
        return f"0{value & 0xFFFF:o}" if value & 0xFFFF else "0"
    if kind == "dev":
        return hex(value & 0xFFFFFFFF)
    return hex(value) if value else "NULL"
