"""api: the same for asyncio. Each call that would block runs in a thread of its own (async_process). Cancelling a run
ends it, and the run is gone when the cancellation is complete."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, Unpack, overload

from husk.api.async_process import AsyncBackgroundProcess, AsyncProcess, in_thread
from husk.api.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from husk.api.applying import Applied
    from husk.api.background_process import BackgroundProcess, Port
    from husk.api.box_snapshot import Snapshot
    from husk.api.files import Name
    from husk.api.options import BoxOptions, Command, RunOptions, StartOptions, StreamOptions
    from husk.api.process import Process
    from husk.api.run_result import Change, Result
    from husk.api.sandbox import HookT
    from husk.api.tree_copy import Copied
    from husk.vfs.node import Stat


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


__all__ = ["AsyncSandbox", "AsyncSnapshot", "in_thread", "opened_by"]
