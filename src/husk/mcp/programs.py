"""mcp: programs that run on between the calls of a session: which there are, what they wrote, how they ended. They end
with the session. The tools for them are in `program_tools`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from husk.mcp import answers
from husk.sandbox.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from husk.api.async_process import AsyncBackgroundProcess

MOST_ENDED = 16  # programs that have ended, and can still be asked for
OUTPUT = 1 << 20  # bytes of each program's output that are kept


class Program:
    def __init__(self, name: str, box: str, process: AsyncBackgroundProcess) -> None:
        self.name, self.box, self.process = name, box, process
        self.full: dict[str, Any] | None = None  # the result, once it has ended and was asked for
        self.resource = ""

    @property
    def running(self) -> bool:
        return self.process.process.poll() is None

    async def settle(self, keep: Callable[[dict[str, Any]], str]) -> None:
        """If it has ended, make its result a resource, once. `keep` gives the resource's address."""
        if self.full is None and not self.running:
            result = await self.process.result()
            if self.full is None:
                self.full = answers.full_result(result, self.box)
                self.resource = keep(self.full)


class Programs:
    """The programs of a session by name: 1, 2, 3 and so on."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._programs: dict[str, Program] = {}
        self._count = 0

    def check_room(self) -> None:
        running = [one.name for one in self._programs.values() if one.running]
        if len(running) >= self._most:
            raise UsageError(f"this session may have {self._most} programs running; stop one of {', '.join(running)}.")

    def add(self, box: str, process: AsyncBackgroundProcess) -> Program:
        self._count += 1
        made = self._programs[str(self._count)] = Program(str(self._count), box, process)
        ended = [name for name, one in self._programs.items() if not one.running]
        for name in ended[:-MOST_ENDED]:
            del self._programs[name]
        return made

    def get(self, name: str) -> Program:
        if name not in self._programs:
            known = f"there are {', '.join(self._programs)}" if self._programs else "none was started"
            raise UsageError(f"there is no program {name!r}; {known}.")
        return self._programs[name]

    def all(self) -> list[Program]:
        return list(self._programs.values())
