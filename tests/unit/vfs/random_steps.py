"""Random but repeatable scripts over few names, so that steps keep meeting each other's results."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from typing import Any

from unit.vfs.worlds import FRIENDS, GUEST, Step

NAMES = [b"a", b"b", b"file", b"deep", b"er", b"inner", b"twin1", b"twin2", b"to_file", b"to_dir", b"empty", b"most", b"twin3"]
STARTS = [b"home", b"home", b"home", b"home/deep", b"home/deep/er", b"home/empty", b"shared", b"team", b"theirs", b"home/a", b"."]
OPEN_FLAGS = [
    os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_CREAT | os.O_RDWR, os.O_CREAT | os.O_WRONLY | os.O_EXCL,
    os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_DIRECTORY, os.O_PATH, os.O_RDONLY | os.O_NOFOLLOW,
    os.O_CREAT | os.O_TRUNC | os.O_RDWR,
]
MODES = [0o644, 0o600, 0o755, 0o777, 0o444, 0o000, 0o2755, 0o1777]


class Dice:
    """Picks steps; the weights favour what changes structure."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.open: set[int] = set()
        makers: list[tuple[int, Callable[[], list[Step]]]] = [
            (8, self.make_open), (5, lambda: [("mkdir", self.path(), self.pick(MODES[:4]))]), (5, lambda: [("rmdir", self.path())]),
            (8, lambda: [("unlink", self.path())]), (12, lambda: [("rename", self.path(), self.path(), self.pick([0, 0, 0, 1, 2]))]),
            (5, lambda: [("link", self.path(), self.path(), self.dice.random() < 0.3)]),
            (3, lambda: [("symlink", self.pick([*NAMES, b"../" + self.name(), b"/home/" + self.name()]), self.path())]),
            (3, lambda: [("chmod", self.path(), self.pick(MODES))]),
            (1, lambda: [("chown", self.path(), self.pick([-1, GUEST]), self.pick([-1, GUEST, FRIENDS]))]),
            (2, lambda: [("truncate", self.path(), self.dice.randrange(20))]),
            (1, lambda: [("mknod", self.path(), self.pick([stat.S_IFIFO, stat.S_IFREG]) | 0o644)]),
            (1, lambda: [("chdir", self.pick([b"/", b"/home", b"/home/deep"]))]), (1, lambda: [("getcwd",)]),
            (6, lambda: [("stat", self.path(), self.dice.random() < 0.5)]), (2, lambda: [("readlink", self.path())]),
            (3, lambda: [("kinds", self.path())]), (3, lambda: [("same", self.path(), self.path())]), (6, self.make_use),
        ]
        self.weights = [weight for weight, _ in makers]
        self.makers = [maker for _, maker in makers]

    def pick(self, options: list[Any]) -> Any:
        return self.dice.choice(options)

    def name(self) -> bytes:
        return self.pick(NAMES)

    def path(self) -> bytes:
        path = self.pick(STARTS) + b"/" + self.name()
        if self.dice.random() < 0.25:
            path += b"/" + self.name()
        if self.dice.random() < 0.04:
            path += b"/"
        return b"/" + path if self.dice.random() < 0.7 else path

    def make_open(self) -> list[Step]:
        slot = self.dice.randrange(6)
        return [("open", slot, self.path(), self.pick(OPEN_FLAGS), self.pick(MODES[:3]))]

    def make_use(self) -> list[Step]:
        slot = self.dice.randrange(6)
        return [self.pick([("fstat", slot), ("read", slot), ("write", slot, b"w%d" % self.dice.randrange(100)), ("fstat", slot),
                           ("fchmod", slot, self.pick(MODES[:5])), ("linkfd", slot, self.path())])]

    def steps(self, count: int) -> list[Step]:
        steps: list[Step] = []
        while len(steps) < count:
            steps += self.dice.choices(self.makers, self.weights)[0]()
        return steps


def random_steps(seed: int, count: int) -> list[Step]:
    dice = Dice(seed)
    steps: list[Step] = [("open", slot, b"/home/file", os.O_RDONLY) for slot in range(6)]
    steps += dice.steps(count)
    # At the end, everything is looked at.
    for start in (b"/home", b"/home/deep", b"/home/deep/er", b"/home/empty", b"/shared", b"/team", b"/home/a", b"/home/b"):
        steps += [("kinds", start), *[("stat", start + b"/" + name, False) for name in NAMES]]
    return steps
