"""--device: what a box is given, and only then; servers by stand-ins, /dev/kvm where the host has it."""

from __future__ import annotations

import json
import os
import socket
import stat as st
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import husk as api
from husk.sandbox.devices import passed_devices
from husk.sandbox.devices.passed_devices import add_device
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Policy
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import OPTIONS, husk, scratch

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The runtime directory of a session, with a server that answers what it is told."""
    with scratch() as place, socket.socket(socket.AF_UNIX) as server:
        (place / "pulse").mkdir()
        server.bind(str(place / "wayland-0"))
        os.link(place / "wayland-0", place / "pulse" / "native")
        os.link(place / "wayland-0", place / "pipewire-0")
        (place / "wayland-0").chmod(0o777)
        server.listen()

        def serve() -> None:
            while True:
                with server.accept()[0] as one:
                    if not (said := one.recv(100)):
                        return
                    one.sendall(said.upper())

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        for name in ("WAYLAND_DISPLAY", "PULSE_SERVER", "PIPEWIRE_REMOTE"):
            monkeypatch.delenv(name, raising=False)
        yield place
        with socket.socket(socket.AF_UNIX) as last:  # one that says nothing ends the server
            last.connect(str(place / "wayland-0"))
        thread.join()


TALK = """
import os, socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect(os.environ[sys.argv[1]].removeprefix("unix:"))
one.sendall(b"hello")
print(one.recv(100).decode(), os.environ.get("XDG_RUNTIME_DIR"))
"""


@pytest.mark.both_settings
@pytest.mark.parametrize(("name", "variable"), [
    ("wayland", "WAYLAND_DISPLAY"), ("pulse", "PULSE_SERVER"), ("pipewire", "PIPEWIRE_REMOTE"),
])
def test_servers_of_the_desktop(session: Path, name: str, variable: str) -> None:
    words = ["run", "--json", *OPTIONS, "--device", name, "--", "/usr/bin/python3", "-c", TALK, variable]
    said = json.loads(husk(words, env={"XDG_RUNTIME_DIR": str(session)}).out)
    assert said["stdout"] == "HELLO None\n", said
    assert said["devices"] == [name] and len(said["host_sockets"]) == 1


def test_a_mount_of_a_socket_is_leave_to_connect(session: Path) -> None:
    words = ["run", "--json", *OPTIONS, "--mount", f"{session}/wayland-0:/run/x", "--env", "X=/run/x"]
    said = json.loads(husk([*words, "--", "/usr/bin/python3", "-c", TALK, "X"]).out)
    assert (said["stdout"], said["host_sockets"], said["devices"]) == ("HELLO None\n", ["/run/x"], [])


def test_a_box_has_none_by_itself(session: Path) -> None:
    said = json.loads(husk(["run", "--json", *OPTIONS, "--", "/bin/ls", "/dev", "/run"],
                           env={"XDG_RUNTIME_DIR": str(session)}).out)  # fmt: skip
    assert said["devices"] == [] and not {"kvm", "dri", "wayland-0"} & set(said["stdout"].split())


def test_in_python(session: Path) -> None:
    done = api.run(["/usr/bin/python3", "-c", TALK, "WAYLAND_DISPLAY"], devices=["wayland"], events=True,
                   capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "HELLO None\n" and done.devices == ["wayland"]
    assert [event["name"] for event in done.events if event["event"] == "device"] == ["wayland"]
    with pytest.raises(api.UsageError, match=r"devices=\['/dev/mem'\]: it is the memory"):
        api.Sandbox(devices=["/dev/mem"])


def test_what_is_refused(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = next((f"/dev/{name}" for name in sorted(os.listdir("/dev")) if st.S_ISBLK(os.lstat(f"/dev/{name}").st_mode)),
                "")  # fmt: skip
    expected = {
        "/dev/mem": "it is the memory of the host",
        "/dev/fuse": "it makes file systems for the host",
        "/dev/net/tun": "it makes network interfaces of the host",
        "/dev/input/event0": "it tells every key that is pressed",
        "/dev/ttyUSB0": "it is a serial line",
        "/dev/null": "every box has its own",
        "/etc/passwd": "it is no device",
        "/dev/none": "the host has no such file",
        "x11": "can read what is typed into the others",
        "camera": "there is no such name",
        "/dev/dri/../mem": "it is the memory of the host",
        **({disk: "it is a disk"} if disk else {}),
    }
    for text, why in expected.items():
        policy = Policy([])
        with pytest.raises(UsageError, match=f"^--device .*: .*{why}"):
            add_device(policy, text)
        assert not policy.devices and not policy.mounts
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session / "pulse"))
    with pytest.raises(UsageError, match=r"there is no server at .*start husk in the session that has one"):
        add_device(Policy([]), "wayland")
    assert husk(["run", "--device", "/dev/mem", "--", "true"]).status == 2


def test_a_name_that_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host's /dev may be made by hand: the number of a device decides, not its name."""
    monkeypatch.setattr(passed_devices, "KVM_NUMBER", os.stat("/dev/null").st_rdev)
    if os.path.exists("/dev/kvm"):
        with pytest.raises(UsageError, match="is not the device that its name says"):
            add_device(Policy([]), "kvm")
    made = passed_devices._node("x", "/dev/null", "kvm", lambda number: True)
    assert (made.guest, made.rdev) == ("null", os.makedev(1, 3))
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(UsageError, match="is not the device"):
        passed_devices._node("x", str(tmp_path / "link"), "kvm", lambda number: True)


KVM = """
import fcntl, mmap, os
fd = os.open("/dev/kvm", os.O_RDWR)
vm = fcntl.ioctl(fd, 0xAE01, 0)
cpu = fcntl.ioctl(vm, 0xAE41, 0)
mmap.mmap(cpu, fcntl.ioctl(fd, 0xAE04, 0))
print(fcntl.ioctl(fd, 0xAE00, 0), oct(os.stat("/dev/kvm").st_mode), os.stat("/dev/kvm").st_rdev)
"""


@pytest.mark.both_settings
def test_kvm() -> None:
    """A virtual machine and a processor of it: all their commands run in the host's kernel."""
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"/dev/kvm: {error.strerror}")
    done = husk(["run", *OPTIONS, "--device", "/dev/kvm", "--", "/usr/bin/python3", "-c", KVM])
    assert done.out == f"12 0o20666 {os.makedev(10, 232)}\n", done.err
