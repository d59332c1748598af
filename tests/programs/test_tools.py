"""coreutils, findutils, grep, sed, awk, tar, gzip, xz, perl, sqlite3, git: the tools every skill calls.

Scripts end with `exit 0` because some of their commands are meant to fail; what they print says the rest.
"""

from __future__ import annotations

import pytest

from tests.lib.harness import differential
from tests.programs.cases import load

TREE = {
    "words": "pear\napple\nfig\nApple\nbanana\n" * 40,
    "numbers": "".join(f"{n} {n * n % 97} {n % 5}\n" for n in range(500)),
    "bin/run*": "#!/bin/sh\necho running\n",
    "src/a.c": "int main(void) { return 0; }\n",
    "src/deep/er/b.c": "/* needle */\n",
    "src/empty": "",
    "link@": "src/a.c",
    "broken@": "nowhere",
    "dir with space/file name": "content\n",
}

COREUTILS = load("coreutils")
FIND_GREP_SED_AWK = load("find_grep_sed_awk")
ARCHIVES = load("archives")
PERL = load("perl")
OTHERS = load("others")


@pytest.mark.needs("ls", "bash")
@pytest.mark.parametrize("name", COREUTILS)
def test_coreutils(name: str) -> None:
    result = differential(["bash", "-c", COREUTILS[name] + "exit 0"], tree=TREE, case=f"coreutils: {name}")
    assert result.out


@pytest.mark.needs("find", "xargs", "grep", "sed", "mawk")
@pytest.mark.parametrize("name", FIND_GREP_SED_AWK)
def test_find_grep_sed_awk(name: str) -> None:
    script = FIND_GREP_SED_AWK[name] + "exit 0"
    result = differential(["sh", "-c", script], tree=TREE, case=f"find grep sed awk: {name}")
    assert result.out


@pytest.mark.needs("tar", "gzip", "xz")
@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(name: str) -> None:
    packed = ["*.tar", "*.gz", "*.xz"]  # hold times
    script = ARCHIVES[name] + "exit 0"
    result = differential(["sh", "-c", script], tree=TREE, case=f"archives: {name}", ignore=packed)
    assert result.out


@pytest.mark.needs("perl")
@pytest.mark.parametrize("name", PERL)
def test_perl(name: str) -> None:
    result = differential(["sh", "-c", PERL[name] + "exit 0"], tree=TREE, case=f"perl: {name}")
    assert result.out


@pytest.mark.needs("sqlite3")
def test_sqlite() -> None:
    differential(["sh", "-c", OTHERS["sqlite3"]], case="sqlite3", ignore=["db*", "copy"])


@pytest.mark.needs("git")
def test_git() -> None:
    identity = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": "1000000000 +0000",
        "GIT_COMMITTER_DATE": "1000000000 +0000",
    }
    differential(["sh", "-c", OTHERS["git"]], env=identity, case="git", ignore=["*/.git", "bare"], timeout=120)
