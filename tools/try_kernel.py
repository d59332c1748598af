"""Run a command on another Linux kernel: `python tools/try_kernel.py KERNEL [--show DIR]… -- COMMAND…`.

KERNEL is a Debian package of a kernel (`apt-get download linux-image-…-unsigned`), or a directory it was unpacked to.
The command runs as root in a virtual machine (qemu; emulated, or with --kvm) that has this machine's root read-only,
private /tmp, /run, /var/tmp and /mnt, and no network. `--show DIR` shows a directory that lies below one of those, as a
checkout in /tmp. The exit code is the command's. docs/howto/try-an-older-kernel.md has examples.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What Debian builds as modules: the shares, and what husk's tests ask the host for.
MODULES = (
    "virtio_pci", "9p", "9pnet_virtio", "veth", "dummy", "tcp_diag", "udp_diag", "unix_diag", "inet_diag", "loop",
    "crc32c_generic", "ext4",
)  # fmt: skip


def unpacked(kernel: Path, room: Path) -> Path:
    if kernel.is_dir():
        return kernel
    subprocess.run(["dpkg-deb", "-x", str(kernel), str(room / "kernel")], check=True)
    return room / "kernel"


def module_files(kernel: Path) -> dict[str, Path]:
    found = [*kernel.glob("lib/modules/*/kernel/**/*.ko*"), *kernel.glob("usr/lib/modules/*/kernel/**/*.ko*")]
    return {path.name.split(".ko")[0].replace("-", "_"): path for path in found}


def module_data(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def with_dependencies(names: tuple[str, ...], files: dict[str, Path]) -> Iterator[tuple[str, bytes]]:
    """Each after what it needs. One that is not there is built in."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[tuple[str, bytes]]:
        if name in done or name not in files:
            return
        done.add(name)
        data = module_data(files[name])
        needs = re.search(rb"\0depends=([^\0]*)\0", data)
        for each in needs[1].decode().split(",") if needs else []:
            yield from visit(each.replace("-", "_"))
        yield name, data

    for name in names:
        yield from visit(name)


def archive(files: list[tuple[str, int, bytes]]) -> bytes:
    """An initramfs: cpio in its "newc" form (Linux's Documentation/driver-api/early-userspace/buffer-format.rst)."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)


def initramfs(kernel: Path, room: Path) -> Path:
    init = room / "init"
    subprocess.run(["gcc", "-static", "-O1", "-o", str(init), str(HERE / "vm_init.c")], check=True)
    files = [("init", 0o100755, init.read_bytes()), ("modules", 0o040755, b"")]
    for number, (name, data) in enumerate(with_dependencies(MODULES, module_files(kernel))):
        files.append((f"modules/{number:03}-{name}.ko", 0o100644, data))
    made = room / "initramfs"
    made.write_bytes(archive(files))
    return made


def share(tag: str, path: str, *, writable: bool) -> list[str]:
    ends = "" if writable else ",readonly=on"
    return [
        "-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{ends}",
        "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kernel", type=Path)
    parser.add_argument("--show", action="append", default=[], metavar="DIR", help="show this directory, read-only")
    parser.add_argument("--kvm", action="store_true", help="use the processor's own virtualisation: much faster")
    parser.add_argument("--memory", default="3G")
    parser.add_argument("--append", default="", help="more words for the kernel's command line")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="try-kernel-") as folder:
        room = Path(folder)
        kernel = unpacked(options.kernel, room)
        image = next(kernel.glob("boot/vmlinuz-*"))
        work = room / "work"
        work.mkdir()
        shares = [*share("root", "/", writable=False), *share("work", str(work), writable=True)]
        lines = ["ip link set lo up"]
        for number, shown in enumerate(map(os.path.abspath, options.show)):
            shares += share(f"show{number}", shown, writable=False)
            mounted = f"mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose show{number}"
            lines.append(f"mkdir -p {shlex.quote(shown)} && {mounted} {shlex.quote(shown)}")
        lines += [f"cd {shlex.quote(os.getcwd())} 2>/dev/null || cd /tmp", shlex.join(options.command)]
        (work / "command").write_text("\n".join(lines) + "\n")
        virtual = ["-enable-kvm", "-cpu", "host"] if options.kvm else ["-accel", "tcg,thread=multi", "-cpu", "max"]
        machine = ["qemu-system-x86_64", *virtual, "-m", options.memory, "-smp", str(min(os.cpu_count() or 1, 4))]
        words = f"console=ttyS0 quiet panic=-1 {options.append}".strip()
        boot = ["-kernel", str(image), "-initrd", str(initramfs(kernel, room)), "-append", words]
        plain = ["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio", "-device", "virtio-rng-pci"]
        subprocess.run([*machine, *boot, *plain, *shares], check=True, stdin=subprocess.DEVNULL)
        status = work / "status"
        if not status.exists():
            print("the machine ended before the command did", file=sys.stderr)
            return 125
        return int(status.read_text())


if __name__ == "__main__":
    if not shutil.which("qemu-system-x86_64"):
        sys.exit("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
    sys.exit(main())
