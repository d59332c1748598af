"""Which programs the tests run inside husk, and the Debian packages they come from.

`--install` fetches the missing ones with one apt-get call when run by root; otherwise they are named and the tests that
need them skip, visibly. Never fails: a machine without them can still run the other tests.
tests/conftest.py reads the same table to tell in a skip's reason what to install.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from pathlib import Path

# Where a guest looks. Not $PATH: what lies outside /usr and /bin (a pyenv, a home directory) does not exist in a box.
GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIME_LIMIT = 600

PACKAGES = {
    "dash": "dash",
    "bash": "bash",
    "ls": "coreutils",
    "find": "findutils",
    "xargs": "findutils",
    "grep": "grep",
    "sed": "sed",
    "gawk": "gawk",
    "mawk": "mawk",
    "tar": "tar",
    "gzip": "gzip",
    "xz": "xz-utils",
    "setpriv": "util-linux",
    "findmnt": "util-linux",
    "lscpu": "util-linux",
    "ps": "procps",
    "top": "procps",
    "pgrep": "procps",
    "free": "procps",
    "uptime": "procps",
    "vmstat": "procps",
    "pmap": "procps",
    "pstree": "psmisc",
    "fuser": "psmisc",
    "lsof": "lsof",
    "script": "bsdutils",
    "less": "less",
    "vim": "vim",
    "tmux": "tmux",
    "python3": "python3",
    "node": "nodejs",
    "perl": "perl",
    "ruby": "ruby",
    "pdftotext": "poppler-utils",
    "gcc": "gcc",
    "g++": "g++",
    "make": "make",
    "ld": "binutils",
    "git": "git",
    "sqlite3": "sqlite3",
    "curl": "curl",
    "openssl": "openssl",
    "ssh-keygen": "openssh-client",
    "redis-server": "redis-server",
    "postgres": "postgresql",
    "psql": "postgresql-client",
    "rsync": "rsync",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "npm": "npm",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "inotifywait": "inotify-tools",
    "busybox": "busybox-static",
    "musl-gcc": "musl-tools",
    # About 80 MB and ten seconds; Debian's Go brings its library compiled, so building a static program is instant.
    "go": "golang-go",
    # Not in a box, but around one of husk's seccomp profiles.
    "runc": "runc",
}
# Not programs but parts of one: Debian ships python3's venv and pip support separately.
# The others are C extensions that example skills use.
MODULES = {
    "python3-venv": ("ensurepip", "python3-venv"),
    "python3-pip": ("pip", "python3-pip"),
    "python3-yaml": ("yaml", "python3-yaml"),
    "python3-lxml": ("lxml", "python3-lxml"),
    "python3-pil": ("PIL", "python3-pil"),
    "python3-numpy": ("numpy", "python3-numpy"),
}
# Hundreds of megabytes: tests that need one skip, unless it is there already.
BROWSERS = {"chromium": "chromium", "firefox-esr": "firefox-esr"}
# Other sandboxes the benchmark compares husk with; socat and rg are needed by one that comes from npm.
BENCH_PACKAGES = {"bwrap": "bubblewrap", "proot": "proot", "runsc": "runsc", "socat": "socat", "rg": "ripgrep"}
# What it runs in them.
BENCH_PROGRAMS = ("find", "git", "gcc", "make", "node", "npm", "python3-pip", "python3-venv", "runc", "tar")


def find(program: str) -> str | None:
    """The program as a guest would find it."""
    if program in MODULES:
        python = find("python3")
        module = MODULES[program][0]
        if python is None or subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode:
            return None
        return python
    return shutil.which(program, path=GUEST_PATH)


def package_of(program: str) -> str | None:
    if program in MODULES:
        return MODULES[program][1]
    return PACKAGES.get(program) or BROWSERS.get(program) or BENCH_PACKAGES.get(program)


def missing(programs: list[str]) -> list[str]:
    return [program for program in programs if find(program) is None]


def install(programs: list[str]) -> None:
    packages = sorted({package for program in programs if (package := package_of(program))})
    print(f"guest programs: installing {' '.join(packages)}", flush=True)
    quiet = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        # A fresh machine has no package lists; an old one has lists that name packages long replaced.
        subprocess.run([*quiet, "update"], env=environment, timeout=TIME_LIMIT, stdout=subprocess.DEVNULL)
        command = [*quiet, "install", "-y", "--no-install-recommends", *packages]
        subprocess.run(command, env=environment, timeout=TIME_LIMIT, stdout=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        print(f"guest programs: apt-get did not finish in {TIME_LIMIT} seconds", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--install", action="store_true", help="install the missing ones, when run by root on Debian")
    parser.add_argument("--bench", action="store_true", help="those of the benchmark instead of those of the tests")
    options = parser.parse_args()

    wanted = [*BENCH_PACKAGES, *BENCH_PROGRAMS] if options.bench else [*PACKAGES, *MODULES]
    absent = missing(wanted)
    if absent and options.install and os.geteuid() == 0 and Path("/usr/bin/apt-get").exists():
        install(absent)
        absent = missing(absent)
    if absent:
        named = ", ".join(f"{program} (Debian: {package_of(program)})" for program in absent)
        print(f"guest programs: missing, what needs them will be skipped: {named}")
    else:
        print(f"guest programs: all {len(wanted)} present")


if __name__ == "__main__":
    main()
