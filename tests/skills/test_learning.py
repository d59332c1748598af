"""`husk skill learn` allows what it learnt, learns from scripts that report by exit code, and `--check` tells harm from
noise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.skills.refusal_levels import HARM, HARMLESS, UNEXPECTED, judge
from husk.skills.running import Request
from husk.skills.testing.cases import find_cases
from husk.skills.testing.compare_cases import missing_need
from tests.skills.calling import husk_skill, make_skill, refused

CORPUS = Path(__file__).parents[2] / "examples/skills"
# Small ones; what they use differs: an input, standard input, output files, programs.
EXAMPLES = (
    "word-count", "csv-to-json", "changelog", "rename-plan", "log-summary", "recipe-scale", "sales-db", "markdown-toc",
    "site-check", "parallel-primes",
)  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_learnt_manifest_allows_the_same_command_line(tmp_path: Path, name: str) -> None:
    case = find_cases([CORPUS / name], None)[0]
    if why := missing_need(case, Request()):
        pytest.skip(why)
    places = {"in": "/in", "out": "/out", "skill": "/skill"}
    words: list[str | Path] = [case.skill, "--out", tmp_path / "o", "--exit", str(case.exit)]
    words += ["--in", case.input] if case.input else []
    words += ["--script", case.script] if case.script else []
    words += ["--", *(word.format(**places) for word in case.argv)]
    stdin = case.stdin or ""
    learnt = husk_skill(tmp_path, "learn", "-o", tmp_path / "m.toml", *words, stdin=stdin)
    assert learnt.code == 0, learnt.err
    words = [word for word in words if word not in ("--exit", str(case.exit))]
    again = husk_skill(tmp_path, "run", "--permissions", tmp_path / "m.toml", "--check", "--json", *words, stdin=stdin)
    assert again.code == case.exit and again.json["beyond"] == [], again.json
    assert again.json["stdout"] == learnt.out


def test_what_was_given_is_allowed_though_it_was_not_used(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "idle", {"scripts/x.sh": "echo RAN\n"})
    (tmp_path / "given").mkdir()
    given = ("--in", tmp_path / "given", "--out", tmp_path / "o")
    assert husk_skill(tmp_path, "learn", skill, *given).code == 0
    manifest = tmp_path / "idle.permissions.toml"
    assert husk_skill(tmp_path, "run", skill, "--permissions", manifest, *given).out == "RAN\n"
    # `--allow-net` for a run brings no host that only the text of the skill names.
    (skill / "scripts/x.sh").write_text("curl https://named.example.net/ || true\n")
    assert husk_skill(tmp_path, "learn", skill, "--allow-net", "127.0.0.1:1").code == 0
    assert 'hosts = [\n    "127.0.0.1:1",\n]' in manifest.read_text()


def test_a_script_that_reports_by_its_exit_code(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "lints", {"scripts/x.sh": 'echo found\nexit "$1"\n'})
    learn = ("learn", skill, "-o", tmp_path / "m.toml")
    for accepted in ((), ("--exit", "3")):
        answer = husk_skill(tmp_path, *learn, *accepted, "--", "1")
        assert answer.code == 2 and answer.out == "found\n" and not (tmp_path / "m.toml").exists()
        assert "nothing was learnt from it; if that is a normal result of it, --exit 1" in answer.err
    for word in ("1", "any"):
        assert husk_skill(tmp_path, *learn, "--exit", word, "--", "1").code == 0
        assert (tmp_path / "m.toml").exists()
        (tmp_path / "m.toml").unlink()
    refused(husk_skill(tmp_path, *learn, "--exit", "many", "--", "1"), "--exit many: give an exit code")
    (skill / "scripts/x.sh").write_text("kill -9 $$\n")
    cut = husk_skill(tmp_path, *learn, "--exit", "any")
    assert cut.code == 2 and "by a signal or a limit" in cut.err


@pytest.mark.parametrize(
    ("what", "call", "reason", "level"),
    [
        ("/etc/gitconfig", "access", "nothing is mounted there", HARMLESS),
        ("/usr/bin/gpgconf", "execve", "it is not among the programs that this box may start", HARMLESS),
        ("/usr/bin/fc-list", "execve", "it is not among the programs that this box may start", HARMLESS),
        ("/skill/scripts/__pycache__", "mkdir", "it is mounted read-only", HARMLESS),
        ("io_uring_setup(8, 0x7ffd)", "io_uring_setup", "it would bypass the filter", HARMLESS),
        ("/etc/fonts/fonts.conf", "openat", "nothing is mounted there", HARMLESS),
        ("/etc/shadow", "openat", "nothing is mounted there", HARM),
        ("/home/me/.ssh/id_ed25519", "openat", "nothing is mounted there", HARM),
        ("/in/keys.txt", "openat", "the default rule --hide keys.txt hides it", HARM),
        ("/usr/bin/sudo", "execve", "it is not among the programs that this box may start", HARM),
        ("connection to 169.254.169.254:80", "connect", "no rule allows it", HARM),
        ("finit_module(3)", "finit_module", "no", HARM),
        ("connection to 192.0.2.1:443", "connect", "no rule allows it", UNEXPECTED),
        ("/usr/bin/uname", "execve", "it is not among the programs that this box may start", UNEXPECTED),
        ("/home/me/report.txt", "openat", "nothing is mounted there", UNEXPECTED),
        ("/etc/gitconfig/../shadow", "openat", "nothing is mounted there", UNEXPECTED),
    ],
)
def test_levels(what: str, call: str, reason: str, level: str) -> None:
    assert judge({"what": what, "call": call, "reason": reason}).level == level


@pytest.mark.skipif(not os.path.exists("/etc/fstab"), reason="no /etc/fstab on this host")
def test_only_harm_and_the_unexpected_fail_the_check(tmp_path: Path) -> None:
    script = 'for word in "$@"; do cat "$word" 2>/dev/null; done\nexit 0\n'
    skill = make_skill(tmp_path, "looks", {"scripts/x.sh": script})
    manifest = tmp_path / "m.toml"
    manifest.write_text('version = 1\n[programs]\nallow = ["cat"]\n')
    check = ("run", skill, "--permissions", manifest, "--check", "--json", "--")
    noise = husk_skill(tmp_path, *check, "/etc/fstab")
    assert noise.code == 0 and noise.json["beyond"] == [], noise.json
    assert [item["level"] for item in noise.json["judged"]] == [HARMLESS]
    harm = husk_skill(tmp_path, *check, "/etc/fstab", "/etc/shadow")
    assert harm.code == 3 and harm.json["beyond"] == ["/etc/shadow: nothing is mounted there"]
    assert [item["why"] for item in harm.json["refusals"] if item["level"] == HARM] == ["passwords of the machine"]
