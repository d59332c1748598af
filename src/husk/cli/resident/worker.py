"""cli: one run in a process that the zygote forked for it: wait for a client, judge it, become what its own husk would
have been, run, say the exit code.

A worker does one run and ends. Until it has said Y and the client has said G, nothing of the run has happened. What
goes wrong before ends the connection; the client starts the ordinary way, which says what is wrong with the options.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import array
import fcntl
import os
import select
import sys

from husk.cli import cmd_run
from husk.cli.exit_codes import INTERRUPTED
from husk.cli.resident.request import BadRequest, Request, receive
from husk.cli.resident.same_caller import StartVariables, client_program, facts_of_peer, own_facts
from husk.cli.run_policy import RunOptions
from husk.sandbox.runner import Prepared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

PATIENCE = 2.0  # seconds for a client to send its request
QUIET = 0.005  # seconds without a client; where runs follow each other closely, the next one is there by then
TAKEN, SERVED, STALE = b"t", b"r", b"s"  # what the zygote is told
CANNOT_FLUSH = 120  # Python's own exit code for it


def work(listening: _socket.socket, zygote: _socket.socket, is_current: Callable[[], bool]) -> None:
    """Does not return. The zygote is told what this worker does, and hangs up when it has ended or wants it to end."""
    mine, variables, client = own_facts(), StartVariables(), client_program()
    prepared, tried = None, False
    asked = select.epoll()
    # One client wakes one worker: of those that are ready, the one that waits longest.
    asked.register(listening.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
    asked.register(zygote.fileno(), select.EPOLLRDHUP)
    while True:
        found = dict(asked.poll(None if tried else QUIET))
        if not found:
            prepared, tried = _prepare(), True
            continue
        if listening.fileno() not in found:  # a client that has come is served all the same: nobody else was woken
            _leave(prepared)
        try:
            fd, _ = listening._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            continue
        break
    asked.close()
    _tell(zygote, TAKEN)
    connection = _socket.socket(fileno=fd)
    connection.settimeout(PATIENCE)
    listening.close()
    try:
        if not is_current():
            _tell(zygote, STALE)
            raise NotServed
        if mine is None or facts_of_peer(connection, client) != mine:
            raise NotServed
        request = receive(connection)
        if not variables.are_those_of(request.environment):
            raise NotServed
        _become(request)
        variables.apply()
        options = RunOptions(request.words)
        if options.help or options.detach or options.policy.terminal or options.policy.interactive:
            raise NotServed
        _promise(connection)
        _tell(zygote, SERVED)
    except Exception:
        connection.close()  # at once: the client waits for it
        _leave(prepared)
    for number, stream in enumerate(request.fds[1:]):
        os.dup2(stream, number)
    request.close()
    sys.argv = ["husk", "run", *request.words]
    code = _run(options, request.words, prepared)
    _report(connection, code)
    # The box has ended and holds nothing of the host any more. Its own directory is removed after the client knows.
    _leave(prepared)


def _tell(zygote: _socket.socket, what: bytes) -> None:
    try:
        zygote.send(what)
    except OSError:
        pass  # it has ended; the run goes on


class NotServed(Exception):
    """The client starts the ordinary way."""


def _prepare() -> Prepared | None:
    """A box whose guest waits, for the run that comes. If that needs another one, this process has at least memory of
    its own where a run writes; the fork had only shared it."""
    try:
        return Prepared()
    except Exception:
        return None  # then a run says why, if it concerns one


def _leave(prepared: Prepared | None) -> NoReturn:
    try:
        if prepared is not None:
            prepared.close()
    finally:
        os._exit(0)


def _become(request: Request) -> None:
    """The caller's working directory, umask and environment. The streams come last."""
    os.fchdir(request.fds[0])
    os.umask(request.umask)
    os.environ.clear()
    os.environ.update(request.environment)


def _promise(connection: _socket.socket) -> None:
    """From here on the run belongs to this process. If the client dies, the host kills it at once, as it would have
    killed a husk of its own; the box ends with it."""
    me = os.pidfd_open(os.getpid())
    connection.sendmsg([b"Y"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [me]))])
    os.close(me)
    if connection.recv(1) != b"G":
        raise BadRequest
    connection.settimeout(None)
    fd = connection.fileno()
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, fcntl.F_SETSIG, _signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    asked = select.poll()
    asked.register(fd, select.POLLIN)
    if asked.poll(0):  # it died before that
        raise BadRequest


def _run(options: RunOptions, words: list[str], prepared: Prepared | None) -> int:
    try:
        code = cmd_run.run(options, words, prepared)
    except KeyboardInterrupt:
        return INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            return CANNOT_FLUSH
    return code


def _report(connection: _socket.socket, code: int) -> None:
    fd = connection.fileno()
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
    try:
        connection.send(b"E" + bytes([code & 0xFF]), _socket.MSG_NOSIGNAL)
    except OSError:
        pass  # the client has died meanwhile
