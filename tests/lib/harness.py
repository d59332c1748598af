"""Runs a program natively and in husk on the same prepared tree, and compares everything that can be seen of it.

Both sides run as the same unprivileged user, in a copy of the same tree, with the same environment. Texts given to
`differential` may hold {work} and {guests}: the working directory and the directory of the guest programs, which have
other paths on the two sides. Outputs are compared with those paths replaced.

Environment: HUSK_CMD is the command to test (default: the one installed next to this Python).
HUSK_GUEST_OPTIONS are options added to every `husk run`; tests marked `both_settings` then run in that setting only.
HUSK_GUEST_NATIVE=1 runs the native side only, to check the guest programs themselves.
"""

from __future__ import annotations

import difflib
import functools
import os
import pwd
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.lib import guest_trees as trees
from tests.lib.accepted import ACCEPTED, Accepted
from tests.lib.build_guests import guest_programs
from tests.lib.running import COMPARED, MARK, PIPE, Result, finish, husk, husk_command, scratch, setting, start

NATIVE_ONLY = os.environ.get("HUSK_GUEST_NATIVE") == "1"
WORK = "/workspace"
GUESTS = "/guests"
BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "{work}", "LANG": "C.UTF-8", "TZ": "UTC"}

# What may differ from run to run, by name: a test lists those it needs.
NORMALISERS: Mapping[str, tuple[str, str]] = {
    "pid": (r"\bpid[ =]\d+", "pid N"),
    "job": (r"\[(\d+)\] \d+", r"[\1] N"),
    "death": (r"line (\d+): +\d+ (Killed|Terminated)", r"line \1: N \2"),
    "time": (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"),
    "seconds": (r"\b\d+\.\d+s\b", "N s"),
    "inode": (r"\binode[ =]\d+", "inode N"),
    "address": (r"\b0x[0-9a-f]{6,16}\b", "0xN"),
}


@functools.cache
def guest_ids() -> tuple[int, int]:
    """The uid and gid of native runs, as in the guest: ours, or those that husk chooses when we are root."""
    if os.getuid() != 0:
        return os.getuid(), os.getgid()
    if NATIVE_ONLY:
        return 65534, 65534
    found = husk(["run", "--", "/bin/sh", "-c", "id -u; id -g"])
    assert found.status == 0, f"husk cannot run `id`: {found.err}"
    uid, gid = map(int, found.out.split())
    assert uid != 0, "started by root, husk runs the guest as root"
    try:
        pwd.getpwuid(uid)
    except KeyError:  # husk made up the id and its name; `whoami` has to know one natively, too
        return 65534, 65534
    return uid, gid


def native_command(arguments: Sequence[str]) -> list[str]:
    """A command that runs `arguments` natively with the uid of husk's guests."""
    if os.getuid() != 0:
        return list(arguments)
    uid, gid = guest_ids()
    rights = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--inh-caps=-all"]
    return ["setpriv", *rights, "--", *arguments]


# Makes the working directory read-only for one command only: the same files, mounted once more.
READ_ONLY = ["sh", "-c", 'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$@"', "sh"]


def native(
    arguments: Sequence[str],
    work: Path,
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = 120,
    read_only: bool = False,
) -> Result:
    command = native_command(arguments)
    if read_only:  # a user has to own a namespace to mount in; capabilities in it end with the next execve
        user = [] if os.getuid() == 0 else ["--user", "--map-current-user"]
        command = ["unshare", "--mount", *user, "--", *READ_ONLY, *command]
    owner = guest_ids() if os.getuid() == 0 else None
    # Not as a context manager: `finish` has closed the pipes and waited.
    process = start(command, cwd=work, env=env, owner=owner, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    return finish(process, f"natively {shlex.join(arguments)}", stdin, timeout)


def differential(
    arguments: Sequence[str],
    *,
    case: str = "",
    tree: trees.Tree | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    status: int = 0,
    normalise: Iterable[str] = (),
    ignore: Iterable[str] = (),
    mounts: Sequence[str] = (),
    prepare: Callable[[Path], None] | None = None,
    manner: str = "rw",
    timeout: float = 120,
) -> Result:
    """Runs both sides, fails on any difference, and gives the native result for further questions.

    status is what the native run must end with: two sides that fail alike prove nothing. prepare puts more into the
    tree than `tree` can say. manner is how the tree is mounted: with "cow" and "ro" the host's must stay as it was.
    """
    with scratch() as place:
        # Both end in the name the guest sees, for programs that print the last part of their working directory.
        sides = [place / name / WORK.strip("/") for name in ("native", "husk")]
        for side in sides:
            trees.prepare(side, {"./": "", **(tree or {})})
            if prepare is not None:
                prepare(side)
        for side in sides:
            side.chmod(0o755)
        # In husk, the guest owns the caller's files; natively they have to be given to its uid.
        if os.getuid() == 0:
            trees.give_to(sides[0], *guest_ids())
        run = _Run(arguments, env or {}, stdin, normalise, ignore, timeout)
        first = _native_side(run, sides[0], read_only=manner == "ro")
        assert first.status == status, f"natively: exit code {first.status}, not {status}\n{first.out}\n{first.err}"
        if NATIVE_ONLY:
            print(first.out, end="")  # for `pytest -rP`
            return first
        before = trees.snapshot(sides[1], WORK, ignore) if manner != "rw" else {}
        second = _husk_side(run, sides[1], mounts, manner)
        if manner != "rw":
            assert second.tree == before, f"a mount that is {manner} wrote to the host"
            second.tree = first.tree
    COMPARED["runs"] += 1
    COMPARED["lines"] += first.out.count("\n") + first.err.count("\n") + len(first.tree)
    problems = []
    if first.status != second.status:
        problems.append(f"exit code: natively {first.status}, in husk {second.status}")
    problems += compare(case, first, second)
    if problems:
        mount = ["--mount", f"{guest_programs()}:{GUESTS}:ro"]
        again = shlex.join([*husk_command(), "run", *mount, "--", *_place(arguments, WORK, GUESTS)])
        pytest.fail("\n".join([f"natively and in husk differ ({case or arguments[0]}):", *problems, f"again: {again}"]))
    return first


def _place(texts: Iterable[str], work: str, guests: str) -> list[str]:
    return [text.replace("{work}", work).replace("{guests}", guests) for text in texts]


def _environment(env: Mapping[str, str], work: str, guests: str) -> dict[str, str]:
    both = {**BASE_ENV, **env}
    return dict(zip(both, _place(both.values(), work, guests), strict=True))


class _Run(NamedTuple):
    """What both sides of a comparison run, and how its result is read."""

    arguments: Sequence[str]
    env: Mapping[str, str]
    stdin: bytes
    normalise: Iterable[str]
    ignore: Iterable[str]
    timeout: float

    def read(self, result: Result, host_work: Path, work: str, guests: str) -> Result:
        """`result` with its texts cleaned and the tree it left."""
        result.out, result.err = (clean(text, work, guests, self.normalise) for text in (result.out, result.err))
        result.tree = trees.snapshot(host_work, work, self.ignore)
        return result


def _native_side(run: _Run, work: Path, *, read_only: bool) -> Result:
    guests = str(guest_programs())
    env = {**_environment(run.env, str(work), guests), MARK: "native"}
    placed = _place(run.arguments, str(work), guests)
    result = native(placed, work, env=env, stdin=run.stdin, timeout=run.timeout, read_only=read_only)
    return run.read(result, work, str(work), guests)


def _husk_side(run: _Run, work: Path, mounts: Sequence[str], manner: str) -> Result:
    options = ["--mount", f"{work}:{WORK}:{manner}", "--mount", f"{guest_programs()}:{GUESTS}:ro", "--workdir", WORK]
    for mount in mounts:
        options += ["--mount", mount]
    for key, value in _environment(run.env, WORK, GUESTS).items():
        options += ["--env", f"{key}={value}"]
    command = ["run", *options, "--", *_place(run.arguments, WORK, GUESTS)]
    return run.read(husk(command, stdin=run.stdin, timeout=run.timeout), work, WORK, GUESTS)


def clean(text: str, work: str, guests: str, normalise: Iterable[str]) -> str:
    text = text.replace(work, "{work}").replace(guests, "{guests}")
    for name in normalise:
        pattern, replacement = NORMALISERS[name]
        text = re.sub(pattern, replacement, text)
    return text


def compare(case: str, first: Result, second: Result) -> list[str]:
    """All differences, without those accepted.py lists for this case; an unused entry is one, too."""
    here = ("", setting(), "root" if os.getuid() == 0 else "user")
    entries = [entry for entry in ACCEPTED if entry.case == case and entry.setting in here]
    used: set[Accepted] = set()
    problems: list[str] = []
    for name, left, right in (("stdout", first.out, second.out), ("stderr", first.err, second.err)):
        before, after = left.split("\n"), right.split("\n")
        if len(before) == len(after):
            for index, (mine, other) in enumerate(zip(before, after, strict=True)):
                if mine != other and (found := _accepted(entries, "", mine, other)):
                    used.add(found)
                    after[index] = mine
        problems += difflib.unified_diff(before, after, f"{name} natively", f"{name} in husk", "", "", 2, lineterm="")
    for name, mine, other in trees.difference(first.tree, second.tree):
        if found := _accepted(entries, name, mine, other):
            used.add(found)
        else:
            problems.append(f"{name}: natively {mine}, in husk {other}")
    problems += [f"accepted difference has vanished, remove it: {entry}" for entry in entries if entry not in used]
    return problems


def _accepted(entries: Iterable[Accepted], name: str, mine: str, other: str) -> Accepted | None:
    for entry in entries:
        if entry.name == name and re.fullmatch(entry.native, mine) and re.fullmatch(entry.husk, other):
            return entry
    return None
