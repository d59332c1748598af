"""Kept boxes: a run continues where the last ended, forks are apart, and a committed image shows the same tree."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.snapshots.place import GUESTS, Place

# A bit of everything a tree can hold, made and changed in every way.
EVERYTHING = r"""
import os, socket
os.chdir("/p")
os.rename("tree", "moved")                       # a lower directory, under another name
open("moved/deep/new", "w").write("in a moved directory")
os.unlink("moved/gone")
os.link("file", "linked"); open("linked", "a").write("more")
open("twin_a", "w").write("both twins")
os.chmod("mode", 0o600)
os.setxattr("attribute", "user.note", b"x")
os.utime("touched", ns=(10**18, 10**18))
os.unlink("becomes_dir"); os.mkdir("becomes_dir"); open("becomes_dir/inside", "w").write("1")
os.unlink("dir/one"); os.rmdir("dir"); open("dir", "w").write("a file now")
os.unlink("again"); open("again", "w").write("another file")
os.unlink("link"); os.symlink("elsewhere", "link")
os.mkfifo("fifo")
open(b"not-utf8-\xff", "w").write("odd name")
keep = open("unlinked", "w"); keep.write("gone"); os.unlink("unlinked")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
os.makedirs("/workspace/a/b"); open("/workspace/a/b/c", "w").write("c"); os.chmod("/workspace/a", 0o2750)
os.symlink("b/c", "/workspace/a/l"); os.link("/workspace/a/b/c", "/workspace/a/h")
os.setxattr("/workspace/a/h", "user.k", b"v")
os.utime("/workspace/a/b/c", ns=(5, 1234567890123456789))
"""


def prepare(place: Place) -> None:
    top = place.project
    (top / "tree" / "deep").mkdir(parents=True)
    (top / "tree" / "deep" / "old").write_text("old")
    (top / "tree" / "gone").write_text("gone")
    for name in ("file", "mode", "attribute", "touched", "becomes_dir", "again", "twin_a", "untouched"):
        (top / name).write_text(f"{name}\n")
    os.link(top / "twin_a", top / "twin_b")
    (top / "dir").mkdir()
    (top / "dir" / "one").write_text("1")
    (top / "link").symlink_to("file")


def digest(place: Place, *options: str) -> str:
    mount = f"{GUESTS}:/guests:ro"
    return place.husk("run", *options, "--mount", mount, "--", "python3", "/guests/digest.py", "/workspace")


@pytest.mark.both_settings
@pytest.mark.needs("python3")
def test_everything_comes_back(place: Place) -> None:
    prepare(place)
    place.python("box", EVERYTHING, *place.cow)
    look = (
        "cd /p; find . /workspace -printf '%p %y %m %n %s %l %T@\\n' | sort; cat moved/deep/* file twin_b dir again;"
        "getfattr -d attribute 2>/dev/null || true; test -p fifo; test -S socket"
    )
    first = place.sh("box", look)
    # The other name of a hard-linked file, not looked up before, shows the change, too.
    assert "both twins" in first
    assert "unlinked" not in first
    assert place.sh("box", look) == first
    assert place.leftovers() == []


@pytest.mark.needs("python3")
def test_diff_tells_everything(place: Place) -> None:
    prepare(place)
    place.python("box", EVERYTHING, *place.cow)
    found = {one["path"]: one for one in place.json("diff", "box")["changes"]}
    told = {path: one["change"] for path, one in found.items()}
    assert told == {
        "/p/again": "changed",
        "/p/attribute": "metadata",
        "/p/becomes_dir": "changed",
        "/p/becomes_dir/inside": "added",
        "/p/dir": "changed",
        "/p/fifo": "added",
        "/p/file": "changed",
        "/p/link": "metadata",
        "/p/linked": "added",
        "/p/mode": "metadata",
        "/p/moved": "added",
        "/p/moved/deep": "added",
        "/p/moved/deep/new": "added",
        "/p/moved/deep/old": "added",
        "/p/not-utf8-\udcff": "added",
        "/p/socket": "added",
        "/p/touched": "metadata",
        "/p/tree": "deleted",
        "/p/twin_a": "changed",
        "/p/twin_b": "changed",
        "/workspace/a": "added",
        "/workspace/a/b": "added",
        "/workspace/a/b/c": "added",
        "/workspace/a/h": "added",
        "/workspace/a/l": "added",
    }
    assert found["/p/mode"]["differs"] == {"mode": {"before": "0644", "now": "0600"}}
    assert found["/p/link"]["differs"]["target"] == {"before": "file", "now": "elsewhere"}
    assert found["/p/attribute"]["differs"] == {"xattrs": {"before": {}, "now": {"user.note": "x"}}}
    assert found["/p/touched"]["differs"]["times"]["now"] == 10**18
    assert found["/p/becomes_dir"]["differs"]["type"] == {"before": "file", "now": "directory"}
    assert set(place.changes("box", "/p/moved/deep")) == {
        ("added", "/p/moved/deep"),
        ("added", "/p/moved/deep/new"),
        ("added", "/p/moved/deep/old"),
    }


ACL = "system.posix_acl_access"
SET_ACL = """
import os, struct
def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
rights = acl((1, 6, -1 % 2**32), (2, 6, 4321), (4, 0, -1 % 2**32), (16, 6, -1 % 2**32), (32, 0, -1 % 2**32))
for name in ("/p/file", "/workspace/made"):
    open(name, "a").close()
    os.setxattr(name, "system.posix_acl_access", rights)
os.setxattr("/workspace", "system.posix_acl_default", rights)
"""
GET_ACL = """
import os
for name in ("/p/file", "/workspace/made"):
    print(oct(os.stat(name).st_mode), os.getxattr(name, "system.posix_acl_access").hex())
print(os.getxattr("/workspace", "system.posix_acl_default").hex())
"""


@pytest.mark.both_settings
@pytest.mark.needs("python3")
def test_acls_stay_with_the_box(place: Place) -> None:
    (place.project / "file").write_text("1")
    os.chmod(place.project / "file", 0o640)
    wanted = place.python("box", SET_ACL + GET_ACL, *place.cow)
    assert wanted.startswith("0o100660 0200")
    assert place.python("box", GET_ACL) == wanted
    found = {one["path"]: one for one in place.json("diff", "box")["changes"]}
    text = "user::rw-,user:4321:rw-,group::---,mask::rw-,other::---"
    assert found["/p/file"]["differs"]["xattrs"] == {"before": {}, "now": {ACL: text}}
    # In an image they are still there. On the host they would mean other users; there the group gets its own rights.
    place.husk("commit", "box", "made")
    in_image = GET_ACL.replace('("/p/file", ', "[").replace('made")', 'made"]')
    assert place.husk("run", "--image", "made", "--", "python3", "-c", in_image).splitlines() == wanted.splitlines()[1:]
    place.husk("apply", "box", "/p", "--yes")
    assert ACL not in os.listxattr(place.project / "file")
    assert os.stat(place.project / "file").st_mode & 0o777 == 0o600


def test_a_patch_is_one(place: Place) -> None:
    (place.project / "text").write_text("one\ntwo\nthree\n")
    (place.project / "binary").write_bytes(b"\0\1")
    place.sh("box", "cd /p; sed -i s/two/2/ text; printf '\\000\\002' > binary; printf 'no end' > new", *place.cow)
    out = place.husk("diff", "box", "--patch", "/p")
    assert "--- a/p/text\n+++ b/p/text\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" in out
    assert "--- /dev/null\n+++ b/p/new\n@@ -0,0 +1 @@\n+no end\n\\ No newline at end of file\n" in out
    assert "Binary files a/p/binary and b/p/binary differ\n" in out


def test_names_that_act_on_a_terminal_are_shown_harmless(place: Place) -> None:
    place.sh("box", "touch \"/workspace/$(printf 'a\\033[2Jb')\"")
    assert "\033" not in place.husk("diff", "box")
    assert "\\x1b[2Jb" in place.husk("diff", "box")


@pytest.mark.both_settings
@pytest.mark.needs("python3")
def test_committed_it_shows_the_same_tree(place: Place) -> None:
    prepare(place)
    place.python("box", EVERYTHING, *place.cow)
    place.sh("box", "rm /usr/bin/nothing 2>/dev/null || true; mkdir -p /tmp/t")
    wanted = digest(place, "--keep", "box")
    place.husk("commit", "box", "made")
    assert digest(place, "--image", "made") == wanted
    # A box from that image, changed and committed, is again a layer on the host's programs.
    place.sh("second", "rm /workspace/a/l; echo 2 > /workspace/two", "--image", "made")
    assert ("deleted", "/workspace/a/l") in place.changes("second")
    assert ("added", "/workspace/a/b/c") not in place.changes("second")
    wanted = digest(place, "--keep", "second")
    place.husk("commit", "second", "again")
    assert digest(place, "--image", "again") == wanted
    assert place.json("store", "verify")["clean"]


@pytest.mark.needs("python3")
def test_committed_upon_an_image(place: Place) -> None:
    """A whole system of a few files: a static program, and what a layer can hide or replace."""
    root = place.top / "root"
    for folder in ("bin", "etc", "opaque", "keep"):
        (root / folder).mkdir(parents=True)
    for shell in ("/bin/busybox", "/usr/bin/busybox"):
        if os.path.exists(shell):
            break
    else:
        pytest.skip("needs a static shell: busybox")
    (root / "bin" / "sh").write_bytes(Path(shell).read_bytes())
    (root / "bin" / "sh").chmod(0o755)
    (root / "opaque" / "old").write_text("old")
    (root / "keep" / "old").write_text("old")
    place.husk("store", "ingest", str(root), "--name", "base")
    script = "rm -r /opaque; mkdir /opaque; echo new > /opaque/new; rm /keep/old; echo new > /keep/new; ln /keep/new /l"
    place.sh("box", script, "--image", "base")
    # The image may go: the box keeps what it needs.
    place.husk("store", "rm", "base")
    place.husk("store", "gc", "--delete")
    place.husk("commit", "box", "derived")
    show = "cd /; echo opaque/* keep/*; cat l"
    assert place.husk("run", "--image", "derived", "--", "/bin/sh", "-c", show) == "opaque/new keep/new\nnew\n"
    assert place.sh("box", show) == "opaque/new keep/new\nnew\n"
    place.husk("drop", "box")
    assert list((place.store / "roots").iterdir()) == []
    assert place.json("store", "verify")["clean"]


@pytest.mark.both_settings
def test_forks_do_not_see_each_other(place: Place) -> None:
    place.sh("one", "echo shared > /workspace/f; echo same > /workspace/g; mkdir /workspace/d")
    place.husk("fork", "one", "two")
    wait = "while ! test -e /p/go; do sleep 0.01; done"
    rw = ("--mount", f"{place.project}:/p:ro")
    runs = [
        place.start("run", "--keep", name, *rw, "--", "sh", "-ec", f"{wait}; echo {name} >> /workspace/f; rm -r {path}")
        for name, path in (("one", "/workspace/d"), ("two", "/workspace/g"))
    ]
    both, end = {"one": "running", "two": "running"}, time.monotonic() + 60
    while (listed := {box["name"]: box["state"] for box in place.json("ps")}) != both and time.monotonic() < end:
        time.sleep(0.05)
    (place.project / "go").touch()
    assert [process.communicate(timeout=60) for process in runs] == [("", ""), ("", "")]
    assert listed == both
    assert place.sh("one", "cd /workspace; cat f; echo *") == "shared\none\nf g\n"
    assert place.sh("two", "cd /workspace; cat f; echo *") == "shared\ntwo\nd f\n"
    place.husk("drop", "one")
    assert place.sh("two", "cat /workspace/f") == "shared\ntwo\n"
    place.husk("drop", "two")
    assert place.leftovers() == [] and list((place.state / "layers").iterdir()) == []


def test_a_run_that_is_killed_changed_nothing(place: Place) -> None:
    place.sh("box", "echo before > /workspace/f; echo stays > /workspace/g")
    process = place.start(
        "run", "--keep", "box", "--", "sh", "-c", "echo after > /workspace/f; rm /workspace/g; echo x; sleep 60"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "x\n"
    assert "running" in place.refused(2, "drop", "box") or "in use" in place.refused(2, "drop", "box")
    assert "in use" in place.refused(2, "run", "--keep", "box", "--", "true")
    process.kill()
    process.communicate(timeout=60)
    assert place.sh("box", "cat /workspace/f /workspace/g") == "before\nstays\n"
    assert place.leftovers() == []


def test_ended_by_a_signal_it_is_kept(place: Place) -> None:
    process = place.start("run", "--keep", "box", "--", "sh", "-c", "echo kept > /workspace/f; echo x; sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "x\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert place.sh("box", "cat /workspace/f") == "kept\n"


def test_what_is_overwritten_is_freed(place: Place) -> None:
    place.sh("box", "echo small > /workspace/small; dd if=/dev/zero of=/workspace/large bs=1M count=3 2>/dev/null")
    place.sh("box", "dd if=/dev/zero of=/workspace/large bs=1M count=3 2>/dev/null")
    files = [path for path in (place.state / "layers").rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
    assert len(files) == 1


def test_what_belongs_to_the_box_and_what_to_the_run(place: Place) -> None:
    place.sh("box", "echo $NAME > /workspace/f", "--env", "NAME=first", *place.cow)
    told = place.sh("box", "echo $NAME $OTHER; echo y > /p/x; cat /workspace/f", "--env", "OTHER=new")
    assert told == "first new\nfirst\n"
    assert place.sh("box", "echo $NAME $OTHER; pwd", "--env", "NAME=second", "--workdir", "/p") == "second new\n/p\n"
    assert place.sh("box", "echo $NAME; pwd") == "second\n/p\n"
    other = place.top / "other"
    other.mkdir()
    told = place.refused(2, "run", "--keep", "box", "--mount", f"{other}:/p:cow", "--", "true")
    assert "choose another place" in told
    assert "host's own programs" in place.refused(2, "run", "--keep", "box", "--image", "x", "--", "true")
    place.sh("box", "echo z > /q/z", "--mount", f"{other}:/q:cow")
    assert place.sh("box", "cat /q/z /p/x") == "z\ny\n"


def test_a_program_that_cannot_start_keeps_nothing(place: Place) -> None:
    assert place.call("run", "--keep", "box", "--", "/no/such/program")[0] == 127
    assert place.json("ps", "-a") == []
    assert place.leftovers() == []


def test_mistakes_are_told(place: Place) -> None:
    place.sh("box", "true")
    assert "husk ps -a" in place.refused(2, "diff", "none")
    assert "already" in place.refused(2, "fork", "box", "box")
    assert "cannot name a box" in place.refused(2, "fork", "box", "../x")
    assert "cannot name a box" in place.refused(2, "run", "--keep", ".x", "--", "true")
    assert "cow" in place.refused(2, "apply", "box", "--yes")
    assert "absolute" in place.refused(2, "diff", "box", "x")
    assert "cannot name an image" in place.refused(2, "commit", "box", "x/")
    record = place.state / "kept" / "box" / "record"
    (names,) = (place.state / "layers").glob("*/names-0")
    whole = names.read_bytes()
    names.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # the header still fits
    for command in (["diff", "box"], ["run", "--keep", "box", "--", "true"]):
        assert "damaged" in place.refused(125, *command)
    names.write_bytes(whole)
    record.write_bytes(record.read_bytes().replace(b'"exit_code": 0', b'"exit_code": 1'))
    assert "damaged" in place.refused(125, "diff", "box")
    place.husk("drop", "box")


def test_ps_tells_what_is_there(place: Place) -> None:
    assert place.husk("ps", "-a").splitlines()[0].split() == ["NAME", "STATE", "AGE", "SIZE", "EXIT", "COMMAND"]
    code, _, _ = place.call("run", "--keep", "box", "--", "sh", "-c", "printf 12345 > /workspace/f; exit 7")
    assert code == 7
    assert place.json("ps") == []
    (box,) = place.json("ps", "-a")
    assert (box["name"], box["state"], box["exit_code"], box["bytes"]) == ("box", "kept", 7, 5)
    assert box["argv"][0] == "sh"
    process = place.start("run", "--", "sleep", "60")
    try:
        end = time.monotonic() + 60
        while not (found := json.loads(place.husk("ps", "--json"))) and time.monotonic() < end:
            time.sleep(0.05)
        assert [(one["state"], one["kept"], one["argv"]) for one in found] == [("running", False, ["sleep", "60"])]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_tree_too_deep_to_be_written_down(place: Place) -> None:
    place.sh("b", "echo kept > /workspace/file")
    deeper = "import os\nfor _ in range(%d): os.mkdir('d'); os.chdir('d')\n%s"
    said = place.refused(125, "run", "--keep", "b", "--", "python3", "-c", deeper % (2500, ""))
    assert "the path is longer than Linux can name" in said and len(said) < 500
    many = "for n in range(20_000): os.symlink('x' * 4000, str(n))"
    said = place.refused(125, "run", "--keep", "b", "--", "python3", "-c", deeper % (1, many))
    assert "up to here paths, links and attributes take" in said
    assert place.sh("b", "cd /workspace; cat file; ls") == "kept\nfile\n"


def test_the_disk_limit_is_the_boxs_not_each_runs(place: Place) -> None:
    write = "head -c 3M /dev/urandom > /workspace/%s; sleep %d"
    place.sh("b", write % ("one", 0), "--limit", "disk=5M")
    code, _, err = place.call("run", "--keep", "b", "--limit", "disk=5M", "--", "sh", "-c", write % ("two", 60))
    assert code == 124 and err.startswith("husk: limit: disk 5M exceeded")
    place.sh("b", "rm /workspace/*")
    place.sh("b", write % ("three", 0), "--limit", "disk=5M")


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's husk has no rights its guest lacks")
@pytest.mark.both_settings
def test_what_the_host_put_in_the_place_of_a_file_is_judged_anew(place: Place) -> None:
    """Mode and owner that a box recorded belong to the file that was there then."""
    secret, private = place.project / "secret", place.project / "private"
    for name in ("file", "renamed", "dir", "moved"):
        path = place.project / name
        path.mkdir() if name in ("dir", "moved") else path.write_text("the guest's")
        os.chown(path, 12345, 12345)
    os.chown(place.project, 12345, 12345)
    look = "cd /p; cat file other; ls dir elsewhere"
    changes = "cd /p; chmod 644 file renamed; mv renamed other; chmod 755 dir moved; mv moved elsewhere"
    place.sh("b", changes, *place.cow)
    assert place.sh("b", look) == "the guest'sthe guest'sdir:\n\nelsewhere:\n"
    for name in ("file", "renamed"):
        secret.write_text("root's")
        secret.chmod(0o600)
        secret.rename(place.project / name)
    for name in ("dir", "moved"):
        (place.project / name).rmdir()
        private.mkdir(mode=0o700)
        (private / "file").write_text("root's")
        private.rename(place.project / name)
    code, out, err = place.call("run", "--keep", "b", "--", "sh", "-c", look)
    assert (code, out) == (2, "elsewhere:\n")
    assert "cat: file: Permission denied\ncat: other: No such file" in err
    assert "ls: cannot open directory 'dir': Permission denied" in err
    (place.project / "file").chmod(0o644)  # of another user, readable by all
    assert place.sh("b", "cat /p/file") == "root's"


@pytest.mark.both_settings
def test_a_file_that_was_replaced_by_one_like_it_keeps_what_the_box_says_of_it(place: Place) -> None:
    """As editors save."""
    tool, new = place.project / "tool", place.project / "new"
    tool.write_text("echo old")
    os.chown(tool, *_owner_of(place.project))
    place.sh("b", "chmod 755 /p/tool", *place.cow)
    new.write_text("#!/bin/sh\necho new\n")
    os.chown(new, *_owner_of(place.project))
    new.rename(tool)
    assert place.sh("b", "/p/tool; echo 'echo more' >> /p/tool; /p/tool") == "new\nnew\nmore\n"


def _owner_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid


def test_the_log_of_a_box(place: Place) -> None:
    (place.project / "gone").write_text("")
    place.project.chmod(0o777)
    place.sh("box", "echo x > /workspace/a; rm /p/gone", *place.cow)
    assert place.call("run", "--keep", "box", "--", "sh", "-c", "cat /workspace/a; cat /root/.profile; exit 3")[0] == 3
    runs = place.json("log", "box")["runs"]
    assert [run["exit_code"] for run in runs] == [0, 3]
    assert runs[0]["changes"] == [["box", "deleted", "/p/gone"], ["box", "added", "/workspace/a"]]
    assert runs[1]["changes"] == [] and runs[1]["argv"][0] == "sh"
    assert abs(runs[1]["time"] - time.time()) < 600
    table = place.husk("log", "box", "--details", "-n", "1").splitlines()
    assert len([line for line in table if line.endswith("exit 3")]) == 1
    assert not any("/p/gone" in line for line in table)
    log = place.state / "kept" / "box" / "log"
    log.write_bytes(log.read_bytes() + b'{"cut')  # by a full disk
    place.sh("box", "true")
    assert [run["exit_code"] for run in place.json("log", "box")["runs"]] == [0, 3, 0]
    place.husk("fork", "box", "other")
    assert place.json("log", "other")["runs"] == []
