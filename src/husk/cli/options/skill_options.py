"""cli: the rows of `husk skill`."""

from __future__ import annotations

from pathlib import Path

from husk.cli.options import CLUSTER, JSON, Argument, Command, Option
from husk.cli.options.values import thread_count

NEEDS_MORE = 3  # the exit code of --check when a run used or tried what its manifest does not give

_BOX = "the box"
_SKILL = Argument("PATH", "a folder with a SKILL.md, or a .skill or .zip file", read=Path)
_SKILLS = Argument("PATH", "skills, or folders of skills", count="+", attribute="paths", read=Path)
_JUNIT = Option("--junit", "FILE", "write the result as JUnit XML, too", files=True, read=Path, default=None)

_BOX_OPTIONS = (
    Option("--image", "NAME", "an image of the store instead of the host's programs", group=_BOX),
    Option("--store", "DIR", "where the store is", group=_BOX, files=True),
    Option("--packages", "DIR", "a venv, a node_modules, or a directory of Python packages to use as it is",
           group=_BOX, many=True, files=True, read=Path),
    Option("--with", "PKG", "a package beside those of the skill, with versions and extras ('mcp<2', 'markitdown[all]')"
           "; npm:NAME@VERSION for npm", group=_BOX, many=True, attribute="more_packages"),
    Option("--find-links", "DIR", "install what is missing from wheels (and npm tarballs) in DIR",
           group=_BOX, files=True, read=Path, default=None),
    Option("--fetch", "", "install what is missing from the package index and the npm registry, with network only to"
           " there", group=_BOX),
    Option("--index", "URL", "fetch from this index (default: as pip is configured)", group=_BOX),
    Option("--registry", "URL", "fetch from this registry (default: as npm is configured)", group=_BOX),
    Option("--index-host", "RULE", "where the index keeps its files, if not on its own host", group=_BOX, many=True),
    Option("--allow-net", "RULE", "let the skill reach this, as for husk run", group=_BOX, many=True),
    Option("--env", "NAME=VALUE", "set a variable in the box", group=_BOX, many=True),
    Option("--limit", "NAME=VALUE", "as for husk run", group=_BOX, many=True),
    Option("--no-namespaces", "", "do without namespaces even where the host gives them", group=_BOX),
    Option("--weaken", "NAME", "as for husk run", group=_BOX, many=True),
    Option("--as", "RUNTIME", "give the skill no more of Linux than this runtime has, as for husk run", group=_BOX,
           attribute="runtime"),
)  # fmt: skip

_SCRIPT = (
    Option("--script", "REL", "which script, where there are several (a module as well: scripts.report)"),
    Option("--permissions", "FILE", "hold the skill to this manifest", files=True, read=Path, default=None),
)  # fmt: skip
_RUN_OPTIONS = (
    Option("--max-permissions", "FILE", "refuse a manifest that asks for more than this one", files=True, read=Path,
           default=None),
    Option("--in", "DIR", "show DIR at /in; changes go to a copy", attribute="input", files=True, read=Path,
           default=None),
    Option("--out", "DIR", "put what it leaves in /out and in its working directory, and what it changes in /in, into"
           " DIR", attribute="output", files=True, read=Path, default=None),
    Option("--work", "DIR", "show DIR as the working directory; changes go to a copy", files=True, read=Path,
           default=None),
    Option("--mount", "SRC:DST[:MODE]", "show a directory or file, as for husk run", many=True, files=True),
    Option("--lock", "FILE", "hold packages to the versions and hashes in FILE; written if it is not there", files=True,
           read=Path, default=None),
    Option("--check", "", f"fail (exit code {NEEDS_MORE}) if it needs more than --permissions gives"),
    Option("--json", "", "print the outcome as one JSON object, with the output inside; errors too"),
)  # fmt: skip

_KEEP = Option("--keep", "NAME", "keep the box under this name, for husk diff and husk apply (without this and --out, a"
               " box that changed what --in or --work shows is kept all the same)")  # fmt: skip
_QUIET = Option("-q, --quiet", "", "say nothing beside what the script says")
_SEVERAL = (
    Option("--also", "PATH", "one more skill in the same box", many=True, files=True, read=Path),
    Option("--permissions", "FILE", "hold the skill to this manifest; one for each skill", many=True, files=True,
           read=Path),
)  # fmt: skip

SKILL = Command(
    "skill",
    "agent skills: inspect, run, exec, shell, learn, lock, test, diff, review",
    "Agent skills: look at them, run them in a box, test them, compare versions.",
    commands=(
        Command(
            "inspect",
            "what a skill is and would need; runs nothing",
            options=(
                Option("--manifest", "", "print only the permission manifest"),
                Option("--strict", "", "departures from the specification are errors"),
                _JUNIT,
                JSON,
            ),
            arguments=(_SKILLS,),
        ),
        Command(
            "run",
            "run a script of a skill in a box",
            options=(
                *_SCRIPT,
                *_RUN_OPTIONS,
                _KEEP,
                Option("--shell", "", "open a shell in the prepared box instead"),
                _QUIET,
                *_BOX_OPTIONS,
            ),
            arguments=(_SKILL,),
            program="ARGS…",
        ),
        Command(
            "exec",
            "run any command with a skill's files, packages and permissions",
            "Run any command in the box of a skill. It starts in a copy of the skill's folder, or in --work.",
            options=(*_SEVERAL, *_RUN_OPTIONS, _KEEP, _QUIET, *_BOX_OPTIONS),
            arguments=(_SKILL,),
            program="CMD…",
        ),
        Command(
            "shell",
            "a shell in the box of a skill; without a terminal it reads commands from its input",
            "A shell in the box of a skill. It starts in a copy of the skill's folder, or in --work.",
            options=(*_SEVERAL, *_RUN_OPTIONS, _KEEP, _QUIET, *_BOX_OPTIONS),
            arguments=(_SKILL,),
        ),
        Command(
            "learn",
            "run once and write a manifest of what was used",
            options=(
                *_SCRIPT,
                *_RUN_OPTIONS,
                Option("-o, --write", "FILE", "where to (default: NAME.permissions.toml)", files=True, read=Path,
                       default=None),
                Option("--exit", "CODE", "learn from a run with this exit code too: a script may report by it; any:"
                       " from every one", many=True),
                *_BOX_OPTIONS,
            ),
            arguments=(_SKILL,),
            program="ARGS…",
        ),
        Command(
            "lock",
            "write down the versions and hashes of a skill's packages; runs nothing of it",
            options=(
                Option("--permissions", "FILE", "lock what this manifest lists, too", files=True, read=Path,
                       default=None),
                Option("-o, --write", "FILE", "where to (default: beside the manifest, NAME.permissions.lock); for a"
                       " folder of skills, a directory",
                       files=True, read=Path, default=None),
                JSON,
                *_BOX_OPTIONS,
            ),
            arguments=(Argument("PATH", "a skill, or a folder of skills", read=Path),),
        ),
        Command(
            "test",
            "run cases in a box, and natively too if you say so",
            options=(
                Option("--cases", "FILE", "the cases, TOML or JSON", files=True, read=Path, default=None),
                Option("--native", "", "run each case outside any box too, with your rights, and compare"),
                Option("--yes", "", "do not ask before that"),
                Option("--setting", "walled|bare|native", "boxes with namespaces (default), without, or as --native",
                       many=True, choices=("walled", "bare", "native")),
                Option("--jobs", "N", "so many cases at once (default: 1)", read=thread_count, default=1),
                Option("--resume", "", "go on with the same test after it was stopped or killed"),
                _JUNIT,
                CLUSTER,
                JSON,
                *_BOX_OPTIONS,
            ),
            arguments=(
                Argument("PATH", "skills, or folders of skills, with a cases.toml", count="*", attribute="paths",
                         read=Path),
            ),
        ),
        Command(
            "diff",
            "what a new version of a skill wants in addition",
            "Compare two versions of a skill, or of a folder of skills, by reading them: hosts, programs, packages,"
            " variables, files and tools, and which files differ. The exit code is 1 if the new one wants more.",
            options=(JSON,),
            arguments=(
                Argument("OLD", "the version you know: a skill, or a folder of skills", read=Path),
                Argument("NEW", "the new one", read=Path),
            ),
        ),
        Command(
            "review",
            "one page that says all about a skill, for a person to sign",
            "Write the passport of a skill: one HTML page with what it is, what it reads, writes, runs and reaches, its"
            " packages and licences, what a new version changes, where it would run, and a place to sign. It is read in"
            " the code; what is run, with --case or after --, is measured in a box. A folder of skills gives a folder"
            " of pages.",
            options=(
                Option("-o, --out", "FILE", "where to (default: NAME.passport.html; for a folder of skills, the folder"
                       " passports)", files=True, read=Path, default=None),
                Option("--against", "OLD", "the version you know: say what changed since", files=True, read=Path,
                       default=None),
                Option("--case", "NAME", "run this test case in a box and say what it did; `all` runs all", many=True),
                Option("--cases", "FILE", "the cases, instead of the skill's own", files=True, read=Path, default=None),
                Option("--script", "REL", "run this script, with what follows -- as its arguments"),
                Option("--in", "DIR", "show DIR at /in, read-only", attribute="input", files=True, read=Path,
                       default=None),
                JSON,
                *_BOX_OPTIONS,
            ),
            arguments=(Argument("PATH", "a skill, or a folder of skills", read=Path),),
            program="ARGS…",
        ),
    ),
)  # fmt: skip
