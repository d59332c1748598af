"""Programs that live on a terminal, used as people use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terminal.conftest import Sit

pytestmark = pytest.mark.both_settings
# Escape sequences that a full-screen program may put between two letters, as when it moves or hides the cursor.
CONTROL = r"(?:\x1b\[[0-9;?]*[A-Za-z])*"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory of the host that the box may write to."""
    (tmp_path / "lines").write_text("".join(f"line {number}\n" for number in range(1, 301)))
    return tmp_path


@pytest.mark.needs("vim")
def test_vim_edits_and_saves(sit: Sit, shared: Path) -> None:
    (shared / "note").write_text("old\n")
    person = sit("run", "--mount", f"{shared}:/shared:rw", "--", "vim", "-Nnu", "NONE", "-i", "NONE", "/shared/note")
    person.expect("old")
    person.type("cwnew")
    person.expect("INSERT")
    person.type("\rsecond line")
    person.expect(CONTROL.join("second line"))
    person.type("\x1b")
    person.type(":wq\r")
    assert person.wait() == 0
    assert (shared / "note").read_text() == "new\nsecond line\n"
    assert person.modes() == person.before


@pytest.mark.needs("less")
def test_less_pages(sit: Sit, shared: Path) -> None:
    person = sit("run", "--mount", f"{shared}:/shared:ro", "--", "less", "-X", "/shared/lines")
    person.expect("line 23\r\n")
    person.type(" ")
    person.expect("line 46\r\n")
    person.type("G")
    person.expect(r"line 300\r\n.*\(END\)")
    person.type("q")
    assert person.wait() == 0
    assert "line 150" not in person.seen


@pytest.mark.needs("script")
def test_script_records_a_terminal_inside(sit: Sit) -> None:
    person = sit("run", "--", "sh", "-c", "script -qc 'tty; stty size' /tmp/record; grep -c ^/dev/pts /tmp/record; tty")
    assert person.wait() == 0
    inner, size, count, outer = person.seen.split("\r\n")[:4]
    assert inner.startswith("/dev/pts/") and outer.startswith("/dev/pts/") and inner != outer
    assert (size, count) == ("24 80", "1")


@pytest.mark.needs("tmux")
def test_tmux_session(sit: Sit) -> None:
    """A server in the background, a terminal for each window, keys and sizes through all of them."""
    person = sit("run", "--", "tmux", "-u", "-f", "/dev/null", "new-session", "sh -c 'echo wi''ndow; exec sh'")
    person.expect("window")
    person.type("tty; stty size\r")
    person.expect(r"/dev/pts/\d+.*23 80")  # the last line is tmux's own
    person.type("\x02c")  # a second window
    person.expect(r"1:sh\*")  # not `1:` alone: there is a clock in the same line
    person.type("exit\r")
    person.expect(r"0:sh\*")
    person.type("exit\r")
    person.expect(r"\[exited\]")
    assert person.wait() == 0
    assert person.modes() == person.before


def test_python_prompt(sit: Sit) -> None:
    person = sit("run", "--", "python3", "-q")
    person.expect(">>> ")
    person.type("6 * 7\r")
    person.expect("\n42\r\n.*>>> ")
    person.type("import time; print('wait'+'ing'); time.sleep(1000)\r")
    person.expect("waiting")
    person.type("\x03")
    person.expect("KeyboardInterrupt.*>>> ")
    person.type("\x10\x10\r")  # readline: two lines back in the history
    person.expect("\n42\r\n.*>>> ")
    person.type("\x04")
    assert person.wait() == 0
