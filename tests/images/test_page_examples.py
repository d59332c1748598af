"""docs/images.md and docs/network.md: the blocks that can run without a network do what the pages say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from husk.images.recipe import Recipe
from tests.images.hostroot import add_file, add_programs
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import husk_command, scratch

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


def blocks(page: str, language: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    return [text for kind, text in found if kind == language]


def shell(script: str, place: Path) -> str:
    """What a block prints, typed in at `place`."""
    define = f'husk() {{ {" ".join(husk_command())} "$@"; }}\n'
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place), "HUSK_STATE": str(place / "state"), "XDG_DATA_HOME": str(place)}
    done = subprocess.run(["sh", "-c", f"{define}{script}"], cwd=place, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_image_of_the_first_block() -> None:
    """`debian.tar` has `cat` and /etc/os-release of this machine."""
    with scratch() as place:
        add_programs(place / "root", "cat")
        add_file(place / "root", "/etc/os-release")
        subprocess.run(["tar", "cf", "debian.tar", "-C", "root", "."], cwd=place, check=True)
        printed = shell(blocks("images.md")[0], place)
    assert printed.endswith(Path("/etc/os-release").read_text()), printed


def test_the_recipe_is_one(tmp_path: Path) -> None:
    (text,) = blocks("images.md", "toml")
    (tmp_path / "recipe.toml").write_text(text)
    (tmp_path / "app").mkdir()
    (tmp_path / "wheels").mkdir()
    (tmp_path / "pip.conf").touch()
    (tmp_path / "wheels" / "tool-1.0-py3-none-any.whl").touch()
    recipe = Recipe(str(tmp_path / "recipe.toml"))
    # The order that the page gives: first files, packages, other files, commands.
    words = [step.title.split()[0] for step in recipe.steps]
    assert words == ["copy", "apt", "pip", "copy", "run", "run"]
    assert (recipe.base, recipe.name, recipe.workdir) == ("debian", "tools", "/opt/app")


@pytest.mark.needs("python3")
def test_refusals_read_as_the_page_shows_them(tmp_path: Path) -> None:
    (promised,) = [block for block in blocks("network.md") if block.startswith("refused:")]
    ask = "import socket as s\nfor to in ('example.org', 80), ('169.254.169.254', 80):\n try: s.create_connection(to)\n"
    script = f'husk run --summary --allow-net pypi.org:443 -- python3 -c "{ask} except OSError: pass"'
    printed = shell(script, tmp_path)
    for line in promised.splitlines():
        assert line.removesuffix("…") in printed, printed
