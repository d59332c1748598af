"""skills: the permission manifest: what a skill may see and use, as TOML that a person reads, edits and approves.

Here: the data, its text form, and the comparison of two manifests. The box enforces it (`box_runner`, `running`).
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from husk.sandbox.errors import UsageError
from husk.sandbox.limits.limits import NAMES, Limits
from husk.sandbox.policy import DEFAULT_PATH, Mount, read_rules
from husk.sandbox.toml_reader import read_toml
from husk.skills.open_skill import Skill
from husk.skills.scan.describe import Description
from husk.skills.scan.distributions import DEBIAN, distribution_key, is_requirement
from husk.skills.scan.languages import INTERPRETERS
from husk.skills.scan.started_programs import started_programs
from husk.skills.syntax.scan_findings import KNOWN, MENTIONED, PROPOSED
from husk.skills.syntax.syntax_parser import SyntaxParser

VERSION = 1
MOST_ASIDES = 20
DEFAULT_LIMITS = {"time": "10m", "memory": "2G", "processes": "512", "disk": "4G", "disk-files": "100000"}
SECTIONS: dict[str, list[str]] = {
    "files": ["input", "output", "work", "mounts", "hide", "deny", "protect", "allow"],
    "network": ["hosts"],
    "programs": ["allow"],
    "packages": ["pip", "npm"],
    "limits": [],  # as Limits knows them
    "refused": ["expected"],
}


@dataclass
class Permissions:
    """`content` is the digest of the skill that this was written for; empty: of any."""

    skill: str = ""
    content: str = ""
    input: bool = True
    output: bool = True
    work: bool = True
    mounts: list[str] = field(default_factory=list)
    hide: list[str] = field(default_factory=list)  # patterns for names below mounts, beside husk's own
    deny: list[str] = field(default_factory=list)
    protect: list[str] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    programs: list[str] = field(default_factory=list)
    pip: list[str] = field(default_factory=list)
    npm: list[str] = field(default_factory=list)
    limits: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_LIMITS))
    expected: list[str] = field(default_factory=list)  # refusals seen while learning that did no harm

    @property
    def rules(self) -> dict[str, list[str]]:
        return {"hide": self.hide, "deny": self.deny, "protect": self.protect, "allow": self.allow}

    def _bound(self) -> list[str]:
        if not self.content:
            return []
        why = "# Of the skill's files as they were approved: with others it does not run."
        return [why, f"content = {_quoted(self.content)}"]

    def as_dict(self) -> dict[str, object]:
        """The manifest as data, in the sections of its file."""
        return tomllib.loads(self.text())

    # -- text --------------------------------------------------------------------------------------------------
    def text(self, notes: dict[str, str] | None = None) -> str:
        """The manifest as TOML. `notes` says for some entries where they come from."""
        notes = {} if notes is None else notes
        asides = notes.asides if isinstance(notes, Notes) else {}
        lines = [
            f"# What the skill {self.skill!r} may see and use. Take away what it should not have, then:",
            "#     husk skill run PATH --permissions THIS_FILE",
            f"version = {VERSION}",
            f"skill = {_quoted(self.skill)}",
            *self._bound(),
            "",
            "[files]",
            "# The skill itself is at /skill, read-only. Everything else it sees of your files is named here or on the",
            "# command line, and only if allowed here.",
            f"{f'input = {_truth(self.input)}':<15} # --in DIR: at /in, changes go to a copy",
            f"{f'output = {_truth(self.output)}':<15} # --out DIR: what it leaves in /out and in its working directory",
            f"{f'work = {_truth(self.work)}':<15} # --work DIR: at /workspace, changes go to a copy",
            *_list("mounts", self.mounts, notes, '# "HOST:PLACE:ro", as for husk run --mount'),
            *(line for verb, patterns in self.rules.items() if patterns for line in _list(verb, patterns, notes)),
            "",
            "[network]",
            "# Loopback is always there, private to the box. Names and addresses as for husk run --allow-net.",
            *_list("hosts", self.hosts, notes),
            *_aside("Only mentioned, and not allowed", asides.get("network", [])),
            "",
            "[programs]",
            "# What may be started, beside the script's own interpreter: a path, a directory with a slash at its end",
            "# (all below it), or a name that the box finds on its PATH.",
            *_list("allow", self.programs, notes),
            *_aside("Only mentioned, and not allowed", asides.get("programs", [])),
            "",
            "[packages]",
            *_list("pip", self.pip, notes),
            *_list("npm", self.npm, notes),
            *_aside("Optional: the scripts do without them", asides.get("packages", [])),
            "",
            "[limits]",
            *(f"{name} = {_quoted(value)}" for name, value in self.limits.items()),
        ]
        if self.expected:
            lines += [
                "",
                "[refused]",
                "# Tried and refused while it was learnt, without harm.",
                *_list("expected", self.expected, notes),
            ]
        return "\n".join(lines) + "\n"

    # -- use ---------------------------------------------------------------------------------------------------
    def beyond(self, most: Permissions) -> list[str]:
        """What this manifest asks for beyond `most`."""
        found = [
            f"files.{name}" for name in ("input", "output", "work") if getattr(self, name) and not getattr(most, name)
        ]
        for title, mine, theirs in (
            ("mount", self.mounts, most.mounts),
            ("allowed name", self.allow, most.allow),
            ("host", self.hosts, most.hosts),
            ("program", self.programs, most.programs),
            ("npm package", self.npm, most.npm),
        ):
            found += [f"{title} {item}" for item in mine if item not in theirs]
        for verb in ("hide", "deny", "protect"):
            found += [f"no rule {verb} {item}" for item in most.rules[verb] if item not in self.rules[verb]]
        allowed = {distribution_key(item) for item in most.pip}
        found += [f"pip package {item}" for item in self.pip if distribution_key(item) not in allowed]
        wanted, given = read_limits(self.limits), read_limits(most.limits)
        for name in NAMES:
            ours, ceiling = wanted[name], given[name]
            if ceiling is not None and (ours is None or ours > ceiling):
                found.append(
                    f"limit {name} = {self.limits.get(name, 'none')} (at most {most.limits.get(name, ceiling)})"
                )
        return found


def check_bound(allowed: Permissions, skill: Skill, what: str) -> None:
    """Raise UsageError unless the manifest, called `what` in the message, was written for this skill as it is."""
    if allowed.skill and allowed.skill != skill.name:
        raise UsageError(f"{what} is the manifest of another skill, {allowed.skill!r}; this one is {skill.name!r}.")
    if allowed.content and allowed.content != skill.digest():
        raise UsageError(
            f"the files of the skill {skill.name!r} are not those that {what} was written for; look at what changed, "
            "then write it again with `husk skill learn`, or take out its line `content`."
        )


class Notes(dict[str, str]):
    """For entries of a manifest where they come from; `asides` are lines for a section about what it does not give."""

    def __init__(self) -> None:
        super().__init__()
        self.asides: dict[str, list[str]] = {}


def propose(found: Description) -> tuple[Permissions, Notes]:
    """Propose a manifest from reading the skill, with notes on where each entry comes from."""
    notes = Notes()
    notes.update({wanted: where for kind in (found.pip, found.npm) for wanted, where in kind.items()})
    needed = [text for text in found.pip if distribution_key(text) not in found.optional]
    name, content = found.skill.name, found.skill.digest()
    asked = Permissions(skill=name, content=content, pip=sorted(needed), npm=sorted(found.npm))
    asked.programs = _programs(found, notes)
    asked.hosts = found.hosts
    for host, item in found.found_hosts.items():
        if item.level in PROPOSED:
            notes[host] = f"{item.level}: {item.where}, {item.why}"
        else:
            notes.asides.setdefault("network", []).append(f"{host}: {item.where}, {item.why}")
    optional = [f"{text}: {where}" for text, where in found.pip.items() if text not in needed]
    if optional:
        notes.asides["packages"] = optional
    return asked, notes


def _programs(found: Description, notes: Notes) -> list[str]:
    programs = set(found.programs)
    for script in found.scripts:
        words = script.interpreter or INTERPRETERS.get(script.language, ([], ""))[0]
        programs.update(words[:1])
        if script.programs and script.language not in ("sh", "bash"):
            programs.add("sh")  # system() and the like start it
    for program, item in found.found_programs.items():
        if item.level == MENTIONED:
            if program not in programs:
                notes.asides.setdefault("programs", []).append(f"{program}: {item.where}, {item.why}")
            continue
        where = item.where + (f", {item.why}" if item.level == KNOWN else "")
        if shutil.which(program, path=DEFAULT_PATH) is None:
            where += f"; not on this machine (Debian: {DEBIAN.get(program, program)})"
        notes.setdefault(program, where)
    interpreters = {words[0] for words, _ in INTERPRETERS.values()}  # their own directories hold modules, not programs
    with SyntaxParser() as parser:
        for program in sorted(programs - interpreters):
            for entry in started_programs(program, parser):
                if entry not in programs:
                    notes.setdefault(entry, f"{program} starts it")
                    programs.add(entry)
    return sorted(programs)


def read_permissions(path: Path) -> Permissions:
    written = read_toml(path)
    written.version(VERSION, "`husk skill inspect` prints a manifest")
    written.only(["version", "skill", "content", *SECTIONS])
    for section, known in SECTIONS.items():
        if known:
            written.table(section).only(known)
    files, packages = written.table("files"), written.table("packages")
    made = Permissions(
        skill=written.text("skill"),
        content=written.text("content"),
        # What a manifest does not mention is not allowed.
        input=files.flag("input"),
        output=files.flag("output"),
        work=files.flag("work"),
        mounts=files.words("mounts"),
        hide=files.words("hide"),
        deny=files.words("deny"),
        protect=files.words("protect"),
        allow=files.words("allow"),
        hosts=written.table("network").words("hosts"),
        programs=written.table("programs").words("allow"),
        pip=packages.words("pip"),
        npm=packages.words("npm"),
        limits=written.amounts("limits"),
        expected=written.table("refused").words("expected"),
    )
    for text in made.mounts:
        Mount.parse(text)
    read_rules(made.rules)
    for program in made.programs:
        if not program or ("/" in program and not program.startswith("/")):
            raise written.wrong(f"programs.allow: {program!r} is neither a bare name nor an absolute path.")
    for wanted in made.pip:
        if not is_requirement(wanted):
            raise written.wrong(f"packages.pip: {wanted!r} is no name with versions.")
    read_limits(made.limits)
    return made


def read_limits(texts: dict[str, str]) -> Limits:
    limits = Limits()
    for name, value in texts.items():
        limits.read(f"{name}={value}")
    return limits


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _quoted(text: str) -> str:
    """A TOML basic string."""
    out = []
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c.isprintable():
            out.append(c)
        else:
            out.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
    return '"' + "".join(out) + '"'


def _list(name: str, items: list[str], notes: dict[str, str], about: str = "") -> list[str]:
    if not items:
        return [f"{name} = []" + (f"  {about}" if about else "")]
    lines = [f"    {_quoted(item)}," for item in items]
    width = max(map(len, lines))
    told = [
        f"{line:<{width}}  # {_comment(notes[item])}" if item in notes else line
        for line, item in zip(lines, items, strict=True)
    ]
    return [f"{name} = [" + (f"  {about}" if about else ""), *told, "]"]


def _aside(title: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = [f"# … and {len(items) - MOST_ASIDES} more"] if len(items) > MOST_ASIDES else []
    return [f"# {title}:", *(f"#   {_comment(item)}" for item in items[:MOST_ASIDES]), *more]


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
