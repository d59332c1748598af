"""Layer abi: the way a row of the registry goes, and its rules, in words. `husk syscalls`, docs/compat.md and reports
say the same.
"""

from __future__ import annotations

from errno import errorcode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.abi.registry.rules import Row, Rule, Verdict

# Two names share a number; Linux's manual pages use this one for calls that are not offered.
ERRNO_NAMES = {**errorcode, 95: "EOPNOTSUPP"}


def way_text(verdict: Verdict) -> str:
    if verdict.way in ("native", "virtual"):
        return verdict.way
    return f"{verdict.way} {ERRNO_NAMES[verdict.errno]}" if verdict.errno else "answered 0"


def conditions_text(rule: Rule) -> str:
    return " and ".join([*(wall.text for wall in rule.walls), *(test.text for test in rule.tests)])


def rule_texts(row: Row) -> list[str]:
    """The rules of a row as sentences, in the order they are tried."""
    if not row.rules:
        return []
    texts = []
    for rule in row.rules:
        reason = f" ({rule.verdict.reason})" if rule.verdict.reason else ""
        texts.append(f"{way_text(rule.verdict)} when {conditions_text(rule)}{reason}")
    last = row.otherwise
    reason = f" ({last.reason})" if last.reason != row.reason else ""
    return [*texts, f"{way_text(last)} otherwise{reason}"]
