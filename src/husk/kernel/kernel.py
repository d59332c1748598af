"""kernel: the dispatcher. A few threads each receive, decide and answer in one go (leader and followers): one waits in
the host kernel without the GIL while another runs Python, so a call is received at once, and no call is handed from
thread to thread, which would cost a wake-up each.
"""

from __future__ import annotations

import _thread
import errno
import time

from husk.abi.registry import looks_at_descriptor_first, mixed_calls, refusal, row
from husk.kernel.call import ANSWERED, CONTINUE, LATER, Call, GiveFd, Refused, i32, open_link
from husk.kernel.listings import Listings
from husk.kernel.namecache import NameCache
from husk.kernel.net.network import Network
from husk.kernel.net.peers import Peers
from husk.kernel.net.unix_sockets import UnixSockets
from husk.kernel.syscalls import handlers
from husk.kernel.syscalls.execve import names_in
from husk.native._core import clear_umask, wake_thread
from husk.native.threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.abi.registry.rules import Walls
    from husk.kernel.events import Events
    from husk.kernel.exec.allowed_programs import AllowedPrograms
    from husk.kernel.hooks import Hooks
    from husk.kernel.identity import Identity
    from husk.kernel.segments import Segments
    from husk.kernel.tasks import Names, Tasks, TasksHere
    from husk.native._core import Call as RawCall
    from husk.native._core import Listener
    from husk.vfs.node import Credentials
    from husk.vfs.vfs import Vfs

THREADS = 4  # one waits, others may sit in a remote call or in a slow host file system


class Shared:
    """What the kernels of a box's runs have in common, beside its file system. `names` None: this one does without."""

    __slots__ = ("names", "peers", "segments", "sockets", "tasks")

    def __init__(
        self,
        tasks: TasksHere,
        sockets: UnixSockets,
        peers: Peers,
        names: NameCache | None,
        segments: Callable[[], Segments],
    ) -> None:
        self.tasks, self.sockets, self.peers, self.names, self.segments = tasks, sockets, peers, names, segments


class Kernel:
    """Serves one run of a box. Owns the loader's descriptor."""

    def __init__(
        self,
        listener: Listener,
        vfs: Vfs,
        creds: Credentials,
        identity: Identity,
        walls: Walls,
        events: Events,
        loader_fd: int,
        eintr_bitmap: bytes,
        tasks: Tasks,
        diagnosis: int = -1,
        network: Network | None = None,
        box: Shared | None = None,
    ) -> None:
        """`box` is what the runs of one box share; alone, a kernel has its own."""
        self.listener, self.vfs, self.creds, self.identity = listener, vfs, creds, identity
        self.walls, self.events, self.tasks = walls, events, tasks
        self.loader_fd, self.eintr_bitmap = loader_fd, eintr_bitmap
        self._shares = box is not None
        self._box = box
        self._tasks_here = box.tasks if box is not None else None
        self.sockets = box.sockets if box is not None else UnixSockets(own_abstract_names=walls.net)
        self.peers = box.peers if box is not None else Peers(diagnosis)
        self.hooks: Hooks | None = None
        self.disk_is_limited = False
        self.table_is_full: Callable[[int], None] | None = None  # told whose descriptors are used up, where that counts
        self.programs: AllowedPrograms | None = None  # None: whichever are there
        self.network = network or Network()
        self.listings = Listings()
        tasks.begun = self.begun
        self._handlers, self._mixed = handlers(), mixed_calls()
        self._threads: dict[int, None] = {}
        self._own_names = box is None or box.names is None
        self.names = (box and box.names) or NameCache(
            listener,
            vfs,
            creds.uid,
            creds.gid,
            identity.host_uid,
            sorted(creds.groups),
            cached=box is None and not events.watching,
        )

    @property
    def segments(self) -> Segments:
        assert self._box is not None, "a kernel alone serves boxes with an ipc namespace"
        return self._box.segments()

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
        if not self._shares:
            self.peers.close()
        if self._own_names:
            self.names.close()
        self.forget()

    def forget(self) -> None:
        """Nothing holds on to this any more, and with it to the listener: its descriptor closes at once. In a forked
        child, which has none of the threads, that is all."""
        self.tasks.begun = lambda tgid: None

    def _serve(self) -> None:
        me = _thread.get_native_id()
        self._threads[me] = None
        clear_umask()
        if self._tasks_here is not None:
            self._tasks_here.serve(self.tasks)
        try:
            receive, answer = self.listener.receive, self.answer
            while (raw := receive()) is not None:
                answer(raw)
        finally:
            del self._threads[me]

    # -- one call ----------------------------------------------------------------------------------------------
    def answer(self, raw: RawCall) -> None:
        """Whatever happens here, the guest gets exactly one answer, and a fault of ours is never a permission."""
        call = Call(raw, self)
        try:
            handler = self._handlers.get(raw.nr)
            if handler is None or (raw.nr in self._mixed and self._refuses(call)):
                if looks_at_descriptor_first(raw.nr):
                    open_link(call, i32(call, 0))
                number, reason = refusal(raw.nr, call.args, self.walls)
                raise Refused(number, reason)
            if self.hooks is not None:
                self.hooks.ask(call)
            reply = handler(call)
            if reply.__class__ is int:
                raw.reply(reply)
            elif isinstance(reply, GiveFd):
                raw.reply_fd(reply.fd, reply.cloexec, reply.alone)
            elif reply is CONTINUE:
                raw.proceed()
            elif not (reply is LATER or (reply is ANSWERED and raw.answered)):
                raise TypeError(f"a handler returned {reply!r}, which answers nobody")
            self.events.answered(call, reply)
            if call.looked_up:
                self.names.learn(call, *call.looked_up)
        except OSError as error:
            self._fail(call, error)
        except BaseException as fault:  # a stray exception is our bug
            self.fault(raw, fault)

    def _refuses(self, call: Call) -> bool:
        entry = row(call.nr)
        return entry is not None and entry.verdict(call.args, self.walls).way == "refused"

    def _fail(self, call: Call, error: OSError) -> None:
        try:
            if error.errno == errno.EMFILE and self.table_is_full is not None:
                self.table_is_full(call.tid)
            # Told before the answer: afterwards the caller's working directory can no longer be asked for.
            self.events.failed(call, error)
            if not call.raw.answered:
                call.raw.fail(error.errno or errno.EIO)
            if call.looked_up:
                self.names.learn(call, *call.looked_up)
        except BaseException as fault:
            self.fault(call.raw, fault)

    def fault(self, raw: RawCall, fault: BaseException) -> None:
        try:
            if not raw.answered:
                raw.fail(errno.EIO)
        except OSError:
            pass  # nobody is left to hear it
        self.events.fault(raw.nr, fault)

    # -- programs on their way ---------------------------------------------------------------------------------
    def begun(self, tgid: int) -> Names | None:
        """The names of the program that was started last in a process."""
        info = self.listener.begun(tgid)
        return names_in(info) if info is not None else None
