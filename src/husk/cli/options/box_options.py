"""cli: the rows of the commands for kept boxes: `husk ps`, `diff`, `apply`, `commit`, `fork`, `drop`."""

from __future__ import annotations

from husk.cli.options import JSON, Argument, Command, Option
from husk.cli.options.values import positive_count

_NAME = Argument("NAME", "the name of a kept box", names_of="boxes")
_OWN = Argument("NAME", "the name of a kept box (default: the one that the project's profile keeps)", count="?",
                names_of="boxes")  # fmt: skip

PS = Command(
    "ps",
    "boxes that run, and boxes that are kept",
    "Boxes that run; with -a also those that are kept.",
    options=(Option("-a, --all", "", "also kept boxes in which nothing runs"), JSON),
)
DIFF = Command(
    "diff",
    "what a kept box changed",
    "What a kept box changed, in its own tree and below each cow mount.",
    options=(Option("--patch", "", "for text files, the changed lines"), JSON),
    arguments=(
        _OWN,
        Argument("PATH", "only what is there or below, as the box calls it", count="*", attribute="paths"),
    ),
)
APPLY = Command(
    "apply",
    "write a box's changes back to a host directory",
    "Write what a box changed below a cow mount to the host directory, or only what is at or below PATH; the other"
    " changes stay in the box. Everything that is asked for is written, or nothing.",
    options=(
        Option("--yes", "", "do not ask"),
        Option("--dry-run", "", "only show what would be done"),
        Option("--interactive", "", "show each change, and ask"),
        Option("--theirs", "", "where host and box changed the same file, take the box's version",
               more="Texts are [merged](snapshots.md#where-both-changed) first; this is for what cannot be."),
        Option("--ours", "", "where host and box changed the same file, leave the host's; the box keeps its own"),
        Option("--allow", "PATTERN", "apply names that match, too, though a rule protects or closes them", many=True,
               more="[The rules](mounts.md#rules) of the box hold for what is applied."),
        JSON,
    ),
    arguments=(
        _OWN,
        Argument("PATH", "a changed file or folder, or a mount, by its name in the box or on the host", count="*",
                 attribute="paths"),
    ),
    end="With --json nothing is asked: give --dry-run or --yes.",
)
_BACKGROUND = Argument("NAME", "the name of a box that runs in the background", names_of="boxes")
EXEC = Command(
    "exec",
    "run another program in a box that runs",
    "Run PROGRAM in a box that runs in the background, with its files, its network and its rules. It ends with the"
    " box, or when this command does.",
    options=(
        Option("--env", "NAME=VALUE", "set a variable, beside those of the box", many=True),
        Option("--workdir", "DIR", "start in DIR, an absolute path in the box (default: where the box started)"),
        JSON,
    ),
    arguments=(_BACKGROUND,),
    program="PROGRAM ARGS…",
    end="The exit code is the program's.",
)
LOGS = Command(
    "logs",
    "what the program of a box in the background wrote",
    "What the program of a box in the background wrote, standard output and error together; also after it has ended.",
    options=(
        Option("-f, --follow", "", "go on as it writes more, until the box ends"),
        Option("-n, --tail", "N", "only the last N lines", read=positive_count, default=0),
        JSON,
    ),
    arguments=(_NAME,),
)
ATTACH = Command(
    "attach",
    "show what a box in the background writes, until it ends",
    "Show what the program writes from now on, and end with its exit code. ^C leaves it running.",
    options=(JSON,),
    arguments=(_BACKGROUND,),
)
STOP = Command(
    "stop",
    "end a box that runs in the background",
    "Send the program SIGTERM; if it has not ended in time, end the box. It stays kept.",
    options=(
        Option("--time", "SECONDS", "how long it may take (default: 10)", read=positive_count, default=10,
               attribute="seconds"),
        JSON,
    ),
    arguments=(_BACKGROUND,),
)
LOG = Command(
    "log",
    "what ran in a kept box, and what each run changed",
    "The runs of a kept box, the newest last: when, how they ended, what they changed and what they were refused.",
    options=(
        Option("-n, --last", "N", "only the last N", read=positive_count, default=0),
        Option("--details", "", "also what each run changed and was refused"),
        JSON,
    ),
    arguments=(_OWN,),
)
COMMIT = Command(
    "commit",
    "make an image of what a box changed",
    "Make an image of what a box changed: a layer upon the image it was started from.",
    options=(
        Option("--store", "DIR", "the store (default: the box's, else $HUSK_STORE)", files=True),
        JSON,
    ),
    arguments=(_NAME, Argument("IMAGE", "the name of the new image")),
)
FORK = Command(
    "fork",
    "a second box with the same content, at once",
    "A second box with the same content; nothing is copied.",
    options=(JSON,),
    arguments=(_NAME, Argument("NEW", "the name of the second box")),
)
DROP = Command(
    "drop",
    "forget kept boxes",
    "Forget kept boxes, and free what only they needed.",
    options=(JSON,),
    arguments=(Argument("NAME", "the names of kept boxes", count="+", attribute="names", names_of="boxes"),),
)
