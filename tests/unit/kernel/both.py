"""One call, made natively and given to husk's kernel, on equal trees: Linux decides which error wins.

Arguments are written once and mean the same on both sides: bytes are a string in memory, `Buf(n)` is room for n bytes,
`Data(b)` is exactly these bytes, `Fd(path, flags)` a descriptor, everything else a number. Names are relative to
the prepared tree, which both sides have as their working directory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from dataclasses import dataclass

from husk.abi.registry import number
from tests.unit.kernel.fakes import Guest

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

GIVES_DESCRIPTOR = {"open", "openat", "openat2", "creat"}


@dataclass(frozen=True)
class Buf:
    size: int


@dataclass(frozen=True)
class Data:
    content: bytes


@dataclass(frozen=True)
class Fd:
    path: bytes
    flags: int = os.O_RDONLY


@dataclass(frozen=True)
class Pipe:
    """A descriptor without a name."""


@dataclass(frozen=True)
class Socket:
    """An unbound Unix socket."""


Argument = int | bytes | Buf | Data | Fd | Pipe | Socket
Case = tuple[str, tuple[Argument, ...]]


def natively(name: str, arguments: tuple[Argument, ...]) -> str:
    """Made by this process, which sits in the prepared tree."""
    keep: list[object] = []
    fds: list[int] = []
    words: list[ctypes.c_ulong] = []
    try:
        for argument in arguments:
            if isinstance(argument, int):
                value = argument
            elif isinstance(argument, Fd):
                value = os.open(argument.path, argument.flags)
                fds.append(value)
            elif isinstance(argument, Pipe | Socket):
                value, *others = _nameless(argument)
                fds += [value, *others]
            else:
                buffer = ctypes.create_string_buffer(_content(argument), len(_content(argument)) or 1)
                keep.append(buffer)
                value = ctypes.addressof(buffer)
            words.append(ctypes.c_ulong(value & (1 << 64) - 1))
        result = int(_libc.syscall(ctypes.c_long(number(name)), *words))
        if result < 0:
            return errno.errorcode[ctypes.get_errno()]
        if name in GIVES_DESCRIPTOR:
            os.close(result)
            return "descriptor"
        return str(result)
    finally:
        for fd in fds:
            os.close(fd)


def in_husk(guest: Guest, name: str, arguments: tuple[Argument, ...]) -> str:
    words: list[int] = []
    for argument in arguments:
        if isinstance(argument, int):
            words.append(argument)
        elif isinstance(argument, Fd):
            words.append(guest.open(argument.path, argument.flags))
        elif isinstance(argument, Pipe | Socket):
            fds = _nameless(argument)
            guest.fds.update(fds)
            words.append(fds[0])
        else:
            words.append(guest.memory.put(_content(argument)))
    kind, value = guest.answer(guest.make(name, *words))
    if kind == "error":
        return errno.errorcode.get(value, str(value))
    return "descriptor" if kind == "fd" else str(value)


def _content(argument: bytes | Buf | Data) -> bytes:
    if isinstance(argument, Data):
        return argument.content
    return bytes(argument.size) if isinstance(argument, Buf) else argument + b"\0"


def _nameless(argument: Pipe | Socket) -> tuple[int, ...]:
    if isinstance(argument, Socket):
        return (socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach(),)
    return os.pipe()


def spelled(case: Case) -> str:
    """A test's name."""
    name, arguments = case
    words = []
    for argument in arguments:
        if isinstance(argument, bytes):
            words.append(argument.decode() if len(argument) < 20 else f"{len(argument)}b")
        elif isinstance(argument, int):
            words.append(str(argument) if abs(argument) < 4096 else hex(argument))
        elif isinstance(argument, Data):
            words.append(f"data{len(argument.content)}-{argument.content[:24].hex().rstrip('0')}")
        elif isinstance(argument, Fd):
            words.append(f"fd-{argument.path.decode()}" + (f"-{argument.flags:o}" if argument.flags else ""))
        else:
            words.append(repr(argument))
    return f"{name}-{'-'.join(words)}"
