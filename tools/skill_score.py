"""Precision and recall of `husk skill inspect` on the labelled skills of tests/skills/labelled: `make skill-score`.

Precision: of what inspect proposes, how much is right. Recall: of what is right, how much it proposes. The skills are
made up, in the manner of real ones; some are hard on purpose, so that the figures say what reading cannot find.
"""

from __future__ import annotations

import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from husk.skills.open_skill import open_skill
from husk.skills.scan.describe import Description, describe
from husk.skills.scan.distributions import distribution_key

PLACE = Path(__file__).resolve().parent.parent / "tests" / "skills" / "labelled"
KINDS = ("hosts", "programs", "pip", "npm", "env")
HEAD = "---\nname: {name}\ndescription: {about}\n---\n"


@dataclass
class Count:
    right: int = 0
    wrong: list[str] = field(default_factory=list)  # proposed, and not so
    missed: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / (self.right + len(self.wrong)) if self.right or self.wrong else 1.0

    @property
    def recall(self) -> float:
        return self.right / (self.right + len(self.missed)) if self.right or self.missed else 1.0


def labelled() -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for path in sorted(PLACE.glob("*.toml")):
        found += tomllib.loads(path.read_text())["skill"]
    return found


def score() -> dict[str, Count]:
    counts = {kind: Count() for kind in KINDS}
    for row in labelled():
        name = str(row["name"])
        with tempfile.TemporaryDirectory() as folder:
            files = row["files"]
            assert isinstance(files, dict)
            root = Path(folder, name)
            for path, text in ({"SKILL.md": HEAD.format(name=name, about=row["about"])} | files).items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(str(text).lstrip("\n"))
            with open_skill(root) as skill:
                found = _proposed(describe(skill))
        for kind, count in counts.items():
            wanted = row.get(kind, [])
            assert isinstance(wanted, list)
            truth = {_normal(kind, str(item)) for item in wanted}
            count.right += len(truth & found[kind])
            count.wrong += [f"{name}: {item}" for item in sorted(found[kind] - truth)]
            count.missed += [f"{name}: {item}" for item in sorted(truth - found[kind])]
    return counts


def _proposed(found: Description) -> dict[str, set[str]]:
    needed = [text for text in found.pip if distribution_key(text) not in found.optional]
    proposed = {"hosts": found.hosts, "programs": found.programs, "pip": needed, "npm": list(found.npm)}
    proposed["env"] = list(found.found_env)
    return {kind: {_normal(kind, item) for item in items} for kind, items in proposed.items()}


def _normal(kind: str, item: str) -> str:
    return distribution_key(item) if kind == "pip" else item


def main() -> int:
    counts = score()
    print(f"{len(labelled())} labelled skills")
    print(f"{'kind':<10} {'precision':>9} {'recall':>9}   right  wrong  missed")
    for kind, count in counts.items():
        told = f"{count.right:7}{len(count.wrong):7}{len(count.missed):8}"
        print(f"{kind:<10} {count.precision:>9.1%} {count.recall:>9.1%} {told}")
    for kind, count in counts.items():
        for title, items in (("wrong", count.wrong), ("missed", count.missed)):
            for item in items:
                print(f"  {title} {kind}: {item}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
