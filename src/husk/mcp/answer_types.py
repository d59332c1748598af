"""mcp: the shape of the tools' answers, which clients get as each tool's output schema. Data only."""

from __future__ import annotations

from typing import Any

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


class PortAnswer(TypedDict):
    """`host`: the address at which the person reaches the port `guest` of the box; `answers`: a server does."""

    host: str
    guest: int
    answers: bool


class ProgramAnswer(TypedDict):
    """`output` is of both streams, from byte `since` to byte `next`; `lost` bytes before it are no longer kept. From
    `exit_code` on, all but the ports and the output is known when the program has ended."""

    program: str
    box: str
    argv: list[str]
    running: bool
    exit_code: int | None
    ports: list[PortAnswer]
    output: str
    since: int
    next: int
    lost: int
    explain: str
    denials: list[DenialAnswer]
    limits: list[str]
    changes: list[ChangeAnswer]
    changes_not_shown: int
    resource: str


class StartedAnswer(TypedDict):
    program: str
    box: str
    argv: list[str]
    running: bool


class SkillRunAnswer(RunAnswer):
    notes: list[str]
    files: list[str]


class ReadAnswer(TypedDict):
    path: str
    size: int
    offset: int
    read: int
    binary: bool
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


class CommitAnswer(TypedDict):
    label: str
    box: str
    changes: int
    image: str
    layer: str


class RollbackAnswer(TypedDict):
    box: str
    label: str


class ForkAnswer(TypedDict):
    box: str
    changes: int


class OpenBoxAnswer(TypedDict):
    box: str
    limits: dict[str, str]
    image: str
    kept: str


class BoxAnswer(TypedDict):
    name: str
    limits: dict[str, str]
    image: str
    kept: str


class CommittedAnswer(TypedDict):
    label: str
    box: str


class AllowedAnswer(TypedDict):
    """What the server's config gives."""

    image: str
    mounts: list[str]
    network: list[str] | str
    network_denied: list[str]
    publish: list[str]
    limits: dict[str, str]
    boxes: int
    commits: int
    programs: int
    keep: str
    apply: bool


class BoxesAnswer(TypedDict):
    boxes: list[BoxAnswer]
    commits: list[CommittedAnswer]
    programs: list[StartedAnswer]
    allowed: AllowedAnswer


class ClosedAnswer(TypedDict):
    closed: str
    kept: str


class ImageAnswer(TypedDict):
    name: str
    files: int
    bytes: int


class ImagesAnswer(TypedDict):
    """`names`: how the name of an image begins that a client makes; empty: it may make none."""

    images: list[ImageAnswer]
    archives: list[str]
    names: str


class LeftOutAnswer(TypedDict):
    path: str
    why: str


class ImportedAnswer(TypedDict):
    image: str
    layers: list[str]
    files: int
    bytes: int
    left_out: list[LeftOutAnswer]
    left_out_not_shown: int


class ProblemAnswer(TypedDict):
    level: str
    text: str


class FindingAnswer(TypedDict):
    """What a skill uses or mentions, and where."""

    name: str
    level: str
    where: str
    why: str


class ScriptAnswer(TypedDict):
    path: str
    language: str
    usage: str
    modules: dict[str, str]
    programs: list[str]
    hosts: list[str]
    writes: list[str]


class InspectedAnswer(TypedDict):
    path: str
    name: str
    description: str
    license: str
    compatibility: str
    metadata: dict[str, Any]
    allowed_tools: list[str]
    valid: bool
    problems: list[ProblemAnswer]
    scripts: list[ScriptAnswer]
    programs: list[FindingAnswer]
    hosts: list[FindingAnswer]
    environment: list[FindingAnswer]
    pip: dict[str, str]
    npm: dict[str, str]
    optional: list[str]
    files: int
    permissions: dict[str, Any]
    manifest: str
    instructions: str
    held_to: str
