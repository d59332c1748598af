"""skills: what reading a script finds: a host, a program or a variable, where it stands, and how sure it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

USED = "used"  # in code that is run
KNOWN = "known"  # by a program or package that is known to go there, or to start it
MENTIONED = "mentioned"  # in prose, comments, help, names of XML vocabularies: not proposed
LEVELS = (USED, KNOWN, MENTIONED)  # the surest first
PROPOSED = (USED, KNOWN)

# Scheme, user and password, host and port. The host is the name's own characters: what is built at run time is no host.
URL = re.compile(
    r"\b(?:https?|wss?|ftps?|git|ssh|postgres(?:ql)?|mysql|mongodb(?:\+srv)?|rediss?|amqps?)(?:\+\w+)?://"
    r"(?:[^\s/@'\"<>\ue000]{0,200}@)?([A-Za-z0-9.-]{1,253})(:\d{1,5})?(?![A-Za-z0-9.-]*\ue000)"
)
NAME = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}")
ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
LOCAL = re.compile(r"localhost|.*\.(?:localhost|local|internal|lan)|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1")
_FILES = (
    "py js ts mjs cjs sh md txt json yaml yml toml ini cfg conf csv tsv xml html htm css svg png jpg jpeg gif webp pdf "
    "docx xlsx pptx zip gz tar bz2 xz log lock pid db sqlite duckdb parquet npy pkl bin so exe tmp bak out mp3 mp4 wav "
    "tex bib"
)
FILE_ENDS = frozenset(_FILES.split())
_DOMAINS = "com org net io dev ai co app edu gov info me cloud eu de fr uk us ch nl jp cn in"
TOP_DOMAINS = frozenset(_DOMAINS.split())


@dataclass(frozen=True, order=True)
class Finding:
    name: str
    level: str
    path: str  # of the script, relative to the skill
    line: int
    why: str

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "level": self.level, "where": self.where, "why": self.why}


def hosts_in(text: str) -> list[str]:
    """The hosts of all addresses in a text, each as `name` or `name:port`. Those of this machine are left out."""
    found = []
    for host, port in URL.findall(text):
        name = host.strip(".-").lower()
        if (NAME.fullmatch(name) or ADDRESS.fullmatch(name)) and not LOCAL.fullmatch(name):
            found.append(f"{name}{port}")
    return found


def is_host(text: str) -> bool:
    """Is a text without a scheme the name of a host? `index.html` and `os.path` look alike."""
    labels = text.lower().split(".")
    if not NAME.fullmatch(text) or LOCAL.fullmatch(text.lower()) or labels[-1] in FILE_ENDS:
        return False
    return len(labels) > 2 or labels[-1] in TOP_DOMAINS


def surest(found: list[Finding]) -> dict[str, Finding]:
    """For each name the finding to show: the surest, and of these the first."""
    best: dict[str, Finding] = {}
    for item in sorted(found, key=lambda each: (LEVELS.index(each.level), each.path, each.line)):
        best.setdefault(item.name, item)
    return dict(sorted(best.items()))
