"""Install the sandboxes that come from package indexes into build/bench/peers. Debian's are in tools/guest_programs.py.

What cannot be had is said in a line and is no error: the comparison then goes without it.
"""

from __future__ import annotations

import shutil
import subprocess

from measure import Command
from subjects import PEER_PYTHON, PEERS, PROGRAM_PATH, SRT

INDEX = ("sandlock", "nono-py")
NPM = "@anthropic-ai/sandbox-runtime"
TIME_LIMIT = 180


def attempt(what: str, command: Command) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{what}: {error}")
        return
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        print(f"{what}: {words[-1] if words else f'exit code {done.returncode}'}")


def main() -> None:
    PEERS.mkdir(parents=True, exist_ok=True)
    # The system's Python: an ordinary user can execute it wherever the Python of this process lies.
    python = shutil.which("python3", path=PROGRAM_PATH)
    if python and not (PEERS / "venv" / "bin" / "pip").exists():
        attempt("venv", [python, "-m", "venv", "--clear", str(PEERS / "venv")])
    for package in INDEX:
        here = subprocess.run([PEER_PYTHON, "-m", "pip", "show", package], capture_output=True, check=False)
        if here.returncode:
            attempt(package, [PEER_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package])
    npm = shutil.which("npm", path=PROGRAM_PATH)
    if npm and not SRT.exists():
        attempt(NPM, [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(PEERS), NPM])


if __name__ == "__main__":
    main()
