"""vfs: what the vfs asks about the processes of a box. Shape only: the kernel answers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    class Holders(Protocol):
        """The processes of the box, as far as the vfs has to ask about them."""

        def runs(self, identity: tuple[int, int]) -> bool:
            """Does a process run this file?"""

        def held_links(self) -> Iterable[bytes]:
            """The links of all open descriptors and working directories."""

        def held_files(self) -> Iterable[tuple[bytes, int, int]]:
            """Link, device and inode number of each open file that has a name, or had one."""
