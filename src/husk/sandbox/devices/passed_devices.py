"""sandbox: read `--device`: a device of the host, or a server of the desktop, that a box is given.

A box has none of them unless it is named. A call on a device runs in the host's driver, so only drivers that are meant
for programs without rights are on the list; docs/devices.md says what each costs. Which ioctl commands each needs is in
abi/ioctls.py, and the filter allows them to these boxes only.
"""

from __future__ import annotations

import os
import stat as st

from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.sandbox.policy import Policy

KVM, DRI, NVIDIA = "kvm", "dri", "nvidia"
KVM_NUMBER, DRM_MAJOR, NVIDIA_MAJOR = os.makedev(10, 232), 226, 195
# Why others are refused: by the beginning of their names, the longest that fits.
_REASONS = {
    "/dev/mem": "it is the memory of the host",
    "/dev/kmem": "it is the memory of the host",
    "/dev/port": "it drives the hardware of the host",
    "/dev/kmsg": "it is the log of the host's kernel",
    "/dev/fuse": "it makes file systems for the host, and a box mounts none",
    "/dev/net": "it makes network interfaces of the host; --allow-net and --publish give a network",
    "/dev/input": "it tells every key that is pressed, for whatever window",
    "/dev/uinput": "it presses keys in every window",
    "/dev/hidraw": "it drives keyboards and security keys",
    "/dev/snd": "it records what is said in the room; pulse or pipewire ask the sound server instead",
    "/dev/video": "it is a camera",
    "/dev/tty": "a box has terminals of its own",
    "/dev/ttyS": "it is a serial line with whatever hangs on it",
    "/dev/ttyU": "it is a serial line with whatever hangs on it",
    "/dev/ttyA": "it is a serial line with whatever hangs on it",
    "/dev/pts": "a box has terminals of its own",
    "/dev/ptmx": "a box has terminals of its own",
    "/dev/loop": "it makes disks of the host",
    "/dev/vhost": "it is a driver for virtual machines with more rights than kvm",
    "/dev/vfio": "it hands out hardware that can reach all memory",
    "/dev/kfd": "it maps memory of the graphics card without the checks of render nodes",
    "/dev/udmabuf": "it pins memory of the host without a limit",
    "/dev/shm": "a box has its own",
}
_OWN = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_X11 = "every program of an X display can read what is typed into the others; use wayland"


class Passed:
    """What a box is given. `name` is as it was asked for. `guest` is its path below /dev, empty for a server."""

    __slots__ = ("guest", "host", "kind", "name", "rdev")

    def __init__(self, name: str, kind: str, host: str, guest: str = "", rdev: int = 0) -> None:
        self.name, self.kind, self.host, self.guest, self.rdev = name, kind, host, guest, rdev


def add_device(policy: Policy, text: str) -> None:
    """Give the box of `policy` what `text` names."""
    if text in SERVERS:
        _add_server(policy, text)
        return
    if text in ("x11", "X11") or text.startswith("/tmp/.X11-unix"):
        raise _refused(text, _X11)
    found = _nodes(text)
    there = {passed.guest for passed in policy.devices}
    policy.devices += [passed for passed in found if passed.guest not in there]


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"--device {text}: {why}; there are {', '.join(NAMES)} and their files.")


# -- devices ------------------------------------------------------------------------------------------------------
def _nodes(text: str) -> list[Passed]:
    if text in (KVM, "/dev/kvm"):
        return [_node(text, "/dev/kvm", KVM, lambda number: number == KVM_NUMBER)]
    if text in (DRI, "/dev/dri", "/dev/dri/"):
        names = [name for name in _listed("/dev/dri") if name.startswith("renderD")]
        if not names:
            raise UsageError(f"--device {text}: the host has no /dev/dri/renderD*, the node of a graphics card.")
        return [_node(text, f"/dev/dri/{name}", DRI, _is_drm) for name in names]
    if text in (NVIDIA, "/dev/nvidia*"):
        names = [name for name in _listed("/dev") if _is_nvidia(name)]
        if not names:
            raise UsageError(f"--device {text}: the host has no /dev/nvidia*; is NVIDIA's driver loaded?")
        return [_node(text, f"/dev/{name}", NVIDIA, _is_nvidias) for name in names]
    folder, name = os.path.split(text)
    if folder == "/dev/dri" and name.removeprefix("renderD").removeprefix("card").isdigit():
        return [_node(text, text, DRI, _is_drm)]
    if folder == "/dev" and _is_nvidia(name):
        return [_node(text, text, NVIDIA, _is_nvidias)]
    raise _refused(text, _why_not(text))


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _is_drm(number: int) -> bool:
    return os.major(number) == DRM_MAJOR


def _is_nvidia(name: str) -> bool:
    rest = name.removeprefix("nvidia")
    return rest != name and (rest.isdigit() or rest in ("ctl", "-uvm"))


def _is_nvidias(number: int) -> bool:
    """The card and its control have a number of their own; that of -uvm is chosen when its driver is loaded."""
    if os.major(number) == NVIDIA_MAJOR:
        return True
    with open("/proc/devices", encoding="ascii", errors="replace") as file:
        return f"{os.major(number)} nvidia-uvm" in (line.strip() for line in file)


def _node(text: str, path: str, kind: str, fits: Callable[[int], bool]) -> Passed:
    """Checked now, so that a mistake is told before the box starts; its number is checked again when it is opened."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise UsageError(f"--device {text}: {path}: {error.strerror} on the host.") from None
    if not st.S_ISCHR(found.st_mode) or not fits(found.st_rdev):
        raise UsageError(f"--device {text}: {path} is not the device that its name says.")
    if not os.access(path, os.R_OK | os.W_OK):
        raise UsageError(f"--device {text}: you may not open {path}; become a member of the group that may (ls -l).")
    return Passed(text, kind, path, path.removeprefix("/dev/"), found.st_rdev)


def _why_not(text: str) -> str:
    if not text.startswith("/"):
        return "there is no such name"
    path = os.path.normpath(text)
    if os.path.dirname(path) == "/dev" and os.path.basename(path) in _OWN:
        return "every box has its own"
    kind = st.S_IFMT(os.stat(path).st_mode) if os.path.exists(path) else 0
    if kind == st.S_IFBLK:
        return "it is a disk, and whoever reads it reads every file on it; --mount shows a directory"
    longest = max((name for name in _REASONS if path.startswith(name)), key=len, default="")
    if longest:
        return _REASONS[longest]
    if not kind:
        return "the host has no such file"
    if kind != st.S_IFCHR:
        return "it is no device; --mount shows files and directories"
    return "its driver is not known to be safe for programs without rights"


# -- servers ------------------------------------------------------------------------------------------------------
def _runtime(name: str) -> str:
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(folder, name) if folder.startswith("/") else ""


def _wayland() -> str:
    display = os.environ.get("WAYLAND_DISPLAY", "wayland-0")
    return display if display.startswith("/") else _runtime(display)


def _pulse() -> str:
    server = os.environ.get("PULSE_SERVER", "")
    return server.removeprefix("unix:") if server.startswith("unix:/") else _runtime("pulse/native")


def _pipewire() -> str:
    remote = os.environ.get("PIPEWIRE_REMOTE", "pipewire-0")
    return remote if remote.startswith("/") else _runtime(remote)


# Name -> where the host has its socket, where the box gets it, and the variable that tells programs.
SERVERS: dict[str, tuple[Callable[[], str], str, str, str]] = {
    "wayland": (_wayland, "/run/wayland-0", "WAYLAND_DISPLAY", "/run/wayland-0"),
    "pulse": (_pulse, "/run/pulse.socket", "PULSE_SERVER", "unix:/run/pulse.socket"),
    "pipewire": (_pipewire, "/run/pipewire-0", "PIPEWIRE_REMOTE", "/run/pipewire-0"),
}

NAMES = (DRI, KVM, NVIDIA, *SERVERS)


def _add_server(policy: Policy, name: str) -> None:
    """The socket is shown like a mount of it, which is leave to connect. The box forgets it when the run ends."""
    find, inside, variable, value = SERVERS[name]
    if any(passed.name == name for passed in policy.devices):
        return
    host = find()
    try:
        there = bool(host) and st.S_ISSOCK(os.stat(host).st_mode)
    except OSError:
        there = False
    if not there:
        place = host or "its directory ($XDG_RUNTIME_DIR is not set)"
        raise UsageError(f"--device {name}: there is no server at {place}; start husk in the session that has one.")
    policy.mounts.append(Mount(host, inside, "ro", ruled=False, passing=True))
    policy.env.setdefault(variable, value)
    policy.devices.append(Passed(name, name, host))
