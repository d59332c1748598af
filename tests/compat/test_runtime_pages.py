"""docs/formats/runtime.md and docs/howto/add-a-runtime-profile.md: the files they show are runtime files."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from husk.compat.surface import MISSING, read_surface

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["formats/runtime.md", "howto/add-a-runtime-profile.md"])
def test_the_file_on_the_page_is_read(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^( *)```toml\n(.*?)^ *```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    path = tmp_path / "shown.toml"
    path.write_text(textwrap.dedent(blocks[0][1]))
    assert read_surface(path).answer("arch_prctl", [0x1001, 0])[:2] == (MISSING, 22)
