"""husk.profile: what husk.toml says, for Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import husk
from husk.cli.profiles.profile_file import KEYS
from husk.cli.profiles.python_options import ONLY_RUN, TAKEN
from husk.cli.profiles.trust import trust

TEXT = """format = 1
[profile.default]
mount = [".:/workspace:cow"]
workdir = "/workspace"
env = { GREETING = "hi" }
env-file = ["more.env"]
limit = { memory = "1G" }
timeout = 60
no-default-rules = true
[profile.open]
allow-net = ["example.org:443"]
deny-net = ["example.org:80"]
[profile.other]
as = "gvisor"
[profile.wrong]
mount = ["nowhere:/m"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "project"
    (place / "below").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (place / "husk.toml").write_text(TEXT)
    (place / "more.env").write_text("MORE=yes\n")
    (place / "greet").write_text('echo "$GREETING $MORE"; echo changed > greet\n')
    return place


def test_a_profile_as_arguments(project: Path) -> None:
    with pytest.raises(husk.UsageError, match="is not trusted; read it, then `husk trust`"):
        husk.profile(directory=project)
    trust(str(project / "husk.toml"), TEXT.encode())
    found = husk.profile(directory=project / "below")  # of the directory above
    assert found == {
        "mounts": [f"{project}:/workspace:cow"], "cwd": "/workspace", "env": {"GREETING": "hi", "MORE": "yes"},
        "limits": {"memory": "1G", "time": "60s"}, "default_rules": False,
    }  # fmt: skip
    done = husk.run(["sh", "greet"], capture_output=True, text=True, **found)
    assert done.stdout == "hi yes\n" and (project / "greet").read_text().startswith("echo")
    opened = husk.profile("open", project)
    assert opened == {"net": ["example.org:443"], "deny_net": ["example.org:80"]}
    with husk.Sandbox(**opened) as box:
        assert box.run(["true"]).returncode == 0


def test_every_key_of_a_profile_is_known() -> None:
    assert set(KEYS) == TAKEN | set(ONLY_RUN)


def test_mistakes_have_their_line(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust(str(project / "husk.toml"), TEXT.encode())
    monkeypatch.chdir(project)
    with pytest.raises(husk.UsageError, match=r"husk.toml:14: as: only husk run knows it"):
        husk.profile("other")
    with pytest.raises(husk.UsageError, match=r"^profile='missing': no such profile; there are default, open"):
        husk.profile("missing")
    with pytest.raises(husk.UsageError, match=r"mounts=\['.*nowhere'\]: there is no such file"):
        husk.run(["true"], **husk.profile("wrong"))
