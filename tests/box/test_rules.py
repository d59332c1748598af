"""Rules for names below mounts, as people use them: each verb in each mode, the defaults, and what is said."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import scratch
from tests.snapshots.place import Place

pytestmark = [
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
    pytest.mark.both_settings,
]

SECRET = "the-secret-itself"
GIT = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]


class Home(Place):
    """A home with a project in it."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.home = top / "home"
        self.project = self.home / "work"
        (self.home / ".ssh").mkdir(parents=True)
        self.project.mkdir()
        for name in (".ssh/id_rsa", ".netrc", "work/.env", ".bashrc", "work/.npmrc"):
            (self.home / name).write_text(SECRET)
        (self.project / ".env.example").write_text("example")

    def environment(self) -> dict[str, str]:
        return super().environment() | {"HOME": str(self.home)}

    def run(self, mode: str, script: str, *options: str) -> tuple[str, str, list[dict[str, object]]]:
        """Output, errors, and what was refused."""
        words = ("run", "--json", "--mount", f"{self.home}:/h:{mode}", *options, "--", "sh", "-c", f"cd /h; {script}")
        code, out, err = self.call(*words)
        assert code == 0, (out, err)
        found = json.loads(out)
        return found["stdout"], found["stderr"], found["refusals"]


@pytest.fixture
def home() -> Iterator[Home]:
    with scratch() as top:
        yield Home(top)


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_the_defaults(home: Home, mode: str) -> None:
    script = "ls -A . work; cat .ssh/id_rsa .netrc work/.env; cat work/.env.example; echo x >>.bashrc; true"
    out, err, refused = home.run(mode, script)
    assert ".ssh" not in out and ".netrc" not in out and ".env\n" in out and "example" in out
    assert SECRET not in out + err
    assert "work/.env: Permission denied" in err and ".netrc: No such file" in err
    told = {str(one["what"]): one for one in refused}
    assert told["/h/work/.env"]["errno"] == "EACCES" and told["/h/work/.env"]["allow"] == "--allow .env"
    assert told["/h/.ssh/id_rsa"]["errno"] == "ENOENT" and told["/h/.netrc"]["allow"] == "--allow .netrc"
    assert "the default rule --hide .ssh hides it" in str(told["/h/.ssh/id_rsa"]["reason"])
    if mode == "rw":
        assert told["/h/.bashrc"]["errno"] == "EROFS" and told["/h/.bashrc"]["allow"] == "--allow '~/.bashrc'"
    assert (home.home / ".bashrc").read_text() == SECRET


@pytest.mark.parametrize("mode", ["ro", "rw", "cow"])
def test_each_default_is_lifted_by_name(home: Home, mode: str) -> None:
    script = "cat .ssh/id_rsa; cat work/.env; cat .netrc; true"
    out, err, _ = home.run(mode, script, "--allow", ".ssh", "--allow", "work/.env")
    assert out.count(SECRET) == 2 and ".netrc" in err
    assert home.run(mode, script, "--no-default-rules")[0].count(SECRET) == 3


def test_lifting_protection_changes_the_host(home: Home) -> None:
    home.run("rw", "echo x >.bashrc", "--allow", ".bashrc")
    assert (home.home / ".bashrc").read_text() == "x\n"


def test_one_s_own_rules(home: Home) -> None:
    rules = ("--hide", "*.example", "--deny", "work/.npmrc", "--protect", "work")
    out, _, refused = home.run("rw", "ls -A work; cat work/.npmrc; touch work/new; rm work/.env; true", *rules)
    assert ".env.example" not in out and ".npmrc" in out and SECRET not in out
    allow = [one["allow"] for one in refused]
    assert allow == ["leave out --deny work/.npmrc", "leave out --protect work", "--allow .env"]
    assert sorted(os.listdir(home.project)) == [".env", ".env.example", ".npmrc"]


def test_a_mount_of_just_that_directory_shows_it(home: Home) -> None:
    out, _, _ = home.run("ro", "cat /s/id_rsa; ls -A", "--mount", f"{home.home}/.ssh:/s:ro")
    assert SECRET in out and ".ssh" not in out
    out, _, _ = home.run("ro", "cat /n; true", "--mount", f"{home.home}/.netrc:/n:ro")
    assert SECRET in out


def test_a_mount_upon_a_hidden_directory_is_seen(home: Home) -> None:
    other = home.top / "other"
    other.mkdir()
    (other / "known").write_text("known")
    for mode in ("ro", "rw", "cow"):
        out, _, _ = home.run(mode, "ls -A .ssh; ls -A", "--mount", f"{other}:/h/.ssh:ro")
        assert out.startswith("known\n") and ".ssh\n" in out, mode


def test_a_virtual_environment_called_env(home: Home) -> None:
    """Python's documentation once called it so; a rule for files leaves it."""
    out, _, _ = home.run("rw", "cd work; mkdir -p v/.env/bin; echo ok >v/.env/bin/x; cat v/.env/bin/x")
    assert out == "ok\n"
    (home.project / "w" / ".env").mkdir(parents=True)
    out, _, _ = home.run("rw", "touch work/w/.env/pyvenv.cfg && ls work/w/.env")
    assert out == "pyvenv.cfg\n"


def test_git_works_in_a_project(home: Home) -> None:
    """Committing, branching and cloning; but the host's hooks and configuration stay as they are."""
    git = " ".join(["git", *GIT])
    subprocess.run(["git", "init", "-q", str(home.project)], check=True, env={"PATH": os.environ["PATH"], "HOME": "/"})
    config = (home.project / ".git" / "config").read_bytes()
    hooks = sorted(os.listdir(home.project / ".git" / "hooks"))
    script = (
        f"cd work && echo 1 >a && {git} add a && {git} commit -qm one && {git} checkout -qb other && echo 2 >a"
        f" && {git} commit -qam two && {git} log --format=%s && {git} status --porcelain a"
        f" && mkdir .git/x && rmdir .git/x && {git} clone -q . copy && ls copy && {git} init -q fresh"
        f" && echo hook >fresh/.git/hooks/pre-commit && {git} -C fresh config a.b c && echo all-done;"
        f" {git} config core.fsmonitor evil; echo evil >.git/hooks/pre-commit; mv .git .away; rm -rf .git/hooks; true"
    )
    out, err, refused = home.run("rw", script)
    assert out.split() == ["two", "one", "a", "all-done"], (out, err)
    assert (home.project / ".git" / "config").read_bytes() == config
    assert sorted(os.listdir(home.project / ".git" / "hooks")) == hooks
    told = {(str(one["what"]), str(one["errno"])) for one in refused}
    assert {("/h/work/.git/config", "EROFS"), ("/h/work/.git/hooks/pre-commit", "EROFS")} <= told
    assert ("/h/work/.away", "EBUSY") in told


def test_a_repository_with_such_names_can_be_cloned(home: Home) -> None:
    """A directory that the guest made is its own: what is in it cannot be the host's."""
    git = " ".join(["git", *GIT])
    script = (
        "cd work && mkdir up && cd up && git init -q && mkdir .vscode && echo 1 >.vscode/tasks.json && echo 1 >.env &&"
        f" {git} add -f . && {git} commit -qm x && {git} clone -q . ../down &&"
        " cat ../down/.env ../down/.vscode/tasks.json && mv ../down ../elsewhere && cat ../elsewhere/.env"
    )
    assert home.run("rw", script)[0] == "1\n1\n1\n"
    # The next run finds a project of the host's.
    _, err, _ = home.run("rw", "cat work/elsewhere/.env; echo 2 >work/elsewhere/.vscode/tasks.json; true")
    assert "Permission denied" in err and "Read-only file system" in err


def test_husk_rules_lists_them(home: Home) -> None:
    found = home.json("rules", "--json", "--mount", f"{home.home}:/h:rw", "--deny", "work/.npmrc")
    named = {one["path"]: one["rule"] for one in found["mounts"][0]["named"]}
    assert named == {".ssh": "hide", ".netrc": "hide", ".bashrc": "protect", "work/.npmrc": "deny"}
    assert ".git/hooks" in home.husk("rules")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--hide", "a[b"], "not closed"),
        (["--hide", "../x"], "goes down only"),
        (["--protect", "/h/work"], "patterns name host paths"),
        (["--deny", "/nowhere/x"], "no mount shows that host path"),
        (["--hide", "!x"], "--allow x"),
        (["--allow", ""], "--allow needs a value"),
    ],
)
def test_a_mistake_is_one_sentence(home: Home, options: list[str], said: str) -> None:
    err = home.refused(2, "run", "--mount", f"{home.home}:/h:ro", *options, "--", "true")
    assert said in err


def test_a_mount_point_in_a_hidden_directory(home: Home) -> None:
    other = home.top / "other"
    other.mkdir()
    mounts = ["--mount", f"{home.home}:/h:cow", "--mount", f"{other}:/h/.ssh/keys:ro"]
    assert "--allow .ssh" in home.refused(2, "run", *mounts, "--", "true")


# -- kept boxes ----------------------------------------------------------------------------------------------------
def test_rules_stay_with_a_kept_box(home: Home) -> None:
    mount = ["--mount", f"{home.home}:/h:cow"]
    home.sh("box", "mv /h/work /h/moved", *mount, "--hide", "*.example", "--allow", ".netrc")
    out = home.sh("box", "ls -A /h/moved; cat /h/.netrc /h/moved/.env 2>&1 || true")
    assert ".env.example" not in out and out.count(SECRET) == 1


def test_apply_leaves_out_what_a_rule_is_about(home: Home) -> None:
    (home.project / ".git" / "hooks").mkdir(parents=True)
    (home.project / ".git" / "config").write_text("host")
    script = (
        "cd /h/work; echo evil >.git/hooks/pre-commit; echo evil >.git/config; echo plain >.git/index;"
        " echo evil >../.bashrc; echo new >new;"
        " mkdir ../.ssh; echo mine >../.ssh/id_rsa; mkdir .vscode; echo evil >.vscode/tasks.json;"
        " mkdir -p sub/.vscode; echo own >sub/.vscode/x; echo own >sub/.env;"
        " rm -f .npmrc; ln -s sub .claude; rm -rf /h/gone"
    )
    (home.home / "gone").mkdir()
    (home.home / "gone" / ".env").write_text(SECRET)
    code, out, err = home.call("run", "--keep", "box", "--mount", f"{home.home}:/h:cow", "--", "sh", "-c", script)
    assert "gone/.env" in err, (code, out)
    out = home.husk("apply", "box", "--yes")
    assert (home.project / ".git" / "config").read_text() == "host" and not os.listdir(home.project / ".git" / "hooks")
    assert (home.project / ".git" / "index").read_text() == "plain\n" and (home.project / "new").read_text() == "new\n"
    assert (home.home / ".bashrc").read_text() == (home.home / ".ssh" / "id_rsa").read_text() == SECRET
    assert not (home.project / ".vscode").exists() and (home.project / "sub/.env").read_text() == "own\n"
    assert (home.project / "sub").is_dir() and not (home.project / "sub/.vscode").exists()
    assert not (home.project / ".claude").is_symlink() and not (home.project / ".npmrc").exists()
    assert (home.home / "gone" / ".env").read_text() == SECRET
    for name in (".git/hooks", ".git/config", ".bashrc", ".ssh", ".vscode", "sub/.vscode", ".claude"):
        assert any(line.startswith("note: ") and name in line for line in out.splitlines()), (name, out)


def test_apply_does_not_remove_what_is_hidden_with_its_directory(home: Home) -> None:
    (home.home / "old").mkdir()
    (home.home / "old" / ".netrc").write_text(SECRET)
    mount = ["--mount", f"{home.home}:/h:cow"]
    home.sh("box", "rmdir /h/old; echo 1 >/h/one", *mount)
    out = home.husk("apply", "box", "--yes")
    assert (home.home / "old" / ".netrc").read_text() == SECRET and (home.home / "one").exists()
    assert "old (old/.netrc): the default rule --hide .netrc hides it" in out


@pytest.mark.needs("git")
def test_apply_brings_no_configuration_of_a_new_repository(home: Home) -> None:
    """git runs what core.fsmonitor says, at the next git status on the host."""
    home.sh("box", "cd /h/work && git init -q && git config core.fsmonitor evil", "--mount", f"{home.home}:/h:cow")
    out = home.husk("apply", "box", "--yes")
    assert (home.project / ".git" / "HEAD").exists() and not (home.project / ".git" / "config").exists()
    assert not (home.project / ".git" / "hooks").exists() and ".git/config: " in out
    env = {"PATH": os.environ["PATH"], "HOME": str(home.home)}
    subprocess.run(["git", "-C", str(home.project), "status"], check=True, env=env, stdout=subprocess.DEVNULL)
    home.husk("apply", "box", "--yes", "--allow", ".git/config")
    assert "evil" in (home.project / ".git" / "config").read_text()


def test_apply_with_a_rule_lifted(home: Home) -> None:
    home.sh("box", "echo mine >/h/.bashrc; echo new >/h/new", "--mount", f"{home.home}:/h:cow")
    assert "left out" in home.husk("apply", "box", "--yes")
    # What was left out is still in the box.
    assert (home.home / "new").exists() and (home.home / ".bashrc").read_text() == SECRET
    assert home.husk("diff", "box") == "changed  /h/.bashrc\n"
    home.husk("apply", "box", "--yes", "--allow", ".bashrc")
    assert (home.home / ".bashrc").read_text() == "mine\n"
