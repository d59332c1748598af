"""[programs] of a manifest, enforced at execve: a program that is not listed does not start, by any name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.sandbox.policy import Policy
from husk.sandbox.runner import Events, Runner
from husk.skills.learn_permissions import refusal_key
from husk.skills.scan.started_programs import started_programs
from tests.lib import running
from tests.skills.calling import husk_skill, make_skill

# Each line tries to start `uname`, which is not listed, and says 126 (found, but may not) where that fails.
WAYS = """#!/bin/sh
try() { "$@" >/dev/null 2>&1; echo $?; }
cat /skill/word
try uname
cp "$(command -v uname)" cat && try ./cat
try /lib64/ld-linux-x86-64.so.2 "$(command -v uname)"
try env uname
ln -s "$(command -v uname)" ln && try ./ln
printf '#!%s\\n' "$(command -v uname)" > script && chmod +x script && try ./script
cat /skill/word
"""


@pytest.mark.both_settings
def test_what_is_not_listed_does_not_start(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "tries", {"scripts/x.sh": WAYS, "word": "word\n"})
    manifest = tmp_path / "p.toml"
    manifest.write_text('version = 1\n[programs]\nallow = ["cat", "cp", "ln", "chmod"]\n')
    told = husk_skill(tmp_path, "run", skill, "--permissions", manifest, "--check", "--json")
    found = told.json
    assert found["stdout"] == "word\n" + "126\n" * 6 + "word\n", found
    assert told.code == 3 and len(found["beyond"]) >= 4
    uname = next(item for item in found["refusals"] if item["what"].endswith("/bin/uname"))
    assert uname["call"] == "execve" and uname["errno"] == "EACCES"
    assert uname["reason"] == "it is not among the programs that this box may start"
    assert uname["allow"] == f'"{uname["what"]}" in [programs] allow'
    manifest.write_text(f'version = 1\n[programs]\nallow = ["/usr/bin/", "{uname["what"]}"]\n')
    assert "126" not in husk_skill(tmp_path, "run", skill, "--permissions", manifest).out.splitlines()[:2]


def test_a_listed_script_brings_its_interpreter(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "tools", {"scripts/x.sh": "./tool.pl 2>&1 || echo no\n"})
    tool = tmp_path / "work/tool.pl"
    tool.parent.mkdir()
    tool.write_text("#!/usr/bin/perl\nprint 'yes', chr 10;\n")
    tool.chmod(0o755)
    manifest = tmp_path / "p.toml"
    for allowed, word in (("[]", "no"), ('["/workspace/tool.pl"]', "yes"), ('["/workspace/"]', "yes")):
        manifest.write_text(f"version = 1\n[files]\nwork = true\n[programs]\nallow = {allowed}\n")
        answer = husk_skill(tmp_path, "run", skill, "-q", "--permissions", manifest, "--work", tool.parent)
        assert answer.out.splitlines()[-1] == word, answer.out


# The skill itself can write to a listed program: it stays what it was, or does not start.
REPLACED = """#!/bin/sh
try() { "$@" 2>&1 | tail -n 1; }
try ./tool
printf '#!/bin/echo new\\n' > new; chmod +x new
cp tool kept; cat new > tool; try ./tool
cat kept > tool; try ./tool
cp -p new tool2; mv tool2 tool; try ./tool
mv bin away; mv other bin; try bin/tool
exec 3< new; try /proc/self/fd/3
"""


def test_what_was_put_in_the_place_of_a_listed_file(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "exchanges", {"scripts/x.sh": REPLACED})
    for name in ("tool", "bin/tool", "other/tool"):
        tool = tmp_path / "work" / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text(f"#!/bin/echo {name}\n")
        tool.chmod(0o755)
    manifest = tmp_path / "p.toml"
    entries = '["/workspace/tool", "/workspace/bin/tool", "cp", "cat", "mv", "chmod", "tail"]'
    manifest.write_text(f"version = 1\n[files]\nwork = true\n[programs]\nallow = {entries}\n")
    answer = husk_skill(tmp_path, "run", skill, "-q", "--permissions", manifest, "--work", tmp_path / "work", kept=True)
    lines = answer.out.splitlines()
    assert lines[0] == "tool ./tool" and len(lines) == 6, answer
    assert all("ermission denied" in line for line in lines[1:]), lines


@pytest.mark.both_settings
def test_programs_that_the_core_knows_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No events are written here, so the C core starts known programs without asking Python: only those that passed."""
    monkeypatch.setenv("HUSK_STATE", str(tmp_path))
    policy = Policy(["sh", "-c", "for i in 1 2 3; do /bin/true; echo $?; /bin/uname 2>/dev/null; echo $?; done"])
    policy.programs = ["sh", "/bin/true"]
    policy.namespaces = running.BARE not in running.OPTIONS
    nothing, (read_end, write_end) = os.open("/dev/null", os.O_RDWR), os.pipe()
    try:
        result = Runner(policy, Events(None, None), (nothing, write_end, nothing)).run()
        os.close(write_end)
        assert os.read(read_end, 100) == b"0\n126\n" * 3 and result.exit_code == 0
        assert [item["count"] for item in result.refusals] == [3]
    finally:
        os.close(nothing)
        os.close(read_end)


def test_a_manifest_names_programs_or_paths(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "asks", {"scripts/x.sh": "echo RAN\n"})
    manifest = tmp_path / "p.toml"
    for entry in ("bin/cat", ""):
        manifest.write_text(f'version = 1\n[programs]\nallow = ["{entry}"]\n')
        answer = husk_skill(tmp_path, "run", skill, "--permissions", manifest)
        assert answer.code == 2 and "neither a bare name nor an absolute path" in answer.err and not answer.out


def test_what_goes_with_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper in a directory of its own: what it calls, and whatever lies beside it."""
    home = tmp_path / "lib/office"
    home.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (home / "office").write_text('#!/bin/sh\ncase $1 in\n -x) shift ;;\nesac\nexec "$(dirname "$0")"/office.bin\n')
    (home / "office").chmod(0o755)
    (tmp_path / "bin/office").symlink_to(home / "office")
    monkeypatch.setattr("husk.skills.scan.started_programs.DEFAULT_PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert started_programs("office") == [f"{home}/", "dirname", "sh"]
    assert started_programs("nosuchprogram") == []


def test_a_refusal_is_known_again() -> None:
    """Descriptors and memory addresses differ each time."""
    assert refusal_key({"call": "ioctl", "what": "ioctl(41, 0x1, 0x7f94239fa5dc)"}) == "ioctl(…)"
    assert refusal_key({"call": "openat", "what": "/etc/shadow"}) == "/etc/shadow"
