"""Programs of /usr that guests execute without asking husk (native/direct/direct_programs.c): they are the box's, as
it and the host change them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY, differential
from tests.lib.running import PATIENCE, PIPE, husk, husk_process

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@pytest.fixture(params=["on", "eager", "asked", "off"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, value = {"on": ("HUSK_GATE", "1"), "eager": ("HUSK_GATE", "eager"), "asked": ("HUSK_DIRECT", "0"),
                   "off": ("HUSK_GATE", "0")}[request.param]  # fmt: skip
    monkeypatch.setenv(name, value)
    return str(request.param)


@pytest.mark.both_settings
def test_transcript(way: str) -> None:
    differential(["{guests}/exec_unasked"], case="exec_unasked")


# The guest: how often children that do nothing gave up their processor.
SPAWNER = """
import os, resource
def spawn(times):
    for _ in range(times):
        os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
before = spawn(20)
print(spawn(100) - before)
"""


def test_husk_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for an answer gives up its processor."""

    def switches() -> int:
        found = husk(["run", "--", "/usr/bin/python3", "-c", SPAWNER])
        assert found.status == 0, found.err
        return int(found.out)

    unasked = switches()
    monkeypatch.setenv("HUSK_DIRECT", "0")
    assert unasked < 0.75 * switches()


# -- changes -----------------------------------------------------------------------------------------------------------


class Programs:
    def __init__(self, top: Path) -> None:
        self.top = top
        top.chmod(0o777)
        (top / "sub").mkdir()
        (top / "sub").chmod(0o777)
        for name, program in {"tool": "echo", "other": "false", "sub/tool": "echo"}.items():
            shutil.copyfile(f"/bin/{program}", top / name)
            (top / name).chmod(0o777)
        (top / "link").symlink_to("tool")


@pytest.fixture
def programs() -> Iterator[Programs]:
    if os.getuid() != 0:
        pytest.skip("only root can make directories below /usr")
    with tempfile.TemporaryDirectory(prefix="husk-programs-", dir="/usr/local/lib") as top:
        yield Programs(Path(top))


# Each name four times: the first is asked, the later ones need not be.
RUN = """
cd /; P=$1
run() { for i in 1 2 3 4; do "$P/$1" "$1" 2>/dev/null; echo "$1: $?"; done; }
all() { run tool; run link; run sub/tool; run other; }
"""
FIRST = ["tool", "tool: 0"] * 4 + ["link", "link: 0"] * 4 + ["sub/tool", "sub/tool: 0"] * 4 + ["other: 1"] * 4


def after(*, tool: list[str], link: list[str] | None = None, sub: list[str] | None = None) -> list[str]:
    link = [word.replace("tool", "link") for word in tool] if link is None else link
    return tool * 4 + link * 4 + (["sub/tool", "sub/tool: 0"] if sub is None else sub) * 4 + ["other: 1"] * 4


WORKS = ["tool", "tool: 0"]
CHANGES = {
    "replaced": ("cp $P/other $P/new; mv $P/new $P/tool", after(tool=["tool: 1"])),
    "written": ("cat $P/other > $P/tool", after(tool=["tool: 1"])),
    "removed": ("rm $P/tool", after(tool=["tool: 127"])),
    "linked": ("ln -sfn other $P/link", after(tool=WORKS, link=["link: 1"])),
    "moved": ("mv $P/sub $P/gone", after(tool=WORKS, sub=["sub/tool: 127"])),
    "exchanged": ("mv $P/sub $P/gone; mkdir $P/sub; cp $P/other $P/sub/tool", after(tool=WORKS, sub=["sub/tool: 1"])),
    "a script": ("printf '#!/bin/sh\\nexit 9' > $P/new; chmod 755 $P/new; mv $P/new $P/tool", after(tool=["tool: 9"])),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["on", "asked"], indirect=True)
def test_changed_in_the_box(programs: Programs, change: str, way: str) -> None:
    command, expected = CHANGES[change]
    script = f"{RUN}\nall\n{command}\nall\n"
    found = husk(["run", "--", "/bin/sh", "-c", script, "sh", str(programs.top)])
    assert found.out.split("\n")[:-1] == FIRST + expected, found.err
    assert (programs.top / "tool").read_bytes() == Path("/bin/echo").read_bytes(), "the host's was changed"


def replace(top: Path) -> None:
    shutil.copyfile("/bin/false", top / "new")
    (top / "new").chmod(0o755)
    (top / "new").rename(top / "tool")


def exchange(top: Path) -> None:
    (top / "sub").rename(top / "gone")
    (top / "sub").mkdir()
    shutil.copyfile("/bin/false", top / "sub" / "tool")
    (top / "sub" / "tool").chmod(0o755)


def link_elsewhere(top: Path) -> None:
    (top / "link").unlink()
    (top / "link").symlink_to("other")


HOST_CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "replaced": (replace, after(tool=["tool: 1"])),
    "removed": (lambda top: (top / "tool").unlink(), after(tool=["tool: 127"])),
    "closed": (lambda top: (top / "tool").chmod(0o600), after(tool=["tool: 126"])),
    "linked": (link_elsewhere, after(tool=WORKS, link=["link: 1"])),
    "exchanged": (exchange, after(tool=WORKS, sub=["sub/tool: 1"])),
}


@pytest.mark.parametrize("change", HOST_CHANGES)
@pytest.mark.parametrize("way", ["on", "asked"], indirect=True)
def test_changed_by_the_host(programs: Programs, change: str, way: str) -> None:
    alter, expected = HOST_CHANGES[change]
    script = f"{RUN}\nall\necho ready\nread go\nall\n"
    command = ["run", "--", "/bin/sh", "-c", script, "sh", str(programs.top)]
    with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        process = running.process
        assert process.stdin and process.stdout and process.stderr
        before = [process.stdout.readline().decode().rstrip("\n") for _ in range(len(FIRST) + 1)]
        assert before == [*FIRST, "ready"], process.stderr.read()
        alter(programs.top)
        out, err = process.communicate(b"go\n", timeout=PATIENCE)
    assert out.decode().split("\n")[:-1] == expected, err.decode()


def test_seen_at_once_by_others(programs: Programs) -> None:
    """One guest executes it over and over while another changes it: from the change on it is the new one."""
    script = (
        RUN
        + """
    for i in 1 2 3 4 5 6 7 8; do "$P/tool" x > /dev/null; done
    for i in 1 2 3 4 5 6 7 8 9 10; do
        cp $P/other $P/new; mv $P/new $P/tool; "$P/tool" x && echo old
        cp /bin/echo $P/new; mv $P/new $P/tool; "$P/tool" x || echo old
    done
    """
    )
    found = husk(["run", "--", "/bin/sh", "-c", script, "sh", str(programs.top)])
    assert found.out == "x\n" * 10 and found.status == 0, found.err
