"""Recipes: what they make, that nothing is done twice, and that forbidden steps are refused."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from husk.images.build import BuildReport, build
from husk.images.image_import import import_image
from husk.store.collect import collect
from husk.store.store import Store
from husk.store.store_errors import StoreError, StoreUsageError
from tests.images.archives import everything, lines
from tests.images.hostroot import add_programs
from tests.lib import running
from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import setting

pytestmark = pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a shell and a few tools, and /bin a link as it is nowadays."""
    root = tmp_path_factory.mktemp("base")
    for name in ("usr/bin", "etc", "tmp", "opt"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    (root / "etc" / "old").write_text("old")
    (root / "opt").chmod(0o711)
    add_programs(root, "sh", "cat", "rm", "mkdir", "ln", "id", "chown", "chmod", "mv", "grep")
    return root


@pytest.fixture
def place(store: Store, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    import_image(store, str(base), "base")
    monkeypatch.setenv("HUSK_STATE", str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    work = tmp_path / "work"
    (work / "app" / "sub").mkdir(parents=True)
    (work / "app" / "data").write_text("data")
    (work / "app" / "sub" / "link").symlink_to("../data")
    (work / "tool").write_text("#!/bin/sh\ncat /opt/app/data; echo $WORD\n")
    (work / "tool").chmod(0o755)
    yield work


RECIPE = """
base = "base"
name = "made"
[env]
WORD = "word"
[[files]]
from = "app"
to = "/opt/app"
[[files]]
from = "tool"
to = "/bin/tool"
[run]
commands = ["tool > /etc/out; rm /etc/old", "mkdir /etc/deep; id -u > /etc/deep/who"]
[config]
cmd = ["/bin/tool"]
labels = {made = "by hand"}
"""


def made(store: Store, place: Path, text: str = RECIPE, name: str = "") -> BuildReport:
    (place / "recipe.toml").write_text(text)
    return build(store, str(place / "recipe.toml"), name, namespaces=running.BARE not in running.OPTIONS)


def cached(report: BuildReport) -> list[bool]:
    return [bool(step["cached"]) for step in report.steps]


def test_a_build(store: Store, place: Path) -> None:
    report = made(store, place)
    assert cached(report) == [False] * 4 and len(report.layers) == 5
    image = store.images.get("made")
    found = lines(store, image)
    assert found["etc/out"].endswith(" b'dataword\\n'")
    assert found["etc/deep/who"].split()[1] == "0:0"
    assert "etc/old" not in found
    assert found["bin"].endswith("-> usr/bin") and "usr/bin/tool" in found and "usr/bin/sh" in found
    assert found["opt"].startswith("40711 ")
    assert found["opt/app/sub/link"].endswith("-> ../data")
    assert not [name for name in found if ".husk" in name]
    assert image.config.env == {"WORD": "word"} and image.config.cmd == ["/bin/tool"]
    assert image.config.labels == {"made": "by hand"}


def test_a_second_build_does_nothing(store: Store, place: Path) -> None:
    made(store, place)
    before = everything(Path(store.place))
    for name in os.listdir(place / "app"):
        os.utime(place / "app" / name, (1, 1), follow_symlinks=False)  # a time is no content
    assert cached(made(store, place)) == [True] * 4
    assert everything(Path(store.place)) == before


def test_a_change_does_only_what_follows(store: Store, place: Path) -> None:
    made(store, place)
    (place / "tool").write_text("#!/bin/sh\necho other\n")
    assert cached(made(store, place)) == [True, False, False, False]
    assert lines(store, store.images.get("made"))["etc/out"].endswith(" b'other\\n'")
    assert cached(made(store, place, RECIPE.replace("id -u", "id -g"))) == [True, True, True, False]


def test_what_was_collected_is_made_again(store: Store, place: Path) -> None:
    first = made(store, place)
    store.images.rm("made")
    collect(store, delete=True)
    again = made(store, place)
    assert cached(again) == [False] * 4
    assert again.layers[:3] == first.layers[:3]


def test_a_step_that_fails(store: Store, place: Path) -> None:
    with pytest.raises(StoreError, match="the step 'run exit 3' ended with 3; nothing of it was kept"):
        made(store, place, 'base = "base"\n[run]\ncommands = ["echo > /etc/x", "exit 3"]\n')
    assert store.images.list() == ["base"]


# One box makes these files; another finds them in the layer below. What root may do on a machine, and what not even
# root may do there; and nothing of the host comes along.
OWNED = """
base = "base"
[run]
commands = ['''
mkdir -p /own/sub; echo one > /own/f; echo two > /own/sub/g; ln /own/f /own/h
echo 'echo ran' > /own/run; chmod 700 /own/run; echo no > /own/plain; chmod 600 /own/f /own/plain
chown 42:43 /own/f /own/sub/g /own/run /own; chmod 500 /own; chown -h 7:8 /own/sub; chmod 1777 /own/sub''', '''
set -e
cat /own/f > /out; /own/run >> /out; echo three >> /own/f; rm /own/sub/g; mv /own/plain /own/sub/moved
chmod 4755 /own/run; chown 44 /own/run
! /own/sub/moved 2>/dev/null
grep CapEff /proc/self/status >> /out
! (echo husk > /proc/sys/kernel/hostname) 2>/dev/null
! (echo 1 > /proc/self/mem) 2>/dev/null
! (echo 1 > /sys/kernel/mm/ksm/run) 2>/dev/null''']
"""


@pytest.mark.both_settings
def test_steps_are_root_over_the_files_of_the_image(store: Store, place: Path) -> None:
    made(store, place, OWNED, "owned")
    found = {name: line.split(" ", 2) for name, line in lines(store, store.images.get("owned")).items()}
    # Told to user 0 alone; the host gives it none (tests/escape/test_image_blobs.py).
    told = "00000000000400ff" if setting() == "walled" else "0000000000000000"
    assert found["out"][2].endswith(f"b'one\\nran\\nCapEff:\\t{told}\\n'")
    assert found["own"][:2] == ["40500", "42:43"]
    assert found["own/f"][:2] == found["own/h"][:2] == ["100600", "42:43"]
    assert "b'one\\nthree\\n' of own/f (2)" in found["own/f"][2]
    assert found["own/run"][:2] == ["100755", "44:43"]  # giving it away took set-uid, as it does on Linux
    assert found["own/sub"][:2] == ["41777", "7:8"] and found["own/sub/moved"][1] == "0:0"
    assert "own/sub/g" not in found and "own/plain" not in found


def test_what_failed_for_want_of_network(store: Store, place: Path) -> None:
    with pytest.raises(StoreError, match=r"'apt x' ended with 127, and has no network \(the recipe may say allow-net"):
        made(store, place, 'base = "base"\n[packages]\napt = ["x"]\n')


def test_files_that_packages_need(store: Store, place: Path) -> None:
    """For example a file that says how to reach the index: `first` copies it before packages are installed."""
    (place / "apt-get").write_text("#!/bin/sh\necho apt-get $8 >> /did\n")
    (place / "apt-get").chmod(0o755)
    text = 'base = "base"\n[packages]\napt = ["x"]\n[[files]]\nfrom = "tool"\nto = "/bin/"\n'
    text += '[[files]]\nfrom = "apt-get"\nto = "/bin/"\nfirst = true\n'
    report = made(store, place, text, "x")
    titles = ["copy apt-get to /bin/", "apt x", "copy tool to /bin/"]
    assert [step["step"] for step in report.steps] == titles
    assert lines(store, store.images.get("x"))["did"].endswith("b'apt-get update\\napt-get install\\napt-get clean\\n'")


def test_from_scratch(store: Store, place: Path) -> None:
    report = made(store, place, 'base = "scratch"\n[[files]]\nfrom = "app"\nto = "/"\n', "only")
    assert set(lines(store, store.images.get("only"))) == {"", "data", "sub", "sub/link"}
    assert len(report.layers) == 1


def test_steps_see_nothing_of_the_host(store: Store, place: Path) -> None:
    """Neither the recipe's directory nor the network."""
    script = f"test ! -e {place} && test ! -e /home && ! (echo > /dev/tcp/127.0.0.1/1) 2>/dev/null"
    made(store, place, f'base = "base"\n[run]\ncommands = ["{script}"]\n', "x")


WRONG = {
    "": "say what to build upon",
    'base = "none"': "there is no image 'none'",
    'base = "host"': "the host's own programs are no image",
    "base = 3": "base must be a text",
    "base = ": "not TOML",
    'base = "base"\nbas = 1': "there is no bas; do you mean base?",
    'base = "base"\n[[files]]\nfrom = "../x"\nto = "/x"': "../x does not lie next to it",
    'base = "base"\n[[files]]\nfrom = "/etc/passwd"\nto = "/x"': "/etc/passwd does not lie next to it",
    'base = "base"\n[[files]]\nfrom = "out"\nto = "/x"': "out does not lie next to it",
    'base = "base"\n[[files]]\nfrom = "tool"\nto = "x"': "an absolute path",
    'base = "base"\n[[files]]\nfrom = "tool"\nto = "/../x"': "an absolute path",
    'base = "base"\n[[files]]\nfrom = "nothing"\nto = "/x"': "nothing does not exist",
    'base = "base"\n[[files]]\nfrom = "tool"\nto = "/x"\nfirst = 1': "files.first must be true or false",
    'base = "base"\n[packages]\ncargo = ["x"]': "there is no packages.cargo; there are apt, pip, npm",
    'base = "base"\n[run]\ncommands = "x"': "commands must be a list of texts",
    'base = "base"\n[config]\nenv = "x"': "there is no config.env",
    'base = "scratch"': "there is nothing in it",
    'base = "scratch"\n[run]\ncommands = ["x"]': "has nothing to run in",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_recipe(store: Store, place: Path, text: str) -> None:
    (place / "out").symlink_to("/etc/passwd")
    before = everything(Path(store.place))
    with pytest.raises(StoreUsageError) as caught:
        made(store, place, text, "x")
    assert WRONG[text] in str(caught.value) and caught.value.exit_code == 2
    assert everything(Path(store.place)) == before


def wheel(place: Path) -> None:
    """A wheel made by hand: pip reads it without building anything."""
    files = {
        "tiny.py": b"ANSWER = 42\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "tiny-1.0.dist-info/RECORD,,\n"
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(data)}\n"
    with zipfile.ZipFile(place / "tiny-1.0-py3-none-any.whl", "w") as archive:
        for name, data in {**files, "tiny-1.0.dist-info/RECORD": record.encode()}.items():
            archive.writestr(name, data)


def test_pip_from_a_local_wheel(store: Store, place: Path, base: Path) -> None:
    """The host's own Python and pip, in an image; no network is there, and none is needed."""
    python = "/usr/bin/python3"
    found = subprocess.run(
        [python, "-c", "import pip, sysconfig; print(sysconfig.get_path('stdlib')); print(pip.__path__[0])"],
        capture_output=True, text=True, check=False,
    ) if os.path.exists(python) else None  # fmt: skip
    if found is None or found.returncode:
        pytest.skip("/usr/bin/python3 has no pip (Debian: python3-pip)")
    root = place.parent / "python"
    shutil.copytree(base, root, symlinks=True)
    for folder in found.stdout.split():
        ignored = shutil.ignore_patterns("test", "tests", "idlelib", "*.a", "config-*", "lib2to3")
        shutil.copytree(folder, root / folder.lstrip("/"), symlinks=False, ignore=ignored)
    add_programs(root, python)
    import_image(store, str(root), "python")
    wheel(place)
    text = 'base = "python"\n[env]\nPIP_BREAK_SYSTEM_PACKAGES = "1"\n'
    text += '[packages]\npip = ["./tiny-1.0-py3-none-any.whl"]\n'
    text += '[run]\ncommands = ["python3 -c \'import tiny; print(tiny.ANSWER)\' > /answer"]\n'
    assert cached(made(store, place, text, "with-tiny")) == [False, False]
    assert lines(store, store.images.get("with-tiny"))["answer"].endswith("b'42\\n'")
    assert cached(made(store, place, text, "with-tiny")) == [True, True]
