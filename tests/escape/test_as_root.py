"""What root's husk does in a guest's place, where Linux would look at who the guest is: owners, ports, what is counted.

Everything here is about husk started by root; an ordinary user's has no more rights than its guest.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.vfs import hosttree_write
from husk.vfs.hosttree_write import HostTree
from husk.vfs.node import Context, Credentials
from tests.guest.harness import NATIVE_ONLY
from tests.guest.running import husk

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's husk may no more than its guest"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

BOB, FIRST_USER, CREW = 12345, 1000, 23456
INSIDE = Context(Credentials(1000, 1000))


# -- whose files -------------------------------------------------------------------------------------------------------


@pytest.mark.both_settings
def test_who_has_the_guests_number_on_the_host_is_a_stranger(place: Path) -> None:
    """The guest's number inside is that of the host's first user, whose files are not the guest's."""
    kinds = {"user": 0o600, "group": 0o060, "directory": 0o700}
    mounts = []
    for way in ("ro", "cow", "rw"):
        top = place / way
        (top / "directory").mkdir(parents=True)
        os.chown(top, BOB, BOB)
        for name, bits in kinds.items():
            if name != "directory":
                (top / name).write_text("secret")
            os.chown(top / name, FIRST_USER, FIRST_USER)
            (top / name).chmod(bits)
        mounts += ["--mount", f"{top}:/m/{way}:{way}"]
    # Twice each: the second answer may be the name cache's.
    script = (
        "for i in 1 2; do for way in /m/*; do cd $way; cat user group; ls directory; test -O user || test -G group ||"
        " test -r user || test -w user || test -r group || test -x directory || echo closed; done; done;"
        " for way in /m/*; do cd $way; echo more >user; chmod 666 user group; chmod 777 directory; done; true"
    )
    done = husk(["run", *mounts, "--", "sh", "-c", script])
    assert done.out == "closed\n" * 6, done
    for way in ("ro", "cow", "rw"):
        assert (place / way / "user").read_text() == (place / way / "group").read_text() == "secret"
        assert {name: stat.S_IMODE((place / way / name).stat().st_mode) for name in kinds} == kinds


@pytest.mark.both_settings
def test_the_guests_group_is_the_mounts(place: Path) -> None:
    """Given to its own group, a file is the group's of the mount's owner, not of whom the host has under that number."""
    os.chown(place, BOB, CREW)
    team = place / "team"
    team.mkdir()
    os.chown(team, BOB, FIRST_USER + 1)
    team.chmod(0o2775)
    script = "echo >team/file; chgrp $(id -g) team/file && stat -c %g team/file; id -g"
    done = husk(["run", "--mount", f"{place}:/m:rw", "--workdir", "/m", "--", "sh", "-c", script])
    shown, own = done.out.split()
    assert shown == own, done
    found = (team / "file").stat()
    assert (found.st_uid, found.st_gid) == (BOB, CREW)


@pytest.mark.parametrize("how", ["mkdir", "mknod", "symlink", "bind"])
def test_nobody_is_given_what_was_put_in_the_place_of_what_was_made(
    place: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The owner of a mount may rename root's files in it. Between the making of a name and the next look at it, a file
    of root's takes its place: it must stay root's."""
    os.chown(place, BOB, BOB)
    secret = place / "secret"
    if how == "mkdir":
        secret.mkdir()
    elif how == "bind":
        bind_at(os.fsencode(secret))
    elif how == "mknod":
        os.mkfifo(secret)
    else:
        secret.write_text("root's")
    secret.chmod(0o600)

    def exchanged(make: Callable[..., object]) -> Callable[..., None]:
        def made(*args: object, **kwargs: object) -> None:
            make(*args, **kwargs)
            os.rename(place / "new", place / "away")
            os.rename(secret, place / "new")

        return made

    class Os:
        def __getattr__(self, name: str) -> object:
            return exchanged(getattr(os, name)) if name == how else getattr(os, name)

    monkeypatch.setattr(hosttree_write, "os", Os())
    tree = HostTree(99, os.fsencode(place), read_only=False, owner=(BOB, BOB))
    umask = os.umask(0o077)
    try:
        if how == "symlink":
            tree.symlink(INSIDE, tree.root, b"new", b"target")
        elif how == "bind":
            tree.bind(INSIDE, tree.root, b"new", 0o777, exchanged(lambda at, name: bind_at(b"/proc/self/fd/%d/%s" % (at, name))))
        else:
            wanted = 0o777 if how == "mkdir" else stat.S_IFIFO | 0o666
            getattr(tree, how)(INSIDE, tree.root, b"new", wanted)
    except PermissionError:
        pass  # as it would be for Bob
    finally:
        os.umask(umask)
        tree.close()
    kept, made = (place / "new").stat(), (place / "away").lstat()
    assert (kept.st_uid, kept.st_gid, stat.S_IMODE(kept.st_mode)) == (0, 0, 0o600)
    assert (made.st_uid, made.st_gid) == (BOB, BOB)


def bind_at(path: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)
