"""README, CONTRIBUTING, SECURITY and docs/: every file, module and link that they name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

import husk
from husk.conform.report.markdown import is_as_written

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "husk"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# What `husk conform report` wrote names cases and files of other people's suites. A page that was edited, or that the
# tool did not write, is held to the same rules as every other.
WRITTEN_PAGES = [page for page in PAGES if page.parent.name == "conformance" and is_as_written(page.read_text())]
NAMING_PAGES = [page for page in PAGES if page not in WRITTEN_PAGES]
FOLDERS = ("src", "tests", "docs", "tools", "bench", "examples", "scripts", ".ci")
# The how-tos write these files themselves.
WRITTEN_BY_HOWTOS = {"src/husk/vfs/ziptree.py", "husk.vfs.ziptree", "tests/guests/files_fileattr.c"}
# Files of users and of other programs.
NOT_OURS = {"permissions.toml", "husk.toml", "main.py", "fs/coredump.c", ".cursor/mcp.json", ".vscode/mcp.json"}

# Names of Linux and of other programs that our own code does not use.
FOREIGN_NAMES = {
    "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CAP_SYS_NICE", "GIT_LOGIN", "GITHUB_TOKEN", "OPENAI_BASE_URL",
    "GH_TOKEN", "HTTPS_PROXY", "HTTP_PROXY", "claude_desktop_config", "insteadOf", "sa_restorer", "sd_notify",
    "unix_diag",
}  # fmt: skip


@cache
def files() -> list[str]:
    """Every file and folder of the repository, relative to it."""
    found = [path.name for path in ROOT.glob("*") if path.is_file()]
    for folder in FOLDERS:
        found += [folder, *(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*"))]
    return found


@cache
def source_text() -> str:
    return "".join(path.read_text() for suffix in ("py", "c", "h") for path in SOURCE.rglob(f"*.{suffix}"))


@cache
def words() -> set[str]:
    """Every word of our code, our tests and their names."""
    ours = [path for folder in ("src", "tests", "tools", "bench") for path in (ROOT / folder).rglob("*.[pch]*")]
    read = (path.read_text() for path in ours if path.suffix in (".py", ".c", ".h"))
    return {path.stem for path in ours}.union(*(re.findall(r"\w+", text) for text in read))


def exists(name: str) -> bool:
    name = name.rstrip("/")
    return any(fnmatchcase(path, name) or fnmatchcase(path, f"*/{name}") for path in files())


def paths_in(text: str) -> Iterator[str]:
    """Names of files in code spans. A component in capitals (NAME, N) stands for any name: no file of ours."""
    rooms = "|".join(re.escape(name) for name in (*FOLDERS, *(path.name for path in SOURCE.iterdir() if path.is_dir())))
    for span in re.findall(r"`([^`\n]+)`", text):
        # A name that follows a slash or a colon is part of a guest path, a URL or an image.
        in_a_room = rf"(?<![\w/:.@~-])(?:{rooms})/[\w./*-]*"
        for name in re.findall(rf"{in_a_room}|(?<![\w/:.$*-])[\w*-]+\.(?:py|c|h|toml)\b", span):
            if not re.search(r"(?:^|/)[A-Z]+(?:/|$)|-[A-Z]+$", name) and name not in NOT_OURS:
                yield name


def identifiers_in(text: str) -> Iterator[str]:
    """Words in code spans that are names in code: with an underscore, in camel case, or called. `A_*` is a prefix."""
    for span in re.findall(r"`([^`\n]+)`", text):
        yield from re.findall(r"(?<![\w/-])[A-Za-z]+_\w+(?![\w*])|\b[A-Z]?[a-z]+[A-Z]\w*|\b\w+(?=\(\))", span)


def dotted_in(text: str) -> Iterator[str]:
    yield from re.findall(r"(?<![\w./])husk(?:\.[a-zA-Z_]\w*)+", text)


def is_defined(dotted: str) -> bool:
    """A module, a name in a module, a public name of husk, or a label that the source writes."""
    parts = dotted.split(".")[1:]
    for cut in range(len(parts), 0, -1):
        module = SOURCE.joinpath(*parts[:cut])
        rest = parts[cut:]
        file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
        if file.is_file():
            return not rest or re.search(rf"\b{rest[0]}\b", file.read_text()) is not None
    return hasattr(husk, parts[0]) or f'"{dotted}"' in source_text() or f"{dotted}=" in source_text()


def anchors(text: str) -> set[str]:
    """Headings as GitHub turns them into anchors."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", NAMING_PAGES, ids=[str(page.relative_to(ROOT)) for page in NAMING_PAGES])
def test_a_page_names_what_exists(page: Path) -> None:
    text = page.read_text()
    wrong = [name for name in paths_in(text) if name not in WRITTEN_BY_HOWTOS and not exists(name)]
    wrong += [name for name in dotted_in(text) if name not in WRITTEN_BY_HOWTOS and not is_defined(name)]
    for symbol, name in re.findall(r"`(\w+)(?:\(\))?` in\s+`([\w./]+\.(?:py|c|h))`", text):
        paths = [path for path in files() if path == name or path.endswith(f"/{name}")]
        if not any(re.search(rf"\b{symbol}\b", (ROOT / path).read_text()) for path in paths):
            wrong.append(f"{symbol} in {name}")
    state = (SOURCE / "vfs" / "state.py").read_text()  # makes the folders of a box's state directory
    wrong += [f"<state>/{name}" for name in re.findall(r"(?:<state>/|…/)(\w+)/", text) if f'b"{name}"' not in state]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    wrong += [name for name in identifiers_in(prose) if name not in words() | FOREIGN_NAMES]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name) if name else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text()), target


def test_a_wrong_name_would_be_noticed() -> None:
    text = "`vfs/walk.py` `vfs/no.py` `tests/none/` `walk.py` `husk_no.c` `/usr/no.py` `kept/NAME/x` `a:/vfs/no.py`"
    assert [name for name in paths_in(text) if not exists(name)] == ["vfs/no.py", "tests/none/", "husk_no.c"]
    assert exists("tests/escape/kill_*.c") and not exists("tests/escape/kull_*.c")
    assert is_defined("husk.vfs.walk") and is_defined("husk.Sandbox") and not is_defined("husk.vfs.no")
    assert not is_defined("husk.no_such_label")


# On PyPI `husk` is an unrelated package. A clone may be called so: /path/to/husk[mcp].
STRANGERS_PACKAGE = re.compile(r"""(?<![\w/.-])husk\[[a-z]+[],]|\bpip install (?:-U |--upgrade )?['"]?husk\b(?!-|/)""")


def test_texts_name_the_distribution_and_not_a_strangers_package() -> None:
    assert 'name = "huskbox"' in (ROOT / "pyproject.toml").read_text()
    kinds = (".py", ".md", ".toml", ".yml", ".txt", ".c", ".html")
    wrong = [
        f"{name}: {line.strip()}"
        for name in files()
        if name.endswith(kinds) and name != "tests/unit/test_docs.py"
        for line in (ROOT / name).read_text().splitlines()
        if STRANGERS_PACKAGE.search(line)
    ]
    assert wrong == []


@pytest.mark.parametrize("text", ["pip install husk", "pip install 'husk[mcp]'", "install husk[conform].", "husk[a,b]"])
def test_the_strangers_name_would_be_noticed(text: str) -> None:
    assert STRANGERS_PACKAGE.search(text)


@pytest.mark.parametrize("text", ["pip install huskbox", "'huskbox[mcp]'", "/path/to/husk[mcp]", "test_husk[bare]"])
def test_other_names_are_let_pass(text: str) -> None:
    assert not STRANGERS_PACKAGE.search(text)
