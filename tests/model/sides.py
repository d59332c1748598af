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
from tests.guest import trees
from tests.guest.harness import guest_ids, native_command
from tests.guest.running import PIPE, husk_process, scratch, start
from tests.model.agent import NOT_ASKED, build
from tests.unit.vfs.worlds import Step

KINDS = ("cow", "rw", "tmp")
CODE = ("tests/model/agent.py", "tests/unit/vfs/native.py", "tests/unit/vfs/worlds.py")
EXT4 = 0xEF53


class Sides:
    """Agents for `examples` examples; then a new one has to be made. Close it."""

    def __init__(self, examples: int) -> None:
        self.left = examples
        self.number = 0
        self.stack = ExitStack()
        place = self.stack.enter_context(scratch())
        self.work = place / "work"
        code = place / "code"
        for name in CODE:
            (code / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, code / name)
        for folder in (self.work, place / "cow", place / "rw"):
            folder.mkdir()
            for number in range(examples):
                build(os.fsencode(folder / f"e{number}"))
        if os.getuid() == 0:
            trees.give_to(self.work, *guest_ids())
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        run = ["/usr/bin/python3", "-m", "tests.model.agent", str(self.work)]
        env = {"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"}
        agent = start(native_command(run), env=env, cwd=Path("/"), stdin=PIPE, stdout=PIPE)
        self.stack.callback(_end, agent)
        self.agents["native"] = agent
        for kind in KINDS:
            mounts = ["--mount", f"{code}:/code:ro"]
            if kind != "tmp":
                mounts += ["--mount", f"{place / kind}:{self.work}:{kind}"]
            options = [*mounts, "--env", "PYTHONPATH=/code", "--env", "PYTHONDONTWRITEBYTECODE=1"]
            running = self.stack.enter_context(husk_process(["run", *options, "--", *run], stdin=PIPE, stdout=PIPE))
            self.stack.callback(_end, running.process)
            self.agents[kind] = running.process

    def close(self) -> None:
        self.stack.close()

    def _ask(self, kind: str, steps: list[Step]) -> None:
        pipe = self.agents[kind].stdin
        assert pipe is not None
        pipe.write(ascii(steps).encode() + b"\n")
        pipe.flush()

    def _answers(self, kind: str) -> list[str]:
        pipe = self.agents[kind].stdout
        assert pipe is not None
        line = pipe.readline()
        assert line, f"the agent on {kind} has gone"
        answers: list[str] = ast.literal_eval(line.decode("ascii"))
        return answers

    def run(self, steps: list[Step]) -> None:
        """One example, in a fresh tree on every side. Each answer must be the native one."""
        assert self.left, "no example left"
        self.left -= 1
        name = b"e%d" % self.number
        self.number += 1
        steps = [("begin", name, False), *steps, ("tree",)]
        self._ask("native", steps)
        told = zip(steps, self._answers("native"), strict=True)
        asked = [(step, answer) for step, answer in told if answer != NOT_ASKED]
        steps = [step for step, _ in asked[1:]]
        for kind in KINDS:
            self._ask(kind, [("begin", name, kind == "tmp"), *steps])
        answers = {kind: self._answers(kind) for kind in KINDS}
        for number, (step, want) in enumerate(asked):
            wrong = [kind for kind in KINDS if answers[kind][number] != want]
            if wrong:
                done = [repr(each) for each in steps[: number - 1]]
                found = [f"on {kind}:\n{_differing(want, answers[kind][number])}" for kind in wrong]
                raise AssertionError("\n".join(["after", *done, "at", repr(step), *found]))


def _differing(want: str, got: str) -> str:
    theirs, ours = want.split("\n"), got.split("\n")
    lines = [f"  natively {line}" for line in theirs if line not in ours]
    return "\n".join(lines + [f"  in husk  {line}" for line in ours if line not in theirs])


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait(20)
