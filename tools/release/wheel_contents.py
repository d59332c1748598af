"""What a wheel of husk holds, and nothing else: compared with the source tree it was built from. Runs nothing.

`faults` looks into a wheel, `installed_faults` at an installed husk. Both give sentences; an empty list is good news.
"""

from __future__ import annotations

import re
import stat
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from package_files import package_files

ROOT = Path(__file__).resolve().parents[2]
CORE = "husk/native/_core.abi3.so"
# Programs that the host executes in place of a guest's, or where there is no library: nothing may be missing for them.
STATIC = ("husk/native/husk-init", "husk/native/husk-loader", "husk/compat/probe/husk-probe")
METADATA = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
PT_INTERP = 3


def version(root: Path = ROOT) -> str:
    found = re.search(r"version: '([^']+)'", (root / "meson.build").read_text())
    assert found, "meson.build names no version"
    return found[1]


def expected_files(root: Path = ROOT) -> set[str]:
    return {f"husk/{name}" for name in package_files(root / "src" / "husk")} | {CORE, *STATIC}


def faults(wheel: Path, root: Path = ROOT) -> list[str]:
    found = []
    release = f"huskbox-{version(root)}"
    tag = wheel.name.removeprefix(f"{release}-").removesuffix(".whl")
    if not re.fullmatch(r"cp311-abi3-(manylinux_\d+_\d+|linux)_x86_64", tag):
        found.append(f"{wheel.name} is not a wheel of {release} for the stable ABI of Python 3.11 on x86-64.")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        scripts = {f"{release}.data/scripts/{name}" for name in ("husk", "husk-python")}
        wanted = expected_files(root) | {f"{release}.dist-info/{name}" for name in METADATA} | scripts
        found += _differences(names, wanted)
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
        found += _programs(names & {*STATIC, *scripts}, lambda name: modes[name], archive.read)
        if f"{release}.dist-info/METADATA" in names:
            text = archive.read(f"{release}.dist-info/METADATA").decode()
            heads = text.partition("\n\n")[0].splitlines()
            for line in ("Name: huskbox", f"Version: {version(root)}", "Requires-Python: >=3.11"):
                if line not in heads:
                    found.append(f"METADATA does not say {line!r}.")
    return found


def installed_faults(site: Path, root: Path = ROOT) -> list[str]:
    """`site`: a site-packages directory."""
    place = site / "husk"
    names = {str(path.relative_to(site)) for path in place.rglob("*") if path.is_file()}
    names = {name for name in names if "__pycache__" not in name}
    found = _differences(names, expected_files(root))
    return found + _programs(
        names & set(STATIC), lambda name: (site / name).stat().st_mode, lambda name: (site / name).read_bytes()
    )


def _differences(names: set[str], wanted: set[str]) -> list[str]:
    return [f"{name} is missing." for name in sorted(wanted - names)] + [
        f"{name} does not belong there." for name in sorted(names - wanted)
    ]


def _programs(names: set[str], mode: Callable[[str], int], read: Callable[[str], bytes]) -> list[str]:
    found = []
    for name in sorted(names):
        if stat.S_IMODE(mode(name)) & 0o111 != 0o111:
            found.append(f"{name} is not executable.")
        if name in STATIC and not is_static(read(name)):
            found.append(f"{name} is not a static program.")
    return found


def is_static(data: bytes) -> bool:
    """An x86-64 ELF program that names no interpreter."""
    if len(data) < 64 or data[:5] != b"\x7fELF\x02":
        return False
    (start,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    heads = [start + number * size for number in range(count)]
    return bool(heads) and all(struct.unpack_from("<I", data, at)[0] != PT_INTERP for at in heads)


if __name__ == "__main__":
    wrong = [f"{name}: {each}" for name in sys.argv[1:] for each in faults(Path(name))]
    sys.exit("\n".join(wrong) or None)
