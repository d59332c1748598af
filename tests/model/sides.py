"""One agent natively and three in husk: on a copy-on-write mount, on a read-write mount, in /tmp.

Every side sees its tree under the same path, so that answers can be compared as they are.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.conftest import ROOT
from tests.lib import guest_trees as trees
from tests.lib.harness import guest_ids, native_command
from tests.lib.running import PIPE, husk_process, scratch, start
from tests.model.agent import NOT_ASKED, build
from tests.unit.vfs.worlds import Step

KINDS = ("cow", "rw", "tmp")
CODE = ("tests/model/agent.py", "tests/unit/vfs/native.py", "tests/unit/vfs/worlds.py")
EXT4 = 0xEF53
RUN = ["/usr/bin/python3", "-m", "tests.model.agent"]


class Asked:
    """An agent as its test sees it: questions in, answers out."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process, self._in, self._out = process, process.stdin, process.stdout

    def ask(self, steps: list[Step]) -> None:
        self._in.write(ascii(steps).encode() + b"\n")
        self._in.flush()

    def answers(self) -> list[str]:
        line = self._out.readline()
        assert line, "the agent has gone"
        answers: list[str] = ast.literal_eval(line.decode("ascii"))
        return answers

    def do(self, *steps: Step) -> list[str]:
        self.ask(list(steps))
        return self.answers()

    def end(self) -> None:
        self._in.close()
        self._out.close()
        self.process.wait(60)


def agent_in_husk(stack: ExitStack, code: Path, place: str, options: list[str], errors: Path | None = None) -> Asked:
    """Ends with the stack; then the test checks that husk left nothing. `errors` collects husk's own messages."""
    given = ["--mount", f"{code}:/code:ro", "--env", "PYTHONPATH=/code", "--env", "PYTHONDONTWRITEBYTECODE=1", *options]
    arguments = ["run", *given, "--", *RUN, place]
    stderr = None if errors is None else stack.enter_context(errors.open("wb")).fileno()
    asked = Asked(stack.enter_context(husk_process(arguments, stdin=PIPE, stdout=PIPE, stderr=stderr)).process)
    stack.callback(asked.end)
    return asked


def copy_code(place: Path) -> Path:
    """The agent and what it imports, where an unprivileged user can read it."""
    code = place / "code"
    for name in CODE:
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, code / name)
    return code


class Sides:
    """Agents for `examples` examples; then a new one has to be made. Close it."""

    def __init__(self, examples: int) -> None:
        self.left = examples
        self.number = 0
        self.stack = ExitStack()
        place = self.stack.enter_context(scratch())
        self.work = place / "work"
        code = copy_code(place)
        for folder in (self.work, place / "cow", place / "rw"):
            folder.mkdir()
            for number in range(examples):
                build(os.fsencode(folder / f"e{number}"))
        if os.getuid() == 0:
            trees.give_to(self.work, *guest_ids())
        self.agents: dict[str, Asked] = {}
        env = {"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"}
        command = native_command([*RUN, str(self.work)])
        agent = Asked(start(command, env=env, cwd=Path("/"), stdin=PIPE, stdout=PIPE))
        self.stack.callback(agent.end)
        self.agents["native"] = agent
        for kind in KINDS:
            options = [] if kind == "tmp" else ["--mount", f"{place / kind}:{self.work}:{kind}"]
            self.agents[kind] = agent_in_husk(self.stack, code, str(self.work), options)

    def close(self) -> None:
        self.stack.close()

    def run(self, steps: list[Step]) -> None:
        """One example, in a fresh tree on every side. Each answer must be the native one."""
        assert self.left, "no example left"
        self.left -= 1
        name = b"e%d" % self.number
        self.number += 1
        steps = [("begin", name, False), *steps, ("tree",)]
        told = zip(steps, self.agents["native"].do(*steps), strict=True)
        asked = [(step, answer) for step, answer in told if answer != NOT_ASKED]
        steps = [step for step, _ in asked[1:]]
        for kind in KINDS:
            # They do every step: the native side has said which steps to leave out. These sides would decide by other
            # inode numbers, which a file system may use again.
            self.agents[kind].ask([("begin", name, kind == "tmp"), ("forget_stale",), *steps])
        answers = {kind: self.agents[kind].answers() for kind in KINDS}
        for each in answers.values():
            del each[1]
        for number, (step, want) in enumerate(asked):
            wrong = [kind for kind in KINDS if answers[kind][number] != want]
            if wrong:
                done = [repr(each) for each in steps[: number - 1]]
                found = [f"on {kind}:\n{_differing(want, answers[kind][number])}" for kind in wrong]
                raise AssertionError("\n".join(["at", repr(step), *found, "after", *done]))


def _differing(want: str, got: str) -> str:
    theirs, ours = want.split("\n"), got.split("\n")
    lines = [f"  natively {line}" for line in theirs if line not in ours]
    return "\n".join(lines + [f"  in husk  {line}" for line in ours if line not in theirs])

