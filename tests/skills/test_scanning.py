"""How sure husk is of what it finds in scripts: hosts, programs, packages, variables; and that parsing is bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from husk.skills.open_skill import open_skill
from husk.skills.permission_file import propose
from husk.skills.scan import describe as describe_module
from husk.skills.scan.describe import Description, describe
from husk.skills.syntax import syntax_parser
from husk.skills.syntax.scan_findings import KNOWN, MENTIONED, USED, is_host
from husk.skills.syntax.syntax_parser import SyntaxParser, Unparsed
from tests.skills.calling import make_skill


def look(place: Path, files: dict[str, str]) -> Description:
    with open_skill(make_skill(place, "a-skill", files)) as skill:
        return describe(skill)


PYTHON = '''"""Reads https://docs.service.io first."""
import argparse, os, requests
from settings import STATUS_URL
API = os.environ.get("SERVICE_API", "https://api.service.io")  # see https://comment.service.io
HELP_URL = "https://help.service.io"
NS = {"w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main"}
def fetch(path, base="https://default.service.io"):
    session = requests.Session()
    return session.get(f"{base}/{path}", headers={"User-Agent": "x (+https://agent.service.io)"})
fetch("x", base=API)
requests.post(STATUS_URL, json={"token": os.environ["SERVICE_TOKEN"]})
print("see " + HELP_URL)
argparse.ArgumentParser(epilog="https://epilog.service.io")
'''


def test_hosts_of_python(tmp_path: Path) -> None:
    settings = 'STATUS_URL = "https://status.service.io/v1"\n'
    found = look(tmp_path, {"scripts/x.py": PYTHON, "scripts/settings.py": settings})
    levels = {name: item.level for name, item in found.found_hosts.items()}
    used = {"api.service.io", "default.service.io", "status.service.io"}
    assert {name for name, level in levels.items() if level == USED} == used
    assert found.hosts == sorted(used)
    whys = {name: item.why for name, item in found.found_hosts.items() if item.level == MENTIONED}
    assert whys["docs.service.io"] == "in a docstring" and whys["comment.service.io"] == "in a comment"
    assert whys["epilog.service.io"] == "in a help text" and whys["agent.service.io"] == "a header"
    assert whys["schemas.openxmlformats.org"] == "the name of a vocabulary or licence"
    assert found.found_hosts["status.service.io"].where == "scripts/settings.py:1"
    assert {name: item.why for name, item in found.found_env.items()} == {
        "SERVICE_API": "has a default",
        "SERVICE_TOKEN": "needed",
    }


PIP = "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])\n"


def test_programs_that_are_known_to_go_out(tmp_path: Path) -> None:
    shell = "npm ci\npip install x\ngh pr view\ncargo test\nnpm run build\ncurl -s https://a.service.io | jq .\n"
    found = look(
        tmp_path,
        {
            "scripts/x.sh": shell,
            "scripts/y.py": PIP,
        },
    )
    known = {name for name, item in found.found_hosts.items() if item.level == KNOWN}
    assert {"registry.npmjs.org", "pypi.org", "files.pythonhosted.org", "api.github.com", "index.crates.io"} <= known
    assert found.found_hosts["a.service.io"].level == USED
    asked, notes = propose(found)
    assert notes["registry.npmjs.org"] == "known: scripts/x.sh:1, npm goes there"
    assert set(asked.hosts) == set(found.hosts)


def test_mentions_are_comments_of_the_manifest(tmp_path: Path) -> None:
    asked, notes = propose(
        look(tmp_path, {"scripts/x.sh": "# https://only.service.io\necho https://said.service.io\n"})
    )
    assert asked.hosts == []
    text = asked.text(notes)
    assert "# Only mentioned, and not allowed:\n#   only.service.io: scripts/x.sh:1, in a comment\n" in text


def test_commands_of_the_instructions_are_mentions(tmp_path: Path) -> None:
    head = (
        "---\nname: a-skill\ndescription: d\n---\nRun:\n\n```bash\n$ pandoc x.md | wc -l\n```\n```python\nrm = 1\n```\n"
    )
    skill = make_skill(tmp_path, "a-skill", {"scripts/x.sh": "wc\n"}, head=head)
    with open_skill(skill) as opened:
        found = describe(opened)
    assert found.programs == ["wc"] and found.found_programs["pandoc"].level == MENTIONED
    assert found.found_programs["pandoc"].where == "SKILL.md:8" and "rm" not in found.found_programs
    asked, notes = propose(found)
    assert "pandoc" not in asked.programs and "#   pandoc: SKILL.md:8, in the instructions\n" in asked.text(notes)


@pytest.mark.parametrize(
    ("script", "programs"),
    [
        ("ATTEMPT=$((ATTEMPT + 1)); IDLE_TIMEOUT_MINUTES=${IDLE:-5}\ntimeout -k 5 30 git pull", {"timeout", "git"}),
        ('cmd=(ffmpeg -i "$1")\n"${cmd[@]}"', {"ffmpeg"}),
        ("PY=${PY:-python3}\n$PY -m http.server", {"python3"}),
        ("sh -c 'jq . x | column -t'\nbash <<'E'\nrsync a b\nE", {"sh", "jq", "column", "bash", "rsync"}),
        ("find . -name x -exec pngcrush {} \\;", {"find", "pngcrush"}),
        ("case $1 in build) make ;; *) echo no ;; esac", {"make"}),
        ("cat <<E\nwget is only text, $(hostname) is not\nE", {"cat", "hostname"}),
        ("log() { echo; }\nlog git\nFOO=bar nice -n 5 tar c .", {"nice", "tar"}),
        ("command -v pandoc >/dev/null || exit 1", {"pandoc"}),
        ("eval 'dot -Tpng x'; trap 'rm -f y' EXIT", {"dot", "rm"}),
    ],
)
def test_programs_of_shell(tmp_path: Path, script: str, programs: set[str]) -> None:
    assert set(look(tmp_path, {"scripts/x.sh": script + "\n"}).programs) == programs


@pytest.mark.parametrize(
    ("script", "programs"),
    [
        ("from subprocess import run as go\ngo(['pdftk', 'a'])", {"pdftk"}),
        ("import subprocess as sp\ncmd = ['gs', '-q']\ncmd += ['x']\nsp.Popen(cmd)", {"gs"}),
        ("import subprocess\ndef run(cmd):\n    return subprocess.run(cmd)\nrun(['git', 'log'])", {"git"}),
        ("import subprocess\ndef git(*args):\n    subprocess.run(['git', *args])\ngit('main', 'log')", {"git"}),
        ("import os\nname = 'x'\nos.system(f'convert {name} | head')", {"convert", "head"}),
        ("import shutil\nfor tool in ('soffice', 'libreoffice'):\n    shutil.which(tool)", {"soffice", "libreoffice"}),
        ("import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('node', 'x.js')", {"node"}),
        ("import shlex, subprocess\nsubprocess.run(shlex.split('tar xf y'))", {"tar"}),
        ("import pdf2image\nfrom pydub import AudioSegment", {"pdftoppm", "pdfinfo", "ffmpeg", "ffprobe"}),
        ("class App:\n    def run(self, x): pass\nApp().run('MATCH (n) RETURN n')\nprint('git')", set()),
        ("import subprocess\nsubprocess.run('make -j2', shell=True)", {"make"}),
    ],
)
def test_programs_of_python(tmp_path: Path, script: str, programs: set[str]) -> None:
    assert set(look(tmp_path, {"scripts/x.py": script + "\n"}).programs) == programs


NODE = """import { execSync, spawn } from "node:child_process";
import { promisify } from "util";
import chalk from "chalk";
const run = promisify(execSync);
const BASE = process.env.API_URL ?? "https://api.service.io";
// https://comment.service.io
console.log("see https://help.service.io");
await fetch(`${BASE}/x`, { headers: { Authorization: process.env.TOKEN } });
spawn("ffmpeg", ["-i", "x"]);
execSync(`git log ${1} | head`);
/regex/.exec("curl");
const svg = '<svg xmlns="http://www.w3.org/2000/svg">';
"""


@pytest.mark.parametrize("name", ["x.mjs", "x.ts"])
def test_javascript(tmp_path: Path, name: str) -> None:
    found = look(tmp_path, {f"scripts/{name}": NODE})
    assert found.hosts == ["api.service.io"] and set(found.programs) == {"ffmpeg", "git", "head"}
    assert list(found.npm) == ["chalk"]
    assert found.found_hosts["help.service.io"].why == "printed"
    assert {name: item.why for name, item in found.found_env.items()} == {"API_URL": "has a default", "TOKEN": "needed"}


@pytest.mark.parametrize(
    ("handler", "optional"),
    [
        ("sys.exit('pip install x')", False),
        ("print('missing')\n    sys.exit(1)", False),
        ("raise SystemExit(1)", False),
        ("raise RuntimeError('no')", False),
        ("die('no')", False),
        ("subprocess.check_call(['pip', 'install', 'markdown'])", False),
        ("import mistune", False),
        ("markdown = None", True),
        ("pass", True),
        ("import json as markdown", True),
        ("HAVE = False", False),
        ("RICH = False", True),
    ],
)
def test_a_failed_import(tmp_path: Path, handler: str, optional: bool) -> None:
    script = (
        "import subprocess, sys\ndef die(text):\n    print(text)\n    sys.exit(1)\n"
        f"try:\n    import markdown\nexcept ImportError:\n    {handler}\n"
        "def main(path):\n    if not HAVE:\n        sys.exit('markdown is required')\n"
        "    if path.endswith('.md'):\n        if not RICH:\n            sys.exit('only for this kind')\n"
    )
    found = look(tmp_path, {"scripts/x.py": script})
    assert ("markdown" in found.optional) is optional and "Markdown" in found.pip
    asked, notes = propose(found)
    assert ("Markdown" in asked.pip) is not optional
    assert ("# Optional: the scripts do without them:\n#   Markdown:" in asked.text(notes)) is optional


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("smtp.service.io", True), ("service.com", True), ("a.b.service.museum", True), ("index.html", False),
        ("config.v2.json", False), ("os.path", False), ("localhost", False), ("db.internal", False), ("a b.com", False),
    ],
)  # fmt: skip
def test_host_names_without_a_scheme(text: str, host: bool) -> None:
    assert is_host(text) is host


# -- bad input --------------------------------------------------------------------------------------------------------


def test_a_text_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax_parser, "SECONDS", 3.0)
    start = time.monotonic()
    found = look(
        tmp_path, {"scripts/a.sh": "<<A " * 50_000, "scripts/b.sh": "git log\n", "scripts/c.sh": "x" * (2 << 20)}
    )
    assert time.monotonic() - start < 20
    assert found.programs == ["git"] and len(found.problems) >= 1
    assert "scripts/a.sh: not read: the parser gave no answer" in found.problems[0]


def test_more_code_than_anybody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_module, "MOST_CODE", 1 << 20)
    found = look(
        tmp_path, {"scripts/a.py": "import yaml\n", "scripts/b.py": "#" * (1 << 20), "scripts/c.py": "import numpy\n"}
    )
    assert list(found.pip) == ["PyYAML"] and len(found.problems) == 2
    assert found.problems[0] == "scripts/b.py: not read: the skill has more than 1 MiB of code"


def test_a_parser_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    with SyntaxParser() as parser:
        assert parser.parse("shell", "a")["commands"] == [[1, "", ["a"]]]
        for text in ("b", "c", "d"):
            assert parser._worker is not None
            os.kill(parser._worker.pid, signal.SIGKILL)
            time.sleep(0.05)
            try:
                parser.parse("shell", text)
            except Unparsed:
                pass
            parser._worker = parser._worker or syntax_parser._start()
        with pytest.raises(Unparsed, match="too many"):
            parser.parse("shell", "e")
        assert parser.parse("shell", "a")["commands"]  # what is known stays known


def test_the_parser_can_do_nothing_else(tmp_path: Path) -> None:
    code = (
        f"import sys\nsys.path.insert(0, {str(syntax_parser.WORKER.parent)!r})\nimport os, socket, syntax_worker\n"
        "syntax_worker.confine()\n"
        "for what in (lambda: open('/etc/passwd'), lambda: os.fork(), lambda: os.kill(os.getppid(), 0),\n"
        "             lambda: socket.socket(), lambda: os.unlink('/nothing'), lambda: os.execv('/bin/true', ['x'])):\n"
        "    try:\n        what()\n        print('done')\n    except PermissionError:\n        print('refused')\n"
        "os.write(1, b'end\\n')\n"
    )
    done = subprocess.run([sys.executable, "-I", "-u", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "refused\n" * 6 + "end\n", done


def test_husk_itself_never_imports_the_parser() -> None:
    code = "import sys, husk.skills.scan.describe\nassert not any('tree_sitter' in name for name in sys.modules)\n"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "\0\0\0", "$" * 10_000, "(" * 5000, "${" * 5000, "\ue000\ue001" * 100, "'", '"', "`", "a=(" * 3000,
        "".join(f"v{n}=$v{n + 1}\n" for n in range(3000)) + "$v0 x; echo $v0", "x=$x; $x; curl $x", "\ud800",
    ],
)  # fmt: skip
def test_strange_shell(tmp_path: Path, text: str) -> None:
    start = time.monotonic()
    look(tmp_path, {"scripts/x.sh": text.encode("utf-8", "replace").decode()})
    assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess\n" + "".join(f"a{n} = a{n + 1} or a{n + 2}\n" for n in range(2000)) + "subprocess.run(a0)\n",
        "import subprocess\n" + "def f(a):\n    f(a); f(a); subprocess.run([a])\n" * 300,
        "x = " + "(" * 150 + "'https://a.b.io'" + ")" * 150,
        "x = [" + "['https://a.b.io'," * 80 + "]" * 81,
        "a = b = c = a + b + c\nprint(a)\n" * 500,
    ],
)
def test_strange_python(tmp_path: Path, text: str) -> None:
    start = time.monotonic()
    look(tmp_path, {"scripts/x.py": text})
    assert time.monotonic() - start < 20
