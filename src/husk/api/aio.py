"""api: the same for asyncio. Each call that would block runs in a thread of its own, never in the few shared threads of
the loop: a program that runs for an hour must not keep others from starting. Cancelling a run ends it, and the run is
gone when the cancellation is complete."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, Unpack, overload

from husk.api.background_process import PATIENCE, PAUSE
from husk.api.run_result import TimeoutExpired
from husk.api.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from husk.api.applying import Applied
    from husk.api.background_process import BackgroundProcess, Logs, Port
    from husk.api.box_snapshot import Snapshot
    from husk.api.files import Name
    from husk.api.options import BoxOptions, Command, RunOptions, StartOptions, StreamOptions
    from husk.api.process import Process
    from husk.api.run_result import Change, Result
    from husk.api.sandbox import HookT
    from husk.api.tree_copy import Copied
    from husk.vfs.node import Stat

T = TypeVar("T")


async def in_thread(work: Callable[[], T], give_up: Callable[[], None] | None = None, *, only_looks: bool = False) -> T:
    """`work()` in a thread. If the task is cancelled, `give_up()` makes it end soon, and its end is waited for. Work
    that `only_looks` may take for ever and changes nothing: it is left to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not done.done():
            set_outcome(outcome)

    def body() -> None:
        try:
            outcome: object = work()
        except BaseException as error:
            told: tuple[Callable[[Any], None], object] = (done.set_exception, error)
        else:
            told = (done.set_result, outcome)
        try:
            loop.call_soon_threadsafe(tell, *told)
        except RuntimeError:
            pass  # the loop was closed; no task waits

    threading.Thread(target=body, name="husk-aio", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if give_up is not None:
            give_up()
        while not done.done() and not only_looks:
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError:
                continue  # told once is enough
            except BaseException:
                break
        if done.done() and not done.cancelled():
            done.exception()  # seen
        raise


class AsyncProcess:
    """A program running in a box. `stdout` and `stderr` are StreamReaders and `stdin` is a StreamWriter where they
    were asked for with PIPE."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.args, self.pid = process.args, process.pid
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._transports: list[asyncio.BaseTransport] = []

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        for name in ("stdout", "stderr"):
            file = getattr(self._process, name)
            if file is not None:
                reader = asyncio.StreamReader(loop=loop)
                transport, _ = await loop.connect_read_pipe(
                    lambda reader=reader: asyncio.StreamReaderProtocol(reader, loop=loop),  # type: ignore[misc]
                    file,
                )
                setattr(self, name, reader)
                self._transports.append(transport)
        if self._process.stdin is not None:
            writer, protocol = await loop.connect_write_pipe(
                lambda: asyncio.streams.FlowControlMixin(loop=loop), self._process.stdin
            )
            self.stdin = asyncio.StreamWriter(writer, protocol, None, loop)
            self._transports.append(writer)

    @property
    def returncode(self) -> int | None:
        """None while it runs; -n when signal n ended it."""
        return self._process.returncode

    async def wait(self) -> int:
        """Until it has ended; the return code. Cancelled, it leaves the program running."""
        return (await self.result()).returncode

    async def result(self) -> Result:
        """As Process.result. Cancelled, it leaves the program running."""
        return await in_thread(self._process.result, only_looks=True)

    async def communicate(self, input: bytes | None = None) -> tuple[bytes | None, bytes | None]:
        """Write `input`, read what comes until the run has ended: standard output and standard error."""

        async def feed() -> None:
            if self.stdin is not None:
                try:
                    self.stdin.write(input or b"")
                    await self.stdin.drain()
                except (BrokenPipeError, ConnectionResetError):
                    pass
                self.stdin.close()

        async def nothing() -> None:
            return None

        def read(stream: asyncio.StreamReader | None) -> Awaitable[bytes | None]:
            return nothing() if stream is None else stream.read()

        _, out, err = await asyncio.gather(feed(), read(self.stdout), read(self.stderr))
        await self.wait()
        return out, err

    def send_signal(self, number: int) -> None:
        """To the first program. Nothing happens if it has ended."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """SIGTERM to the first program."""
        self._process.terminate()

    def kill(self) -> None:
        """End the whole run, not only its first program."""
        self._process.kill()

    def __repr__(self) -> str:
        return f"<husk.AsyncProcess: returncode: {self.returncode} args: {self.args!r}>"

    async def __aenter__(self) -> AsyncProcess:
        return self

    async def __aexit__(self, *_: object) -> None:
        for transport in self._transports:
            transport.close()
        await self.wait()


class AsyncBackgroundProcess:
    """BackgroundProcess for an event loop: what waits is awaited."""

    def __init__(self, process: BackgroundProcess) -> None:
        self.process = process  # for what does not wait
        self.args, self.argv, self.pid = process.args, process.argv, process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self.process.returncode

    @property
    def ports(self) -> list[Port]:
        """As BackgroundProcess.ports."""
        return self.process.ports

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        return self.process.poll()

    def logs(self, since: int = 0) -> Logs:
        """As BackgroundProcess.logs."""
        return self.process.logs(since)

    async def wait_ready(self, timeout: float | None = None) -> None:
        """As BackgroundProcess.wait_ready. Cancelled, it waits no longer."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            try:
                return await in_thread(lambda: self.process.wait_ready(0))
            except subprocess.TimeoutExpired as expired:
                if deadline is not None and asyncio.get_running_loop().time() >= deadline:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0, expired.output) from None
                await asyncio.sleep(PAUSE)

    async def wait(self) -> int:
        """Until it has ended; the return code. Cancelled, it leaves the program running."""
        return (await self.result()).returncode

    async def result(self) -> Result:
        """As BackgroundProcess.result. Cancelled, it leaves the program running."""
        return await in_thread(self.process.result, only_looks=True)

    async def stop(self, timeout: float = PATIENCE) -> Result:
        """As BackgroundProcess.stop. Cancelled, it ends the program at once."""
        return await in_thread(lambda: self.process.stop(timeout), self.process.kill)

    def send_signal(self, number: int) -> None:
        """Send a signal to the program."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        self.process.kill()

    def __repr__(self) -> str:
        return repr(self.process).replace("BackgroundProcess", "AsyncBackgroundProcess", 1)

    async def __aenter__(self) -> AsyncBackgroundProcess:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class AsyncSandbox:
    """Sandbox for an event loop: the same arguments, the same methods, awaited. Made by `async with`."""

    def __init__(self, image: str = "", **options: Unpack[BoxOptions]) -> None:
        self._image, self._options = image, options
        self._made: Sandbox | None = None

    async def __aenter__(self) -> AsyncSandbox:
        if self._made is None:
            self._made = await _made(lambda: Sandbox(self._image, **self._options))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def sandbox(self) -> Sandbox:
        """The box itself, for what does not wait."""
        if self._made is None:
            raise ValueError("the sandbox is not open; use `async with`")
        return self._made

    async def run(self, args: Command, **options: Unpack[RunOptions]) -> Result:
        """As Sandbox.run. Cancelled, the run is ended."""
        box, started = self.sandbox, _Started()
        return await in_thread(lambda: box.run(args, started=started.set, **options), started.give_up)

    async def popen(self, args: Command, **options: Unpack[StreamOptions]) -> AsyncProcess:
        """As Sandbox.popen; the pipes carry bytes."""
        box = self.sandbox
        process = AsyncProcess(await in_thread(lambda: box.popen(args, **options)))
        await process._connect()
        return process

    async def start(self, args: Command, **options: Unpack[StartOptions]) -> AsyncBackgroundProcess:
        """As Sandbox.start."""
        box = self.sandbox
        started: list[BackgroundProcess] = []
        try:
            await in_thread(lambda: started.append(box.start(args, **options)))
        except asyncio.CancelledError:
            for one in started:
                one.kill()
            raise
        return AsyncBackgroundProcess(started[0])

    @property
    def ports(self) -> list[Port]:
        """As Sandbox.ports."""
        return self.sandbox.ports

    @overload
    async def read(self, path: Name, *, text: Literal[False] = False, offset: int = 0, size: int = -1) -> bytes: ...
    @overload
    async def read(self, path: Name, *, text: Literal[True], offset: int = 0, size: int = -1) -> str: ...
    async def read(self, path: Name, *, text: bool = False, offset: int = 0, size: int = -1) -> bytes | str:
        """As Sandbox.read."""
        box = self.sandbox
        data = await in_thread(lambda: box.read(path, offset=offset, size=size))
        return data.decode() if text else data

    async def write(self, path: Name, data: str | bytes, *, parents: bool = True, append: bool = False) -> None:
        """As Sandbox.write."""
        box = self.sandbox
        await in_thread(lambda: box.write(path, data, parents=parents, append=append))

    async def mkdir(self, path: Name, *, exist_ok: bool = False) -> None:
        """As Sandbox.mkdir."""
        box = self.sandbox
        await in_thread(lambda: box.mkdir(path, exist_ok=exist_ok))

    async def listdir(self, path: Name = ".") -> list[str]:
        """As Sandbox.listdir."""
        box = self.sandbox
        return await in_thread(lambda: box.listdir(path))

    async def stat(self, path: Name, *, follow: bool = True) -> Stat:
        """As Sandbox.stat."""
        box = self.sandbox
        return await in_thread(lambda: box.stat(path, follow=follow))

    async def symlink(self, target: Name, path: Name, *, replace: bool = False) -> None:
        """As Sandbox.symlink."""
        box = self.sandbox
        await in_thread(lambda: box.symlink(target, path, replace=replace))

    async def readlink(self, path: Name) -> str:
        """As Sandbox.readlink."""
        box = self.sandbox
        return await in_thread(lambda: box.readlink(path))

    async def remove(self, path: Name, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """As Sandbox.remove."""
        box = self.sandbox
        await in_thread(lambda: box.remove(path, recursive=recursive, missing_ok=missing_ok))

    async def copy_in(self, source: Name, path: Name = ".") -> Copied:
        """As Sandbox.copy_in."""
        box = self.sandbox
        return await in_thread(lambda: box.copy_in(source, path))

    async def copy_out(self, path: Name, target: Name, *, links: bool = False) -> Copied:
        """As Sandbox.copy_out."""
        box = self.sandbox
        return await in_thread(lambda: box.copy_out(path, target, links=links))

    async def exists(self, path: Name) -> bool:
        """As Sandbox.exists."""
        box = self.sandbox
        return await in_thread(lambda: box.exists(path))

    async def diff(self) -> list[Change]:
        """As Sandbox.diff."""
        return await in_thread(self.sandbox.diff)

    async def commit(self, image: str) -> str:
        """As Sandbox.commit."""
        box = self.sandbox
        return await in_thread(lambda: box.commit(image))

    async def apply(
        self,
        mount: str = "",
        *,
        paths: Iterable[Name] = (),
        prefer: Literal["", "theirs", "ours"] = "",
        dry_run: bool = False,
    ) -> Applied:
        """As Sandbox.apply."""
        box = self.sandbox
        return await in_thread(lambda: box.apply(mount, paths=paths, prefer=prefer, dry_run=dry_run))

    async def snapshot(self) -> AsyncSnapshot:
        """As Sandbox.snapshot."""
        return AsyncSnapshot(await _made(self.sandbox.snapshot))

    async def fork(self, *, keep: str = "", publish: Iterable[str] = ()) -> AsyncSandbox:
        """As Sandbox.fork: the new box is open already, and yours to close."""
        box = self.sandbox
        return await opened_by(lambda: box.fork(keep=keep, publish=publish))

    def on(self, *names: str) -> Callable[[HookT], HookT]:
        """As Sandbox.on: the function is an ordinary one, and runs in husk's threads, not in the loop."""
        return self.sandbox.on(*names)

    def __repr__(self) -> str:
        return f"<husk.AsyncSandbox of {self._made!r}>" if self._made is not None else "<husk.AsyncSandbox, not open>"

    async def close(self) -> None:
        """As Sandbox.close."""
        if self._made is not None:
            await in_thread(self._made.close)


class AsyncSnapshot:
    """Snapshot for an event loop."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    async def open(self, *, keep: str = "", publish: Iterable[str] = ()) -> AsyncSandbox:
        """As Snapshot.open: the new box is open already, and yours to close."""
        return await opened_by(lambda: self._snapshot.open(keep=keep, publish=publish))

    async def close(self) -> None:
        """As Snapshot.close."""
        await in_thread(self._snapshot.close)

    def __repr__(self) -> str:
        return repr(self._snapshot).replace("Snapshot", "AsyncSnapshot", 1)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def opened_by(make: Callable[[], Sandbox]) -> AsyncSandbox:
    """A box that `make` makes, in a thread: open already, and yours to close."""
    return _opened(await _made(make))


def _opened(box: Sandbox) -> AsyncSandbox:
    made = AsyncSandbox()
    made._made = box
    return made


class _Closable(Protocol):
    def close(self) -> None: ...


MadeT = TypeVar("MadeT", bound=_Closable)


async def _made(make: Callable[[], MadeT]) -> MadeT:
    """Make it in another thread. If the task is cancelled, the result is closed."""
    made: list[MadeT] = []
    try:
        await in_thread(lambda: made.append(make()))
    except BaseException:
        for one in made:
            await in_thread(one.close)
        raise
    return made[0]


class _Started:
    """The process of a run that another thread begins, and may have to be ended before it has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._unwanted = False

    def set(self, process: Process) -> None:
        with self._lock:
            self._process = process
            unwanted = self._unwanted
        if unwanted:
            process.kill()

    def give_up(self) -> None:
        with self._lock:
            self._unwanted = True
            process = self._process
        if process is not None:
            process.kill()


__all__ = ["AsyncBackgroundProcess", "AsyncProcess", "AsyncSandbox", "AsyncSnapshot", "TimeoutExpired"]
