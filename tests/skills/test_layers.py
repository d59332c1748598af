"""Layers of packages in the store: found again, collected when unused; and where packages come from."""

from __future__ import annotations

import json
import os
import re
import stat as st
from collections.abc import Callable
from pathlib import Path

import pytest

from husk.sandbox.errors import HuskError, UsageError
from husk.skills.packages import layers, npm_packages, pip_packages, sources
from husk.skills.packages.layers import get_layer
from husk.store.collect import collect
from husk.store.images import ImageConfig
from husk.store.store import Store
from tests.skills.calling import husk_skill, make_skill

WISH: dict[str, object] = {"pip": ["x"], "python": "3.11", "image": ""}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HUSK_CACHE", str(tmp_path / "cache"))
    return Store.create(str(tmp_path / "store"))


def filling(text: str, lock: str = "x==1\n") -> Callable[[Path], layers.Filled]:
    def fill(place: Path) -> layers.Filled:
        (place / "made").mkdir()
        (place / "made/.env").write_text(text)  # what an ingest leaves out as a secret belongs to a package
        return place / "made", lock

    return fill


def never(place: Path) -> layers.Filled:
    raise AssertionError("there is a layer for that")


def test_a_layer_is_made_once(store: Store, tmp_path: Path) -> None:
    made = get_layer(store.place, "pip", WISH, filling("one"))
    again = get_layer(store.place, "pip", WISH, never)
    assert (made.cached, again.cached) == (False, True)
    assert made.image == again.image == store.images.list()[0] and again.lock == "x==1\n"
    assert {entry.path for entry in store.open_manifest(store.images.get(made.image).flat).walk()} >= {b".env"}
    # It also serves another wish with the same lock on the same Python; on another Python it does not.
    asked = WISH | {"pins": ["x==1"]}
    assert get_layer(store.place, "pip", asked, never, pinned="x==1\n").image == made.image
    other = get_layer(store.place, "pip", asked | {"python": "3.12"}, filling("two"), pinned="x==1\n")
    assert other.image != made.image and not list((tmp_path / "cache/installing").glob("new-*"))


@pytest.mark.parametrize("attack", ["packages", "lock", "lock folder", "deep"])
def test_what_an_installation_left_is_a_strangers(store: Store, tmp_path: Path, attack: str) -> None:
    """Code of a package or an image may have run in the box and replaced the files that husk reads and writes next."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")

    def fill(place: Path) -> layers.Filled:
        made = place / "made"
        if attack == "packages":
            made.symlink_to(outside)
        else:
            made.mkdir()
        if attack == "lock":
            (made / ".packages.lock").symlink_to(outside / "secret")
        elif attack == "lock folder":
            (made / ".packages.lock").mkdir()
        elif attack == "deep":
            at = os.open(made, os.O_PATH)
            for _ in range(1500):
                os.mkdir("d", 0o755, dir_fd=at)
                below = os.open("d", os.O_PATH, dir_fd=at)
                os.close(at)
                at = below
            os.close(at)
            raise UsageError("no")
        return made, "x==1\n"

    if attack == "lock":
        made = get_layer(store.place, "pip", WISH, fill)
        assert get_layer(store.place, "pip", WISH, never).lock == "x==1\n"
        found = store.open_manifest(store.images.get(made.image).flat).lookup(b".packages.lock")
        assert found is not None and st.S_ISREG(found.mode)
    else:
        with pytest.raises(HuskError):
            get_layer(store.place, "pip", WISH, fill)
        assert store.images.list() == []
    assert os.listdir(outside) == ["secret"] and (outside / "secret").read_text() == "secret"
    assert not list((tmp_path / "cache/installing").glob("new-*"))


def test_what_a_box_says_is_read_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", layers.MOST_LOCK + 1)
    for name in ("link", "fifo", "large", "missing"):
        with pytest.raises(OSError):
            layers.read_untrusted(tmp_path / name)
    assert layers.read_untrusted(tmp_path / "secret") == "secret"
    for provided in (pip_packages._lock_text, npm_packages._read_left):
        with pytest.raises(HuskError, match="cannot be read"):
            provided(tmp_path / "link")


def test_a_failed_installation_leaves_nothing(store: Store, tmp_path: Path) -> None:
    def fail(place: Path) -> layers.Filled:
        (place / "half").touch()
        raise UsageError("no")

    (tmp_path / "cache/installing/new-1").mkdir(parents=True)  # left by a killed one
    with pytest.raises(UsageError):
        get_layer(store.place, "pip", WISH, fail)
    assert not store.images.list() and not list((tmp_path / "cache/installing").glob("new-*"))


def test_collection_takes_what_nobody_uses(store: Store) -> None:
    with store.writing() as writing:
        from husk.store.manifests.manifest_writer import ManifestWriter

        kept = writing.put_manifest(ManifestWriter().finish())
        writing.set_image("kept", [kept], ImageConfig())
    made = get_layer(store.place, "pip", WISH, filling("one"))
    assert collect(store, delete=True).caches == [] and store.images.list() == ["kept", made.image]
    made.close()
    assert collect(store).caches == [made.image] and len(store.images.list()) == 2  # only said
    assert collect(store, delete=True, unused_for=3600).caches == []
    os.utime(Path(store.place, "images", made.image.replace("/", "%")), (0, 0))
    get_layer(store.place, "pip", WISH, never).close()  # used again
    assert collect(store, delete=True, unused_for=3600).caches == []
    assert collect(store, delete=True).caches == [made.image]
    assert store.images.list() == ["kept"] and store.has(kept)
    assert not get_layer(store.place, "pip", WISH, filling("two")).cached


# -- where from -------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose pip and npm are configured by a file each and nothing else."""
    for name in [name for name in os.environ if name.upper().startswith(("PIP_", "NPM_CONFIG_", "HTTP"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sources, "_ask", lambda argv, what: (tmp_path / what).read_text())
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    (tmp_path / "pip").write_text("")
    (tmp_path / "npm").write_text("{}")
    return tmp_path


def pairs(found: sources.Source) -> list[tuple[str, str]]:
    return list(zip(found.options[::2], found.options[1::2], strict=True))


def test_pip_as_it_is_configured(machine: Path) -> None:
    for folder in ("mirror/simple", "wheels"):
        (machine / folder).mkdir(parents=True)
    (machine / "pip").write_text(
        "global.index-url='https://a.example/simple'\n:env:.index-url='https://me:word@b.example:8443/simple'\n"
        f"install.extra-index-url='file://{machine}/mirror/simple\\nhttp://c.example/simple'\n"
        f"global.find-links='{machine}/wheels {machine}/nowhere'\nglobal.trusted-host='c.example'\nodd line\n"
    )
    found = sources.pip_source()
    assert found.hosts == ["b.example:8443", "c.example:80"] and "word" not in found.name
    assert [(mount.source, mount.target, mount.mode) for mount in found.mounts] == [
        (f"{machine}/mirror", f"{machine}/mirror", "ro"),  # its pages link to files beside them
        (f"{machine}/wheels", "/opt/skill/source1", "ro"),
    ]
    assert pairs(found)[:4] == [
        ("--index-url", "https://me:word@b.example:8443/simple"),
        ("--extra-index-url", f"file://{machine}/mirror/simple"),
        ("--extra-index-url", "http://c.example/simple"),
        ("--find-links", "/opt/skill/source1"),
    ]
    assert pairs(found)[-1] == ("--trusted-host", "c.example")
    said = sources.pip_source("https://d.example/simple", ["files.d.example:443"])
    assert said.hosts == ["d.example:443", "files.d.example:443"] and not said.mounts


def test_pip_by_itself_and_behind_a_proxy(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, files = sources._pip_default()
    assert sources.pip_source().hosts == [sources.rule_for(own, ""), f"{files}:443"]
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    through = sources.pip_source()
    assert through.hosts == ["proxy.example:3128"] and pairs(through)[-1] == ("--proxy", "http://proxy.example:3128")
    for wrong in ("pypi", "ftp://x/", "https://"):
        with pytest.raises(UsageError, match="write an address such as"):
            sources.pip_source(wrong)


def test_npm_as_it_is_configured(machine: Path) -> None:
    with pytest.raises(UsageError, match="give --registry"):
        sources.npm_source()
    authority = machine / "ca.pem"
    authority.touch()
    (machine / "npm").write_text(json.dumps({"registry": "https://n.example/npm/", "cafile": str(authority)}))
    found = sources.npm_source()
    assert found.hosts == ["n.example:443"]
    assert pairs(found) == [("--registry", "https://n.example/npm/"), ("--cafile", "/opt/skill/source0")]
    assert sources.npm_source("http://[::1]:4873").hosts == ["[::1]:4873"]


@pytest.mark.skipif(not os.environ.get("HUSK_TEST_INDEX"), reason="make test-index asks the real index and registry")
@pytest.mark.needs("python3", "node", "npm")
def test_the_real_index_and_registry(tmp_path: Path) -> None:
    told = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "NPM_", "npm_"))}
    told["HOME"] = os.environ["HOME"]
    python = make_skill(tmp_path, "py", {"scripts/x.py": "import humanize\nprint(humanize.intcomma(1234567))\n"})
    node = make_skill(tmp_path, "js", {"scripts/x.mjs": "import ms from 'ms';\nconsole.log(ms('2 days'));\n"})
    for skill, text, lock in ((python, "1,234,567\n", "py.lock"), (node, "172800000\n", "js.lock.npm.json")):
        given = ("run", skill, "--lock", tmp_path / f"{skill.name}.lock")
        answer = husk_skill(tmp_path, *given, "--fetch", timeout=300, more_env=told)
        assert answer.out == text, answer.err
        assert (tmp_path / lock).exists() and husk_skill(tmp_path, *given).out == text


def test_husk_names_no_index_of_its_own() -> None:
    """The machine's own configuration decides which index and registry are used."""
    texts = {path.name: path.read_text() for path in Path(sources.__file__).parent.glob("*.py")}
    assert texts and not [name for name, text in texts.items() if re.search(r"pypi\.org|pythonhosted|npmjs", text)]
