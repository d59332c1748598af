"""What husk finds in scripts by reading them, and the permission manifest it makes of that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from husk.sandbox.errors import UsageError
from husk.skills.open_skill import open_skill, tree_digest
from husk.skills.permission_file import Permissions, propose, read_permissions
from husk.skills.running import choose
from husk.skills.scan.describe import Description, describe, reachable_scripts
from husk.skills.scan.distributions import is_requirement
from husk.skills.syntax.shell_commands import shell_programs
from tests.skills.calling import make_skill

PYTHON = """#!/usr/bin/env python3
# /// script
# dependencies = ["requests>=2"]
# ///
import argparse, json, subprocess, urllib.request
import yaml
from PIL import Image
from helper import thing
try:
    import cv2
except ImportError:
    cv2 = None
parser = argparse.ArgumentParser(description="Makes things.")
parser.add_argument("source")
parser.add_argument("--size", required=True)
parser.add_argument("--fast", action="store_true")
subprocess.run(["pdftotext", "x"])
subprocess.run("git log | head -1", shell=True)
open("result.json", "wb").write(urllib.request.urlopen("https://api.example.com/v1").read())
"""
NODE = "const fs = require('fs');\nimport x from 'lodash/fp';\nrequire('./lib');\nconst e = require('@a/b/c');\n"
SHELL = """#!/bin/bash
# a comment: curl http://not.example.org
name="$(basename "$1")"
if ! grep -q 'rm -rf' file; then convert a.png b.png > log.txt; fi
helper() { echo; }
helper | sort
cat <<END
wget is only text
END
"""


def look(place: Path, files: dict[str, str]) -> Description:
    with open_skill(make_skill(place, "a-skill", files)) as skill:
        return describe(skill)


def test_python(tmp_path: Path) -> None:
    found = look(tmp_path, {"scripts/make.py": PYTHON, "scripts/helper.py": "import numpy\nthing = 1\n"})
    script = next(script for script in found.scripts if script.path == "scripts/make.py")
    assert script.language == "python" and script.modules == {"yaml": False, "PIL": False, "cv2": True}
    assert script.usage == "SOURCE --size SIZE [--fast] — Makes things."
    assert script.programs == {"pdftotext", "git", "head"}
    assert script.hosts == {"api.example.com"} and script.writes == {"result.json"}
    assert set(found.pip) == {"requests>=2", "PyYAML", "Pillow", "opencv-python-headless", "numpy"}
    assert found.optional == {"opencv-python-headless"}
    assert {each.path for each in reachable_scripts(found, script)} == {"scripts/make.py", "scripts/helper.py"}


def test_javascript(tmp_path: Path) -> None:
    files = {"scripts/a.mjs": NODE, "scripts/lib.js": "", "package.json": '{"dependencies": {"left-pad": "^1.3.0"}}'}
    found = look(tmp_path, files)
    assert set(found.npm) == {"left-pad@^1.3.0", "lodash", "@a/b"}


def test_shell(tmp_path: Path) -> None:
    found = look(tmp_path, {"scripts/a.sh": SHELL})
    assert found.scripts[0].language == "bash"
    assert found.programs == ["basename", "cat", "convert", "grep", "sort"]
    assert found.writes == ["log.txt"] and found.scripts[0].writes == {"log.txt"}


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("sudo apt-get install x && A=1 make -j2", {"apt-get", "make"}),
        ("x=$(date +%s); echo $x", {"date"}),
        ("while read -r line; do tr a b; done < file", {"tr"}),
        ("echo 'it; rm -rf /' | sed s/a/b/", {"sed"}),
        ("trap 'rm -rf \"$d\"' EXIT\nfind . | xargs wc", {"rm", "find", "xargs", "wc"}),
        ("b=$(command -v chromium || which brave)", {"chromium", "brave", "which"}),
    ],
)
def test_commands_of_shell_text(text: str, programs: set[str]) -> None:
    assert shell_programs(text) == programs


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.py", "", "python"),
        ("tool", "#!/usr/bin/env -S node --no-warnings\n", "node"),
        ("tool", "#!/usr/bin/perl -w\n", "perl"),
        ("scripts/plain", "set -e\necho hi\n", "sh"),
        ("scripts/plain", "import os\n", "python"),
    ],
)
def test_languages(tmp_path: Path, name: str, text: str, language: str) -> None:
    assert [script.language for script in look(tmp_path, {name: text}).scripts] == [language]


def test_text_is_no_script(tmp_path: Path) -> None:
    assert look(tmp_path, {"notes.txt": "import os\n", "references/x.py": "", "assets/y.sh": ""}).scripts == []


def test_which_script(tmp_path: Path) -> None:
    found = look(tmp_path, {"scripts/one.py": "import two", "scripts/two.py": "", "scripts/three.py": "import two"})
    assert choose(found, "two").path == choose(found, "scripts/two.py").path == "scripts/two.py"
    for wanted in ("four", "../../etc/passwd"):
        with pytest.raises(UsageError, match="no such script"):
            choose(found, wanted)
    for script in found.scripts:
        script.local.clear()
    with pytest.raises(UsageError, match=r"say which script: --script NAME with one of scripts/one.py"):
        choose(found, "")


def test_packages_of_the_skill_are_followed(tmp_path: Path) -> None:
    files = {"scripts/x.py": "from inner.deep import y", "scripts/inner/__init__.py": "from .base import z"}
    files |= {"scripts/inner/base.py": "import defusedxml.minidom", "scripts/inner/deep.py": "y = 1"}
    found = look(tmp_path, files)
    reached = reachable_scripts(found, choose(found, "x"))
    assert {script.path for script in reached} == set(files)
    assert "scripts/inner/__init__.py" not in [script.path for script in found.scripts]
    assert found.pip == {"defusedxml": "scripts/inner/base.py imports defusedxml"}


def test_the_script_that_nobody_imports(tmp_path: Path) -> None:
    found = look(tmp_path, {"scripts/one.py": "import two", "scripts/two.py": "", "scripts/deep/three.py": ""})
    assert choose(found, "").path == "scripts/one.py"


def test_text_made_to_be_slow() -> None:
    assert shell_programs('"' + "$(" * 20_000) is not None


def test_broken_scripts_are_told(tmp_path: Path) -> None:
    found = look(tmp_path, {"a.py": "def (", "requirements.txt": "-r /etc/passwd\nevil @ file:///x\nnumpy # yes\n"})
    assert list(found.pip) == ["numpy"]
    assert len(found.problems) == 3 and "not Python" in found.problems[0]


@pytest.mark.parametrize("text", ["a", "a-b[c]>=1,<2", 'a==1.0; python_version < "4"', "a ~= 1.2"])
def test_requirements_that_are_taken(text: str) -> None:
    assert is_requirement(text)


@pytest.mark.parametrize("text", ["-e .", "--index-url=http://x", "./a", "a @ http://x", "http://x/y.whl", "", "a b"])
def test_requirements_that_are_not(text: str) -> None:
    assert not is_requirement(text)


# -- the manifest -----------------------------------------------------------------------------------------------------


def test_a_manifest_reads_back(tmp_path: Path) -> None:
    asked, notes = propose(look(tmp_path, {"scripts/make.py": PYTHON}))
    assert asked.hosts == ["api.example.com"] and "python3" in asked.programs
    path = tmp_path / "p.toml"
    path.write_text(asked.text(notes))
    assert read_permissions(path) == asked
    strange = Permissions(skill='quo"te\\\x07', expected=["a\nb", "ü"])
    path.write_text(strange.text({"ü": "no\nnew line"}))
    assert read_permissions(path) == strange


def test_what_is_not_mentioned_is_not_given(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("version = 1\n")
    found = read_permissions(path)
    assert (found.input, found.output, found.work, found.programs, found.limits) == (False, False, False, [], {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x", "not TOML"),
        ("", "`version = 1` must stand"),
        ("version = 2", "`version = 1` must stand"),
        ("version = 1\n[file]\ninput = true", "no section .file.; do you mean files"),
        ("version = 1\nfiles = 3", "must be a section"),
        ("version = 1\n[files]\ninput = 1", "files.input must be true or false"),
        ("version = 1\n[files]\nouput = true", "no files.ouput"),
        ('version = 1\n[files]\nmounts = ["/nowhere:/x"]', "no such file"),
        ("version = 1\n[network]\nhosts = [1]", "list of texts"),
        ('version = 1\n[limits]\nmemory = "lots"', "memory=lots"),
        ("version = 1\n[limits]\nmemory = true", "must be a text"),
        ('version = 1\n[packages]\npip = ["-r x"]', "no name with versions"),
    ],
)
def test_bad_manifests(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_permissions(path)


def test_which_asks_for_more() -> None:
    most = Permissions(work=False, programs=["git"], pip=["PyYAML"], limits={"memory": "1G"})
    assert Permissions(work=False, programs=["git"], pip=["pyyaml>=6"], limits={"memory": "1024M"}).beyond(most) == []
    asked = Permissions(hosts=["x.org"], programs=["curl"], pip=["numpy"], limits={"memory": "2G"})
    assert asked.beyond(most) == [
        "files.work",
        "host x.org",
        "program curl",
        "pip package numpy",
        "limit memory = 2G (at most 1G)",
    ]
    assert Permissions(work=False, limits={}).beyond(most) == ["limit memory = none (at most 1G)"]


def test_a_digest_is_of_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that husk cannot read now may be read by another user, or later."""
    folder = make_skill(tmp_path, "partly", {"scripts/x.sh": "true\n", "closed/y.sh": "true\n"})
    scandir = os.scandir

    def refuse(path: str) -> object:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    assert tree_digest(folder)
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="closed"):
        tree_digest(folder)
