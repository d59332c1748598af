"""conform/execute: run one unit: a process with bounds of time and output that leaves nothing behind.

Each unit gets a directory of its own with four inside: where it works, where it writes results, its temporary files,
and the state of a husk that is started for it. All are gone afterwards. A small program (keeper.py) starts the process,
bounds its time, and ends what it left behind.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import selectors
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from husk.compat.prefixes import Shown
from husk.conform.execute.where import Where
from husk.conform.units import RESULTS, TEMPORARY, Ended, Unit
from husk.sandbox.errors import HuskError, UsageError
from husk.sandbox.remove_tree import DIRECTORY, empty_directory

KEEPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
HEAD, TAIL = 6 << 20, 2 << 20  # bytes of each output that are kept, from its beginning and from its end
MOST_READ = 256 << 20  # bytes of output after which a program is ended: it would never stop
MOST_FILES, MOST_CONTENT = 64, 32 << 20  # files of the result directory that are read, and bytes of all together
AFTERWARDS = 2.0  # seconds for the rest of the output, once all processes are gone that this user may end
LEFT_OUT = b"\n[husk left out %d bytes here]\n"
# What a runtime may need of the caller's environment; programs that run natively get none of it.
_FOR_RUNTIMES = (
    "HOME", "USER", "LOGNAME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "HUSK_STORE", "DOCKER_HOST", "CONTAINER_HOST",
    "TERM",
)  # fmt: skip


class Stopping:
    """Ends units before their time, from another thread."""

    def __init__(self) -> None:
        self._lock, self._controls, self._stopped = threading.Lock(), set[int](), False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for fd in self._controls:
                with contextlib.suppress(OSError):
                    os.write(fd, b"x")

    @contextlib.contextmanager
    def over(self, control: int) -> Iterator[None]:
        """While a unit runs whose keeper reads the other end of `control`."""
        with self._lock:
            self._controls.add(control)
            if self._stopped:
                os.write(control, b"x")
        try:
            yield
        finally:
            with self._lock:
                self._controls.discard(control)


@dataclass(frozen=True)
class Account:
    """As which user a program runs; `groups` is None where nothing has to change."""

    uid: int
    gid: int
    groups: tuple[int, ...] | None
    home: str = ""


def account(user: str) -> Account:
    """A name, a number, or two numbers `UID:GID`; empty: the caller."""
    if not user:
        return Account(os.geteuid(), os.getegid(), None, os.environ.get("HOME", ""))
    first, _, second = user.partition(":")
    if first.isdecimal() and (not second or second.isdecimal()):
        found = Account(int(first), int(second or first), (int(second or first),), "/")
    else:
        try:
            entry = pwd.getpwnam(user)
        except (KeyError, ValueError):
            raise UsageError(f"--user {user}: there is no such user; name one, or give UID:GID.") from None
        groups = tuple(os.getgrouplist(user, entry.pw_gid))
        found = Account(entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)
    if found.uid == os.geteuid():
        return Account(found.uid, found.gid, None, found.home)
    if os.geteuid() != 0:
        raise UsageError(f"--user {user}: only root can run programs as another user.")
    return found


def run_unit(unit: Unit, where: Where, stopping: Stopping | None = None) -> Ended:
    """Safe to call from several threads. UsageError: the runtime cannot be started. A program that cannot be started
    ends with code 126 or 127 and says why on stderr."""
    who = account(where.user)
    with _Keeper() as keeper, _directories(who, keeper.place):
        return _run(unit, where, who, keeper, stopping or Stopping())


class _Keeper:
    """keeper.py as a child, which removes `place` in the end if this process does not."""

    def __init__(self) -> None:
        self.place = f"{os.path.realpath(tempfile.gettempdir())}/hc-{os.urandom(6).hex()}"
        answered, answer = os.pipe2(os.O_CLOEXEC)
        self.answers = open(answered, "rb")  # noqa: SIM115  __exit__ closes it
        try:
            # A descriptor number of the child's choice would have to be free there: it inherits this one as it is.
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", KEEPER, self.place, str(answer)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, pass_fds=(answer,),
            )  # fmt: skip
        except BaseException:
            self.answers.close()
            raise
        finally:
            os.close(answer)
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.control, self.out, self.err = self.process.stdin, self.process.stdout, self.process.stderr

    def send(self, order: dict[str, Any]) -> None:
        data = json.dumps(order).encode()
        data = b"%08d%s" % (len(data), data)
        with contextlib.suppress(BrokenPipeError):  # it was killed: there will be no answer
            while data:
                data = data[os.write(self.control.fileno(), data) :]

    def __enter__(self) -> _Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.close()
        with self.process:
            pass


def _run(unit: Unit, where: Where, who: Account, keeper: _Keeper, stopping: Stopping) -> Ended:
    place = keeper.place
    work, results = unit.directory or f"{place}/work", f"{place}/results"
    temporary = "/tmp" if where.is_husk else f"{place}/tmp"
    program = [_filled(word, results, temporary) for word in unit.argv]
    environment = tuple((name, _filled(value, results, temporary)) for name, value in unit.environment)
    environment = (*((name, value) for name, value in environment if name != "TMPDIR"), ("TMPDIR", temporary))
    writable = (f"{place}/work", results, *(() if where.is_husk else (temporary,)))
    read_only = tuple(dict.fromkeys(path for path in (*unit.shown, unit.directory) if path))
    command = where.command(program, Shown(read_only, writable, work, environment))
    if where.is_native:
        around = dict(environment)
    else:
        around = {name: os.environ[name] for name in _FOR_RUNTIMES if name in os.environ}
        around |= dict(environment) | {"HUSK_STATE": f"{place}/state"}
        if where.user:
            around["HOME"] = who.home
    keeper.send({
        "argv": command, "environment": around, "directory": work, "seconds": unit.timeout,
        "uid": who.uid, "gid": who.gid, "groups": who.groups, "polite": not where.is_native,
    })  # fmt: skip
    out, err = _Kept(keeper.out), _Kept(keeper.err)
    with stopping.over(keeper.control.fileno()):
        document, endless = _follow(keeper.answers, (out, err), keeper.control)
    if stopping.stopped:
        raise Stopped
    if "errno" in document:
        return _not_started(where, command[0], document["errno"])
    code = int(document.get("code", -9))
    if not where.is_native and code > 128:
        code = 128 - code  # a sandbox says 128 + n for a signal
    files, cut = _read_files(results)
    timed_out = bool(document.get("timed_out", False)) or endless
    return Ended(
        code, timed_out, float(document.get("seconds", 0.0)), out.content(), err.content(), files,
        cut or out.cut or err.cut,
    )  # fmt: skip


class Stopped(HuskError):
    """The unit was ended before its time, because the whole run ends."""


def _filled(word: str, results: str, temporary: str) -> str:
    return word.replace(RESULTS, results).replace(TEMPORARY, temporary)


def _not_started(where: Where, program: str, number: int) -> Ended:
    reason = os.strerror(number)
    if not where.is_native:
        hint = f"can the user {where.user} reach it?" if where.user else "is it installed?"
        raise UsageError(f"--under: {program!r} cannot be started: {reason}; {hint}")
    code = 127 if number == errno.ENOENT else 126
    return Ended(code, False, 0.0, b"", f"{program} cannot be started: {reason}\n".encode())


def _follow(answers: IO[bytes], outputs: tuple[_Kept, _Kept], control: IO[bytes]) -> tuple[dict[str, Any], bool]:
    """Read all that comes until the keeper is gone, and what it says in the end."""
    said, endless = b"", False
    with selectors.DefaultSelector() as selector:
        for one in outputs:
            selector.register(one.pipe, selectors.EVENT_READ, one)
        selector.register(answers, selectors.EVENT_READ)
        until: float | None = None
        while selector.get_map() and (until is None or time.monotonic() < until):
            for key, _ in selector.select(AFTERWARDS):
                if isinstance(key.data, _Kept):
                    if not key.data.read():
                        selector.unregister(key.fileobj)
                    elif key.data.size > MOST_READ and not endless:
                        endless = True
                        with contextlib.suppress(OSError):
                            os.write(control.fileno(), b"x")
                elif part := os.read(answers.fileno(), 1 << 16):
                    said += part
                else:
                    selector.unregister(answers)
                    until = time.monotonic() + AFTERWARDS
    try:
        return dict(json.loads(said)), endless
    except ValueError:  # it was killed: by the kernel for lack of memory, or by the program
        return {}, endless


class _Kept:
    """One output: its beginning and its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe, self.size = pipe, 0
        self._head, self._tail = bytearray(), bytearray()

    def read(self) -> bool:
        part = os.read(self.pipe.fileno(), 1 << 16)
        self.size += len(part)
        room = HEAD - len(self._head)
        self._head += part[:room]
        if len(part) > room:
            self._tail += part[max(room, 0) :]
            if len(self._tail) > 2 * TAIL:
                del self._tail[:-TAIL]
        return bool(part)

    @property
    def cut(self) -> bool:
        return self.size > HEAD + TAIL

    def content(self) -> bytes:
        if not self.cut:
            return bytes(self._head + self._tail)
        tail = bytes(self._tail[-TAIL:])
        return bytes(self._head) + LEFT_OUT % (self.size - len(self._head) - len(tail)) + tail


# -- directories -------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _directories(who: Account, place: str) -> Iterator[None]:
    """Short, for the paths of sockets are. The user of the programs may search it, and owns what is inside."""
    os.mkdir(place, 0o700)
    try:
        os.chmod(place, 0o711)
        for name in ("work", "results", "tmp", "state"):
            path = f"{place}/{name}"
            os.mkdir(path, 0o700 if name == "state" else 0o755)
            if who.groups is not None:
                os.chown(path, who.uid, who.gid)
        yield
    finally:
        _remove(place)


def _remove(place: str) -> None:
    """Whatever modes and links the program left. What root made there, or still writes, may stay."""
    with contextlib.suppress(OSError):
        top = os.open(place, DIRECTORY)
        try:
            empty_directory(top)
        finally:
            os.close(top)
        os.rmdir(place)


def _read_files(place: str) -> tuple[dict[str, bytes], bool]:
    """Regular files alone, by their path below `place`: a link could lead anywhere, and a FIFO would block."""
    found: dict[str, bytes] = {}
    room, cut = MOST_CONTENT, False
    for folder, folders, names, place_fd in os.fwalk(place):
        folders.sort()
        for name in sorted(names):
            if len(found) == MOST_FILES:
                return found, True
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                fd = os.open(name, flags, dir_fd=place_fd)
            except OSError:
                continue
            with open(fd, "rb") as file:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    path = os.path.relpath(os.path.join(folder, name), place)
                    found[path] = file.read(room)
                    room -= len(found[path])
                    cut = cut or bool(file.read(1))
    return found, cut
