"""compat: which system calls a program can make, through its own code and that of its libraries.

From the entry point along calls, jumps and addresses that code takes, across files by the names of symbols, as the
dynamic loader binds them. Not here: the code of one file (code_graph.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from husk.compat.look import look_cache
from husk.compat.look.code_graph import Ask, Code, Function, scan
from husk.compat.look.elf_file import ElfFile, Unreadable, read_elf, read_whole
from husk.compat.look.facts import LIBRARY, OWN, POINTER, START, SURENESS, Library, Place, Use, call_name
from husk.compat.look.file_tree import FileTree, LibrarySearch
from husk.compat.look.propagate import CALL_ARGUMENTS, Called
from husk.compat.look.telling import TELLING

MOST_LIBRARIES = 300
MOST_USES = 4000
MOST_RECENT = 16
WORTH_KEEPING = 0.2  # seconds that a scan took
MOST_STEPS = 2000  # from the entry point, while nothing is decided
# The loader finds this function of libc by its name at run time.
BY_NAME = ("__libc_early_init",)
# What the loader does for every program before its entry point runs: traced with strace, glibc 2.36 and musl 1.2.
LOADER_START: dict[str, tuple[tuple[int, int], ...]] = {
    "openat": (),
    "read": (),
    "mmap": (),
    "mprotect": (),
    "close": (),
    "arch_prctl": ((0, 0x1002),),  # ARCH_SET_FS
}


@dataclass
class Loaded:
    path: str  # in the tree
    file: ElfFile
    code: Code


class Reach:
    """The files of one program, and what is reached in them."""

    def __init__(self, main: Loaded, tree: FileTree, deadline: float) -> None:
        self.main = main
        self.libraries: list[Library] = []
        self.unseen: list[str] = []
        self.numberless: list[Place] = []  # system calls whose number could not be seen
        self.loaded = [main]
        self.loader: Loaded | None = None
        self._tree, self._deadline = tree, deadline
        self._load_libraries(LibrarySearch(tree))
        self.exporters: dict[str, tuple[int, int]] = {}
        for n, one in enumerate(self.loaded):
            for name, start in one.code.exports.items():
                if start in one.code.functions:  # a damaged table names places outside the code
                    self.exporters.setdefault(name, (n, start))
        self.reached: dict[tuple[int, int], str] = {}
        self.named: set[str] = set()  # imports that reached code of the main file names
        self._near: set[tuple[int, int]] = set()

    def _load_libraries(self, search: LibrarySearch) -> None:
        waiting = [(name, self.main) for name in self.main.file.needed]
        if self.main.file.interpreter:
            waiting.append((self.main.file.interpreter, self.main))
        seen: set[str] = set()
        while waiting and len(self.loaded) < MOST_LIBRARIES:
            name, by = waiting.pop(0)
            if os.path.basename(name) in seen:
                continue
            seen.add(os.path.basename(name))
            path = search.find(name, by.path, [*by.file.search, *self.main.file.search])
            self.libraries.append(Library(name, path or ""))
            found = load(path, self._tree, self._deadline) if path else None
            if found is None or found.file.machine != self.main.file.machine:
                self.unseen.append(f"the library {name} was not found; what it calls is not known")
                continue
            self.loaded.append(found)
            if name == self.main.file.interpreter or name.startswith("ld-"):
                self.loader = found
            waiting += [(more, found) for more in found.file.needed]

    def run(self) -> list[Use]:
        self._follow()
        uses: dict[tuple[object, ...], tuple[Use, bool]] = {}
        for use, template in self._uses():
            uses.setdefault((use.call, use.values, use.sure, use.blind, template), (use, template))
            if len(uses) >= MOST_USES:
                self.unseen.append(f"more than {MOST_USES} different calls and arguments; the rest was left out")
                break
        # A wrapper says nothing of its arguments; it counts only where no caller of it was seen.
        order = list(SURENESS)
        concrete: dict[str, int] = {}
        for use, template in uses.values():
            if not template:
                concrete[use.call] = min(concrete.get(use.call, len(order)), order.index(use.sure))
        return [
            use
            for use, template in uses.values()
            if not template or order.index(use.sure) < concrete.get(use.call, len(order))
        ]

    def _roots(self) -> Iterator[tuple[int, int, str]]:
        """Where code begins to run: file, address, how sure."""
        for n, one in enumerate(self.loaded):
            for start in one.file.starts:
                yield n, start, OWN if n == 0 else LIBRARY
            if one is self.loader:
                yield n, one.file.entry, LIBRARY
        if self.main.file.kind == "library":
            for start in self.main.file.exports.values():
                yield 0, start, OWN
        else:
            yield 0, self.main.file.entry, OWN
        for name in BY_NAME:
            if name in self.exporters:
                n, start = self.exporters[name]
                yield n, start, LIBRARY

    def _follow(self) -> None:
        waiting = [(n, start) for n, start, _ in self._roots()]
        self._spread(waiting, LIBRARY)
        pointers = [(0, start) for start in sorted(self.main.code.data_functions)]
        for n, one in enumerate(self.loaded[1:], 1):
            pointers += [(n, start) for start in sorted(one.code.data_functions)]
        self._spread(pointers, POINTER)

    def _spread(self, waiting: list[tuple[int, int]], sure: str) -> None:
        while waiting:
            n, start = waiting.pop()
            if (n, start) in self.reached:
                continue
            function = self.loaded[n].code.functions.get(start)
            if function is None:
                continue
            self.reached[n, start] = OWN if n == 0 and sure != POINTER else sure
            waiting += [(n, target) for target in sorted(function.edges)]
            for name in sorted(function.imports):
                found = self.exporters.get(name)
                if found is not None:
                    waiting.append(found)
                    if n == 0:
                        self._near.add(found)
                if n == 0:
                    self.named.add(name)

    def _uses(self) -> Iterator[tuple[Use, bool]]:
        """Each use, and whether it is a wrapper's, whose callers say what the arguments are."""
        certain = straight_line(self.main) if self.main.file.kind != "library" else set()
        for (n, start), sure in self.reached.items():
            one = self.loaded[n]
            function = one.code.functions[start]
            if (n, start) in self._near and sure == LIBRARY:
                sure = OWN
            for ask in function.asks:
                for made in self._resolved(ask, 0):
                    here = START if n == 0 and ask.address in certain else sure
                    yield from self._use(made, Place(one.path, ask.address, _shown(function)), here)
        if self.main.file.interpreter:
            for name, values in LOADER_START.items():
                yield Use(name, values, Place(self.main.file.interpreter, 0, "start"), START), False

    def _resolved(self, ask: Ask, depth: int) -> Iterator[Ask]:
        """A call of an imported function becomes the system calls of that function with these arguments."""
        if not ask.symbol:
            yield ask
            return
        found = self.exporters.get(ask.symbol)
        if found is None or depth > 3:
            return
        called = Called(ask.address, 0, False, dict(zip(CALL_ARGUMENTS, ask.arguments, strict=True)), {})
        for inner in self.loaded[found[0]].code.functions[found[1]].asks:
            if inner.template:
                yield from self._resolved(inner.completed(called), depth + 1)

    def _use(self, ask: Ask, place: Place, sure: str) -> Iterator[tuple[Use, bool]]:
        if not isinstance(ask.number, frozenset):
            if ask.number is None:
                self.numberless.append(place)
            return
        for number in sorted(ask.number):
            telling = TELLING.get(number, ())
            known: list[tuple[tuple[int, int], ...]] = [()]
            blind = False
            for n, value in enumerate(ask.arguments):
                if isinstance(value, frozenset) and (n in telling or len(value) == 1):
                    known = [(*before, (n, one)) for before in known[:16] for one in sorted(value)]
                elif n in telling:
                    blind = True
            template = any(isinstance(ask.arguments[n], tuple) for n in telling)
            for values in known:
                kept = tuple((n, one) for n, one in values if n in telling or _worth(telling, one))
                yield Use(call_name(number & 0xFFFFFFFF), kept, place, sure, blind), template


def _worth(telling: tuple[int, ...], value: int) -> bool:
    """Other constants are shown where they stand beside a telling one: an address, a size."""
    return bool(telling) and value < 1 << 63


def _shown(function: Function) -> str:
    return function.name or f"function at {function.start:#x}"


def load(path: str, tree: FileTree, deadline: float) -> Loaded | None:
    """A library, from the cache if its content was looked at before; None if it is not what it should be."""
    host = tree.find(path)
    if host is None:
        return None
    try:
        content = read_whole(host)
        if content[:4] != b"\x7fELF":
            return None
        file = read_elf(path, content)
    except Unreadable:
        return None
    return Loaded(path, file, code_of(file, deadline))


_recent: dict[str, Code] = {}  # of this process: the parts of a directory share their libraries


def code_of(file: ElfFile, deadline: float) -> Code:
    key = look_cache.key_of(file.content)
    code = _recent.pop(key, None) or look_cache.load(key)
    if code is None:
        before = time.thread_time()
        code = scan(file, deadline)
        if time.thread_time() >= deadline:
            return code  # perhaps not all of it
        if time.thread_time() - before > WORTH_KEEPING:
            look_cache.keep(key, code)
    _recent[key] = code
    if len(_recent) > MOST_RECENT:
        del _recent[next(iter(_recent))]
    return code


def straight_line(main: Loaded) -> set[int]:
    """Addresses of system calls that the program makes before its first decision: they are made in any case."""
    from capstone import CS_ARCH_X86, CS_MODE_64, Cs

    engine = Cs(CS_ARCH_X86, CS_MODE_64)
    made: set[int] = set()
    at, returns = main.file.entry, list[int]()
    for _ in range(MOST_STEPS):
        step = next(engine.disasm_lite(main.file.bytes_at(at, 16), at, 1), None)
        if step is None:
            break
        address, size, mnemonic, operands = step
        at = address + size
        if mnemonic == "syscall":
            made.add(address)
        elif mnemonic in ("call", "jmp"):
            if not operands.startswith("0x"):
                break
            if mnemonic == "call":
                returns.append(at)
            at = int(operands, 16)
        elif mnemonic == "ret" and returns:
            at = returns.pop()
        elif mnemonic[0] == "j" or mnemonic in ("ret", "ud2", "hlt", "loop"):
            break
    return made
