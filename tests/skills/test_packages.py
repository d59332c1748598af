"""Packages of a skill: installed once, in a box, pinned; from wheels and tarballs, and from an index."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from husk.sandbox.policy import Mount
from husk.skills.box_runner import Setting
from husk.skills.packages.pip_packages import find_missing
from husk.store.store import Store
from tests.skills.calling import husk_skill, layers_of, make_skill, refused, serving


def wheel(folder: Path, name: str, version: str, text: str, needs: str = "") -> str:
    """A wheel by hand: its sha256."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (
        f"Requires-Dist: {needs}\n" if needs else ""
    )
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr(f"{name}.py", text)
        out.writestr(f"{info}/METADATA", about)
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.needs("python3")
def test_python_packages_are_installed_once_and_pinned(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    top = wheel(wheels, "husk_test_top", "1.2", "from husk_test_below import answer", needs="husk_test_below")
    below = wheel(wheels, "husk_test_below", "0.9", "answer = 42")
    script = "import husk_test_top\nprint(husk_test_top.answer)\n"
    skill = make_skill(tmp_path, "needy", {"scripts/x.py": script})
    lock = tmp_path / "needy.lock"
    first = husk_skill(tmp_path, "run", skill, "--find-links", wheels, "--lock", lock)
    assert first.out == "42\n" and "(installed in a box)" in first.err, first.err
    assert lock.read_text() == (f"husk_test_below==0.9 --hash=sha256:{below}\nhusk_test_top==1.2 --hash=sha256:{top}\n")
    for extra in ((), ("--lock", lock)):  # no wheels are needed any more
        again = husk_skill(tmp_path, "run", skill, *extra)
        assert again.out == "42\n" and "(cached)" in again.err, again.err
    # A wheel other than the one the lock names is refused, even with the same version.
    wheel(wheels, "husk_test_below", "0.9", "answer = 43")
    swapped = tmp_path / "elsewhere"
    swapped.mkdir()
    refused(husk_skill(swapped, "run", skill, "--find-links", wheels, "--lock", lock), "THESE PACKAGES DO NOT MATCH")
    manifest = tmp_path / "none.toml"
    manifest.write_text("version = 1\n")
    refused(husk_skill(tmp_path, "run", skill, "--permissions", manifest), "which the manifest does not allow")


@pytest.mark.needs("python3")
def test_python_packages_from_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "web/simple/husk-test-top"
    folder.mkdir(parents=True)
    digest = wheel(folder, "husk_test_top", "3.0", "answer = 42")
    file = "husk_test_top-3.0-py3-none-any.whl"
    (folder / "index.html").write_text(f'<a href="{file}#sha256={digest}">{file}</a>')
    skill = make_skill(tmp_path, "needy", {"scripts/x.py": "import husk_test_top\nprint(husk_test_top.answer)\n"})
    with serving(tmp_path / "web") as port:
        answer = husk_skill(tmp_path, "run", skill, "--index", f"http://127.0.0.1:{port}/simple")
    assert answer.out == "42\n", answer.err
    assert husk_skill(tmp_path, "run", skill).out == "42\n"
    refused(husk_skill(tmp_path / "web", "run", skill, "--index", "pypi"), "--index pypi: write an address")


@pytest.mark.needs("python3")
def test_a_lock_beside_the_manifest(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for version in ("1.0", "1.5", "2.0"):
        wheel(wheels, "husk_test_top", version, f"answer = {version!r}")
    wheel(wheels, "husk_test_extra", "1.0", "")
    script = "import husk_test_top, importlib.util as find\nfound = find.find_spec('husk_test_extra') is not None\n"
    script += "print(husk_test_top.answer, found)\n"
    skill = make_skill(tmp_path, "needy", {"scripts/x.py": script})
    source = ("--find-links", wheels)
    manifest, lock = tmp_path / "needy.permissions.toml", tmp_path / "needy.permissions.lock"
    # --with brings versions, and packages that no script imports.
    learn = ("learn", skill, *source, "--with", "husk_test_top<2", "--with", "husk_test_extra")
    learnt = husk_skill(tmp_path, *learn)
    assert learnt.out == "1.5 True\n", learnt.err
    assert 'pip = [\n    "husk_test_extra",\n    "husk_test_top<2",\n]' in manifest.read_text()
    assert [line.split(" ")[0] for line in lock.read_text().splitlines()] == [
        "husk_test_extra==1.0",
        "husk_test_top==1.5",
    ]
    # What the manifest lists is installed, and as it was locked: a newer version and a lost store change nothing.
    wheel(wheels, "husk_test_top", "1.9", "answer = 'newer'")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    held = ("run", skill, "--permissions", manifest)
    assert husk_skill(elsewhere, *held, *source).out == "1.5 True\n"
    assert husk_skill(elsewhere, *held).out == "1.5 True\n"  # without a source: the layer is there
    assert husk_skill(elsewhere, *held, *source, "--with", "husk_test_top<2").out == "1.5 True\n"
    refused(husk_skill(elsewhere, *held, *source, "--with", "husk_test_other"), "which the manifest does not allow")
    excluded = husk_skill(elsewhere, *held, *source, "--with", "husk_test_top>=1.9")
    refused(excluded, "holds husk-test-top 1.5, which husk_test_top>=1.9 excludes; `husk skill lock` writes")
    locked = husk_skill(elsewhere, "lock", skill, "--permissions", manifest, *source)
    assert locked.out == f"{lock}, 2 packages\n", locked.err
    assert husk_skill(elsewhere, *held).out == "newer True\n"
    lock.write_text("")
    manifest.write_text(manifest.read_text().replace('    "husk_test_extra",\n', ""))
    lock.unlink()
    assert husk_skill(elsewhere, *held, *source).out == "newer False\n"


@pytest.mark.needs("python3")
def test_a_listed_package_without_a_source(tmp_path: Path) -> None:
    skill = make_skill(tmp_path, "plain", {"scripts/x.py": "print('RAN')\n"})
    manifest = tmp_path / "m.toml"
    manifest.write_text('version = 1\n[packages]\npip = ["husk_test_none>=1"]\nnpm = ["husk-none"]\n')
    answer = husk_skill(tmp_path, "run", skill, "--permissions", manifest)
    assert answer.out == "RAN\n" and "the manifest lists husk_test_none>=1, which the box lacks" in answer.err
    for text in ("-r x", "a b", "npm:../x", "./x", "https://x/y.whl", ""):
        refused(husk_skill(tmp_path, "run", skill, "--with", text), "write a package with versions and extras")


@pytest.mark.needs("python3")
def test_extras_are_packages_too(tmp_path: Path) -> None:
    """A package that is there without its extras does not count as there."""
    site = tmp_path / "site"
    about = "Metadata-Version: 2.1\nName: husk-test-top\nVersion: 1.0\nProvides-Extra: all\n"
    about += 'Requires-Dist: husk-test-extra; extra == "all"\n'
    (site / "husk_test_top-1.0.dist-info").mkdir(parents=True)
    (site / "husk_test_top-1.0.dist-info/METADATA").write_text(about)
    mount = [Mount(str(site), "/opt/skill/packages0")]
    env = {"PYTHONPATH": "/opt/skill/packages0"}
    for wanted, lacks in (("husk_test_top", False), ("husk_test_top[all]", True), ("husk_test_top[none]", False)):
        assert bool(find_missing(Setting(), mount, env, [], [wanted]).requirements) is lacks


def packed(folder: Path, name: str, needs: dict[str, str], text: str) -> None:
    """An npm tarball by hand, with an install script that must not run."""
    about = {"name": name, "version": "1.0.0", "dependencies": needs, "scripts": {"install": "touch /layer/RAN"}}
    with tarfile.open(folder / f"{name}-1.0.0.tgz", "w:gz") as out:
        for file, data in (("package.json", json.dumps(about)), ("index.js", text)):
            member = tarfile.TarInfo(f"package/{file}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data.encode()))


@pytest.mark.needs("node", "npm")
def test_npm_packages(tmp_path: Path) -> None:
    tarballs = tmp_path / "tarballs"
    tarballs.mkdir()
    packed(tarballs, "husk-a", {"husk-b": "1"}, "module.exports = require('husk-b') + 1")
    packed(tarballs, "husk-b", {}, "module.exports = 41")
    skill = make_skill(tmp_path, "noded", {"scripts/x.mjs": "import a from 'husk-a';\nconsole.log(a);\n"})
    refused(husk_skill(tmp_path, "run", skill), "the skill needs the npm packages husk-a; give --find-links")
    answer = husk_skill(tmp_path, "run", skill, "--find-links", tarballs)
    assert answer.out == "42\n", answer.err
    (image,) = layers_of(tmp_path)
    store = Store.open(str(tmp_path / "store"))
    names = {entry.path for entry in store.open_manifest(store.images.get(image).flat).walk()}
    assert b"husk-b/index.js" in names and not any(name.endswith(b"RAN") for name in names)
    assert husk_skill(tmp_path, "run", skill).out == "42\n"
    assert husk_skill(tmp_path, "run", skill, "--lock", tmp_path / "n.lock").out == "42\n"
    lock = tmp_path / "n.lock.npm.json"
    assert json.loads(lock.read_text())["packages"]["node_modules/husk-b"]["integrity"].startswith("sha512-")
    # Elsewhere, with the lock, a tarball other than the one it names is refused.
    other = tmp_path / "other"
    other.mkdir()
    given = ("--find-links", tarballs, "--lock", tmp_path / "n.lock")
    packed(tarballs, "husk-b", {}, "module.exports = 42")
    refused(husk_skill(other, "run", skill, *given), "integrity")
    lock.write_text("{}")
    refused(husk_skill(other, "run", skill, *given), "not a lock that npm wrote")
