"""`husk apply`: the host directory becomes what the box shows, or stays what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.snapshots.place import Place, picture
from tests.snapshots.test_boxes import EVERYTHING, prepare

LOOK = (
    "cd /p; find . -type f -o -type l -o -type p | sort | xargs ls -ld --time-style=full-iso;"
    "find . -type f | sort | xargs cat"
)


def as_guest(place: Place) -> str:
    return place.husk("run", "--mount", f"{place.project}:/p:cow", "--", "sh", "-c", LOOK)


@pytest.mark.both_settings
@pytest.mark.needs("python3")
def test_the_host_becomes_what_the_box_shows(place: Place) -> None:
    prepare(place)
    os.setxattr(place.project / "file", "user.host", b"stays")
    place.python("box", EVERYTHING + 'os.unlink("socket")\n', *place.cow)
    before = picture(place.project)
    assert place.json("apply", "box", "--dry-run")["applied"] is False
    assert "--yes" in place.refused(2, "apply", "box")
    assert picture(place.project) == before
    wanted = place.sh("box", LOOK)
    place.husk("apply", "box", "--yes")
    assert as_guest(place) == wanted
    assert os.stat(place.project / "twin_a").st_ino == os.stat(place.project / "twin_b").st_ino
    assert os.stat(place.project / "file").st_ino == os.stat(place.project / "linked").st_ino
    assert os.getxattr(place.project / "attribute", "user.note") == b"x"
    assert os.getxattr(place.project / "file", "user.host") == b"stays"
    assert not [path for path in os.listdir(place.project) if path.startswith(".husk")]
    # The host has these changes now: nothing is left to apply, and the box goes on from there.
    assert [path for _, path in place.changes("box") if path.startswith("/p/")] == []
    assert place.sh("box", LOOK) == wanted
    place.sh("box", "echo later > /p/later")
    place.husk("apply", "box", "/p", "--yes")
    assert (place.project / "later").read_text() == "later\n"
    assert place.leftovers() == []


def test_what_the_host_changed_meanwhile_is_not_overwritten(place: Place) -> None:
    top = place.project
    for name in ("folder", "kept", "other"):
        (top / name).mkdir()
    for name in ("changed", "deleted", "folder/one", "folder/two", "mode", "linked", "kept/f", "other/f"):
        (top / name).write_text("1")
    script = "echo new > changed; rm deleted; rm -r folder; echo new > added; chmod 700 mode; echo 2 >> kept/f"
    place.sh("box", f"cd /p; {script}; mv other moved; chmod 700 linked", *place.cow)
    (top / "changed").write_text("2")  # same size
    (top / "deleted").write_text("the host's")
    (top / "folder" / "one").unlink()
    (top / "folder" / "one").write_text("1")
    (top / "folder" / "new").write_text("the host's")
    (top / "added").write_text("the host's")
    (top / "mode").unlink()
    os.rename(top / "other", top / "elsewhere")
    os.link(top / "linked", top / "second")
    before = picture(top)
    told = place.refused(1, "apply", "box", "--yes")
    assert picture(top) == before
    for name in ("changed", "deleted", "folder/one", "folder/new", "added", "mode", "other", "linked"):
        assert f" {name}: " in told, told
    for name in ("folder/two", "kept", "second"):
        assert f" {name}: " not in told


def test_what_comes_below_a_renamed_directory_goes_along(place: Place) -> None:
    (place.project / "old").mkdir()
    (place.project / "old" / "f").write_text("1")
    place.sh("box", "mv /p/old /p/renamed", *place.cow)
    (place.project / "old" / "late").write_text("late")
    place.husk("apply", "box", "--yes")
    assert os.listdir(place.project) == ["renamed"]
    assert (place.project / "renamed" / "late").read_text() == "late"


def test_no_link_leads_out(place: Place) -> None:
    """Between run and apply a directory becomes a link to elsewhere."""
    outside = place.top / "outside"
    outside.mkdir()
    (place.project / "d").mkdir()
    place.sh("box", "echo in > /p/d/f; ln -s /etc /p/out", *place.cow)
    (place.project / "d").rmdir()
    (place.project / "d").symlink_to(outside)
    assert " d" in place.refused(1, "apply", "box", "--yes")
    assert os.listdir(outside) == []
    assert os.listdir(place.project) == ["d"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, whose guests are somebody else")
def test_nothing_becomes_privileged(place: Place) -> None:
    os.chown(place.project, 1234, 1234)
    place.sh("box", "cd /p; cp /bin/true tool; chmod 6755 tool; mkdir d; chmod 2755 d", *place.cow)
    assert "set-uid" in place.husk("apply", "box", "--yes")
    info = os.stat(place.project / "tool")
    assert (info.st_mode & 0o7777, info.st_uid, info.st_gid) == (0o755, 1234, 1234)
    assert os.stat(place.project / "d").st_mode & 0o7777 == 0o2755


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount a small file system in a namespace of its own")
def test_a_full_disk(place: Place) -> None:
    """The state fits; the host directory does not: nothing is applied. Then the state does not: nothing is kept."""
    (place.project / "f").write_text("1")
    script = f"""
    mount -t tmpfs -o size=300k none {place.project} && echo 1 > {place.project}/f &&
    mount -t tmpfs -o size=4m none {place.state} && chmod 755 {place.project} {place.state} &&
    $H run --keep box --mount {place.project}:/p:cow -- sh -c 'echo 2 > /p/f; head -c 600000 /dev/urandom > /p/large' &&
    cp -a {place.project} {place.top}/before; $H apply box --yes >/dev/null; echo apply $?
    diff -r {place.project} {place.top}/before && echo same
    $H run --keep box -- sh -c 'echo 3 > /p/f; head -c 8000000 /dev/zero > /p/huge; true'; echo run $?
    $H run --keep box -- sh -c 'cat /p/f'; $H drop box; ls {place.state}/layers | wc -l
    """
    import subprocess

    from tests.lib.running import husk_command

    env = place.environment() | {"H": " ".join(husk_command())}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], env=env, capture_output=True, text=True, timeout=100, check=False
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "apply 125", done
    assert "nothing was applied" in done.stderr
    assert lines[1] == "same"
    # Either the run itself got ENOSPC and what it could write is kept, or nothing of the run is kept.
    assert lines[2] in ("run 0", "run 125"), done
    assert lines[3] == ("3" if lines[2] == "run 0" else "2"), done
    assert lines[4:] == ["box", "0"], done
    assert Path(place.top / "before" / "f").read_text() == "1\n"
