"""Profiles: files of options, what they mean to `husk run`, trust in a project's file, and what the user's forbids."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from husk.cli import main as husk
from husk.cli.profiles.find_profile import settings
from husk.cli.profiles.profile_schema import schema
from husk.cli.run_policy import RunOptions
from husk.sandbox.errors import UsageError
from husk.sandbox.kept.record import Record

FIRST = 'format = 1\n[profile.default]\nmount = [".:/workspace:cow"]\nenv = { A = "b" }\ntimeout = 7\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project = tmp_path / "project"
    (project / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(project)
    return project


def write(place: Path, text: str, *, trusted: bool = True) -> None:
    (place / "husk.toml").write_text(text)
    if trusted:
        assert husk(["trust", "--yes", "--json"]) == 0


def own(place: Path, text: str) -> None:
    folder = place.parent / "config" / "husk"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def test_options_of_a_profile(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, FIRST)
    monkeypatch.chdir(place / "deep" / "er")  # the nearest file above counts, and its paths are relative to it
    policy = RunOptions(["--env", "C=d", "--timeout", "3", "--", "true"]).policy
    assert [str(mount) for mount in policy.mounts] == [f"{place}:/workspace:cow"]
    assert policy.env == {"A": "b", "C": "d"} and policy.timeout == 3
    assert RunOptions(["--profile", "none", "--", "true"]).policy.mounts == []


def test_a_profile_by_name(place: Path) -> None:
    write(place, f'{FIRST}[profile.net]\nallow-net = ["a.example:443"]\nno-namespaces = true\n')
    own(place, 'format = 1\n[profile.mine]\nlimit = { memory = "1G" }\n')
    policy = RunOptions(["--profile", "net", "true"]).policy
    assert policy.allow_net == ["a.example:443"] and not policy.namespaces and not policy.mounts
    assert RunOptions(["--profile", "mine", "true"]).policy.limits["memory"] == 1 << 30
    with pytest.raises(UsageError, match="there are default, mine, net"):
        RunOptions(["--profile", "other", "true"])


def test_a_project_is_obeyed_only_when_trusted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(place, FIRST, trusted=False)
    assert RunOptions(["true"]).policy.mounts == []
    assert f"{place}/husk.toml is not trusted; read it, then `husk trust`" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is not trusted"):
        RunOptions(["--profile", "default", "true"])
    assert husk(["trust"]) == 2  # no terminal to ask at
    assert husk(["trust", "--yes"]) == 0
    assert f"mount = {place}:/workspace:cow" in capsys.readouterr().out
    assert RunOptions(["true"]).policy.mounts
    write(place, f"{FIRST}# changed\n", trusted=False)
    assert RunOptions(["true"]).policy.mounts == []
    assert "has changed since you trusted it" in capsys.readouterr().err


def test_an_untrusted_file_is_not_even_parsed(place: Path) -> None:
    write(place, "this is = = no TOML", trusted=False)
    assert RunOptions(["true"]).policy.mounts == []


def test_trust_is_of_a_place_and_can_be_revoked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(place, FIRST)
    (place / "deep" / "husk.toml").write_text(FIRST)
    os.chdir(place / "deep")
    assert RunOptions(["true"]).policy.mounts == []
    os.chdir(place)
    capsys.readouterr()
    assert husk(["trust", "--list", "--json"]) == 0
    assert [one["file"] for one in json.loads(capsys.readouterr().out)["trusted"]] == [f"{place}/husk.toml"]
    assert husk(["trust", "--revoke"]) == 0
    assert RunOptions(["true"]).policy.mounts == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[profile.default]\n", "husk.toml: `format = 1` must stand at its top"),
        ("format = 1\n[profile.default]\nmoutn = []\n", "husk.toml:3: there is no moutn; did you mean mount?"),
        ("format = 1\n[profile.default]\n\nmount = 'x'\n", "husk.toml:4: --mount"),
        ("format = 1\n[profile.default]\nmount = [1, true]\n", "husk.toml:3: mount must be a list of texts"),
        ("format = 1\n[profile.default]\nno-namespaces = 'yes'\n", "husk.toml:3: no-namespaces must be true or false"),
        ("format = 1\n[profile.default]\nprofile = 'x'\n", "husk.toml:3: there is no profile"),
        ("format = 1\n[profile.default\n", "at line 2"),
        ("format = 1\n[profile.a]\ntimeout = 1\n[profile.default]\ntimeout = 'x'\n", "husk.toml:5: --timeout x"),
    ],
)
def test_mistakes_have_a_line(place: Path, text: str, said: str) -> None:
    from husk.cli.profiles.profile_file import read_content
    from husk.cli.profiles.trust import trust

    (place / "husk.toml").write_text(text)
    trust(f"{place}/husk.toml", read_content(f"{place}/husk.toml"))
    with pytest.raises(UsageError) as error:
        RunOptions(["true"])
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("forbids", "wants", "said"),
    [
        ('mount = "cow"', 'mount = [".:/w:rw"]', "gives projects cow mounts at most"),
        ("outside = false", 'mount = ["..:/w:ro"]', "keeps projects to their own directory"),
        ("outside = false", 'env-file = "../secrets.env"', "keeps projects to their own directory"),
        ("outside = false", 'inject = ["https://a.example X-Key: {file:~/.key}"]', "keeps projects to their own"),
        ('hide = ["*.pem"]', 'allow = ["**"]', "could lift what your own file hides"),
        ('allow-net = ["*.example"]', 'allow-net = ["a.other:443"]', "does not give projects this host"),
        ('allow-net = ["*.example"]', 'net = "host"', "gives projects some hosts only"),
        ('allow-net = ["*.example"]', 'allow-http = ["GET https://a.other/x"]', "does not give projects this host"),
        ('forbid = ["inject"]', 'inject = ["https://a.example X-Key: {KEY}"]', "forbids inject to projects"),
        ('forbid = ["publish"]', 'publish = ["80:80"]', "forbids publish to projects"),
    ],
)
def test_a_project_does_not_widen_what_the_user_forbids(place: Path, forbids: str, wants: str, said: str) -> None:
    own(place, f"format = 1\n[projects]\n{forbids}\n")
    write(place, f"format = 1\n[profile.default]\n{wants}\n")
    with pytest.raises(UsageError, match=f"husk.toml:3: .*{said}"):
        settings("", f"{place}/husk.toml")
    own(place, "format = 1\n")
    assert len(settings("", f"{place}/husk.toml")) == 1


@pytest.mark.parametrize(
    ("forbids", "said"), [('mount = "ro"', "gives projects ro mounts"), ("outside = false", "to their own directory")]
)
def test_a_kept_box_does_not_widen_it_either(
    place: Path, forbids: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It brings the mounts that it was kept with."""
    monkeypatch.setenv("HUSK_STATE", str(place.parent / "state"))
    box = place.parent / "state" / "kept" / "theirs"
    box.mkdir(parents=True)
    (place.parent / "state").chmod(0o700)
    record = Record("theirs")
    record.mounts = [[str(place.parent), "/theirs", "cow"]]
    (box / "record").write_bytes(record.dump())
    own(place, f"format = 1\n[projects]\n{forbids}\n")
    write(place, 'format = 1\n[profile.default]\nkeep = "theirs"\n[profile.new]\nkeep = "new"\n')
    with pytest.raises(UsageError, match=f"husk.toml:3: .*the box has {place.parent} .*{said}"):
        settings("", f"{place}/husk.toml")
    assert len(settings("new", f"{place}/husk.toml")) == 1


def test_rules_of_the_user_are_added_to_every_project(place: Path) -> None:
    own(place, 'format = 1\n[projects]\nhide = ["*.pem"]\nallow-net = ["*.example"]\n')
    write(place, 'format = 1\n[profile.default]\nallow-net = ["a.example:443"]\n')
    found = settings("", f"{place}/husk.toml")
    assert [str(setting) for _, setting in found] == ["allow-net = a.example:443", "hide = *.pem"]


@pytest.mark.parametrize(
    "wants",
    [
        'mount = ["data:/data:rw"]',
        'env-file = "data"',
        'inject = ["https://a.example X-Key: {base64:file:data}"]',
    ],
)
def test_a_link_does_not_lead_a_project_elsewhere(place: Path, wants: str) -> None:
    """A guest that may write to the project can put it in the place of what a trusted profile names."""
    (place.parent / "elsewhere").mkdir()
    (place / "data").mkdir()
    write(place, f"format = 1\n[profile.default]\n{wants}\n")
    assert len(settings("", f"{place}/husk.toml")) == 1
    (place / "data").rmdir()
    (place / "data").symlink_to(place.parent / "elsewhere")
    with pytest.raises(UsageError, match=r"husk.toml:3: .*a symbolic link leads to .*/elsewhere"):
        settings("", f"{place}/husk.toml")


def test_what_others_leave_above_does_not_hold_up_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(place / "husk.toml")
    assert RunOptions(["true"]).policy.mounts == []
    assert "not a regular file" in capsys.readouterr().err
    (place / "husk.toml").unlink()
    (place / "husk.toml").write_bytes(b"#" * (2 << 20))
    assert RunOptions(["true"]).policy.mounts == []
    with pytest.raises(UsageError, match="larger than"):
        RunOptions(["--profile", "default", "true"])


def test_init_trusts_what_it_wrote(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def replaced_at_once(new: str, path: str) -> None:
        replace(new, path)
        if path.endswith("husk.toml"):
            Path(path).write_text(FIRST)

    monkeypatch.setattr(os, "replace", replaced_at_once)
    assert husk(["init"]) == 0
    assert RunOptions(["true"]).policy.timeout is None  # of what another process put there nothing is obeyed


def test_init(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "package.json").write_text("{}")
    assert husk(["init"]) == 0
    assert "has the profiles default, install" in capsys.readouterr().out
    assert [str(mount) for mount in RunOptions(["true"]).policy.mounts] == [f"{place}:/workspace:cow"]
    assert RunOptions(["--profile", "install", "true"]).policy.allow_net == ["registry.npmjs.org:443"]
    assert husk(["init"]) == 2 and "is there already" in capsys.readouterr().err
    assert husk(["init", "--force"]) == 0


def test_the_schema_knows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert husk(["init", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()
    options = schema()["properties"]["profile"]["additionalProperties"]["properties"]
    assert options["mount"]["anyOf"] and options["no-namespaces"] == {
        "type": "boolean", "description": "do without namespaces even where the host gives them",
    }  # fmt: skip


def test_an_env_file(place: Path) -> None:
    (place / ".env").write_text("# a comment\n\nexport A=1\nB = 'two words'\nC=x=y\n")
    write(place, 'format = 1\n[profile.default]\nenv-file = ".env"\n')
    assert RunOptions(["true"]).policy.env == {"A": "1", "B": "two words", "C": "x=y"}
    (place / ".env").write_text("nonsense\n")
    with pytest.raises(UsageError, match=r"line 1 is not NAME=VALUE"):
        RunOptions(["--profile", "none", "--env-file", ".env", "true"])


def test_a_link_to_a_trusted_file_is_not_trusted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that may write to one project must not give it the mounts of another."""
    other = place.parent / "other"
    other.mkdir()
    (other / "husk.toml").write_text('format = 1\n[profile.default]\nmount = ["/etc:/etc2:ro", ".:/workspace:cow"]\n')
    assert husk(["trust", "--yes", "--json", str(other)]) == 0
    (place / "husk.toml").symlink_to(other / "husk.toml")
    capsys.readouterr()
    assert RunOptions(["true"]).policy.mounts == []
    assert f"{place}/husk.toml is not trusted" in capsys.readouterr().err
    # If the person trusts the link, it is this project's file: its paths begin here.
    assert husk(["trust", "--yes", "--json"]) == 0
    assert [mount.source for mount in RunOptions(["true"]).policy.mounts] == ["/etc", str(place)]
    assert husk(["trust", "--revoke", "--json"]) == 0
    assert RunOptions(["true"]).policy.mounts == []


@pytest.mark.parametrize("store", [".store", "deep/store", "../shared/store"])
def test_no_store_where_programs_write(place: Path, store: str) -> None:
    (place.parent / "shared").mkdir()
    write(place, f'format = 1\n[profile.default]\nmount = ["../shared:/s:rw"]\nimage = "x"\nstore = "{store}"\n')
    with pytest.raises(UsageError, match=r"husk.toml:5: store = .*: programs of the project could write to it"):
        RunOptions(["true"])
    write(place, 'format = 1\n[profile.default]\nmount = ["../shared:/s:ro"]\nstore = "../shared/store"\n')
    assert RunOptions(["true"]).policy.store


def test_a_run_starts_where_it_is_started(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, f'{FIRST}workdir = "/workspace"\n[profile.fixed]\nmount = [".:/p:cow"]\nworkdir = "/tmp"\n')
    assert RunOptions(["true"]).policy.workdir == "/workspace"
    monkeypatch.chdir(place / "deep" / "er")
    assert RunOptions(["true"]).policy.workdir == "/workspace/deep/er"
    assert RunOptions(["--workdir", "/home", "true"]).policy.workdir == "/home"
    assert RunOptions(["--profile", "fixed", "true"]).policy.workdir == "/tmp"


def test_the_box_of_a_project_needs_no_name(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUSK_STATE", str(place.parent / "state"))
    assert husk(["diff"]) == 2
    assert "NAME is missing, and no profile keeps a box here" in capsys.readouterr().err
    write(place, f'{FIRST}keep = "counting"\n')
    for command in ("diff", "apply", "log"):
        assert husk([command]) == 2
        assert "there is no box 'counting'" in capsys.readouterr().err
