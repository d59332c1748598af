"""cli: `husk rules`: the rules for names below mounts, and, for given mounts, what they name there now."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from husk.cli.exit_codes import run_command
from husk.cli.options.other_options import RULES
from husk.cli.output import say_result
from husk.sandbox.errors import UsageError
from husk.sandbox.policy import Mount, read_rules
from husk.sandbox.rules.mount_rules import rules_of, show_named

if TYPE_CHECKING:
    from husk.cli.options.parse_words import Values
    from husk.sandbox.rules.path_rule import PathRule

ORDER = ("hide", "deny", "protect", "allow")


def main(argv: list[str]) -> int:
    return run_command(RULES, argv, _rules)


def _rules(options: Values) -> int:
    given = read_rules({verb: getattr(options, verb) for verb in ORDER})
    rules = rules_of(given, default=not options.no_default_rules)
    rules.sort(key=lambda rule: (ORDER.index(rule.verb), rule.default))
    mounts = [Mount.parse(text) for text in options.mount]
    for mount in mounts:
        if not os.path.isdir(mount.source) or mount.mode == "image":
            raise UsageError(f"--mount {mount}: rules hold below host directories; give one of those.")
    document: dict[str, Any] = {"rules": [_as_json(rule) for rule in rules]}
    lines = _table(rules) if not mounts else []
    if mounts:
        named = {str(mount): show_named(mount, rules) for mount in mounts}
        document["mounts"] = [
            {"mount": text, "named": [{"path": path, **_as_json(rule)} for path, rule in found]}
            for text, found in named.items()
        ]
        for text, found in named.items():
            lines += [f"{text}:", *_named(found)]
        lines += ["", "Names that appear later are judged when they are used. `husk rules` alone lists all rules."]
    say_result(document, lines, as_json=options.json)
    return 0


def _as_json(rule: PathRule) -> dict[str, Any]:
    return {"rule": rule.verb, "pattern": rule.pattern, "default": rule.default, "why": rule.why or "given here"}


def _table(rules: list[PathRule]) -> list[str]:
    width = max((len(rule.pattern) for rule in rules), default=0)
    lines = [f"{rule.verb:8} {rule.pattern:{width}}  {rule.why or 'given here'}" for rule in rules]
    return [*lines, "", "To lift one: --allow PATTERN; all: --no-default-rules. A mount of just that shows it."]


def _named(found: list[tuple[str, PathRule]]) -> list[str]:
    if not found:
        return ["  nothing at its root that a rule names"]
    width = max(len(path) for path, _ in found)
    return [f"  {rule.verb:8} {path:{width}}  {rule}{'' if rule.default else ' (given here)'}" for path, rule in found]
