"""execve(2), execveat(2), and husk_call: the loader asks what to load.

The host never resolves a guest's program. husk resolves it, remembers the result for the process, and makes the thread
execute the loader, which asks for it. See docs/design/001-execution.md.
"""

from __future__ import annotations

import errno
import os
import stat as st
from _struct import Struct  # the bare C module: see cli/cmd_run.py

from husk.kernel.call import AT_FDCWD, Call, Reply, answered_remotely, duplicate, held_node, i32, path, start_dir, u32
from husk.kernel.exec.program import Executable, Program, guest_path, open_executable, prepare

AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH = 0x100, 0x1000
EXEC_INFO = Struct("<IIiiIIIIII16s64s2Q64s")  # struct husk_exec_info, native/loader/protocol.h
EXEC_MAGIC, EXEC_VERSION = 0x6B737568, 1
HEADER_GIVEN = 1


def execve(call: Call) -> Reply:
    return _exec(call, AT_FDCWD, 0, call.args[1], call.args[2], 0)


def execveat(call: Call) -> Reply:
    flags = u32(call, 4)
    path(call, 1)
    if flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flag")
    return _exec(call, i32(call, 0), 1, call.args[2], call.args[3], flags)


def husk_call(call: Call) -> Reply:
    """Only a loader that husk started may ask. For any other caller it is an unknown system call."""
    raise OSError(errno.ENOSYS, "not asked by a loader")  # loaders are answered by native/remote/pending_exec.c


# -- what they mean ----------------------------------------------------------------------------------------------------


def _exec(call: Call, dirfd: int, name_argument: int, argv: int, envp: int, flags: int) -> Reply:
    name = path(call, name_argument)
    if not name and flags & AT_EMPTY_PATH:
        first, execfn = _held_executable(call, dirfd)
        comm, in_fd = None, True
    else:
        start = start_dir(call, dirfd, name)
        node = call.vfs.walk(call, start, name, follow=not flags & AT_SYMLINK_NOFOLLOW)
        if node.kind == st.S_IFLNK:
            raise OSError(errno.ELOOP, "a symbolic link, and told not to follow")
        first = open_executable(call, node, guest_path(call, node, name))
        execfn = name if dirfd == AT_FDCWD or name[:1] == b"/" else b"/dev/fd/%d/%s" % (dirfd, name)
        comm, in_fd = name.rsplit(b"/", 1)[-1], execfn is not name
    program = prepare(call, first, execfn, comm, hidden=in_fd and _closes_on_exec(call, dirfd))
    given = call.given.get(name_argument, name)
    try:
        named = call.kernel.name_program(given)
        if call.kernel.programs is not None:  # before the C core learns it: a program it knows by name runs unasked
            call.kernel.programs.check(program, first)
        if program.node is not None:
            call.vfs.executed(call, program.node)
            if not program.prefix and program.elf_header is None and name[:1] == b"/":
                call.looked_up = call.vfs.root, name
                info = describe(program, call.kernel.eintr_bitmap)
                found = named and given == name
                unasked = found and call.kernel.name_unasked(name)
                call.kernel.names.learn_program(call, name, program, info, named=found, unasked=unasked)
        info = describe(program, call.kernel.eintr_bitmap)
        call.kernel.events.executed(call, name, program, argv)
        # The byte behind the name is a NUL in the guest's own memory: the empty path that execveat needs.
        empty = call.args[name_argument] + len(given)
        fds = program.program_fd, program.interpreter_fd
        error = call.raw.exec_loader(call.kernel.loader_fd, empty, argv, envp, *fds, info, given if named else b"")
    except BaseException:
        program.close()
        raise
    return answered_remotely(error)  # the descriptors are the core's by now


def _closes_on_exec(call: Call, fd: int) -> bool:
    with open(f"/proc/{call.tid}/fdinfo/{fd}", "rb") as info:
        return any(line.startswith(b"flags:") and int(line[6:], 8) & os.O_CLOEXEC for line in info)


def _held_executable(call: Call, fd: int) -> tuple[Executable, bytes]:
    execfn = b"/dev/fd/%d" % fd
    node = held_node(call, fd)
    if node is not None:
        return open_executable(call, node, guest_path(call, node, execfn)), execfn
    # A file without a name, such as a memfd: husk runs the file behind the descriptor.
    dup = duplicate(call, fd)
    try:
        found = os.fstat(dup)
        if not st.S_ISREG(found.st_mode) or not found.st_mode & 0o111:
            raise OSError(errno.EACCES, "not an executable file")
        link = call.raw.fd_link(fd)
        reopened = os.open(f"/proc/self/fd/{dup}", os.O_RDONLY | os.O_CLOEXEC)
        return Executable(reopened, None, link), execfn
    finally:
        os.close(dup)


def describe(program: Program, eintr_bitmap: bytes) -> bytes:
    """struct husk_exec_info and its strings, without the descriptors, which get their numbers later."""
    prefix = b"".join(text + b"\0" for text in program.prefix)
    execfn, exe = program.execfn + b"\0", program.exe + b"\0"
    return (
        EXEC_INFO.pack(
            EXEC_MAGIC,
            EXEC_VERSION,
            -1,
            -1,
            HEADER_GIVEN if program.elf_header else 0,
            len(program.prefix),
            len(prefix),
            len(execfn),
            len(exe),
            0,
            program.comm,
            program.elf_header or b"",
            *program.identity,
            eintr_bitmap,
        )
        + prefix
        + execfn
        + exe
    )


def names_in(info: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """What `describe` put in: the path for /proc/PID/exe, the name, and the words in place of argv[0]."""
    fields = EXEC_INFO.unpack_from(info)
    count, prefix_size, execfn_size, exe_size, comm = fields[5], fields[6], fields[7], fields[8], fields[10]
    strings = info[EXEC_INFO.size :]
    exe = strings[prefix_size + execfn_size :][: exe_size - 1]
    return exe, comm.rstrip(b"\0"), strings[:prefix_size].split(b"\0")[:count]
