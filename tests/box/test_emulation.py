"""A box with another runtime's surface: the program's own calls are refused or faked, husk's go on working."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from husk.abi.registry import number
from husk.abi.registry.rules import Arg, Rule, Verdict, refuse
from husk.kernel.emulation import Emulation
from husk.kernel.events import Events
from husk.sandbox.policy import Mount, Policy
from husk.sandbox.result import Result
from husk.sandbox.runner import Runner
from tests.lib.build_guests import guest_programs
from tests.lib.running import setting as manner

pytestmark = pytest.mark.both_settings
SH = ["/bin/sh", "-c"]


def run(argv: list[str], rules: Mapping[str, tuple[Rule, ...]] | None) -> Result:
    policy = Policy(argv)
    policy.mounts = [Mount(str(guest_programs()), "/guests", "ro")]
    policy.namespaces = manner() == "walled"
    if rules is not None:
        policy.emulation = Emulation("another", {number(name): found for name, found in rules.items()})
    result = Runner(policy, Events(None, None), keep=1 << 20).run()
    assert not result.faults
    return result


def lacks(code: int = errno.ENOSYS, *conditions: object) -> Rule:
    return Rule(refuse(code, "the other runtime does not have it"), conditions)  # type: ignore[arg-type]


SET_GS = Arg(0, "the code").is_in({"ARCH_SET_GS": 0x1001})


def test_gs_works_without_emulation() -> None:
    result = run(["/guests/touch_gs"], None)
    assert (result.exit_code, result.stdout) == (0, b"gs holds 42\n")


def test_the_gs_crash_is_the_real_one() -> None:
    """The program ignores the error and reads %gs:4. In the other runtime that is a segmentation fault."""
    result = run(["/guests/touch_gs"], {"arch_prctl": (lacks(errno.EINVAL, SET_GS),)})
    assert (result.exit_code, result.signal, result.stdout) == (139, 11, b"")
    (refusal,) = result.refusals
    assert refusal["call"] == "arch_prctl" and refusal["errno"] == "EINVAL"
    assert str(refusal["what"]).startswith("arch_prctl(ARCH_SET_GS, ")


def test_other_arguments_are_not_touched() -> None:
    other = Arg(0, "the code").is_in({"ARCH_CET_STATUS": 0x3001})
    assert run(["/guests/touch_gs"], {"arch_prctl": (lacks(errno.EINVAL, other),)}).exit_code == 0


@pytest.mark.parametrize("name", ["mmap", "mprotect", "munmap", "close", "prctl", "personality", "pread64", "execveat",
                                  "getrandom", "futex", "fchdir", "lseek", "rt_sigaction", "execve"])  # fmt: skip
def test_husk_itself_keeps_every_call(name: str) -> None:
    """Init, the loader and remote calls use these. The program makes none of them, so it runs."""
    assert run(["/guests/touch_gs"], {name: (lacks(),)}).stdout == b"gs holds 42\n"


def test_a_remote_call_is_husks_own() -> None:
    """chdir is served by a remote fchdir in the guest's own thread."""
    result = run([*SH, "cd /tmp && pwd"], {"fchdir": (lacks(),)})
    assert (result.exit_code, result.stdout) == (0, b"/tmp\n")


def test_programs_started_by_the_program_are_bound_too() -> None:
    result = run([*SH, "/bin/true; (exec /guests/touch_gs)"], {"arch_prctl": (lacks(errno.EINVAL, SET_GS),)})
    assert result.exit_code == 139


def test_names_answered_in_c_are_refused_too() -> None:
    script = "readlink /usr/bin/awk; readlink /usr/bin/awk"
    assert b"/awk" in (run([*SH, script], None).stdout or b"")
    result = run([*SH, script], {name: (lacks(),) for name in ("readlink", "readlinkat")})
    assert (result.exit_code, result.stdout) == (1, b"")
    assert sum(int(str(refusal["count"])) for refusal in result.refusals) >= 2


def test_a_faked_call_succeeds_and_does_nothing() -> None:
    faked = {"unlinkat": (Rule(refuse(0, "faked"), ()),), "unlink": (Rule(refuse(0, "faked"), ()),)}
    result = run([*SH, "cd /tmp && echo > f && rm f && test -e f"], faked)
    assert (result.exit_code, result.stderr) == (0, b"")


def test_an_exception_passes() -> None:
    """A rule that is no refusal lets its case go as usual, before a later rule refuses the rest."""
    usual = Rule(Verdict("native"), (SET_GS,))
    assert run(["/guests/touch_gs"], {"arch_prctl": (usual, lacks())}).exit_code == 0
    assert run(["/guests/touch_gs"], {"arch_prctl": (lacks(),)}).exit_code == 139


def test_sigaction_can_be_missing() -> None:
    result = run([*SH, "trap 'echo caught' USR1; kill -USR1 $$; echo after"], {"rt_sigaction": (lacks(),)})
    assert result.signal == 10


def test_rules_that_cannot_be_held_are_not_taken() -> None:
    with pytest.raises(ValueError, match="as a whole only"):
        Emulation("x", {number("rt_sigaction"): (lacks(errno.ENOSYS, Arg(0, "sig").is_zero()),)})
    with pytest.raises(ValueError, match="no system call 9999"):
        Emulation("x", {9999: (lacks(),)})


def test_it_is_no_way_around_the_walls(tmp_path: Path) -> None:
    """Emulation of a call that husk refuses does not open it: what passes goes the way of the row."""
    usual = Rule(Verdict("native"), ())
    result = run([*SH, "mount -t tmpfs none /tmp"], {"mount": (usual,), "init_module": (usual,), "ptrace": (usual,)})
    assert result.exit_code != 0
