"""sandbox: the second phase of a start: the box. It is what its runs share: its directory on the host, its file system,
its namespaces, its identity, its network.

Life: built once from a plan, used by one run or by many, also side by side, closed once. Not here: starting anything
(`launch`, `serve`), and what a caller sees of it (`runner`, `husk.api`).
"""

from __future__ import annotations

import os

from husk.kernel.exec.program_names import ProgramNames
from husk.kernel.identity import Identity
from husk.kernel.kernel import Shared
from husk.kernel.namecache import NameCache
from husk.kernel.tasks import LiveRuns
from husk.native import LOADER
from husk.native._core import Listener
from husk.sandbox.filesystem import build, furnish
from husk.sandbox.policy import WORKDIR
from husk.sandbox.start.orders import own_user
from husk.sandbox.state_dir import StateDir
from husk.sandbox.stdio.std_fds import open_missing_std_fds
from husk.walls.namespaces import JOINED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.events import Events
    from husk.kernel.exec.allowed_programs import AllowedPrograms
    from husk.kernel.net.network import Network
    from husk.kernel.recorder import Recorder
    from husk.sandbox.filesystem import Files
    from husk.sandbox.image_source import ImageSource, Unnamed
    from husk.sandbox.kept.box_content import BoxContent
    from husk.sandbox.kept.keeping import Keeping
    from husk.sandbox.kept.snapshot import Snapshot
    from husk.sandbox.launch import Guest
    from husk.sandbox.limits.memory_use import InMemory
    from husk.sandbox.plan import Plan
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.start.launch_ahead import Ahead
    from husk.walls.ids import Ids


class Box:
    """`files` is the file system, `live` are the runs under way."""

    __slots__ = (
        "_gone",
        "_learned",
        "_names",
        "_network",
        "_root",
        "_shared",
        "_told",
        "disk_elsewhere",
        "files",
        "ids",
        "joined",
        "kept",
        "live",
        "loader_fd",
        "plan",
        "policy",
        "ports",
        "programs",
        "source",
        "start",
        "state",
        "walls",
    )

    def __init__(
        self,
        plan: Plan,
        unnamed: Unnamed | None = None,
        *,
        start: Snapshot | None = None,
        kept: Keeping | None = None,
        lasting: bool = False,
        bare: bool = False,
        ahead: Ahead | None = None,
    ) -> None:
        """`unnamed` replaces the image that the policy names. `start` is a snapshot to begin with; the box closes it.
        `kept` is the hold of a kept box that was open before; it stays the caller's if this fails. `lasting`: changes
        may be applied to the host while the box lives. `bare`: it gets its mounts by `furnish`. `ahead`: what has been
        begun of it, with the same plan."""
        open_missing_std_fds()
        self.plan, self.policy, self.walls = plan, plan.policy, plan.walls
        self._gone = False  # it holds nothing any more
        self.live = LiveRuns()
        self.joined: list[int] = []  # descriptors of its namespaces, once they have to outlive their first run
        self._told: Events | None = None  # of the run that began last: told what concerns no run in particular
        self.ports: list[tuple[str, int]] = []  # of the host, each with the port of the box that it leads to
        self._network: Network | None = None
        self._shared: Shared | None = None
        self._names: NameCache | None = None
        self.loader_fd = self._root = -1
        self.source: ImageSource | None = None
        self.start, self.kept = start, kept
        self.state: StateDir | None = None
        try:
            if ahead is not None:
                self.state, self.loader_fd = ahead.take_box()
            else:
                self.state = StateDir()
            if plan.policy.keep and kept is None:
                from husk.sandbox.kept.keeping import Keeping

                self.kept = Keeping(plan.policy, start.record if start is not None else None)
            self._build(self.state, unnamed, ahead.ids if ahead else None, lasting=lasting, bare=bare)
        except BaseException:
            if kept is not None:
                self.kept = None
            self.close()
            raise

    @property
    def before(self) -> BoxContent | None:
        """What the box began with, beyond its image."""
        return self.kept if self.kept is not None else self.start

    def _build(
        self, state: StateDir, unnamed: Unnamed | None, given: Ids | None, *, lasting: bool, bare: bool
    ) -> None:
        policy, before = self.policy, self.before
        if policy.image:
            from husk.sandbox.image_source import ImageSource

            pinned = next((one.record for one in (before, self.start) if one and one.record.manifests), unnamed)
            self.source = ImageSource(policy.image, policy.store, pinned)
            policy.adopt(self.source)
        if before is not None:
            self.plan = self.plan.settled()
            self.walls = self.plan.walls
        wanted = (self.source.uid, self.source.gid) if self.source and not self.source.on_host else None
        self.ids = given or self.plan.ids(wanted)
        policy.workdir = policy.workdir or WORKDIR
        if self.kept is not None:
            self.kept.begin(policy, self.source)
        self.files: Files = build(
            policy, os.fsencode(state.path), self.ids, self.live, self.source, before, remember=lasting, bare=bare
        )
        self.disk_elsewhere = 0  # what `disk` counts beyond the state directory, in which husk's own files do not count
        if policy.limits["disk"] is not None:
            from husk.sandbox.limits.disk_use import used_bytes

            self.disk_elsewhere = (before.record.bytes if before else 0) - used_bytes(os.fsencode(state.path))
        self.programs: AllowedPrograms | None = None
        if policy.programs is not None:
            from husk.kernel.exec.allowed_programs import AllowedPrograms

            path = policy.environment().get("PATH", "")
            self.programs = AllowedPrograms(self.files.vfs, map(os.fsencode, policy.programs), os.fsencode(path))
        if self.loader_fd < 0:
            self.loader_fd = os.open(LOADER, os.O_RDONLY | os.O_CLOEXEC)

    def furnish(self, policy: Policy) -> None:
        """A bare box is to run what this policy says, which `Policy.fits_usual_box`."""
        policy.workdir = policy.workdir or WORKDIR
        self.policy = policy
        furnish(self.files, policy, self.ids)

    # -- runs ------------------------------------------------------------------------------------------------------
    def admit(
        self, guest: Guest, events: Events, *, cached: bool, recorder: Recorder | None
    ) -> tuple[Shared, Listener, NameCache | None]:
        """A guest stands behind its filter: what its kernel needs. The first guest brings what only its namespaces
        can give: a diagnosis socket, and the state directory as its mount namespace shows it."""
        self.follow(events)
        for device in self.policy.devices:
            events.passed(device.name)
        if guest.state >= 0:
            self.files.vfs.state.move(guest.take_state())
        if self._root < 0:
            self._root = guest.take_root()
        if self._shared is None:
            self._shared = self._share(guest)
        listener, names = self._listen(guest.take_listener(), recorder, cached=cached)
        return self._shared, listener, names

    def follow(self, events: Events) -> None:
        """The run of these events began last."""
        self._told = events

    def refused(self, by: str, error: str, what: str, why: str, allow: str) -> None:
        if self._told is not None:
            self._told.refused(by, error, what, why, allow)

    def published(self, host: str, guest_port: int) -> None:
        self.ports.append((host, guest_port))
        if self._told is not None:
            self._told.published(host, guest_port)

    def requested(self, method: str, url: str, status: int) -> None:
        if self._told is not None:
            self._told.requested(method, url, status)

    def _share(self, guest: Guest) -> Shared:
        if self._network is None and not self.walls.private_net:
            from husk.sandbox.network_setup import build_network

            self._network = build_network(self.policy, self)
        ids, files, program_names = self.ids, self.files, None
        if self._root >= 0:
            assert self.state is not None
            program_names = ProgramNames(self._root, ids.host_uid, ids.host_gid, os.fsencode(self.state.path))
        return Shared(
            files.vfs,
            files.tasks,
            self.live,
            files.creds,
            Identity(ids.uid, ids.gid, ids.host_uid, ids.host_gid),
            self.walls,
            self._network,
            diagnosis=guest.take_diagnosis(),
            loader_fd=self.loader_fd,
            programs=self.programs,
            program_names=program_names,
            disk_is_limited=self.policy.limits["disk"] is not None,
        )

    def _listen(self, fd: int, recorder: Recorder | None, *, cached: bool) -> tuple[Listener, NameCache | None]:
        """What the name cache of one run has learned, the others know."""
        cookie, walls = self.plan.cookie, self.walls
        mapped, confined = not walls.private_net, walls.private_net and walls.own_placeholders
        if recorder is not None:
            return Listener(fd, cookie, self.loader_fd, False, mapped, confined, recorder=recorder.core), None
        if not cached:
            return Listener(fd, cookie, self.loader_fd, False, mapped, confined), None
        if self._names is None:
            self._learned = Listener(-1, cookie, self.loader_fd)  # without a guest: it only holds the cache
            files = self.files
            self._names = NameCache(self._learned, files.vfs, files.creds, self.ids.host_uid, cached=True)
            if self.walls.direct:
                self._names.show_usr(self._root)
            if self.before is not None and any(tree.hard_links_changed for _, tree in self.files.layers):
                self.files.vfs.invalidate(self.files.vfs.root, True)  # it must not ask the host about hard links
        gates, closing = self.plan.gates, tuple(self.plan.closing)
        listener = Listener(
            fd, cookie, self.loader_fd, True, mapped, confined, self._learned, gates=gates, closing=closing
        )
        return listener, self._names

    def segments_in_memory(self) -> InMemory:
        """Shared memory that stays even where no process has it attached."""
        return self._shared.segments_in_memory() if self._shared is not None else {}

    @property
    def own_user(self) -> bool:
        """Does the host count the box's processes apart from the caller's?"""
        return own_user(self.plan, self.ids)

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

    # -- the end ---------------------------------------------------------------------------------------------------
    def ends(self) -> None:
        """What takes long need not be finished any more."""
        self.files.vfs.state.end()

    def begin_keeping(self, name: str) -> None:
        """Keep a box that was to be dropped, before its `keep`. It was built with `lasting`."""
        from husk.sandbox.kept.keeping import Keeping

        self.policy.keep = name
        self.kept = Keeping(self.policy)
        self.kept.begin(self.policy, self.source)

    def keep(self, argv: list[str], result: Result) -> None:
        """After the last run, where the policy wants it: what the box is now is to stay."""
        if self.kept is not None and self.state is not None:
            policy = self.policy.again()
            policy.argv = argv
            self.kept.keep(self.state, self.files, policy, result)

    def release_kept(self) -> Keeping | None:
        """The hold of the kept box is the caller's from now on."""
        kept, self.kept = self.kept, None
        return kept

    def close(self) -> None:
        """After the last run. Nothing of the box is left, except what was kept."""
        self.let_go()
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
        """In a forked child: the box is the parent's. A lock that another thread held while the parent forked would be
        held for ever here."""
        self.files.vfs.after_fork()
        self.let_go()
        if self.state is not None:
            self.state.forget()
            self.state = None
        for held in (self.start, self.kept):
            if held is not None:
                held.forget()
        self.start = self.kept = None

    def let_go(self) -> None:
        """Close what it holds of the host. Only its own directory is left, for `close`."""
        if self._gone:
            return
        self._gone = True
        for fd in [*self.joined, *(fd for fd in (self.loader_fd, self._root) if fd >= 0)]:
            os.close(fd)
        self.joined, self.loader_fd, self._root = [], -1, -1
        if self._network is not None:
            self._network.close()
        if self._shared is not None:
            self._shared.close()
        files = getattr(self, "files", None)
        if files is not None:
            files.close()
