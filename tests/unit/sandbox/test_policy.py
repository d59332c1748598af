"""Policy options as people write them on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.sandbox.errors import HuskError, NotExecutable, NotFound, UsageError
from husk.sandbox.policy import Mount, Policy


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "a file").write_text("x")
    return tmp_path / "data"


@pytest.mark.parametrize(("text", "target", "mode"), [
    ("{}:/in", "/in", "ro"),
    ("{}:/in:ro", "/in", "ro"),
    ("{}:/in:rw", "/in", "rw"),
    ("{}:/in:cow", "/in", "cow"),
    ("{}/:/in/", "/in", "ro"),
    ("{}/../data:/in/../in/x", "/in/x", "ro"),
    ("{}:/ro", "/ro", "ro"),
    ("{}:/in:rw", "/in", "rw"),
])
def test_mount(source: Path, text: str, target: str, mode: str) -> None:
    mount = Mount.parse(text.format(source))
    assert (mount.source, mount.target, mount.mode) == (str(source), target, mode)


def test_two_slashes_are_one(source: Path) -> None:
    """POSIX lets a leading // mean something else; in a box it does not."""
    assert Mount.parse(f"{source}://in").target == "/in"


def test_home_and_relative_sources(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent)
    assert Mount.parse("data:/in").source == str(source)
    assert Mount.parse(".:/in").source == str(source.parent)
    monkeypatch.setenv("HOME", str(source.parent))
    assert Mount.parse("~/data:/in").source == str(source)


@pytest.mark.parametrize("text", [
    "", ":", "::", "{}", "{}:", ":/in", ":/in:ro", "{}:in", "{}:in:ro", "{}:/in:", "{}:/in:rx", "{}:/in:RO",
    "{}:/in:ro:ro", "{}:/in:ro:rw", "{}:/", "{}://", "{}:/..", "{}:/.", "{}:/in/..", "{}:/in:ro,rw", "{}/nowhere:/in",
    "/nowhere at all:/in",
])
def test_mount_that_makes_no_sense(source: Path, text: str) -> None:
    text = text.format(source)
    with pytest.raises(UsageError) as refused:
        Mount.parse(text)
    sentence = str(refused.value)
    assert sentence.startswith("--mount ") and sentence.endswith(".")
    assert "\n" not in sentence and "Errno" not in sentence
    assert refused.value.exit_code == 2


def test_a_relative_target_is_answered_with_the_right_one(source: Path) -> None:
    with pytest.raises(UsageError, match=f"write {source}:/in"):
        Mount.parse(f"{source}:in")


@pytest.mark.skipif(os.getuid() == 0, reason="root can read everything")
def test_unreadable_source(source: Path) -> None:
    source.chmod(0)
    with pytest.raises(UsageError, match="may not read"):
        Mount.parse(f"{source}:/in")


def test_exit_codes() -> None:
    """Names that env(1) and shells accept."""
    codes = (HuskError.exit_code, UsageError.exit_code, NotExecutable.exit_code, NotFound.exit_code)
    assert codes == (125, 2, 126, 127)
    assert all(issubclass(each, HuskError) for each in (UsageError, NotExecutable, NotFound))


def test_environment_is_not_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("PATH", "/root/bin")
    monkeypatch.setenv("HOME", "/root")
    monkeypatch.setenv("LD_PRELOAD", "/tmp/evil.so")
    monkeypatch.setenv("TERM", "vt100")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.delenv("LANG", raising=False)
    env = Policy(["true"]).environment()
    passed = {"TERM", "COLORTERM", "LC_ALL", "LC_CTYPE", "TZ"}
    assert env.keys() - passed == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG"}
    assert env["HOME"] == "/home/user" and "/root" not in env["PATH"]
    assert (env["TERM"], env["TZ"], env["LANG"]) == ("vt100", "UTC", "C.UTF-8")
    assert "LC_ALL" not in env


def test_what_was_asked_for_wins() -> None:
    policy = Policy(["true"])
    policy.env = {"PATH": "/only", "EXTRA": ""}
    env = policy.environment()
    assert env["PATH"] == "/only" and env["EXTRA"] == "" and env["USER"] == "user"


def test_defaults() -> None:
    policy = Policy(["true"])
    assert (policy.workdir, policy.timeout, policy.namespaces, policy.mounts) == ("", None, True, [])
