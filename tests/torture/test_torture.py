"""Long and rude: thousands of programs, storms of signals. Every test has a bounded form and a full one (-m soak)."""

from __future__ import annotations

import pytest

from tests.lib.harness import differential

SOAK = pytest.mark.soak


@pytest.mark.both_settings
@pytest.mark.timeout(300)
def test_smoke() -> None:
    """A little of everything below."""
    differential(["{guests}/pipelines.sh", "40"], case="pipelines")
    for mode in ("posix", "vfork", "fork"):
        differential(["{guests}/spawn", mode, "100", "/bin/true"], case="spawn")
    differential(["{guests}/storm", "1"], case="storm", ignore=["w*", "v*"])


@pytest.mark.parametrize("count", [pytest.param(400), pytest.param(5000, marks=[SOAK, pytest.mark.timeout(1800)])])
@pytest.mark.needs("dash")
@pytest.mark.timeout(300)
def test_dash_pipelines(count: int) -> None:
    result = differential(["dash", "{guests}/pipelines.sh", str(count)], case="pipelines", timeout=count / 2 + 60)
    assert result.out == f"{count} pipelines, 0 bad\n"


@pytest.mark.parametrize("count", [pytest.param(1000), pytest.param(10_000, marks=[SOAK, pytest.mark.timeout(1800)])])
@pytest.mark.parametrize("mode", ["posix", "vfork", "fork"])
@pytest.mark.timeout(300)
def test_starting_programs_from_a_threaded_parent(mode: str, count: int) -> None:
    result = differential(["{guests}/spawn", mode, str(count), "/bin/true"], case="spawn", timeout=count / 10 + 60)
    assert result.out == f"{mode}: wrong 0\n"


def test_failing_to_start_programs() -> None:
    differential(["{guests}/spawn", "fail", "500", "/bin/no-such-program"], case="spawn fail")


@pytest.mark.parametrize("seconds", [pytest.param(5), pytest.param(120, marks=[SOAK, pytest.mark.timeout(600)])])
def test_signal_storm(seconds: int) -> None:
    result = differential(["{guests}/storm", str(seconds)], case="storm", timeout=seconds * 2 + 60, ignore=["w*", "v*"])
    assert "FEW" not in result.out


@pytest.mark.parametrize("seconds", [pytest.param(3), pytest.param(60, marks=[SOAK, pytest.mark.timeout(600)])])
def test_two_storms_at_once(seconds: int) -> None:
    """Each storm writes to a file of its own, because the order of lines between storms is not fixed."""
    script = 'mkdir a b; (cd a; {guests}/storm "$0" >out) & (cd b; {guests}/storm "$0" >out) & wait; cat a/out b/out'
    differential(
        ["/bin/sh", "-c", script, str(seconds)], case="two storms", timeout=seconds * 2 + 60, ignore=["*/w*", "*/v*"]
    )


@pytest.mark.needs("make")
def test_parallel_make() -> None:
    """Two hundred tiny recipes, four at a time: job server pipe, SIGCHLD, vfork."""
    rules = "all: $(addprefix t,$(shell seq 200))\nt%:\n\t@sleep 0; echo $* | sort >$@\n"
    differential(["make", "-s", "-j4"], tree={"Makefile": rules}, case="make", timeout=90)
