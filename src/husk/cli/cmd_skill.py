"""cli: `husk skill`: agent skills inspected, run, learnt and tested. The work is husk.skills'; here are the options."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from husk.abi.text import harmless_lines
from husk.cli import skill_show as show
from husk.cli.cmd_run import _with_signals
from husk.cli.exit_codes import reader_left
from husk.sandbox.errors import HuskError, UsageError, host_failure
from husk.sandbox.weaken import check as check_weaken
from husk.skills import learning
from husk.skills.box_runner import Setting
from husk.skills.describe import describe
from husk.skills.package import opened
from husk.skills.permission_file import Permissions, propose, read_permissions
from husk.skills.running import Request, prepare

NEEDS_MORE = 3  # the exit code of --check when a run used or tried what its manifest does not give


def main(argv: list[str]) -> int:
    words, args = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    options = _parser().parse_args(words)
    if args and options.run not in (_run, _learn):
        print("husk skill: only run and learn take arguments after --.", file=sys.stderr)
        return 2
    options.args = args
    try:
        code: int = options.run(options)
        return code
    except HuskError as error:
        print(f"husk skill: {harmless_lines(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("husk skill: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return reader_left()
    except OSError as error:
        print(f"husk skill: {host_failure(error)}", file=sys.stderr)
        return HuskError.exit_code


def _parser() -> argparse.ArgumentParser:
    boxes = argparse.ArgumentParser(add_help=False)
    box = boxes.add_argument_group("the box")
    box.add_argument("--image", default="", metavar="NAME", help="an image of the store instead of the host's programs")
    box.add_argument("--store", default="", metavar="DIR", help="where the store is")
    box.add_argument(
        "--packages",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a venv, a node_modules, or a directory of Python packages to use as it is",
    )
    box.add_argument(
        "--find-links", type=Path, metavar="DIR", help="install what is missing from wheels (and npm tarballs) in DIR"
    )
    box.add_argument(
        "--fetch",
        action="store_true",
        help="install what is missing from the package index and the npm registry, with network only to there",
    )
    box.add_argument("--index", default="", metavar="URL", help="fetch from this index (default: as pip is configured)")
    box.add_argument(
        "--registry", default="", metavar="URL", help="fetch from this registry (default: as npm is configured)"
    )
    box.add_argument(
        "--index-host",
        action="append",
        default=[],
        metavar="RULE",
        help="where the index keeps its files, if not on its own host",
    )
    box.add_argument(
        "--allow-net", action="append", default=[], metavar="RULE", help="let the skill reach this, as for husk run"
    )
    box.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set a variable in the box")
    box.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE", help="as for husk run")
    box.add_argument(
        "--no-namespaces", action="store_true", help="do without namespaces even where the host gives them"
    )
    box.add_argument("--weaken", action="append", default=[], metavar="NAME", help="as for husk run")
    runs = argparse.ArgumentParser(add_help=False)
    runs.add_argument("path", type=Path, metavar="PATH", help="a folder with a SKILL.md, or a .skill or .zip file")
    runs.add_argument("--script", default="", metavar="REL", help="which script, where there are several")
    runs.add_argument("--permissions", type=Path, metavar="FILE", help="hold the skill to this manifest")
    runs.add_argument(
        "--max-permissions", type=Path, metavar="FILE", help="refuse a manifest that asks for more than this one"
    )
    runs.add_argument("--in", dest="input", type=Path, metavar="DIR", help="show DIR at /in, read-only")
    runs.add_argument(
        "--out",
        dest="output",
        type=Path,
        metavar="DIR",
        help="put what it leaves in /out and in its working directory into DIR",
    )
    runs.add_argument(
        "--work", type=Path, metavar="DIR", help="show DIR as the working directory; changes go to a copy"
    )
    runs.add_argument(
        "--lock",
        type=Path,
        metavar="FILE",
        help="hold packages to the versions and hashes in FILE; written if it is not there",
    )
    runs.add_argument(
        "--check", action="store_true", help=f"fail (exit code {NEEDS_MORE}) if it needs more than --permissions gives"
    )
    runs.add_argument(
        "--json", action="store_true", help="print the outcome as one JSON object, with the output inside"
    )
    parser = argparse.ArgumentParser(
        prog="husk skill", description="Agent skills: look at them, run them in a box, test them."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    inspect = commands.add_parser("inspect", help="what a skill is and would need; runs nothing")
    inspect.add_argument("path", type=Path, metavar="PATH", help="a folder with a SKILL.md, or a .skill or .zip file")
    inspect.add_argument("--json", action="store_true", help="print it as one JSON object")
    inspect.add_argument("--manifest", action="store_true", help="print only the permission manifest")
    inspect.add_argument("--strict", action="store_true", help="departures from the specification are errors")
    inspect.set_defaults(run=_inspect)

    run = commands.add_parser("run", parents=[runs, boxes], help="run a script of a skill in a box: … -- ARGS")
    run.add_argument("--shell", action="store_true", help="open a shell in the prepared box instead")
    run.add_argument("-q", "--quiet", action="store_true", help="say nothing beside what the script says")
    run.set_defaults(run=_run)

    learn = commands.add_parser("learn", parents=[runs, boxes], help="run once and write a manifest of what was used")
    learn.add_argument("-o", "--write", type=Path, metavar="FILE", help="where to (default: NAME.permissions.toml)")
    learn.set_defaults(run=_learn, shell=False, quiet=False)

    test = commands.add_parser("test", parents=[boxes], help="run cases natively and in a box, and compare")
    test.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="skills, or folders of skills, with a cases.toml"
    )
    test.add_argument("--cases", type=Path, metavar="FILE", help="the cases, TOML or JSON")
    test.add_argument("--no-native", action="store_true", help="run nothing outside a box")
    test.add_argument("--json", action="store_true", help="print the verdicts as one JSON object")
    test.set_defaults(run=_test)
    return parser


def _inspect(options: argparse.Namespace) -> int:
    with opened(options.path) as skill:
        found = describe(skill)
        asked, notes = propose(found)
        valid = skill.head.valid and not (options.strict and skill.head.problems)
        if options.manifest:
            skill.check()
            print(asked.text(notes), end="")
        elif options.json:
            print(json.dumps(found.as_dict() | {"valid": valid, "permissions": asked.text(notes)}, indent=2))
        else:
            show.description(found)
            print()
            print(asked.text(notes), end="")
        return 0 if valid else UsageError.exit_code


def _run(options: argparse.Namespace) -> int:
    if options.shell and not (os.isatty(0) and os.isatty(1)):
        raise UsageError("--shell needs a terminal for input and output; without one, run the script.")
    if options.shell and options.json:
        raise UsageError("--shell talks to the terminal and has no --json.")
    if options.check and options.permissions is None:
        raise UsageError(
            "--check needs --permissions FILE: what the run is held against; `husk skill learn` writes one."
        )
    request = _request(options)
    with opened(options.path) as skill:
        prepared = prepare(skill, request)
        if not (options.quiet or options.json):
            show.notes(prepared.notes)
        outcome, produced = prepared.run(capture=options.json, around=_with_signals)
    beyond = learning.beyond(request.permissions, outcome) if options.check and request.permissions else []
    code = NEEDS_MORE if beyond else outcome.exit_code
    if options.json:
        print(json.dumps(show.as_dict(outcome, produced) | {"beyond": beyond, "notes": prepared.notes}, indent=2))
    elif not options.quiet:
        show.outcome(outcome, produced, options.output)
    if beyond:
        print(f"husk skill: it needs more than {options.permissions} gives:", file=sys.stderr)
        show.lines(beyond)
    return code


def _learn(options: argparse.Namespace) -> int:
    if options.check:
        return _run(options)
    request = _request(options)
    with opened(options.path) as skill:
        prepared = prepare(skill, request)
        start = request.permissions or propose(describe(skill))[0]
        target = options.write or options.permissions or Path(f"{skill.name}.permissions.toml")
        outcome, produced = prepared.run(capture=options.json, around=_with_signals)
    if outcome.exit_code:
        show.outcome(outcome, produced, options.output)
        raise UsageError(f"the run ended with exit code {outcome.exit_code}, so nothing was learnt from it.")
    tight = learning.tightened(start, request, outcome, produced, prepared.provided.given)
    target.write_text(tight.text(), "utf-8")
    if options.json:
        print(
            json.dumps(show.as_dict(outcome, produced) | {"permissions": tight.text(), "file": str(target)}, indent=2)
        )
    else:
        show.outcome(outcome, produced, options.output)
        print(f"husk skill: learnt; {target} allows what this run used.", file=sys.stderr)
    return 0


def _test(options: argparse.Namespace) -> int:
    from husk.skills.cases import find_cases
    from husk.skills.comparing import BROKEN, DIFFERS, FAILS, check_cases, compare

    if not options.paths and options.cases is None:
        raise UsageError("say which skills to test, or give --cases FILE.")
    cases = find_cases(options.paths, options.cases)
    check_cases(cases)
    request = _request(options)
    verdicts = []
    for case in cases:
        verdicts.append(compare(case, request, native=not options.no_native))
        if not options.json:
            show.verdict(verdicts[-1])
    if options.json:
        print(json.dumps([verdict.as_dict() for verdict in verdicts], indent=2))
    else:
        show.count(verdicts)
    return 1 if any(verdict.status in (FAILS, DIFFERS, BROKEN) for verdict in verdicts) else 0


def _request(options: argparse.Namespace) -> Request:
    request = Request(packages=options.packages, find_links=options.find_links)
    request.fetch = options.fetch or bool(options.index or options.registry)
    request.index, request.registry, request.index_hosts = options.index, options.registry, options.index_host
    request.hosts = options.allow_net
    request.setting = Setting(
        options.image,
        options.store,
        not options.no_namespaces,
        frozenset(check_weaken(name) for name in options.weaken),
    )
    for text in options.env:
        name, equals, value = text.partition("=")
        if not name or "\0" in text or (not equals and name not in os.environ):
            raise UsageError(f"--env {text}: write NAME=VALUE.")
        request.env[name] = value if equals else os.environ[name]
    for text in options.limit:
        name, _, value = text.partition("=")
        request.limits[name] = value
    if any("\0" in word for word in options.args):
        raise UsageError("an argument cannot hold a NUL byte.")
    request.args = options.args
    for name in ("script", "input", "output", "work", "lock", "shell"):
        setattr(request, name, getattr(options, name, getattr(request, name)))
    request.permissions = _manifest(options, "permissions")
    request.most = _manifest(options, "max_permissions")
    _check_limits(request)
    return request


def _check_limits(request: Request) -> None:
    from husk.skills.permission_file import read_limits

    read_limits(request.limits)


def _manifest(options: argparse.Namespace, name: str) -> Permissions | None:
    path = getattr(options, name, None)
    if path is None or (name == "permissions" and options.run is _learn and not options.check and not path.exists()):
        return None  # learn writes the file it was told to hold the skill to
    return read_permissions(path)
