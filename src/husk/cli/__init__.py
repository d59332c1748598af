"""cli: the `husk` command. Each subcommand lives in its own module and is imported only when it is asked for."""

from __future__ import annotations

import gc
import sys

from husk.sandbox.stdio.std_fds import fill

# command: (module with a `main(argv) -> exit code`, or module:function, how it is called, what it does)
COMMANDS = {
    "run": ("husk.cli.cmd_run", "run [options] -- PROGRAM ARGS…", "run a program in a box"),
    "shell": ("husk.cli.cmd_shell", "shell [options]", "a shell in a box, on this terminal"),
    "skill": ("husk.cli.cmd_skill", "skill COMMAND …", "agent skills: inspect, run, learn, test"),
    "image": ("husk.cli.cmd_image", "image COMMAND …", "import, export, build and name images"),
    "ps": ("husk.cli.cmd_boxes:ps", "ps [-a]", "boxes that run, and boxes that are kept"),
    "diff": ("husk.cli.cmd_boxes:diff", "diff NAME [--patch] [PATH…]", "what a kept box changed"),
    "apply": ("husk.cli.cmd_boxes:apply", "apply NAME [MOUNT]", "write a box's changes back to a host directory"),
    "commit": ("husk.cli.cmd_boxes:commit", "commit NAME IMAGE", "make an image of what a box changed"),
    "fork": ("husk.cli.cmd_boxes:fork", "fork NAME NEW", "a second box with the same content, at once"),
    "drop": ("husk.cli.cmd_boxes:drop", "drop NAME…", "forget kept boxes"),
    "store": ("husk.cli.cmd_store", "store COMMAND …", "content-addressed files and images"),
    "doctor": ("husk.cli.cmd_doctor", "doctor [--json]", "what of husk's walls this machine can raise"),
    "syscalls": ("husk.cli.cmd_syscalls", "syscalls [NAME…] [--json]", "what husk does with each system call"),
    "mcp": ("husk.cli.cmd_mcp", "mcp [--config FILE] [--http PORT]", "boxes for agents: an MCP server"),
    "completion": ("husk.cli.cmd_completion", "completion bash|zsh|fish", "completion of all this for your shell"),
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
