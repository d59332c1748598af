"""husk's C code that reads untrusted input, each part alone under AddressSanitizer and UndefinedBehaviourSanitizer.

A short run from a fixed seed; the long one is `make fuzz-c`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.fuzz.corpora import TARGETS
from tests.fuzz.libfuzzer import build, run, seeds


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_found(tmp_path: Path, target: str) -> None:
    """With gcc, which is everywhere, so that this test is the same everywhere."""
    run(tmp_path, target, None, runs=3000)


def test_a_wrong_access_would_be_seen(tmp_path: Path) -> None:
    """The targets themselves: one that trusts a manifest's header must not survive its first forged one."""
    source = (Path(__file__).parent / "targets" / "manifest.c").read_text()
    trusting = source.replace("if (manifest_open(&m, bytes, size) == NULL) {", "manifest_open(&m, bytes, size); {")
    assert trusting != source
    folder = tmp_path / "targets"
    folder.mkdir()
    for name in ("input.h", "driver.c"):
        (folder / name).write_text((Path(__file__).parent / "targets" / name).read_text())
    native = Path(__file__).resolve().parents[2] / "src" / "husk" / "native"
    (folder / "manifest.c").write_text(
        trusting.replace("../../../src/husk/native", str(native)).replace(
            "struct manifest m;",
            "struct manifest m = {bytes, (void *)bytes, (void *)(bytes + 256), (char *)bytes, bytes};",
        )
    )
    program = build(tmp_path, "manifest", None, folder)
    files = [str(path) for path in sorted(seeds(tmp_path, "manifest").iterdir())]
    done = subprocess.run(
        [str(program), "3000", "1", *files], capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode and "AddressSanitizer" in done.stderr
