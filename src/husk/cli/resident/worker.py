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
from husk.sandbox.box import Box
from husk.sandbox.errors import HuskError
from husk.sandbox.plan import behind_walls
from husk.sandbox.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 2.0  # seconds for a client to send its request
QUIET = 5  # milliseconds without a client; where runs follow each other closely, the next one is there by then
TAKEN, SERVED, STALE = b"t", b"r", b"s"  # what the zygote is told
CANNOT_FLUSH = 120  # Python's own exit code for it


def work(listening: _socket.socket, zygote: int, told: int, is_current: Callable[[], bool]) -> None:
    """Does not return. `zygote` hangs up when the zygote has ended; `told` tells it what this worker does."""
    mine, variables, client = own_facts(), StartVariables(), client_program()
    rehearsed = False
    while True:
        asked = select.poll()
        asked.register(listening.fileno(), select.POLLIN)
        asked.register(zygote, 0)
        found = dict(asked.poll(None if rehearsed else QUIET))
        if not found:
            _rehearse()
            rehearsed = True
            continue
        if zygote in found:
            os._exit(0)
        try:
            fd, _ = listening._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            continue
        break
    os.write(told, TAKEN)
    connection = _socket.socket(fileno=fd)
    connection.settimeout(PATIENCE)
    listening.close()
    if not is_current():
        os.write(told, STALE)
        os._exit(0)
    try:
        if mine is None or facts_of_peer(connection, client) != mine:
            os._exit(0)
        request = receive(connection)
        if not variables.are_those_of(request.environment):
            os._exit(0)
        _become(request)
        variables.apply()
        options = RunOptions(request.words)
        if options.help or options.detach or options.policy.terminal or options.policy.interactive:
            os._exit(0)
        _promise(connection)
        os.write(told, SERVED)
    except (Exception, BadRequest):
        os._exit(0)
    for number, stream in enumerate(request.fds[1:]):
        os.dup2(stream, number)
    request.close()
    sys.argv = ["husk", "run", *request.words]
    code = _run(options, request.words)
    _report(connection, code)
    os._exit(0)


def _rehearse() -> None:
    """Build a box and close it again, without a guest. Afterwards this process has memory of its own where a run
    writes; the fork had only shared it. That takes a fifth off husk's own part of the run."""
    os.environ["HUSK_STATE"] = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "husk")
    try:
        behind_walls(Policy(["true"]), lambda plan: Box(plan).close())
    except (HuskError, OSError):
        pass  # then a run says why, if it concerns one
    del os.environ["HUSK_STATE"]


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


def _run(options: RunOptions, words: list[str]) -> int:
    try:
        code = cmd_run.run(options, words)
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
