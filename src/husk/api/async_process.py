"""api: programs that run in a box, for asyncio; and the threads that wait for them.

Each call that would block runs in a thread of its own, never in the few shared threads of the loop: a program that runs
for an hour must not keep others from starting.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from husk.api.background_process import PATIENCE, PAUSE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from husk.api.background_process import BackgroundProcess, Logs, Port
    from husk.api.process import Process
    from husk.api.run_result import Result

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


__all__ = ["AsyncBackgroundProcess", "AsyncProcess", "in_thread"]
