"""Random but repeatable scripts over few names, so that steps keep meeting each other's results."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable

from tests.unit.vfs.worlds import FRIENDS, GUEST, Step

NAMES = b"a b file deep er inner twin1 twin2 twin3 to_file to_dir empty most".split()
STARTS = b"home home home home/deep home/deep/er home/empty shared team theirs home/a .".split()
OPEN_FLAGS = [
    os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_CREAT | os.O_RDWR, os.O_CREAT | os.O_WRONLY | os.O_EXCL,
    os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_DIRECTORY, os.O_PATH, os.O_RDONLY | os.O_NOFOLLOW,
    os.O_CREAT | os.O_TRUNC | os.O_RDWR,
]
MODES = [0o644, 0o600, 0o755, 0o777, 0o444, 0o000, 0o2755, 0o1777]
SLOTS = 6


class Dice:
    """Makes steps; the weights favour what changes structure."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        makers: list[tuple[int, Callable[[], Step]]] = [
            (8, self.an_open), (6, self.a_use), (3, self.a_symlink), (12, self.a_rename), (1, self.a_chown),
            (5, lambda: ("mkdir", self.path(), self.dice.choice(MODES[:4]))),
            (5, lambda: ("rmdir", self.path())),
            (8, lambda: ("unlink", self.path())),
            (5, lambda: ("link", self.path(), self.path(), self.dice.random() < 0.3)),
            (3, lambda: ("chmod", self.path(), self.dice.choice(MODES))),
            (2, lambda: ("truncate", self.path(), self.dice.randrange(20))),
            (1, lambda: ("mknod", self.path(), self.dice.choice([stat.S_IFIFO, stat.S_IFREG]) | 0o644)),
            (1, lambda: ("chdir", self.dice.choice([b"/", b"/home", b"/home/deep"]))),
            (1, lambda: ("getcwd",)),
            (6, lambda: ("stat", self.path(), self.dice.random() < 0.5)),
            (2, lambda: ("readlink", self.path())),
            (3, lambda: ("kinds", self.path())),
            (3, lambda: ("same", self.path(), self.path())),
        ]
        self.weights = [weight for weight, _ in makers]
        self.makers = [maker for _, maker in makers]

    def name(self) -> bytes:
        return self.dice.choice(NAMES)

    def path(self) -> bytes:
        path = self.dice.choice(STARTS) + b"/" + self.name()
        if self.dice.random() < 0.25:
            path += b"/" + self.name()
        if self.dice.random() < 0.04:
            path += b"/"
        return b"/" + path if self.dice.random() < 0.7 else path

    def an_open(self) -> Step:
        # O_NONBLOCK, for there are FIFOs about.
        flags = self.dice.choice(OPEN_FLAGS) | os.O_NONBLOCK
        return "open", self.dice.randrange(SLOTS), self.path(), flags, self.dice.choice(MODES[:3])

    def a_use(self) -> Step:
        slot = self.dice.randrange(SLOTS)
        uses: list[Step] = [
            ("fstat", slot), ("fstat", slot), ("read", slot), ("write", slot, b"w%d" % self.dice.randrange(100)),
            ("fchmod", slot, self.dice.choice(MODES[:5])), ("linkfd", slot, self.path()),
        ]
        return self.dice.choice(uses)

    def a_symlink(self) -> Step:
        return "symlink", self.dice.choice([b"", b"../", b"/home/"]) + self.name(), self.path()

    def a_rename(self) -> Step:
        return "rename", self.path(), self.path(), self.dice.choice([0, 0, 0, 1, 2])

    def a_chown(self) -> Step:
        return "chown", self.path(), self.dice.choice([-1, GUEST]), self.dice.choice([-1, GUEST, FRIENDS])

    def step(self) -> Step:
        return self.dice.choices(self.makers, self.weights)[0]()


def random_steps(seed: int, count: int) -> list[Step]:
    dice = Dice(seed)
    steps: list[Step] = [("open", slot, b"/home/file", os.O_RDONLY) for slot in range(SLOTS)]
    steps += [dice.step() for _ in range(count)]
    # At the end, everything is looked at.
    for start in b"/home /home/deep /home/deep/er /home/empty /shared /team /home/a /home/b".split():
        steps += [("kinds", start), *[("stat", start + b"/" + name, False) for name in NAMES]]
    return steps
