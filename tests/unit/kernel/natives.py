"""Small C programs for the tests: compiled once a session, and what Linux makes of a file when it is executed."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from husk.kernel.syscalls.execve import names_in
from tests.unit.kernel.fakes import Guest

SHOW = r"""
#include <stdio.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        for (unsigned char *c = (unsigned char *)argv[i]; *c; c++)
            printf("%02x", *c);
        putchar('\n');
    }
    return 0;
}
"""


class HasGuest(Protocol):
    guest: Guest


T = TypeVar("T", bound=HasGuest)


def at_root(make: Callable[[], T]) -> Iterator[T]:
    """For a fixture: what `make` returns, made and used in /, where its guest starts too."""
    before = os.getcwd()
    os.chdir("/")
    made = make()
    yield made
    made.guest.close()
    os.chdir(before)


def compile_c(source: str, to: Path, *flags: str) -> Path:
    text = to.with_suffix(".c")
    text.write_text(source)
    done = subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", to, text, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return to


def execute(program: Path) -> list[bytes] | str:
    """What the program, `show`, says its arguments are; or the name of execve's errno.

    posix_spawn reports execve's own errno and, unlike a shell, tries nothing else.
    """
    read_end, write_end = os.pipe()
    try:
        pid = os.posix_spawn(program, [b"argv0", b"last"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)])
    except OSError as error:
        os.close(read_end)
        return errno.errorcode[error.errno or 0]
    finally:
        os.close(write_end)
    with open(read_end, "rb") as output:
        lines = output.read().split(b"\n")[:-1]
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"{program}: status {status:#x}"
    return [bytes.fromhex(line.decode()) for line in lines]


def execute_in_husk(guest: Guest, program: Path) -> list[bytes] | str:
    """The arguments the loader would give to the program, with the same argv; or the name of the errno."""
    call = guest.make("execve", guest.text(bytes(program)), 0, 0)
    kind, value = guest.answer(call)
    if kind == "error":
        return errno.errorcode[value]
    assert call.waiting is not None
    call.waiting.close()
    _, _, prefix = names_in(call.waiting.info)
    return [*(prefix or [b"argv0"]), b"last"]
