"""mcp: the shape of the tools' answers, which clients get as each tool's output schema. Data only."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic, which has it, wants this one before Python 3.12


class ChangeAnswer(TypedDict):
    change: str
    path: str


class DenialAnswer(TypedDict):
    """What the sandbox refused: what was asked, why not, and what would allow it."""

    call: str
    what: str
    errno: str
    reason: str
    allow: str
    count: int


class RunAnswer(TypedDict):
    box: str
    argv: list[str]
    exit_code: int
    timed_out: bool
    seconds: float
    explain: str
    denials: list[DenialAnswer]
    limits: list[str]
    weakened: list[str]
    changes: list[ChangeAnswer]
    changes_not_shown: int
    host_changes: list[ChangeAnswer]
    host_changes_not_shown: int
    stdout: str
    stderr: str
    resource: str


class SkillRunAnswer(RunAnswer):
    notes: list[str]
    files: list[str]


class ReadAnswer(TypedDict):
    path: str
    size: int
    offset: int
    read: int
    content: str


class WrittenAnswer(TypedDict):
    path: str
    written: int


class EntryAnswer(TypedDict):
    name: str
    kind: str
    size: int


class ListingAnswer(TypedDict):
    path: str
    entries: list[EntryAnswer]
    not_shown: int


class ChangesAnswer(TypedDict):
    box: str
    changes: list[ChangeAnswer]
    not_shown: int


class OpenedSkillAnswer(TypedDict):
    box: str
    skills: list[str]
    workdir: str
    instructions: str
    held_to: str
    notes: list[str]
    kept: str


class CopiedAnswer(TypedDict):
    box: str
    files: list[str]


class AppliedAnswer(TypedDict):
    box: str
    mount: str
    applied: bool
    changes: list[ChangeAnswer]
    notes: list[str]


class ClosedAnswer(TypedDict):
    closed: str
