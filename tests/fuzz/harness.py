"""Runs the fuzzing guest (calls.c) in husk and looks at husk from outside after each round.

What must hold: the box answers, husk holds as many descriptors and threads as before, its memory does not grow without
end, no handler met an internal fault, and no file outside has changed but below the `rw` mount.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from husk.abi.registry import ROWS
from tests.guest.build import BASE_FLAGS
from tests.guest.running import PIPE, husk_process, scratch
from tests.torture.test_leaks import status_field

HERE = Path(__file__).resolve().parent
CALLS_OF_A_WORKER = 3000
HUSK_CALL = 0x4855
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
    said: str = ""
    exit_code: int = 0


def build(target: Path) -> None:
    """The guest and its list of calls. What husk answers itself stands there three times: it is what is tested."""
    command = ["gcc", *BASE_FLAGS, "-o", str(target / "fuzz_calls"), str(HERE / "calls.c"), "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode and not done.stderr, done.stderr
    lines = [f"{row.nr} {row.name}\n" * (3 if row.way == "virtual" else 1) for row in ROWS.values()]
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
    """At least `calls` calls (or that many rounds) from one seed."""
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
            with husk_process(arguments, stdin=PIPE, stdout=PIPE, stderr=errors, grace=5) as running:
                os.close(errors)
                _follow(running.process, report, calls, rounds)
        except AssertionError as error:  # husk left something behind: what it said last tells why
            error.add_note(f"seed {seed}, {report.line}\n{said.read_text(errors='replace')}")
            raise
        report.said = said.read_text(errors="replace")
        report.faults = faults_in(report.said)
        after = {name: digest(trees[name]) for name in before}
    assert after == before, f"changed: {[name for name in before if before[name] != after[name]]}, seed {seed}"
    return report


def _follow(process: subprocess.Popen[bytes], report: Report, calls: int, rounds: int) -> None:
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None
    # A box that no longer answers must not hold up whoever runs this.
    watch = _watched(process)
    for line in stdout:
        watch.cancel()
        watch = _watched(process)
        words = line.decode().split()
        if words[:2] == ["stuck", "in"]:
            report.stuck[words[2]] += 1
        if words[:1] != ["round"]:
            continue
        report.line, report.calls = line.decode().strip(), int(words[3])
        pid = process.pid
        report.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
        report.threads.append(status_field(pid, "Threads"))
        report.memory.append(status_field(pid, "VmRSS"))
        if (report.calls >= calls and not rounds) or (rounds and len(report.memory) >= rounds):
            break
        stdin.write(b"x")
        stdin.flush()
    watch.cancel()
    stdin.close()  # the supervisor ends when nobody asks for another round
    stdout.read()
    report.exit_code = process.wait(timeout=60)


def _watched(process: subprocess.Popen[bytes]) -> threading.Timer:
    timer = threading.Timer(PATIENCE, lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()
    return timer


def faults_in(said: str) -> Counter[str]:
    """Tracebacks husk printed, each by its last line and its place."""
    return Counter(part for part in said.split("Traceback")[1:])


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
