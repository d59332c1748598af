"""cli: the request of a client: the words and the environment of a `husk run`, its umask, and four descriptors.

native/client/resident_client.c sends it. The client is a process of the same user, but what it sends is still checked:
a resident that fails answers nothing, and the client starts the ordinary way.
"""

from __future__ import annotations

import _socket
import os
import struct

HEAD = struct.Struct("<8sIIII")  # magic; bytes of all strings; words; variables; umask
MAGIC = b"HUSKRES1"
MOST_BYTES = 4 << 20
PASSED = 4
_FDS = struct.Struct(f"{PASSED}i")


class BadRequest(Exception):
    """It is not what a client of this version sends."""


class Request:
    """`close` closes the descriptors."""

    __slots__ = ("environment", "fds", "umask", "words")

    def __init__(self, words: list[str], environment: dict[str, str], umask: int, fds: list[int]) -> None:
        """`fds`: the working directory, standard input, output and error."""
        self.words, self.environment, self.umask, self.fds = words, environment, umask, fds

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


def receive(connection: _socket.socket) -> Request:
    data, ancillary, flags, _ = connection.recvmsg(1 << 18, _socket.CMSG_SPACE(_FDS.size), _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds += [number for (number,) in struct.iter_unpack("i", content[: len(content) & ~3])]
    try:
        if len(fds) != PASSED or flags & _socket.MSG_CTRUNC or len(data) < HEAD.size:
            raise BadRequest
        magic, size, words, variables, umask = HEAD.unpack_from(data)
        if magic != MAGIC or size > MOST_BYTES or umask > 0o777:
            raise BadRequest
        rest = bytearray(data[HEAD.size :])
        while len(rest) < size:
            more = connection.recv(1 << 18)
            if not more:
                raise BadRequest
            rest += more
        strings = bytes(rest).split(b"\0")
        if strings.pop() != b"" or len(strings) != words + variables:
            raise BadRequest
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    environment: dict[str, str] = {}
    for text in strings[words:]:
        name, equals, value = os.fsdecode(text).partition("=")
        if name and equals:
            environment.setdefault(name, value)  # as Python does: of two, the first
    return Request([os.fsdecode(word) for word in strings[:words]], environment, umask, fds)
