"""api: one run of a box as a process object, with subprocess.Popen's habits.

A thread of its own waits for the end of the run and clears up, so that nothing is left even if the application never
asks for the result.
"""

from __future__ import annotations

import io
import os
import selectors
import signal as signals
import subprocess
import threading
import time
from typing import IO, TYPE_CHECKING, Any

from husk.api.options import Command, Target, Texts, check_input
from husk.api.run_result import Result, in_public, made
from husk.sandbox.result import Result as Ended
from husk.sandbox.stdio.capture import ROOM, Kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.run import Run

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
LOOK_FOR_SIGNALS = 1.0  # seconds
MOST_KEPT = 64 << 20  # bytes of each captured stream; what comes after is read, counted and dropped


class Pipes:
    """The guest's three descriptors and our ends of them."""

    def __init__(self, stdin: Target, stdout: Target, stderr: Target) -> None:
        self._owned: list[int] = []
        self.ours: list[int] = [-1, -1, -1]
        try:
            # A guest must not read input that is meant for the application, so by default it gets none.
            first = self._end(0, DEVNULL if stdin is None else stdin)
            second = self._end(1, stdout)
            third = second if stderr == STDOUT else self._end(2, stderr)
        except BaseException:
            self.close()
            raise
        self.guest = (first, second, third)

    def _end(self, number: int, target: Target) -> int:
        if target is None:
            return number
        if target == STDOUT:
            raise ValueError("only stderr can be STDOUT")
        if target == DEVNULL:
            self._owned.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            return self._owned[-1]
        if target == PIPE:
            read_end, write_end = os.pipe()
            ours, theirs = (write_end, read_end) if number == 0 else (read_end, write_end)
            self.ours[number] = ours
            self._owned.append(theirs)
            return theirs
        fd = target if isinstance(target, int) else target.fileno()
        os.fstat(fd)  # OSError now: the guest would only find that it has no such descriptor
        return fd

    def given(self) -> None:
        """The guest has its copies."""
        while self._owned:
            os.close(self._owned.pop())

    def close(self) -> None:
        self.given()
        for number, fd in enumerate(self.ours):
            if fd >= 0:
                os.close(fd)
                self.ours[number] = -1


class Process:
    """A program running in a box. Every process it starts ends with it."""

    def __init__(
        self,
        run: Run,
        pipes: Pipes,
        args: Command,
        events: list[dict[str, object]],
        over: Callable[[Process, Ended], None],
        *,
        text: Texts | None,
        bufsize: int = -1,
    ) -> None:
        self.args = args  # as they were given
        self._run, self._events, self._over, self._text, self._bufsize = run, events, over, text, bufsize
        self.stdin: IO[Any] | None = self._file(pipes, 0, "wb")
        self.stdout: IO[Any] | None = self._file(pipes, 1, "rb")
        self.stderr: IO[Any] | None = self._file(pipes, 2, "rb")
        self.pid = run.pid
        self.argv = run.policy.argv  # what was run
        self._result: Result | None = None
        self._failure: BaseException | None = None
        self._kept = {"stdout": Kept(MOST_KEPT), "stderr": Kept(MOST_KEPT)}
        self._ended = threading.Event()
        self._waiter = threading.Thread(target=self._wait_and_clear, name=f"husk-run-{self.pid}", daemon=True)
        self._waiter.start()

    def _file(self, pipes: Pipes, number: int, mode: str) -> IO[Any] | None:
        """Our end of a pipe, which is the file's from then on."""
        if pipes.ours[number] < 0:
            return None
        # Line buffering is for text.
        size = -1 if self._text is not None or self._bufsize == 1 else self._bufsize
        file = os.fdopen(pipes.ours[number], mode, size)
        pipes.ours[number] = -1
        if self._text is None:
            return file
        try:
            return io.TextIOWrapper(file, *self._text, line_buffering=True)  # a dialogue is made of lines
        except BaseException:
            file.close()
            raise

    def _wait_and_clear(self) -> None:
        run, ended = self._run, Ended()
        try:
            try:
                ended = run.wait()
            finally:
                run.finish()
            run.collect(ended)
            self._result = made(self.args, ended, self._events, run.policy.mounts)
        except BaseException as failure:
            self._failure = in_public(failure)
        finally:
            self._over(self, ended)
            self._ended.set()

    # -- as subprocess.Popen has them ------------------------------------------------------------------------------
    @property
    def returncode(self) -> int | None:
        """None while it runs; -n when signal n ended it."""
        return self._result.returncode if self._result is not None else None

    def poll(self) -> int | None:
        """The return code, or None while it runs."""
        return self.wait() if self._ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; the return code. subprocess.TimeoutExpired leaves it running."""
        return self.result(timeout).returncode

    def result(self, timeout: float | None = None) -> Result:
        """Wait for the end, and get everything that is known about it. subprocess.TimeoutExpired leaves it running."""
        if not self._has_ended_within(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self._waiter.join()
        if self._failure is not None:
            raise self._failure
        assert self._result is not None
        return self._result

    def over(self) -> bool:
        """Has it ended?"""
        return self._ended.is_set()

    def ended(self) -> None:
        """Wait for the end, however it was."""
        self._has_ended_within(None)
        self._waiter.join()

    def _has_ended_within(self, timeout: float | None) -> bool:
        """Python looks for signals before it blocks. One that comes between that look and the host's call waits for the
        end of the call: so a ^C would wait for the end of the run."""
        if timeout is not None:
            return self._ended.wait(timeout)
        while not self._ended.wait(LOOK_FOR_SIGNALS):
            pass
        return True

    def send_signal(self, number: int) -> None:
        """To the first program. Nothing happens if it has ended."""
        self._run.kill(number)

    def terminate(self) -> None:
        """SIGTERM to the first program."""
        self.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """End the whole run, not only its first program."""
        self._run.end(signals.SIGKILL)

    def communicate(self, input: str | bytes | None = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write `input`, read what comes until the run has ended. After subprocess.TimeoutExpired it can be called
        again, without input, and nothing is lost."""
        check_input(input, self._text)
        deadline = None if timeout is None else time.monotonic() + timeout
        data = memoryview(input.encode(*(self._text or ("utf-8",))) if isinstance(input, str) else input or b"")
        with selectors.DefaultSelector() as selector:
            if self.stdin is not None and not self.stdin.closed:
                if data:
                    os.set_blocking(self.stdin.fileno(), False)
                    selector.register(self.stdin.fileno(), selectors.EVENT_WRITE, "stdin")
                else:
                    self._close_stdin()
            for name in ("stdout", "stderr"):
                file: IO[Any] | None = getattr(self, name)
                if file is not None and not file.closed:
                    selector.register(file.fileno(), selectors.EVENT_READ, name)
            while selector.get_map():
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                ready = selector.select(left)
                if not ready and left == 0.0:
                    out, err = (self._kept[name].data or None for name in ("stdout", "stderr"))
                    raise subprocess.TimeoutExpired(self.args, timeout or 0, out, err)
                for key, _ in ready:
                    if key.data == "stdin":
                        data = self._feed(selector, data)
                    else:
                        self._keep(selector, key.data)
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return self._captured("stdout"), self._captured("stderr")

    def _feed(self, selector: selectors.BaseSelector, data: memoryview) -> memoryview:
        assert self.stdin is not None
        try:
            data = data[os.write(self.stdin.fileno(), data[:ROOM]) :]
        except BlockingIOError:
            return data
        except BrokenPipeError:
            data = data[:0]  # the guest reads no more
        if not data:
            selector.unregister(self.stdin.fileno())
            self._close_stdin()
        return data

    def _close_stdin(self) -> None:
        if self.stdin is not None:
            try:
                self.stdin.close()
            except BrokenPipeError:
                pass

    def _keep(self, selector: selectors.BaseSelector, name: str) -> None:
        file: IO[Any] = getattr(self, name)
        piece = os.read(file.fileno(), ROOM)
        if not piece:
            selector.unregister(file.fileno())
            file.close()
            return
        self._kept[name].take(piece)

    def _captured(self, name: str) -> Any:
        if getattr(self, name) is None:
            return None
        kept = self._kept[name]
        if self._result is not None and kept.lost:
            self._result.lost[name] = kept.lost
        if self._text is None:
            return kept.data
        return kept.data.decode(*self._text).replace("\r\n", "\n").replace("\r", "\n")

    # -- life ------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        """As Popen: closes the pipes and waits."""
        self.close_pipes()
        self.wait()

    def __repr__(self) -> str:
        return f"<husk.Process: returncode: {self.returncode} args: {self.args!r}>"

    def close_pipes(self) -> None:
        """Close our ends of its streams."""
        self._close_stdin()
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()

    def forget(self) -> None:
        """In a forked child."""
        self._run.forget()
