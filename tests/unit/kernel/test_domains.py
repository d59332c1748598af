"""Which mark means which Landlock domain, where threads of husk answer several programs at once."""

from __future__ import annotations

import threading
from typing import cast

from husk.kernel.syscalls.restricting import Domains
from husk.native._core import Listener
from husk.vfs.access.landlock_rules import READ_FILE, WRITE_FILE, Ruleset


class NoMarks:
    def use_marks(self) -> None:
        pass


def test_two_that_restrict_themselves_at_once_get_two_marks() -> None:
    domains = Domains(cast("Listener", NoMarks()))
    found: dict[int, int] = {}
    threads: list[threading.Thread] = []

    def enter(rights: int) -> None:
        found[rights] = domains.enter(None, Ruleset(rights, 0, 0))

    class Meanwhile(Ruleset):
        """Compared with another, it lets another thread enter a domain."""

        def grants(self, other: Ruleset) -> bool:
            if not threads:
                threads.append(threading.Thread(target=enter, args=(WRITE_FILE,)))
                threads[0].start()
                threads[0].join(0.2)
            return False

        def frozen(self) -> Ruleset:
            return self

    first = domains.enter(None, Meanwhile(READ_FILE | WRITE_FILE, 0, 0))
    enter(READ_FILE)
    threads[0].join()
    assert len({first, *found.values()}) == 3
