"""cli: the rows of `husk doctor`, `resident`, `syscalls`, `rules`, `mcp` and `completion`."""

from __future__ import annotations

from pathlib import Path

from husk.cli.options import JSON, Argument, Command, Option
from husk.cli.options.values import time_limit

MCP_TOKEN = "HUSK_MCP_TOKEN"
SHELLS = ("bash", "fish", "zsh")

DOCTOR = Command(
    "doctor",
    "what of husk's walls this machine can raise",
    "Tries every mechanism husk stands on and says what stands, what is missing and what to do. With --box: which calls"
    " a running box waits in, the longest first.",
    options=(
        Option("--box", "NAME", "of a box that runs under this name (`husk run --keep NAME`): the calls it waits in",
               more="For each: the process, the call with its arguments, for how long, and where husk is with it."),
        JSON,
    ),
    end="Exit code 0: husk can run fully; 1: with less; 125: the minimum is not there.",
)  # fmt: skip
RESIDENT = Command(
    "resident",
    "the process that makes `husk run` start quickly",
    "The resident husk: `husk run` starts it and later runs use it. docs/resident.md tells when.",
    commands=(
        Command("status", "whether one runs", options=(JSON,)),
        Command("stop", "end it; runs that it began go on", options=(JSON,)),
        Command(
            "serve",
            "be one; `husk run` starts it so",
            options=(
                Option("--idle", "SECONDS", "end after so long without a run", read=time_limit, default=120.0),
                JSON,
            ),
            arguments=(Argument("SOCKET", "its name in the directory that is descriptor 4"),),
        ),
    ),
    end="HUSK_RESIDENT=0 in the environment: `husk run` neither uses nor starts one.",
)  # fmt: skip
SYSCALLS = Command(
    "syscalls",
    "what husk does with each system call",
    "What husk does with each x86-64 system call, and why.",
    options=(
        Option("--way", "native|virtual|judged|refused", "show only the calls that go this way",
               choices=("native", "virtual", "judged", "refused")),
        Option("--markdown", "", "print the page docs/compat.md"),
        JSON,
    ),
    arguments=(
        Argument("NAME", "show only these calls (names or numbers), with signature and rules", count="*",
                 attribute="names"),
    ),
    end="native: the host kernel runs it. virtual: husk's kernel answers it. judged: husk's kernel makes Linux's"
    " checks, then refuses it. refused: it gets an errno.",
)  # fmt: skip
RULES = Command(
    "rules",
    "which names below mounts are hidden, denied or protected",
    "The rules for names below mounts: husk's own, and those given here. With --mount: what they name there now.",
    options=(
        Option("--mount", "SRC:DST[:MODE]", "show what the rules name at this mount's root", many=True, files=True),
        Option("--hide", "PATTERN", "as for husk run", many=True),
        Option("--deny", "PATTERN", "as for husk run", many=True),
        Option("--protect", "PATTERN", "as for husk run", many=True),
        Option("--allow", "PATTERN", "as for husk run", many=True),
        Option("--no-default-rules", "", "only those given here"),
        JSON,
    ),
    end="docs/mounts.md tells what each does.",
)  # fmt: skip
MCP = Command(
    "mcp",
    "boxes for agents: an MCP server",
    "Boxes for agents: a server of the Model Context Protocol, on standard input and output or by HTTP on this"
    " machine's loopback. What clients may do is in a config file (default: ~/.config/husk/mcp.toml, else no mounts,"
    " no network, bounded).",
    options=(
        Option("--config", "FILE", "what clients may do", files=True, read=Path, default=None),
        Option("--http", "[ADDRESS:]PORT", "serve HTTP there instead; port 0 takes a free one"),
        Option("--check", "", "read the config, say if it is right, and end"),
        Option("--sample", "", "print a config file to begin with, and end"),
        Option("--json", "", "print what --check or --sample say as one JSON object; errors too",
               more="A server has no other output to print: what it serves is JSON already."),
    ),
    end=f"With --http each request must carry `Authorization: Bearer TOKEN`. TOKEN is ${MCP_TOKEN}; if that is not set,"
    " one is made and printed. docs/agents.md tells more.",
)  # fmt: skip
_KINDS = ("boxes", "images", "profiles", "runtimes", "limits", "devices")
COMPLETION = Command(
    "completion",
    "completion of all this for your shell",
    "Print what a shell needs to complete husk's commands and options.",
    options=(
        Option("--names", "|".join(_KINDS), "print the names that there are now; completion asks for them",
               choices=_KINDS),
        Option("--json", "", "print all commands and options as one JSON object instead"),
    ),
    arguments=(Argument("SHELL", "which shell", count="?", choices=SHELLS),),
    end='eval "$(husk completion bash)" in ~/.bashrc, eval "$(husk completion zsh)" in ~/.zshrc; or for zsh as a file'
    " _husk in $fpath. fish: husk completion fish > ~/.config/fish/completions/husk.fish.",
)  # fmt: skip
