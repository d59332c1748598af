"""conform/nightly: publish documents: a commit on a branch, and a pull request through the `gh` command.

The commit is made with an index of its own: branch, index and files that the person has checked out stay as they are.
A pull request that is open, and whose branch has the prefix, is updated; one from a fork is not ours. Whatever is shown
by --dry-run are the words that are executed otherwise.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from husk.conform.history.git_commands import CommandFailed, git, run_program
from husk.conform.nightly.nightly_config import Publishing
from husk.sandbox.errors import HuskError, UsageError

COMMIT, BODY = "{commit}", "{body}"  # in words that are shown: what is known only once it is there
MOST_REQUESTS = 200


@dataclass(frozen=True)
class Plan:
    """`number` is that of the open pull request, 0 where one is to be opened. `parent` is the branch that the commit
    follows on."""

    root: Path
    branch: str
    parent: str
    number: int
    title: str
    push: list[str]
    request: list[str]

    def lines(self, files: Sequence[str]) -> list[str]:
        what = f"update pull request {self.number}" if self.number else "open a pull request"
        return [
            f"would {what}, from {self.branch}:",
            f"  git fetch: {self.parent}; commit on it: {', '.join(files)}",
            f"  {shlex.join(['git', *self.push])}",
            f"  {shlex.join(self.request)}",
        ]


def plan_publication(config: Publishing, today: str) -> Plan:
    """Looks, and changes nothing. HuskError: the repository, the remote or gh does not answer."""
    root = Path(git(config.repository, "rev-parse", "--show-toplevel"))
    heads = {
        line.split("\t")[1].removeprefix("refs/heads/")
        for line in git(root, "ls-remote", "--heads", config.remote).splitlines()
        if "\t" in line
    }
    if config.base not in heads:
        raise UsageError(f"{config.remote} has no branch {config.base}; set publish.base in the configuration.")
    number, branch = _open_request(root, config)
    title = f"{config.title}: {today}"
    if number and branch in heads:
        words = ["gh", "pr", "edit", str(number), "--title", title, "--body-file", BODY]
        return Plan(root, branch, branch, number, title, _push(config, branch), words)
    branch = _free(f"{config.branch}{today}", heads)
    words = [
        "gh", "pr", "create", "--base", config.base, "--head", branch, "--title", title, "--body-file", BODY,
    ]  # fmt: skip
    return Plan(root, branch, config.base, 0, title, _push(config, branch), words)


def _push(config: Publishing, branch: str) -> list[str]:
    return ["push", config.remote, f"{COMMIT}:refs/heads/{branch}"]


def _open_request(root: Path, config: Publishing) -> tuple[int, str]:
    words = [
        "gh", "pr", "list", "--state", "open", "--base", config.base, "--limit", str(MOST_REQUESTS),
        "--json", "number,headRefName,isCrossRepository",
    ]  # fmt: skip
    said = run_program(words, root)
    try:
        rows = [row for row in json.loads(said or "[]") if not row["isCrossRepository"]]
        ours = [(int(row["number"]), str(row["headRefName"])) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise HuskError(f"`gh pr list` did not print what it should ({type(error).__name__}: {error}).") from None
    return max((one for one in ours if one[1].startswith(config.branch)), default=(0, ""))


def _free(name: str, heads: set[str]) -> str:
    """A branch that was left when its pull request was closed is not ours to push to."""
    found, number = name, 1
    while found in heads:
        number += 1
        found = f"{name}-{number}"
    return found


def committed(config: Publishing, root: Path, documents: Sequence[Path]) -> dict[str, Path]:
    """Which of the documents are committed: path in the repository -> file."""
    chosen = [path for path in documents if any(fnmatch.fnmatchcase(path.name, one) for one in config.files)]
    if not chosen:
        raise UsageError(f"publish.files = {list(config.files)!r} fits none of the documents.")
    found = {}
    for path in chosen:
        try:
            found[str(path.resolve().relative_to(root.resolve()))] = path
        except ValueError:
            raise UsageError(f"{path} does not lie in the repository {root}; `out` must, to be published.") from None
    return found


def publish(config: Publishing, plan: Plan, documents: Sequence[Path], summary: str, body: str) -> str:
    """What was done, as one line. CommandFailed: how far it came, and what to do."""
    files = committed(config, plan.root, documents)
    git(plan.root, "fetch", "--quiet", "--no-tags", config.remote, f"refs/heads/{plan.parent}")
    parent = git(plan.root, "rev-parse", "FETCH_HEAD")
    with tempfile.TemporaryDirectory(prefix="husk-publish-") as place:
        commit = _commit(plan, parent, files, f"{plan.title}\n\n{summary}\n", Path(place))
        if commit:
            git(plan.root, *(word.replace(COMMIT, commit) for word in plan.push))
        elif not plan.number:
            return "the documents are on the branch already; nothing to publish"
        text = Path(place, "body.md")
        text.write_text(body)
        words = [word.replace(BODY, str(text)) for word in plan.request]
        try:
            said = run_program(words, plan.root, shown=plan.request[:3])
        except CommandFailed as error:
            pushed = f"{plan.branch} is pushed" if commit else f"{plan.branch} is as it should be"
            raise HuskError(f"{error} {pushed}: open or edit the pull request by hand.") from None
    what = f"updated pull request {plan.number}" if plan.number else "opened a pull request"
    return f"{what} from {plan.branch}" + (f": {said.splitlines()[-1]}" if said else "")


def _commit(plan: Plan, parent: str, files: dict[str, Path], message: str, place: Path) -> str:
    """Empty: the parent has these very files."""
    index = {"GIT_INDEX_FILE": str(place / "index")}
    git(plan.root, "read-tree", parent, more=index)
    for name, path in files.items():
        blob = git(plan.root, "hash-object", "-w", "--no-filters", "--", str(path.resolve()))
        git(plan.root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", more=index)
    tree = git(plan.root, "write-tree", more=index)
    if tree == git(plan.root, "rev-parse", f"{parent}^{{tree}}"):
        return ""
    text = place / "message"
    text.write_text(message)
    return git(plan.root, "commit-tree", tree, "-p", parent, "-F", os.fspath(text))
