"""husk-probe: every call has a check, a plain Linux passes them, and in a box they find what the registry says.

The probe runs three times: natively as an unprivileged user, in a walled box and in a bare one. Row by row, the results
in a box must be what `Row.verdict` claims for the registers of the call; a contradicted claim fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from errno import errorcode
from pathlib import Path

import pytest

from husk.abi.registry import ROWS, by_name
from husk.abi.registry.rules import Verdict
from husk.cli.compat.cmd_probe import main
from husk.compat.probe.measured import contradicted, measured_surface
from husk.compat.probe.probe_lines import HANG, SKIPPED, WORKS, Check, Head, Result, read_head, read_result
from husk.compat.probe.run_probe import PROGRAM, Measurement, list_checks, run_probe, show_program
from husk.compat.runtimes import find, names
from husk.compat.runtimes.differences import differences
from husk.compat.surface import FULL, MISSING, PARTIAL, UNKNOWN, read_surface
from husk.compat.surface_writer import write_surface
from husk.sandbox.errors import HuskError, UsageError
from husk.walls.namespaces import walls_here
from tests.compat.probe_accepted import GVISOR, GVISOR_PROFILE, IN_HUSK, NATIVE, NOT_SHOWN, Accepted
from tests.lib import running

NOBODY = 65534
ERRNO = {**errorcode, 95: "EOPNOTSUPP"}
CHECKS = list_checks()


def parsed(text: str) -> dict[Check, Result]:
    lines = text.splitlines()
    head = read_head(lines[0])
    assert head is not None
    results = {result.check: result for line in lines if (result := read_result(line))}
    assert len(results) == head.checks == len(CHECKS), text
    return results


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory of the unprivileged user, with the program in it."""
    with running.scratch() as folder:
        shutil.copy(PROGRAM, folder / "husk-probe")
        work = folder / "work"
        work.mkdir(mode=0o755)
        if os.geteuid() == 0:
            os.chown(work, NOBODY, NOBODY)
        yield folder


@pytest.fixture(scope="module")
def native(place: Path) -> dict[Check, Result]:
    """As an ordinary user: what a guest can be compared with."""
    drop = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [place / "husk-probe"],
        env={"TMPDIR": str(place / "work")},
        cwd="/",
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
        **drop,  # type: ignore[call-overload]
    )
    assert list((place / "work").iterdir()) == [], "the probe left files"
    return parsed(done.stdout.decode())


# -- the checks themselves ---------------------------------------------------------------------------------------------
def test_every_call_has_a_check() -> None:
    assert sorted({row.name for row in ROWS.values()} - {check.call for check in CHECKS}) == []


def test_every_check_is_about_a_call_or_a_path() -> None:
    assert [check for check in CHECKS if not check.is_path and by_name(check.call) is None] == []
    assert [check for check, count in Counter(CHECKS).items() if count > 1] == []


def test_the_values_that_cases_name_are_known() -> None:
    """Every `argument=VALUE` is an argument of the row and a value that has a name, or a number."""
    named = [check for check in CHECKS if re.match(r"\w+=", check.case)]
    assert len(named) > 100
    assert [check for check in named if not check.tests] == []


def test_the_registers_carry_the_values_that_cases_name(native: dict[Check, Result]) -> None:
    wrong = [
        (check, result.registers)
        for check, result in native.items()
        if result.registers and not all(test.holds(result.registers, None) for test in check.tests)
    ]
    assert wrong == []


def registers(result: Result) -> tuple[int, ...]:
    """Those of the call; of a check that was skipped, those that its case names."""
    if result.registers:
        return result.registers
    named = {test.index: next(iter(test.values)) for test in result.check.tests}
    return tuple(named.get(index, 0) for index in range(6))


def test_every_note_of_a_profile_has_a_check(native: dict[Check, Result]) -> None:
    """An argument value or a path that a profile speaks of is measured too."""
    missing = set()
    for name in names():
        surface = find(name)
        for claim in surface.claims.values():
            tried = [registers(result) for check, result in native.items() if check.call == claim.call]
            for note in claim.notes:
                if note.tests and not any(map(note.holds, tried)):
                    missing.add(f"{claim.call}: {note.condition} ({name})")
        missing |= {path.path for path in surface.paths if Check(path.path, "") not in native}
    assert sorted(missing) == []


def test_the_build_lists_every_file_and_lines_are_short() -> None:
    """As tests/unit/test_native_names.py holds it for the C core."""
    folder = Path(__file__).resolve().parents[2] / "src" / "husk" / "compat" / "probe"
    sources = [*folder.rglob("*.c"), *folder.rglob("*.h")]
    recipe = (folder / "meson.build").read_text()
    assert [path.name for path in sources if path.suffix == ".c" and f"{path.relative_to(folder)}'" not in recipe] == []
    assert [path.name for path in sources if max(map(len, path.read_text().splitlines())) > 120] == []


# -- on a plain Linux --------------------------------------------------------------------------------------------------
def newer_than_kernel(result: Result) -> bool:
    """No call of the registry above 450 is older than Linux 5.17."""
    row = by_name(result.check.call)
    return row is not None and row.nr >= 424 and result.errno == "ENOSYS"


def test_a_plain_linux_passes(native: dict[Check, Result]) -> None:
    odd = [
        (check.call, check.case, result.text)
        for check, result in native.items()
        if result.result != WORKS and (check.call, result.text) not in NATIVE and not newer_than_kernel(result)
        if not result.detail.endswith("load a module")
        if not (check.is_path and result.errno)  # which files there are depends on how it was built, and on the machine
    ]
    assert odd == []


def test_a_plain_linux_is_what_its_profile_says(native: dict[Check, Result]) -> None:
    """The newest profile that is not newer than this kernel; what a kernel adds later is no contradiction."""
    here = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    profiles = {tuple(map(int, name[6:].split("."))): name for name in names() if name.startswith("linux-")}
    version = max((version for version in profiles if version <= here), default=None)
    if version is None:
        pytest.skip(f"no profile of a Linux as old as {os.uname().release}")
    surface = find(profiles[version])
    odd = [
        (check.call, check.case, result.text, claim)
        for check, result in native.items()
        if (claim := contradicted(result, surface)) and (check.call, result.text) not in NATIVE
        if version == here or not claim.startswith("missing")
    ]
    assert odd == []


# -- in husk -----------------------------------------------------------------------------------------------------------
def accepted_here() -> list[Accepted]:
    who, setting = "root" if os.geteuid() == 0 else "user", running.setting()
    return [entry for entry in IN_HUSK if entry.setting in ("", setting) and entry.who in ("", who)]


def accepted(outside: Result, inside: Result) -> Accepted | None:
    for entry in accepted_here():
        if (
            entry.call == inside.check.call
            and inside.check.case.startswith(entry.case)
            and (entry.outside, entry.inside) == (outside.text, inside.text)
        ):
            return entry
    return None


def claimed(verdict: Verdict, outside: Result, inside: Result) -> bool:
    """Is what the check found in the box what the verdict says?"""
    if verdict.way == "refused" and verdict.errno == 0:
        return inside.result in (WORKS, "no-effect")  # success, and nothing happens
    same = inside.text == outside.text
    if verdict.way in ("native", "virtual"):
        return same
    return inside.errno == ERRNO[verdict.errno] or (verdict.way == "judged" and same)


@pytest.mark.both_settings
def test_a_box_is_what_the_registry_claims(native: dict[Check, Result], place: Path) -> None:
    walls = walls_here(namespaces=running.setting() == "walled")
    done = running.husk(["run", "--mount", f"{place}:{place}:ro", "--", str(place / "husk-probe")])
    assert done.status == 0, done.err
    inside = parsed(done.out)
    wrong, used = [], set()
    for check, found in inside.items():
        if check.call in NOT_SHOWN and found.text == "errno ENOENT":
            continue
        row = by_name(check.call)
        verdict = row.verdict(found.registers or (0,) * 6, walls) if row else Verdict("virtual")
        if claimed(verdict, native[check], found):
            continue
        if entry := accepted(native[check], found):
            used.add(entry)
            continue
        told = f"{verdict.way} {ERRNO.get(verdict.errno, '')}"
        wrong.append((check.call, check.case, f"outside {native[check].text}", f"inside {found.text}", told))
    assert wrong == []
    assert [path for path in NOT_SHOWN if inside[Check(path, "")].text != "errno ENOENT"] == []
    assert [entry for entry in accepted_here() if entry not in used] == []


@pytest.mark.both_settings
def test_husk_probe_in_husk(tmp_path: Path) -> None:
    """The command itself shows the program to the box, and writes what it measured."""
    done = running.husk([
        "probe", "--in", " ".join(["husk", "run", *running.OPTIONS]), "--only", "arch_prctl", "--only", "reboot",
        "--out", str(tmp_path / "box.toml"),
    ], env={"PATH": f"{Path(running.husk_command()[0]).parent}:{os.environ['PATH']}"})  # fmt: skip
    assert done.status == 0, done.err
    surface = read_surface(tmp_path / "box.toml")
    assert surface.measured and surface.claim("arch_prctl").level == FULL and surface.claim("read").level == UNKNOWN


# -- profiles from results ---------------------------------------------------------------------------------------------
def measured(*lines: str) -> Measurement:
    results = tuple(result for line in lines if (result := read_result(line)))
    assert len(results) == len(lines)
    return Measurement("", Head(len(lines), "Linux 6.0", 1), results)


def test_a_profile_of_results(tmp_path: Path) -> None:
    surface = measured_surface(measured(
        "read\tof a file\t0x3\tworks\t",
        "reboot\twrong magic\t0x1\tworks\tEPERM",
        "vserver\tnever\t\tworks\tENOSYS",
        "sync\treturns\t\terrno\tENOSYS",
        "arch_prctl\toption=ARCH_SET_GS\t0x1001\terrno\tEINVAL",
        "arch_prctl\toption=ARCH_SET_FS\t0x1002\tworks\t",
        "arch_prctl\tan unknown option\t0x7\tworks\tEINVAL",
        "ftruncate\tshrinks\t0x3\tno-effect\tsize == 4",
        "fork\tdies\t\tcrash\tSIGSYS",
        "pause\twaits\t\thang\t",
        "mlock\tlocks\t\tskipped\tneeds /proc",
        "socket\tfamily=AF_INET type=SOCK_RAW\t0x2,0x3,0x6\terrno\tEPERM",
        "socket\tfamily=AF_INET\t0x2,0x1\tworks\t",
        "socket\tfamily=AF_VSOCK\t0x28\terrno\tEAFNOSUPPORT",
        "open\tflags=O_TMPFILE: without a name\t0,0x410002\terrno\tEISDIR",
        "open\treads\t\tworks\t",
        "/proc/self/pagemap\t\t\terrno\tENOENT",
    ))  # fmt: skip
    (tmp_path / "m.toml").write_text(write_surface(surface))
    again = read_surface(tmp_path / "m.toml")
    levels = {call: (claim.support, ERRNO.get(claim.errno, "")) for call, claim in again.claims.items()}
    assert levels == {
        "read": (FULL, ""), "reboot": (FULL, ""), "vserver": (MISSING, "ENOSYS"), "sync": (MISSING, "ENOSYS"),
        "arch_prctl": (FULL, ""), "ftruncate": (PARTIAL, ""), "fork": (MISSING, ""), "pause": (MISSING, ""),
        "mlock": (UNKNOWN, ""), "socket": (FULL, ""), "open": (FULL, ""),
    }  # fmt: skip
    assert again.answer("arch_prctl", (0x1001, 0))[:2] == (MISSING, 22)
    assert again.answer("arch_prctl", (0x1002, 0))[0] == FULL
    assert again.answer("socket", (2, 3, 6))[:2] == (MISSING, 1) and again.answer("socket", (2, 1, 0))[0] == FULL
    assert again.answer("socket", (40, 1, 0))[:2] == (MISSING, 97)
    # Opening a directory has a bit of O_TMPFILE in common with it.
    assert again.answer("open", (0, 0o20200002))[0] == MISSING and again.answer("open", (0, 0o200000))[0] == FULL
    assert [(path.path, path.support, path.errno) for path in again.paths] == [("/proc/self/pagemap", MISSING, 2)]
    assert differences(surface, again) == []


def test_lines_of_strangers_are_passed_over() -> None:
    assert read_result("a\tb") is None and read_result("a\tb\tzz\tworks\t") is None and read_head("# hello") is None
    assert read_result("a\tb\t\tgreat\t") is None
    assert read_head("# husk-probe 1: 12 checks, Linux 6.1.0, uid 7") == Head(12, "Linux 6.1.0", 7)


# -- under other sandboxes ---------------------------------------------------------------------------------------------
def test_the_program_is_shown_to_sandboxes() -> None:
    folder = os.path.dirname(PROGRAM)
    shown = ["--mount", f"{folder}:{folder}:ro"]
    assert show_program(["husk", "run"]) == ["husk", "run", *shown, "--"]
    assert show_program(["/a/husk", "run", "--net", "--"]) == ["/a/husk", "run", *shown, "--net", "--"]
    assert show_program(["python3", "-m", "husk.cli", "run"]) == ["python3", "-m", "husk.cli", "run", *shown, "--"]
    bind = ["--ro-bind", folder, folder]
    assert show_program(["bwrap", "--ro-bind", "/", "/", "--"]) == ["bwrap", "--ro-bind", "/", "/", *bind, "--"]
    assert show_program(["runsc", "do"]) == ["runsc", "do"]
    assert show_program([]) == []
    with pytest.raises(UsageError, match="husk run"):
        show_program(["husk", "shell"])


def test_a_prefix_that_does_not_start_the_program() -> None:
    for prefix, kind, why in (
        ("no-such-sandbox", UsageError, "installed"),
        ("'open", UsageError, "quote"),
        ("echo", HuskError, "did not run"),
        ("false", HuskError, "exit code 1"),
    ):
        with pytest.raises(kind, match=why):
            run_probe(prefix, ["read"])
    with pytest.raises(UsageError, match="reboot"):
        run_probe("", ["rebot"])


def test_a_prefix_that_runs_it() -> None:
    found = run_probe("env HUSK_PROBE=1", ["close", "dup3"])
    assert found.missing == 0 and {result.check.call for result in found.results} == {"close", "dup3"}
    assert all(result.result != SKIPPED for result in found.results)


def test_gvisor_is_what_its_profile_says() -> None:
    """Where runsc is installed; a build of another date has other differences, and they are told but do not fail."""
    runsc = shutil.which("runsc")
    if runsc is None:
        pytest.skip("runsc is not installed (Debian: runsc)")
    said = subprocess.run([runsc, "--version"], stdout=subprocess.PIPE, check=False).stdout.decode()
    if GVISOR_PROFILE.partition("-")[2] not in said:
        pytest.skip(f"the profile is {GVISOR_PROFILE}, and runsc is {said.splitlines()[:1]}")
    user = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"
    inside = f"{runsc} --network=none --platform=ptrace do {user}"
    try:
        found = run_probe(inside, limit=3)
    except HuskError as error:
        pytest.skip(f"runsc cannot run here: {error}")
    surface = find(GVISOR_PROFILE)
    # What hangs on a busy machine gets a second, longer try.
    hung = [result for result in found.results if result.result == HANG]
    again = run_probe(inside, sorted({result.check.call for result in hung}), limit=20).results if hung else []
    second = {(result.check.call, result.check.case): result for result in again}
    odd, used = [], set()
    for result in (second.get((one.check.call, one.check.case), one) for one in found.results):
        claim = contradicted(result, surface)
        if not claim:
            continue
        check = result.check
        explained = [key for key in GVISOR if key[0] == check.call and check.case.startswith(key[1])]
        used.update(explained)
        if not explained:
            odd.append((check.call, check.case, result.text, f"the profile says {claim}"))
    assert found.missing == 0 and odd == []
    assert set(GVISOR) - used == set(), "no longer different"


# -- the command -------------------------------------------------------------------------------------------------------
def test_the_checks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "arch_prctl"]) == 0
    assert "arch_prctl  option=ARCH_SET_GS" in capsys.readouterr().out
    assert main(["--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(CHECKS)


def test_what_does_not_work_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, call, result in (("a", "sync", "works\t"), ("b", "sync", "errno\tENOSYS")):
        surface = measured_surface(measured(f"{call}\treturns\t\t{result}"), name)
        (tmp_path / f"{name}.toml").write_text(write_surface(surface))
    a, b = str(tmp_path / "a.toml"), str(tmp_path / "b.toml")
    assert main(["--diff", a, a]) == 0 and main(["--diff", a, b]) == 1
    assert "sync  full  missing ENOSYS" in capsys.readouterr().out
    assert main(["--diff", a, b, "--json"]) == 1
    assert [one["call"] for one in json.loads(capsys.readouterr().out)["differences"]] == ["sync"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["read"], "--only"),
        (["--diff", "husk"], "--diff A B"),
        (["--diff", "husk", "husk-bare", "--only", "read"], "leave out"),
        (["--only", "nothing"], "no check is about"),
        (["--only", "sync", "--out", "/nowhere/x"], "/nowhere/x"),
    ],
)
def test_a_wrong_use_gets_one_sentence(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1
