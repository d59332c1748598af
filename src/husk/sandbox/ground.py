"""sandbox: what the runs of one box share — its directory on the host, its file system, its namespaces, its identity.

Life: built once behind walls that stand, used by one run or by many, side by side too, closed once. Not here: starting
anything (`run`), and what a caller sees of it (`box`, `husk.api`).
"""

from __future__ import annotations

import os
from _thread import RLock

from husk.kernel.kernel import Shared
from husk.kernel.namecache import NameCache
from husk.kernel.net.network import Network
from husk.kernel.net.peers import Peers
from husk.kernel.net.unix_sockets import UnixSockets
from husk.kernel.tasks import Tasks, TasksHere
from husk.native import LOADER
from husk.native._core import Listener
from husk.sandbox.errors import NoNamespaces, missing
from husk.sandbox.filesystem import build
from husk.sandbox.policy import WORKDIR
from husk.sandbox.state_dir import StateDir
from husk.sandbox.stdio.std_fds import fill
from husk.walls.filter import compile_filter
from husk.walls.ids import Ids, may_switch_user
from husk.walls.landlock import SCOPES_SIGNALS
from husk.walls.namespaces import JOINED, walls_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from husk.abi.registry.rules import Walls
    from husk.kernel.events import Events
    from husk.kernel.exec.allowed_programs import AllowedPrograms
    from husk.kernel.segments import Segments
    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import ImageSource, Unnamed
    from husk.sandbox.kept.box_content import BoxContent
    from husk.sandbox.kept.keeping import Keeping
    from husk.sandbox.kept.snapshot import Snapshot
    from husk.sandbox.limits.memory_use import InMemory
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.vfs.node import Node

    T = TypeVar("T")


class Ground:
    """`files` is the file system, `live` are the tasks of the runs under way."""

    __slots__ = (
        "_learned",
        "_names",
        "_segments",
        "_sockets",
        "cookie",
        "disk_elsewhere",
        "events",
        "files",
        "filter",
        "ids",
        "joined",
        "kept",
        "live",
        "loader_fd",
        "network",
        "peers",
        "policy",
        "programs",
        "source",
        "start",
        "state",
        "tasks",
        "walls",
    )

    def __init__(
        self,
        policy: Policy,
        walls: Walls,
        unnamed: Unnamed | None = None,
        *,
        start: Snapshot | None = None,
        kept: Keeping | None = None,
        lasting: bool = False,
    ) -> None:
        """`unnamed` is what to start from instead of the image the policy names; `start` a snapshot to begin with, the
        ground's to close from now on; `kept` the hold of a kept box that was open before. `lasting`: its changes may be
        applied to the host while it lives."""
        fill()
        self.policy, self.walls = policy, walls
        self.live: list[Tasks] = []
        self.joined: list[int] = []
        self.events: Events | None = None  # of the run that began last: who is told what concerns no run in particular
        self.network: Network = Network()
        self.peers: Peers | None = None
        self._names: NameCache | None = None
        self._segments: Segments | None = None
        self.loader_fd = -1
        self.source: ImageSource | None = None
        self.start, self.kept = start, kept
        self.state: StateDir | None = None
        try:
            self.state = StateDir()
            if policy.keep and kept is None:
                from husk.sandbox.kept.keeping import Keeping

                self.kept = Keeping(policy, start.record if start is not None else None)
            self._build(self.state, unnamed, lasting)
        except BaseException:
            if kept is not None:
                self.kept = None  # still the caller's
            self.close()
            raise

    @property
    def before(self) -> BoxContent | None:
        """What the box began with, beyond its image."""
        return self.kept if self.kept is not None else self.start

    def _build(self, state: StateDir, unnamed: Unnamed | None, lasting: bool) -> None:
        policy, walls, before = self.policy, self.walls, self.before
        if policy.image:
            from husk.sandbox.image_source import ImageSource

            pinned = next((one.record for one in (before, self.start) if one and one.record.manifests), unnamed)
            self.source = ImageSource(policy.image, policy.store, pinned)
            policy.adopt(self.source)
        wanted = (self.source.uid, self.source.gid) if self.source and not self.source.on_host else None
        self.ids = Ids(user_namespace=walls.user, keep_user="user" in policy.weaken, wanted=wanted)
        policy.workdir = policy.workdir or WORKDIR
        self.tasks = TasksHere(Tasks(walls.pid))
        if self.kept is not None:
            self.kept.begin(policy, self.source)
        self.files: Files = build(
            policy, os.fsencode(state.path), self.ids, self.tasks, self.source, before, remember=lasting
        )
        self.files.vfs.text_busy = self._runs
        self.files.vfs.held_links = self._held_links
        self.disk_elsewhere = 0  # what `disk` counts beyond the state directory, in which husk's own files do not count
        if policy.limits["disk"] is not None:
            from husk.sandbox.limits.disk_use import kept_bytes

            self.disk_elsewhere = (before.record.bytes if before else 0) - kept_bytes(os.fsencode(state.path))
        self.programs: AllowedPrograms | None = None
        if policy.programs is not None:
            from husk.kernel.exec.allowed_programs import AllowedPrograms

            path = policy.environment().get("PATH", "")
            self.programs = AllowedPrograms(self.files.vfs, map(os.fsencode, policy.programs), os.fsencode(path))
        self._sockets = UnixSockets(own_abstract_names=walls.net)
        # What marks husk's own calls is each box's secret, and is in every filter of the box.
        self.cookie = int.from_bytes(os.urandom(8), "little")
        self.filter = compile_filter(walls, self.cookie)
        self.loader_fd = os.open(LOADER, os.O_RDONLY | os.O_CLOEXEC)

    def begin(self, events: Events, diagnosis: int, state: int) -> None:
        """A run was launched. The first one brings a diagnosis socket, and the state directory as its mount namespace
        shows it (or -1)."""
        self.events = events
        if state >= 0:
            self.files.vfs.state.move(state)
        if self.peers is None:
            self.peers = Peers(diagnosis)
        elif diagnosis >= 0:
            os.close(diagnosis)

    def connect(self, events: Events) -> None:
        """Before the first run: what is outside, where the policy wants any of it."""
        self.events = events
        if self.network.__class__ is Network and not self.walls.private_net:
            from husk.sandbox.network_setup import build_network

            self.network = build_network(self.policy, self)

    def refused(self, by: str, error: str, what: str, why: str, allow: str) -> None:
        if self.events is not None:
            self.events.refused(by, error, what, why, allow)

    def published(self, host: str, guest_port: int) -> None:
        if self.events is not None:
            self.events.published(host, guest_port)

    def listener(self, fd: int, *, cached: bool) -> Listener:
        """The listener of a run. What one run's name cache has learned, the others know."""
        mapped, confined = not self.walls.private_net, self.walls.private_net and self.walls.own_placeholders
        if not cached:
            return Listener(fd, self.cookie, self.loader_fd, False, mapped, confined)
        if self._names is None:
            ids, creds = self.ids, self.files.creds
            self._learned = Listener(-1, self.cookie, self.loader_fd)  # listens to nobody: it only holds the cache
            self._names = NameCache(
                self._learned, self.files.vfs, creds.uid, creds.gid, ids.host_uid, sorted(creds.groups), cached=True
            )
            if self.before is not None and any(tree.links_touched for _, tree in self.files.layers):
                self.files.vfs.changed(self.files.vfs.root, True)  # it must not ask the host about hard links
        return Listener(fd, self.cookie, self.loader_fd, True, mapped, confined, self._learned)

    def shared(self, *, cached: bool) -> Shared:
        assert self.peers is not None
        return Shared(self.tasks, self._sockets, self.peers, self._names if cached else None, self._shared_memory)

    def _shared_memory(self) -> Segments:
        with self.files.vfs.lock:  # two threads may be the first
            if self._segments is None:
                from husk.kernel.segments import Segments

                self._segments = Segments(self.live)
            return self._segments

    def segments_in_memory(self) -> InMemory:
        """Shared memory that stays though nobody may have it attached."""
        return self._segments.in_memory() if self._segments is not None else {}

    @property
    def own_user(self) -> bool:
        """Does the host count the box's processes apart from the caller's?"""
        return self.ids.switch or self.walls.user

    def keep_namespaces(self, reaper: int) -> None:
        """Those of the first run outlive it: later ones join them."""
        if self.walls.user and not self.joined:
            found: list[int] = []
            try:
                for kind in JOINED:
                    found.append(os.open(f"/proc/{reaper}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                for fd in found:
                    os.close(fd)
                raise
            self.joined = found

    def _runs(self, node: Node) -> bool:
        vfs = self.files.vfs
        identity = vfs.identity(vfs.context, node)
        return any(tasks.runs(identity) for tasks in self.live)

    def _held_links(self) -> set[bytes]:
        from husk.kernel.fd_tables import links_held

        return links_held([tasks.reaper for tasks in self.live])

    def keep(self, argv: list[str], result: Result) -> None:
        """After the last run, where the policy wants it: what the box is now is to stay."""
        if self.kept is not None and self.state is not None:
            policy = self.policy.again()
            policy.argv = argv
            self.kept.keep(self.state, self.files, policy, result)

    def close(self) -> None:
        """After the last run. Nothing of the box is left, but what was kept."""
        self._let_go()
        if self.source is not None:
            self.source.close()
            self.source = None
        if self.state is not None:
            self.state.remove()
            self.state = None
        if self.kept is not None:
            self.kept.close()
            self.kept = None
        if self.start is not None:
            self.start.close()
            self.start = None

    def forget(self) -> None:
        """In a forked child: the box is the parent's. A lock that another thread held while the parent forked is held
        for ever here, so none of the old ones is taken."""
        self.files.vfs.lock = RLock()
        self._let_go()
        if self.state is not None:
            self.state.forget()
            self.state = None
        for held in (self.start, self.kept):
            if held is not None:
                held.forget()
        self.start = self.kept = None

    def _let_go(self) -> None:
        for fd in [*self.joined, *([self.loader_fd] if self.loader_fd >= 0 else [])]:
            os.close(fd)
        self.joined, self.loader_fd = [], -1
        self.network.close()
        if self._segments is not None:
            self._segments.close()
        if self.peers is not None:
            self.peers.close()
        files = getattr(self, "files", None)
        if files is not None:
            files.close()


def behind_walls(policy: Policy, attempt: Callable[[Walls], T]) -> T:
    """`attempt` behind the best walls that stand; NoNamespaces makes it try again without them, if that will do."""
    policy.check_net()
    if not os.access("/proc/self/status", os.R_OK):
        raise missing("proc")
    weaken, outside = policy.weaken, policy.outside
    walls = walls_here(namespaces=policy.namespaces and "namespaces" not in weaken, outside=outside)
    if not walls.landlock:
        raise missing("landlock")
    denied = "they were not wanted"
    if walls.pid:
        try:
            return attempt(walls)
        except NoNamespaces as error:
            denied = str(error)
            walls = walls_here(namespaces=False, outside=outside)
    if walls.landlock < SCOPES_SIGNALS and "signals" not in weaken:
        raise missing("signals", f"no namespaces, {denied}; Landlock ABI {walls.landlock}")
    if os.geteuid() == 0 and "user" not in weaken and (lacking := may_switch_user(user_namespace=False)):
        raise missing("user", f"{lacking} is missing; no namespaces, {denied}")
    return attempt(walls)


def weakened(policy: Policy, walls: Walls) -> list[str]:
    """Of what the caller allowed to be missing, what is."""
    lacks = {
        "namespaces": not walls.pid,
        "signals": not walls.pid and walls.landlock < SCOPES_SIGNALS,
        "user": os.geteuid() == 0,
    }
    return [name for name in lacks if name in policy.weaken and lacks[name]]
