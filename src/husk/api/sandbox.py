"""api: Sandbox, a box that lives as long as the application wants it: one file system, any number of runs in it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from husk.api import living
from husk.api.files import BoxFiles
from husk.api.process import DEVNULL, PIPE, Pipes, Process, Target
from husk.api.result import Change, Output, Result, TimeoutExpired, in_public
from husk.kernel.events import Events, Full
from husk.kernel.hooks import Hooks
from husk.sandbox.errors import NotExecutable, NotFound, UsageError
from husk.sandbox.ground import Ground, behind_walls
from husk.sandbox.policy import Mount, Policy, Publish
from husk.sandbox.result import Result as Ended
from husk.sandbox.run import Run
from husk.sandbox.streams import as_it_is

if TYPE_CHECKING:
    from husk.abi.rules import Walls
    from husk.kernel.hooks import Hook
    from husk.sandbox.filesystem import Files

    HookT = TypeVar("HookT", bound=Hook)

Command = str | Sequence[str | os.PathLike[str]]
MOST_EVENTS = 100_000  # kept of one run; what comes later is counted


class Sandbox(BoxFiles):
    """A box. Files that one run wrote are there for the next, until `close`, which the `with` statement calls.

    `image`: a name in the store (default: the host's own programs); `mounts`: "SRC:DST[:MODE]" or Mount objects;
    `env`: variables, beside the few every box has; `cwd`: where programs start (/workspace); `net`: None for
    the box's own loopback only, "host", or a list of what may be reached, as ["example.org:443"]; `publish`: ports the
    host can reach, as ["8080:8000"]; `limits`: by name, as {"memory": "512M"}; `keep`: the name of a
    kept box to continue in, and to keep at the end; `events`: keep what happens in each result (slower); `namespaces`
    and `weaken` as the options of `husk run`.

    All methods may be called from any thread; several runs may be under way at once. They share files and loopback,
    and see only their own processes.
    """

    def __init__(
        self,
        image: str = "",
        *,
        mounts: Iterable[str | Mount] = (),
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        net: str | Iterable[str] | None = None,
        publish: Iterable[str] = (),
        limits: Mapping[str, int | str | None] | None = None,
        keep: str = "",
        events: bool = False,
        namespaces: bool = True,
        weaken: Iterable[str] = (),
        store: str = "",
    ) -> None:
        self._lock = threading.RLock()  # of everything below; never held while a run is waited for
        self._ground: Ground | None = None
        self._standby: Run | None = None
        self._processes: set[Process] = set()
        self._hooks, self._keeps_events = Hooks(), events
        self._last: tuple[list[str], Ended] = [], Ended()  # what ran last, for the record of a kept box
        policy = self._policy = Policy([])
        policy.image, policy.store, policy.namespaces = image, store, namespaces
        policy.mounts = [mount if isinstance(mount, Mount) else Mount.parse(mount) for mount in mounts]
        policy.env = _environment(env)
        if isinstance(net, str):
            if net not in ("none", "host"):
                raise UsageError(f'net={net!r}: give "host", "none", or a list like ["example.org:443"].')
            policy.net = net
        elif net is not None:
            policy.allow_net = list(net)
        policy.publish = [Publish.parse(text) for text in publish]
        if cwd:
            policy.workdir = cwd
        if keep:
            from husk.sandbox.kept import check_name

            policy.keep = check_name(keep)
        for name, value in (limits or {}).items():
            policy.limits.read(f"{name}={'none' if value is None else value}")
        if weaken:
            from husk.sandbox.weaken import check

            policy.weaken = {check(name) for name in weaken}
        behind_walls(policy, self._build)
        living.born(self)

    def _build(self, walls: Walls) -> None:
        """Also launches the first run, which waits to be told what to run: only that shows which walls stand."""
        self._ground = Ground(self._policy, walls)
        try:
            self._prepare()
            assert self._standby is not None
            self._standby.keep_namespaces()
        except BaseException:
            self._end_standby()
            self._ground.close()
            self._ground = None
            raise

    def _prepare(self) -> None:
        assert self._ground is not None
        run = self._standby = Run(self._ground, self._policy, self._new_events([]), self._hooks or None)
        run.ready()

    def _end_standby(self) -> None:
        if self._standby is not None:
            self._standby.finish()
            self._standby = None

    # -- running -----------------------------------------------------------------------------------------------
    def run(
        self,
        args: Command,
        *,
        input: str | bytes | None = None,
        stdin: Target = None,
        stdout: Target = None,
        stderr: Target = None,
        capture_output: bool = False,
        shell: bool = False,
        cwd: str | None = None,
        timeout: float | None = None,
        check: bool = False,
        encoding: str | None = None,
        errors: str | None = None,
        text: bool | None = None,
        env: Mapping[str, str] | None = None,
        started: Callable[[Process], None] | None = None,
    ) -> Result:
        """Run a program to its end, as subprocess.run does. Different: the guest never gets the caller's environment
        (`env` adds to the box's own) nor its standard input (none unless given), and whatever the program started
        ends with it. `started` is told of the process, so that another thread may end it."""
        if capture_output:
            if stdout is not None or stderr is not None:
                raise ValueError("stdout and stderr may not be used with capture_output")
            stdout = stderr = PIPE
        if input is not None:
            if stdin is not None:
                raise ValueError("stdin and input may not both be used")
            stdin = PIPE
        process = self._begin(args, stdin, stdout, stderr, shell, cwd, env, timeout, _text_mode(text, encoding, errors))
        try:
            if started is not None:
                started(process)
            out, err = process.communicate(input)
        except BaseException:  # KeyboardInterrupt too: the caller will never see the process
            process.kill()
            process.close_pipes()
            process.ended()
            raise
        result = process.result()
        result.stdout, result.stderr = out, err
        if result.timed_out and timeout is not None:
            raise TimeoutExpired(result, timeout)
        if check:
            result.check_returncode()
        return result

    def popen(
        self,
        args: Command,
        *,
        stdin: Target = None,
        stdout: Target = None,
        stderr: Target = None,
        shell: bool = False,
        cwd: str | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        text: bool | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a program and return at once, as subprocess.Popen does; with stdin=PIPE and the like its streams are
        files. It ends with the box at the latest."""
        return self._begin(args, stdin, stdout, stderr, shell, cwd, env, None, _text_mode(text, encoding, errors))

    def _begin(
        self,
        args: Command,
        stdin: Target,
        stdout: Target,
        stderr: Target,
        shell: bool,
        cwd: str | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
        text: tuple[str, str] | None,
    ) -> Process:
        policy = self._policy.again()
        policy.argv = _words(args, shell=shell)
        policy.env |= _environment(env)
        if cwd is not None:
            policy.workdir = os.path.join(policy.workdir, cwd)
        if timeout is not None:
            policy.timeout = max(timeout, 1e-3)
        kept: list[dict[str, object]] = []
        events = self._new_events(kept)
        pipes = Pipes(stdin, stdout, stderr)
        try:
            run = self._launched(policy, events, pipes.guest)
            pipes.given()
            with self._lock:
                process = Process(run, pipes, policy.argv, kept, self._over, text=text)
                if not process.over():
                    self._processes.add(process)
            return process
        except (NotFound, NotExecutable) as error:
            raise in_public(error) from None
        finally:
            pipes.close()

    def _launched(self, policy: Policy, events: Events, stdio: tuple[int, int, int]) -> Run:
        with self._lock:
            ground = self._open_ground()
            standby, self._standby = self._standby, None
            if standby is not None and (not all(map(as_it_is, stdio)) or not standby.waits()):
                standby.finish()
                standby = None
            if standby is not None:
                try:
                    if standby.start(policy, events, stdio):
                        return standby
                    standby.finish()
                except (NotFound, NotExecutable, UsageError):
                    self._standby = standby  # it was told nothing
                    raise
                except BaseException:
                    standby.finish()
                    raise
            run = Run(ground, policy, events, self._hooks or None)
            try:
                run.launch(stdio)
            except BaseException:
                run.finish()
                raise
            return run

    def _over(self, process: Process, ended: Ended) -> None:
        with self._lock:
            self._last = process.args, ended
            self._processes.discard(process)

    def _new_events(self, kept: list[dict[str, object]]) -> Events:
        if not self._keeps_events:
            return Events(None, None)

        def keep(event: dict[str, object]) -> None:
            if len(kept) >= MOST_EVENTS:
                raise Full
            kept.append(event)

        return Events(keep, None)

    def warm_up(self, args: Command = ("true",)) -> None:
        """Run a program of your own once and prepare the next run, so that its start is a quick one. Only while nothing
        else runs in the box: what waits to be started must not be within reach of a guest."""
        try:
            self.run(args, stdout=DEVNULL, stderr=DEVNULL)
        except (NotFound, NotExecutable):
            pass  # an image without it; then look-ups are learned later
        with self._lock:
            self._open_ground()
            if self._standby is None and not self._processes and not self._hooks:
                self._prepare()

    # -- looking and changing ----------------------------------------------------------------------------------
    def diff(self) -> list[Change]:
        """What differs from what the box started with: its own files, and those of `cow` mounts."""
        with self._mounted() as files:
            return [Change(kind, path) for kind, path in files.changes()]

    def commit(self, image: str) -> str:
        """Make what changed so far (outside mounts) an image of the store, upon the one the box was started from. What
        programs are writing at this moment may be half in it. Returns the new layer's hash."""
        from husk.sandbox.boxes import commit_open

        with self._lock:
            return commit_open(self._open_ground(), image)

    def on(self, *names: str) -> Callable[[HookT], HookT]:
        """A decorator: the function is called with each such call of runs that start from now on, before husk answers.
        It returns None to let it go on, or another name to use instead, or raises OSError to refuse it. It runs in
        husk's threads, perhaps in several at once."""

        def hooked(hook: HookT) -> HookT:
            with self._lock:
                self._open_ground()
                for name in names:
                    self._hooks.add(name, hook)
                self._end_standby()  # it answers from memory what the hook wants to see
            return hook

        return hooked

    @contextmanager
    def _mounted(self) -> Iterator[Files]:
        with self._lock:
            yield self._open_ground().files

    def _start(self) -> str:
        return self._policy.workdir

    def _open_ground(self) -> Ground:
        if self._ground is None:
            raise ValueError("the sandbox is closed")
        return self._ground

    # -- life --------------------------------------------------------------------------------------------------
    @property
    def closed(self) -> bool:
        return self._ground is None

    @property
    def ready(self) -> bool:
        """Does a prepared run wait for its command? Then the next start is a quick one."""
        with self._lock:
            return self._standby is not None and self._standby.waits()

    def close(self) -> None:
        """End every run and remove everything. Safe to call twice."""
        with self._lock:
            ground, self._ground = self._ground, None
            processes = list(self._processes)
        if ground is None:
            return
        living.gone(self)
        try:
            ground.files.vfs.state.ending = True
            for process in processes:
                process.kill()
            for process in processes:
                process.ended()
            self._end_standby()
            ground.keep(*self._last)
        finally:
            ground.close()

    def forget(self) -> None:
        """In a forked child: the box is the parent's. Called by husk itself."""
        ground, self._ground = self._ground, None
        self._lock = threading.RLock()  # whoever held it is not in this process
        for run in (self._standby, *self._processes):
            if run is not None:
                run.forget()
        self._standby = None
        self._processes = set()
        if ground is not None:
            ground.forget()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_ground", None) is not None:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        return f"<husk.Sandbox of {self._policy.image or 'the host'}, {'closed' if self.closed else 'open'}>"


def run(
    args: Command,
    *,
    image: str = "",
    mounts: Iterable[str | Mount] = (),
    net: str | Iterable[str] | None = None,
    limits: Mapping[str, int | str | None] | None = None,
    input: str | bytes | None = None,
    capture_output: bool = False,
    shell: bool = False,
    cwd: str = "",
    timeout: float | None = None,
    check: bool = False,
    text: bool | None = None,
    env: Mapping[str, str] | None = None,
    events: bool = False,
) -> Result:
    """One program in a box of its own, which is gone afterwards."""
    with Sandbox(image, mounts=mounts, net=net, env=env, cwd=cwd, limits=limits, events=events) as box:
        return box.run(
            args, input=input, capture_output=capture_output, shell=shell, timeout=timeout, check=check, text=text
        )


def _words(args: Command, *, shell: bool) -> list[str]:
    if shell:
        if not isinstance(args, str):
            raise ValueError("with shell=True give the command as one string")
        words = ["/bin/sh", "-c", args]
    else:
        words = [args] if isinstance(args, str) else [os.fspath(word) for word in args]
    if not words or not words[0]:
        raise ValueError("say what to run")
    if any("\0" in word for word in words):
        raise ValueError("an argument cannot hold a NUL byte")
    return words


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    for name, value in (env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} cannot be a variable of the environment")
    return dict(env or {})


def _text_mode(text: bool | None, encoding: str | None, errors: str | None) -> tuple[str, str] | None:
    return (encoding or "utf-8", errors or "strict") if text or encoding or errors else None


__all__ = ["DEVNULL", "PIPE", "Output", "Sandbox", "run"]
