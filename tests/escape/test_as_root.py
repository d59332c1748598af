"""husk run as root acts for the guest where Linux would check the guest's credentials: owners, ports, resource counts.

All tests here start husk as root. Run by an ordinary user, husk has no more rights than its guest.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.vfs.host import host_tree_write
from husk.vfs.host.host_tree_write import WritableHostTree
from husk.vfs.node import Context, Credentials
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's husk may no more than its guest"),
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

BOB, FIRST_USER, CREW = 12345, 1000, 23456
INSIDE = Context(Credentials(1000, 1000))


# -- whose files -------------------------------------------------------------------------------------------------------


@pytest.mark.both_settings
def test_who_has_the_guests_number_on_the_host_is_a_stranger(place: Path) -> None:
    """The guest's uid inside equals the uid of the host's first user. That user's files are not the guest's."""
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
    # Twice each: the second answer may come from the name cache.
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
    """chgrp to the guest's own gid gives the file the gid of the mount's owner, not the host group with that gid."""
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
    """A race: the owner of a mount may rename files of root in it. After husk makes a name and before it looks at it
    again, a file of root takes that name. The file must stay root's."""
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

    monkeypatch.setattr(host_tree_write, "os", Os())
    tree = WritableHostTree(99, os.fsencode(place), owner=(BOB, BOB))
    umask = os.umask(0o077)
    try:
        if how == "symlink":
            tree.symlink(INSIDE, tree.root, b"new", b"target")
        elif how == "bind":
            tree.bind(
                INSIDE,
                tree.root,
                b"new",
                0o777,
                exchanged(lambda at, name: bind_at(b"/proc/self/fd/%d/%s" % (at, name))),
            )
        else:
            wanted = 0o777 if how == "mkdir" else stat.S_IFIFO | 0o666
            getattr(tree, how)(INSIDE, tree.root, b"new", wanted)
    except PermissionError:
        pass  # Bob would get the same error
    finally:
        os.umask(umask)
        tree.close()
    kept, made = (place / "new").stat(), (place / "away").lstat()
    assert (kept.st_uid, kept.st_gid, stat.S_IMODE(kept.st_mode)) == (0, 0, 0o600)
    assert (made.st_uid, made.st_gid) == (BOB, BOB)


@pytest.mark.both_settings
def test_emptying_a_set_uid_file_takes_that_from_it(place: Path) -> None:
    """Linux clears the set-id bits for every user but root. The file belongs to another user; the guest's group may
    write to it."""
    os.chown(place, BOB, CREW)
    for name in ("open", "truncate"):
        (place / name).write_text("program")
        os.chown(place / name, BOB + 1, CREW)
        (place / name).chmod(0o6775)
    script = ": >open && truncate -s 1 truncate"
    done = husk(["run", "--mount", f"{place}:/m:rw", "--workdir", "/m", "--", "sh", "-c", script])
    found = {path.name: (path.stat().st_size, stat.S_IMODE(path.stat().st_mode)) for path in place.iterdir()}
    assert found == {"open": (0, 0o775), "truncate": (1, 0o775)}, done


# -- what is held, and what is counted ---------------------------------------------------------------------------------


@pytest.mark.both_settings
@pytest.mark.parametrize("flags", ["O_WRONLY", "O_WRONLY | os.O_NONBLOCK", "O_RDWR"])
def test_a_pipe_to_read_from_is_not_one_to_write_to(flags: str) -> None:
    """Opened again through /proc, with any flags. The descriptor handed in may be a FIFO of root."""
    script = f"import os\ntry: os.open('/proc/self/fd/0', os.{flags})\nexcept PermissionError: print('refused')"
    done = husk(["run", "--", "python3", "-c", script])
    assert done.out == "refused\n", done


@pytest.mark.both_settings
def test_buffers_of_fifos_count_for_the_guest(programs: Path) -> None:
    """Linux gives smaller buffers to a user that has too many. Root may have any number, and its buffers stay large."""
    allowed = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text())
    if not 0 < allowed <= 16384:
        pytest.skip(f"fs.pipe-user-pages-soft is {allowed}: too many to be used up here")
    count = allowed // 16 + 8  # of 16 pages each
    command = ["/p/fifo_buffers", "/tmp", str(count)]
    done = husk(["run", "--mount", f"{programs}:/p:ro", "--", *command])
    full, small = map(int, done.out.split())
    assert full <= allowed // 16, done
    assert small >= 8, done


@pytest.mark.parametrize("dumpable", [0, 1])
def test_a_program_that_acted_as_another_is_as_it_was(place: Path, dumpable: int) -> None:
    """When a process changes its ids, Linux makes it undumpable and clears its parent-death signal. The program may
    change either setting between two calls."""
    script = f"""if True:
        import ctypes, os, socket, sys
        from husk.native._core import connect_address, listen_on, make_as
        libc = ctypes.CDLL(None)
        def state():
            signal = ctypes.c_int()
            libc.prctl(2, ctypes.byref(signal))
            ids = [line for line in open("/proc/thread-self/status") if line[:3] in ("Uid", "Gid", "Gro", "Cap")]
            return libc.prctl(3), signal.value, ids
        server, caller = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        server.bind(sys.argv[1])
        libc.prctl(1, 10)
        before = state()
        listen_on(server.fileno(), 1, {BOB}, {CREW})
        assert state() == before, (state(), before)
        libc.prctl(4, {dumpable})
        before = state()
        assert before[:2] == ({dumpable}, 10), before
        connect_address(caller.fileno(), b"\\1\\0" + os.fsencode(sys.argv[1]), {BOB}, {CREW})
        assert state() == before, (state(), before)
        make_as({BOB}, {CREW}, lambda: os.mkdir(sys.argv[1] + "-made"))
        assert state() == before, (state(), before)
    """
    subprocess.run([sys.executable, "-c", script, str(place / "server")], check=True, timeout=120)
    made = (place / "server-made").stat()
    assert (made.st_uid, made.st_gid) == (BOB, CREW)


@pytest.mark.both_settings
def test_root_without_powers_over_others_sends_messages() -> None:
    """A container's root may neither send another pid with a message nor exceed the limits."""
    script = """if True:
        import socket
        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [0])
        print(len(socket.recv_fds(other, 1, 1)[1]))
        here, there = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        here.bind("name")
        there.sendmsg([b"text"], [], 0, "name")
        print(here.recv(9))
    """
    without = ["setpriv", "--bounding-set", "-sys_admin,-sys_resource"]
    done = husk(["run", "--workdir", "/tmp", "--", "python3", "-c", script], wrapper=without)
    assert done.out == "1\nb'text'\n", done


# -- ports -------------------------------------------------------------------------------------------------------------

BIND = """
import ctypes, os, socket, sys
def attempt(what, address, reuse=False):
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse)
    code = libc.bind(one.fileno(), address, len(address))
    print(what, code and os.strerror(ctypes.get_errno()))
libc = ctypes.CDLL(None, use_errno=True)
ip, port = socket.inet_aton(sys.argv[1]), int(sys.argv[2]).to_bytes(2, "big")
attempt("own", bytes([2, 0, 0, 7]) + ip + bytes(8))
attempt("any", bytes([0, 0, 0, 7]) + bytes(12))
attempt("far", bytes([2, 0, 0, 7, 198, 51, 100, 250]) + bytes(8))
attempt("shared", bytes([2, 0]) + port + bytes(12), True)
"""


@pytest.mark.both_settings
def test_ports_on_the_hosts_network_are_an_ordinary_users() -> None:
    """The guest gets no low port, by any address, and no port that servers of root share (SO_REUSEPORT)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.251", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback's")
        ip = probe.getsockname()[0]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("0.0.0.0", 0))
        server.listen()
        port = str(server.getsockname()[1])
        done = husk(["run", "--net", "host", "--", "python3", "-c", BIND, ip, port])
    assert done.out.splitlines() == [
        "own Permission denied",
        "any Permission denied",
        "far Cannot assign requested address",
        "shared Address already in use",
    ], done


OPTIONS = """
import socket
one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for option in (socket.IPV6_HOPOPTS, socket.IPV6_DSTOPTS, socket.IPV6_HOPLIMIT):
    value = bytes([0, 0, 1, 4, 0, 0, 0, 0]) if option != socket.IPV6_HOPLIMIT else bytes([9, 0, 0, 0])
    try:
        one.sendmsg([b"x"], [(socket.IPPROTO_IPV6, option, value)], 0, ("::1", 9))
        print("sent")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.both_settings
def test_what_only_administrators_say_of_packets_is_refused() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    done = husk(["run", "--net", "host", "--", "python3", "-c", OPTIONS])
    assert done.out.splitlines() == ["Operation not permitted", "Operation not permitted", "sent"], done


def bind_at(path: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)
