"""cli: the `husk` command. Each command lives in its own module and is imported only when it is asked for."""

from __future__ import annotations

import gc
import os
import sys

from husk.cli.output import say, say_as_is
from husk.cli.start.module_finder import find_quickly, load
from husk.cli.start.run_modules import FIRST
from husk.sandbox.stdio.std_fds import open_missing_std_fds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.cli.options import Command

# command: (file of its row below cli/options, its module with a `main(words) -> exit code`, or module:function).
# The row is named like the command, in capitals.
COMMANDS = {
    "run": ("run_options", "start.begin_run"),
    "shell": ("run_options", "cmd_shell"),
    "init": ("profile_options", "profiles.cmd_profiles:init"),
    "trust": ("profile_options", "profiles.cmd_profiles:trust_file"),
    "skill": ("skill_options", "skill.cmd_skill"),
    "image": ("image_options", "cmd_image"),
    "ps": ("box_options", "cmd_boxes:ps"),
    "diff": ("box_options", "cmd_boxes:diff"),
    "apply": ("box_options", "write_back.cmd_apply"),
    "log": ("box_options", "cmd_boxes:log"),
    "exec": ("box_options", "background.cmd_background:execute"),
    "logs": ("box_options", "background.cmd_background:logs"),
    "attach": ("box_options", "background.cmd_background:attach"),
    "stop": ("box_options", "background.cmd_background:stop"),
    "commit": ("box_options", "cmd_boxes:commit"),
    "fork": ("box_options", "cmd_boxes:fork"),
    "drop": ("box_options", "cmd_boxes:drop"),
    "rules": ("other_options", "cmd_rules"),
    "store": ("store_options", "cmd_store"),
    "runtimes": ("compat_options", "compat.cmd_runtimes"),
    "seccomp": ("compat_options", "compat.cmd_seccomp"),
    "compare": ("compat_options", "compat.cmd_compare"),
    "probe": ("compat_options", "compat.cmd_probe"),
    "trace": ("compat_options", "compat.cmd_trace"),
    "check": ("compat_options", "compat.cmd_check"),
    "need": ("compat_options", "compat.cmd_need"),
    "plan": ("compat_options", "compat.cmd_plan"),
    "conform": ("conform_options", "conform.cmd_conform"),
    "doctor": ("other_options", "cmd_doctor"),
    "resident": ("other_options", "resident.cmd_resident"),
    "syscalls": ("other_options", "cmd_syscalls"),
    "mcp": ("other_options", "cmd_mcp"),
    "hook": ("agent_options", "agents.cmd_hook"),
    "kernel": ("agent_options", "agents.cmd_kernel"),
    "completion": ("other_options", "cmd_completion"),
}


def main_of_process() -> None:
    """Does not return. Taking the interpreter down costs a run one part in twenty, and frees what the host frees
    anyway. It is left out where no module waits for it."""
    find_quickly()
    code = main()
    if "threading" in sys.modules or "atexit" in sys.modules:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        sys.exit(code)  # which tells of it
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    open_missing_std_fds()
    words = sys.argv[1:] if argv is None else argv
    name = words[0] if words else ""
    if name in COMMANDS:
        module, _, function = COMMANDS[name][1].partition(":")
        module = f"husk.cli.{module}"
        # Nothing that is imported becomes garbage, and looking for some costs a cold start one part in thirty.
        gc.disable()
        if name == "run":
            load(FIRST)
        __import__(module)  # importlib's own function would have to be imported first
        gc.freeze()
        gc.enable()
        code: int = getattr(sys.modules[module], function or "main")(words[1:])
        return code
    try:
        return _without_command(name, words)
    except OSError as error:  # a full disk, or a reader that left
        from husk.cli.exit_codes import cannot_print

        return cannot_print(error)


def _without_command(name: str, words: list[str]) -> int:
    as_json = "--json" in words
    if name in ("-V", "--version"):
        from husk import __version__

        say(f'{{"version": "{__version__}"}}' if as_json else f"husk {__version__}")
        return 0
    if name in ("-h", "--help", "help"):
        from husk.cli.manual import manual

        say_as_is(manual(all_commands()))
        return 0
    problem = f"{_problem(name)} `husk --help` lists the commands."
    if as_json:
        from husk.cli.exit_codes import print_error

        print_error(problem, "usage", 2)
    say(f"husk: {problem}", file=sys.stderr)
    return 2


# What other tools call it.
ELSEWHERE = {
    "build": "image build", "images": "image ls", "import": "image import", "kill": "stop", "list": "ps", "ls": "ps",
    "pull": "image pull", "remove": "drop", "rm": "drop", "rmi": "image rm", "start": "run -d", "strace": "trace",
    "up": "run -d", "version": "--version",
}  # fmt: skip


def _problem(name: str) -> str:
    if not name:
        return "say what to do;"
    from husk.cli.options.parse_words import close_match

    if name.startswith("-"):
        return f"there is no option {name}{close_match(name, ['--help', '--version'])}"
    near = f"; did you mean {ELSEWHERE[name]}?" if name in ELSEWHERE else close_match(name, list(COMMANDS))
    return f"there is no command {name!r}{near}"


def all_commands() -> list[Command]:
    """The option table, all of it: for completion, the manual and the reference page."""
    rows: list[Command] = []
    for name, (file, _) in COMMANDS.items():
        module = f"husk.cli.options.{file}"
        __import__(module)
        rows.append(getattr(sys.modules[module], name.upper()))
    return rows
