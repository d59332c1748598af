"""compat: look at a file or directory without running it: what it is, and what it can ask of Linux.

ELF files, scripts with their interpreter, Actually Portable Executables, and directories whose native parts count:
Python environments, packages of npm. Time and memory are bounded, whatever the bytes are; what could not be seen is
said. Not here: what a runtime makes of it (verdict).
"""

from __future__ import annotations

import os
import time

from husk.compat.look.elf_file import X86_64, ElfFile, Unreadable, read_elf, read_whole
from husk.compat.look.facts import OWN, Library, Look, Use
from husk.compat.look.file_tree import FileTree, HostTree
from husk.compat.look.reach import Loaded, Reach, code_of
from husk.kernel.exec.program import APE_HEADER_BYTES, APE_MAGICS, ape_elf_header, script_line
from husk.sandbox.errors import UsageError

SECONDS = 60.0  # of the processor's time, for one program with its libraries
MOST_PARTS = 400  # native files of one directory
MOST_ENTRIES = 200_000
MOST_INTERPRETERS = 5
MOST_PROGRAMS = 20  # that a shell script starts
# What a directory holds that no program loads.
_LEFT_OUT = {".git", "__pycache__", ".hg", ".svn"}
_NATIVE = (".so", ".node")
_LOADERS_OF_CODE = ("dlopen", "dlmopen", "__libc_dlopen_mode")


def look_at(path: str, tree: FileTree | None = None, *, seconds: float = SECONDS) -> Look:
    """Raises Unreadable (a UsageError) where there is nothing to look at."""
    _need_libraries()
    began = time.thread_time()
    here = tree or HostTree()
    if tree is None and os.path.isdir(path):
        found = _directory(path, began + seconds)
    else:
        found = _file(path, here, began + seconds, depth=0)
    found.seconds = time.thread_time() - began
    return found


def _need_libraries() -> None:
    try:
        import capstone  # noqa: F401
        import elftools  # noqa: F401
    except ImportError:
        raise UsageError("looking at programs needs two more libraries: pip install 'huskbox[compat]'") from None


def _file(path: str, tree: FileTree, deadline: float, depth: int) -> Look:
    host = tree.find(path)
    if host is None:
        if isinstance(tree, HostTree) and os.path.exists(path):
            raise Unreadable(f"{path}: not a regular file; name a program, a script or a directory.")
        raise Unreadable(f"{path}: there is no such file; name a program, a script or a directory.")
    content = read_whole(host)
    if content[:4] == b"\x7fELF":
        return _elf(path, content, tree, deadline)
    if content[:8] in APE_MAGICS:
        return _ape(path, content, tree, deadline)
    if content[:2] == b"#!":
        return _script(path, content, tree, deadline, depth)
    if not content:
        raise Unreadable(f"{path}: the file is empty.")
    if content[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe") or content[:2] == b"MZ":
        raise Unreadable(f"{path}: a program for another system; Linux does not run it.")
    raise Unreadable(
        f"{path}: neither an ELF file nor a script with `#!`; Linux does not run it. Name its interpreter after"
        " `--`, or add a `#!` line."
    )


def _elf(path: str, content: bytes, tree: FileTree, deadline: float) -> Look:
    file = read_elf(path, content)
    look = Look(path, "ELF", _machine(file.machine), file.bits, file.kind, file.static, file.interpreter, file.language)
    look.problems += file.problems
    if file.machine != X86_64 or file.bits != 64:
        look.libraries = [Library(name, "") for name in file.needed]
        look.blind = True
        look.unseen.append(f"a {file.bits}-bit program for {look.machine}: only code for x86-64 is looked at")
        return look
    if file.kind not in ("executable", "pie", "library"):
        raise Unreadable(f"{path}: {_article(file.kind)}, which cannot be run.")
    reach = Reach(Loaded(path, file, code_of(file, deadline)), tree, deadline)
    look.uses = reach.run()
    look.libraries = reach.libraries
    _add_segments(look, reach)
    _add_unseen(look, file, reach)
    return look


def _article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def _machine(name: str) -> str:
    from elftools.elf.descriptions import describe_e_machine

    return {"EM_X86_64": "x86-64", "EM_AARCH64": "AArch64", "EM_386": "i386"}.get(name) or str(describe_e_machine(name))


def _add_segments(look: Look, reach: Reach) -> None:
    code = reach.main.code
    gs = [use for use in code.segments if use.segment == "gs"]
    if code.thread_pointer or reach.main.file.thread_local:
        look.segments["fs"] = ["thread-local storage"]
    if gs:
        look.segments["gs"] = [f"{use.text} at {use.address:#x}" for use in gs[:10]]
        plain = [use.displacement for use in gs if use.displacement is not None]
        look.gs_displacement = plain[0] if plain else None
    bases = [use for use in code.segments if use.text.startswith("wr")]
    if bases:
        look.segments["set by instruction"] = [f"{use.text} at {use.address:#x}" for use in bases[:10]]


def _add_unseen(look: Look, file: ElfFile, reach: Reach) -> None:
    own = [place for place in reach.numberless if place.file == look.path]
    if own:
        places = ", ".join(f"{place.address:#x}" for place in own[:5])
        look.unseen.append(f"{len(own)} system calls whose number is computed or passed in: at {places}")
        look.blind = True
    others = sorted({place.file for place in reach.numberless} - {look.path})
    if others:
        look.unseen.append(f"system calls in {', '.join(others)} whose number could not be followed")
    if file.language == "Go":
        look.unseen.append("calls through Go's interfaces: every method that the linker kept counts as reached")
    loads = sorted(reach.named & set(_LOADERS_OF_CODE))
    if loads:
        look.unseen.append(f"libraries that it loads at run time ({', '.join(loads)}): modules, plug-ins")
    if b"UPX!" in file.content[:4096] or b"UPX!" in file.content[-4096:]:
        look.unseen.append("the program is packed (UPX): its real code appears only when it runs")
        look.blind = True
    if file.writable_code:
        look.unseen.append("a part of it is both writable and executable: it can change its own code")
        look.blind = True
    if any(use.call in ("mmap", "mprotect") and _executable(use) and use.sure == OWN for use in look.uses):
        look.unseen.append("it asks for memory that is executable: code that it makes at run time")
    if reach.main.code.old_calls:
        numbers = ", ".join(map(str, sorted(set(reach.main.code.old_calls))[:10]))
        look.unseen.append(f"calls of i386 by `int 0x80` (numbers {numbers}): not looked at, and ended by husk")
    if not file.whole_functions and not any(name for name in file.functions.values() if name != "the entry point"):
        look.unseen.append("no table tells where its functions begin; they were guessed from what is called")
    look.unseen.append("calls through pointers count as reached if the function's address is stored anywhere")
    look.unseen += [*reach.main.code.unseen, *reach.unseen]
    if reach.main.code.unseen or reach.unseen:
        look.blind = True


def _executable(use: Use) -> bool:
    return bool(dict(use.values).get(2, 0) & 4)  # PROT_EXEC


def _ape(path: str, content: bytes, tree: FileTree, deadline: float) -> Look:
    try:
        header = ape_elf_header(content[:APE_HEADER_BYTES])
    except OSError as error:
        raise Unreadable(f"{path}: an Actually Portable Executable with {error.strerror}.") from None
    look = _elf(path, header + content[len(header) :], tree, deadline)
    look.form = "APE"
    look.language = "C (Cosmopolitan)"
    return look


def _script(path: str, content: bytes, tree: FileTree, deadline: float, depth: int) -> Look:
    try:
        name, argument = script_line(content[:256])
    except OSError as error:
        raise Unreadable(f"{path}: the `#!` line is of no use: {error.strerror}.") from None
    if depth >= MOST_INTERPRETERS:
        raise Unreadable(f"{path}: its interpreter is a script too, and so on; Linux gives up after five.")
    interpreter = os.fsdecode(name)
    look = Look(path, "script", interpreter=interpreter)
    program = interpreter
    if os.path.basename(interpreter) == "env" and argument is not None:
        words = [word for word in os.fsdecode(argument).split() if not word.startswith("-") and "=" not in word]
        if words:
            program = _on_path(words[0], tree)
    try:
        look.parts.append(_file(program, tree, deadline, depth + 1))
    except Unreadable as error:
        look.problems.append(f"its interpreter cannot be looked at: {error}")
        look.blind = True
    look.language = os.path.basename(program)
    look.programs = _started(look.language, content)
    for word in look.programs[:MOST_PROGRAMS] if depth == 0 else []:  # not what these start in turn
        started = _on_path(word, tree)
        if started == program or time.thread_time() > deadline:
            continue
        try:
            look.parts.append(_file(started, tree, deadline, depth + 1))
        except Unreadable:
            look.unseen.append(f"the program {word}, which it seems to start, cannot be looked at")
    look.unseen.append(f"what the script asks {look.language} to do: all of the interpreter counts; trace it to know")
    return look


def _started(language: str, content: bytes) -> list[str]:
    if language not in ("sh", "bash", "dash", "ksh", "zsh"):
        return []
    from husk.skills.syntax.shell_commands import shell_programs

    return sorted(shell_programs(content[: 1 << 16].decode("utf-8", "replace")))


def _on_path(name: str, tree: FileTree) -> str:
    from husk.sandbox.policy import DEFAULT_PATH

    for folder in DEFAULT_PATH.split(":"):
        if tree.find(f"{folder}/{name}"):
            return f"{folder}/{name}"
    return name


def _directory(path: str, deadline: float) -> Look:
    """A directory: its native parts, and the interpreter of a Python environment."""
    look = Look(path, "directory")
    names = native_files(path, look)
    if os.path.isfile(os.path.join(path, "pyvenv.cfg")):
        look.kind = "Python environment"
        names.insert(0, os.path.join(path, "bin", "python"))
    elif os.path.isfile(os.path.join(path, "package.json")):
        look.kind = "npm package"
    tree = HostTree()
    for name in names[:MOST_PARTS]:
        if time.thread_time() > deadline:
            look.unseen.append("the time for looking ran out; some files were not looked at")
            look.blind = True
            break
        try:
            look.parts.append(_file(name, tree, deadline, 0))
        except Unreadable as error:
            look.problems.append(str(error))
    if len(names) > MOST_PARTS:
        look.unseen.append(f"{len(names)} native files; {MOST_PARTS} of them were looked at")
        look.blind = True
    if not look.parts and not look.problems:
        raise Unreadable(f"{path}: no program and no native extension is in this directory; name a file.")
    return look


def native_files(path: str, look: Look) -> list[str]:
    """ELF files below a directory: extensions by their names, programs by their permission. Links are not followed."""
    found: list[str] = []
    entries = 0
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            entries += 1
            if entries > MOST_ENTRIES:
                look.unseen.append(f"more than {MOST_ENTRIES} files; the rest was not looked at")
                look.blind = True
                return found
            full = os.path.join(folder, name)
            if os.path.islink(full) or not os.path.isfile(full):
                continue
            native = name.endswith(_NATIVE) or ".so." in name or os.access(full, os.X_OK)
            if native and _is_elf(full):
                found.append(full)
    return found


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


