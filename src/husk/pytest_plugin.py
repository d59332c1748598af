"""A pytest plugin: `@pytest.mark.husk` runs what a test starts with `subprocess` in a box of the test's own.

The test itself stays outside; so does what `multiprocessing` and `os.fork` make, which is the test's own code. Ways to
start a program that would walk past the box raise an error instead. docs/agents.md shows how to use it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from husk.api.process import Process
    from husk.api.run_result import Result
    from husk.api.sandbox import Sandbox

MARK = (
    'husk(project="ro", image=, mounts=, hide=, deny=, protect=, allow=, default_rules=, net=, limits=, env=, cwd=, '
    "publish=, namespaces=, weaken=): what the test starts with subprocess runs in a husk box. It sees the project at "
    "its own path, the running Python, and tmp_path if the test uses it; the other options are those of husk.Sandbox. "
    "The fixture husk_box is the box."
)
OPTIONS = {"project", "image", "mounts", "net", "limits", "env", "cwd", "publish", "namespaces", "weaken"}
OPTIONS |= {"hide", "deny", "protect", "allow", "default_rules"}
# What subprocess.Popen takes and a box cannot give: never to be dropped silently.
_REFUSED: dict[str, object] = {
    "executable": None,
    "preexec_fn": None,
    "startupinfo": None,
    "user": None,
    "group": None,
    "extra_groups": None,
    "pass_fds": (),
    "umask": -1,
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)


def pytest_itemcollected(item: pytest.Item) -> None:
    names = getattr(item, "fixturenames", None)
    if names is not None and "husk_box" not in names and item.get_closest_marker("husk"):
        names.append("husk_box")


@pytest.fixture
def husk_box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The box of a test: husk.Sandbox, made with the options of its mark."""
    mark = request.node.get_closest_marker("husk")
    options: dict[str, Any] = dict(mark.kwargs) if mark else {}
    unknown = sorted(set(options) - OPTIONS)
    if unknown or (mark and mark.args):
        raise pytest.UsageError(f"mark.husk takes {', '.join(sorted(OPTIONS))}, not {', '.join(unknown) or 'a value'}")
    from husk.api.sandbox import Sandbox

    mounts = _mounts(request, options.pop("project", "ro"))
    options["mounts"] = [*mounts, *options.get("mounts", ())]
    with Sandbox(**options) as box:
        yield box


def _mounts(request: pytest.FixtureRequest, project: str | None) -> list[Any]:
    from husk.sandbox.policy import Mount

    found = []
    if project:
        found.append(Mount(str(request.config.rootpath), str(request.config.rootpath), project))
    for place in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not place.startswith("/usr"):
            found.append(Mount(place, place))  # so that sys.executable is the same program in the box
    if "tmp_path" in request.fixturenames:
        place = str(request.getfixturevalue("tmp_path"))
        found.append(Mount(place, place, "rw", ruled=False))
    return found


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("husk") is None:
        yield
        return
    from asyncio.base_events import BaseEventLoop

    box: Sandbox = getattr(item, "funcargs", {})["husk_box"]
    results: list[Result] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", _popen_in(box, results))
        patch.setattr(os, "system", _refused("os.system"))
        for name in ("subprocess_exec", "subprocess_shell"):
            patch.setattr(BaseEventLoop, name, _refused("asyncio's subprocesses"))
        yield
    told = [result.explain() for result in results if result.denials or result.limits]
    if told:
        item.add_report_section("call", "husk", "\n\n".join(told))


def _refused(what: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(f"{what} would start a program outside the box of this test; use subprocess")

    return refuse


def _popen_in(box: Sandbox, results: list[Result]) -> type:
    class BoxPopen(_BoxPopen):
        def __init__(self, args: Any, bufsize: int = -1, *more: Any, **options: Any) -> None:
            if more:
                raise TypeError("in a test marked husk, give subprocess.Popen its options by name")
            super().__init__(box, results, args, options)

    return BoxPopen


class _BoxPopen:
    """subprocess.Popen, as far as a box can give it."""

    def __init__(self, box: Sandbox, results: list[Result], args: Any, options: dict[str, Any]) -> None:
        for name, unset in _REFUSED.items():
            if options.get(name, unset) != unset:
                raise ValueError(f"{name} means nothing in a box; leave it out of a test marked husk")
        taken: dict[str, Any] = {
            name: options[name]
            for name in ("stdin", "stdout", "stderr", "encoding", "errors")
            if options.get(name) is not None
        }
        taken["text"] = bool(options.get("text") or options.get("universal_newlines"))
        self.universal_newlines = taken["text"]
        self.args = args
        words: str | Sequence[Any] = args if isinstance(args, str | list | tuple) else [args]
        self._process: Process = box.popen(
            words, shell=bool(options.get("shell")), cwd=_start(box, options), env=_variables(options), **taken
        )
        self._results = results
        self.pid = self._process.pid
        self.stdin, self.stdout, self.stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self.returncode: int | None = None

    def __class_getitem__(cls, _: object) -> type:
        return cls

    def poll(self) -> int | None:
        return self._noted(self._process.poll())

    def wait(self, timeout: float | None = None) -> int:
        code = self._noted(self._process.wait(timeout))
        assert code is not None
        return code

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        output = self._process.communicate(input, timeout)
        self._noted(self._process.poll())
        return output

    def _noted(self, code: int | None) -> int | None:
        if code is not None and self.returncode is None:
            self.returncode = code
            self._results.append(self._process.result())
        return code

    def send_signal(self, sig: int) -> None:
        self._process.send_signal(sig)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> _BoxPopen:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close_pipes()
        self.wait()


def _start(box: Sandbox, options: dict[str, Any]) -> str | None:
    """As outside, where the test is; where the box has no such place, where its programs start."""
    if options.get("cwd") is not None:
        return os.fsdecode(options["cwd"])
    here = os.getcwd()
    return here if box.exists(here) else None


def _variables(options: dict[str, Any]) -> dict[str, str] | None:
    given = options.get("env")
    return None if given is None else {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
