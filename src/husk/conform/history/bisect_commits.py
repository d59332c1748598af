"""conform/history: find the commit that changed a case: check out, build, run, and remember each answer.

All of it happens in a clone that shares the repository's objects: nothing in the person's own tree or repository is
changed. Answers are written down at once, so a search that was stopped goes on where it was.

Not here: how the case is run (the caller's `Try`), which commit comes next (narrow.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from husk.conform.history.git_commands import CommandFailed, environment, git
from husk.conform.history.narrow import BROKEN, WORKS, Found, first_changed
from husk.sandbox.errors import UsageError

# The state of the case with what was built in a directory: WORKS, BROKEN, or an empty text and why it cannot be told.
Try = Callable[[Path], tuple[str, str]]
Told = Callable[[str], None]
MOST_COMMITS = 10_000


@dataclass(frozen=True)
class Search:
    """`key` is what makes two searches the same, besides repository, ends and build: the case, where it runs."""

    repository: Path
    old: str
    new: str
    old_state: str
    build: str  # a shell command; empty: nothing has to be built
    build_seconds: float
    key: str


def search_commits(search: Search, place: Path, attempt: Try, told: Told) -> Found:
    """`place` is where clones and answers are kept. UsageError: there is nothing to search, or an end is not as it was
    recorded."""
    commits = commits_between(search.repository, search.old, search.new)
    old = git(search.repository, "rev-parse", "--verify", f"{search.old}^{{commit}}")
    words = (str(search.repository.resolve()), old, commits[-1], search.build, search.key)
    mine = place / hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
    with _locked(mine):
        answers = _Answers(mine / "answers.json")
        tree = _clone(search.repository, mine / "tree")

        def ask(commit: str) -> str:
            known = answers.get(commit)
            if known is None:
                told(f"{_title(tree, commit)}: trying")
                known = _ask(tree, commit, search, mine, attempt)
                answers.put(commit, *known)
            told(f"{_title(tree, commit)}: {known[0] or 'cannot be told'}" + (f" ({known[1]})" if known[1] else ""))
            return known[0]

        told(f"{len(commits)} commits")
        new_state = BROKEN if search.old_state == WORKS else WORKS
        # The ends first: a case that behaves differently on this machine would be searched for in vain.
        for commit, wanted in ((commits[-1], new_state), (old, search.old_state)):
            found = ask(commit)
            if found != wanted:
                raise UsageError(
                    f"at {commit[:12]} the case was recorded as {wanted}, and here it {_is(found)}:"
                    " what changed is not in the commits."
                )
        result = first_changed(commits, search.old_state, ask)
        shutil.rmtree(tree, ignore_errors=True)
    return result


def _is(state: str) -> str:
    return {WORKS: "works", BROKEN: "is broken"}.get(state, "cannot be told")


def commits_between(repository: Path, old: str, new: str) -> list[str]:
    """Oldest first, without `old`. Of a merge only the merge itself: what it brought in worked or not as a whole."""
    try:
        git(repository, "merge-base", "--is-ancestor", old, new)
    except CommandFailed as error:
        if "exit code" in error.said:
            raise UsageError(f"{repository}: {old[:12]} is no ancestor of {new[:12]}.") from None
        raise
    commits = git(repository, "rev-list", "--first-parent", "--reverse", f"{old}..{new}").split()
    if not commits:
        raise UsageError(f"{repository}: both runs are of commit {new[:12]}; what changed is not in the commits.")
    if len(commits) > MOST_COMMITS:
        raise UsageError(f"{repository}: {len(commits)} commits lie between; name runs that are closer.")
    return commits


def describe(repository: Path, commit: str) -> str:
    return git(repository, "log", "-1", "--format=%h %as %an: %s", commit)


def _title(tree: Path, commit: str) -> str:
    return git(tree, "log", "-1", "--format=%h %s", commit)[:100]


class _Answers:
    """What was found at each commit: a state and a reason."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._known: dict[str, list[str]] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            self._known = {}

    def get(self, commit: str) -> tuple[str, str] | None:
        found = self._known.get(commit)
        return (found[0], found[1]) if found else None

    def put(self, commit: str, state: str, why: str) -> None:
        self._known[commit] = [state, why]
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(self._known, indent=1))
        beside.replace(self._path)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError("another husk searches for this very case now; wait for it.") from None
    finally:
        os.close(lock)


def _clone(repository: Path, tree: Path) -> Path:
    """One that a killed search left is used again, with what was built in it, if git can still read it."""
    if tree.exists():
        with contextlib.suppress(CommandFailed):
            git(tree, "rev-parse", "HEAD")
            return tree
        shutil.rmtree(tree)
    git(repository, "clone", "--quiet", "--shared", "--no-checkout", str(repository.resolve()), str(tree))
    return tree


def _ask(tree: Path, commit: str, search: Search, place: Path, attempt: Try) -> tuple[str, str]:
    git(tree, "checkout", "--quiet", "--detach", "--force", commit)
    if search.build:
        log = place / f"{commit}.log"
        failed = _build(search.build, tree, log, search.build_seconds)
        if failed:
            return "", f"{failed}, see {log}"
    return attempt(tree)


def _build(command: str, tree: Path, log: Path, seconds: float) -> str:
    """Why it failed; empty: it did not."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], cwd=tree, env=environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return f"the build took more than {seconds:.0f} s"
        finally:
            # Also when the person stops the search, and for what a build left in the background.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"the build ended with {code}" if code else ""
