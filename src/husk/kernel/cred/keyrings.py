"""kernel/cred: the key rings of a box. Keys, what links them, who possesses what, and Linux's rules for both.

All of it is husk's own memory: no key of the host's can be named, and none of the guest's reaches the host. Bounded as
Linux bounds a user. Not here: decoding calls (`syscalls/keys`).

Linux keeps a session key ring for each thread and hands it down at clone, which husk does not see. A thread that husk
has not met has the ring of the thread of its process that joined one last and still lives. That is wrong only for a
thread whose maker had another ring than the latest joiner. Processes inherit by their tag (`inherited`).
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from husk.kernel.tasks import arguments_at, stat_fields
from husk.vfs.synth.synth_tree import read_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.cred.inherited import Inherited

    Holder = tuple[int, int]  # number, and when it began: numbers are used again

MAX_KEYS, MAX_BYTES = 200, 20000  # Linux's own limits for a user (kernel/keys/maxkeys, maxbytes)
DEEPEST = 6  # nested rings
VIEW, READ, WRITE, SEARCH, LINK, SETATTR = 1, 2, 4, 8, 16, 32
POSSESSOR, USER = 24, 16  # where the bits of each class begin; a box has one user, so group and other never count
ALL = 0x3F
RING_OF_USER = (ALL & ~SETATTR) << POSSESSOR | ALL << USER
RING_OF_PROCESS = ALL << POSSESSOR | VIEW << USER
RING_OF_SESSION = ALL << POSSESSOR | (VIEW | READ) << USER
NAMED_SESSION = RING_OF_SESSION | LINK << USER
DEFAULT = (VIEW | SEARCH | LINK | SETATTR) << POSSESSOR | VIEW << USER
THREAD_RING, PROCESS_RING, SESSION_RING, USER_RING, USER_SESSION_RING, GROUP_RING = range(-1, -7, -1)
SESSION = "session_keyring"


class Key:
    """`links` is None for what is no ring; by type and description: a ring holds one key of a kind and name."""

    __slots__ = ("description", "expires", "gid", "invalid", "links", "payload", "perm", "revoked", "serial", "type",
                 "uid")  # fmt: skip

    def __init__(self, serial: int, kind: bytes, description: bytes, owner: tuple[int, int], perm: int) -> None:
        self.serial, self.type, self.description, self.perm = serial, kind, description, perm
        self.uid, self.gid = owner
        self.payload, self.expires, self.revoked, self.invalid = b"", 0.0, False, False
        self.links: dict[tuple[bytes, bytes], Key] | None = {} if kind == b"keyring" else None

    def size(self) -> int:
        return len(self.description) + 1 + len(self.payload) + 4 * len(self.links or ())

    def validate(self) -> None:
        if self.invalid:
            raise OSError(errno.ENOKEY, "the key is gone")
        if self.revoked:
            raise OSError(errno.EKEYREVOKED, "the key was revoked")
        if self.expires and time.monotonic() >= self.expires:
            raise OSError(errno.EKEYEXPIRED, "the key has expired")

    def ring(self) -> dict[tuple[bytes, bytes], Key]:
        if self.links is None:
            raise OSError(errno.ENOTDIR, "not a key ring")
        return self.links

    def allows(self, need: int, *, possessed: bool) -> bool:
        granted = self.perm >> USER | (self.perm >> POSSESSOR if possessed else 0)
        return not need & ~granted


class Caller:
    """Who asks: a thread, its process, and the program that the process runs (execve drops its rings)."""

    __slots__ = ("process", "program", "tgid", "thread", "tid")

    def __init__(self, tid: int, tgid: int) -> None:
        self.tid, self.tgid = tid, tgid
        self.thread = _born(tid)
        self.process = self.thread if tid == tgid else _born(tgid)
        self.program = self.process, arguments_at(tgid)


class Keyrings:
    """Every method is called with `lock` held."""

    __slots__ = ("_inherited", "_joins", "_keys", "_owner", "_process_rings", "_sessions", "_thread_rings", "_user",
                 "lock")  # fmt: skip

    def __init__(self, inherited: Inherited, owner: tuple[int, int]) -> None:
        self.lock, self._inherited, self._owner = _thread.allocate_lock(), inherited, owner
        self._keys: dict[int, Key] = {}
        self._sessions: dict[tuple[int, Holder], tuple[int, int]] = {}  # (process, thread) -> serial, when it joined
        self._joins = 0
        self._process_rings: dict[tuple[Holder, int], Key] = {}
        self._thread_rings: dict[Holder, Key] = {}
        user = self._make(b"keyring", b"_uid.%d" % owner[0], RING_OF_USER)
        self._user = user, self._make(b"keyring", b"_uid_ses.%d" % owner[0], RING_OF_USER)
        self.link(user, self._user[1])

    # -- keys ----------------------------------------------------------------------------------------------------------
    def _make(self, kind: bytes, description: bytes, perm: int) -> Key:
        serial = 0
        while serial < 3 or serial in self._keys:
            serial = int.from_bytes(os.urandom(4), "little") & 0x7FFFFFFF
        made = self._keys[serial] = Key(serial, kind, description, self._owner, perm)
        return made

    def make(self, kind: bytes, description: bytes, perm: int, payload: bytes = b"") -> Key:
        """EDQUOT where the box has too many."""
        self.room_for(len(description) + 1 + len(payload), keys=1)
        key = self._make(kind, description, perm)
        key.payload = payload
        return key

    def room_for(self, more: int, *, keys: int = 0) -> None:
        for attempt in range(2):
            if len(self._keys) + keys <= MAX_KEYS and sum(map(Key.size, self._keys.values())) + more <= MAX_BYTES:
                return
            if not attempt:
                self.sweep()
        raise OSError(errno.EDQUOT, f"a box has at most {MAX_KEYS} keys, of {MAX_BYTES} bytes")

    def link(self, key: Key, ring: Key) -> None:
        if key.links is not None:
            self._no_cycle(key, ring)
        ring.ring()[key.type, key.description] = key

    def _no_cycle(self, below: Key, ring: Key) -> None:
        level = [below]
        for _ in range(DEEPEST):
            if ring in level:
                raise OSError(errno.EDEADLK, "a ring would hold itself")
            level = [key for one in level for key in (one.links or {}).values() if key.links is not None]
            if not level:
                return
        raise OSError(errno.ELOOP, "rings are nested too deeply")

    def sweep(self) -> None:
        """Forget keys that nothing leads to."""
        self._forget_dead()
        held = [*self._user, *self._process_rings.values(), *self._thread_rings.values()]
        serials = {serial for serial, _ in self._sessions.values()}
        serials |= {attributes[SESSION] for attributes in self._inherited.in_use() if SESSION in attributes}
        held += [key for serial in serials if (key := self._keys.get(serial)) is not None]
        reached: dict[int, Key] = {}
        while held:
            key = held.pop()
            if key.serial not in reached and not key.invalid:
                reached[key.serial] = key
                held += (key.links or {}).values()
        for key in reached.values():
            if key.links is not None:
                key.links = {name: one for name, one in key.links.items() if not one.invalid}
        self._keys = reached

    def _forget_dead(self) -> None:
        for place in [place for place in self._sessions if not _lives(place[1])]:
            del self._sessions[place]
        for thread in [thread for thread in self._thread_rings if not _lives(thread)]:
            del self._thread_rings[thread]
        for program in [program for program in self._process_rings if not _lives(program[0])]:
            del self._process_rings[program]

    # -- rings of the caller -------------------------------------------------------------------------------------------
    def session(self, caller: Caller) -> Key | None:
        """None: the caller has none, and uses its user's."""
        serial = self._session_serial(caller.tgid, caller.thread)
        return self._keys.get(serial)

    def _session_serial(self, tgid: int, thread: Holder) -> int:
        found = self._sessions.get((tgid, thread))
        if found is None:
            joined = [(when, serial, one) for (group, one), (serial, when) in self._sessions.items() if group == tgid]
            for _, serial, one in sorted(joined, reverse=True):
                if _lives(one):
                    return serial
            return self._inherited_serial(tgid)
        return found[0]

    def _inherited_serial(self, tgid: int) -> int:
        """The ring of the thread that made the process, where that can still be told; else that of its tag, which is
        the one that was joined last in the parent when the process was made."""
        serial = self._inherited.of(tgid).get(SESSION, 0)
        parent = int(stat_fields(tgid)[1])
        rings = {thread: ring for (group, thread), (ring, _) in self._sessions.items() if group == parent}
        if rings and self._inherited.of(parent).get(SESSION, 0) == serial:  # it has joined none since then
            for thread, ring in rings.items():
                if tgid in _children(parent, thread):
                    self._inherited.change(tgid, **{SESSION: ring})
                    return ring
        return serial

    def join(self, caller: Caller, ring: Key) -> None:
        """From now on it is the caller's session ring, and that of its threads and children to come."""
        self._forget_dead()
        for thread in _threads(caller.tgid):  # those that are there keep what they have
            if (caller.tgid, thread) not in self._sessions:
                self._sessions[caller.tgid, thread] = self._session_serial(caller.tgid, thread), 0
        self._joins += 1
        self._sessions[caller.tgid, caller.thread] = ring.serial, self._joins
        self._inherited.change(caller.tgid, **{SESSION: ring.serial})

    def named_session(self, name: bytes) -> Key | None:
        """A ring of this name that any process of the user may search."""
        self.sweep()
        for key in self._keys.values():
            if key.links is not None and key.description == name and key.allows(SEARCH, possessed=False):
                return None if key.revoked else key
        return None

    def own(self, caller: Caller, number: int, *, create: bool) -> Key:
        """The ring that a special number stands for."""
        if number == THREAD_RING:
            return self._thread_rings.get(caller.thread) or self._new_thread_ring(caller, create=create)
        if number == PROCESS_RING:
            return self._process_rings.get(caller.program) or self._new_process_ring(caller, create=create)
        if number == SESSION_RING:
            return self._own_session(caller, create=create)
        if number == USER_RING:
            return self._user[0]
        if number == USER_SESSION_RING:
            return self._user[1]
        raise OSError(errno.EINVAL if number == GROUP_RING or number < -8 else errno.ENOKEY, "no such ring")

    def _new_thread_ring(self, caller: Caller, *, create: bool) -> Key:
        _wanted(create=create)
        return self._thread_rings.setdefault(caller.thread, self.make(b"keyring", b"_tid", RING_OF_PROCESS))

    def _new_process_ring(self, caller: Caller, *, create: bool) -> Key:
        _wanted(create=create)
        return self._process_rings.setdefault(caller.program, self.make(b"keyring", b"_pid", RING_OF_PROCESS))

    def _own_session(self, caller: Caller, *, create: bool) -> Key:
        found = self.session(caller)
        if found is not None:
            return found
        if not create:
            return self._user[1]
        made = self.make(b"keyring", b"_ses", RING_OF_SESSION)
        self.join(caller, made)
        return made

    def roots(self, caller: Caller) -> list[Key]:
        """Where a caller's search begins."""
        rings = self._thread_rings.get(caller.thread), self._process_rings.get(caller.program)
        return [ring for ring in (*rings, self.session(caller) or self._user[1]) if ring is not None]

    # -- finding -------------------------------------------------------------------------------------------------------
    def look_up(self, caller: Caller, number: int, need: int, *, create: bool = False, partial: bool = False) -> Key:
        """The key of a number. ENOKEY, its state unless `partial`, then EACCES, in Linux's order."""
        key, possessed = self.find(caller, number, create=create)
        if not partial:
            key.validate()
        if not key.allows(need, possessed=possessed):
            raise OSError(errno.EACCES, "the key's permissions forbid it")
        return key

    def find(self, caller: Caller, number: int, *, create: bool = False) -> tuple[Key, bool]:
        """The key, and whether the caller possesses it."""
        if number < 0:
            return self.own(caller, number, create=create), True
        key = self._keys.get(number)
        if number == 0:
            raise OSError(errno.EINVAL, "no key has this number")
        if key is None or key.invalid:
            raise OSError(errno.ENOKEY, "no such key")
        return key, any(one is key for root in self.roots(caller) for one in _below(root, possessed=True))

    def search(self, ring: Key, kind: bytes, description: bytes, *, possessed: bool) -> Key:
        """ENOKEY, or why the key that was found cannot be used."""
        problem: OSError | None = None
        for key in _below(ring, possessed=possessed):
            if (key.type, key.description) != (kind, description):
                continue
            try:
                key.validate()
            except OSError as state:
                problem = problem or state
                continue
            if key.allows(SEARCH, possessed=possessed):
                return key
            problem = OSError(errno.EACCES, "the key's permissions forbid it")
        raise problem or OSError(errno.ENOKEY, "no such key")


def _below(root: Key, *, possessed: bool) -> list[Key]:
    """The ring, and every key that a search from it comes to."""
    found, level = [root], [root]
    for _ in range(DEEPEST):
        rings = [one for one in level if one.links is not None and one.allows(SEARCH, possessed=possessed)]
        level = [key for one in rings for key in (one.links or {}).values() if key not in found]
        found += level
    return found


def _wanted(*, create: bool) -> None:
    if not create:
        raise OSError(errno.ENOKEY, "the caller has no such ring")


# -- tasks, as the host shows them -------------------------------------------------------------------------------------
def _born(host_tid: int) -> Holder:
    return host_tid, int(stat_fields(host_tid)[19])


def _lives(holder: Holder) -> bool:
    try:
        fields = stat_fields(holder[0])
    except OSError:
        return False
    return int(fields[19]) == holder[1] and fields[0] not in (b"X", b"Z")


def _children(tgid: int, thread: Holder) -> list[int]:
    try:
        return [int(word) for word in read_host(b"/proc/%d/task/%d/children" % (tgid, thread[0])).split()]
    except OSError:
        return []


def _threads(tgid: int) -> list[Holder]:
    found = []
    try:
        for name in os.listdir(b"/proc/%d/task" % tgid):
            found.append(_born(int(name)))
    except OSError:
        pass  # one of them, or all, ended meanwhile
    return found
