"""The rows: what is run in every sandbox, with how much of it, and how many times native it may cost in husk.

A workload is a command of bench/calls.c, which repeats one operation inside the sandbox and prints what one cost: the
start of the sandbox is not part of it. `whole` rows are the start itself, seen from outside.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable

from measure import Command, Meter, printed, whole
from subjects import Place, Subject
from trees import Trees

PYTHON = "/usr/bin/python3"
SUBPROCESSES = "import subprocess as s\nfor _ in range({}): s.run(['/bin/true'])"


class Workload:
    """One row. `arguments` are those of calls; they are asked for before each run, outside the clock."""

    def __init__(
        self,
        key: str,
        title: str,
        arguments: Callable[[], Command],
        bars: tuple[float | None, float | None] = (None, None),
        *,
        rounds: int = 3,
        starts: bool = False,
    ) -> None:
        self.key, self.title, self.arguments, self.rounds, self.starts = key, title, arguments, rounds, starts
        self.bars = bars  # with an rw mount, with a cow mount

    def meter(self, subject: Subject, trees: Trees) -> Meter:
        if self.starts:
            return lambda: whole(subject.wrap(self.arguments()), 5)()
        # Wrapped at each call: a name may be used once, and runc wants a bundle for each run.
        return lambda: printed(subject.wrap([str(trees.place / "calls"), *self.arguments()]))()


def table(trees: Trees, place: Place, scale: int) -> list[Workload]:
    """All rows, in their order. `scale` divides how often things are done, as it divides the trees."""

    def call(what: str, count: int, *arguments: object) -> Callable[[], Command]:
        words = [what, "3", str(max(1, count // scale)), *map(str, arguments)]
        return lambda: words

    def shell(what: str, line: str) -> Callable[[], Command]:
        """{fresh} is a new name in the place, and {copy} a new copy of the packed files."""

        def arguments() -> Command:
            text = line
            if "{fresh}" in text:
                text = text.replace("{fresh}", shlex.quote(place.fresh()))
            if "{copy}" in text:
                copy = place.fresh()
                subprocess.run(["cp", "-a", str(trees.place / "packed"), copy], check=True)
                text = text.replace("{copy}", shlex.quote(copy))
            return [what, "1", "1", "/bin/sh", "-c", text]

        return arguments

    loops, forks, subprocesses = 5_000, max(2, 200 // scale), max(1, 100 // scale)
    directory, name = trees.file.parent, trees.file.name
    compiled = trees.place / "hello"
    pip = f"{PYTHON} -m pip install -q --no-index --no-deps --no-cache-dir --disable-pip-version-check --target"
    npm = "npm install --silent --offline --no-audit --no-fund --no-update-notifier --ignore-scripts"
    forked = f"i=0; while [ $i -lt {forks} ]; do /bin/true; i=$((i+1)); done"
    both: Callable[[float], tuple[float, float]] = lambda bar: (bar, bar)  # noqa: E731
    return [
        Workload("stat", "stat, 4 components", call("stat", loops, trees.file), both(1.2)),
        Workload("stat-missing", "stat of a missing name", call("stat-missing", loops, directory / "none"), both(1.5)),
        Workload("fstatat", "fstatat by directory descriptor", call("fstatat", loops, directory, name), both(1.5)),
        Workload("open", "open + close", call("open", loops, trees.file), both(4)),
        Workload("find", f"find -printf, {trees.files:,} files",
                 call("spawn", 1, "/usr/bin/find", trees.tree, "-printf", "%s %T@\n"), both(2)),
        Workload("git", f"git status, {trees.tracked:,} files",
                 call("spawn", 1, "/usr/bin/git", "-c", "safe.directory=*", "-C", trees.repository, "status"),
                 both(2.5)),
        Workload("untar", f"untar {trees.packed:,} files",
                 shell("once", f"mkdir {{fresh}} && tar --no-same-owner -xf {trees.archive} -C {{fresh}}"), both(2.5)),
        Workload("python", "python3 -c pass", call("spawn", 10, PYTHON, "-c", "pass"), both(1.25)),
        Workload("node", "node -e 0", call("spawn", 5, "/usr/bin/node", "-e", "0"), both(1.1)),
        Workload("gcc", "gcc hello.c", call("spawn", 2, "/usr/bin/gcc", trees.hello, "-o", compiled), both(1.4)),
        Workload("sh", f"sh, {forks} programs", call("spawn", 1, "/bin/sh", "-c", forked), both(1.3)),
        Workload("subprocess", f"python subprocess × {subprocesses}",
                 call("spawn", 1, PYTHON, "-c", SUBPROCESSES.format(subprocesses)), both(1.3)),
        Workload("spawn", "posix_spawn + wait", call("spawn", 100, "/bin/true"), both(1.5)),
        Workload("make", f"make -j2, {trees.units} files in C",
                 shell("once", f"mkdir {{fresh}} && make -s -j2 -C {trees.project} O={{fresh}}"), rounds=2),
        Workload("grep", f"grep -r, {trees.files:,} files",
                 call("spawn", 1, "/bin/grep", "-r", "husk", trees.tree)),
        Workload("pip", "pip install, 20 local wheels", shell("once", f"{pip} {{fresh}} {trees.wheels}/*.whl")),
        Workload("npm", "npm install, 20 local packages",
                 shell("once", f"mkdir {{fresh}} && cd {{fresh}} && {npm} --cache ./cache {trees.npm}/*.tgz")),
        Workload("imports", f"python, {trees.modules} imports",
                 call("spawn", 1, PYTHON, "-I", "-S", "-c",
                      f"import sys; sys.path.insert(0, {str(trees.python)!r}); import all_of_them")),
        Workload("tcp", "TCP round trip", call("tcp", loops)),
        Workload("unix", "Unix socket round trip", call("unix", loops)),
        Workload("read", f"read a file of {trees.megabytes} MB", call("read-file", 1, trees.large)),
        Workload("pipe", f"{trees.megabytes} MB through a pipe", call("pipe", 1, trees.megabytes)),
        Workload("rm", f"rm -rf, {trees.packed:,} files", shell("once", "rm -rf {copy}")),
        Workload("start", "start of a box: true", lambda: ["/bin/true"], both(35), starts=True),
    ]  # fmt: skip
