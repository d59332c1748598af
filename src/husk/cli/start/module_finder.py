"""cli: finds husk's own modules without a search. Only the `husk` command does; a program that imports husk does not.

Python looks for each module in a folder's listing, under five endings, and asks the host twelve things about it. A run
imports more than a hundred modules of husk and knows where they lie: beside each other, compiled by the installation.
So this opens the compiled file at once, and compares it with the source as Python does. What is not as expected (no
compiled file, an old one, an extension module, compiled files elsewhere) is left to Python.

What a run is known to import is imported here one by one (`load`), before anything asks for it: Python's own import
takes a lock for each module, asks every finder and so on, which is a fifth of all that imports cost.
"""

from __future__ import annotations

import marshal
import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType, ModuleType

HEAD = 16  # bytes: magic number, flags, the source's time and size
CHECKED_BY_TIME = b"\0\0\0\0"  # the flags of a file that is valid while the source's time and size are the same


def find_quickly() -> None:
    """From now on, in this process."""
    # Other settings, other files.
    if sys.pycache_prefix is None and not sys.flags.optimize and sys.implementation.cache_tag:
        sys.meta_path.insert(0, ModuleFinder(sys.implementation.cache_tag))


def load(names: Iterable[str]) -> None:
    """Import these modules, each behind the package that it is in and all that it imports. One that is not as expected
    is left to whoever imports it. Not beside another thread that imports."""
    finder = sys.meta_path[0]
    for name in names if isinstance(finder, ModuleFinder) else ():
        above, _, tail = name.rpartition(".")
        package = sys.modules.get(above)
        if name in sys.modules or package is None:
            continue
        spec = finder.find_spec(name, package.__path__)
        if spec is None or not isinstance(spec.loader, CompiledLoader):
            continue
        module = _new_module(spec)
        sys.modules[name] = module
        try:
            exec(spec.loader.get_code(name) or "", module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        setattr(package, tail, module)


def _new_module(spec: ModuleSpec) -> ModuleType:
    """As Python's own import makes it."""
    module = type(sys)(spec.name)
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    module.__cached__, module.__package__ = spec.cached, spec.parent  # type: ignore[attr-defined]
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
    return module


class ModuleFinder:
    def __init__(self, tag: str) -> None:
        self._ending = f".{tag}.pyc"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """`path`: the folders of the package that the module is in."""
        if path is None or name[:5] != "husk." or len(path) != 1:
            return None
        (folder,) = path
        tail = name.rpartition(".")[2]
        return self._module(name, folder, tail) or self._module(name, f"{folder}/{tail}", "__init__")

    def _module(self, name: str, folder: str, tail: str) -> ModuleSpec | None:
        source, compiled = f"{folder}/{tail}.py", f"{folder}/__pycache__/{tail}{self._ending}"
        try:
            fd = posix.open(compiled, posix.O_RDONLY | posix.O_CLOEXEC)
        except OSError:
            return None
        try:
            found, size = posix.stat(source), posix.fstat(fd).st_size
            content = posix.read(fd, size)
        except OSError:
            return None
        finally:
            posix.close(fd)
        expected = (
            MAGIC_NUMBER
            + CHECKED_BY_TIME
            + (int(found.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little")
            + (found.st_size & 0xFFFFFFFF).to_bytes(4, "little")
        )
        if len(content) != size or content[:HEAD] != expected:
            return None
        package = tail == "__init__"
        spec = ModuleSpec(name, CompiledLoader(name, source, content), origin=source, is_package=package)
        spec.has_location = True
        spec.cached = compiled
        if package:
            spec.submodule_search_locations = [folder]
        return spec


class CompiledLoader(SourceFileLoader):
    """Python's own loader of source files, that has read the compiled one already."""

    def __init__(self, name: str, source: str, content: bytes) -> None:
        super().__init__(name, source)
        self._content: bytes | None = content

    def get_code(self, fullname: str) -> CodeType | None:
        content, self._content = self._content, None
        if content is None:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(memoryview(content)[HEAD:])
        _fix_co_filename(code, self.path)
        return code
