"""kernel: hooks. An application looks at calls before they are answered, and may refuse them or change a name in them.

A hook runs in the thread that serves the call, before the handler, without any lock held. The handler acts on what the
hook was shown: names and addresses are copied out of the guest once, and handlers take that copy. Which argument is a
name or an address is in the call's row; what a call means stays with its handler.
"""

from __future__ import annotations

import errno
import os

from husk.abi.registry import handled_rows
from husk.abi.registry.rules import IN_C
from husk.kernel.call import Refused
from husk.kernel.events import open_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.abi.registry.rules import Row
    from husk.kernel.call import Call

    Answer = str | bytes | None
    Hook = Callable[["Seen"], Answer]

AF_INET, AF_INET6 = 2, 10
LONGEST_ADDRESS = 128


class Shape:
    """The places of a call's arguments that a hook sees, from its row. `address` is an address and its length."""

    __slots__ = ("address", "flags", "name", "paths")

    def __init__(self, row: Row) -> None:
        from husk.abi.registry.signatures import address, positions  # here, not above: a box without hooks needs none

        self.name, self.paths, self.flags, self.address = (
            row.name,
            positions(row, "path"),
            positions(row, "O_*"),
            address(row),
        )


class Seen:
    """A call as a hook sees it. `path` is the name as the guest wrote it, `new_path` the second of a rename, link or
    symlink; `flags` are those of an open, spelled out; `address` is where connect, bind or sendto goes, as
    `1.2.3.4:80`, `[::1]:80`, `unix:/path` or `unix:@abstract`. What a call does not have is empty."""

    __slots__ = ("_call", "address", "args", "flags", "name", "new_path", "path", "pid")

    def __init__(self, call: Call, shape: Shape) -> None:
        from husk.abi.registry.signatures import spell_address

        self._call, self.name, self.pid, self.args = call, shape.name, call.tid, call.args
        names = [os.fsdecode(call.texts[n]) if n in call.texts else "" for n in shape.paths]
        self.path = names[0] if names else ""
        self.new_path = names[1] if len(names) > 1 else ""
        self.flags = open_flags(call.args[shape.flags[0]]) if shape.flags else ""
        self.address = "" if call.address is None else spell_address(call.address)

    def __repr__(self) -> str:
        known = [self.path, self.new_path, self.flags, self.address]
        return f"{self.name}({', '.join(word for word in known if word)})"


class Hooks:
    """By call number, in the order they were set."""

    __slots__ = ("_by_number",)

    def __init__(self) -> None:
        self._by_number: dict[int, tuple[Shape, tuple[Hook, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_number)

    def add(self, name: str, hook: Hook) -> None:
        """ValueError: husk does not see that call."""
        for row in handled_rows():
            if row.name == name and row.family != IN_C:
                shape, hooks = self._by_number.get(row.nr) or (Shape(row), ())
                self._by_number[row.nr] = (shape, (*hooks, hook))
                return
        raise ValueError(
            f"{name!r} is no call that husk answers, so it cannot be hooked; `husk syscalls --way virtual` lists them"
        )

    @property
    def numbers(self) -> list[int]:
        return list(self._by_number)

    def see_names(self) -> bool:
        """Does any hook see, and perhaps replace, a name that the name cache could answer or learn?"""
        return any(shape.paths for shape, _ in self._by_number.values())

    def copy(self) -> Hooks:
        other = Hooks()
        other._by_number = dict(self._by_number)
        return other

    def ask(self, call: Call) -> None:
        known = self._by_number.get(call.nr)
        if known is None:
            return
        shape, hooks = known
        _copy(call, shape)
        for hook in hooks:
            seen = Seen(call, shape)
            try:
                answer = hook(seen)
            except Refused:  # by husk itself, with its reason
                raise
            except OSError as error:
                why = f"the application refused it{_because(error)}"
                raise Refused(error.errno or _usual(error), why, str(seen)) from None
            if answer is not None:
                _rewrite(call, shape, answer)


def _because(error: OSError) -> str:
    return f" ({error.strerror or error})" if error.args else ""


def _usual(error: OSError) -> int:
    """The errno that goes with `raise PermissionError` and the like, without arguments."""
    kinds = (
        (FileNotFoundError, errno.ENOENT),
        (PermissionError, errno.EACCES),
        (FileExistsError, errno.EEXIST),
        (ConnectionRefusedError, errno.ECONNREFUSED),
        (TimeoutError, errno.ETIMEDOUT),
    )
    return next((number for kind, number in kinds if isinstance(error, kind)), errno.EIO)


def _copy(call: Call, shape: Shape) -> None:
    """Copy what the handler would copy. If that fails here, it fails again there, in Linux's order."""
    try:
        for n in shape.paths:
            call.texts[n] = call.raw.cstring(call.args[n])
        if shape.address is not None:
            where, size = (call.args[n] for n in shape.address)
            size &= 0xFFFFFFFF
            if where and 2 <= size <= LONGEST_ADDRESS:
                call.address, call.address_at = call.raw.read(where, size), where
    except OSError:
        pass


def _rewrite(call: Call, shape: Shape, answer: str | bytes) -> None:
    """Replace the first name of the call, or its address. TypeError, ValueError: a mistake in the hook."""
    name, places = shape.name, shape.paths
    if not isinstance(answer, str | bytes):
        raise TypeError(f"a hook on {name} returned {answer!r}; None goes on, a name replaces that of the call")
    if places and places[0] in call.texts:
        text = os.fsencode(answer)
        if b"\0" in text or len(text) >= 4096:
            raise ValueError(f"a hook on {name} returned {answer!r}, which is no path")
        if places[0] not in call.given:
            call.given = {**call.given, places[0]: call.texts[places[0]]}
        call.texts[places[0]] = text
    elif call.address is not None:
        call.address = _packed(os.fsdecode(answer))
    else:
        raise ValueError(f"a hook on {name} returned a name, and the call has none to replace")


def _packed(text: str) -> bytes:
    if text.startswith("unix:@"):
        return b"\1\0\0" + os.fsencode(text[6:])
    if text.startswith("unix:"):
        return b"\1\0" + os.fsencode(text[5:]) + b"\0"
    import socket

    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address; write 127.0.0.1:80, [::1]:80 or unix:/path")
    end = int(port).to_bytes(2, "big")
    if host.startswith("["):
        return (
            AF_INET6.to_bytes(2, "little") + end + bytes(4) + socket.inet_pton(socket.AF_INET6, host[1:-1]) + bytes(4)
        )
    return AF_INET.to_bytes(2, "little") + end + socket.inet_pton(socket.AF_INET, host) + bytes(8)
