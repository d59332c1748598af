"""`husk skill run`, `learn` and `test`, as a person calls them."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from husk.sandbox.remove_tree import DIRECTORY, empty_directory
from husk.skills.output_files import Staging
from tests.lib import running
from tests.skills.calling import husk_skill, layers_of, make_skill, refused, serving

COPY = """#!/bin/sh
tr a-z A-Z < /in/a.txt > /out/A.txt
echo local > here.txt
mkdir deep && echo x > deep/er.txt
echo private > /tmp/husk-skill-test
exit $1
"""


@pytest.mark.both_settings
def test_input_and_output(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "upper", {"scripts/up.sh": COPY, "given/a.txt": "hello\n"})
    answer = husk_skill(tmp_path, "run", skill, "--in", skill / "given", "--out", tmp_path / "out", "--", "7")
    assert answer.code == 7 and answer.out == ""
    assert "A.txt (6 bytes)" in answer.err and "exit code 7" in answer.err
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")}
    assert found == {"A.txt", "here.txt", "deep", "deep/er.txt"}
    assert (tmp_path / "out/A.txt").read_text() == "HELLO\n"
    assert not Path("/tmp/husk-skill-test").exists()


def test_refusals_are_told(tmp_path: Path) -> None:
    text = "#!/bin/sh\necho y >> /skill/SKILL.md\ncat /etc/shadow\nmktemp -d >/dev/null && echo made\n"
    skill = make_skill(tmp_path, "rude", {"scripts/x.sh": text})
    answer = husk_skill(tmp_path, "run", skill, "--json")
    told = answer.json
    assert told["stdout"] == "made\n" and told["exit_code"] == answer.code == 0
    assert {item["what"]: item["reason"] for item in told["refusals"]} == {
        "/skill/SKILL.md": "it is mounted read-only",
        "/etc/shadow": "nothing is mounted there",
    }
    assert "y" not in (skill / "SKILL.md").read_text().splitlines()
    assert husk_skill(tmp_path, "run", skill, "-q").err.startswith("/skill/scripts/x.sh")


def test_a_working_directory_is_a_copy(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "edit", {"scripts/x.sh": "echo new > file; cat file; pwd; echo x > /out/x\n"})
    work = tmp_path / "work"
    work.mkdir()
    (work / "file").write_text("old\n")
    answer = husk_skill(tmp_path, "run", skill, "--work", work, "--out", tmp_path / "out")
    assert answer.out == "new\n/workspace\n" and (work / "file").read_text() == "old\n"
    assert "file (4 bytes)" in answer.err and sorted(os.listdir(tmp_path / "out")) == ["file", "x"]
    assert (tmp_path / "out/file").read_text() == "new\n"


def test_what_is_handed_over_cannot_harm(tmp_path: Path) -> None:
    """Links stay in the box, nothing is written through links that are there, and no file comes out set-uid."""
    script = """import os
os.symlink("/etc/passwd", "/out/link")
os.mkfifo("/out/pipe")
os.mkdir("/out/sub")
open("/out/sub/evil", "w").write("evil")
open("/out/target", "w").write("evil")
open("/out/suid", "w").write("x")
os.chmod("/out/suid", 0o4755)
os.mkdir("/out/shut")
open("/out/shut/in", "w").write("x")
os.chmod("/out/shut", 0)
"""
    skill = make_skill(tmp_path, "evil", {"scripts/x.py": script})
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("mine")
    (out / "sub").symlink_to(elsewhere)
    (out / "target").symlink_to(elsewhere / "kept")
    answer = husk_skill(tmp_path, "run", skill, "--out", out)
    assert answer.code == 0, answer.err
    assert sorted(os.listdir(out)) == ["shut", "sub", "suid", "target"]
    assert [path.name for path in elsewhere.iterdir()] == ["kept"] and (elsewhere / "kept").read_text() == "mine"
    assert not (out / "target").is_symlink() and (out / "suid").stat().st_mode & 0o7000 == 0
    assert (out / "shut/in").read_text() == "x"
    for text in ("link: a link", "pipe: no file", "sub: in the way there is no folder"):
        assert text in answer.err


def test_depth_is_no_harm(tmp_path: Path) -> None:
    """As deep as a path can be in the box, which is deeper than one can be here."""
    staging = Staging(tmp_path / "out")
    at = os.open(staging.base / "out", os.O_PATH)
    name, depth = "d" * 100, 40
    for _ in range(depth):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_PATH, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.close(at)
    (staging.base / "out" / "good").write_text("good")
    found = staging.publish()
    staging.remove()
    assert [name for name, _ in found.files] == [f"{name}/" * depth + "file", "good"] and found.left == []
    assert sorted(os.listdir(tmp_path / "out")) == [name, "good"]
    top = os.open(tmp_path / "out", DIRECTORY)
    empty_directory(top)  # pytest could not
    os.close(top)


def test_an_ordinary_user_gets_what_the_guest_has_shut(tmp_path: Path) -> None:
    """The guest of an ordinary user has the same uid, and can close folders to both."""
    tmp_path.chmod(0o777)
    for above in tmp_path.parents[:3]:
        if above.stat().st_uid == os.geteuid() and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o711)
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            staging = Staging(tmp_path / "out")
            sub = staging.base / "out" / "sub"
            sub.mkdir()
            (sub / "file").write_text("x")
            sub.chmod(0)
            (staging.base / "out").chmod(0)
            found = staging.publish()
            staging.remove()
            code = 0 if found.files == [("sub/file", 1)] and not found.left else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.listdir(tmp_path / "out") == ["sub"] and (tmp_path / "out/sub/file").read_text() == "x"


def test_a_folder_exchanged_while_it_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest of another box, which has the target as an `rw` mount, exchanges it."""
    outside = tmp_path / "outside"
    outside.mkdir(0o755)
    (outside / "secret").write_text("secret")
    staging = Staging(tmp_path / "out")
    (staging.base / "out" / "sub").mkdir()
    mkdir = os.mkdir

    def made(path: str | bytes, *args: Any, **more: Any) -> None:
        mkdir(path, *args, **more)
        os.rename(staging.base / "out" / "sub", staging.base / "away")
        os.symlink(outside, staging.base / "out" / "sub")

    monkeypatch.setattr(os, "mkdir", made)
    found = staging.publish()
    staging.remove()
    assert found.files == [] and len(found.left) == 1
    assert os.listdir(outside) == ["secret"] and outside.stat().st_mode & 0o777 == 0o755


@pytest.mark.both_settings
def test_what_it_starts_ends_with_it(tmp_path: Path) -> None:
    mark = os.urandom(8).hex()  # unique on this host
    script = f"MARK={mark} setsid sleep 1000 &\necho started\n"
    skill = make_skill(tmp_path, "server", {"scripts/x.sh": script})
    assert husk_skill(tmp_path, "run", skill, "-q").out == "started\n"
    assert running.leftovers(mark, 30) == {}


# -- nothing runs -----------------------------------------------------------------------------------------------------


def test_what_cannot_be_run(tmp_path: Path) -> None:
    ran = {"scripts/x.sh": "echo RAN\n"}
    broken = make_skill(tmp_path, "broken", ran, head="---\nname: [\n---\n")
    refused(husk_skill(tmp_path, "run", broken), "the front matter is not YAML: line")
    strange = make_skill(tmp_path, "strange", {"scripts/x": "#!/usr/bin/nosuchlang\n"})
    refused(husk_skill(tmp_path, "run", strange), "scripts/x needs nosuchlang, which is not in the box")
    refused(husk_skill(tmp_path, "run", make_skill(tmp_path, "empty", {})), "there is no script in it")
    circle = make_skill(tmp_path, "circle", ran)
    (circle / "scripts/up").symlink_to("..")
    refused(husk_skill(tmp_path, "run", circle), "the link 'scripts/up' leads in a circle")
    with zipfile.ZipFile(tmp_path / "bomb.skill", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("SKILL.md", bytes(4 << 20))
    refused(husk_skill(tmp_path, "run", tmp_path / "bomb.skill"), "packed more than 200 to 1")
    with zipfile.ZipFile(tmp_path / "z.skill", "w") as out:
        out.writestr("../x", "")
    refused(husk_skill(tmp_path, "run", tmp_path / "z.skill"), "'../x' is refused")
    lacking = make_skill(tmp_path, "lacking", {"scripts/x.py": "import nosuchmodule_x\nprint('RAN')\n"})
    refused(husk_skill(tmp_path, "run", lacking), "the box's python3 lacks nosuchmodule_x; give --find-links")
    (tmp_path / "wheels").mkdir()
    answer = husk_skill(tmp_path, "run", lacking, "--find-links", tmp_path / "wheels")
    refused(answer, "cannot be installed from")
    assert not list((tmp_path / "cache/installing").glob("new-*")) and layers_of(tmp_path) == []


def test_more_than_the_manifest_gives(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "asks", {"scripts/x.sh": "echo RAN\n"})
    little, much, given = tmp_path / "little.toml", tmp_path / "much.toml", tmp_path / "given"
    given.mkdir()
    little.write_text('version = 1\n[limits]\ntime = "300"\n')
    much.write_text('version = 1\n[network]\nhosts = ["example.org"]\n[limits]\ntime = "1h"\n')
    refused(husk_skill(tmp_path, "run", skill, "--permissions", little, "--in", given), "does not allow it ([files])")
    answer = husk_skill(tmp_path, "run", skill, "--permissions", much, "--max-permissions", little)
    refused(answer, "asks for more than --max-permissions gives: host example.org; limit time = 1h (at most 300)")
    refused(
        husk_skill(tmp_path, "run", skill, "--permissions", little, "--limit", "time=900"), "allows less: limit time"
    )
    refused(husk_skill(tmp_path, "run", skill, "--permissions", tmp_path / "none"), "No such file")
    refused(husk_skill(tmp_path, "run", skill, "--check"), "--check needs --permissions")
    assert husk_skill(tmp_path, "run", skill, "--permissions", little, "--max-permissions", much).out == "RAN\n"
    assert husk_skill(tmp_path, "run", skill, "--permissions", little, "--max-permissions", little).out == "RAN\n"


def test_learn_then_check(tmp_path: Path) -> None:
    script = '#!/bin/sh\ncat /in/a.txt\ncat /etc/shadow 2>/dev/null\nif [ "$1" ]; then "$@"; fi\nexit 0\n'
    skill = make_skill(tmp_path, "learns", {"scripts/x.sh": script})
    given, manifest = tmp_path / "given", tmp_path / "learns.permissions.toml"
    given.mkdir()
    (given / "a.txt").write_text("a\n")
    answer = husk_skill(tmp_path, "learn", skill, "--in", given)
    assert answer.code == 0 and answer.out == "a\n", answer.err
    text = manifest.read_text()
    assert "input = true" in text and "output = false" in text and '"/etc/shadow"' in text and '/cat"' in text
    again = husk_skill(tmp_path, "run", skill, "--in", given, "--permissions", manifest, "--check")
    assert again.code == 0, again.err
    more = husk_skill(
        tmp_path, "run", skill, "--in", given, "--permissions", manifest, "--check", "--", "uniq", "/dev/null"
    )
    assert more.code == 3 and "it needs more than" in more.err and "bin/uniq" in more.err
    refused(husk_skill(tmp_path, "run", skill, "--permissions", manifest, "--out", tmp_path / "o"), "does not allow it")
    failing = husk_skill(tmp_path, "learn", skill, "--in", given, "-o", tmp_path / "no.toml", "--", "kill", "-9", "0")
    assert failing.code == 2 and not (tmp_path / "no.toml").exists()


@pytest.mark.both_settings
@pytest.mark.needs("python3")
def test_the_network_is_what_was_allowed(tmp_path: Path) -> None:
    script = (
        "import sys, urllib.request\n"
        "urllib.request.getproxies = lambda: {}\n"
        "print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())\n"
    )
    skill = make_skill(tmp_path, "calls", {"scripts/x.py": script})
    (tmp_path / "page").write_text("hello")
    with serving(tmp_path) as port:
        where = f"127.0.0.1:{port}"
        closed = husk_skill(tmp_path, "run", skill, "--json", "--", f"http://{where}/page").json
        assert closed["exit_code"] == 1 and "hello" not in closed["stdout"]
        assert husk_skill(tmp_path, "run", skill, "--allow-net", where, "--", f"http://{where}/page").out == "hello\n"
        manifest = tmp_path / "p.toml"
        manifest.write_text(f'version = 1\n[network]\nhosts = ["{where}"]\n')
        given = husk_skill(tmp_path, "run", skill, "--permissions", manifest, "--", f"http://{where}/page")
        assert given.out == "hello\n", given.err
        more = husk_skill(tmp_path, "run", skill, "--permissions", manifest, "--allow-net", "example.org")
        refused(more, "does not allow it ([network])")
    manifest.write_text('version = 1\n[network]\nhosts = ["a b"]\n')
    refused(husk_skill(tmp_path, "run", skill, "--permissions", manifest), "--allow-net 'a b'")


# -- cases ------------------------------------------------------------------------------------------------------------


def test_a_manifest_is_bound_to_the_skill_it_was_written_for(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "bound", {"scripts/x.sh": "echo RAN\n", "node_modules/m/index.js": "1\n"})
    other = make_skill(tmp_path, "other", {"scripts/x.sh": "echo OTHER\n"})
    manifest = tmp_path / "bound.permissions.toml"
    manifest.write_text(husk_skill(tmp_path, "inspect", skill, "--manifest").out)
    run = ("run", skill, "--permissions", manifest)
    assert husk_skill(tmp_path, *run).out == "RAN\n"
    refused(husk_skill(tmp_path, "run", other, "--permissions", manifest), "is the manifest of another skill, 'bound'")
    for name, change in (("scripts/x.sh", "echo CHANGED\n"), ("node_modules/m/index.js", "2\n"), ("new.py", "")):
        path = skill / name
        before = path.read_text() if path.exists() else None
        path.write_text(change)
        refused(husk_skill(tmp_path, *run), "are not those that the permission manifest was written for")
        path.unlink() if before is None else path.write_text(before)
        assert husk_skill(tmp_path, *run).out == "RAN\n"
    (skill / "scripts" / "x.sh").chmod(0o700)
    refused(husk_skill(tmp_path, *run), "are not those")
    learnt = husk_skill(tmp_path, "learn", skill, "-o", manifest)
    assert learnt.code == 0 and 'content = "sha256:' in manifest.read_text()
    assert husk_skill(tmp_path, *run).out == "RAN\n"


@pytest.mark.skipif(not os.path.exists("/etc/login.defs"), reason="no /etc/login.defs on this host")
def test_the_five_verdicts(tmp_path: Path) -> None:
    script = 'case "$1" in\nhome) ls "$2";;\nsay) echo "$2";;\nwhere) pwd;;\nesac\n'
    skill = make_skill(tmp_path, "judged", {"scripts/x.sh": script})
    rows = [
        {"name": "works", "argv": ["say", "hi"], "stdout": "hi\n"},
        {"name": "fails", "argv": ["home", "/etc/login.defs"]},
        {"name": "differs", "argv": ["where"]},
        {"name": "broken", "argv": ["say", "a"], "stdout": "b\n"},
        {"name": "skipped", "argv": ["say", "a"], "needs": ["nosuchprogram"]},
    ]
    (skill / "cases.json").write_text(json.dumps(rows))
    answer = husk_skill(tmp_path, "test", skill, "--json", "--native")
    assert answer.code == 1, answer.err
    assert {row["case"]: row["status"] for row in answer.json} == {row["name"]: row["name"] for row in rows}
    fails = next(row for row in answer.json if row["status"] == "fails")
    assert "refused: " in fails["reason"] and "nothing is mounted there" in fails["reason"]
    (skill / "cases.json").write_text(json.dumps(rows[:1]))
    assert husk_skill(tmp_path, "test", tmp_path).code == 0


def test_nothing_runs_outside_a_box_unless_asked_for(tmp_path: Path) -> None:
    """The case leaves a mark on the host. Only a native run can do that."""
    mark = tmp_path / "mark"
    skill = make_skill(tmp_path, "stranger", {"scripts/x.sh": f"touch {mark} 2>/dev/null\nexit 0\n"})
    (skill / "cases.json").write_text(json.dumps([{"name": "one", "argv": []}]))
    assert husk_skill(tmp_path, "test", skill).code == 0
    assert not mark.exists()
    answer = husk_skill(tmp_path, "test", skill, "--native")
    assert answer.code == 0 and "outside any box, with all your rights" in answer.err
    assert mark.exists(), "natively it does run"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be read"),
        ("{}", "write each case as a table"),
        ('[{"argw": []}]', "there is no field 'argw'"),
        ('[{"argv": "x"}]', "`argv` must be a list of texts"),
        ('[{"exit": "x"}]', "`exit` must be a number"),
        ('[{"input": "nowhere"}]', "does not exist"),
        ('[{"skill": "nowhere"}]', "there is no SKILL.md"),
    ],
)
def test_bad_cases(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "c.json").write_text(text)
    refused(husk_skill(tmp_path, "test", "--cases", tmp_path / "c.json"), complaint)


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ('"input": "/etc"', "leads out of the folder"),
        ('"input": ".."', "leads out of the folder"),
        ('"input": "link"', "leads out of the folder"),
        ('"skill": "../other"', "leads out of the folder"),
        ('"files": {"x": {"same": "/etc/passwd"}}', "is not in the folder"),
    ],
)
def test_a_skills_own_cases_show_it_nothing_else(tmp_path: Path, case: str, complaint: str) -> None:
    skill = make_skill(tmp_path, "greedy", {"scripts/x.sh": "cat /in/*\n", "cases.json": f"[{{{case}}}]"})
    make_skill(tmp_path, "other", {"scripts/x.sh": "true\n"})
    (skill / "link").symlink_to("/etc")
    refused(husk_skill(tmp_path, "test", skill), complaint)


def test_inspect_runs_nothing(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "looked-at", {"scripts/x.py": f"open({str(tmp_path / 'ran')!r}, 'w')\nimport yaml\n"})
    told = husk_skill(tmp_path, "inspect", skill, "--json").json
    assert (
        told["valid"]
        and told["scripts"][0]["language"] == "python"
        and told["pip"] == {"PyYAML": "scripts/x.py imports yaml"}
    )
    assert "[files]" in told["manifest"] and told["permissions"]["files"]["input"] is True
    assert not (tmp_path / "ran").exists()
    text = husk_skill(tmp_path, "inspect", skill).out
    assert "pip packages: PyYAML" in text and "version = 1" in text
    other = make_skill(tmp_path, "other", {}, head="---\nname: some\ndescription: d\n---\n")
    assert husk_skill(tmp_path, "inspect", other).code == 2
    odd = make_skill(tmp_path, "odd", {}, head="---\nname: odd\ndescription: d\nversion: 1\n---\n")
    assert husk_skill(tmp_path, "inspect", odd).code == 0
    assert husk_skill(tmp_path, "inspect", odd, "--strict").code == 2


def test_a_skill_that_breaks_a_small_rule_runs(tmp_path: Path) -> None:
    long = f"---\nname: Long_One\ndescription: {'x' * 2000}\n---\n"
    answer = husk_skill(tmp_path, "run", make_skill(tmp_path, "long", {"scripts/x.sh": "echo RAN\n"}, head=long))
    assert answer.code == 0 and answer.out == "RAN\n"
    assert "2000 characters; at most 1024" in answer.err and "only lowercase letters" in answer.err


@pytest.mark.parametrize("how", ["option", "manifest"])
@pytest.mark.parametrize("shown", [[], ["--json"]], ids=["passed on", "kept"])
def test_too_much_output(tmp_path: Path, how: str, shown: list[str]) -> None:
    """A limit that is read is kept, whether the output is passed on or captured."""
    skill = make_skill(tmp_path, "talks", {"scripts/x.sh": "yes | head -c 10M\necho END >&2\n"})
    manifest = tmp_path / "some.toml"
    manifest.write_text('version = 1\n[programs]\nallow = ["yes", "head"]\n[limits]\noutput = "8K"\n')
    limit = ["--limit", "output=8K"] if how == "option" else ["--permissions", str(manifest)]
    answer = husk_skill(tmp_path, "run", skill, *limit, *shown)
    told = answer.json if shown else {"stdout": answer.out, "limits": [answer.err]}
    assert answer.code == 124 and "limit: output 8K exceeded" in told["limits"][0]
    assert told["stdout"] == "y\n" * 4096
