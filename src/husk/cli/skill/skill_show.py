"""cli/skill: print the results of `husk skill`. Text from a skill is untrusted: control characters are escaped."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from husk.cli.output import say, say_table
from husk.sandbox.result import Result
from husk.skills.changed_files import fold
from husk.skills.output_files import Produced
from husk.skills.refusal_levels import FAILING, HARMLESS, Judged, judge
from husk.skills.scan.describe import Description
from husk.skills.skill_places import INPUT, OUTPUT, SKILL, SKILLS, WORK
from husk.skills.syntax.scan_findings import MENTIONED

if TYPE_CHECKING:  # a run has no use for what `husk skill test` needs
    from husk.skills.testing.case_summary import Row
    from husk.skills.testing.compare_cases import Verdict

MOST = 20
SHOWN_CACHES = 5


def description(found: Description) -> None:
    head = found.skill.head
    say(f"{head.name or '(no name)'}: {head.description}")
    for title, text in (("license", head.license), ("compatibility", head.compatibility)):
        if text:
            say(f"  {title}: {text}")
    for name, text in head.metadata.items():
        say(f"  {name}: {text}")
    if head.allowed_tools:
        say(f"  tools: {' '.join(head.allowed_tools)}")
    problems = [f"{problem.level}: {problem.text}" for problem in head.problems]
    problems += [f"warning: {text}" for text in found.problems]
    say("format: " + ("as the specification wants it" if not problems else ""))
    for text in problems:
        say(f"  {text}")
    say(f"scripts: {len(found.scripts) or 'none'}")
    for script in found.scripts:
        usage = f": {script.usage}" if script.usage else ""
        say(f"  {script.path} ({script.language}){usage}")
    for title, items in (
        ("pip packages", [f"{name} ({where})" for name, where in found.pip.items()]),
        ("npm packages", [f"{name} ({where})" for name, where in found.npm.items()]),
        ("programs", found.programs),
        ("environment", [f"{name} ({item.where}, {item.why})" for name, item in found.found_env.items()]),
        ("network", [f"{name} ({found.found_hosts[name].where})" for name in found.hosts]),
        ("only mentioned", [name for name, item in found.found_hosts.items() if item.level == MENTIONED]),
        ("writes", found.writes),
    ):
        if items:
            say(f"{title}: {', '.join(items[:MOST])}{' …' if len(items) > MOST else ''}")


def notes(texts: list[str]) -> None:
    for text in texts:
        say(f"husk skill: {text}", file=sys.stderr)


def judged(found: list[Judged]) -> None:
    """What goes beyond a manifest, the worst first; what is harmless is only counted."""
    for level in FAILING:
        lines([f"{item} ({level}: {item.why})" for item in found if item.level == level])
    if harmless := sum(item.level == HARMLESS for item in found):
        say(f"    and {harmless} harmless", file=sys.stderr)


def lines(texts: list[str]) -> None:
    for text in texts[:MOST]:
        say(f"    {text}", file=sys.stderr)
    if len(texts) > MOST:
        say(f"    … and {len(texts) - MOST} more", file=sys.stderr)


def outcome(result: Result, produced: Produced, out: Path | None, *, held: bool = False) -> None:
    """`held`: a manifest says what the skill may use."""
    say("", f"husk skill: exit code {result.exit_code} after {result.seconds:.2f} s", file=sys.stderr)
    for fault in result.faults:
        say("husk: a fault of husk's own (the guest saw EIO):", *fault.splitlines(), file=sys.stderr)
    for title, texts in (
        (f"in {out}", [f"{name} ({size} bytes)" for name, size in produced.files]),
        ("changed, and kept", _kept_changes(result, produced)),
        (_changed(produced, out), _lost(result, produced, out)),
        ("left in the box", produced.left),
        ("limits", [str(limit) for limit in result.limits]),
        *((f"refused, {level}", texts) for level, texts in _by_level(result.refusals, held=held).items()),
    ):
        if texts:
            say(f"  {title}:", file=sys.stderr)
            lines(texts)
    if produced.kept:
        say(f"  kept: {_kept(produced)}", file=sys.stderr)
    if caches := fold(result.changes)[1]:
        more = f" and {len(caches) - SHOWN_CACHES} more places" if len(caches) > SHOWN_CACHES else ""
        say(f"  caches and settings, not listed: {', '.join(caches[:SHOWN_CACHES])}{more}", file=sys.stderr)
    notes(produced.notes)


def kept(produced: Produced) -> None:
    """Said even where nothing else is: the work is there."""
    if produced.kept:
        say(f"husk skill: kept: {_kept(produced)}", file=sys.stderr)


def _kept(produced: Produced) -> str:
    name, places = produced.kept, produced.changed_mounts
    applies = [f"husk apply {name}{f' {place}' if len(places) > 1 else ''}" for place in places]
    return "; ".join([f"husk diff {name}", *applies, f"husk drop {name}"])


def _changed(produced: Produced, out: Path | None) -> str:
    if produced.kept:
        return "changed in the box's own files (--out DIR brings files back)"
    if out is not None:
        return "changed elsewhere in the box, and gone with it"
    return "changed in the box, and gone with it (--out DIR brings files back, --keep NAME keeps the box)"


def _kept_changes(result: Result, produced: Produced) -> list[str]:
    below = tuple(f"{place}/" for place in produced.changed_mounts) if produced.kept else ()
    return [f"{path} ({change})" for change, path in fold(result.changes)[0] if path.startswith(below)]


def _lost(result: Result, produced: Produced, out: Path | None) -> list[str]:
    """The changes that neither `--out` nor `husk apply` brings back."""
    back: tuple[str, ...] = (f"{WORK}/", f"{INPUT}/") if out is not None else ()
    if produced.kept:
        back += tuple(f"{place}/" for place in produced.changed_mounts)
    return [f"{path} ({change})" for change, path in fold(result.changes)[0] if not path.startswith(back)]


def _by_level(refusals: list[dict[str, object]], *, held: bool) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {level: [] for level in (*FAILING, HARMLESS)}
    for item in refusals:
        found[judge(item).level].append(_refusal(item, held=held))
    return found


def _refusal(item: dict[str, object], *, held: bool) -> str:
    allow, what = str(item["allow"]), str(item["what"])
    if item["errno"] == "EROFS" and what.startswith((f"{SKILL}/", f"{SKILLS}/")):
        instead = f"write to the working directory, or to {OUTPUT} with --out DIR: a skill's own files stay as they are"
        return f"{what}: {item['reason']}; {instead}"
    return f"{what}: {item['reason']}" + (f"; to allow it, {advice(allow, held=held)}" if allow else "")


def advice(allow: str, *, held: bool) -> str:
    """What would allow something, in words that fit the command: the manifest's own where one holds the skill."""
    for option, section in (("--mount ", "[files] mounts"), ("--allow-net ", "[network] hosts")):
        if held and allow.startswith(option):
            return f'"{allow.removeprefix(option)}" in {section}'
    return allow


def as_dict(result: Result, produced: Produced) -> dict[str, object]:
    return {
        "exit_code": result.exit_code,
        "seconds": round(result.seconds, 3),
        "stdout": (result.stdout or b"").decode("utf-8", "backslashreplace"),
        "stderr": (result.stderr or b"").decode("utf-8", "backslashreplace"),
        "files": [{"path": name, "size": size} for name, size in produced.files],
        "left": produced.left,
        "kept": produced.kept,
        "changes": [{"change": change, "path": path} for change, path in result.changes],
        "refusals": [item | {"level": judge(item).level, "why": judge(item).why} for item in result.refusals],
        "limits": [str(limit) for limit in result.limits],
        "faults": result.faults,
        "programs": result.ran,
        "read": [path for path in result.read if not path.startswith(("/usr/", "/lib", "/proc/", "/etc/ld.so"))],
    }


def verdict(found: Verdict, *, with_setting: bool = False) -> None:
    name = f"{found.case.skill.name}: {found.case.name}" + (f" ({found.setting})" if with_setting else "")
    alone = f"{found.native_seconds:6.2f} s" if found.native_seconds else " " * 8
    times = f"{alone} {found.box_seconds:6.2f} s" if found.box_seconds else ""
    say(f"{found.status:<8} {name:<48} {times}".rstrip())
    if found.reason:
        say(f"         {found.reason}")


def matrix(rows: list[Row]) -> None:
    """Skill by setting."""
    from husk.skills.testing.case_summary import cell_text

    settings = list(rows[0].cells)
    cells = [[row.skill.name, *(cell_text(row.cells.get(name, Counter())) for name in settings)] for row in rows]
    say_table("", [("skill", "left"), *((name, "left") for name in settings)], cells, file=sys.stdout)


def count(verdicts: list[Verdict]) -> None:
    kinds: dict[str, int] = {}
    for item in verdicts:
        kinds[item.status] = kinds.get(item.status, 0) + 1
    times = "times: natively, in a box" if any(item.native_seconds for item in verdicts) else "time: in a box"
    say(", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items())) + f" ({times})")
