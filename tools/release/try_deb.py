"""Install a .deb of husk into a fresh Debian, use it there as root and as an ordinary user, and remove it.

Usage: python -m release.try_deb FILE SUITE. Needs root and mmdebstrap. The fresh system is entered with pivot_root:
Linux gives no user namespaces to a process in a chroot, and husk would be tried with half of its walls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOOKS = "/usr/share/mmdebstrap/hooks/file-mirror-automount"
ENTER = """\
set -eu
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
cd "$1"
pivot_root . .
umount -l .
cd /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp sh -c "$2"
"""
USE = """\
set -eux
husk --version
husk doctor
husk run -- true
test "$(husk run -- sh -c 'echo from the box')" = 'from the box'
test -z "$(find /usr/lib/huskbox -name '*.py' -newer /usr/bin/husk -print -quit)"
test -n "$(find /usr/lib/huskbox -name '*.pyc' -print -quit)"
setpriv --reuid=1000 --regid=1000 --clear-groups husk run -- true
dpkg --purge huskbox
test ! -e /usr/lib/huskbox
test ! -e /usr/bin/husk
"""


def attempt(file: Path, suite: str) -> None:
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        sys.exit("a fresh Debian is made as root, with mmdebstrap: apt-get install mmdebstrap, then run it as root.")
    with tempfile.TemporaryDirectory(prefix="husk-debian-") as name:
        root = Path(name, "root")
        made = subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=apt", f"--hook-dir={HOOKS}", f"--include=mount,{file}", suite, root],
            check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )
        if made.returncode != 0:
            sys.exit(f"{file.name} could not be installed in {suite}:\n{made.stdout}{made.stderr}")
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter", str(root), USE]
        used = subprocess.run(enter, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if used.returncode != 0:
            sys.exit(f"{file.name} does not work in {suite}:\n{used.stdout}{used.stderr}")
    print(f"{file.name}: installs, works and goes away in a fresh {suite}")


if __name__ == "__main__":
    attempt(Path(sys.argv[1]).resolve(), sys.argv[2])
