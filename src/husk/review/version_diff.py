"""review: two versions of a skill: what the new one wants in addition, what it no longer wants, which files differ."""

from __future__ import annotations

import hashlib
import os
import stat as st
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from husk.review.wants import ASKED, Want, wants_of
from husk.skills.open_skill import Skill
from husk.skills.scan.describe import describe

_FIELDS = ("name", "description", "license", "compatibility")
_LEFT_OUT = {".git", "__pycache__"}


@dataclass
class VersionDiff:
    """`more` is what makes a new approval necessary. `aside` is new too, but nothing that the code asks for."""

    old: str
    new: str
    more: list[Want] = field(default_factory=list)
    less: list[Want] = field(default_factory=list)
    aside: list[Want] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)  # requirements of the same package, old and new
    head: list[tuple[str, str, str]] = field(default_factory=list)  # field of the front matter, old and new
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Not even a file differs."""
        return not (self.added or self.removed or self.changed)

    def as_dict(self) -> dict[str, Any]:
        return {
            "old": self.old,
            "new": self.new,
            "wants_more": bool(self.more),
            "more": [want.as_dict() for want in self.more],
            "less": [want.as_dict() for want in self.less],
            "mentioned": [want.as_dict() for want in self.aside],
            "versions": [{"old": old, "new": new} for old, new in self.versions],
            "head": [{"field": name, "old": old, "new": new} for name, old, new in self.head],
            "files": {"added": self.added, "removed": self.removed, "changed": self.changed},
        }


def compare_versions(old: Skill, new: Skill) -> VersionDiff:
    made = VersionDiff(str(old.source), str(new.source))
    before = {want.key: want for want in wants_of(describe(old))}
    after = {want.key: want for want in wants_of(describe(new))}
    for key, want in after.items():
        known = before.get(key)
        if known is None or (want.sure in ASKED and known.sure not in ASKED):
            (made.more if want.sure in ASKED else made.aside).append(want)
        elif known.name != want.name:
            made.versions.append((known.name, want.name))
    made.less = [want for key, want in before.items() if key not in after and want.sure in ASKED]
    for name in _FIELDS:
        texts = getattr(old.head, name), getattr(new.head, name)
        if texts[0] != texts[1]:
            made.head.append((name, *texts))
    for name in sorted(old.head.metadata.keys() | new.head.metadata.keys()):
        values = old.head.metadata.get(name, ""), new.head.metadata.get(name, "")
        if values[0] != values[1]:
            made.head.append((name, *values))
    here, there = _contents(old.root), _contents(new.root)
    made.added = sorted(there.keys() - here.keys())
    made.removed = sorted(here.keys() - there.keys())
    made.changed = sorted(name for name in here.keys() & there.keys() if here[name] != there[name])
    return made


def _contents(root: Path) -> dict[str, str]:
    """Every file: what it holds, or where a link leads, and whether it is executable."""
    found = {}

    def unreadable(error: OSError) -> None:
        raise error  # "the same" must not be said of what nobody has seen

    for folder, folders, names in os.walk(root, onerror=unreadable):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in [*names, *links]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if st.S_ISLNK(mode):
                content = f"link to {os.readlink(path)}"
            elif st.S_ISREG(mode):
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest() + (" program" if mode & 0o111 else "")
            else:
                content = "special"
            found[str(path.relative_to(root))] = content
    return found
