"""husk gives the same answers with the name cache off.

One guest program asks for names again and again with every kind of change in between (tests/guests/name_cache.c). It
runs with the cache, and without it: husk does not use the cache when it writes events, since each call must be seen.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from husk.kernel.events import Events
from husk.kernel.kernel import Kernel
from husk.kernel.listings import RECENT
from husk.sandbox.policy import Mount, Policy
from husk.sandbox.runner import Runner
from husk.store.ingest import ingest
from husk.store.store import Store
from tests.images.hostroot import add_programs
from tests.lib import guest_trees as trees
from tests.lib.build_guests import guest_programs
from tests.lib.harness import GUESTS, NATIVE_ONLY
from tests.lib.running import PATIENCE, husk, husk_process, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

OLD = 1_000_000_000  # what name_cache.c calls old
OFF = ["--events", "/dev/null"]

TREE: dict[str, str | bytes] = {
    **{f"{folder}/{name}": f"{folder} {name}" for folder in (
        "one", "two", "three", "four", "six", "seven", "eight", "nine", "eleven", "thirteen") for name in ("a", "b")},
    "plain": "a plain file", "three/d/x": "x", "tree/sub/a": "tree sub a", "four/deep/a": "deep",
    "five/deep/a": "deep", "eight/deep/": "", "fifteen/deep/a": "deep", "seventeen/deep/": "",
    "eighteen/a": "eighteen a", "eighteen/in/deep/": "", "ten/a": "ten a", "ten/deep/a": "deep",
    "eleven/deep/a": "deep",
    "twins/first": "twins", "twins/far/": "", "twins/single": "single", "pair/first": "pair", "kin/first": "kin",
    "kin/far/neighbour": "next door",
    "abs@": "/ro/one/a", "abs.twice@": "/ro/abs", "abs.folder@": "/ro/one", "abs.none@": "/ro/none",
    "abs.back@": "/ro/../ro/one/a",
    "way@": "six", "chain@": "way", "short@": "six/a", "dangling@": "nowhere", "loop@": "loop",
    "bin/script*": "#!/bin/sh\nexit 42\n", "bin/link@": "prog", "foreign": "somebody else's", "foreign.d/a": "a",
}


def prepare(root: Path) -> None:
    trees.prepare(root, {"./": "", **TREE})
    for old, new in (("twins/first", "second"), ("twins/first", "far/third"), ("pair/first", "second"),
                     ("kin/first", "far/twin")):
        os.link(root / old, (root / old).parent / new)
    for host, name in (("/bin/true", "prog"), ("/bin/false", "other")):
        shutil.copy(host, root / "bin" / name)
        (root / "bin" / name).chmod(0o755)
    if os.getuid() == 0:
        for name, mode in (("foreign", 0o640), ("foreign.d", 0o700)):
            os.chown(root / name, 4242, 4242)
            (root / name).chmod(mode)
    for where, folders, files in os.walk(root, topdown=False):
        for name in files + folders:
            os.utime(os.path.join(where, name), (OLD, OLD), follow_symlinks=False)
    os.utime(root, (OLD, OLD))


@pytest.fixture
def place() -> Iterator[Path]:
    with scratch() as root:
        yield root


class Side:
    """One run's trees. While it lives no prepared inode is freed: its number would be given to something new."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.held: list[int] = []
        for name in ("cow", "rw", "ro"):
            (root / name).mkdir(parents=True)
            prepare(root / name)
            for where, folders, files in os.walk(root / name):
                for entry in files + folders:
                    self.held.append(os.open(os.path.join(where, entry), os.O_PATH | os.O_NOFOLLOW))

    def mounts(self) -> list[str]:
        options = ["--mount", f"{guest_programs()}:{GUESTS}:ro"]
        for name in ("cow", "rw", "ro"):
            options += ["--mount", f"{self.root / name}:/{name}:{name}"]
        return options

    def close(self) -> None:
        for fd in self.held:
            os.close(fd)


@pytest.fixture(scope="module")
def image() -> Iterator[list[str]]:
    """The options for an image that has the tree at /tree, and what the programs need to run there."""
    with scratch() as place:
        root = place / "root"
        (root / "tree").mkdir(parents=True)
        prepare(root / "tree")
        add_programs(root, "sh", "true")
        for where, folders, files in os.walk(root):
            for name in folders + files:
                os.utime(os.path.join(where, name), (OLD, OLD), follow_symlinks=False)  # else new in one run only
        store = Store.create(str(place / "store"))
        ingest(store, str(root), "names")
        yield ["--image", "names", "--store", store.place]


def transcript(root: Path, command: list[str], options: list[str]) -> list[str]:
    side = Side(root)
    try:
        result = husk(["run", *options, *side.mounts(), "--", *command])
        assert result.status == 0 and result.err == "", result
        return [*result.out.splitlines(), *map(repr, sorted(trees.snapshot(root / "rw", "/rw").items()))]
    finally:
        side.close()


def assert_same(on: list[str], off: list[str]) -> None:
    if on == off:
        return
    # The scene in which the first difference is tells more than its line number.
    pairs = enumerate(zip(on, off, strict=False))
    first = next((at for at, (one, other) in pairs if one != other), min(len(on), len(off)))
    context = [line for line in off[:first] if not line.startswith("  ")][-3:]
    around = slice(max(first - 10, 0), first + 60)
    changed = difflib.unified_diff(off[around], on[around], "cache off", "cache on", n=1, lineterm="")
    pytest.fail("\n".join([f"line {first} of {len(off)} differs, after", *context, *changed]))


SCENES = {
    "cow": [f"{GUESTS}/name_cache", "/cow"],
    "rw": [f"{GUESTS}/name_cache", "/rw"],
    "tmp": ["/bin/sh", "-c", f"cp -a /ro/. /tmp/up 2>/dev/null; exec {GUESTS}/name_cache /tmp/up"],
}


# Changes that are meant to fail; all others must happen, since two runs that fail alike prove nothing.
MEANT_TO_FAIL = (
    "syscall(", 'write_to("/ro/', 'unlink("/ro/', 'rmdir("four") = -1 ENOTEMPTY', "rmdir(name) = -1 ENOTEMPTY",
    "rmdir(deep) = -1 ENOTEMPTY", 'write_to(in_deep, 01 | 0100, "not there")', 'mkdirat(fd, "new"',
    'write_to("a", 01 | 0100, "in none")',
)


@pytest.mark.parametrize("where", SCENES)
def test_same_answers(place: Path, where: str) -> None:
    off = transcript(place / "off", SCENES[where], OFF)
    failed = [line for line in off if not line.startswith("  ") and " = -1" in line]
    assert not [line for line in failed if not line.startswith(MEANT_TO_FAIL)]
    assert sum(" = ENOENT" in line for line in off) > 300 and sum("dev=" in line for line in off) > 1000
    assert_same(transcript(place / "on", SCENES[where], []), off)


def test_same_answers_from_an_image(place: Path, image: list[str]) -> None:
    """The cache answers from the image's manifest, husk from what it read of the same manifest."""
    command = [f"{GUESTS}/name_cache", "/tree"]
    off = transcript(place / "off", command, [*image, *OFF])
    failed = [line for line in off if not line.startswith("  ") and " = -1" in line]
    assert not [line for line in failed if not line.startswith(MEANT_TO_FAIL)]
    assert sum(" = ENOENT" in line for line in off) > 300 and sum("dev=" in line for line in off) > 1000
    assert_same(transcript(place / "on", command, image), off)


@pytest.mark.parametrize("kind", ["write", "link", "replace"])
def test_hard_links_of_an_image(place: Path, image: list[str], kind: str) -> None:
    command = [f"{GUESTS}/name_cache", "/tree", kind]
    off = transcript(place / "off", command, [*image, *OFF])
    assert sum("links=2" in line for line in off) > 20 and not [line for line in off if " = -1" in line]
    assert_same(transcript(place / "on", command, image), off)


@pytest.mark.parametrize(
    "kind", ["write", "chmod", "times", "xattr", "truncate", "rename", "link", "unlink", "replace"]
)
def test_hard_links(place: Path, kind: str) -> None:
    """Each kind in a box of its own: after the first change of a hard link husk trusts no other."""
    command = [f"{GUESTS}/name_cache", "/cow", kind]
    off = transcript(place / "off", command, OFF)
    assert sum("links=2" in line for line in off) > 20 and not [line for line in off if " = -1" in line]
    assert_same(transcript(place / "on", command, []), off)


def from_outside(root: Path, change: Callable[[Path], None], options: list[str]) -> list[str]:
    """The guest looks, a host process changes both mounts, the guest looks again."""
    side = Side(root)
    for name in ("ro", "rw"):
        (root / name / "a").write_text("a at the top")
        os.utime(root / name / "a", (OLD, OLD))
        side.held.append(os.open(root / name / "a", os.O_PATH))
    command = ["run", *options, *side.mounts(), "--", f"{GUESTS}/name_cache", "wait"]
    lines: list[str] = []
    with husk_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        stdin, stdout = running.process.stdin, running.process.stdout
        assert stdin is not None and stdout is not None
        for number in range(2):
            for line in iter(stdout.readline, b"ready\n"):
                assert line, f"it ended after {len(lines)} lines"
                lines.append(line.decode().rstrip())
            if number == 0:
                lines.append("== changed from outside")
                for name in ("ro", "rw"):
                    change(root / name)
                stdin.write(b"x")
                stdin.flush()
        stdin.close()
        assert running.process.wait(timeout=PATIENCE) == 0
    side.close()
    return lines


def _old(root: Path, *names: str) -> None:
    for name in (*names, "."):
        os.utime(root / name, (OLD, OLD), follow_symlinks=False)


def files_change(root: Path) -> None:
    (root / "a").unlink()
    (root / "new").write_text("came from outside")
    (root / "b").symlink_to("one/b")
    (root / "one" / "a").write_text("rewritten")
    _old(root, "new", "b", "one/a")


def folders_change(root: Path) -> None:
    (root / "one").rename(root / "gone")
    (root / "one").mkdir()
    (root / "one" / "a").write_text("another folder's")
    _old(root, "one/a", "one")


def a_folder_is_made_anew(root: Path) -> None:
    shutil.rmtree(root / "one")
    (root / "one").mkdir()
    (root / "one" / "a").write_text("another folder's")
    _old(root, "one/a", "one")


def a_folder_becomes_a_link(root: Path) -> None:
    (root / "one").rename(root / "gone")
    (root / "one").symlink_to("two")
    _old(root, "one")


def a_link_leads_elsewhere(root: Path) -> None:
    (root / "way").unlink()
    (root / "way").symlink_to("two")
    (root / "abs").unlink()
    (root / "abs").symlink_to("/ro/two/b")
    _old(root, "way", "abs")


def rights_of_files_change(root: Path) -> None:
    (root / "a").chmod(0)
    (root / "one" / "a").chmod(0o444)


def rights_of_folders_change(root: Path) -> None:
    (root / "one").chmod(0)


def a_folder_above_is_exchanged(root: Path) -> None:
    (root / "four").rename(root / "four.old")
    (root / "four" / "deep").mkdir(parents=True)
    (root / "four" / "deep" / "a").write_text("deep in another folder")
    (root / "four" / "deep" / "new").write_text("not there before")


@pytest.mark.parametrize("change", [
    files_change, folders_change, a_folder_is_made_anew, a_folder_becomes_a_link, a_link_leads_elsewhere,
    rights_of_files_change, rights_of_folders_change, a_folder_above_is_exchanged,
])
def test_changes_from_outside_are_seen(place: Path, change: Callable[[Path], None]) -> None:
    """Host processes change a mounted directory and the guest looks again. The cache learnt its names long before."""
    off = from_outside(place / "off", change, OFF)
    middle = off.index("== changed from outside")
    assert off[:middle] != off[middle + 1 :], "nothing changed"
    assert_same(from_outside(place / "on", change, []), off)


# Each name is asked for some times: first husk is taught, then it answers from that.
LATER = """
look() {
    for name in $names; do
        for i in 1 2 3 4; do
            [ -e "$1/$name" ] && printf 'there: '
            cat "$1/$name" 2>&1
        done
    done
}
names="new/x new/../two/c new/../two/a new/../two/b new/sub/../../two/a .//new/sub/../../two/a new/sub/../x new/sub/x
new/sub/made .//new/sub/made new/sub/../sub/made"
ls "$1/new/" "$1" | wc -l
echo changed > "$1/two/a"; rm "$1/two/b"; echo made > "$1/two/c"
look "$1"; echo ready; read go
ls -a "$1/new"; look "$1"; echo changing
rm "$1/new/sub/x"; echo made > "$1/new/sub/made"
look "$1"; ls "$1/new/sub"
"""


def later(top: Path, process: subprocess.Popen[bytes], shown: str) -> list[str]:
    """What LATER says, which sees `top` as `shown`. In the middle the host makes what was missing."""
    assert process.stdin is not None and process.stdout is not None
    lines: list[str] = []
    for raw in iter(process.stdout.readline, b""):
        lines.append(raw.decode().rstrip().replace(f"{shown}/", ""))
        if lines[-1] == "ready":
            for folder in (top / "new", top / "new/sub"):
                folder.mkdir()
                folder.chmod(0o777)
            (top / "new/sub/x").write_text("x of the host\n")
            (top / "new/x").write_text("another x of the host\n")
            process.stdin.write(b"go\n")
            process.stdin.flush()
    assert process.wait(timeout=PATIENCE) == 0
    return lines


def later_natively(top: Path) -> list[str]:
    top.mkdir()
    prepare(top)
    command = ["/bin/sh", "-c", LATER, "sh", str(top)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        return later(top, process, str(top))


def later_in_husk(top: Path, shown: str, options: list[str]) -> list[str]:
    command = ["run", *options, "--", "/bin/sh", "-c", LATER, "sh", shown]
    with husk_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        return later(top, running.process, shown)


@pytest.mark.parametrize("mode", ["rw", "cow"])
def test_a_directory_that_comes_later(place: Path, mode: str) -> None:
    """Behind it lie, by `..`, names that the box has changed before, and names that it changes afterwards."""
    native = later_natively(place / "native")
    middle = native.index("ready")
    assert not any("there" in line for line in native[:middle]) and "there: changed" in native[middle:]
    (place / mode).mkdir()
    prepare(place / mode)
    assert_same(later_in_husk(place / mode, "/m", ["--mount", f"{place / mode}:/m:{mode}"]), native)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make directories below /usr")
def test_one_that_comes_below_usr(place: Path) -> None:
    """There guests look names up themselves."""
    native = later_natively(place / "native")
    with tempfile.TemporaryDirectory(prefix="husk-names-", dir="/usr/local/lib") as top:
        prepare(Path(top))
        for folder in ("", "two"):
            Path(top, folder).chmod(0o777)
        Path(top, "two/a").chmod(0o666)
        assert_same(later_in_husk(Path(top), top, []), native)


# -- that there is a cache at all --------------------------------------------------------------------------------------

@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for every call that Python answers."""
    asked: list[int] = []
    answer = Kernel.answer

    def counted(kernel: Kernel, raw: object) -> None:
        asked.append(1)
        answer(kernel, raw)  # type: ignore[arg-type]

    monkeypatch.setattr(Kernel, "answer", counted)
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    return asked


def run_loop(policy: Policy, each: str, events: Events) -> None:
    policy.argv = ["/bin/sh", "-c", f"i=0; while [ $i -lt 300 ]; do {each}; i=$((i+1)); done"]
    with open(os.devnull, "r+b") as null:
        result = Runner(policy, events, (null.fileno(),) * 3).run()
    assert result.exit_code == 0 and not result.faults


@pytest.mark.parametrize("cached", [True, False], ids=["on", "off"])
def test_the_cache_answers(tmp_path: Path, asked: list[int], cached: bool) -> None:
    """With the cache hardly a call of a loop reaches Python, without it all do. Else the tests above prove nothing."""
    (tmp_path / "ro").mkdir()
    prepare(tmp_path / "ro")
    policy = Policy([])
    policy.mounts.append(Mount(str(tmp_path / "ro"), "/ro", "ro"))
    each = "[ -e /usr/bin/env ]; [ -e /usr/none ]; [ -r /ro/plain ]; [ -d /usr/include/linux ]; set -- /usr/share/*"
    each += "; [ -e /ro/none/../plain ]; [ -e /usr/none/lib/../lib/none ]; [ -d /usr/lib/.. ]; [ -d /lib/. ]"
    run_loop(policy, each, Events(None, None, collect=not cached))
    assert (len(asked) < 200) if cached else (len(asked) >= 1500), len(asked)


def test_the_cache_answers_for_images(asked: list[int], image: list[str]) -> None:
    policy = Policy([])
    policy.image, policy.store = image[1], image[3]
    each = "[ -e /tree/one/a ]; [ -e /tree/none ]; [ -r /tree/plain ]; set -- /tree/one/*"
    run_loop(policy, each, Events(None, None))
    assert len(asked) < 200, len(asked)


BY_DESCRIPTOR = """
import contextlib, os
for flags in (os.O_RDONLY, os.O_PATH):
    top = os.open("/m", flags | os.O_DIRECTORY)
    for _ in range(300):
        os.stat("one/a", dir_fd=top)
        os.close(os.open("one/a", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=top))
        fd = os.open("one/b", os.O_RDONLY, dir_fd=top)
        os.fstat(fd)
        os.close(fd)
        os.access("none", os.F_OK, dir_fd=top)
        one = os.open("one", os.O_RDONLY | os.O_DIRECTORY, dir_fd=top)
        assert sorted(os.listdir(one)) == ["a", "b"]
        os.close(one)
        for name in ("/m", "/tmp"):  # as realpath(3) does
            with contextlib.suppress(OSError):
                os.readlink(name)
    os.close(top)
"""


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_the_cache_answers_by_directory_descriptor(tmp_path: Path, asked: list[int], mode: str) -> None:
    """find, grep -r, git and rm -r ask so, some with O_PATH and O_NOFOLLOW."""
    (tmp_path / mode).mkdir()
    prepare(tmp_path / mode)
    time.sleep(2 * RECENT / 1e9)  # a listing of what has just changed is not kept
    policy = Policy(["python3", "-c", BY_DESCRIPTOR])
    policy.mounts.append(Mount(str(tmp_path / mode), "/m", mode))
    with open(os.devnull, "r+b") as null:
        result = Runner(policy, Events(None, None), (null.fileno(),) * 3).run()
    assert result.exit_code == 0 and not result.faults
    assert len(asked) < 600, len(asked)  # of 6600; Python's own start takes some hundred


CHANGED_ABOVE = """
import os
os.chdir("/m")
os.rmdir("empty")
for i in range(20):
    for name in "one", "two", "three", "four":
        assert os.lstat(name).st_nlink == os.stat(name).st_nlink
        assert os.access(name, os.X_OK)
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        assert os.fstat(fd).st_ino == os.stat(name).st_ino
        os.close(fd)
"""


def test_directories_of_one_that_the_box_has_changed(tmp_path: Path, asked: list[int]) -> None:
    """Each of them is the host's alone, so once it was opened C answers for it."""
    (tmp_path / "m" / "empty").mkdir(parents=True)
    prepare(tmp_path / "m")
    policy = Policy(["python3", "-c", CHANGED_ABOVE])
    policy.mounts.append(Mount(str(tmp_path / "m"), "/m", "cow"))
    with open(os.devnull, "r+b") as null:
        result = Runner(policy, Events(None, None), (null.fileno(),) * 3).run()
    assert result.exit_code == 0 and not result.faults
    assert len(asked) < 150, len(asked)  # of 480 and Python's start


COPIED_UP = """
import os
fd = os.open("/m/f", os.O_RDWR)
by_fd, by_name = os.fstat(fd), os.stat("/m/f")
print([getattr(by_fd, name) == getattr(by_name, name) for name in ("st_ino", "st_dev", "st_uid", "st_mode")])
"""


@pytest.mark.parametrize("options", [[], OFF], ids=["on", "off"])
def test_a_file_that_opening_copied_up(options: list[str]) -> None:
    """SQLite takes a file whose inode is not that of its name for moved away, and writes no more."""
    with scratch() as place:
        (place / "f").write_bytes(b"f")
        (place / "f").chmod(0o666)
        done = husk(["run", *options, "--mount", f"{place}:/m:cow", "--", "python3", "-c", COPIED_UP])
    assert done.out == "[True, True, True, True]\n", done
