"""User 0 of an image is root over the box's own files, and over no file of the host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import copyfile

import pytest

from husk.sandbox.filesystem import _owners
from husk.store.ingest import ingest
from husk.store.store import Store
from tests.images.hostroot import add_programs
from tests.lib.build_guests import guest_programs
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

OWN = r"""
id -u
echo one > f; chown 42:43 f; chmod 600 f; cat f; echo two >> f; cat f; stat -c '%u:%g %a' f
mkdir -p closed/in; chown 42:43 closed; chmod 0 closed; ls closed; test -w closed && echo writable
mkdir sticky; chmod 1777 sticky; echo x > sticky/g; chown 7:7 sticky/g; rm -f sticky/g; ls sticky
echo x > noexec; chmod 644 noexec; ./noexec 2>/dev/null; echo $?
cat given; echo more >> given; tail -n 1 given; chown 1:1 given; stat -c '%u:%g' given
"""
HOST = r"""
cd /p
cat secret 2>/dev/null || echo "cat $?"
echo x 2>/dev/null >> secret || echo "write $?"
chmod 666 secret 2>/dev/null || echo "chmod $?"
chown 0:0 secret 2>/dev/null || echo "chown $?"
ls closed 2>/dev/null || echo "ls $?"
mv secret moved 2>/dev/null && cat moved 2>/dev/null || echo "mv $?"
"""

SHOW = 'id -u; id -g; id -G; grep -E "^(Uid|Gid|Groups|CapEff)" /proc/self/status'
BECOME = rf"""
{SHOW}
echo x > mine; chmod 600 mine; mkdir closed; chmod 700 closed; echo y > closed/f
mkdir all; chmod 1777 all; echo z > all/f
setpriv --reuid 1000 --regid 1001 --groups 7,1002 sh -c '
{SHOW}
for how in "cat mine" "cat closed/f" "ls closed" "rm -f all/f" "chown 0 own" "setpriv --reuid 0 id -u" \
    "setpriv --clear-groups id"
do $how 2>/dev/null || echo "refused: $how"; done
echo w > all/own; stat -c "%u:%g" all/own; chmod 640 all/own; stat -c %u /proc/$$
(sh -c "id -u > all/orphan &"); until test -s all/orphan; do :; done; cat all/orphan; sh -c "id -u"
'
id -u; cat mine; cat closed/f; cat all/own
"""
BECAME = """0
0
0
Uid: 0 0 0 0
Gid: 0 0 0 0
Groups: 0
CapEff: 00000000000400ff
1000
1001
1001 7 1002
Uid: 1000 1000 1000 1000
Gid: 1001 1001 1001 1001
Groups: 7 1002
CapEff: 0000000000000000
refused: cat mine
refused: cat closed/f
refused: ls closed
refused: rm -f all/f
refused: chown 0 own
refused: setpriv --reuid 0 id -u
refused: setpriv --clear-groups id
1000:1001
1000
1000
1000
0
x
y
w"""


@pytest.fixture
def image(store: Store, tmp_path: Path) -> str:
    root = tmp_path / "root"
    add_programs(root, "sh", "id", "cat", "chown", "chmod", "stat", "mkdir", "ls", "rm", "mv", "tail", "test",
                 "grep", "setpriv")  # fmt: skip
    (root / "work").mkdir()
    (root / "work/given").write_text("given\n")
    (root / "work/given").chmod(0o400)
    if os.geteuid() == 0:
        os.chown(root / "work/given", 99, 99)
        os.chown(root / "work", 99, 99)
    ingest(store, str(root), "small")
    return "small"


def test_over_the_files_of_the_box(store: Store, image: str) -> None:
    found = husk(["run", "--store", store.place, "--image", image, "--workdir", "/work", "--", "sh", "-c", OWN])
    if not found.out.startswith("0\n"):
        pytest.skip("this host gives no user namespaces: the guest is not user 0")
    assert found.out.splitlines() == [
        "0", "one", "one", "two", "42:43 600", "in", "writable", "126", "given", "more", "1:1",
    ]  # fmt: skip


def test_root_becomes_another_user(store: Store, image: str) -> None:
    """And its children and programs with it, orphans too; it cannot come back."""
    found = husk(["run", "--store", store.place, "--image", image, "--workdir", "/work", "--", "sh", "-c", BECOME])
    if not found.out.startswith("0\n"):
        pytest.skip("this host gives no user namespaces: the guest is not user 0")
    assert [" ".join(line.split()) for line in found.out.splitlines()] == BECAME.splitlines()


def test_root_changes_its_root(store: Store, tmp_path: Path) -> None:
    """As Linux does it for root of a user namespace."""
    program, place, root = guest_programs() / "files_chroot", tmp_path / "place", tmp_path / "root"
    place.mkdir()
    (root / "work").mkdir(parents=True)
    copyfile(program, root / "jailer")
    (root / "jailer").chmod(0o755)
    command = ["unshare", "--user", "--map-root-user", str(program), str(place), str(program)]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
        os.chown(place, 65534, 65534)
        for above in [*place.parents][:-2]:
            above.chmod(above.stat().st_mode | 0o011)
    native = subprocess.run(command, capture_output=True, text=True)
    if native.returncode:
        pytest.skip("natively no root of a user namespace: " + native.stderr)
    ingest(store, str(root), "jail")
    jailer = ["/jailer", "/work", "/jailer"]
    found = husk(["run", "--store", store.place, "--image", "jail", "--workdir", "/work", "--", *jailer])
    if not found.out.startswith("uid 0\n"):
        pytest.skip("this host gives no user namespaces: the guest is not user 0")
    assert found.out.splitlines() == native.stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of several owners")
@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_becoming_the_owner_opens_no_file_of_the_host(store: Store, image: str, tmp_path: Path, mode: str) -> None:
    """The numbers of users inside mean nothing on the host, whoever has them there."""
    place = tmp_path / "p"
    place.mkdir()
    (place / "open").mkdir()
    (place / "secret").write_text("secret\n")
    (place / "shared").write_text("shared\n")
    (place / "everyones").write_text("everyone's\n")
    for path, owner, bits in (
        (place, 1234, 0o755),
        (place / "open", 1234, 0o777),
        (place / "secret", 4321, 0o600),
        (place / "shared", 4321, 0o060),
        (place / "everyones", 4321, 0o604),
    ):
        os.chown(path, owner, owner)
        path.chmod(bits)
    script = """for user in 4321 1234 1000 65534; do setpriv --reuid $user --regid $user --clear-groups sh -c '
    cd /p; cat secret shared everyones; echo x >> secret; chmod 666 secret; chown 0 secret; echo y > new; rm -f secret
    mkdir open/$$ && stat -c "mine as root %u:%g" open/$$
    ' 2>/dev/null; done"""
    mount = f"{place}:/p:{mode}"
    found = husk(["run", "--store", store.place, "--image", image, "--mount", mount, "--", "sh", "-c", script])
    made = ["mine as root 0:0"] if mode != "ro" else []
    assert found.out.splitlines() == ["everyone's", *made] * 4
    assert sorted(path.name for path in place.iterdir()) == ["everyones", "open", "secret", "shared"]
    assert {path.stat().st_uid for path in (place / "open").iterdir()} == ({1234} if mode == "rw" else set())
    assert (place / "secret").read_text() == "secret\n" and (place / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of several owners")
@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_over_no_file_of_the_host(store: Store, image: str, tmp_path: Path, mode: str) -> None:
    """The mount belongs to one user, and holds closed files of another."""
    place = tmp_path / "p"
    (place / "closed").mkdir(parents=True)
    (place / "secret").write_text("secret\n")
    for path, owner, bits in ((place, 1234, 0o755), (place / "secret", 4321, 0o600), (place / "closed", 4321, 0o700)):
        os.chown(path, owner, owner)
        path.chmod(bits)
    mount = f"{place}:/p:{mode}"
    found = husk(["run", "--store", store.place, "--image", image, "--mount", mount, "--", "sh", "-c", HOST])
    assert found.out.splitlines() == ["cat 1", "write 2", "chmod 1", "chown 1", "ls 2", "mv 1"]
    left = [path for path in (place / "secret", place / "moved") if path.exists()]
    assert [(path.read_text(), path.stat().st_uid, path.stat().st_mode & 0o777) for path in left] == [
        ("secret\n", 4321, 0o600)
    ]


def test_a_mount_belongs_to_the_user_who_starts_husk(tmp_path: Path) -> None:
    class UserZero:
        switch, uid, gid, host_uid, host_gid = False, 0, 0, 1000, 100

    uids, gids, owner = _owners(os.stat(tmp_path), UserZero())  # type: ignore[arg-type]
    assert (uids[1000], gids[100], owner) == (0, 0, None)
    assert uids[0] == gids[0] == 65534  # files of root on the host are not the guest's
