"""cluster: what a worker has to have: this husk, and the walls that the work asks for.

Run as a program (`python -m husk.cluster.fitness`) it examines the machine and prints JSON: a process of its own,
because the doctor's probes change what they run in, and a worker has threads.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys

from husk import __version__
from husk.sandbox.doctor.examine import examine
from husk.sandbox.doctor.rows import BY_NAME, MINIMUM

SECONDS = 60.0
NAMESPACES = ("user-namespace", "mount-namespace", "pid-namespace", "net-namespace", "ipc-namespace")


@functools.cache
def introduce() -> str:
    """On a worker: its version, and the doctor's rows that do not stand, as JSON."""
    done = subprocess.run([sys.executable, "-P", "-m", "husk.cluster.fitness"], capture_output=True, timeout=SECONDS)
    missing = json.loads(done.stdout) if done.returncode == 0 else ["box"]
    return json.dumps({"version": __version__, "missing": missing})


def unfit(introduction: str, wanted: tuple[str, ...]) -> str:
    """What the worker lacks, in words; empty: nothing. `wanted`: rows of the doctor beside the minimum."""
    found = json.loads(introduction)
    if found["version"] != __version__:
        return other_version(found["version"])
    lacking = [BY_NAME[name] for name in found["missing"] if name in BY_NAME]
    needed = [row.what for row in lacking if row.need == MINIMUM or row.name in wanted]
    return f"lacks {', '.join(needed)}" if needed else ""


def other_version(version: str) -> str:
    return f"has husk {version}, and here it is {__version__}"


def main() -> None:
    print(json.dumps([finding.row.name for finding in examine() if not finding.stands]))


if __name__ == "__main__":
    main()
