"""kernel: reports to the person outside the box: refusals with their reason, and, when asked for, every call.

Handlers raise or return; only the dispatcher and the handlers of a few calls (open, exec) report. Nothing in this file
may decide anything, and nothing it does may fail a call.
"""

from __future__ import annotations

import errno
import os
import time

from husk.abi.text import harmless, shown
from husk.kernel.call import LATER, Call, GiveFd, Refused, Reply, working_directory
from husk.kernel.changed_names import ChangedNames
from husk.native._core import ClosedFileSystem, DeniedByRule, HiddenByRule, ProtectedByRule
from husk.vfs.node import Damaged, Dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.kernel.exec.program import Program
    from husk.kernel.hooks import Hooks
    from husk.vfs.node import Node
    from husk.vfs.opening import Opened

    Entry = tuple[Dir, bytes]  # a directory and a name in it

# Bytes for all names of files read, written and run together. Not a number of names: a guest can make a name as long as
# it likes, in directories that are deep enough.
NAMES_ROOM, NAME_COSTS = 32 << 20, 128
MOST_WORDS, LONGEST_WORD = 64, 1024  # of a program's arguments
MOST_REFUSALS = 1000  # a guest that is refused in a loop must not fill our memory
# Here the box has names of its own: that the host also has something there is no reason to report a refusal.
OWN_TREES = frozenset(
    b"/" + name
    for name in (
        b"usr",
        b"bin",
        b"sbin",
        b"lib",
        b"lib32",
        b"lib64",
        b"libx32",
        b"tmp",
        b"proc",
        b"dev",
        b"sys",
        b"workspace",
    )
)


BY_RULE = (HiddenByRule, DeniedByRule, ProtectedByRule)


class Full(Exception):
    """Raised by a `tell` that may write no more."""


class Events:
    """`tell` gets each event as a dictionary; `trace` gets one strace-like line per virtual call. None: unwanted."""

    def __init__(
        self,
        tell: Callable[[dict[str, object]], None] | None,
        trace: Callable[[str], None] | None,
        *,
        collect: bool = False,
        refused: Callable[[dict[str, object]], None] | None = None,
    ) -> None:
        """`refused` gets each refusal every time it happens, with its `count`."""
        self._tell, self._trace, self._refused = tell, trace, refused
        self.refusals: dict[tuple[str, str], dict[str, object]] = {}
        self.refusals_lost = 0
        self.lost = 0  # events and lines that could not be written
        self.full = False  # no more events may be written
        self.faults: list[str] = []
        self.read: dict[bytes, None] = {}
        self.changes = ChangedNames()  # always kept: a change costs far more than a note of it
        self.ran: dict[bytes, None] = {}
        self.host_sockets: dict[bytes, None] = {}  # Unix sockets of the host that a guest named to reach them
        self.names_lost = 0  # opens and execs whose name was not kept
        self._names_room = NAMES_ROOM
        self.ports: list[tuple[str, int]] = []  # of the host, each with the port of the box that it leads to
        self.tell_port: Callable[[str, int], None] | None = None  # called with each of these at once
        self.watching = collect or tell is not None or trace is not None

    # -- what the dispatcher reports ---------------------------------------------------------------------------
    def answered(self, call: Call, reply: Reply) -> None:
        if self._trace:
            result = "fd" if isinstance(reply, GiveFd) else str(reply) if isinstance(reply, int) else "…"
            self._line(f"[{call.tid}] {signature(call)} = {result}")
        if reply is not LATER:
            self.reached(call, "")

    def reached(self, call: Call, error: str) -> None:
        """A call that carried an address has been answered."""
        if self._tell and call.copied_address is not None:
            from husk.abi.registry.signatures import spell_address

            address = harmless(spell_address(call.copied_address))
            self._say_of(call, {"event": "address", "call": call_name(call.nr), "address": address, "errno": error})

    def failed(self, call: Call, error: OSError) -> str:
        """Returns husk's reason, "" where Linux itself would have said no."""
        number = error.errno or errno.EIO
        name = errno.errorcode.get(number, str(number))
        if self._trace:
            self._line(f"[{call.tid}] {signature(call)} = -1 {name} ({error.strerror})")
        self.reached(call, name)
        told = isinstance(error, (Refused, Damaged, ClosedFileSystem, *BY_RULE))
        if told or (number == errno.ENOENT and call.texts) or number == errno.EROFS:
            advice = self._reason(call, number, error)
            if advice is not None:
                self._refuse(call, name, *advice)
                return advice[1]
        return ""

    def fault(self, nr: int, fault: BaseException) -> None:
        import traceback

        text = "".join(traceback.format_exception(fault))
        if len(self.faults) < 100:
            self.faults.append(text)
        self._say({"event": "fault", "call": call_name(nr), "traceback": text})

    # -- what handlers report ----------------------------------------------------------------------------------
    def opened(self, call: Call, name: bytes, flags: int, opened: Opened) -> None:
        recorder = call.kernel.recorder
        if not self.watching and recorder is None:
            return
        where = self.absolute(call, name)
        if recorder is not None:
            recorder.opened(where, flags)
        if flags & os.O_ACCMODE != os.O_WRONLY and not flags & (os.O_PATH | os.O_DIRECTORY):
            self._keep(self.read, where)
        if self._tell:
            self._say_of(call, {"event": "open", "path": shown(where), "flags": open_flags(flags)})

    def _keep(self, names: dict[bytes, None], name: bytes) -> None:
        if name in names:
            return
        if len(name) + NAME_COSTS > self._names_room:
            self.names_lost += 1
            return
        names[name] = None
        self._names_room -= len(name) + NAME_COSTS

    def changed(self, call: Call, change: str, node: Node, name: bytes) -> None:
        where = self._place(call, (node, name)) if name and isinstance(node, Dir) else self._path(call, node)
        if where is None or not node.tree.host_backed:  # a pipe's or a device's
            return
        self.changes.note(change, where, node.tree.writes_to_host)
        if self._tell:
            self._say_of(call, {"event": "change", "call": call_name(call.nr), "change": change, "path": shown(where)})

    def opened_for_writing(self, call: Call, node: Node, modified: int) -> None:
        if node.tree.host_backed and (where := self._path(call, node)) is not None:
            self.changes.opened(where, node.tree.writes_to_host, modified)

    def renamed(self, call: Call, old: Entry, new: Entry, moved: Node, *, replaced: bool) -> None:
        one, other = self._place(call, old), self._place(call, new)
        if one is not None and other is not None:
            on_host = moved.tree.writes_to_host
            self.changes.renamed(one, other, on_host, replaced=replaced, directory=isinstance(moved, Dir))
            self._say_rename(call, "renamed", one, other)

    def exchanged(self, call: Call, old: Entry, new: Entry) -> None:
        one, other = self._place(call, old), self._place(call, new)
        if one is not None and other is not None:
            self.changes.exchanged(one, other, old[0].tree.writes_to_host)
            self._say_rename(call, "exchanged", one, other)

    def _say_rename(self, call: Call, change: str, old: bytes, new: bytes) -> None:
        if self._tell:
            paths = {"path": shown(old), "to": shown(new)}
            self._say_of(call, {"event": "change", "call": call_name(call.nr), "change": change, **paths})

    def _path(self, call: Call, node: Node) -> bytes | None:
        """None for a file without a name: what happens to it is gone with its last descriptor."""
        if not isinstance(node, Dir):
            entry = node.tree.name_of(node)
            return self._place(call, entry) if entry is not None else None
        try:
            return call.vfs.path_of(node)
        except OSError:
            return None

    def _place(self, call: Call, entry: Entry) -> bytes | None:
        try:
            return os.path.join(call.vfs.path_of(entry[0]), entry[1])
        except OSError:  # the directory was removed, and the name with it
            return None

    def executed(self, call: Call, name: bytes, program: Program, argv: int) -> None:
        """`argv` is where the guest has its arguments: they may change until the program starts."""
        if call.kernel.recorder is not None:
            call.kernel.recorder.executed(program.exe)
        if self.watching:
            self._keep(self.ran, program.exe)
        if self._tell:
            words = [shown(word) for word in _arguments(call, argv)]
            self._say_of(call, {"event": "exec", "path": shown(name), "program": shown(program.exe), "argv": words})

    def refused(self, by: str, error: str, what: str, why: str, allow: str) -> None:
        """A refusal that answers no system call: a name that the box's resolver may not look up."""
        self._note_refusal(by, error, shown(what.encode("utf-8", "surrogateescape")), why, allow)

    def reached_host(self, where: bytes) -> None:
        self._keep(self.host_sockets, where)

    def published(self, host: str, guest_port: int) -> None:
        self.ports.append((host, guest_port))
        if self.tell_port is not None:
            self.tell_port(host, guest_port)
        self._say({"event": "publish", "host": host, "guest": guest_port})

    def requested(self, method: str, url: str, status: int) -> None:
        """A request that the HTTP gateway answered, without what follows `?`."""
        self._say({"event": "http", "method": method, "url": shown(url.encode()), "status": status})

    def passed(self, device: str) -> None:
        """A device of the host that the box was given."""
        self._say({"event": "device", "name": device})

    # -- reasons -----------------------------------------------------------------------------------------------
    def _reason(self, call: Call, number: int, error: OSError) -> tuple[str, str, str] | None:
        """(what, why, what would allow it), or None where Linux itself would have said no."""
        if isinstance(error, Refused):
            return error.filename or signature(call), str(error.strerror), error.filename2 or ""
        where = self.absolute(call, list(call.texts.values())[-1]) if call.texts else b""
        if isinstance(error, BY_RULE):
            return shown(where) if where else signature(call), str(error.strerror), str(error.filename2 or "")
        if isinstance(error, Damaged | ClosedFileSystem):
            return shown(where), str(error.strerror), ""
        if number == errno.EROFS:
            return (
                shown(where),
                "it is mounted read-only",
                "mount it with :rw to change the host, or :cow to change a copy",
            )
        top = b"/" + where.split(b"/", 2)[1] if where[:1] == b"/" and len(where) > 1 else b""
        if not top or top in OWN_TREES or not os.path.lexists(where):
            return None
        return shown(where), "nothing is mounted there", f"--mount {shown(where)}:{shown(where)}:ro"

    def _refuse(self, call: Call, error: str, what: str, why: str, allow: str) -> None:
        self._note_refusal(call_name(call.nr), error, what, why, allow)

    def _note_refusal(self, by: str, error: str, what: str, why: str, allow: str) -> None:
        key = (what, why)
        known = self.refusals.get(key)
        if known is not None:
            known["count"] = cast_count(known) + 1
            self._refused_again(known)
            return
        refusal: dict[str, object] = {
            "event": "refused",
            "call": by,
            "what": what,
            "errno": error,
            "reason": why,
            "allow": allow,
            "count": 1,
        }
        if len(self.refusals) >= MOST_REFUSALS:
            self.refusals_lost += 1
        else:
            self.refusals[key] = refusal
        self._refused_again(refusal)
        self._say(refusal)

    def absolute(self, call: Call, name: bytes) -> bytes:
        try:
            root = call.own_root()
            if name[:1] == b"/":
                return os.path.normpath(name if root is None else call.vfs.path_of(root) + name)
            start = call.start or working_directory(call)
            return os.path.normpath(os.path.join(call.vfs.path_of(start), name))
        except OSError:
            return name

    def _refused_again(self, refusal: dict[str, object]) -> None:
        if self._refused is not None:
            try:
                self._refused(refusal)
            except Exception:  # nobody reads it any more, which is no reason to fail a guest's call
                self.lost += 1

    def _say_of(self, call: Call, event: dict[str, object]) -> None:
        self._say(event | {"pid": call.tid})

    def _say(self, event: dict[str, object]) -> None:
        if self._tell:
            try:
                self._tell({"time": round(time.time(), 6), **event})
            except Full:
                self.full = True
                self.lost += 1
            except Exception:  # a full disk is no reason to fail a guest's call
                self.lost += 1

    def _line(self, line: str) -> None:
        if self._trace:
            try:
                self._trace(line)
            except Exception:
                self.lost += 1


def watched(events: Events, hooks: Hooks | None) -> bool:
    """Does anybody want to be told of each name? Then husk has to see them all."""
    return events.watching or (hooks is not None and hooks.see_names())


def _arguments(call: Call, where: int) -> list[bytes]:
    """The first words of a program's arguments; what cannot be read ends them."""
    words: list[bytes] = []
    try:
        while len(words) < MOST_WORDS:
            address = int.from_bytes(call.raw.read(where + 8 * len(words), 8), "little")
            if not address:
                break
            words.append(call.raw.cstring(address)[:LONGEST_WORD])
    except OSError:
        pass
    return words


def cast_count(refusal: dict[str, object]) -> int:
    count = refusal["count"]
    return count if isinstance(count, int) else 0


def call_name(nr: int) -> str:
    from husk.abi.registry import row  # here and below: a run that tells of nothing does not need the rows

    entry = row(nr)
    return entry.name if entry else f"syscall_{nr}"


def signature(call: Call) -> str:
    """name(arguments) as the call's row has them: strings as they were copied, flags by name."""
    from husk.abi.registry import row
    from husk.abi.registry.signatures import arguments, spell, spell_address  # tables that most runs never print from

    entry = row(call.nr)
    if entry is None:
        return f"{call_name(call.nr)}({', '.join(map(hex, call.args))})"
    words = []
    for n, (_, kind) in enumerate(arguments(entry)):
        if n in call.texts:
            words.append(_quoted(call.texts[n]))
        elif kind == "*sockaddr" and call.copied_address is not None:
            words.append(harmless(spell_address(call.copied_address)))
        else:
            words.append(spell(kind, call.args[n]))
    return f"{entry.name}({', '.join(words)})"


def _quoted(text: bytes) -> str:
    return '"' + shown(text.replace(b"\\", b"\\\\")).replace('"', '\\"') + '"'


def open_flags(flags: int) -> str:
    from husk.abi.registry.flags import FLAGS

    return FLAGS["O_*"].spell(flags)
