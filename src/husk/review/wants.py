"""review: what a skill wants, from reading it: hosts, programs, packages, variables, files, tools; where, and how sure.

Nothing is run here. What a run used is in measured_runs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from husk.skills.scan.describe import Description
from husk.skills.scan.distributions import distribution_key
from husk.skills.scan.languages import INTERPRETERS
from husk.skills.syntax.scan_findings import KNOWN, MENTIONED, USED

# Kind -> how a list of them is headed.
HOST, PROGRAM, PIP, NPM, VARIABLE, FILE, TOOL = "host", "program", "pip", "npm", "variable", "file", "tool"
TITLES = {
    HOST: "hosts that it reaches",
    PROGRAM: "programs that it starts",
    PIP: "Python packages",
    NPM: "npm packages",
    VARIABLE: "variables of the environment that it reads",
    FILE: "files that it writes by name",
    TOOL: "tools that it asks the agent for",
}
# How sure: the surest first.
DECLARED, OPTIONAL = "declared", "optional"
SURE = {
    DECLARED: "the skill declares it itself",
    USED: "in code that runs",
    KNOWN: "by a program or package that is known to",
    OPTIONAL: "its code does without it",
    MENTIONED: "only in comments, help or prose",
}
ASKED = (DECLARED, USED, KNOWN)  # what counts as wanting


@dataclass(frozen=True, order=True)
class Want:
    kind: str
    name: str
    sure: str = USED
    where: str = ""  # the file, with the line where it is known
    why: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The same in another version: of a package the name counts, not which versions fit."""
        if self.kind == PIP:
            return self.kind, distribution_key(self.name)
        if self.kind == NPM:
            return self.kind, self.name[0] + self.name[1:].partition("@")[0]
        return self.kind, self.name

    def as_dict(self) -> dict[str, str]:
        return {"kind": self.kind, "name": self.name, "sure": self.sure, "where": self.where, "why": self.why}


def wants_of(found: Description) -> list[Want]:
    """Sorted by kind, then the surest first."""
    made = [Want(TOOL, tool, DECLARED, "SKILL.md", "allowed-tools") for tool in found.skill.head.allowed_tools]
    for kind, findings in ((HOST, found.found_hosts), (PROGRAM, found.found_programs), (VARIABLE, found.found_env)):
        made += [Want(kind, item.name, item.level, item.where, item.why) for item in findings.values()]
    for script in found.code:
        made += [Want(FILE, name, USED, script.path) for name in script.writes]
        words = script.interpreter or INTERPRETERS.get(script.language, ([], ""))[0]
        if script.starts and words:
            by_env = PurePosixPath(words[0]).name == "env" and len(words) > 1
            program = PurePosixPath(words[1 if by_env else 0]).name
            made.append(Want(PROGRAM, program, USED, script.path, "interprets it"))
    for kind, packages in ((PIP, found.pip), (NPM, found.npm)):
        for text, where in packages.items():
            path, _, why = where.partition(" ")
            imported = why.startswith(("imports", "requires"))
            sure = OPTIONAL if distribution_key(text) in found.optional else USED if imported else DECLARED
            made.append(Want(kind, text, sure, path, why.strip("()")))
    surest: dict[tuple[str, str], Want] = {}
    for one in sorted(made, key=lambda want: (list(SURE).index(want.sure), want)):
        surest.setdefault(one.key, one)
    kinds = list(TITLES)
    return sorted(surest.values(), key=lambda want: (kinds.index(want.kind), list(SURE).index(want.sure), want.name))
