"""api: Sandbox, a box that lives as long as the application wants it: one file system, any number of runs in it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from husk.api import at_exit as living
from husk.api.applying import Applied, apply_changes
from husk.api.background_process import KEPT, BackgroundProcess, Port
from husk.api.box_snapshot import Snapshot
from husk.api.files import BoxFiles, Name
from husk.api.options import (
    Command,
    Environment,
    Target,
    Word,
    check_input,
    environment,
    policy_of,
    text_mode,
    words,
)
from husk.api.process import DEVNULL, PIPE, STDOUT, Pipes, Process
from husk.api.run_result import Change, Result, TimeoutExpired, speaking_python
from husk.api.runs import Runs
from husk.kernel.hooks import Hooks
from husk.sandbox.errors import NotExecutable, NotFound

if TYPE_CHECKING:
    from husk.kernel.hooks import Hook
    from husk.sandbox.filesystem import Files
    from husk.sandbox.policy import Mount, Policy

    HookT = TypeVar("HookT", bound=Hook)


class Sandbox(BoxFiles):
    """A box. Files that one run wrote are there for the next, until `close`, which the `with` statement calls.

    `image`: a name in the store (default: the host's own programs); `mounts`: "SRC:DST[:MODE]" or Mount objects;
    `hide`, `deny`, `protect`, `allow`: patterns for names below mounts, beside husk's own (`default_rules`);
    `env`: variables, beside the few every box has; `cwd`: where programs start (/workspace); `net`: None for
    the box's own loopback only, "host", or a list of what may be reached, as ["example.org:443"]; `deny_net`: what of
    that may not; `allow_http`: HTTP requests that pass through husk, as ["GET https://example.org/v1/**"]; `inject`:
    headers that husk adds to them; `publish`: ports the host can reach, as ["8080:8000"]; `devices`: of the host, as
    ["kvm"]; `limits`: by name, as {"memory": "512M"}; `keep`: the name of a kept box to continue in, and to keep at the
    end; `events`: keep what happens in each result (slower); `namespaces` and `weaken` as the options of `husk run`.

    All methods may be called from any thread; several runs may be under way at once. They share files and loopback,
    and see only their own processes.
    """

    def __init__(
        self,
        image: str = "",
        *,
        mounts: Iterable[str | Mount] = (),
        hide: Iterable[str] = (),
        deny: Iterable[str] = (),
        protect: Iterable[str] = (),
        allow: Iterable[str] = (),
        default_rules: bool = True,
        env: Environment | None = None,
        cwd: str = "",
        net: str | Iterable[str] | None = None,
        deny_net: Iterable[str] = (),
        allow_http: Iterable[str] = (),
        inject: Iterable[str] = (),
        publish: Iterable[str] = (),
        allow_sockets: Iterable[str] = (),
        devices: Iterable[str] = (),
        limits: Mapping[str, int | str | None] | None = None,
        keep: str = "",
        events: bool = False,
        namespaces: bool = True,
        weaken: Iterable[str] = (),
        store: str = "",
    ) -> None:
        with speaking_python():
            policy = policy_of(
                image,
                mounts=mounts,
                hide=hide,
                deny=deny,
                protect=protect,
                allow=allow,
                default_rules=default_rules,
                env=env,
                cwd=cwd,
                net=net,
                deny_net=deny_net,
                allow_http=allow_http,
                inject=inject,
                publish=publish,
                allow_sockets=allow_sockets,
                devices=devices,
                limits=limits,
                keep=keep,
                namespaces=namespaces,
                weaken=weaken,
                store=store,
            )
        self._open_new(policy, events=events)

    def _open_new(self, policy: Policy, *, events: bool = False) -> None:
        self._open(Runs(policy, Hooks(), events=events))

    def _open(self, runs: Runs) -> None:
        self._runs = runs
        living.born(self)

    @classmethod
    def _of(cls, runs: Runs) -> Sandbox:
        """A box that was made from a snapshot."""
        box = cls.__new__(cls)
        box._open(runs)
        return box

    # -- running -----------------------------------------------------------------------------------------------
    def run(
        self,
        args: Command,
        *,
        bufsize: int = -1,
        executable: Word | None = None,
        input: str | bytes | None = None,
        stdin: Target = None,
        stdout: Target = None,
        stderr: Target = None,
        capture_output: bool = False,
        shell: bool = False,
        cwd: Word | None = None,
        timeout: float | None = None,
        check: bool = False,
        encoding: str | None = None,
        errors: str | None = None,
        text: bool | None = None,
        universal_newlines: bool | None = None,
        env: Environment | None = None,
        started: Callable[[Process], None] | None = None,
    ) -> Result:
        """Run a program to its end, as subprocess.run does. Different: the guest never gets the caller's environment
        (`env` adds to the box's own) nor its standard input (none unless given), and whatever the program started
        ends with it. `started` is told of the process, so that another thread may end it."""
        if input is not None:
            if stdin is not None:
                raise ValueError("stdin and input may not both be used")
            stdin = PIPE
        if capture_output:
            if stdout is not None or stderr is not None:
                raise ValueError("stdout and stderr may not be used with capture_output")
            stdout = stderr = PIPE
        mode = text_mode(text, universal_newlines, encoding, errors)
        check_input(input, mode)
        policy = self._order(args, shell, executable, cwd, env, timeout)
        process = self._runs.begin(policy, Pipes(stdin, stdout, stderr), mode, args, bufsize)
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
        bufsize: int = -1,
        executable: Word | None = None,
        stdin: Target = None,
        stdout: Target = None,
        stderr: Target = None,
        shell: bool = False,
        cwd: Word | None = None,
        encoding: str | None = None,
        errors: str | None = None,
        text: bool | None = None,
        universal_newlines: bool | None = None,
        env: Environment | None = None,
    ) -> Process:
        """Start a program and return at once, as subprocess.Popen does; with stdin=PIPE and the like its streams are
        files. It ends with the box at the latest."""
        mode = text_mode(text, universal_newlines, encoding, errors)
        policy = self._order(args, shell, executable, cwd, env, None)
        return self._runs.begin(policy, Pipes(stdin, stdout, stderr), mode, args, bufsize)

    def start(
        self,
        args: Command,
        *,
        stdin: Target = None,
        shell: bool = False,
        cwd: Word | None = None,
        env: Environment | None = None,
        timeout: float | None = None,
        kept: int = KEPT,
    ) -> BackgroundProcess:
        """Start a program that runs on, as `husk run -d` does: husk reads what it writes and keeps the last `kept`
        bytes. `timeout`: seconds after which it is ended. It ends with the box at the latest."""
        policy = self._order(args, shell, None, cwd, env, timeout)
        process = self._runs.begin(policy, Pipes(stdin, PIPE, STDOUT), None, args)
        return BackgroundProcess(process, lambda: self.ports, kept=kept)

    @property
    def ports(self) -> list[Port]:
        """The ports of the host that lead into the box (`publish`). Port 0 became one that was free."""
        with self._runs.lock:
            return [Port(*port) for port in self._runs.box().ports]

    def _order(
        self,
        args: Command,
        shell: bool,
        executable: Word | None,
        cwd: Word | None,
        env: Environment | None,
        timeout: float | None,
    ) -> Policy:
        policy = self._runs.policy.again()
        policy.argv = words(args, shell=shell, executable=executable)
        if executable and not shell:
            policy.executable = os.fsdecode(executable)
        policy.env |= environment(env)
        if cwd is not None:
            policy.workdir = os.path.join(policy.workdir, os.fsdecode(cwd))
        if timeout is not None:
            policy.timeout = max(timeout, 1e-3)
        return policy

    def warm_up(self, args: Command = ("true",)) -> None:
        """Run a program once and prepare the next run, so that it starts quickly. Only while nothing else runs in the
        box: no guest may reach a run that waits to be started."""
        try:
            self.run(args, stdout=DEVNULL, stderr=DEVNULL)
        except (NotFound, NotExecutable):
            pass  # the image lacks it; then the name cache learns later
        runs = self._runs
        with runs.lock:
            runs.box()
            if runs.standby is None and runs.idle and not runs.hooks:
                runs.prepare()

    # -- looking and changing ----------------------------------------------------------------------------------
    def diff(self) -> list[Change]:
        """The changes since the box started: to its own files, and to those of `cow` mounts."""
        with self._mounted() as files:
            return [Change(kind, path) for kind, path in files.changes()]

    def commit(self, image: str) -> str:
        """Make the changes so far (outside mounts) an image of the store, upon the image the box was started from. A
        file that a program is writing at this moment may be half in it. Returns the hash of the new layer."""
        from husk.sandbox.kept.operations import commit_open

        with speaking_python(), self._runs.lock:
            return commit_open(self._runs.box(), image)

    def apply(
        self,
        mount: str = "",
        *,
        paths: Iterable[Name] = (),
        prefer: Literal["", "theirs", "ours"] = "",
        dry_run: bool = False,
    ) -> Applied:
        """Write what changed below a `cow` mount (which, if there are several: its place in the box, or the host
        directory) to the host directory: all of it or nothing. `paths`: only what is at or below these names of the box
        or of the host; the rest stays in the box. Texts that both have changed are merged where git can. `prefer`:
        where it cannot, "theirs" takes the box's version and "ours" leaves the host's; else husk.Conflict is raised.
        `dry_run`: tell what would be done. Nothing may be running in the box."""
        chosen = [os.path.join(self._start(), os.fspath(path)) for path in paths]
        with speaking_python():
            return apply_changes(self._runs, mount, dry_run=dry_run, paths=chosen, prefer=prefer)

    def snapshot(self) -> Snapshot:
        """The box's files as they are now, to open other boxes with. Close it when you no longer need it."""
        return Snapshot(self._runs, Sandbox._of)

    def fork(self, *, keep: str = "", publish: Iterable[str] = ()) -> Sandbox:
        """A second box with the same files, mounts, network, limits and hooks; neither sees what the other changes
        later. While nothing runs in this box, no file is copied. `keep`: a name to keep the new one under."""
        with self.snapshot() as snapshot:
            return snapshot.open(keep=keep, publish=publish)

    def on(self, *names: str) -> Callable[[HookT], HookT]:
        """A decorator: the function is called with each such call of runs that start from now on, before husk answers.
        It returns None to let it go on, or another name to use instead, or raises OSError to refuse it. It runs in
        husk's threads, perhaps in several at once."""

        def hooked(hook: HookT) -> HookT:
            runs = self._runs
            with runs.lock:
                runs.box()
                for name in names:
                    runs.hooks.add(name, hook)
                runs.end_standby()  # its name cache answers calls that the hook wants to see
            return hook

        return hooked

    @contextmanager
    def _mounted(self) -> Iterator[Files]:
        with self._runs.lock:
            yield self._runs.box().files

    def _writing(self) -> AbstractContextManager[None]:
        return self._runs.writing()

    def _start(self) -> str:
        return self._runs.policy.workdir

    # -- life --------------------------------------------------------------------------------------------------
    @property
    def closed(self) -> bool:
        """Has it been closed?"""
        return self._runs.closed

    @property
    def idle(self) -> bool:
        """Does no program run in the box, and is none of its files being written?"""
        with self._runs.lock:
            return self._runs.idle

    @property
    def ready(self) -> bool:
        """Does a prepared run wait for its command? Then the next start is quick."""
        with self._runs.lock:
            return self._runs.standby is not None and self._runs.standby.waits()

    def close(self) -> None:
        """End every run and remove everything. Safe to call twice."""
        if self._runs.close():
            living.gone(self)

    def forget(self) -> None:
        """In a forked child: the box is the parent's. Called by husk itself."""
        self._runs.forget()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_runs") and not self._runs.closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def __repr__(self) -> str:
        return f"<husk.Sandbox of {self._runs.policy.image or 'the host'}, {'closed' if self.closed else 'open'}>"


__all__ = ["Sandbox"]
