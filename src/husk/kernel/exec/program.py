"""kernel: the program that execve(2) runs: `#!` lines, ELF and APE headers, parsed as Linux's binfmt handlers do.

Every error must be found here: once the loader runs, the old program is gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat as st
from _struct import Struct  # the bare C module: see cli/cmd_run.py

from husk.kernel.call import AT_FDCWD, start_dir
from husk.native._core import WAKE_SIGNAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from husk.kernel.call import Call
    from husk.vfs.node import Node

BINPRM_BUF_SIZE = 256
MOST_INTERPRETERS = 5  # exec_binprm: a sixth rewrite is ELOOP
ELF_HEADER = Struct("<16sHHIQQQIHHHHHH")
ELF_PHDR = Struct("<IIQQQQQQ")
EM_X86_64, ET_EXEC, ET_DYN, PT_INTERP = 62, 2, 3, 3
APE_MAGICS = (b"MZqFpD='", b"jartsr='", b"APEDBG='")
APE_HEADER_BYTES = 8192


class Program:
    """A program ready to be loaded. Owns its two descriptors until closed."""

    __slots__ = (
        "comm",
        "elf_header",
        "exe",
        "execfn",
        "identity",
        "interpreter",
        "interpreter_fd",
        "node",
        "prefix",
        "program_fd",
    )

    def __init__(self, execfn: bytes, comm: bytes) -> None:
        self.execfn, self.comm = execfn, comm[:15]
        self.prefix: list[bytes] = []
        self.exe = b""
        self.elf_header: bytes | None = None  # for the loader, where it is not at the start of the file (APE)
        self.program_fd = self.interpreter_fd = -1
        self.identity = (0, 0)
        self.node: Node | None = None
        self.interpreter: Node | None = None

    def close(self) -> None:
        for fd in (self.program_fd, self.interpreter_fd):
            if fd >= 0:
                os.close(fd)
        self.program_fd = self.interpreter_fd = -1


class Executable:
    """One file opened for execution: by the vfs, or an unnamed file of the guest (a memfd)."""

    __slots__ = ("fd", "node", "path")

    def __init__(self, fd: int, node: Node | None, path: bytes) -> None:
        self.fd, self.node, self.path = fd, node, path


def open_executable(call: Call, node: Node, path: bytes) -> Executable:
    """EACCES unless it is a regular file with execute permission. Read permission is not needed, as on Linux."""
    if node.kind != st.S_IFREG:
        raise OSError(errno.EACCES, "not a regular file")
    call.vfs.access_node(call, node, os.X_OK)
    if call.domain is not None:
        with call.vfs.lock:
            call.domain.require_program(call, node)
    fd = node.tree.open(call, node, os.O_RDONLY)
    # No guest can have a lower file or a file on a read-only mount open for writing.
    if not node.tree.read_only and node.tree.unchanged_file(node) is None and _open_for_writing(fd):
        os.close(fd)
        raise OSError(errno.ETXTBSY, "it is open for writing")
    return Executable(fd, None if node.holder() is not None else node, path)


def _open_for_writing(fd: int) -> bool:
    """The host grants a read lease only while the file is not open for writing: take one, and release it."""
    try:
        # If a process opens it for writing right now, the host sends husk a signal: choose one that does not kill husk.
        fcntl.fcntl(fd, fcntl.F_SETSIG, WAKE_SIGNAL)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        # EACCES: another user's file (a lower file, which no guest can write); EINVAL: a file system without leases.
        return error.errno == errno.EAGAIN
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def prepare(call: Call, first: Executable, execfn: bytes, comm: bytes | None, *, hidden: bool) -> Program:
    """Follow `#!` lines from `first` to an ELF file and its interpreter. Takes ownership of first.fd.

    `comm` None: use the name of the file that runs in the end. `hidden`: an interpreter could not open `execfn`,
    because the descriptor that it names is close-on-exec.
    """
    program = Program(execfn, comm or b"")
    program.program_fd = first.fd
    current, name = first, execfn
    try:
        for _ in range(MOST_INTERPRETERS + 1):
            head = os.pread(current.fd, BINPRM_BUF_SIZE, 0)
            if head[:2] != b"#!":
                break
            interpreter, argument = script_line(head)
            if hidden:
                raise OSError(errno.ENOENT, "the interpreter could not open the script")
            # argv[0] is replaced by the interpreter, its argument and the script's own name.
            program.prefix = [interpreter, *([argument] if argument is not None else []), name, *program.prefix[1:]]
            node = _walk(call, interpreter)
            current = open_executable(call, node, guest_path(call, node, interpreter))
            os.close(program.program_fd)
            program.program_fd = current.fd
            name = interpreter
        else:
            raise OSError(errno.ELOOP, "scripts that run scripts, too deep")
        header = head[:64]
        if head[:8] in APE_MAGICS:
            program.elf_header = header = ape_elf_header(os.pread(current.fd, APE_HEADER_BYTES, 0))
        interpreter_name = elf_interpreter(current.fd, header)
        if interpreter_name is not None:
            node = _walk(call, interpreter_name)
            program.interpreter = node
            program.interpreter_fd = open_executable(call, node, interpreter_name).fd
            check_interpreter(program.interpreter_fd)
        program.exe, program.node = current.path, current.node
        if comm is None:
            program.comm = current.path.removesuffix(b" (deleted)").rsplit(b"/", 1)[-1][:15]
        if current.node is not None:
            program.identity = call.vfs.identity(call, current.node)
        return program
    except BaseException:
        program.close()
        raise


def _walk(call: Call, name: bytes) -> Node:
    return call.vfs.walk(call, start_dir(call, AT_FDCWD, name), name)


def guest_path(call: Call, node: Node, name: bytes) -> bytes:
    """The path of an executable for /proc/self/exe, with symbolic links resolved."""
    holder = node.holder()
    if holder is not None:
        return call.kernel.tasks.fd_text(call, *holder)
    return call.vfs.path_of_node(node) or name


def script_line(head: bytes) -> tuple[bytes, bytes | None]:
    """Interpreter and its optional argument, parsed step by step as load_script does: a zeroed buffer of 256 bytes; a
    NUL ends the search for a newline; the byte behind the last may end a name."""
    buffer = head[:BINPRM_BUF_SIZE].ljust(BINPRM_BUF_SIZE, b"\0")
    last = BINPRM_BUF_SIZE - 1
    end = buffer.find(b"\n", 0, buffer.find(b"\0") if b"\0" in buffer else BINPRM_BUF_SIZE)
    if end < 0:
        start = _skip_blanks(buffer, 2, last)
        if start < 0 or _terminator(buffer, start, last) < 0:
            raise OSError(errno.ENOEXEC, "the interpreter's name does not end")
        end = last
    while buffer[end - 1] in b" \t":
        end -= 1
    buffer = buffer[:end] + b"\0"
    name = _skip_blanks(buffer, 2, end)
    if name < 0 or name == end:
        raise OSError(errno.ENOEXEC, "no interpreter is named")
    stop = _terminator(buffer, name, end)
    argument = _skip_blanks(buffer, stop, end) if buffer[stop] else -1
    if stop == name:
        raise OSError(errno.EACCES, "an empty name, which Linux takes for the working directory")
    return buffer[name:stop], buffer[argument:].split(b"\0", 1)[0] if argument >= 0 else None


def _skip_blanks(buffer: bytes, at: int, last: int) -> int:
    return next((i for i in range(at, last + 1) if buffer[i] not in b" \t"), -1)


def _terminator(buffer: bytes, at: int, last: int) -> int:
    return next((i for i in range(at, last + 1) if buffer[i] in b" \t\0"), -1)


def ape_elf_header(head: bytes) -> bytes:
    """The ELF header of an Actually Portable Executable, from the octal escapes of one of its printf statements."""
    at = 0
    while (at := head.find(b"printf '", at)) >= 0:
        at += len(b"printf '")
        header = _unescape_octal(head[at : head.find(b"'", at)])
        if len(header) >= 64 and header[:4] == b"\x7fELF" and header[18:20] == EM_X86_64.to_bytes(2, "little"):
            return header[:64]
    raise OSError(errno.ENOEXEC, "no ELF header for this machine inside")


def _unescape_octal(text: bytes) -> bytes:
    out = bytearray()
    i = 0
    while i < len(text):
        if text[i : i + 1] != b"\\":
            out.append(text[i])
            i += 1
            continue
        j = i + 1
        while j < i + 4 and text[j : j + 1] in (b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7") and j < len(text):
            j += 1
        if j == i + 1:
            return b""
        out.append(int(text[i + 1 : j], 8) & 0xFF)
        i = j
    return bytes(out)


def elf_interpreter(fd: int, header: bytes) -> bytes | None:
    """The path in PT_INTERP, None for a program without one; ENOEXEC for a file that Linux would not load."""
    phdrs = _program_headers(fd, header)
    if phdrs is None:
        raise OSError(errno.ENOEXEC, "not a program for x86-64 Linux")
    for kind, _flags, offset, _vaddr, _paddr, size, _memsz, _align in phdrs:
        if kind != PT_INTERP:
            continue
        if not 2 <= size <= 4096:
            raise OSError(errno.ENOEXEC, "the interpreter's name has no sensible length")
        name = _pread(fd, size, offset)
        if len(name) < size:
            raise OSError(errno.EIO, "the interpreter's name is cut off")
        if name[-1:] != b"\0":
            raise OSError(errno.ENOEXEC, "the interpreter's name does not end")
        name = name.split(b"\0", 1)[0]
        if not name:
            raise OSError(errno.EACCES, "an empty name, which Linux takes for the working directory")
        return name
    return None


def check_interpreter(fd: int) -> None:
    header = os.pread(fd, 64, 0)
    if len(header) < 64:
        raise OSError(errno.EIO, "the interpreter is cut off")
    if header[:4] != b"\x7fELF" or _program_headers(fd, header) is None:
        raise OSError(errno.ELIBBAD, "the interpreter is no ELF file for this machine")


def _program_headers(fd: int, header: bytes) -> list[tuple[int, ...]] | None:
    if len(header) < 64:
        return None
    ident, kind, machine, _version, _entry, phoff, _shoff, _flags, _ehsize, phentsize, phnum, *_ = ELF_HEADER.unpack(
        header
    )
    if ident[:4] != b"\x7fELF" or kind not in (ET_EXEC, ET_DYN) or machine != EM_X86_64 or phentsize != 56:
        return None
    if not 1 <= phnum <= 65536 // 56:
        return None
    try:
        table = _pread(fd, phnum * 56, phoff)
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise
        return None
    if len(table) < phnum * 56:
        return None
    return list(ELF_PHDR.iter_unpack(table))


def _pread(fd: int, size: int, offset: int) -> bytes:
    """Offsets come from a file and may be out of range: EINVAL, as the host says."""
    if offset + size >= 1 << 63:
        raise OSError(errno.EINVAL, "an offset beyond every file")
    return os.pread(fd, size, offset)
