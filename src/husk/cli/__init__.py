"""cli: the `husk` command. Each subcommand lives in its own module and is imported only when it is asked for."""

from __future__ import annotations

import gc
import sys

from husk.sandbox.standard import fill

# command: (module with a `main(argv) -> exit code`, or module:function, how it is called, what it does)
COMMANDS = {
    "run": ("husk.cli.run", "run [options] -- PROGRAM ARGS…", "run a program in a box"),
    "shell": ("husk.cli.shell", "shell [options]", "a shell in a box, on this terminal"),
    "skill": ("husk.cli.skill", "skill COMMAND …", "agent skills: inspect, run, learn, test"),
    "image": ("husk.cli.image", "image COMMAND …", "import, export, build and name images"),
    "ps": ("husk.cli.boxes:ps", "ps [-a]", "boxes that run, and boxes that are kept"),
    "diff": ("husk.cli.boxes:diff", "diff NAME [--patch] [PATH…]", "what a kept box changed"),
    "apply": ("husk.cli.boxes:apply", "apply NAME [MOUNT]", "write a box's changes back to a host directory"),
    "commit": ("husk.cli.boxes:commit", "commit NAME IMAGE", "make an image of what a box changed"),
    "fork": ("husk.cli.boxes:fork", "fork NAME NEW", "a second box with the same content, at once"),
    "drop": ("husk.cli.boxes:drop", "drop NAME…", "forget kept boxes"),
    "store": ("husk.cli.store", "store COMMAND …", "content-addressed files and images"),
    "doctor": ("husk.cli.doctor", "doctor [--json]", "what of husk's walls this machine can raise"),
    "syscalls": ("husk.cli.syscalls", "syscalls [NAME…] [--json]", "what husk does with each system call"),
    "mcp": ("husk.cli.mcp", "mcp [--config FILE] [--http PORT]", "boxes for agents: a Model Context Protocol server"),
    "completion": ("husk.cli.completion", "completion bash|zsh|fish", "completion of all this for your shell"),
}


def main(argv: list[str] | None = None) -> int:
    fill()
    args = sys.argv[1:] if argv is None else argv
    command = args[0] if args else ""
    if command in COMMANDS:
        module, _, function = COMMANDS[command][0].partition(":")
        # Nothing that is imported becomes garbage, and looking for some costs a cold start one part in thirty.
        gc.disable()
        __import__(module)  # importlib's own function would have to be imported first
        gc.freeze()
        gc.enable()
        code: int = getattr(sys.modules[module], function or "main")(args[1:])
        return code
    if command in ("-V", "--version"):
        from husk import __version__

        print(f"husk {__version__}")
        return 0
    if command in ("-h", "--help", "help"):
        from husk.cli.manual import manual

        print(manual(), end="")
        return 0
    what = f"there is no command {command!r}" if command else "say what to do"
    print(f"husk: {what}; `husk --help` lists the commands.", file=sys.stderr)
    return 2
