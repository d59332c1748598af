"""The instruction by which guests look up names of /usr themselves, with hostile arguments: it reads names
that the box shows anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE, ORIGINAL, unprotected
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import BARE, PATIENCE, PIPE, husk_process

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

# How often the program reached what it should not.
NOTHING = dict.fromkeys(
    ["secret", "secret, from /usr", "secret, from /tmp", "through links", "writable", "other calls", "table", "state"],
    "0",
)


@pytest.fixture
def secret(place: Path) -> Path:
    folder = place / "deep" / "deeper"
    folder.mkdir(parents=True)
    file = folder / "secret"
    file.write_bytes(ORIGINAL)
    return file


def attempt(programs: Path, secret: Path, *words: str, options: tuple[str, ...] = ()) -> tuple[dict[str, str], str]:
    """What the program said, and what husk did."""
    program = [f"{ESCAPE}/direct_calls", str(secret), *words]
    command = ["run", "--mount", f"{programs}:{ESCAPE}:ro", *options, "--", *program]
    said = []
    with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
        process = running.process
        assert process.stdin and process.stdout and process.stderr
        for line in iter(process.stdout.readline, b"state?\n"):
            assert line, process.stderr.read().decode()
            said.append(line.decode())
        state = list(running.state.rglob("*"))
        out, err = process.communicate("".join(f"{path}\n" for path in state).encode(), timeout=PATIENCE)
        assert process.returncode == 0 and len(state) > 3, err.decode()
    assert secret.read_bytes() == ORIGINAL
    said += out.decode().splitlines(keepends=True)
    return dict(line.strip().rsplit(": ", 1) for line in said if ": " in line), err.decode()


def test_the_attempts_are_sound(programs: Path, secret: Path, place: Path) -> None:
    natively = dict(
        line.rsplit(": ", 1) for line in unprotected(programs, ["direct_calls", str(secret)], place).out.splitlines()
        if ": " in line
    )  # fmt: skip
    assert int(natively["secret"]) > 500 and int(natively["secret, from /usr"]) > 500


def test_only_shown_names_are_read(programs: Path, secret: Path) -> None:
    found, _ = attempt(programs, secret)
    assert found.pop("a shown file") == "done", "the attempt itself no longer works, so this test says nothing"
    assert found.pop("the same by its name") == "ENOENT"  # in the box's own root
    assert found == NOTHING | {"relative": "0"}


def test_after_the_guest_restricted_itself(programs: Path, secret: Path) -> None:
    found, _ = attempt(programs, secret, "restricted")
    assert (found["a shown file"], found["the same by its name"]) == ("EACCES", "ENOENT")
    assert {key: found[key] for key in NOTHING} == NOTHING


@pytest.mark.parametrize("how", ["off", "bare", "mount"])
def test_where_names_are_not_direct(
    programs: Path, secret: Path, place: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """husk answers every use of the instruction."""
    options: tuple[str, ...] = ()
    words: list[str] = []
    if how == "off":
        monkeypatch.setenv("HUSK_DIRECT", "0")
    elif how == "bare":
        options = (BARE,)
    else:
        cover = place / "cover"
        cover.mkdir()
        options, words = ("--mount", f"{cover}:/usr/share/doc:ro"), ["/usr/share/doc/base-files/copyright"]
    found, _ = attempt(programs, secret, *words, options=options)
    assert (found["a shown file"], found["the same by its name"]) == ("ENOENT", "done")
    assert {key: found[key] for key in NOTHING} == NOTHING
    if how == "mount":
        assert [found[key] for key in ("covered", "covered, by its name", "covered, seen")] == ["ENOENT"] * 3


def test_a_summary_has_what_was_read(programs: Path, secret: Path, tmp_path: Path) -> None:
    events = tmp_path / "events"
    found, said = attempt(programs, secret, options=("--summary", "--events", str(events)))
    assert (found["a shown file"], found["the same by its name"]) == ("ENOENT", "done")
    assert {key: found[key] for key in NOTHING} == NOTHING
    assert "files of the system" in said and '"/usr/bin/env"' in events.read_text()
