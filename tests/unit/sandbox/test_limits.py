"""Limits as data: how they are written, which of Linux's limits enforce them, and the message when one is met."""

from __future__ import annotations

import pytest

from husk.sandbox.errors import UsageError
from husk.sandbox.limits.limits import (
    MAPPED_BEYOND,
    NAMES,
    RLIMIT_CORE,
    RLIMIT_CPU,
    RLIMIT_DATA,
    RLIMIT_FSIZE,
    RLIMIT_NOFILE,
    RLIMIT_NPROC,
    Exceeded,
    Limits,
    shown,
)


def limits(*texts: str) -> Limits:
    made = Limits()
    for text in texts:
        made.read(text)
    return made


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("memory=512M", 512 << 20),
        ("memory=1", 1),
        ("memory=2g", 2 << 30),
        ("disk=1T", 1 << 40),
        ("disk-files=100k", 100_000),
        ("processes=2M", 2_000_000),
        ("cpu=10s", 10),
        ("cpu=10", 10),
        ("cpu=2m", 120),
        ("time=1h", 3600),
        ("events=none", None),
    ],
)
def test_values(text: str, value: int | None) -> None:
    name = text.partition("=")[0]
    made = limits(text)
    assert made[name] == value and made.asked == {name}


@pytest.mark.parametrize(
    "text",
    ["memory", "memory=", "memory=0", "memory=-1", "memory=1.5G", "memory=1X", "memory=1KK", "memory=G", "memory=1s",
     "cpu=1G", "mem=1", "=1", "", "memory=99999999T", "memory=٣", "disk-files=1G", "memory=1 M"],
)
def test_mistakes_get_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"--limit .*\.$"):
        limits(text)


def test_every_value_reads_back() -> None:
    for name, (_, default, _) in NAMES.items():
        if default is not None:
            assert limits(f"{name}={shown(name, default)}")[name] == default


def test_defaults_ask_for_nothing() -> None:
    """So that an ordinary run has neither meter nor group."""
    assert Limits().asked == set()


def rlimits(made: Limits, *, own_user: bool = True, others: int = 0) -> dict[int, int]:
    found = made.rlimits(own_user=own_user, others=others)
    assert len(found) == len(dict(found)) <= 16, "the plan has room for sixteen"
    return dict(found)


def test_rlimits() -> None:
    assert rlimits(Limits()) == {RLIMIT_CORE: 1, RLIMIT_NPROC: 4096}
    every = limits("cpu=3", "memory=1G", "processes=9", "files=7", "file-size=5K", "disk=4K")
    assert rlimits(every) == {
        RLIMIT_CORE: 1,
        RLIMIT_NPROC: 9,
        RLIMIT_FSIZE: 4096,
        RLIMIT_NOFILE: 7,
        RLIMIT_CPU: 4,
        RLIMIT_DATA: (1 << 30) + MAPPED_BEYOND,
    }


def test_processes_of_a_shared_user() -> None:
    """Where the kernel counts the caller's processes too, the default is not set: it would fail at random. A limit that
    the caller gave is added to their number."""
    assert RLIMIT_NPROC not in rlimits(Limits(), own_user=False, others=100)
    assert rlimits(limits("processes=9"), own_user=False, others=100)[RLIMIT_NPROC] == 109


def test_words() -> None:
    assert str(Exceeded("memory", 512 << 20, 600 << 20, ended=True)) == "limit: memory 512M exceeded (seen: 600M)"
    assert str(Exceeded("processes", 64, 64, ended=False)) == "limit: processes 64 reached"
    assert str(Exceeded("time", 1.5, 1.5, ended=True)) == "limit: time 1.5s exceeded"
    told = Exceeded("cpu", 1, 1.2, ended=True).as_dict()
    assert told.pop("text") == "limit: cpu 1s exceeded (seen: 1.2s)"
    assert told == {"name": "cpu", "allowed": 1, "seen": 1.2, "ended": True}
