"""Mistakes at the command line: one clear sentence on stderr, the right exit code, never a traceback."""

from __future__ import annotations

import os

import pytest

from tests.lib.build_guests import guest_programs
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


def assert_one_sentence(result: Result, *words: str) -> None:
    lines = result.err.splitlines()
    assert len(lines) == 1, f"not one line on stderr: {result.err!r}"
    assert "Traceback" not in result.err and "Errno" not in result.err, result.err
    assert lines[0].startswith("husk"), f"does not say who speaks: {lines[0]!r}"
    for word in words:
        assert word in lines[0], f"{word!r} is not in {lines[0]!r}"
    assert result.out == ""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "--nonsense", "--", "true"], "--nonsense"),
        (["frobnicate"], "frobnicate"),
        (["run"], "PROGRAM"),
        (["run", "--"], "PROGRAM"),
        (["run", "--mount", "/usr", "--", "true"], "/usr"),
        (["run", "--mount", "/usr:relative:ro", "--", "true"], "relative"),
        (["run", "--mount", "/usr:/x:rx", "--", "true"], "rx"),
        (["run", "--mount", "/usr:/x:ro:extra", "--", "true"], "extra"),
        (["run", "--mount", ":/x:ro", "--", "true"], "--mount"),
        (["run", "--mount"], "--mount"),
        (["run", "--timeout", "soon", "--", "true"], "soon"),
        (["run", "--timeout", "-1", "--", "true"], "-1"),
        (["run", "--env", "NOEQUALS", "--", "true"], "NOEQUALS"),
        (["run", "--workdir", "relative", "--", "true"], "relative"),
    ],
)
def test_usage(arguments: list[str], word: str) -> None:
    # The harness adds an option after `run`; a wrong command line stays wrong.
    result = husk(arguments)
    assert result.status == 2, result
    assert_one_sentence(result, word)


@pytest.mark.skipif(os.getuid() == 0, reason="root can read everything")
def test_unreadable_mount_source() -> None:
    with scratch() as place:
        (place / "closed").mkdir(mode=0)
        result = husk(["run", "--mount", f"{place}/closed:/data:ro", "--", "true"])
    assert result.status in (2, 125), result
    assert_one_sentence(result, f"{place}/closed")


@pytest.mark.parametrize(("name", "status"), [
    ("no-such-program", 127),
    ("/usr/bin/no-such-program", 127),
    ("./no-such-program", 127),
    ("/etc/passwd", 126),
    ("/usr", 126),
])
def test_program_missing_or_not_executable(name: str, status: int) -> None:
    result = husk(["run", "--", name])
    assert result.status == status, result
    assert_one_sentence(result, name)


def test_missing_program_that_the_host_has() -> None:
    """The program exists, but outside the image: the sentence says how to bring it in."""
    with scratch() as place:
        tool = place / "tool"
        tool.write_text("#!/bin/sh\necho hello\n")
        tool.chmod(0o755)
        result = husk(["run", "--", str(tool)])
        assert result.status == 127, result
        assert_one_sentence(result, str(tool), "--mount")
        good = husk(["run", "--mount", f"{place}:{place}:ro", "--", str(tool)])
        assert (good.status, good.out, good.err) == (0, "hello\n", "")


@pytest.mark.parametrize(("content", "status", "word"), [
    (b"#!/no/such/interpreter\n", 127, "/no/such/interpreter"),
    (b"\x00\x01\x02 no program", 126, "/tools/tool"),
], ids=["missing interpreter of a script", "unknown format"])
def test_program_that_cannot_run(content: bytes, status: int, word: str) -> None:
    with scratch() as place:
        tool = place / "tool"
        tool.write_bytes(content)
        tool.chmod(0o755)
        result = husk(["run", "--mount", f"{place}:/tools:ro", "--", "/tools/tool"])
        assert result.status == status, result
        assert_one_sentence(result, word)


@pytest.mark.parametrize(("options", "word"), [
    (["--mount", "/nowhere/at/all:/data:ro"], "/nowhere/at/all"),
    (["--mount", "/usr:/etc/passwd/x:ro"], "/etc/passwd/x"),
    (["--workdir", "/nowhere/at/all"], "/nowhere/at/all"),
], ids=["missing mount source", "file as mount target parent", "missing working directory"])
def test_places_that_cannot_be(options: list[str], word: str) -> None:
    result = husk(["run", *options, "--", "true"])
    assert result.status in (2, 125), result
    assert_one_sentence(result, word)


@pytest.mark.parametrize(("how", "word"), [("listener", "listener"), ("refused", "seccomp")])
def test_no_notification_to_be_had(how: str, word: str) -> None:
    result = husk(["run", "--", "true"], wrapper=[str(guest_programs() / "no_notify"), how])
    assert result.status == 125, result
    assert_one_sentence(result, word)


def test_state_directory_not_to_be_had() -> None:
    result = husk(["run", "--", "true"], env={"HUSK_STATE": "/proc/nowhere"})
    assert result.status == 125, result
    assert_one_sentence(result, "/proc/nowhere")


def test_help_and_version() -> None:
    for arguments in (["--help"], ["run", "--help"], ["--version"]):
        result = husk(arguments)
        assert result.status == 0, result
        assert result.err == ""
        assert "husk" in result.out



def test_a_link_that_leads_out_of_the_box_says_where() -> None:
    """As the python of a virtual environment does, where the interpreter lies in a home."""
    with scratch() as place:
        python, venv = place / "python", place / "venv"
        for folder in (python / "bin", python / "lib", venv):
            folder.mkdir(parents=True)
        (python / "bin" / "python3").symlink_to("/bin/true")
        (venv / "python3").symlink_to(python / "bin" / "python3")
        (venv / "python").symlink_to("python3")
        command = ["run", "--mount", f"{venv}:/venv:ro", "--", "/venv/python"]
        result = husk(command)
        assert result.status == 127, result
        assert_one_sentence(result, f"a link to {python}/bin/python3", f"add --mount {python}:{python}:ro.")
        assert husk(["run", "--mount", f"{python}:{python}:ro", *command[1:]]).status == 0
