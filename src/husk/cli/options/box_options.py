"""cli: the rows of the commands for kept boxes: `husk ps`, `diff`, `apply`, `commit`, `fork`, `drop`."""

from __future__ import annotations

from husk.cli.options import JSON, Argument, Command, Option
from husk.cli.options.values import positive_count

_NAME = Argument("NAME", "the name of a kept box")

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
        _NAME,
        Argument("PATH", "only what is there or below, as the box calls it", count="*", attribute="paths"),
    ),
)
APPLY = Command(
    "apply",
    "write a box's changes back to a host directory",
    "Write what a box changed below a cow mount to the host directory: all of it, or nothing.",
    options=(
        Option("--yes", "", "do not ask"),
        Option("--dry-run", "", "only show what would be done"),
        Option("--allow", "PATTERN", "apply names that match, too, though a rule protects or closes them", many=True,
               more="[The rules](mounts.md#rules) of the box hold for what is applied."),
        JSON,
    ),
    arguments=(_NAME, Argument("MOUNT", "which mount, if there are several", count="?")),
    end="With --json nothing is asked: give --dry-run or --yes.",
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
    arguments=(_NAME,),
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
    arguments=(Argument("NAME", "the names of kept boxes", count="+", attribute="names"),),
)
