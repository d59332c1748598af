"""skills: describe a skill without running it, for `husk skill inspect`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from husk.skills.open_skill import Skill
from husk.skills.scan.distributions import NPM, distribution_key, distribution_of, is_requirement
from husk.skills.scan.languages import Script, find_scripts
from husk.skills.scan.python_uses import PythonUses
from husk.skills.scan.scan_javascript import JavaScriptUses
from husk.skills.scan.scan_python import scan_python
from husk.skills.scan.scan_shell import Shared, scan_shell
from husk.skills.scan.scan_text import document_mentions, document_programs, scan_text
from husk.skills.syntax.known_uses import PACKAGE_HOSTS, PACKAGE_PROGRAMS
from husk.skills.syntax.scan_findings import KNOWN, Finding, surest
from husk.skills.syntax.syntax_parser import SyntaxParser

REQUIREMENTS = ("requirements.txt", "scripts/requirements.txt")
MOST_CODE = 16 << 20  # read of one skill, so that a person need not wait
PACKAGES = ("package.json", "scripts/package.json")


@dataclass
class Description:
    """`pip` and `npm` map a requirement to where it was found. `optional` holds the keys of optional ones."""

    skill: Skill
    code: list[Script]
    pip: dict[str, str] = field(default_factory=dict)
    npm: dict[str, str] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    mentions: list[Finding] = field(default_factory=list)  # hosts in documents
    told_programs: list[Finding] = field(default_factory=list)  # programs in documents
    problems: list[str] = field(default_factory=list)

    @property
    def scripts(self) -> list[Script]:
        """The scripts that can be started."""
        return [script for script in self.code if script.starts]

    @property
    def programs(self) -> list[str]:
        return sorted({program for script in self.code for program in script.programs})

    @property
    def hosts(self) -> list[str]:
        """Those that something uses; `found_hosts` has the mentioned ones too."""
        return sorted({host for script in self.code for host in script.hosts})

    @property
    def found_programs(self) -> dict[str, Finding]:
        return surest([item for script in self.code for item in script.programs_found] + self.told_programs)

    @property
    def found_hosts(self) -> dict[str, Finding]:
        return surest([item for script in self.code for item in script.hosts_found] + self.mentions)

    @property
    def found_env(self) -> dict[str, Finding]:
        """The variables that scripts read, each with whether one of them does without it."""
        every = [item for script in self.code for item in script.env_found]
        return surest(sorted(every, key=lambda item: item.why != "needed"))

    @property
    def writes(self) -> list[str]:
        return sorted({path for script in self.code for path in script.writes})

    def as_dict(self) -> dict[str, object]:
        head = self.skill.head
        return {
            "path": str(self.skill.source),
            "name": head.name,
            "description": head.description,
            "license": head.license,
            "compatibility": head.compatibility,
            "metadata": head.metadata,
            "allowed_tools": head.allowed_tools,
            "valid": head.valid,
            "problems": [problem.as_dict() for problem in head.problems]
            + [{"level": "warning", "text": text} for text in self.problems],
            "scripts": [
                {
                    "path": script.path,
                    "language": script.language,
                    "usage": script.usage,
                    "modules": {
                        name: "optional" if maybe else "needed" for name, maybe in sorted(script.modules.items())
                    },
                    "programs": sorted(script.programs),
                    "hosts": sorted(script.hosts),
                    "writes": sorted(script.writes),
                }
                for script in self.scripts
            ],
            "programs": [item.as_dict() for item in self.found_programs.values()],
            "hosts": [item.as_dict() for item in self.found_hosts.values()],
            "environment": [item.as_dict() for item in self.found_env.values()],
            "pip": self.pip,
            "npm": self.npm,
            "optional": sorted(self.optional),
            "files": len(self.skill.files),
        }


def describe(skill: Skill, *, instructions: bool = True) -> Description:
    """`instructions`: for a person, with the commands in SKILL.md, and all programs. A run needs neither."""
    found = Description(skill, find_scripts(skill))
    with SyntaxParser() as parser:
        _scan(found, parser, whole=instructions)
        if instructions and "SKILL.md" in skill.files:
            found.told_programs += document_programs(skill, "SKILL.md", parser)
    if "SKILL.md" in skill.files:
        found.mentions += document_mentions(skill, "SKILL.md")
    _add_declared(found)
    for script in found.code:
        _add_requirements(found, script)
    for script in found.code:
        _add_imported(found, script)
        _add_known(script)
    found.optional -= {distribution_key(text) for text in _needed(found)}
    return found


def _scan(found: Description, parser: SyntaxParser, *, whole: bool) -> None:
    """Not `whole`: for a run, which needs the hosts only, for its hints; without an address in them there are none."""
    following = whole or any("://" in found.skill.text(each.path) for each in found.code if each.language == "python")
    python, javascript, shared = PythonUses(parser), JavaScriptUses(parser), Shared()
    left = MOST_CODE
    for script in found.code:
        left -= (found.skill.root / script.path).stat().st_size if script.language != "elf" else 0
        if left < 0:
            script.problems.append(f"{script.path}: not read: the skill has more than {MOST_CODE >> 20} MiB of code")
        elif script.language == "python":
            scan_python(found.skill, script, python if following else None)
        elif script.language in ("sh", "bash"):
            scan_shell(found.skill, script, parser, shared)
        elif script.language in ("node", "typescript"):
            javascript.add(found.skill, script)
        elif script.language != "elf":
            scan_text(found.skill, script, parser)
    python.finish()
    javascript.finish()
    for script in found.code:
        if script.language in ("sh", "bash"):
            shared.settle(script)
        found.problems += script.problems


def _needed(found: Description) -> list[str]:
    return [
        distribution_of(module)
        for script in found.code
        if script.language == "python"
        for module, optional in script.modules.items()
        if not optional
    ]


def _add_known(script: Script) -> None:
    """What the packages of a script are known to start, and to go to."""
    for module in script.modules:
        key = distribution_key(distribution_of(module)) if script.language == "python" else module
        for table, into, what in (
            (PACKAGE_PROGRAMS, script.programs_found, "starts it"),
            (PACKAGE_HOSTS, script.hosts_found, "goes there"),
        ):
            into += [Finding(name, KNOWN, script.path, 0, f"{key} {what}") for name in table.get(key, "").split()]


def reachable_scripts(found: Description, script: Script) -> list[Script]:
    """The script, and all files of the skill that it imports or calls, directly or not."""
    by_path = {other.path: other for other in found.code}
    reached, waiting = dict[str, Script](), [script]
    while waiting:
        current = waiting.pop()
        if current.path not in reached:
            reached[current.path] = current
            waiting += [by_path[path] for path in current.local if path in by_path]
    return list(reached.values())


def _add_declared(found: Description) -> None:
    skill = found.skill
    for name in REQUIREMENTS:
        if name not in skill.files:
            continue
        for line in skill.text(name).splitlines():
            wanted = line.split("#", 1)[0].strip()
            if not wanted:
                continue
            if is_requirement(wanted):
                found.pip[wanted] = name
            else:
                found.problems.append(f"{name}: {wanted!r} is left out: only names and versions are taken")
    for name in PACKAGES:
        if name not in skill.files:
            continue
        try:
            data = json.loads(skill.text(name))
            wanted_npm = data.get("dependencies", {})
            if not isinstance(wanted_npm, dict):
                raise ValueError("`dependencies` must be an object")
        except (ValueError, AttributeError, RecursionError) as error:
            found.problems.append(f"{name}: cannot be read ({error})")
            continue
        for package, version in wanted_npm.items():
            _add_npm(found, package, str(version), name)


def _add_npm(found: Description, package: str, version: str, where: str) -> None:
    plain = version.strip().lstrip("^~>=v ")
    if not NPM.fullmatch(package) or not (plain in ("", "*", "latest") or plain[0].isdigit()):
        found.problems.append(f"{where}: {package}@{version} is left out: only names and versions are taken")
        return
    found.npm[f"{package}@{version}" if plain not in ("", "*", "latest") else package] = where


def _add_requirements(found: Description, script: Script) -> None:
    for wanted in script.requirements:
        if is_requirement(wanted):
            found.pip.setdefault(wanted, f"{script.path} (# /// script)")
        else:
            found.problems.append(f"{script.path}: {wanted!r} is left out: only names and versions are taken")


def _add_imported(found: Description, script: Script) -> None:
    for module, optional in script.modules.items():
        if script.language == "python":
            name, have = distribution_of(module), {distribution_key(wanted) for wanted in found.pip}
            if distribution_key(name) not in have:
                found.pip[name] = f"{script.path} imports {module}"
                if optional:
                    found.optional.add(distribution_key(name))
        elif script.language in ("node", "typescript"):
            names = {wanted[0] + wanted[1:].partition("@")[0] for wanted in found.npm}
            if module not in names:
                found.npm[module] = f"{script.path} requires it"
