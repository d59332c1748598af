"""kernel: an application looks at calls before they are answered, and may refuse them or change a name in them.

A hook runs in the thread that serves the call, before the handler, without any lock held. What it was shown is what the
handler acts on: names and addresses are copied out of the guest once, and handlers take that copy. Where to look up the
arguments of which call is the only thing known here; what calls mean stays with their handlers.
"""

from __future__ import annotations

import errno
import os

from husk.abi.registry import dispatch_names
from husk.kernel.call import Refused
from husk.kernel.events import call_name, open_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.call import Call

    Answer = str | bytes | None
    Hook = Callable[["Seen"], Answer]

# Where the names are among a call's arguments.
_AT_0 = (
    "open creat stat lstat access readlink statfs chdir chmod chown lchown truncate utime utimes mkdir rmdir unlink "
    "mknod execve setxattr lsetxattr getxattr lgetxattr listxattr llistxattr removexattr lremovexattr chroot umount2"
)
_AT_1 = (
    "openat openat2 newfstatat statx faccessat faccessat2 readlinkat fchmodat fchmodat2 fchownat futimesat utimensat "
    "mkdirat unlinkat mknodat execveat inotify_add_watch open_tree name_to_handle_at"
)
NAMES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_AT_0.split(), (0,)),
    **dict.fromkeys(_AT_1.split(), (1,)),
    "rename": (0, 1),
    "link": (0, 1),
    "symlink": (0, 1),
    "renameat": (1, 3),
    "renameat2": (1, 3),
    "linkat": (1, 3),
    "symlinkat": (0, 2),
}
FLAGS = {"open": 1, "openat": 2}
ADDRESSES = ("connect", "bind")
IN_C = ("rt_sigaction",)  # answered before Python hears of it
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
LONGEST_ADDRESS = 128


class Seen:
    """A call as a hook sees it. `path` is the name as the guest wrote it, `new_path` the second of a rename, link or
    symlink; `flags` are those of an open, spelled out; `address` is where connect or bind goes, as `1.2.3.4:80`,
    `[::1]:80`, `unix:/path` or `unix:@abstract`. What a call does not have is empty."""

    __slots__ = ("_call", "address", "args", "flags", "name", "new_path", "path", "pid")

    def __init__(self, call: Call, name: str) -> None:
        self._call, self.name, self.pid, self.args = call, name, call.tid, call.args
        names = [os.fsdecode(call.texts[n]) if n in call.texts else "" for n in NAMES.get(name, ())]
        self.path = names[0] if names else ""
        self.new_path = names[1] if len(names) > 1 else ""
        self.flags = open_flags(call.args[FLAGS[name]]) if name in FLAGS else ""
        self.address = _shown(call.address) if call.address is not None else ""

    def __repr__(self) -> str:
        known = [self.path, self.new_path, self.flags, self.address]
        return f"{self.name}({', '.join(word for word in known if word)})"


class Hooks:
    """By call number, in the order they were set."""

    __slots__ = ("_by_number",)

    def __init__(self) -> None:
        self._by_number: dict[int, tuple[Hook, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_number)

    def add(self, name: str, hook: Hook) -> None:
        """ValueError: husk does not see that call."""
        for number, known in dispatch_names().items():
            if known == name and name not in IN_C:
                self._by_number[number] = (*self._by_number.get(number, ()), hook)
                return
        raise ValueError(
            f"{name!r} is no call that husk answers, so nobody can hook it; `husk syscalls --way virtual` lists them"
        )

    @property
    def numbers(self) -> list[int]:
        return list(self._by_number)

    def see_names(self) -> bool:
        """Does any of them see, and perhaps replace, a name that the name cache could answer or be taught?"""
        return any(call_name(number) in NAMES for number in self._by_number)

    def copy(self) -> Hooks:
        other = Hooks()
        other._by_number = dict(self._by_number)
        return other

    def ask(self, call: Call) -> None:
        hooks = self._by_number.get(call.nr)
        if hooks is None:
            return
        name = call_name(call.nr)
        _copy(call, name)
        for hook in hooks:
            seen = Seen(call, name)
            try:
                answer = hook(seen)
            except OSError as error:
                why = f"the application refused it{_because(error)}"
                raise Refused(error.errno or _usual(error), why, str(seen)) from None
            if answer is not None:
                _rewrite(call, name, answer)


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


def _copy(call: Call, name: str) -> None:
    """What the handler would copy. Where that fails, it fails again there, in Linux's order."""
    try:
        for n in NAMES.get(name, ()):
            call.texts[n] = call.raw.cstring(call.args[n])
        size = call.args[2] & 0xFFFFFFFF
        if name in ADDRESSES and 2 <= size <= LONGEST_ADDRESS:
            call.address = call.raw.read(call.args[1], size)
    except OSError:
        pass


def _rewrite(call: Call, name: str, answer: str | bytes) -> None:
    """The first name of the call, or where it connects to, is another. TypeError, ValueError: a fault of the hook's."""
    if not isinstance(answer, str | bytes):
        raise TypeError(f"a hook on {name} returned {answer!r}; None goes on, a name replaces the call's")
    places = NAMES.get(name, ())
    if places and places[0] in call.texts:
        text = os.fsencode(answer)
        if b"\0" in text or len(text) >= 4096:
            raise ValueError(f"a hook on {name} returned what is no path")
        if places[0] not in call.given:
            call.given = {**call.given, places[0]: call.texts[places[0]]}
        call.texts[places[0]] = text
    elif call.address is not None:
        call.address = _packed(os.fsdecode(answer))
    else:
        raise ValueError(f"a hook on {name} returned a name, and the call has none to replace")


def _shown(address: bytes) -> str:
    family = int.from_bytes(address[:2], "little")
    if family == AF_UNIX:
        path = address[2:]
        return "unix:@" + os.fsdecode(path[1:]) if path[:1] == b"\0" else "unix:" + os.fsdecode(path.split(b"\0")[0])
    port = int.from_bytes(address[2:4], "big")
    if family == AF_INET and len(address) >= 8:
        return ".".join(str(byte) for byte in address[4:8]) + f":{port}"
    if family == AF_INET6 and len(address) >= 24:
        import socket

        return f"[{socket.inet_ntop(socket.AF_INET6, address[8:24])}]:{port}"
    return f"family {family}"


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
