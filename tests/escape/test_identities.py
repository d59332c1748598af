"""What is closed is closed by host identity (device and inode), not by the guest path it happens to have.

Closed are husk's own state and store, and every host directory that a nested mount covers. A guest that renames a
directory above them, keeps the box, and looks again finds empty directories. So does a guest that reaches them by
another host path. Each test shows first that the secret is there to be found.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import PIPE, husk, husk_command, husk_process, scratch, until
from tests.snapshots.place import Place

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

SECRET = "host-credentials"
FIND = "find /h -type f -exec cat {} + 2>&1"
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make a bind mount")


class Home(Place):
    """A person's home: credentials in conf/vault (no default rule is about it), husk's state below .local."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.home, self.empty = top / "home", top / "empty"
        self.vault = self.home / "conf" / "vault"
        self.state, self.store = self.home / ".local" / "state", self.home / ".local" / "share"
        for path in (self.vault, self.empty, self.state, self.store):
            path.mkdir(parents=True)
        self.state.chmod(0o700)
        (self.vault / "token").write_text(SECRET)

    def mounts(self, mode: str) -> list[str]:
        return ["--mount", f"{self.home}:/h:{mode}", "--mount", f"{self.empty}:/h/conf/vault:ro"]


@pytest.fixture
def home() -> Iterator[Home]:
    with scratch() as top:
        yield Home(top)


# -- masks -------------------------------------------------------------------------------------------------------------


def test_a_kept_box_does_not_rename_a_mask_away(home: Home) -> None:
    shown = home.husk("run", "--mount", f"{home.home}:/h:ro", "--", "sh", "-c", FIND)
    assert SECRET in shown, "without the mask the guest reads it"
    home.sh("box", f"{FIND}; mv /h/conf /h/seen", *home.mounts("cow"))
    for _ in range(2):
        found = home.sh("box", f"ls -a /h/seen; ls -a /h/seen/vault; {FIND} || true; cat /h/seen/vault/token || true")
        assert SECRET not in found
        assert "vault" in found


def test_a_fork_of_a_box_does_not_show_it_either(home: Home) -> None:
    home.sh("box", "mv /h/conf /h/seen; mkdir /h/conf; mv /h/seen /h/conf/deep", *home.mounts("cow"))
    home.husk("fork", "box", "other")
    assert SECRET not in home.sh("other", f"{FIND}; cat /h/conf/deep/vault/token || true")


def test_a_mask_on_an_rw_mount_stays_where_the_directory_goes(home: Home) -> None:
    """Here a host process renames: the next run finds the masked directory under its new name."""
    home.state = home.top / "state"
    home.husk("run", *home.mounts("rw"), "--", "sh", "-c", "mv /h/conf /h/seen; mkdir -p /h/conf/vault")
    assert (home.home / "seen" / "vault" / "token").read_text() == SECRET
    # Nothing tells the next run what the last one hid. Within one run it holds, whatever is renamed.
    (home.home / "conf" / "vault" / "token").write_text(SECRET)
    os.unlink(home.home / "seen" / "vault" / "token")
    script = f"mv /h/conf /h/again; {FIND}; cat /h/again/vault/token; mv /h/again/vault /h/out"
    _, out, err = home.call("run", *home.mounts("rw"), "--", "sh", "-c", script)
    assert SECRET not in out + err


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_a_masked_directory_moved_into_another_mount(home: Home, mode: str) -> None:
    """The second mount holds nothing closed when the box is built."""
    home.state = home.top / "state"
    inner = home.home / "inner"
    inner.mkdir()
    script = "mv /h/conf /h/inner/; ls /i/conf; find /i /h -type f -exec cat {} +; cat /i/conf/vault/token"
    mounts = [*home.mounts("rw"), "--mount", f"{inner}:/i:{mode}"]
    _, out, err = home.call("run", *mounts, "--", "sh", "-c", script)
    assert out == "vault\n" and SECRET not in err
    assert (inner / "conf" / "vault" / "token").read_text() == SECRET


def test_a_masked_directory_by_another_mount_is_neither_changed_nor_watched(home: Home) -> None:
    watch = "import ctypes; c = ctypes.CDLL(None); print(c.inotify_add_watch(c.inotify_init(), b'vault', 4095))"
    script = f"cd /i/conf && ls -ld vault; chmod 777 vault; touch vault; python3 -c \"{watch}\""
    before = home.vault.stat()
    home.state = home.top / "state"
    mounts = [*home.mounts("rw"), "--mount", f"{home.home}:/i:rw"]
    _, out, err = home.call("run", *mounts, "--", "sh", "-c", script)
    assert out.startswith("drwx") and out.endswith("\n-1\n"), (out, err)
    after = home.vault.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_a_mount_point_that_another_mount_moves_away(home: Home) -> None:
    """It is the host's directory. The box ends as usual, and nothing of it is left."""
    home.state = home.top / "state"
    script = "mv /i/conf /i/moved; ls /h/conf; cat /proc/mounts; ls /h/moved; cat /h/moved/vault/token"
    mounts = [*home.mounts("rw"), "--mount", f"{home.home}:/i:rw"]
    status, out, err = home.call("run", *mounts, "--", "sh", "-c", f"{script}; exit 7")
    assert status == 7, err
    assert " /h " in out and " /h/conf/vault " not in out and out.endswith("vault\n")
    assert SECRET not in out + err
    assert not [name for name in os.listdir(home.state) if name.startswith("box-")]


@as_root
@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_a_directory_masked_by_way_of_a_bind_mount(home: Home, mode: str) -> None:
    """Two mounts of the box have sources on two mounts of one file system: `..` does not lead from one to the other."""
    alias = home.top / "alias"
    alias.mkdir()
    home.state, home.store = home.top / "state", home.top / "store"
    home.store.mkdir()
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    mounts = ["--mount", f"{alias}:/b:ro", "--mount", f"{home.empty}:/b/vault:ro", "--mount", f"{home.home}:/h:{mode}"]
    command = [*husk_command(), "run", *mounts, "--", "sh", "-c", f"ls -A /h/conf; {FIND}"]
    wrapped = ["unshare", "--mount", "sh", "-c", script, "sh", str(home.home / "conf"), str(alias), *command]
    done = subprocess.run(wrapped, env=home.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "vault\n"), done


@as_root
def test_a_masked_directory_by_another_path_of_the_host(home: Home) -> None:
    """A bind mount below the same mount leads to what the mask covers."""
    alias = home.home / "alias"
    alias.mkdir()
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    command = [*husk_command(), "run", *home.mounts("ro"), "--", "sh", "-c", FIND]
    wrapped = ["unshare", "--mount", "sh", "-c", script, "sh", str(home.vault), str(alias), *command]
    done = subprocess.run(wrapped, env=home.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout


# -- husk's own state --------------------------------------------------------------------------------------------------


def test_a_kept_box_does_not_rename_its_way_to_the_state(home: Home) -> None:
    """Another box runs meanwhile, with a private file."""
    other = ["run", "--", "sh", "-c", f"echo {SECRET} >/tmp/private; echo ready; exec sleep 300"]
    environment = {"HUSK_STATE": str(home.state), "HUSK_STORE": str(home.store)}
    with husk_process(other, env=environment, stdout=PIPE) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline() == b"ready\n"
        assert until(lambda: any(_holds(home.state, SECRET)))
        home.sh("box", "mv /h/.local /h/seen", "--mount", f"{home.home}:/h:cow")
        found = home.sh("box", f"find /h/seen; {FIND}")
        running.process.terminate()
        running.process.wait()
    assert "box-" not in found and "record" not in found
    assert found.count(SECRET) == 1, "only the token, which nothing hides here"


def _holds(place: Path, text: str) -> Iterator[bool]:
    for where, _, names in os.walk(place):
        for name in names:
            path = Path(where, name)
            if path.is_file() and not path.is_symlink():
                yield text in path.read_text(errors="replace")


@as_root
@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
@pytest.mark.parametrize("below", ["", ".local", ".local/state"])
def test_the_state_by_another_path_of_the_host(home: Home, mode: str, below: str) -> None:
    """The mount's source is a bind mount: no comparison of paths can tell that husk's state lies in it."""
    alias = home.top / "alias"
    alias.mkdir()
    inside = Path("/a", os.path.relpath(".local/state", below or "."))
    guest = f'ls -a {inside}; cd {inside} && for box in box-*; do test -e "$box" && echo "reached $box"; done; exit 0'
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    command = [*husk_command(), "run", "--mount", f"{alias}:/a:{mode}", "--", "sh", "-c", guest]
    wrapped = ["unshare", "--mount", "sh", "-c", script, "sh", str(home.home / below), str(alias), *command]
    done = subprocess.run(wrapped, env=home.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert "reached" not in done.stdout, done
    if below == ".local/state" or mode == "rw":
        assert (done.returncode, done.stdout) == (2, ""), done
        assert "HUSK_STATE" in done.stderr and done.stderr.count("\n") == 1
    else:
        assert done.returncode == 0, done


# -- file systems that speak for the kernel ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ro", "cow"])
def test_the_host_s_proc_below_a_mount_of_the_root(mode: str) -> None:
    """husk reads these files, so the kernel would check husk's credentials, not the guest's."""
    script = (
        "ls -a /host/proc /host/sys; cat /host/proc/1/environ /host/proc/self/maps /host/proc/version;"
        " cat /host/sys/kernel/mm/transparent_hugepage/enabled; echo 1 >/host/proc/sys/kernel/printk;"
        " head -c1 /host/usr/bin/env"
    )
    done = husk(["run", "--mount", f"/:/host:{mode}", "--", "sh", "-c", script])
    for line in ("Linux version", "always", "[stack]", "PATH="):
        assert line not in done.out, done.out
    assert done.out.splitlines()[-1].startswith("\x7f"), "the rest of the root is there"
    assert "kernel" in husk(["run", "--summary", "--mount", f"/:/host:{mode}", "--", "cat", "/host/proc/version"]).err


@pytest.mark.parametrize("source", ["/proc", "/proc/1", "/proc/sys", "/sys", "/sys/kernel"])
@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_such_a_file_system_cannot_be_mounted(source: str, mode: str) -> None:
    done = husk(["run", "--mount", f"{source}:/m:{mode}", "--", "true"])
    assert done.status == 2, done
    assert done.err.count("\n") == 1 and done.err.endswith(".\n") and source in done.err, done.err


@as_root
def test_the_host_s_proc_below_usr(home: Home) -> None:
    script = 'mount -t proc proc /usr/local/games && exec "$@"'
    command = [*husk_command(), "run", "--", "sh", "-c", "cat /usr/local/games/version; echo $?"]
    wrapped = ["unshare", "--mount", "sh", "-c", script, "sh", *command]
    done = subprocess.run(wrapped, env=home.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done


@as_root
def test_a_file_of_proc_over_a_file_is_not_changed(home: Home) -> None:
    """It can be looked at. Nothing changes even without the guard: the mode is the one it has."""
    file = home.empty / "file"
    file.touch()
    script = 'mount --bind /proc/version "$1" && shift && exec "$@"'
    tried = "cat /m/file; chmod 444 /m/file; truncate -s 0 /m/file; touch /m/file; test -f /m/file && echo seen"
    command = [*husk_command(), "run", "--mount", f"{home.empty}:/m:rw", "--", "sh", "-c", tried]
    wrapped = ["unshare", "--mount", "sh", "-c", script, "sh", str(file), *command]
    home.state, home.store = home.top / "state", home.top / "store"
    done = subprocess.run(wrapped, env=home.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "seen\n"), done
    assert done.stderr.count("Permission denied") == 4, done.stderr
