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
