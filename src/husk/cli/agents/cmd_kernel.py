"""cli: `husk kernel`: Python kernels for Jupyter that run in boxes.

A kernel talks to its notebook through five ports, which Jupyter chooses and writes into a connection file. Each of them
is published: it leads from the host's loopback to the same port of the box.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from husk.cli.agents.own_command import own_command
from husk.cli.exit_codes import run_command
from husk.cli.options.agent_options import KERNEL
from husk.cli.output import say_result
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values

INSIDE = "/run/jupyter/kernel.json"  # where the box has the connection file
_LOOK = "import json, sys, ipykernel; print(json.dumps([sys.executable, sys.prefix, sys.base_prefix]))"
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def main(argv: list[str]) -> int:
    return run_command(KERNEL, argv, _HANDLERS)


def _install(options: Values) -> int:
    if not options.name or not _NAME.issuperset(options.name):
        raise UsageError(f"--name {options.name!r}: Jupyter takes letters, digits and . _ - in a kernel's name.")
    python, *prefixes = _python(options.python)
    shown = []
    for place in dict.fromkeys(prefixes):
        if place != "/usr" and not place.startswith("/usr/"):  # a box has the host's /usr already
            shown += ["--mount", f"{place}:{place}:ro"]
    if options.profile:
        shown += ["--profile", options.profile]
    call = [*own_command(), "kernel", "run", "{connection_file}", "--python", python, "--mode", options.mode]
    if words := [*shown, *options.program]:
        call += ["--", *words]
    document = {
        "argv": call,
        "display_name": options.display_name,
        "language": "python",
        "interrupt_mode": "message",  # a signal would reach husk, not the notebook's program
        "metadata": {"debugger": True},
    }
    place = _kernels(options.prefix) / options.name / "kernel.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    lines = [
        f"{place}: Jupyter lists it as {options.display_name!r}; `jupyter kernelspec remove {options.name}` ends that."
    ]
    say_result({"file": str(place), "kernel": options.name, **document}, lines, as_json=options.json)
    return 0


def _python(wanted: str) -> list[str]:
    """The Python's own name, and the directories its modules are in."""
    found = shutil.which(wanted)
    if found is None:
        raise UsageError(f"--python {wanted}: there is no such program.")
    # Python looks for modules in the working directory first. A stranger's ipykernel there must not run on the host.
    ran = subprocess.run([os.path.abspath(found), "-c", _LOOK], cwd="/", capture_output=True, text=True, check=False)
    try:
        told: list[str] = json.loads(ran.stdout)
    except ValueError:
        raise UsageError(
            f"--python {wanted}: it has no ipykernel; `{wanted} -m pip install ipykernel`, then try again."
        ) from None
    return told


def _kernels(prefix: str) -> Path:
    """Where Jupyter looks for a user's kernels."""
    if prefix:
        return Path(prefix, "share", "jupyter", "kernels")
    named = os.environ.get("JUPYTER_DATA_DIR") or ""
    base = os.environ.get("XDG_DATA_HOME") or ""
    if named:
        return Path(named, "kernels")
    return Path(base if base.startswith("/") else os.path.expanduser("~/.local/share"), "jupyter", "kernels")


def _run(options: Values) -> int:
    path = os.path.realpath(options.connection)
    words = ["--mount", f"{path}:{INSIDE}:cow"]  # a kernel may write its file, and removes it at the end
    for port in _ports(path):
        words += ["--publish", f"{port}:{port}"]
    place = os.getcwd()
    if options.mode != "none" and place != "/":
        words += ["--mount", f"{place}:{place}:{options.mode}", "--workdir", place]
    from husk.cli import cmd_run

    kernel = [options.python, "-m", "ipykernel_launcher", "-f", INSIDE]
    return cmd_run.main([*words, *options.program, "--", *kernel])


def _ports(path: str) -> list[int]:
    try:
        with open(path, encoding="utf-8") as file:
            told: Any = json.load(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise UsageError(f"{path}: {why}; Jupyter calls this command with its connection file.") from None
    ports = [told.get(f"{name}_port") for name in ("shell", "iopub", "stdin", "control", "hb")]
    if told.get("transport", "tcp") != "tcp" or told.get("ip") not in ("127.0.0.1", "localhost"):
        raise UsageError(
            f"{path}: husk needs a kernel on the TCP ports of 127.0.0.1; set KernelManager.transport = 'tcp'."
        )
    if not all(isinstance(port, int) and 0 < port < 65536 for port in ports):
        raise UsageError(f"{path}: it lacks ports; Jupyter chooses them before it starts a kernel.")
    return ports


_HANDLERS = {"install": _install, "run": _run}
