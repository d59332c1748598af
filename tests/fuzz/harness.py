"""Runs the fuzzing guest (calls.c) in husk and looks at husk from outside after each round.

What must hold: the box answers, husk holds as many descriptors and threads as before, its memory does not grow without
end, no handler met an internal fault, and no file outside has changed but below the `rw` mount.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import pty
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from husk.abi.numbers import HUSK_CALL
from husk.abi.registry import ROWS
from husk.abi.registry.rules import HANDLED
from tests.lib.build_guests import BASE_FLAGS
from tests.lib.running import PIPE, husk_process, scratch
from tests.torture.test_leaks import status_field

HERE = Path(__file__).resolve().parent
CALLS_OF_A_WORKER = 3000
# 256 files that O_PATH descriptors name, 256 terminals, 64 processes of /proc; some more for what is open for a moment.
MOST_DESCRIPTORS = 700
PATIENCE = 60.0  # seconds for one round, which takes two


@dataclass
class Report:
    """What one run of the fuzzer came to."""

    calls: int = 0
    line: str = ""
    stuck: Counter[str] = field(default_factory=Counter)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Counter[int]] = field(default_factory=dict)  # by call: how often each errno; 0 is success
    said: str = ""
    exit_code: int = 0


def build(target: Path) -> None:
    """The guest and its list of calls. Calls that husk answers itself are listed three times: they are under test."""
    command = ["gcc", *BASE_FLAGS, "-o", str(target / "fuzz_calls"), str(HERE / "calls.c"), "-static", "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode and not done.stderr, done.stderr
    lines = [f"{row.nr} {row.name}\n" * (3 if row.way in HANDLED else 1) for row in ROWS.values()]
    (target / "calls.txt").write_text("".join(lines) + f"{HUSK_CALL} husk_call\n")


def make_trees(place: Path) -> dict[str, Path]:
    trees = {name: place / name for name in ("given", "copied", "shared", "beside")}
    for name, tree in trees.items():
        (tree / "dir").mkdir(parents=True)
        (tree / "file").write_text(f"ORIGINAL of {name}\n")
        (tree / "script").write_text("#!/bin/sh\nexit 0\n")
        (tree / "script").chmod(0o755)
        (tree / "bad-script").write_bytes(b"#! \0\xff" + b"x" * 300)
        (tree / "bad-script").chmod(0o755)
        (tree / "link").symlink_to("../beside/file")
        tree.chmod(0o777)
    return trees


def digest(tree: Path) -> str:
    """Everything about a tree that a guest could change; access times come from reading."""
    text = hashlib.sha256()
    for path in sorted([tree, *tree.rglob("*")]):
        found = path.lstat()
        facts = (found.st_mode, found.st_uid, found.st_nlink, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        text.update(f"{path} {facts}".encode())
        if path.is_file() and not path.is_symlink():
            text.update(path.read_bytes())
    return text.hexdigest()


def fuzz(seed: int, calls: int, *, rounds: int = 0, options: list[str] | None = None) -> Report:
    """At least so many calls and so many rounds from one seed. How many calls make a round depends on how busy the host
    is: a worker that seems stuck is ended."""
    report = Report()
    with scratch() as place, scratch() as programs:
        build(programs)
        trees = make_trees(place)
        before = {name: digest(trees[name]) for name in ("given", "copied", "beside")}
        mounts = {f"{programs}:/fuzz:ro", f"{trees['given']}:/given:ro", f"{trees['copied']}:/copied:cow"}
        mounts.add(f"{trees['shared']}:/shared:rw")
        arguments = ["run", *(options or []), "--limit", "memory=2G", "--limit", "disk=2G", "--limit", "output=none"]
        arguments += [text for mount in sorted(mounts) for text in ("--mount", mount)]
        arguments += ["--", "/fuzz/fuzz_calls", "/fuzz/calls.txt", str(seed), str(CALLS_OF_A_WORKER), "1000000"]
        said = place / "said"
        try:
            errors = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
            if {"-t", "-it", "-ti"} & set(options or []):
                _on_a_terminal(arguments, errors, report, calls, rounds)
            else:
                with husk_process(arguments, stdin=PIPE, stdout=PIPE, stderr=errors, grace=30) as running:
                    os.close(errors)
                    process = running.process
                    assert process.stdin is not None and process.stdout is not None
                    _follow(process, process.stdin, process.stdout, report, calls, rounds)
        except AssertionError as error:  # husk left something behind: what it said last tells why
            error.add_note(f"seed {seed}, {report.line}\n{said.read_text(errors='replace')}")
            raise
        report.said = said.read_text(errors="replace")
        report.faults = faults_in(report.said)
        after = {name: digest(trees[name]) for name in before}
    assert after == before, f"changed: {[name for name in before if before[name] != after[name]]}, seed {seed}"
    return report


def _on_a_terminal(arguments: list[str], errors: int, report: Report, calls: int, rounds: int) -> None:
    """husk as foreground process of a terminal of its own, so that the guests have one, too."""
    master, slave = pty.openpty()
    wrapper = ["setsid", "--ctty", "--wait"]
    with husk_process(arguments, wrapper=wrapper, stdin=slave, stdout=slave, stderr=errors, grace=30) as running:
        os.close(errors)
        os.close(slave)
        keys = os.fdopen(os.dup(master), "wb", 0)
        _follow(running.process, keys, _lines(master), report, calls, rounds)


def _lines(master: int) -> Iterator[bytes]:
    rest = b""
    with contextlib.suppress(OSError):  # EIO: no process has the terminal open any more
        while piece := os.read(master, 65536):
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
    os.close(master)


def _follow(
    process: subprocess.Popen[bytes], stdin: IO[bytes], stdout: Iterator[bytes], report: Report, calls: int, rounds: int
) -> None:
    # A box that no longer answers must not hold up the caller.
    watch = _watched(process)
    for line in stdout:
        watch.cancel()
        watch = _watched(process)
        words = line.decode(errors="replace").split()
        if words[:2] == ["stuck", "in"]:
            report.stuck[words[2]] += 1
        if words[:4] == ["the", "box", "no", "longer"]:
            report.line += " | " + " ".join(words)
        if words[:1] != ["round"]:
            continue
        report.line, report.calls = " ".join(words), int(words[3])
        pid = husk_of(process.pid)
        report.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
        report.threads.append(status_field(pid, "Threads"))
        report.memory.append(status_field(pid, "VmRSS"))
        if report.calls >= calls and len(report.memory) >= rounds:
            break
        stdin.write(b"more\n")
        stdin.flush()
    watch.cancel()
    if stdin.isatty():
        stdin.write(b"\x04")  # closing our end would hang up; this is the end of input
    stdin.close()  # the supervisor ends when no other round is asked for
    for line in stdout:
        words = line.decode(errors="replace").split()
        if words[:1] == ["call"]:
            answers = report.answers.setdefault(words[1], Counter())
            answers[0] += int(words[3])
            answers.update(dict(zip(map(int, words[4::2]), map(int, words[5::2]), strict=True)))
    report.exit_code = process.wait(timeout=60)


def husk_of(pid: int) -> int:
    """husk itself, behind the setsid that gave it a terminal."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(below[0]) if Path(f"/proc/{pid}/comm").read_text() == "setsid\n" else pid


def _watched(process: subprocess.Popen[bytes]) -> threading.Timer:
    timer = threading.Timer(PATIENCE, lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()
    return timer


def faults_in(said: str) -> Counter[str]:
    """Tracebacks husk printed, each by its last line and its place."""
    return Counter(part for part in said.split("Traceback")[1:])


def table(report: Report) -> str:
    """One line for each call: what husk does with it, how often it was made, how often it succeeded, and what else."""
    ways = {row.name: row.way for row in ROWS.values()}
    lines = []
    for name, answers in sorted(report.answers.items()):
        named = ((errno.errorcode.get(number, number), times) for number, times in answers.most_common(6) if number)
        others = [f"{error} {times}" for error, times in named]
        made, good = answers.total(), answers[0]
        lines.append(f"{name:26} {ways.get(name, '-'):8} {made:7} {good:7}  {', '.join(others)}")
    return "\n".join(lines)


def show(report: Report) -> str:
    def span(values: list[int]) -> list[int]:
        """At first, at most, in the end."""
        return [values[0], max(values), values[-1]] if values else []

    return json.dumps(
        {
            "calls": report.calls,
            "end": report.line,
            "exit code": report.exit_code,
            "descriptors": span(report.descriptors),
            "threads": span(report.threads),
            "resident kB": span(report.memory),
            "stuck in": dict(report.stuck.most_common(12)),
            "faults": sum(report.faults.values()),
            "said": report.said[-2000:],
        },
        indent=2,
    )
