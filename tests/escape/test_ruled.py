"""Rules for names below a mount: every operation that names something, on a file, a directory, a link, and on nothing.

One program tries the whole table (ruled.c). Without rules everything in it succeeds, so the test can fail.
With a rule, only what the rule leaves may succeed, no line holds the secret, and the host is as it was.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.escape.test_escape import ESCAPE
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, husk_command, scratch

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

NAME, SECRET = "vault.key", "the-secret-itself"
MODES = ("ro", "rw", "cow")


class Table:
    """The operations, and for each a directory of its own with what it works on."""

    def __init__(self, programs: Path, top: Path) -> None:
        self.programs, self.top = programs, top
        listed = subprocess.run([programs / "ruled", "list"], capture_output=True, text=True, check=True).stdout
        self.lines = listed.splitlines()
        top.chmod(0o755)
        for number, line in enumerate(self.lines):
            here = top / str(number)
            here.mkdir()
            self._prepare(here, line.split()[0])

    def _prepare(self, here: Path, kind: str) -> None:
        thing = here / NAME
        if kind == "file":
            thing.write_text(f"#!/bin/cat\n{SECRET}\n")
            thing.chmod(0o755)
            os.setxattr(thing, "user.secret", SECRET.encode())
        elif kind == "dir":
            thing.mkdir()
            (thing / "inner").write_text(SECRET)
        elif kind == "link":
            (here / "far").write_text(SECRET)
            thing.symlink_to("far")
        if kind == "dir":
            (here / "victim").mkdir()
        else:
            (here / "victim").write_text("victim")

    def picture(self) -> dict[str, object]:
        """All that the host has, but for links `alias`, which the guest may make, and what they change above them."""
        found: dict[str, object] = {}
        for path in sorted(self.top.rglob("*")):
            info = path.lstat()
            if path.name == "alias":
                continue
            attributes = {} if path.is_symlink() else {name: os.getxattr(path, name) for name in os.listxattr(path)}
            numbers = [info.st_ino, info.st_mode, info.st_nlink, info.st_uid]
            if path.parent != self.top:
                numbers += [info.st_size, info.st_mtime_ns]
            found[str(path.relative_to(self.top))] = numbers, attributes
        return found

    def run(self, mode: str, *rules: str) -> Result:
        mounts = ["--mount", f"{self.programs}:{ESCAPE}:ro", "--mount", f"{self.top}:/m:{mode}"]
        return husk(["run", *mounts, *rules, "--", f"{ESCAPE}/ruled", "/m", NAME])

    def everything(self, mode: str) -> set[str]:
        """What succeeds without a rule: below cow the host's extended attributes are not there."""
        attributes = ("getxattr", "listxattr", "removexattr") if mode == "cow" else ()
        return {line for line in self.lines if line.split()[-1] not in attributes}

    def all(self, *kinds: str) -> set[str]:
        return {line for line in self.lines if line.split()[1] in [f"{kind}:" for kind in kinds]}


@pytest.fixture
def table(programs: Path) -> Iterator[Table]:
    with scratch() as top:
        yield Table(programs, top)


def did(result: Result) -> set[str]:
    assert result.status == 0, result
    return {line.removeprefix("did ") for line in result.out.splitlines() if line.startswith("did ")}


@pytest.mark.parametrize("mode", ["rw", "cow"])
def test_without_rules_everything_succeeds(table: Table, mode: str) -> None:
    result = table.run(mode)
    assert did(result) == table.everything(mode)
    assert SECRET in result.out


@pytest.mark.parametrize("mode", MODES)
def test_hidden(table: Table, mode: str) -> None:
    before = table.picture()
    result = table.run(mode, "--hide", NAME)
    # Below cow the guest may have a file of its own by that name: the host's is not touched.
    own = {line for line in table.lines if "make:" in line or line.endswith(("creating open", "rename over"))}
    assert did(result) == (own if mode == "cow" else set())
    assert SECRET not in result.out + result.err
    assert table.picture() == before


@pytest.mark.parametrize("mode", MODES)
def test_denied(table: Table, mode: str) -> None:
    before = table.picture()
    result = table.run(mode, "--deny", NAME)
    assert did(result) == table.all("look") | (table.all("make") if mode == "cow" else set())
    assert SECRET not in result.out + result.err
    assert table.picture() == before


@pytest.mark.parametrize("mode", MODES)
def test_protected(table: Table, mode: str) -> None:
    before = table.picture()
    result = table.run(mode, "--protect", NAME)
    # Below cow the host's file is safe, and the guest may do as it likes: `husk apply` leaves it out.
    readable = table.all("look", "read") - no_link(table, mode)
    assert did(result) == (table.everything("cow") if mode == "cow" else readable)
    assert table.picture() == before


def no_link(table: Table, mode: str) -> set[str]:
    """On a read-only mount the guest cannot make the link."""
    return {line for line in table.all("read") if line.endswith("through a link")} if mode == "ro" else set()


def test_by_identity_a_second_name_of_the_host_does_not_help(table: Table) -> None:
    """A hard link that was there before the box, beside the rule's name at the mount's root."""
    (table.top / NAME).write_text(SECRET)
    os.link(table.top / NAME, table.top / "second")
    script = "cat /m/second; ls /m; echo more >>/m/second; mv /m/second /m/third; cat /m/third"
    mount = ["--mount", f"{table.top}:/m:rw"]
    assert SECRET in husk(["run", *mount, "--", "sh", "-c", "cat /m/second"]).out, "without a rule it is read"
    for verb in ("--hide", "--deny"):
        result = husk(["run", *mount, verb, NAME, "--", "sh", "-c", script])
        assert SECRET not in result.out + result.err
        assert ("second" in result.out) == (verb == "--deny")
    husk(["run", *mount, "--protect", NAME, "--", "sh", "-c", script])
    assert (table.top / "second").read_text() == SECRET


def test_by_name_what_appears_later(table: Table) -> None:
    """The host makes it while the box runs."""
    script = "touch /m/ready; until test -e /m/go; do sleep 0.02; done; cat /m/vault.key /m/0/sub/vault.key; ls /m /m/0"
    for verb in ("--hide", "--deny"):
        command = [*husk_command(), "run", "--mount", f"{table.top}:/m:rw", verb, NAME, "--", "sh", "-c", script]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            while not (table.top / "ready").exists():
                assert process.poll() is None
            (table.top / "0" / "sub").mkdir(exist_ok=True)
            for place in (table.top, table.top / "0" / "sub"):
                (place / NAME).write_text(SECRET)
            (table.top / "go").touch()
            out, _ = process.communicate(timeout=60)
        assert SECRET not in out
        assert out.count("vault.key") == (2 if verb == "--hide" else 4), out
        for used in ("ready", "go", NAME):
            (table.top / used).unlink()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a bind mount")
@pytest.mark.parametrize("mode", MODES)
def test_by_another_path_of_the_host(table: Table, mode: str) -> None:
    """A bind mount below the mount leads to the same directory under another name."""
    private, alias = table.top / "private.d", table.top / "alias"
    private.mkdir()
    alias.mkdir()
    (private / "key").write_text(SECRET)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    for verb in ("--hide", "--deny", "--protect"):
        guest = "cat /m/alias/key; ls /m/alias; echo more >/m/alias/key; rm /m/alias/key; touch /m/alias/new"
        options = ["--mount", f"{table.top}:/m:{mode}", verb, "private.d"]
        command = [*husk_command(), "run", *options, "--", "sh", "-c", guest]
        wrapped = ["unshare", "--mount", "sh", "-c", script, "sh", str(private), str(alias), *command]
        done = subprocess.run(wrapped, capture_output=True, text=True, timeout=100, check=False)
        assert (SECRET in done.stdout) == (verb == "--protect"), done
        assert os.listdir(private) == ["key"] and (private / "key").read_text() == SECRET


def test_moving_what_lies_above(table: Table) -> None:
    """A rule with several parts holds its directories in place; what floats takes its rule along."""
    deep = table.top / "conf" / "cloud"
    deep.mkdir(parents=True)
    (deep / "token").write_text(SECRET)
    script = (
        "mv /m/conf /m/away; cat /m/away/cloud/token; mkdir /m/x; mv -T /m/x /m/conf; mv /m/0 /m/zero; cat /m/zero/*;"
        " ln -s x /m/other; rmdir /m/conf; mv /m/zero /m/0"
    )
    for verb in ("--hide", "--deny"):
        rules = [verb, "conf/cloud", verb, NAME]
        result = husk(["run", "--mount", f"{table.top}:/m:rw", *rules, "--", "sh", "-c", script])
        assert SECRET not in result.out + result.err
        assert (deep / "token").read_text() == SECRET
        (table.top / "other").unlink()
        (table.top / "x").rmdir()


def test_planting_by_way_of_a_directory(table: Table) -> None:
    """Nothing is there yet. A protected name must not come in with a directory or a link that is moved over it."""
    script = (
        "mkdir -p /m/d/run; echo evil >/m/d/run/start; mv /m/d /m/conf; ln -s d /m/conf; mkdir /m/conf;"
        " mkdir /m/conf/run; mv /m/d/run /m/conf/run; ln -s ../d/run /m/conf/run; touch /m/conf/run;"
        " mkdir /m/conf/other; echo ok"
    )
    mount = ["--mount", f"{table.top}:/m:rw"]
    result = husk(["run", *mount, "--protect", "conf/run", "--", "sh", "-c", script])
    assert result.out == "ok\n" and os.listdir(table.top / "conf") == ["other"]
    (table.top / "conf" / "other").rmdir()
    (table.top / "conf").rmdir()
    husk(["run", *mount, "--", "sh", "-c", script])
    assert (table.top / "conf" / "run" / "start").exists(), "without the rule it is planted"


def test_a_directory_of_the_host_moved_into_one_of_the_guest(table: Table) -> None:
    """Default rules except what the guest made, not what it moved there. A file of its own shows that they do."""
    inner = table.top / "project" / "deep"
    inner.mkdir(parents=True)
    (inner / ".env").write_text(SECRET)
    (inner / ".vscode").mkdir()
    (inner / ".vscode" / "tasks.json").write_text("host")
    script = (
        "cd /m; mkdir mine; echo own >mine/.env; cat mine/.env; mkdir mine/.vscode; echo own >mine/.vscode/x;"
        " mv project/deep mine/; cat mine/deep/.env; echo evil >mine/deep/.vscode/tasks.json;"
        " mv mine/deep mine/.vscode/; mv mine/.vscode moved; cat mine/.vscode/deep/.env moved/deep/.env;"
        " echo evil >mine/.vscode/deep/.vscode/tasks.json; echo evil >moved/deep/.vscode/tasks.json;"
        " rm -rf mine/.env; find . -name .env -exec cat {} +; mv project/deep/.env mine/; ln project/deep/.env mine/"
    )
    result = husk(["run", "--mount", f"{table.top}:/m:rw", "--", "sh", "-c", script])
    assert result.out == "own\n", result
    found = next(table.top.rglob("deep"))
    assert (found / ".env").read_text() == SECRET and (found / ".vscode" / "tasks.json").read_text() == "host"


def test_no_other_configuration_for_git(table: Table) -> None:
    """git obeys a configuration elsewhere if .git/commondir names it, or if the directory looks like a repository."""
    git = table.top / ".git"
    for folder in ("hooks", "modules/libs/sub/hooks", "worktrees/other"):
        (git / folder).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "worktrees" / "other" / "commondir").write_text("../..\n")
    script = (
        "cd /m; echo ../evil >.git/commondir; echo ../../../evil >.git/worktrees/other/commondir; echo ref >HEAD;"
        " ln -s refs/heads/main HEAD; echo ref >victim; mv victim HEAD; echo evil >.git/modules/libs/sub/hooks/x;"
        " echo '[core]' >.git/modules/libs/sub/config; mkdir head && rmdir head; cd .git; echo new >HEAD.lock;"
        " mv HEAD.lock HEAD; cd modules/libs/sub; echo 1 >index.lock; mv index.lock index; ls; cat /m/.git/HEAD"
    )
    mount = ["--mount", f"{table.top}:/m:rw"]
    result = husk(["run", *mount, "--", "sh", "-c", script])
    assert result.out == "hooks\nindex\nnew\n", result
    assert sorted(os.listdir(git)) == ["HEAD", "hooks", "modules", "worktrees"]
    assert not os.path.lexists(table.top / "HEAD") and os.listdir(git / "modules/libs/sub/hooks") == []
    assert (git / "worktrees" / "other" / "commondir").read_text() == "../..\n"
    husk(["run", *mount, "--no-default-rules", "--", "sh", "-c", script])
    assert (table.top / "HEAD").exists() and (git / "commondir").exists(), "without the rules they are made"


def test_a_directory_of_the_host_that_had_a_name_of_the_guests(table: Table) -> None:
    """Moved to a ruled name in a directory of the guest's own, and back, it could be filled with such names."""
    (table.top / "project").mkdir()
    script = (
        "mkdir /m/own; for name in .vscode .git; do mv /m/project /m/own/$name; mkdir /m/own/$name/.claude;"
        " mkdir /m/own/$name/hooks; mv /m/own/$name /m/project; mkdir /m/project/.vscode; touch /m/project/.mcp.json;"
        " done; mv /m/project /m/.env; mkdir /m/.env/.vscode; mv /m/.env /m/project; mkdir /m/project/.vscode;"
        " mkdir /m/own/.idea && touch /m/own/.idea/x && echo mine"
    )
    assert husk(["run", "--mount", f"{table.top}:/m:rw", "--", "sh", "-c", script]).out == "mine\n"
    assert os.listdir(table.top / "project") == [] and os.listdir(table.top / "own") == [".idea"]
