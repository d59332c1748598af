"""What people install: the installed husk and forged wheels are held against the source tree, the release workflow
against the Makefile. Builds nothing: `make wheels`, `make sdist` and `make deb` do."""

from __future__ import annotations

import re
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import husk
from release.wheel_contents import CORE, METADATA, STATIC, expected_files, faults, installed_faults, is_static, version

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
RELEASE = f"huskbox-{version()}"
NAME = f"{RELEASE}-cp311-abi3-manylinux_2_34_x86_64.whl"
ELF = b"\x7fELF\x02" + bytes(27) + (64).to_bytes(8, "little") + bytes(14) + b"\x38\x00\x01\x00" + bytes(6)


def program(kind: int) -> bytes:
    """An ELF file with one program header."""
    return ELF + kind.to_bytes(4, "little") + bytes(52)


def forge(place: Path, change: dict[str, bytes | None], *, name: str = NAME, mode: int = 0o755) -> Path:
    """A wheel as it should be, but for `change`: None leaves a file out."""
    head = f"Metadata-Version: 2.4\nName: huskbox\nVersion: {version()}\nRequires-Python: >=3.11\n\nhusk\n"
    content: dict[str, bytes | None] = {
        **dict.fromkeys(expected_files(), b""),
        **{each: program(1) for each in STATIC},
        **{f"{RELEASE}.dist-info/{each}": head.encode() for each in METADATA},
        f"{RELEASE}.data/scripts/husk": program(1),
        f"{RELEASE}.data/scripts/husk-python": b"#!python\n",
        **change,
    }
    with zipfile.ZipFile(place / name, "w") as archive:
        for each, data in content.items():
            if data is not None:
                info = zipfile.ZipInfo(each)
                info.external_attr = mode << 16
                archive.writestr(info, data)
    return place / name


def test_the_build_installs_what_the_source_tree_holds_and_nothing_else() -> None:
    site = Path(husk.__file__).resolve().parents[1]
    if site == ROOT / "src":
        pytest.skip("husk runs from the source tree")
    assert installed_faults(site) == []
    (wheel,) = site.glob("huskbox-*.dist-info/WHEEL")
    assert "Tag: cp311-abi3-linux_x86_64" in wheel.read_text()
    assert not (site / CORE).with_name(f"_core{sysconfig.get_config_var('EXT_SUFFIX')}").exists()


def test_a_whole_wheel_has_no_faults(tmp_path: Path) -> None:
    assert faults(forge(tmp_path, {})) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({STATIC[0]: None}, "husk/native/husk-init is missing."),
        ({STATIC[1]: program(3)}, "husk/native/husk-loader is not a static program."),
        ({"husk/cli/__init__.py": None}, "husk/cli/__init__.py is missing."),
        ({"tests/test_x.py": b""}, "tests/test_x.py does not belong there."),
        ({"huskbox.libs/libz.so.1": b""}, "huskbox.libs/libz.so.1 does not belong there."),
        ({f"{RELEASE}.dist-info/METADATA": b"Name: husk\n\n"}, "METADATA does not say 'Name: huskbox'."),
    ],
)
def test_a_wrong_wheel_is_told(tmp_path: Path, change: dict[str, bytes | None], fault: str) -> None:
    assert fault in faults(forge(tmp_path, change))


def test_helpers_that_cannot_be_executed_and_other_tags_are_told(tmp_path: Path) -> None:
    assert f"{STATIC[0]} is not executable." in faults(forge(tmp_path, {}, mode=0o644))
    assert any("stable ABI" in each for each in faults(forge(tmp_path, {}, name=NAME.replace("abi3", "cp311"))))
    assert not is_static(b"") and not is_static(b"#!/bin/sh\n" * 20)


@pytest.mark.parametrize(("lock", "extra"), [("runtime", ""), ("package", "package"), ("dev", "dev")])
def test_a_lock_has_what_pyproject_asks_for(lock: str, extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + (project["optional-dependencies"][extra] if extra else [])
    names = {re.split(r"[ \[<>=~]", each)[0].lower() for each in asked} - {"huskbox"}
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / f"{lock}.lock").read_text(), re.M))
    assert names - locked == set(), "run `make lock`"


def test_the_release_is_made_from_a_tag_by_the_targets_of_the_makefile() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert list(workflow[True]) == ["push"] and list(workflow[True]["push"]) == ["tags"]  # YAML reads `on` as true
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    targets = {target for step in steps for target in re.findall(r"\bmake ([a-z]\S*)", step.get("run", ""))}
    assert targets >= {"sdist", "wheels", "deb"}
    made = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.M)
    assert targets - {"gcc"} <= {*made}


def test_only_the_job_that_runs_no_code_of_ours_may_publish() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    assert "attestations" in jobs["build"]["permissions"] and "environment" not in jobs["build"]
    publish = jobs["publish"]
    assert publish["environment"] == "pypi" and publish["permissions"] == {"id-token": "write"}
    assert not any("checkout" in step.get("uses", "") for step in publish["steps"])
    assert "secrets." not in WORKFLOW.read_text()
