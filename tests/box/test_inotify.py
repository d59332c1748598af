"""inotify: each program prints one line per step with the events it made, on each kind of mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lib import guest_trees as trees
from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY, differential
from tests.lib.running import PATIENCE, Running, husk, husk_process, scratch

pytestmark = pytest.mark.both_settings

NAMES = ("early", "read", "written", "emptied", "cut", "mode", "moved", "watched", "gone", "twin1")
LOW: trees.Tree = {**{f"low/{name}": name + "\n" for name in NAMES}, "low/sub/": "", "low/link@": "read"}
PROGRAMS = ["inotify_names", "inotify_calls", "inotify_handles"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_transcript(name: str) -> None:
    """On a host directory, read-write."""
    differential(["{guests}/" + name], case=name, tree=LOW)


@pytest.mark.parametrize("name", PROGRAMS)
def test_transcript_in_tmp(name: str) -> None:
    """In the box's own files."""
    script = 'd=$(mktemp -d) && cp -a low "$d" && cd "$d" && {guests}/' + name + '; chmod -R u+rwx "$d"; rm -r "$d"'
    differential(["/bin/sh", "-c", script], case=name + " in tmp", tree=LOW)


@pytest.mark.parametrize("name", PROGRAMS)
def test_transcript_copy_on_write(name: str) -> None:
    """On host files below a layer. The host's files stay as they were."""
    with scratch() as place:
        trees.prepare(place, LOW)
        os.link(place / "low/twin1", place / "low/twin2")
        os.mkfifo(place / "low/fifo", 0o644)
        before = trees.snapshot(place, "")
        script = "test -d /cow && cd /cow || cd here && {guests}/" + name
        tree = {f"here/{path}": content for path, content in LOW.items()}
        differential(
            ["/bin/sh", "-c", script],
            case=name + " copy-on-write",
            tree=tree,
            ignore=["here/*"],
            mounts=[f"{place}:/cow:cow"],
        )
        assert trees.snapshot(place, "") == before


def test_an_unread_queue_overflows() -> None:
    differential(["{guests}/inotify_load", "flood"])


husk_only = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@contextmanager
def watcher(mount: str) -> Iterator[Running]:
    options = ["--mount", f"{guest_programs()}:{GUESTS}:ro", "--mount", mount]
    pipe = subprocess.PIPE
    with husk_process(
        ["run", *options, "--", f"{GUESTS}/inotify_load", "print", "/watched"], stdin=pipe, stdout=pipe
    ) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"ready\n"
        yield running


@husk_only
@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_the_hosts_own_changes_are_seen(mode: str) -> None:
    with scratch() as place:
        Path(place, "file").write_text("text")
        with watcher(f"{place}:/watched:{mode}") as running:
            with Path(place, "file").open("a") as file:
                file.write("more")
            Path(place, "file").rename(place / "other")
            Path(place, "other").unlink()
            Path(place, "end").mkdir()
            out, _ = running.process.communicate(timeout=PATIENCE)
    assert out.decode().splitlines() == [
        "1 MODIFY file",
        "1 CLOSE_WRITE file",
        "1 MOVED_FROM cookie 1 file",
        "1 MOVED_TO cookie 1 other",
        "1 DELETE other",
    ]


class Told:
    """A guest that prints the events of /watched, a `cow` mount. `script` runs in the box before it, in a shell."""

    def __init__(self, running: Running) -> None:
        assert running.process.stdout is not None and running.process.stdin is not None
        self._lines, self._input = running.process.stdout, running.process.stdin
        self._last: set[str] = set()

    def expect(self, *lines: str) -> None:
        """The host's changes are repeated, so each step waits for what the guest hears of it. One write may be told
        in several: emptying a file is a change, too."""
        for line in lines:
            while (found := self._lines.readline().decode().rstrip("\n")) in self._last and found != line:
                pass
            assert found == line
            self._last = {*self._last, found} if "MODIFY" in found or "CLOSE_WRITE" in found else set()

    def go_on(self) -> None:
        self._input.write(b"\n")
        self._input.flush()


@contextmanager
def told(place: Path, script: str) -> Iterator[Told]:
    options = ["--mount", f"{guest_programs()}:{GUESTS}:ro", "--mount", f"{place}:/watched:cow"]
    pipe = subprocess.PIPE
    words = ["run", *options, "--", "/bin/sh", "-c", f"cd /watched; {script}"]
    with husk_process(words, stdin=pipe, stdout=pipe) as running:
        yield Told(running)


@husk_only
def test_changes_of_the_host_below_a_copy() -> None:
    """What the guest sees of the host is reported under its name, whatever was done to it."""
    with scratch() as place:
        for name in ("file", "old", "sub/inner"):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text(name)
        with told(place, f"exec {GUESTS}/inotify_load print /watched") as guest:
            guest.expect("ready")
            (place / "file").write_text("more")
            guest.expect("1 MODIFY file", "1 CLOSE_WRITE file")
            (place / "new").touch()
            guest.expect("1 CREATE new", "1 CLOSE_WRITE new")
            (place / "new").rename(place / "named")
            guest.expect("1 MOVED_FROM cookie 1 new", "1 MOVED_TO cookie 1 named")
            (place / "named").rename(place / "old")
            guest.expect("1 MOVED_FROM cookie 2 named", "1 MOVED_TO cookie 2 old")
            (place / "old").rename(place / "sub" / "away")
            guest.expect("1 MOVED_FROM cookie 3 old")
            (place / "sub" / "away").rename(place / "back")
            guest.expect("1 MOVED_TO cookie 4 back")
            (place / "back").chmod(0o600)
            guest.expect("1 ATTRIB back")
            (place / "back").unlink()
            guest.expect("1 DELETE back")
            (place / "directory").mkdir()
            guest.expect("1 CREATE|ISDIR directory")
            (place / "directory").rmdir()
            guest.expect("1 DELETE|ISDIR directory")
            (place / ".env").write_text("a rule hides it")
            (place / "end").mkdir()


@husk_only
def test_the_copy_hides_changes_of_the_host() -> None:
    """What the guest has changed, deleted or put there is its own; also if it does so while it watches."""
    with scratch() as place:
        for name in ("changed", "deleted", "later", "mode", "seen"):
            (place / name).write_text(name)
        script = f"""echo own > changed; rm deleted; chmod 600 mode; {GUESTS}/inotify_load print /watched &
            read go; echo own > later; read go; cat changed later mode; wait"""
        with told(place, script) as guest:
            guest.expect("ready")
            (place / "later").write_text("the host's")
            guest.expect("1 MODIFY later", "1 CLOSE_WRITE later")
            guest.go_on()
            guest.expect("1 MODIFY later", "1 CLOSE_WRITE later")
            for name in ("changed", "deleted", "later"):
                (place / name).write_text("not for the guest")
            (place / "deleted").unlink()
            (place / "changed").unlink()
            (place / "mode").write_text("the host's\n")  # its content is
            guest.expect("1 MODIFY mode", "1 CLOSE_WRITE mode")
            (place / "seen").unlink()
            guest.expect("1 DELETE seen")
            guest.go_on()
            guest.expect("own", "own", "the host's")
            (place / "end").mkdir()


@husk_only
def test_a_watched_file_below_a_copy() -> None:
    """It is copied for the watch, and follows the host's file, even to another one under its name. A file that the
    guest might not have read it does not follow."""
    with scratch() as place:
        (place / "file").write_text("1\n")
        script = f"{GUESTS}/inotify_load print /watched/file & for i in 1 2 3; do read go; cat file; done; kill $!"
        with told(place, script) as guest:
            guest.expect("ready")
            (place / "file").write_text("22\n")
            guest.expect("1 MODIFY", "1 CLOSE_WRITE")
            guest.go_on()
            guest.expect("22")
            (place / "other").write_text("3\n")
            (place / "other").rename(place / "file")
            guest.expect("1 MODIFY", "1 CLOSE_WRITE")
            guest.go_on()
            guest.expect("3")
            (place / "secret").write_text("secret\n")
            (place / "secret").chmod(0o200)
            (place / "secret").rename(place / "file")
            guest.go_on()
            guest.expect("3")


@husk_only
@pytest.mark.needs("node")
def test_node_starts_a_program_again() -> None:
    with scratch() as place:
        (place / "main.js").write_text("console.log('says', require('./part.js'))")
        (place / "part.js").write_text("module.exports = 1")
        with told(place, "exec node --watch main.js 2>&1 | grep --line-buffered says") as guest:
            guest.expect("says 1")
            (place / "part.js").write_text("module.exports = 22")
            guest.expect("says 22")
            (place / "part.tmp").write_text("module.exports = 3")
            (place / "part.tmp").rename(place / "part.js")
            guest.expect("says 3")


@husk_only
def test_watching_changes_nothing() -> None:
    """Watching a file copies it up. That does not count as a change by the guest."""
    with scratch() as place:
        trees.prepare(place, LOW)
        script = (
            "inotify_load print /cow/low >/tmp/told & until grep -q ready /tmp/told; do sleep 0.02; done; "
            "cat low/read low/early low/cut; kill $!; rm /tmp/told"
        )
        result = husk(
            [
                "run",
                *("--summary", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--mount", f"{place}:/cow:cow"),
                *("--env", f"PATH={GUESTS}:/bin", "--workdir", "/cow", "--", "/bin/sh", "-c", script),
            ]
        )
    assert result.out == "read\nearly\ncut\n"
    assert "changed: nothing" in result.err, result.err


def test_fanotify_is_refused() -> None:
    """As an unprivileged user sees it: such a user may not watch whole mounts."""
    script = (
        "import ctypes, errno; c = ctypes.CDLL(None, use_errno=True); print(c.fanotify_init(0, 0), "
        "errno.errorcode[ctypes.get_errno()])"
    )
    differential(["python3", "-c", script])
