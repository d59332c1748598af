"""kernel: the dispatcher. A few threads each receive, decide and answer in one go (leader and followers). One waits in
the host kernel without the GIL while another runs Python, so a call is received at once. No call is handed from thread
to thread: that would cost a wake-up for each call.
"""

from __future__ import annotations

import _thread
import errno
import os
import time

from husk.kernel.call import ANSWERED, CONTINUE, LATER, Call, GiveFd, Refused, i32, open_link
from husk.kernel.listings import Listings
from husk.kernel.namecache import NameCache
from husk.kernel.syscalls import eintr_bitmap, handlers, mixed_calls
from husk.native._core import clear_umask, wake_thread
from husk.native.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.abi.registry.rules import Walls
    from husk.kernel.cred.core_filters import CoreFilters
    from husk.kernel.cred.inherited import Inherited
    from husk.kernel.cred.keyrings import Keyrings
    from husk.kernel.cred.virtual_ids import ProcessIds, VirtualIds
    from husk.kernel.cred.virtual_roots import VirtualRoots
    from husk.kernel.emulation import Emulation
    from husk.kernel.events import Events
    from husk.kernel.exec.allowed_programs import AllowedPrograms
    from husk.kernel.exec.program_names import ProgramNames
    from husk.kernel.hooks import Hooks
    from husk.kernel.identity import Identity
    from husk.kernel.ipc.ipc_objects import IpcObjects
    from husk.kernel.ipc.segments import Segments
    from husk.kernel.locks.private_locks import PrivateLocks
    from husk.kernel.locks.record_locks import RecordLocks
    from husk.kernel.net.box_net import BoxNet
    from husk.kernel.net.network import Network
    from husk.kernel.net.peers import Peers
    from husk.kernel.net.unix_sockets import UnixSockets
    from husk.kernel.recorder import Recorder
    from husk.kernel.syscalls.restricting import Domains
    from husk.kernel.tasks import LiveRuns, Tasks, TasksHere
    from husk.native._core import Call as RawCall
    from husk.native._core import Listener
    from husk.vfs.node import Credentials, Dir, SocketNames
    from husk.vfs.vfs import Vfs

THREADS = 4  # one waits, others may be in a remote call or in a slow host file system


class Shared:
    """What the kernels of a box's runs have in common: its file system, its identity, its walls, its network."""

    __slots__ = (
        "_core_filters",
        "_diagnosis",
        "_inherited",
        "_ipc_objects",
        "_keyrings",
        "_net",
        "_network",
        "_private_locks",
        "_record_locks",
        "_segments",
        "_virtual_ids",
        "_virtual_roots",
        "creds",
        "disk_is_limited",
        "identity",
        "live",
        "loader_fd",
        "program_names",
        "programs",
        "tasks",
        "vfs",
        "walls",
    )

    def __init__(
        self,
        vfs: Vfs,
        tasks: TasksHere,
        live: LiveRuns,
        creds: Credentials,
        identity: Identity,
        walls: Walls,
        network: Network | None,
        *,
        diagnosis: int,
        loader_fd: int,
        programs: AllowedPrograms | None = None,
        program_names: ProgramNames | None = None,
        disk_is_limited: bool = False,
    ) -> None:
        """`network` and `diagnosis`: see `BoxNet`, which is made of them. `programs` None: the guest may start whatever
        is there. `program_names` None: the host finds no program by its name."""
        self.vfs, self.tasks, self.live = vfs, tasks, live
        self.creds, self.identity, self.walls = creds, identity, walls
        self._network, self._diagnosis = network, diagnosis
        self._net: BoxNet | None = None
        self.loader_fd, self.programs, self.disk_is_limited = loader_fd, programs, disk_is_limited
        self.program_names = program_names
        self._segments: Segments | None = None
        self._ipc_objects: IpcObjects | None = None
        self._inherited: Inherited | None = None
        self._core_filters: CoreFilters | None = None
        self._keyrings: Keyrings | None = None
        self._virtual_ids: VirtualIds | None = None
        self._virtual_roots: VirtualRoots | None = None
        self._private_locks: PrivateLocks | None = None
        self._record_locks: RecordLocks | None = None

    def net(self) -> BoxNet:
        net = self._net
        if net is not None:
            return net
        with self.vfs.lock:  # two threads may be the first
            if self._net is None:
                from husk.kernel.net.box_net import BoxNet

                self._net = BoxNet(self._network, self._diagnosis, own_abstract_names=self.walls.net)
            return self._net

    def segments(self) -> Segments:
        with self.vfs.lock:  # two threads may be the first
            if self._segments is None:
                from husk.kernel.ipc.segments import Segments

                self._segments = Segments(self.live)
            return self._segments

    def ipc_objects(self) -> IpcObjects:
        with self.vfs.lock:  # two threads may be the first
            if self._ipc_objects is None:
                from husk.kernel.ipc.ipc_objects import IpcObjects

                owner = self.identity.host_uid, self.identity.host_gid
                self._ipc_objects = IpcObjects(self.vfs.state.path + b"/ipc", owner)
            return self._ipc_objects

    def inherited(self) -> Inherited:
        with self.vfs.lock:  # two threads may be the first
            if self._inherited is None:
                from husk.kernel.cred.inherited import Inherited

                self._inherited = Inherited(self.live.host_pids, (self.identity.host_uid, self.identity.host_gid))
            return self._inherited

    def attributes_of(self, host_pid: int) -> dict[str, int]:
        return self._inherited.of(host_pid) if self._inherited is not None else {}

    def core_filter(self, host_pid: int) -> int | None:
        return None if self._core_filters is None else self._core_filters.of(self.attributes_of(host_pid))

    def keep_core_filter(self, host_pid: int, fd: int) -> None:
        with self.vfs.lock:  # two threads may be the first
            if self._core_filters is None:
                from husk.kernel.cred.core_filters import CoreFilters

                self._core_filters = CoreFilters(self.inherited())
        self._core_filters.keep(host_pid, fd)

    def virtual_ids(self) -> VirtualIds | None:
        """None unless the box's user is root of its image. Only there can a process become another user."""
        if self.walls.one_user or self.creds.uid or not self.creds.over_files:
            return None
        with self.vfs.lock:  # two threads may be the first
            if self._virtual_ids is None:
                from husk.kernel.cred.virtual_ids import VirtualIds

                self._virtual_ids = VirtualIds(self.creds, self.inherited())
            return self._virtual_ids

    def credentials(self, host_tid: int) -> Credentials:
        """With which a call of this thread is judged: nearly always the box's own."""
        virtual = self._virtual_ids
        return self.creds if virtual is None or not virtual.changed else virtual.credentials(host_tid)

    def ids_of(self, host_tid: int) -> ProcessIds | None:
        virtual = self.virtual_ids()
        return None if virtual is None else virtual.of(host_tid)

    def virtual_roots(self) -> VirtualRoots:
        inherited = self.inherited()
        with self.vfs.lock:  # two threads may be the first
            if self._virtual_roots is None:
                from husk.kernel.cred.virtual_roots import VirtualRoots

                self._virtual_roots = VirtualRoots(inherited)
            return self._virtual_roots

    def root_of(self, host_tid: int) -> Dir | None:
        """The root that a process has chosen; None: that of the box."""
        return None if self._virtual_roots is None else self._virtual_roots.of(host_tid)

    def keyrings(self) -> Keyrings:
        with self.vfs.lock:  # two threads may be the first
            if self._keyrings is None:
                from husk.kernel.cred.keyrings import Keyrings

                self._keyrings = Keyrings(self.inherited(), (self.creds.uid, self.creds.gid))
            return self._keyrings

    def private_locks(self) -> PrivateLocks:
        with self.vfs.lock:  # two threads may be the first
            if self._private_locks is None:
                from husk.kernel.locks.private_locks import PrivateLocks

                self._private_locks = PrivateLocks(self.live)
            return self._private_locks

    def record_locks(self) -> RecordLocks:
        with self.vfs.lock:  # two threads may be the first
            if self._record_locks is None:
                from husk.kernel.locks.record_locks import RecordLocks

                self._record_locks = RecordLocks(self.vfs, self.live)
            return self._record_locks

    def segments_in_memory(self) -> dict[tuple[int, int], int]:
        """Shared memory that stays even where no process has it attached."""
        return self._segments.in_memory() if self._segments is not None else {}

    def close(self) -> None:
        if self._segments is not None:
            self._segments.close()
        if self._ipc_objects is not None:
            self._ipc_objects.close()
        if self._core_filters is not None:
            self._core_filters.close()
        if self._private_locks is not None:
            self._private_locks.close()
        if self._record_locks is not None:
            self._record_locks.close()
        if self._net is not None:
            self._net.close()
        elif self._diagnosis >= 0:
            os.close(self._diagnosis)
        self._diagnosis = -1


class Kernel:
    """Serves one run of a box."""

    def __init__(
        self,
        shared: Shared,
        listener: Listener,
        tasks: Tasks,
        events: Events,
        *,
        names: NameCache | None = None,
        hooks: Hooks | None = None,
        emulation: Emulation | None = None,
        table_is_full: Callable[[int], None] | None = None,
        recorder: Recorder | None = None,
        host_sockets: frozenset[bytes] = frozenset(),
    ) -> None:
        """`names` None: this run does without the box's name cache. `table_is_full` is told of a thread that has no
        descriptor left, where there is a limit. `recorder` writes down every call, where the run is traced.
        `host_sockets`: Unix sockets of the host below `ro` and `cow` mounts that may be connected to, by the names that
        they have on the host."""
        self._shared, self.listener, self.tasks, self.events, self.hooks = shared, listener, tasks, events, hooks
        self.vfs, self.creds, self.identity, self.walls = shared.vfs, shared.creds, shared.identity, shared.walls
        self.loader_fd, self.programs = shared.loader_fd, shared.programs
        self.disk_is_limited = shared.disk_is_limited
        self.recorder, self.host_sockets = recorder, host_sockets
        self._program_names = shared.program_names if recorder is None else None
        self._is_first_program = True
        self.eintr_bitmap = eintr_bitmap(asked=recorder is not None)
        self.listings = Listings()
        self._emulation = emulation
        self._table_is_full = table_is_full
        self._handlers, self._mixed = handlers(), mixed_calls()
        self._threads: dict[int, None] = {}
        # By thread: the call in hand, and the thread as Python knows it. Only `longest_waits` reads it.
        self.serving: dict[int, tuple[RawCall, int] | None] = {}
        self.domains: Domains | None = None  # made when a program first restricts itself
        self._own_names = names is None
        self.names = names or NameCache(listener, self.vfs, self.creds, self.identity.host_uid, cached=False)

    def is_for(self, events: Events, host_sockets: frozenset[bytes]) -> None:
        """Known only now, before the guest's first call: who is told, and what may be connected to."""
        self.events, self.host_sockets = events, host_sockets

    def expect(self, names: Iterable[bytes]) -> None:
        """Programs are going to ask for these names: teach the C core before they do."""
        for name in names:
            self.names.learn(self.vfs.context, self.vfs.root, name)

    def name_program(self, name: bytes) -> bool:
        """Will the host find the loader by this name? Not where a program has restricted itself: its own rules may
        forbid it there. Nor for the first program of a run: where the host does not let husk stop its guests, which
        other calls need, the run must end there and say so."""
        if self._is_first_program:
            self._is_first_program = False
            return False
        return self._program_names is not None and self.domains is None and self._program_names.give(name)

    def name_unasked(self, name: bytes) -> bool:
        """Will the host find the loader by the name that guests use when they do not ask husk? Of a name that husk gave
        already."""
        return self._program_names is not None and self.names.direct and self._program_names.give_unasked(name)

    @property
    def ipc_objects(self) -> IpcObjects:
        return self._shared.ipc_objects()

    @property
    def segments(self) -> Segments:
        return self._shared.segments()

    @property
    def inherited(self) -> Inherited:
        return self._shared.inherited()

    @property
    def virtual_ids_or_none(self) -> VirtualIds | None:
        return self._shared.virtual_ids()

    @property
    def virtual_ids(self) -> VirtualIds:
        found = self._shared.virtual_ids()
        if found is None:
            raise OSError(errno.EPERM, "in this box no process becomes another user")
        return found

    def credentials(self, host_tid: int) -> Credentials:
        return self._shared.credentials(host_tid)

    @property
    def virtual_roots(self) -> VirtualRoots:
        return self._shared.virtual_roots()

    def root_of(self, host_tid: int) -> Dir | None:
        return self._shared.root_of(host_tid)

    @property
    def keyrings(self) -> Keyrings:
        return self._shared.keyrings()

    @property
    def private_locks(self) -> PrivateLocks:
        return self._shared.private_locks()

    @property
    def record_locks(self) -> RecordLocks:
        return self._shared.record_locks()

    @property
    def network(self) -> Network:
        return self._shared.net().network

    def socket_names(self) -> SocketNames:
        from husk.kernel.net.socket_names import BoxSocketNames

        return BoxSocketNames(self.network, self.sockets)

    @property
    def peers(self) -> Peers:
        return self._shared.net().peers

    @property
    def sockets(self) -> UnixSockets:
        return self._shared.net().sockets

    # -- life --------------------------------------------------------------------------------------------------
    def start(self) -> None:
        for _ in range(THREADS):
            start_thread(self._serve)

    def stop(self) -> None:
        """Let every thread leave. The run is over: no guest waits for an answer any more."""
        self.listener.stop()
        while self._threads:
            for tid in list(self._threads):
                wake_thread(tid)
            time.sleep(0.0005)
        with self.vfs.lock:  # which reads what C made in layers
            self.note_changes()
        if self._own_names:
            self.names.close()
        self.tasks.close()

    def forget(self) -> None:
        """In a forked child, which has none of the threads."""
        self.tasks.forget()

    def _serve(self) -> None:
        me, ident, serving = _thread.get_native_id(), _thread.get_ident(), self.serving
        self._threads[me] = None
        clear_umask()
        self._shared.tasks.serve(self.tasks)
        try:
            receive, answer = self.listener.receive, self.answer
            while (raw := receive()) is not None:
                serving[me] = raw, ident
                answer(raw)
                serving[me] = None
        finally:
            serving.pop(me, None)
            del self._threads[me]

    # -- one call ----------------------------------------------------------------------------------------------
    def answer(self, raw: RawCall) -> None:
        """The guest gets exactly one answer, whatever happens here, and a fault of husk is never a permission."""
        call = Call(raw, self)
        try:
            if self.domains is not None:
                call.domain = self.domains.of(raw.tid)
            if self._emulation is not None and self._emulation.answer(call):
                if self.recorder is not None:
                    self.recorder.answered(call, None)
                return
            handler = self._handlers.get(raw.nr)
            if handler is None or (raw.nr in self._mixed and self._refuses(call)):
                # The rows are imported for the first call that is refused.
                from husk.abi.registry import looks_at_descriptor_first, refusal

                if looks_at_descriptor_first(raw.nr):
                    open_link(call, i32(call, 0))
                number, reason = refusal(raw.nr, call.args, self.walls)
                raise Refused(number, reason)
            if self.hooks is not None:
                self.hooks.ask(call)
            reply = handler(call)
            given = None
            if reply.__class__ is int:
                raw.reply(reply)
            elif isinstance(reply, GiveFd):
                given = raw.reply_fd(reply.fd, reply.cloexec, reply.alone)
            elif reply is CONTINUE:
                raw.proceed()
            elif not (reply is LATER or (reply is ANSWERED and raw.answered)):
                raise TypeError(f"a handler returned {reply!r}, which is no answer")
            self.events.answered(call, reply)
            if self.recorder is not None and reply is not LATER:
                self.recorder.answered(call, reply if isinstance(reply, int) else given)
            if call.looked_up:
                self.names.learn(call, *call.looked_up, there=call.found)
            if call.made:
                self.names.learn_place(call, *call.made)
            if call.made_directory:
                self.names.learn_new(call, *call.made_directory)
        except OSError as error:
            self._fail(call, error)
        except BaseException as fault:  # a stray exception is our bug
            self.fault(raw, fault)

    def note_changes(self) -> None:
        """Note what C changed meanwhile. The order counts, so this comes before the note of a later change; both are
        made under the vfs's lock."""
        made = self.listener.take_changes()
        if made:
            self.events.changes.made_on_host(made)

    def emulates(self, nr: int) -> bool:
        """Is this call judged as another runtime would? Then the filter notifies it, husk's own ones too."""
        return self._emulation is not None and nr in self._emulation.rules

    def _refuses(self, call: Call) -> bool:
        from husk.abi.registry import row

        entry = row(call.nr)
        return entry is not None and entry.verdict(call.args, self.walls).way == "refused"

    def _fail(self, call: Call, error: OSError) -> None:
        try:
            if error.errno == errno.EMFILE and self._table_is_full is not None:
                self._table_is_full(call.tid)
            # Before the answer: afterwards husk can no longer ask for the caller's working directory.
            reason = self.events.failed(call, error)
            if self.recorder is not None:
                self.recorder.failed(call, error, reason)
            if not call.raw.answered:
                call.raw.fail(error.errno or errno.EIO)
            if call.looked_up:
                self.names.learn(call, *call.looked_up)
        except BaseException as fault:
            self.fault(call.raw, fault)

    def answered_later(self, call: Call, given: int) -> None:
        """A call that had to wait in a thread of its own has been answered."""
        self.events.reached(call, "")
        if self.recorder is not None:
            self.recorder.answered(call, given)

    def failed_later(self, call: Call, error: OSError) -> None:
        self.events.reached(call, errno.errorcode.get(error.errno or errno.EIO, str(error.errno)))
        if self.recorder is not None:
            self.recorder.failed(call, error, "")

    def fault(self, raw: RawCall, fault: BaseException) -> None:
        try:
            if not raw.answered:
                raw.fail(errno.EIO)
        except OSError:
            pass  # the caller is gone
        self.events.fault(raw.nr, fault)
