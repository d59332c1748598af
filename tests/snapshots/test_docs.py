"""Every block of docs/snapshots.md, run in the order it stands there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.lib.running import husk_command
from tests.snapshots.place import Place

PAGE = Path(__file__).resolve().parents[2] / "docs" / "snapshots.md"


def test_the_page_does_what_it_says(place: Place) -> None:
    blocks = [part.split("```")[0] for part in PAGE.read_text().split("```sh\n")[1:]]
    assert len(blocks) == 6
    script = 'husk() { "$@"; }\n'.replace('"$@"', " ".join(husk_command()) + ' "$@"') + "".join(blocks)
    done = subprocess.run(
        ["sh", "-ec", script], cwd=place.top, env=place.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    assert done.stderr == ""
    assert done.stdout.count("hello\n") >= 3
    assert (place.project / "file").read_text() == "new\n"
    assert place.leftovers() == []
