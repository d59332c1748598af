"""cli: `husk skill`: inspect, run, learn and test agent skills. The work is in husk.skills; here are the handlers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.cmd_run import with_signals
from husk.cli.exit_codes import run_command
from husk.cli.options.skill_options import NEEDS_MORE, SKILL
from husk.cli.output import say, say_json
from husk.cli.show import skill_show as show
from husk.sandbox.errors import UsageError
from husk.sandbox.weaken import check as check_weaken
from husk.skills import learn_permissions
from husk.skills.box_runner import Setting
from husk.skills.open_skill import open_skill
from husk.skills.permission_file import propose, read_limits, read_permissions
from husk.skills.running import Request, prepare
from husk.skills.scan.describe import describe

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values


def _inspect(options: Values) -> int:
    with open_skill(options.path) as skill:
        found = describe(skill)
        asked, notes = propose(found)
        valid = skill.head.valid and not (options.strict and skill.head.problems)
        if options.manifest:
            skill.check()
            text = asked.text(notes)
            if options.json:
                say_json({"permissions": text})
            else:
                say(*text.splitlines())
        elif options.json:
            say_json(found.as_dict() | {"valid": valid, "permissions": asked.text(notes)})
        else:
            show.description(found)
            say("", *asked.text(notes).splitlines())
        return 0 if valid else UsageError.exit_code


def _run(options: Values) -> int:
    return _run_skill(options, shell=options.shell, quiet=options.quiet)


def _run_skill(options: Values, *, shell: bool, quiet: bool) -> int:
    if shell and not (os.isatty(0) and os.isatty(1)):
        raise UsageError("--shell needs a terminal for input and output; without one, run the script.")
    if shell and options.json:
        raise UsageError("--shell talks to the terminal and has no --json.")
    if options.check and options.permissions is None:
        raise UsageError(
            "--check needs --permissions FILE, the manifest to check the run against; `husk skill learn` writes one."
        )
    request = _request(options)
    with open_skill(options.path) as skill:
        prepared = prepare(skill, request)
        if not (quiet or options.json):
            show.notes(prepared.notes)
        outcome, produced = prepared.run(capture=options.json, around=with_signals)
    beyond = learn_permissions.beyond(request.permissions, outcome) if options.check and request.permissions else []
    code = NEEDS_MORE if beyond else outcome.exit_code
    if options.json:
        say_json(show.as_dict(outcome, produced) | {"beyond": beyond, "notes": prepared.notes})
    elif not quiet:
        show.outcome(outcome, produced, options.output)
    if beyond:
        say(f"husk skill: it needs more than {options.permissions} gives:", file=sys.stderr)
        show.lines(beyond)
    return code


def _learn(options: Values) -> int:
    if options.check:
        return _run_skill(options, shell=False, quiet=False)
    request = _request(options, written=True)
    with open_skill(options.path) as skill:
        prepared = prepare(skill, request)
        start = request.permissions or propose(describe(skill))[0]
        start.skill, start.content = skill.name, skill.digest()
        target = options.write or options.permissions or Path(f"{skill.name}.permissions.toml")
        outcome, produced = prepared.run(capture=options.json, around=with_signals)
    if outcome.exit_code:
        show.outcome(outcome, produced, options.output)
        raise UsageError(f"the run ended with exit code {outcome.exit_code}, so nothing was learnt from it.")
    tight = learn_permissions.tighten(start, request, outcome, produced, prepared.provided.given)
    target.write_text(tight.text(), "utf-8")
    if options.json:
        say_json(show.as_dict(outcome, produced) | {"permissions": tight.text(), "file": str(target)})
    else:
        show.outcome(outcome, produced, options.output)
        say(f"husk skill: learnt; {target} allows what this run used.", file=sys.stderr)
    return 0


def _test(options: Values) -> int:
    from husk.cluster.choose_workers import chosen_workers
    from husk.skills.cases import find_cases
    from husk.skills.compare_cases import BROKEN, DIFFERS, FAILS, check_cases
    from husk.skills.run_cases import run_cases

    if not options.paths and options.cases is None:
        raise UsageError("say which skills to test, or give --cases FILE.")
    if options.native and options.cluster:
        raise UsageError("--native runs the cases on this machine, outside any box: leave out --native or --cluster.")
    cases = find_cases(options.paths, options.cases)
    check_cases(cases)
    request = _request(options)
    if options.native:
        _announce_native(len(cases), ask=not options.yes and not options.json and sys.stdin.isatty())
    found = {}
    with chosen_workers(options.cluster, 1, namespaces=request.setting.namespaces) as workers:
        for number, verdict in run_cases(cases, request, workers, native=options.native):
            found[number] = verdict
            if not options.json:
                show.verdict(verdict)
    verdicts = [found[number] for number in range(len(cases))]
    if options.json:
        say_json([verdict.as_dict() for verdict in verdicts])
    else:
        show.count(verdicts)
    return 1 if any(verdict.status in (FAILS, DIFFERS, BROKEN) for verdict in verdicts) else 0


def _announce_native(cases: int, *, ask: bool) -> None:
    text = f"husk skill: --native runs {cases} case{'s' if cases > 1 else ''} outside any box, with all your rights."
    say(text, end=" Go on? [y/N] " if ask else "\n", file=sys.stderr)
    if ask and sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was run; without --native the cases run in boxes only.")


def _request(options: Values, *, written: bool = False) -> Request:
    """`written`: the manifest may not be there yet."""
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
    if options.runtime:
        from husk.compat.emulate import emulation
        from husk.compat.runtimes import find

        request.emulation = emulation(find(options.runtime))
    for text in options.env:
        name, equals, value = text.partition("=")
        if not name or "\0" in text or (not equals and name not in os.environ):
            raise UsageError(f"--env {text}: write NAME=VALUE.")
        request.env[name] = value if equals else os.environ[name]
    for text in options.limit:
        name, _, value = text.partition("=")
        request.limits[name] = value
    if any("\0" in word for word in options.program):
        raise UsageError("an argument cannot hold a NUL byte.")
    request.args = options.program
    for name in ("script", "input", "output", "work", "lock", "shell"):
        setattr(request, name, getattr(options, name, getattr(request, name)))
    path = getattr(options, "permissions", None)
    if path is not None and (path.exists() or not written):
        request.permissions = read_permissions(path)
    most = getattr(options, "max_permissions", None)
    request.most = read_permissions(most) if most is not None else None
    read_limits(request.limits)  # before any work: a limit that makes no sense
    return request


_HANDLERS = {"inspect": _inspect, "run": _run, "learn": _learn, "test": _test}


def main(argv: list[str]) -> int:
    return run_command(SKILL, argv, _HANDLERS)
