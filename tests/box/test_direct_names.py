"""Names below /usr that guests look up themselves (native/loader/names.c) are answered as husk would.

Whether they do is asked of the guest: what its loader left in it counts the call sites that lead there, and remembers
the files it opened so. And the instruction itself can be tried: husk knows no name of the box's own root.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import husk as api
from tests.lib.harness import NATIVE_ONLY, differential
from tests.lib.running import BARE, PATIENCE, PIPE, husk, husk_process, scratch, setting, until

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")

SOURCES = Path(__file__).parents[2] / "src/husk/native"
HEADER = (SOURCES / "loader/resident.h").read_text()
KNOWN = {
    name: int(value, 16) for name, value in re.findall(r"#define (HUSK_RES\w+|HUSK_NAMES\w*) (0x[0-9a-f]+)", HEADER)
}
CODE = KNOWN["HUSK_RESIDENT"]
NAMES_DATA = CODE + KNOWN["HUSK_RESIDENT_CODE_BYTES"] + KNOWN["HUSK_RESIDENT_DATA_BYTES"]

WAYS = {"on": {}, "off": {"HUSK_DIRECT": "0"}, "eager": {"HUSK_GATE": "eager"}, "neither": {"HUSK_GATE": "0"}}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("HUSK_DIRECT", "HUSK_GATE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in WAYS[request.param].items():
        monkeypatch.setenv(name, value)
    return str(request.param)


@pytest.mark.both_settings
def test_transcript(way: str) -> None:
    differential(["{guests}/direct_names"], case="direct_names")


@pytest.mark.both_settings
@pytest.mark.parametrize("direct", ["1", "0"])
@pytest.mark.parametrize("name", ["gate_torture", "gate_opens", "gate_closes", "gate_signals", "files_dirfds"])
def test_transcript_of_others(name: str, direct: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSK_DIRECT", direct)
    differential(["{guests}/" + name], case=name)


# -- are they used? ----------------------------------------------------------------------------------------------------

# The guest, after many questions: does the instruction reach the box's own root, do call sites lead away, and were
# files opened there?
USED = f"""
import ctypes, os
libc = ctypes.CDLL(None)
direct = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 5)({CODE + KNOWN["HUSK_RESIDENT_DIRECT"]})
name, room = ctypes.create_string_buffer(b"/husk-host/usr/bin"), ctypes.create_string_buffer(256)
shown = direct(262, -100, ctypes.addressof(name), ctypes.addressof(room), 256)
for _ in range(300):
    os.stat("/usr/bin/env")
    os.access("/usr/bin/env", os.R_OK)
    os.readlink("/usr/bin/python3")
    os.close(os.open("/usr/bin/env", os.O_RDONLY))
def words(at, count):
    ends = os.pipe()
    done = libc.write(ends[1], ctypes.c_void_p(at), 8 * count)
    data = os.read(ends[0], done) if done > 0 else bytes(8 * count)
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
stubs, used = words({NAMES_DATA}, 2)
opened = words({NAMES_DATA} + 32, 4 * 255)
print("shown" if shown == 0 else shown, stubs != 0 and used & 0xffffffff > 5, any(opened[::4]))
"""
YES, NO = "shown True True", "-2 False False"
PYTHON = ["--", "/usr/bin/python3", "-c", USED]


def used(*options: str) -> str:
    found = husk(["run", *options, *PYTHON])
    assert found.status == 0, found.err
    return found.out.splitlines()[-1].strip()


def test_they_are_used(way: str) -> None:
    assert used() == (YES if way in ("on", "eager") else NO)


def test_not_without_namespaces() -> None:
    if setting() == "walled":
        assert used(BARE) == NO


def test_with_a_mount_elsewhere() -> None:
    with scratch() as place:
        assert used("--mount", f"{place}:/opt/usr:ro") == YES


@pytest.mark.parametrize("target", ["/usr", "/usr/share/doc", "/usr/local/lib/"])
def test_not_with_a_mount_in_usr(target: str) -> None:
    with scratch() as place:
        source = "/usr" if target == "/usr" else str(place)
        assert used("--mount", f"{source}:{target}:ro") == NO


@pytest.mark.parametrize(
    "options", [["--summary"], ["--events", "/dev/null"], ["-v"]], ids=["summary", "events", "verbose"]
)
def test_not_in_watched_runs(options: list[str]) -> None:
    assert used(*options) == NO


def test_not_with_hooks() -> None:
    seen: list[str] = []
    with api.Sandbox() as box:
        box.on("openat")(lambda call: seen.append(call.path))
        found = box.run(PYTHON[1:], capture_output=True, text=True)
    assert (found.returncode, found.stdout.splitlines()[-1].strip()) == (0, NO), found.stderr
    assert seen.count("/usr/bin/env") >= 300


def test_events_have_every_name(tmp_path: Path) -> None:
    found = husk(["run", "--events", str(tmp_path / "events"), *PYTHON])
    assert found.status == 0 and (tmp_path / "events").read_text().count('"/usr/bin/env"') >= 300, found


# The guest: how often it gave up its processor.
SWITCHES = """
import os, resource
def switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
def ask(times):
    for _ in range(times):
        os.access("/usr/bin/env", os.R_OK), os.access("/usr/bin/none", os.R_OK), os.readlink("/usr/bin/python3")
        os.close(os.open("/usr/bin/env", os.O_RDONLY))
ask(200)
before = switches()
ask(2000)
print(switches() - before)
"""


def test_husk_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for an answer gives up its processor; who answers itself does not."""

    def switches() -> int:
        found = husk(["run", "--", "/usr/bin/python3", "-c", SWITCHES])
        assert found.status == 0, found.err
        return int(found.out)

    assert switches() < 600
    monkeypatch.setenv("HUSK_GATE", "0")
    assert switches() > 3000


# -- changes -----------------------------------------------------------------------------------------------------------

OLD = 5.0  # seconds after which nobody takes a file for one that may still change unnoticed
OWNER = 4242


class Usr:
    """A directory below /usr, with directories in it that are alike; each for one change."""

    def __init__(self, top: Path, count: int) -> None:
        self.top, self.count = top, count
        top.chmod(0o777)
        for number in range(count):
            self.fill(top / f"d{number}")
        self.made = time.time()

    def fill(self, place: Path) -> None:
        for folder in (place, place / "sub", place / "sub" / "deep"):
            folder.mkdir()
            folder.chmod(0o777)
        for name in ("a", "b", "twin", "sub/a", "sub/deep/a"):
            (place / name).write_text(f"{name} of {place.name}")
        (place / "own").write_text("anybody's")
        (place / "own").chmod(0o666)
        (place / "foreign").write_text("of somebody else")
        os.chown(place / "foreign", OWNER, OWNER)
        (place / "closed").write_text("closed")
        (place / "closed").chmod(0o600)
        (place / "program").write_text("#!/bin/sh\nexit 3\n")
        (place / "program").chmod(0o755)
        os.link(place / "twin", place / "twin2")
        for name, target in {
            "link": "a", "chain": "link", "over": "sub/a", "up": "../d0/a", "there": f"{place}/a", "nowhere": "none",
            "loop": "loop", "folder": "sub", "outside": "/bin/sh", "far": "/none/none",
        }.items():  # fmt: skip
            (place / name).symlink_to(target)

    def grow_old(self) -> None:
        assert until(lambda: time.time() > self.made + OLD)


@pytest.fixture(scope="module")
def usr() -> Iterator[Usr]:
    if os.getuid() != 0:
        pytest.skip("only root can make directories below /usr")
    with tempfile.TemporaryDirectory(prefix="husk-names-", dir="/usr/local/lib") as top:
        usr = Usr(Path(top), 24)
        usr.grow_old()
        yield usr


@pytest.mark.both_settings
def test_transcript_of_a_prepared_directory(usr: Usr, way: str) -> None:
    differential(["{guests}/direct_names", str(usr.top / "d0")], case="direct_names prepared")


# The guest: one process asks a thousand times, and once more after each change that another one made.
ASKER = r"""
import os, sys
NAMES = ("a", "b", "none", "link", "over", "folder", "own", "foreign", "twin", "sub", "sub/a", "sub/deep/a", "program",
         "closed", "new", "new/a", "none/none", "sub/none", "moved/a", "sub/.", "sub/deep/.", "a/.", "link/.",
         "folder/.", "none/.", "sub/../a", "sub/deep/../../link", "sub/../none", "sub/deep/../a",
         "sub/deep/../../sub/deep/.", "folder/../a", "none/../a", "a/../b", "none/../none/none", "new/../a",
         "sub/../..")
CALLS = {
    "stat": lambda name: shown(os.stat(name)), "lstat": lambda name: shown(os.lstat(name)),
    "read": lambda name: os.access(name, os.R_OK), "run": lambda name: os.access(name, os.X_OK),
    "link": os.readlink, "open": lambda name: content(os.open(name, os.O_RDONLY)),
}
def shown(s):
    return oct(s.st_mode), s.st_uid, s.st_gid, s.st_nlink if s.st_mode & 0o100000 else 0, s.st_size
def content(fd):
    try:
        s = os.fstat(fd)
        return os.read(fd, 30) if s.st_mode & 0o100000 else "", shown(s), os.readlink(f"/proc/self/fd/{fd}")
    except IsADirectoryError:
        return "directory"
    finally:
        os.close(fd)
def answers(place):
    found = {}
    for name in NAMES:
        for call, ask in CALLS.items():
            try:
                found[name, call] = ask(place + "/" + name)
            except OSError as error:
                found[name, call] = error.errno
    return found
def show(title, now, before):
    print(title, *(f"{key}: {now[key]}" for key in now if now[key] != before.get(key)), sep="\n  ", flush=True)
    return now
def settled(place):
    first = answers(place)
    for _ in range(40):  # of each name six questions
        assert answers(place) == first, (place, first, answers(place))
    return first
"""

CHANGES = {
    "create": 'put("new", "new")',
    "create a directory": 'os.mkdir(p("new")); put("new/a", "x")',
    "unlink": 'os.unlink(p("a"))',
    "rename": 'os.rename(p("a"), p("new"))',
    "rename over": 'os.rename(p("a"), p("b"))',
    "replace by a link": 'os.unlink(p("a")); os.symlink("b", p("a"))',
    "replace": 'put("new", "other content"); os.rename(p("new"), p("a"))',
    "chmod": 'put("a.new", "x"); os.rename(p("a.new"), p("a")); os.chmod(p("a"), 0)',
    "link": 'os.link(p("own"), p("new"))',
    "write": 'put("own", "a longer text than before")',
    "append": 'open(p("own"), "a").write("more")',
    "truncate": 'os.truncate(p("own"), 3)',
    "rename the directory": 'os.rename(p("sub"), p("moved"))',
    "rename above": 'os.rename(place, place + ".away")',
    "remove a directory": 'os.unlink(p("sub/deep/a")); os.rmdir(p("sub/deep"))',
    "turn a link": 'os.unlink(p("link")); os.symlink("b", p("link"))',
    "make a missing directory": 'os.mkdir(p("none")); put("none/none", "x")',
    "turn a directory on the way": 'os.rename(p("sub"), p("moved")); os.symlink("moved/deep", p("sub"))',
    "remove what was missing": 'os.mkdir(p("none")); os.rmdir(p("none"))',
    "in a directory below": 'put("sub/deep/none", "x"); os.unlink(p("sub/a"))',
}

CHANGING = (
    ASKER
    + r"""
import json
top, changes = sys.argv[1], json.loads(sys.argv[2])
def p(name):
    return place + "/" + name
def put(name, text):
    with open(p(name), "w") as file:
        file.write(text)
for number, (title, change) in enumerate(changes.items()):
    place = f"{top}/d{number}"
    ask, asked = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        before = settled(place)
        os.write(asked[1], b"x")
        os.read(ask[0], 1)
        now = show(title, answers(place), before)
        assert settled(place) == now, title
        os._exit(0)
    os.read(asked[0], 1)
    try:
        exec(change)
    except OSError as error:
        print("failed:", title, error, flush=True)
    os.write(ask[1], b"x")
    print(os.waitpid(child, 0)[1], flush=True)
    show("later", answers(place), {})
"""
)


def changed(usr: Usr, *options: str) -> str:
    command = ["--", "/usr/bin/python3", "-c", CHANGING, str(usr.top), json.dumps(CHANGES)]
    found = husk(["run", *options, *command])
    assert found.status == 0, found.err + found.out
    return found.out


@pytest.mark.both_settings
def test_changes_in_the_layer_are_seen_at_once(usr: Usr, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another process, which has asked before."""
    direct = changed(usr)
    assert "failed" not in direct and not re.search(r"^[1-9]", direct, re.MULTILINE), direct
    monkeypatch.setenv("HUSK_DIRECT", "0")
    own = re.compile(r"\b1900\d{6}\b")  # without namespaces each run has ids of its own
    assert own.sub("N", direct).splitlines() == own.sub("N", changed(usr)).splitlines()


# The guest: asks, waits until the host has changed something, and asks again.
WAITING = (
    ASKER
    + r"""
place = sys.argv[1]
if sys.argv[2] == "below":
    NAMES = [name for name in NAMES if name.startswith("sub/")]
before = settled(place)
print("ready", flush=True)
sys.stdin.readline()
now = show("changed", answers(place), before)
assert settled(place) == now
"""
)


def unlink(place: Path) -> None:
    (place / "a").unlink()


def create(place: Path) -> None:
    (place / "new").write_text("from outside")


def create_foreign(place: Path) -> None:
    (place / "new").write_text("from outside")
    os.chown(place / "new", OWNER, OWNER + 1)


def chown(place: Path) -> None:
    os.chown(place / "a", OWNER, OWNER + 1)
    os.chown(place / "foreign", 0, 0)
    os.chown(place / "link", OWNER, 0, follow_symlinks=False)
    os.chown(place / "sub", 0, OWNER)


def chmod(place: Path) -> None:
    (place / "a").chmod(0o600)
    (place / "b").chmod(0o711)
    (place / "sub").chmod(0o700)


def replace(place: Path) -> None:
    (place / "b").unlink()
    (place / "b").symlink_to("/etc/passwd")


def exchange_directories(place: Path) -> None:
    """What comes in its place is as old, and belongs to others."""
    (place / "sub").rename(place / "moved")
    (place.parent / "others").rename(place / "sub")


def from_outside(usr: Usr, change: Callable[[Path], None], names: str) -> str:
    with tempfile.TemporaryDirectory(prefix="husk-names-", dir="/usr/local/lib") as top:
        place = Path(top) / "place"
        Path(top).chmod(0o755)
        for folder in (place, Path(top) / "others"):
            usr.fill(folder)
        (Path(top) / "others" / "deep").mkdir()
        (Path(top) / "others" / "deep" / "a").write_text("of somebody else")
        for file in ("a", "deep/a"):
            os.chown(Path(top) / "others" / file, OWNER, OWNER)
        made = time.time()
        assert until(lambda: time.time() > made + OLD)
        command = ["run", "--", "/usr/bin/python3", "-c", WAITING, str(place), names]
        with husk_process(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
            process = running.process
            assert process.stdin and process.stdout and process.stderr
            assert process.stdout.readline() == b"ready\n", process.stderr.read()
            change(place)
            out, err = process.communicate(b"go\n", timeout=PATIENCE)
            assert process.returncode == 0, (out + err).decode()
        return out.decode().replace(top, "TOP")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        *((change, "all") for change in (unlink, create, create_foreign, chown, chmod, replace)),
        *((exchange_directories, names) for names in ("all", "below")),
    ],
)
def test_changes_by_the_host_are_seen(
    usr: Usr, change: Callable[[Path], None], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = from_outside(usr, change, names)
    monkeypatch.setenv("HUSK_DIRECT", "0")
    asked = from_outside(usr, change, names)
    assert asked.count("\n") > 1, "nothing changed"
    assert direct.splitlines() == asked.splitlines()


LATER = (
    ASKER
    + r"""
place = sys.argv[1]
first = settled(place)
show("first", first, {})
os.unlink(place + "/a")
os.rename(place + "/sub", place + "/moved")
with open(place + "/new", "w") as file:
    file.write("of the box")
show("then", settled(place), first)
"""
)
AGAIN = ASKER + 'show("again", settled(sys.argv[1]), {})\n'


def test_a_later_run_in_the_same_box(usr: Usr, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for direct in ("1", "0"):
        monkeypatch.setenv("HUSK_DIRECT", direct)
        with api.Sandbox() as box:
            for script in (LATER, AGAIN, AGAIN):
                ran = box.run(["/usr/bin/python3", "-c", script, str(usr.top / "d1")], capture_output=True, text=True)
                assert ran.returncode == 0, ran.stderr
                found.append(ran.stdout)
    assert found[1] == found[2] and "of the box" in found[1]
    assert found[:3] == found[3:]


def test_a_kept_box(usr: Usr, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    with scratch() as state:
        for direct in ("1", "0"):
            monkeypatch.setenv("HUSK_DIRECT", direct)
            monkeypatch.setenv("HUSK_STATE", str(state / direct))
            for script in (LATER, AGAIN):
                with api.Sandbox(keep="lasting") as box:
                    command = ["/usr/bin/python3", "-c", script, str(usr.top / "d2")]
                    ran = box.run(command, capture_output=True, text=True)
                    assert ran.returncode == 0, ran.stderr
                    found.append(ran.stdout)
    assert "of the box" in found[1] and found[:2] == found[2:]


def test_boxes_of_a_pool(usr: Usr) -> None:
    """They use direct names, and none sees what another one changed."""
    with api.Pool(1) as pool:
        assert pool.wait_ready(60)
        found = []
        for script in (AGAIN, LATER, AGAIN):
            ran = pool.run(["/usr/bin/python3", "-c", script, str(usr.top / "d3")], capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
            found.append(ran.stdout)
        ran = pool.run(PYTHON[1:], capture_output=True, text=True)
    assert found[0] == found[2] != found[1]
    assert ran.stdout.strip() == YES, ran.stderr


# -- the one file outside /usr -----------------------------------------------------------------------------------------

ONE_FILE = """
import os, resource, sys
def look():
    fd = os.open("/etc/ld.so.cache", os.O_RDONLY)
    held, named, text = os.fstat(fd), os.stat("/etc/ld.so.cache"), os.read(fd, 20)
    os.close(fd)
    assert held == named
    return held.st_mode, held.st_uid, held.st_gid, held.st_size, text
def switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
for _ in range(200):
    look()
before = switches()
seen = {look() for _ in range(1000)}
print(switches() - before, flush=True)
sys.stdin.readline()
changed = look()
assert all(look() == changed for _ in range(300))
print(*seen, changed)
"""


def new_file(place: Path, text: str) -> None:
    (place / "new").write_text(text)
    os.replace(place / "new", place / "ld.so.cache")


def in_place(place: Path, text: str) -> None:
    (place / "ld.so.cache").write_text(text)


def of_a_user(place: Path, text: str) -> None:
    new_file(place, text)
    os.chown(place / "ld.so.cache", OWNER, OWNER)


@pytest.mark.parametrize("change", [new_file, in_place, of_a_user])
def test_the_cache_of_the_dynamic_loader(change: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Guests open it themselves, until the host has another one."""
    if os.getuid() != 0:
        pytest.skip("only root can give husk another /etc")
    found = []
    for direct in ("1", "0"):
        monkeypatch.setenv("HUSK_DIRECT", direct)
        with scratch() as place:
            subprocess.run(["cp", "-a", "/etc/.", str(place)], check=True)
            old = time.time() + OLD
            while time.time() < old:
                time.sleep(0.1)
            inside = 'mount --bind "$0" /etc && exec "$@"'
            wrapper = ["unshare", "-m", "--propagation", "private", "sh", "-c", inside, str(place)]
            command = ["run", "--", "/usr/bin/python3", "-c", ONE_FILE]
            with husk_process(command, wrapper=wrapper, stdin=PIPE, stdout=PIPE, stderr=PIPE) as running:
                process = running.process
                assert process.stdout and process.stderr
                asked = process.stdout.readline()
                assert asked, process.stderr.read()
                assert (int(asked) < 300) is (direct == "1")
                change(place, "another one")
                out, err = process.communicate(b"go\n", timeout=PATIENCE)
                assert process.returncode == 0, err.decode()
            found.append(out)
    assert found[0] == found[1] and b"another one" in found[0]


# -- one file by two names ---------------------------------------------------------------------------------------------

TWO_NAMES = """
import os, sys
def seen(name):
    fd = os.open(name, os.O_RDONLY)
    held, named = os.fstat(fd), os.stat(name)
    os.close(fd)
    return (held.st_dev, held.st_uid, held.st_gid) == (named.st_dev, named.st_uid, named.st_gid)
for names in (sys.argv[1:2], sys.argv[2:3], sys.argv[1:]) * 12:
    assert all([seen(name) for name in names]), names
"""


@pytest.mark.parametrize("alike", [True, False], ids=["all of root's", "one of a user's"])
def test_a_file_that_a_mount_shows_too(usr: Usr, alike: bool, way: str) -> None:
    """By a hard link. What the open file is shown as depends on where it was opened."""
    with tempfile.TemporaryDirectory(prefix="husk-names-", dir="/usr/local/lib") as top, scratch() as place:
        Path(top).chmod(0o755)
        (Path(top) / "file").write_text("one")
        if not alike:  # then guests do not know whose the files are
            (Path(top) / "other").write_text("two")
            os.chown(Path(top) / "other", OWNER, OWNER)
        try:
            os.link(Path(top) / "file", place / "file")
        except OSError:
            pytest.skip("temporary files lie on another file system")
        made = time.time()
        assert until(lambda: time.time() > made + OLD)
        options = ["--mount", f"{place}:{place}:ro", "--", "/usr/bin/python3", "-c", TWO_NAMES]
        found = husk(["run", *options, f"{top}/file", str(place / "file")])
    assert found.status == 0, found.err
