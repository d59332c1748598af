"""cli: the rows of `husk hook` and `husk kernel`."""

from __future__ import annotations

from husk.cli.options import JSON, Argument, Command, Option

_MODES = ("ro", "cow", "rw", "none")

HOOK = Command(
    "hook",
    "run a coding agent's shell commands in boxes",
    "A hook for Claude Code (PreToolUse, matcher Bash): reads the call from standard input, and answers with the same"
    " command in `husk run`. The project is in the box at its own path. Words after -- are options of `husk run`.",
    options=(
        Option("--mode", "|".join(_MODES), "how the project is mounted (default: rw)", choices=_MODES, default="rw",
               more="`cow` leaves the project as it is, but then the agent does not see what its commands have written."
               " `none`: only what the options of `husk run` mount."),
        Option("--approve", "", "the agent need not ask its user; without it the user sees the changed command first"),
        Option("--json", "", "an error is one JSON object; what is answered is JSON already"),
    ),
    program="RUN-OPTIONS…",
    end="If the hook fails, the agent runs nothing: the exit code is 2, which stops the call."
    " docs/howto/hook-a-coding-agent.md tells more.",
)  # fmt: skip
KERNEL = Command(
    "kernel",
    "notebook kernels in boxes, for Jupyter",
    "Python kernels for Jupyter that run in boxes.",
    commands=(
        Command(
            "install",
            "add a kernel to Jupyter that runs in a box",
            "Write a kernel specification for Jupyter: notebooks that choose it run their Python in a box of their own."
            " Words after -- are options of `husk run`.",
            options=(
                Option("--name", "NAME", "what Jupyter calls it (default: husk)", default="husk"),
                Option("--display-name", "TEXT", "what people read (default: Python in a box)",
                       default="Python in a box"),
                Option("--python", "FILE", "the Python that runs the notebook, with ipykernel (default: python3)",
                       files=True, default="python3"),
                Option("--mode", "|".join(_MODES), "how the notebook's directory is mounted (default: cow)",
                       choices=_MODES, default="cow"),
                Option("--profile", "NAME", "also take the options of this profile", names_of="profiles",
                       more="As `husk run` does from the notebook's directory: its husk.toml must be trusted."),
                Option("--prefix", "DIR", "write below DIR/share/jupyter (default: the user's own directory)",
                       files=True),
                JSON,
            ),
            program="RUN-OPTIONS…",
        ),
        Command(
            "run",
            "what Jupyter calls",
            "Run a kernel in a box, until its notebook is closed. The ports of the connection file lead into the box.",
            options=(
                Option("--python", "FILE", "the Python that runs the notebook", files=True, default="python3"),
                Option("--mode", "|".join(_MODES), "how the working directory is mounted", choices=_MODES,
                       default="cow"),
                Option("--json", "", "an error is one JSON object"),
            ),
            arguments=(Argument("FILE", "the connection file", attribute="connection"),),
            program="RUN-OPTIONS…",
        ),
    ),
    end="docs/howto/use-a-notebook-kernel.md tells more.",
)  # fmt: skip
