"""cli: the husk in the background that runs a box: it keeps the program's output, runs more programs in the box when
asked, stops it, and tells how it ended."""

from __future__ import annotations

import json
import os
import signal
import threading
from typing import TYPE_CHECKING

from husk.cli.exit_codes import explained
from husk.sandbox.kept import control
from husk.sandbox.kept.kept_boxes import KeptBoxes
from husk.sandbox.kept.output_log import OutputLog
from husk.sandbox.run import launch
from husk.sandbox.runner import Beside, Events

if TYPE_CHECKING:
    from husk.sandbox.box import Box
    from husk.sandbox.kept.box_socket import BoxSocket
    from husk.sandbox.kept.control import Connection, Request
    from husk.sandbox.policy import Policy
    from husk.sandbox.result import Result
    from husk.sandbox.run import Run
    from husk.sandbox.runner import Runner

PATIENCE = 10.0  # seconds that `husk stop` gives a program by default


class ServedBox(Beside):
    """`tells` is a pipe to the command that started the box: it gets one document when the program runs."""

    def __init__(self, policy: Policy, tells: int) -> None:
        self._policy, self._tells = policy, tells
        self.output = OutputLog()
        self.runner: Runner | None = None
        self._box: Box | None = None
        self._run: Run | None = None
        self._control: BoxSocket | None = None
        self._others: set[Run] = set()
        self._lock = threading.Condition()
        self._ending = False
        self._waiting = 0  # commands that wait for the end
        self._result: Result | None = None

    # -- from the runner -----------------------------------------------------------------------------------------------
    def begins(self, box: Box, run: Run) -> None:
        directory = KeptBoxes().path(self._policy.keep)
        self._box, self._run = box, run
        box.keep_namespaces(run.reaper)
        self.output.begin(directory)
        self._control = control.listen(directory, self._serve)
        ports = run.events.ports
        if box.kept is not None:
            box.kept.note_running(self._policy, ports)
        os.write(self._tells, json.dumps({"name": self._policy.keep, "pid": os.getpid(), "ports": ports}).encode())
        os.close(self._tells)
        self._tells = -1

    def ends(self) -> None:
        with self._lock:
            self._ending = True
            self._lock.notify_all()
            for run in self._others:
                run.end(signal.SIGKILL)
            while self._others:
                self._lock.wait(1.0)

    def over(self, result: Result) -> None:
        """The box is kept by now: whoever waits for its end may use it."""
        with self._lock:
            self._result = result
            self._lock.notify_all()
            self._lock.wait_for(lambda: not self._waiting, PATIENCE)  # until they have been told

    def close(self) -> None:
        self.output.finish()
        if self._control is not None:
            self._control.close()

    # -- from other commands -------------------------------------------------------------------------------------------
    def _serve(self, connection: Connection) -> None:
        request, fds = connection.receive()
        try:
            if request is None:
                return
            if request.get("do") == "exec" and len(fds) == 3:
                connection.send(self._exec(connection, request, (fds[0], fds[1], fds[2])))
            elif request.get("do") == "stop":
                self._stop(float(request.get("seconds", PATIENCE)))
                self._tell_end(connection)
            elif request.get("do") == "wait":
                self._tell_end(connection)
        finally:
            for fd in fds:
                os.close(fd)

    def _exec(self, connection: Connection, request: Request, stdio: tuple[int, int, int]) -> Request:
        box = self._box
        assert box is not None
        policy = self._policy.again()
        policy.argv = [str(word) for word in request["argv"]]
        policy.env = self._policy.env | request.get("env", {})
        policy.workdir = request.get("workdir") or policy.workdir
        policy.timeout = None
        try:
            with self._lock:
                if self._ending:
                    return {"error": "the box is about to end.", "code": 125}
                run = launch(box, policy, Events(None, None), stdio)
                self._others.add(run)
        except BaseException as error:
            sentence, code = explained(error)
            return {"error": sentence, "code": code}
        try:
            threading.Thread(target=self._follow, args=(connection, run), daemon=True).start()
            try:
                result = run.wait()
            finally:
                run.finish()
            run.collect(result)
            refusals = [{name: one[name] for name in ("what", "errno", "reason", "allow")} for one in result.refusals]
            return {"code": result.exit_code, "refusals": refusals[:50]}
        except BaseException as error:
            sentence, code = explained(error)
            return {"error": sentence, "code": code}
        finally:
            with self._lock:
                self._others.discard(run)
                self._lock.notify_all()

    def _follow(self, connection: Connection, run: Run) -> None:
        """Notes of the command that wants the program; when it is gone, so is the program."""
        while True:
            try:
                note, fds = connection.receive()
            except OSError:
                note, fds = None, []
            for fd in fds:
                os.close(fd)
            if note is None:
                run.end(signal.SIGHUP)
                return
            if note.get("do") == "resize":
                run.resize()
            elif note.get("do") == "signal":
                run.signal(int(note.get("number", signal.SIGINT)))

    def _stop(self, seconds: float) -> None:
        assert self._run is not None and self.runner is not None
        self._run.kill(signal.SIGTERM)
        with self._lock:
            self._lock.wait_for(lambda: self._ending, seconds)
        if not self._ending:
            self.runner.end(signal.SIGKILL)

    def _tell_end(self, connection: Connection) -> None:
        with self._lock:
            self._waiting += 1
            self._lock.wait_for(lambda: self._result is not None)
        try:
            assert self._result is not None
            connection.send({"code": self._result.exit_code, "signal": self._result.signal})
        finally:
            with self._lock:
                self._waiting -= 1
                self._lock.notify_all()
