"""Builds that fetch: pip, npm and apt install from the registries this machine's own clients are set up for.

Part of `make soak-store`, since a registry that is slow or away must not fail a change. The network rules are what the
clients themselves say they need, and no more. A test whose registry cannot be reached natively is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from husk.images.build import BuildReport, build
from husk.images.image_export import export
from husk.images.image_import import import_image
from husk.store.store import Store
from tests.conftest import guest_programs
from tests.images.archives import everything
from tests.images.hostroot import add_file, add_programs, add_tree
from tests.lib.running import husk

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
PYTHON = "/usr/bin/python3"
HOST_ENV = {**os.environ, "PATH": guest_programs.GUEST_PATH}


def natively(*command: str, **env: str) -> str:
    """What a client of this machine says; if it says nothing, the registry cannot be reached from here."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**HOST_ENV, **env}, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{command[0]} cannot be asked here: {error}")
    if done.returncode:
        pytest.skip(f"{' '.join(command[:4])} does not reach its registry: {done.stderr.strip()[-200:]}")
    return done.stdout.strip()


def rule(url: str) -> str:
    """A network rule for where a URL leads, and nothing else."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def authorities() -> str:
    """The certificates this machine trusts: a proxy that inspects TLS has a certificate of its own."""
    found = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    if not found or not os.path.exists(found):
        pytest.skip("this machine has no file of certificate authorities")
    return found


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "work").mkdir()
    shutil.copy(authorities(), tmp_path / "work" / "authorities.crt")
    return tmp_path / "work"


CERTIFICATES = '[[files]]\nfrom = "authorities.crt"\nto = "/etc/ssl/authorities.crt"\nfirst = true\n'


def recipe(urls: set[str], env: dict[str, str], packages: str, command: str) -> str:
    """On the image `base`: installs packages from `urls`, then runs a command."""
    settings = "\n".join(f'{name} = "{value}"' for name, value in env.items())
    return f"""
base = "base"
allow-net = {json.dumps(sorted({rule(url) for url in urls}))}
[env]
{settings}
[packages]
{packages}
[run]
commands = [{json.dumps(command)}]
""" + CERTIFICATES


def twice(store: Store, work: Path, text: str) -> None:
    """The second build does nothing: it says so, the store is as it was, and it takes no time to speak of."""
    (work / "made.toml").write_text(text)
    first, seconds = timed(lambda: build(store, str(work / "made.toml")))
    assert not any(step["cached"] for step in first.steps)
    before = everything(Path(store.place))
    again, instead = timed(lambda: build(store, str(work / "made.toml")))
    assert all(step["cached"] for step in again.steps) and again.layers == first.layers
    assert everything(Path(store.place)) == before
    print(f"{first.steps[-2]['step']}: {seconds:.1f} s, and {instead:.2f} s the second time")


def timed(run: Callable[[], BuildReport]) -> tuple[BuildReport, float]:
    started = time.monotonic()
    return run(), time.monotonic() - started


def inside(store: Store, *command: str) -> str:
    done = husk(["run", "--image", "made", "--store", store.place, "--", *command])
    assert done.status == 0, done
    return done.out


@pytest.mark.needs("python3", "sh")
def test_pip(store: Store, work: Path, tmp_path: Path) -> None:
    natively(PYTHON, "-m", "pip", "--version")
    ask = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    index = os.environ.get("PIP_INDEX_URL") or natively(PYTHON, "-c", ask)
    # Only the index: the test must not use wheels that happen to be on this machine.
    alone = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index}
    words = ("install", "--dry-run", "--ignore-installed", "--quiet", "--no-deps", "--report", "-", "six")
    report = json.loads(natively(PYTHON, "-m", "pip", *words, **alone))
    wheel = report["install"][0]["download_info"]["url"]
    root = tmp_path / "root"
    (root / "tmp").mkdir(parents=True)
    add_programs(root, "sh", PYTHON)
    ask = "import pip, sysconfig; print(sysconfig.get_path('stdlib')); print(pip.__path__[0])"
    for folder in natively(PYTHON, "-c", ask).split():
        add_tree(root, folder, "test", "tests", "idlelib", "config-*", "lib2to3", "dist-packages", "__pycache__")
    for extension in root.rglob("_ssl*.so"):
        add_libraries(root, extension)
    import_image(store, str(root), "base")
    env = {"PIP_INDEX_URL": index, "PIP_CERT": "/etc/ssl/authorities.crt", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    command = "python3 -c 'import six; print(six.__version__)' > /version"
    twice(store, work, recipe({index, wheel}, env, 'pip = ["six"]', command))
    assert inside(store, "python3", "-c", "import six; print(six.PY3)") == "True\n"


def add_libraries(root: Path, extension: Path) -> None:
    for line in subprocess.run(["ldd", extension], capture_output=True, text=True, check=True).stdout.splitlines():
        _, arrow, found = line.partition(" => ")
        if arrow:
            add_file(root, found.split()[0])


@pytest.mark.needs("node", "npm", "sh")
def test_npm(store: Store, work: Path, tmp_path: Path) -> None:
    registry = natively("npm", "config", "get", "registry")
    tarball = natively("npm", "view", "is-number", "dist.tarball")
    root = tmp_path / "root"
    (root / "tmp").mkdir(parents=True)
    add_programs(root, "sh", "env", "node", "rm")
    program = os.path.realpath(shutil.which("npm", path=guest_programs.GUEST_PATH) or "")
    package = program[: program.index("/npm/") + 4]
    add_tree(root, package, "docs", "man")
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    (root / "usr/bin/npm").symlink_to(program)
    import_image(store, str(root), "base")
    env = {
        "npm_config_registry": registry,
        "NODE_EXTRA_CA_CERTS": "/etc/ssl/authorities.crt",
        "npm_config_update_notifier": "false",
    }
    twice(store, work, recipe({registry, tarball}, env, 'npm = ["is-number"]', "npm ls --global > /list"))
    assert "is-number@" in inside(store, "sh", "-c", "while read line; do echo $line; done < /list")


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """A Debian root as this machine's own package lists lead to one."""
    if os.geteuid():
        pytest.skip("mmdebstrap makes whole roots for root only, or with more user ids than one")
    form = "$(REPO_URI) $(CODENAME) $(COMPONENT)"
    targets = natively("apt-get", "indextargets", "--format", form, "Created-By: Packages")
    place = next((line.split() for line in targets.splitlines() if "-" not in line.split()[1] and "main" in line), None)
    if place is None:
        pytest.skip("apt knows no repository of Debian's here")
    root = tmp_path / "debian.tar"
    natively("mmdebstrap", "--mode=root", "--variant=apt", place[1], str(root), place[0])
    return root


@pytest.mark.needs("mmdebstrap", "apt-get")
def test_a_debian_root_and_apt(store: Store, work: Path, tmp_path: Path, debian: Path) -> None:
    first = import_image(store, str(debian), "base")
    assert [why for _, why in first.left_out] and {why for _, why in first.left_out} == {"a device"}
    for form in ("tar", "oci"):
        export(store, "base", str(tmp_path / f"{form}.tar"), form)
        assert import_image(store, str(tmp_path / f"{form}.tar"), "again").flat == first.flat
    sources = natively("tar", "-xOf", str(debian), "./etc/apt/sources.list")
    twice(store, work, f"""
base = "base"
allow-net = ["{rule(sources.split()[1])}"]
[packages]
apt = ["hello", "dbus"]
[run]
commands = ["dpkg --audit; dpkg --verify > /verified; hello > /hello"]
""")  # fmt: skip
    assert inside(store, "cat", "/verified", "/hello") == "Hello, world!\n"
    # Owned by another user and set-uid, as its package wants it.
    helper = inside(store, "stat", "-c", "%a %U %G", "/usr/lib/dbus-1.0/dbus-daemon-launch-helper")
    assert helper == "4754 root messagebus\n"
