"""What `husk` exports: documented, readable, and typed. mypy holds this file to `strict`, with the types it claims."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, assert_type, get_type_hints

import pytest

import husk
from husk.api import options

CLASSES = [name for name in husk.__all__ if inspect.isclass(getattr(husk, name))]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that husk itself defines."""
    for base in thing.__mro__:
        if base.__module__.partition(".")[0] == "husk":
            for name, value in vars(base).items():
                value = getattr(value, "__func__", value)
                if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property)):
                    yield name, getattr(thing, name)


def test_everything_public_has_a_docstring() -> None:
    bare = [name for name in husk.__all__ if callable(getattr(husk, name)) and not getattr(husk, name).__doc__]
    for one in CLASSES:
        bare += [f"{one}.{name}" for name, value in members(getattr(husk, one)) if not inspect.getdoc(value)]
    assert bare == []


@pytest.mark.parametrize("name", CLASSES)
def test_everything_public_can_be_read(name: str) -> None:
    """A repr that says more than an address."""
    thing = getattr(husk, name)
    own = any("__repr__" in vars(base) for base in thing.__mro__ if base.__module__.partition(".")[0] == "husk")
    assert own or issubclass(thing, BaseException)


def test_everything_public_is_on_its_page() -> None:
    """By its name, or as what a method of that name gives."""
    assert [name for name in husk.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []


def test_what_hands_options_on_knows_all_of_them() -> None:
    def keywords(function: Any) -> set[str]:
        found = inspect.signature(function).parameters.values()
        return {one.name for one in found if one.kind is one.KEYWORD_ONLY}

    assert set(get_type_hints(options.BoxOptions)) == keywords(husk.Sandbox)
    assert set(get_type_hints(options.RunOptions)) == keywords(husk.Sandbox.run) - {"started"}
    assert set(get_type_hints(options.StreamOptions)) == keywords(husk.Sandbox.popen)
    assert set(get_type_hints(options.StartOptions)) == keywords(husk.Sandbox.start)
    assert keywords(husk.run) == keywords(husk.Sandbox) | keywords(husk.Sandbox.run) - {"started"} | {"image"}


def test_readable_results(tmp_path: Path) -> None:
    mount = husk.Mount(str(tmp_path), "/m")
    assert repr(mount) == f"Mount({str(tmp_path)!r}, '/m', 'ro')"
    with husk.Sandbox(mounts=[mount]) as box, box.snapshot() as snapshot:
        done = box.run("echo out; cat /etc/shadow; exit 3", shell=True, capture_output=True, text=True)
        assert repr(done).startswith("Result(args='echo out; cat /etc/shadow; exit 3', returncode=3, stdout='out\\n', ")
        assert repr(done).endswith(", denials=1)") and "open" in repr(snapshot)
        assert len(repr(box.run(["seq", "100000"], capture_output=True))) < 200
        with box.popen(["true"]) as process:
            assert process.wait() == 0 and repr(process) == "<husk.Process: returncode: 0 args: ['true']>"
        assert repr(box.stat("/m")).startswith("Stat(mode=0o40")
    assert repr(snapshot) == "<husk.Snapshot of a box of the host, closed>"


def typed(executor: husk.Executor, pool: husk.Pool) -> None:
    """Never called: mypy reads it."""
    with husk.Sandbox(mounts=[".:/work:cow"], limits={"memory": "1G", "cpu": None}) as box:
        assert_type(box.run(["true"], stdin=husk.DEVNULL, env={"A": "b"}), husk.Result)
        assert_type(box.start(b"true").logs().text, str)
        assert_type(box.copy_in(".", Path("x")), husk.Copied)
        assert_type(box.copy_out("x", "y"), husk.Copied)
        assert_type(box.read("x"), bytes)
        assert_type(box.read("x", text=True), str)
        assert_type(box.apply(paths=[Path("x")], prefer="ours"), husk.Applied)
        assert_type(box.stat("x"), husk.Stat)
        assert_type(box.ports, list[husk.Port])
        denial = box.run(["true"]).denials[0]
        assert_type(denial.remedy, husk.Remedy | None)
    assert_type(executor.submit(divmod, 7, 2), Future[tuple[int, int]])
    assert_type(pool.run(["true"], check=True, timeout=3), husk.Result)
    husk.Pool(2, mouts=[])  # type: ignore[call-arg]  # a keyword that is not there is noticed
    pool.run(["true"], text="yes")  # type: ignore[arg-type]


async def typed_in_a_loop() -> None:
    """Never called: mypy reads it."""
    async with husk.AsyncSandbox("image", net=["example.org:443"]) as box:
        assert_type(await box.run(["true"], encoding="utf-8"), husk.Result)
        assert_type(await box.start(["true"], kept=1), husk.AsyncBackgroundProcess)
        assert_type(await box.popen(["true"], stdin=husk.PIPE), husk.AsyncProcess)
        await box.run(["true"], timout=1)  # type: ignore[call-arg]
