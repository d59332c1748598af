"""What a run tells the person outside: --events, --json, --summary, -v. Refusals come with a reason and a way out."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lib.harness import NATIVE_ONLY
from tests.lib.running import Result, husk, scratch, setting

pytestmark = [
    pytest.mark.both_settings,
    pytest.mark.skipif(NATIVE_ONLY, reason="HUSK_GUEST_NATIVE=1: only the native side is asked for"),
]

# Reads one file, writes one, tries to write to the read-only mount, and asks for a host file that is not mounted.
SCRIPT = "cat /in/a; echo err >&2; echo new >made; echo no >/in/b; cat {outside}; exit 3"


@pytest.fixture
def place() -> Iterator[Path]:
    with scratch() as place:
        (place / "in").mkdir()
        (place / "in" / "a").write_text("text of a\n")
        yield place


@pytest.fixture
def outside(place: Path) -> Iterator[Path]:
    """A file of the host that no default of husk shows; not in /tmp, where the box has names of its own."""
    for root in ("/var/tmp", "/var/lib", "/srv", "/root"):
        path = Path(root, f"husk-{place.name}")
        try:
            path.write_text("outside\n")
        except OSError:
            continue
        try:
            yield path
        finally:
            path.unlink()
        return
    pytest.skip("no place outside the image where this user can write")


def run(place: Path, script: str, *options: str) -> Result:
    return husk(["run", "--mount", f"{place}/in:/in:ro", *options, "--", "/bin/sh", "-c", script])


def events_of(place: Path, script: str) -> list[dict[str, Any]]:
    run(place, script, "--events", str(place / "events"))
    lines = (place / "events").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert all(isinstance(event, dict) and event["event"] for event in found)
    return found


def refusals_of(found: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [event for event in found if event["event"] == "refused" and event["what"] == what]


def test_events_are_json_lines(place: Path, outside: Path) -> None:
    found = events_of(place, SCRIPT.format(outside=outside))
    kinds = {event["event"] for event in found}
    assert kinds >= {"exec", "open", "refused"}
    assert "fault" not in kinds
    programs = [event["program"] for event in found if event["event"] == "exec"]
    assert programs[0].endswith("/dash") and programs[1].endswith("/cat")
    opened = {event["path"]: event["flags"] for event in found if event["event"] == "open"}
    assert opened["/in/a"].startswith("O_RDONLY")
    assert {"O_WRONLY", "O_CREAT", "O_TRUNC"} <= set(opened["/workspace/made"].split("|"))
    for event in found:
        if event["event"] == "refused":
            assert event["call"] and event["errno"] and event["reason"], event
        elif event["event"] not in ("begin", "end"):
            assert event["pid"] > 0
    assert [event["argv"] for event in found if event["event"] == "exec"][1] == ["cat", "/in/a"]
    assert [event["event"] for event in found].count("begin") == 1 and found[0]["format"] == 1
    assert (found[-1]["event"], found[-1]["exit_code"], set(found[-1]["lost"].values())) == ("end", 3, {0})
    times = [event["time"] for event in found]
    assert abs(times[0] - time.time()) < 600 and times[0] <= times[-1]


def test_refusal_of_a_read_only_mount(place: Path) -> None:
    changes = {
        "creating": "echo x >/in/new",
        "writing": "echo x >>/in/a",
        "removing": "rm -f /in/a",
        "renaming": "mv /in/a /in/b",
        "a directory": "mkdir /in/a-directory",
        "a link": "ln -s a /in/a-link",
        "the mode": "chmod 600 /in/a",
        "the time": "touch -d 2001-01-01 /in/a",
    }
    for label, script in changes.items():
        refused = [event for event in events_of(place, script) if event.get("errno") == "EROFS"]
        assert refused, f"{label}: no refusal"
        for event in refused:
            assert event["what"].startswith("/in/"), event
            assert "read-only" in event["reason"]
            assert ":rw" in event["allow"] and ":cow" in event["allow"]
    assert (place / "in" / "a").read_text() == "text of a\n"
    assert [path.name for path in (place / "in").iterdir()] == ["a"]


def test_refusal_names_the_mount_and_the_mount_works(place: Path, outside: Path) -> None:
    refused = refusals_of(events_of(place, f"cat {outside}"), str(outside))
    assert [event["errno"] for event in refused] == ["ENOENT"]
    advice = shlex.split(refused[0]["allow"])
    assert advice[0] == "--mount"
    followed = run(place, f"cat {outside}", *advice)
    assert (followed.status, followed.out, followed.err) == (0, "outside\n", "")


def test_what_the_host_has_not_either_is_no_refusal(place: Path) -> None:
    found = events_of(place, "cat /nowhere/at/all; ls /workspace/none; cat /tmp/none; cat /in/none; test -e /usr/none")
    assert not [event for event in found if event["event"] == "refused"]


def test_refused_call(place: Path) -> None:
    code = "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"
    found = events_of(place, f"/usr/bin/python3 -c '{code}'")
    refused = [event for event in found if event["event"] == "refused"]
    assert [(event["call"], event["errno"]) for event in refused] == [("socket", "EAFNOSUPPORT")]
    assert len(refused[0]["reason"]) > 20


def test_the_same_refusal_is_told_once(place: Path) -> None:
    found = events_of(place, "for i in 1 2 3 4 5; do echo x >/in/new; done")
    assert len(refusals_of(found, "/in/new")) == 1


def test_odd_names_in_events(place: Path) -> None:
    found = events_of(place, "cat '/in/new\nline \"quoted\" \\' /in/\xff; printf x >\"$(printf 'bad\\377')\"")
    assert any(event.get("path", "").startswith("/workspace/bad") for event in found)


def test_json_result(place: Path, outside: Path) -> None:
    result = run(place, SCRIPT.format(outside=outside), "--json")
    assert result.status == 3
    said = json.loads(result.out)
    assert said["exit_code"] == 3
    assert said["stdout"] == "text of a\n"
    assert said["stderr"].startswith("err\n")
    assert said["changes"] == [{"change": "added", "path": "/workspace/made"}]
    assert {item["what"] for item in said["refusals"]} == {"/in/b", str(outside)}
    assert said["timed_out"] is False and said["signal"] == 0 and said["faults"] == []
    assert result.err == ""


@pytest.mark.parametrize(
    ("script", "options", "expected"),
    [
        ("kill -9 $$", [], {"exit_code": 137, "signal": 9, "timed_out": False}),
        ("sleep 60", ["--timeout", "0.5"], {"exit_code": 124, "timed_out": True}),
        ("printf 'a\\377b'; printf '\\0' >&2", [], {"exit_code": 0, "stdout": "a\\xffb", "stderr": "\0"}),
        ("head -c 3000000 /dev/zero | tr '\\0' x", [], {"exit_code": 0, "stdout": "x" * 3_000_000}),
    ],
)
def test_json_result_of_other_ends(place: Path, script: str, options: list[str], expected: dict[str, Any]) -> None:
    result = run(place, script, "--json", *options)
    said = json.loads(result.out)
    assert {name: said[name] for name in expected} == expected
    assert result.status == expected["exit_code"]


def test_changes(place: Path) -> None:
    """Everything below the layers that is different after the run, and no change that the run undid."""
    for name in ("removed", "written", "mode", "untouched"):
        (place / "in" / name).write_text("before\n")
    script = """
        echo >new; mv new newer; mkdir d; echo >d/f; echo >gone; rm gone; cd /copy
        rm removed; echo after >written; chmod 600 mode; cat untouched; mv a moved
    """
    said = json.loads(run(place, script, "--json", "--mount", f"{place}/in:/copy:cow").out)
    changes = {item["path"]: item["change"] for item in said["changes"]}
    assert changes.pop("/workspace/newer") == "added"
    assert changes.pop("/workspace/d") == "added"
    assert changes.pop("/workspace/d/f", "added") == "added"
    expected = {"removed": "deleted", "written": "changed", "mode": "changed", "a": "deleted", "moved": "added"}
    assert changes == {f"/copy/{name}": change for name, change in expected.items()}
    assert (place / "in" / "written").read_text() == "before\n"


def test_summary(place: Path, outside: Path) -> None:
    result = run(place, SCRIPT.format(outside=outside), "--summary")
    assert (result.status, result.out) == (3, "text of a\n")
    assert result.err.startswith("err\n")
    summary = result.err.partition("husk: ")[2]
    assert summary.startswith("exit code 3 after ")
    for words in ("/in/a\n", "/workspace/made (added)\n", "/in/b: it is mounted read-only", f"--mount {outside}:"):
        assert words in summary, f"{words!r} is not in {summary}"


def test_verbose(place: Path) -> None:
    result = run(place, "cat /in/a /in/none; exit 0", "-v")
    assert (result.status, result.out) == (0, "text of a\n")
    # The guest's own stderr is mixed in, even within a line: cat writes its message in pieces, and a line of husk may
    # begin after one of them.
    lines = re.findall(r"husk: \[.*", result.err)
    assert [line for line in lines if 'openat(AT_FDCWD, "/in/a"' in line and line.endswith("= fd")]
    assert [line for line in lines if '"/in/none"' in line and "= -1 ENOENT" in line]
    assert all(" = " in line for line in lines)


def test_events_file_not_to_be_had(place: Path) -> None:
    result = run(place, "true", "--events", "/nowhere/at/all/events")
    assert result.status == 2
    assert result.err.count("\n") == 1 and "/nowhere/at/all/events" in result.err


def test_walls_of_the_setting(place: Path) -> None:
    """The bare setting of these tests really has no namespaces."""
    walls = json.loads(run(place, "true", "--json").out)["walls"]
    if setting() == "bare":
        assert not any(walls[name] for name in ("user", "mount", "pid", "net", "ipc")), walls


CHANGING = """
    cd /out; rm gone; mv old new; mkdir d; echo x >d/f; mv d e; chmod 600 mode; ln mode twin; ln -s mode link
    echo more >>appended; : >>untouched; truncate -s 1 cut; echo t >t; mv t replaced; echo came >went; rm went
    mkdir -p deep/er; rm -r tree; touch -d 2001-01-01 dated; mv moved was; echo in >was/in
    chmod 600 mode; : >>mode; : >empty; : >>empty
"""
CHANGED = {
    "appended": "changed", "cut": "changed", "dated": "changed", "deep": "added", "deep/er": "added", "e": "added",
    "e/f": "added", "empty": "added", "gone": "deleted", "link": "added", "mode": "metadata", "moved": "deleted",
    "new": "added", "old": "deleted", "replaced": "changed", "tree": "deleted", "twin": "added",
    "was": "added", "was/in": "added",
}  # fmt: skip


def changing(place: Path) -> Path:
    out = place / "out"
    out.mkdir()
    for name in ("gone", "old", "mode", "appended", "untouched", "cut", "replaced", "dated"):
        (out / name).write_text("before\n")
    for name in ("tree", "moved"):
        (out / name).mkdir()
        (out / name / "inner").write_text("before\n")
    place.chmod(0o755)
    for path in (out, *out.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return out


@pytest.mark.parametrize("watched", [[], ["--summary"], ["-v"]])
def test_changes_of_the_host(place: Path, watched: list[str]) -> None:
    """Every change by name is told, below `rw` mounts, too, whether or not the run is watched."""
    result = run(place, CHANGING, "--json", *watched, "--mount", f"{changing(place)}:/out:rw")
    assert result.status == 0, result.err
    said = json.loads(result.out)
    assert {item["path"].removeprefix("/out/"): item["change"] for item in said["host_changes"]} == CHANGED
    assert said["changes"] == []
    if "--summary" in watched:
        assert "changed on the host:\n    /out/appended (changed)\n" in result.err


def test_changes_as_events(place: Path) -> None:
    out = changing(place)
    script = "cd /out; rm gone; mv old new; mkdir d; chmod 700 d; ln -s a link; : >cut; rmdir d"
    run(place, script, "--events", str(place / "events"), "--mount", f"{out}:/out:rw")
    found = [json.loads(line) for line in (place / "events").read_text().splitlines()]
    changes = [[event[key] for key in ("change", "path", "to") if key in event]
               for event in found if event["event"] == "change"]  # fmt: skip
    assert changes == [
        ["deleted", "/out/gone"], ["renamed", "/out/old", "/out/new"], ["added", "/out/d"], ["metadata", "/out/d"],
        ["added", "/out/link"], ["changed", "/out/cut"], ["deleted", "/out/d"],
    ]  # fmt: skip


def test_addresses_as_events(place: Path) -> None:
    code = "import socket as s; u = s.socket(s.AF_UNIX); u.bind('there'); s.socket(s.AF_UNIX).connect_ex('none')"
    found = events_of(place, f'/usr/bin/python3 -c "{code}"')
    addresses = [(event["call"], event["address"], event["errno"]) for event in found if event["event"] == "address"]
    assert addresses == [("bind", "unix:there", ""), ("connect", "unix:none", "ENOENT")]


def test_a_log_that_cannot_be_written_is_no_success(place: Path) -> None:
    result = run(place, "true", "--events", "/dev/full")
    assert result.status == 125
    assert result.err == "husk: --events /dev/full is not complete: No space left on device.\n"
    assert run(place, "exit 3", "--events", "/dev/full").status == 3


def test_a_program_that_fails_after_a_refusal_is_explained(place: Path, outside: Path) -> None:
    """One line, in a plain run; of all refusals the one that most likely matters."""
    said = run(place, f"cat {outside} 2>/dev/null || exit 3")
    assert said.status == 3
    assert said.err == (
        f"husk: refused: {outside}: nothing is mounted there; to allow it, --mount {outside}:{outside}:ro\n"
    )
    said = run(place, f"{{ echo >/in/b; cat {outside}; }} 2>/dev/null; exit 3")
    assert said.err.startswith("husk: refused: /in/b: it is mounted read-only; to allow it, mount it with :rw")
    assert said.err.endswith(" (1 more refusal: --summary)\n") and said.err.count("\n") == 1
    assert run(place, f"cat {outside} 2>/dev/null; exit 3", "--quiet").err == ""
    assert run(place, f"cat {outside} 2>/dev/null; exit 0").err == ""
    assert run(place, "exit 3").err == ""
