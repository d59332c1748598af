"""`husk runtimes import`: a profile's rules mean in the runtime file what libseccomp makes of them."""

from __future__ import annotations

import ctypes.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from husk.cli import main
from husk.compat.runtimes import find
from husk.compat.runtimes.seccomp_import import foreign_calls, import_seccomp
from husk.compat.runtimes.seccomp_rules import OPERATORS, aligned_blocks, all_but
from husk.compat.surface import FULL, MISSING, UNKNOWN, Surface, read_surface, rows_by_name
from husk.sandbox.errors import UsageError

ALLOW, ERRNO = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"


def profile(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"defaultAction": ERRNO, **more, "syscalls": list(rules)}


def rule(call: str, *args: tuple[int, str, int] | tuple[int, str, int, int], action: str = ALLOW, **more: Any) -> Any:
    tests = [{"index": a[0], "op": f"SCMP_CMP_{a[1]}", "value": a[2], "valueTwo": (*a, 0)[3]} for a in args]
    return {"names": [call], "action": action, "args": tests, **more}


def imported(tmp_path: Path, document: Any, **options: Any) -> Surface:
    path = tmp_path / "given.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return import_seccomp(path, **options).surface


def truth(op: str, register: int, value: int, two: int) -> bool:
    """libseccomp's comparisons, as seccomp_rule_add(3) tells them."""
    return {
        "NE": register != value,
        "LT": register < value,
        "LE": register <= value,
        "EQ": register == value,
        "GE": register >= value,
        "GT": register > value,
        "MASKED_EQ": register & value == two,
    }[op]


def near(value: int) -> list[int]:
    return [number & 0xFFFFFFFF for number in (value - 1, value, value + 1, 0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)]


@pytest.mark.parametrize("op", OPERATORS.values())
@pytest.mark.parametrize("value", [0, 1, 38, 0x7E020000, 0x80000000, 0xFFFFFFFF])
def test_every_operator_means_the_same(op: str, value: int, tmp_path: Path) -> None:
    chance = random.Random(value)
    for two in (0, value & 0x10020000) if op == "MASKED_EQ" else (0,):
        found = imported(tmp_path, profile(rule("personality", (0, op, value, two)), defaultErrnoRet=95))
        for register in near(value) + [chance.getrandbits(32) for _ in range(50)]:
            allowed = truth(op, register, value, two)
            assert found.answer("personality", [register])[:2] == ((FULL, 0) if allowed else (MISSING, 95)), register


def test_several_rules_for_one_call(tmp_path: Path) -> None:
    """Random rules over two arguments: a call is allowed if some rule allows it."""
    chance = random.Random(1)
    for _ in range(60):
        rules = [
            [(index, chance.choice(["EQ", "MASKED_EQ", "LT", "GE"]), chance.getrandbits(4), chance.getrandbits(2))
             for index in chance.sample([0, 1], chance.randint(1, 2))]
            for _ in range(chance.randint(1, 3))
        ]
        found = imported(tmp_path, profile(*(rule("socket", *args) for args in rules)))
        for first in range(0, 18, 3):
            for second in range(18):
                allowed = any(all(truth(op, (first, second)[n], a, b) for n, op, a, b in args) for args in rules)
                assert (found.answer("socket", [first, second, 0])[0] == FULL) == allowed, (rules, first, second)


def test_the_same_argument_twice_is_either(tmp_path: Path) -> None:
    found = imported(tmp_path, profile(rule("socket", (0, "EQ", 1), (0, "EQ", 2))))
    assert [found.answer("socket", [family, 1, 0])[0] for family in (1, 2, 3)] == [FULL, FULL, MISSING]


def test_ranges_are_said_shortly(tmp_path: Path) -> None:
    docker = profile(rule("socket", (0, "LT", 38)), rule("socket", (0, "EQ", 39)), rule("socket", (0, "GT", 40)))
    claim = imported(tmp_path, docker).claim("socket")
    assert claim.support == FULL and [list(note.tests[0].names) for note in claim.notes] == [["AF_ALG", "AF_VSOCK"]]
    clone = imported(tmp_path, profile(rule("clone", (0, "MASKED_EQ", 0x7E020000)))).claim("clone")
    assert clone.support == FULL and clone.notes[0].tests[0].kind == "any"
    assert "CLONE_NEWUSER" in clone.notes[0].condition
    assert aligned_blocks(0, 0xFFFFFFFF) == [(0, 0)] and all_but([(0, 3), (2, 0xFFFFFFFF)]) == []


def test_actions(tmp_path: Path) -> None:
    found = imported(tmp_path, profile(
        rule("read"),
        rule("write", action="SCMP_ACT_LOG"),
        rule("mount", action="SCMP_ACT_KILL_PROCESS"),
        rule("open", action="SCMP_ACT_NOTIFY"),
        rule("clone3", action=ERRNO, errnoRet=38),
        rule("fchown", action=ERRNO, errnoRet=0),
    ))  # fmt: skip
    supports = {call: found.answer(call, [0] * 6)[:2] for call in ("read", "write", "mount", "open", "clone3", "bpf")}
    assert supports == {
        "read": (FULL, 0), "write": (FULL, 0), "mount": (MISSING, 0), "open": (UNKNOWN, 0), "clone3": (MISSING, 38),
        "bpf": (MISSING, 1),
    }  # fmt: skip
    assert "SIGSYS" in found.claim("mount").text and "nothing happens" in found.claim("fchown").text


def test_capabilities_and_architectures(tmp_path: Path) -> None:
    found = imported(tmp_path, profile(
        rule("chroot", includes={"caps": ["CAP_SYS_CHROOT"]}),
        rule("mount", includes={"caps": ["CAP_SYS_ADMIN"]}),
        rule("ptrace", includes={"minKernel": "4.8"}),
        rule("arch_prctl", includes={"arches": ["amd64", "x32"]}),
        rule("modify_ldt", includes={"arches": ["s390x"]}),
        rule("clone3", action=ERRNO, errnoRet=38, excludes={"caps": ["CAP_SYS_ADMIN"]}),
        rule("bpf", excludes={"arches": ["amd64"]}),
        {"names": ["_llseek", "read", "chown32"], "action": ALLOW},
    ))  # fmt: skip
    allowed = [call for call in rows_by_name() if found.claim(call).support == FULL]
    assert sorted(allowed) == ["arch_prctl", "chroot", "ptrace", "read"] and found.claim("clone3").errno == 38


def test_a_whole_config_and_the_old_form(tmp_path: Path) -> None:
    old = {"defaultAction": ERRNO, "syscalls": [{"name": "read", "action": ALLOW, "args": None}]}
    for document in (old, {"ociVersion": "1.2.0", "linux": {"seccomp": old}}):
        assert imported(tmp_path, document).claim("read").support == FULL


WRONG = [
    ("{", "not JSON"),
    ("[" * 100000, "not JSON"),
    ("[]", "no seccomp profile"),
    ({"syscalls": []}, "no seccomp profile"),
    ({"defaultAction": 7, "syscalls": []}, "defaultAction: it is one of"),
    ({"defaultAction": ALLOW, "syscalls": 3}, "syscalls: it must be a list"),
    ({"defaultAction": ALLOW, "syscalls": [3]}, "syscalls[0]: it must be an object"),
    (profile({"names": "read", "action": ALLOW}), "syscalls[0].names: it must be a list"),
    (profile({"names": [3], "action": ALLOW}), "every name must be a text"),
    (profile({"names": ["reed"], "action": ALLOW}), "no Linux has a call 'reed' (do you mean read?)"),
    (profile(rule("read", action="ALLOWED")), "syscalls[0].action: it is one of SCMP_ACT_ALLOW"),
    (profile(rule("read", action=ERRNO, errnoRet="EPERM")), "errnoRet: it must be a number"),
    (profile(rule("personality", (1, "EQ", 0))), "personality has 1 arguments, so there is no argument 1"),
    (profile(rule("socket", (0, "LIKE", 0))), "op: it is one of SCMP_CMP_NE"),
    (profile(rule("socket", (0, "GT", 1 << 40))), "more than 32 bits"),
    (profile(rule("socket", (0, "EQ", -1))), "a number of 64 bits"),
    (profile(rule("socket", (0, "NE", 7), (1, "NE", 7), (2, "NE", 7))), "more than 1000 alternatives"),
    (profile({"names": ["read"], "action": ALLOW, "args": [[]]}), "args[0]: it must be an object"),
    (profile({"names": ["read"], "action": ALLOW, "includes": []}), ""),
    (profile({"names": ["read"], "action": ALLOW, "includes": [1]}), "includes: it must be an object"),
    (profile(rule("read", includes={"caps": [{}]})), "caps: it must be a list of texts"),
]


@pytest.mark.parametrize(("document", "sentence"), WRONG)
def test_bad_profiles_get_one_sentence(document: Any, sentence: str, tmp_path: Path) -> None:
    if not sentence:
        document["syscalls"][0]["includes"] = None
        assert imported(tmp_path, document).claim("read").support == FULL
        return
    with pytest.raises(UsageError) as error:
        imported(tmp_path, document)
    assert sentence in str(error.value) and "given.json: " in str(error.value) and "\n" not in str(error.value)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(UsageError, match="larger than 8 MiB"):
        import_seccomp(path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = tmp_path / "mine.json", tmp_path / "mine.toml"
    given.write_text(json.dumps(profile({"names": ["read", "chown32", "nonsense"], "action": ALLOW})))
    assert main(["runtimes", "import", str(given)]) == 2
    assert "--skip-unknown" in capsys.readouterr().err
    assert main(["runtimes", "import", str(given), "--skip-unknown", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["left_out"] == {"foreign": ["chown32"], "unknown": ["nonsense"]} and told["counts"]["full"] == 1
    assert read_surface(out).claim("read").support == FULL
    assert main(["runtimes", "import", str(given), "--skip-unknown"]) == 0
    assert capsys.readouterr().out == out.read_text()
    assert main(["runtimes", "import", str(given), "--skip-unknown", "--out", str(tmp_path / "no" / "x")]) == 2


# -- what husk brings --------------------------------------------------------------------------------------------------
def test_what_is_known_of_dockers_profile() -> None:
    for name in ("docker-20.10", "docker-28.5", "docker-seccomp-0.2.3", "kubernetes-containerd-2.3"):
        found = find(name)
        assert found.answer("clone3", [0] * 6)[:2] == (MISSING, 38), name  # so that libc falls back to clone
        assert found.answer("clone", [17])[0] == FULL and found.answer("clone", [0x10000011])[:2] == (MISSING, 1)
        assert found.answer("personality", [0x40000])[:2] == (MISSING, 1), "no ADDR_NO_RANDOMIZE"
        assert found.answer("mount", [0] * 6)[:2] == (MISSING, 1) and found.answer("ptrace", [0] * 6)[0] == FULL
    assert [find(name).answer("socket", [40, 1, 0])[0] for name in ("docker-20.10", "docker-28.5")] == [FULL, MISSING]


def test_foreign_calls_are_foreign() -> None:
    assert not foreign_calls() & set(rows_by_name()) and "chown32" in foreign_calls()


# -- libseccomp itself -------------------------------------------------------------------------------------------------
CHILD = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from apply_seccomp import load
profile, questions = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
load(profile)
answers = []
for a, b, c in questions:
    libc.syscall(ctypes.c_long(8), ctypes.c_long(a), ctypes.c_long(b), ctypes.c_long(c))
    answers.append(ctypes.get_errno())
print(json.dumps(answers))
"""
LSEEK_REFUSED, BAD_DESCRIPTOR = 95, 9


def ask_libseccomp(document: dict[str, Any], questions: list[list[int]]) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(Path(__file__).parent)],
        input=json.dumps([document, questions]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers: list[int] = json.loads(done.stdout)
    return answers


@pytest.mark.skipif(not ctypes.util.find_library("seccomp"), reason="there is no libseccomp here")
@pytest.mark.parametrize("seed", range(6))
def test_libseccomp_means_the_same(seed: int, tmp_path: Path) -> None:
    """Rules about lseek, loaded by libseccomp into a real filter: a call that passes gets EBADF, because no descriptor
    has such a number. The imported file must say which ones pass."""
    chance = random.Random(seed)
    numbers = [0x7FFFFFF0, 0x40000001, 0x20000000, 0x7E020000, 0x10000000, 0x12345678]

    def condition(index: int) -> tuple[int, str, int, int]:
        op, value = chance.choice(list(OPERATORS.values())), chance.choice(numbers)
        return index, op, value, value & chance.choice(numbers) if op == "MASKED_EQ" else 0

    # One rule by one or two arguments, or two rules that compare the same argument: more than that, and libseccomp 2.5
    # itself drops rules (containerd's profile tells which).
    indices = chance.sample(range(3), chance.randint(1, 2))
    rules = [rule("lseek", *map(condition, indices))]
    if len(indices) == 1 and chance.random() < 0.5:
        rules = [rule("lseek", (indices[0], "EQ", number)) for number in chance.sample(numbers, 3)]
    others = {"names": sorted(set(rows_by_name()) - {"lseek"}), "action": ALLOW}
    document = profile(others, *rules, defaultErrnoRet=LSEEK_REFUSED)
    found = imported(tmp_path, document)
    questions = [[chance.choice(numbers) + chance.randint(-1, 1) for _ in range(3)] for _ in range(300)]
    answers = ask_libseccomp(document, questions)
    for question, answer in zip(questions, answers, strict=True):
        passes = found.answer("lseek", question)[0] == FULL
        assert answer == (BAD_DESCRIPTOR if passes else LSEEK_REFUSED), (rules, question)
