"""dash and bash: what scripts do all day, compared natively and in husk."""

from __future__ import annotations

import pytest

from tests.lib.harness import differential
from tests.programs.cases import load

COMMON = load("shells")
BASH = load("bash")
STATUS = {"traps": 4, "errexit and traps": 3}


@pytest.mark.needs("dash")
@pytest.mark.parametrize("name", COMMON)
def test_dash(name: str) -> None:
    result = differential(
        ["dash", "-c", COMMON[name]], case=f"dash {name}", stdin=b"a line\n", status=STATUS.get(name, 0)
    )
    assert result.out or result.err


@pytest.mark.needs("bash")
@pytest.mark.parametrize("name", [*COMMON, *BASH])
def test_bash(name: str) -> None:
    script = COMMON.get(name) or BASH[name]
    result = differential(
        ["bash", "-c", script],
        case=f"bash {name}",
        stdin=b"a line\n",
        status=STATUS.get(name, 0),
        normalise=["pid", "job", "death"],
    )
    assert result.out or result.err


@pytest.mark.needs("bash")
def test_bash_reads_its_script_by_descriptor() -> None:
    """bash reads a script piecewise and moves its descriptor away; a child must not disturb the position."""
    lines = "".join(f"cat /dev/null; echo {n}; (exit {n % 7})\n" for n in range(300))
    differential(["bash", "script.sh"], tree={"script.sh": lines}, status=299 % 7)
    differential(["bash", "-s"], stdin=b"echo one\nread x\nthis line is data\necho got $x\n")


@pytest.mark.needs("bash")
def test_bash_from_standard_input() -> None:
    differential(["bash", "--norc", "--noprofile", "-s"], stdin=b"x=5\necho $((x*2))\ntype cd\nexit 6\n", status=6)
