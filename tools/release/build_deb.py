"""Build a Debian package of the `husk` command from a wheel: husk and the libraries it needs in a folder of its own.

Usage: python -m release.build_deb WHEEL FOLDER SUITE. Debian has several of the libraries too old or not at all, so the
package brings those of requirements/runtime.lock, in /usr/lib/huskbox, where no other program looks. For `import husk`
there is the wheel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release.wheel_contents import ROOT, version

# Compiled libraries fit one minor version of Python, so a package fits the releases that have it.
PYTHON_OF = {"bookworm": 11, "noble": 12, "trixie": 13}
HOME = "usr/lib/huskbox"
# -I: whatever else is installed, or in PYTHONPATH, the command finds its own libraries.
COMMAND = """\
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/usr/lib/huskbox")
from husk.cli import main_of_process

main_of_process()
"""
CONTROL = """\
Package: huskbox
Version: {version}-1~{suite}
Architecture: amd64
Maintainer: The husk authors <husk@localhost>
Installed-Size: {size}
Depends: python3 (>= 3.{minor}~), python3 (<< 3.{next}~), libc6 (>= {libc})
Section: utils
Priority: optional
Description: run programs and agent skills that you need not trust
 husk is a user-space Linux kernel in Python: a sandbox that needs no root, no
 daemon, no image and no user namespaces, and says why it refused what it refused.
"""
AFTER_INSTALL = "#!/bin/sh\nset -e\npy3compile -p huskbox /usr/lib/huskbox\n"
BEFORE_REMOVAL = "#!/bin/sh\nset -e\npy3clean -p huskbox\n"
COPYRIGHT = """\
husk is licensed under the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0

The libraries beside it have licences of their own: /usr/lib/huskbox/*.dist-info
"""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/husk",
    "zsh": "usr/share/zsh/vendor-completions/_husk",
    "fish": "usr/share/fish/vendor_completions.d/husk.fish",
}


def build(wheel: Path, target: Path, suite: str) -> Path:
    if suite not in PYTHON_OF:
        sys.exit(f"the Python of {suite!r} is not known here; set SUITE to one of {', '.join(PYTHON_OF)}.")
    minor = PYTHON_OF[suite]
    libc = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    assert libc, f"{wheel} is not tagged for manylinux"
    with tempfile.TemporaryDirectory(prefix="husk-deb-") as name:
        tree = Path(name, "tree")
        tree.mkdir()
        _install_libraries(tree / HOME, wheel, minor)
        _write(tree / "usr/bin/husk-python", COMMAND, 0o755)
        shutil.move(tree / HOME / "bin/husk", tree / "usr/bin/husk")
        (tree / "usr/bin/husk").chmod(0o755)
        shutil.rmtree(tree / HOME / "bin")  # commands of the libraries
        _write(tree / "usr/share/doc/huskbox/copyright", COPYRIGHT)
        for shell, place in COMPLETIONS.items():
            _write(tree / place, _completion(tree / HOME, shell))
        size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
        control = CONTROL.format(
            version=version(), suite=suite, size=size, minor=minor, next=minor + 1, libc=f"{libc[1]}.{libc[2]}"
        )
        _write(tree / "DEBIAN/control", control)
        _write(tree / "DEBIAN/postinst", AFTER_INSTALL, 0o755)
        _write(tree / "DEBIAN/prerm", BEFORE_REMOVAL, 0o755)
        target.mkdir(parents=True, exist_ok=True)
        made = target / f"huskbox_{version()}-1~{suite}_amd64.deb"
        pack = ["dpkg-deb", "--build", "--root-owner-group", "-Zxz", str(tree), str(made)]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    return made


def _install_libraries(place: Path, wheel: Path, minor: int) -> None:
    """By pip, for a Python that need not be on this machine."""
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(place)]
    platforms = ("manylinux_2_34_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    foreign = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", f"3.{minor}"]
    for each in platforms:
        foreign += ["--platform", each]
    for abi in (f"cp3{minor}", "abi3", "none"):
        foreign += ["--abi", abi]
    lock = ROOT / "requirements" / "runtime.lock"
    subprocess.run([*pip, *foreign, "--require-hashes", "-r", str(lock)], check=True)
    subprocess.run([*pip, *foreign, "--upgrade", str(wheel)], check=True)


def _completion(place: Path, shell: str) -> str:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from husk.cli import main; main(['completion', sys.argv[2]])"
    command = [sys.executable, "-I", "-B", "-c", code, str(place), shell]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


if __name__ == "__main__":
    os.umask(0o022)
    print(build(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
