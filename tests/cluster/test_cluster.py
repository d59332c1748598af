"""The same answers as here, on two worker processes: whoever dies, whatever is lacking, whenever it is stopped."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import husk
from husk.cluster import dask_workers, fitness, trees
from husk.cluster.dask_workers import DaskWorkers
from husk.cluster.local_workers import LocalWorkers
from husk.cluster.work import LostWork
from husk.sandbox.errors import HuskError, UsageError
from tests.cluster.pieces import piece
from tests.lib.running import until

SQUARES = [("square", number) for number in range(40)]


def pids(cluster: Any) -> list[int]:
    return [nanny.pid for nanny in cluster.workers.values() if nanny.pid]


def test_the_same_as_here_though_a_worker_is_killed(cluster: Any, workers: DaskWorkers) -> None:
    here = dict(LocalWorkers(2).stream(piece, SQUARES))
    there: dict[int, bytes | HuskError] = {}
    for number, answer in workers.stream(piece, SQUARES):
        assert number not in there
        there[number] = answer
        if len(there) == 5:
            os.kill(pids(cluster)[0], signal.SIGKILL)
    assert there == here and here[7] == b"49"


def test_work_that_kills_its_worker_is_given_up_and_nothing_else(workers: DaskWorkers) -> None:
    items = [*SQUARES[:4], ("die", 0), *SQUARES[4:8]]
    answers = dict(workers.stream(piece, items))
    lost = answers.pop(4)
    assert isinstance(lost, LostWork) and "died" in str(lost)
    assert list(map(answers.get, [*range(4), *range(5, 9)])) == [str(n * n).encode() for n in range(8)]


def test_an_error_of_one_piece_is_its_answer(workers: DaskWorkers) -> None:
    answers = dict(workers.stream(piece, [("square", 3), ("refuse", 0)]))
    assert answers[0] == b"9" and isinstance(answers[1], UsageError)
    assert str(answers[1]).startswith("there is no such box; make one. (On worker tcp://127.0.0.1:")


def test_a_fault_on_a_worker_is_told_with_its_traceback(workers: DaskWorkers) -> None:
    with pytest.raises(HuskError, match=r"(?s)husk failed on worker tcp://.*a mistake of ours"):
        list(workers.stream(piece, [("fault", 0)]))


@pytest.mark.parametrize("there", [False, True], ids=["here", "on the cluster"])
def test_what_runs_is_ended_when_nobody_waits(there: bool, workers: DaskWorkers, tmp_path: Path) -> None:
    where = workers if there else LocalWorkers(3)
    answers = where.stream(piece, [("square", 1), ("wait", str(tmp_path)), ("wait", str(tmp_path))])
    assert next(answers) == (0, b"1")
    assert until(lambda: bool(list(tmp_path.glob("began-*"))))
    answers.close()
    assert until(lambda: (tmp_path / "stopped").exists())
    assert dict(where.stream(piece, [("square", 2)])) == {0: b"4"}


def test_items_are_asked_for_as_there_is_room(workers: DaskWorkers) -> None:
    asked = []

    def endless() -> Iterator[tuple[str, int]]:
        number = 0
        while True:
            asked.append(number)
            yield "square", number
            number += 1

    for where in (workers, LocalWorkers(2)):
        asked.clear()
        answers = where.stream(piece, endless())
        assert len({next(answers)[0] for _ in range(5)}) == 5
        answers.close()
        assert len(asked) < 30


# -- files -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "file").write_text("content")
    (tmp_path / "tree" / "program").write_text("#!/bin/sh\n")
    (tmp_path / "tree" / "program").chmod(0o755)
    (tmp_path / "tree" / "link").symlink_to("sub/file")
    return tmp_path / "tree"


CONTENT = "['link False', 'program True', 'sub True', 'sub/file False'] content"


def test_a_tree_that_workers_see_is_not_sent(workers: DaskWorkers, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DaskWorkers, "_send", None)
    answers = dict(workers.stream(piece, [("read", workers.carry(tree))] * 4))
    assert set(answers.values()) == {f"True {CONTENT}".encode()}
    here = LocalWorkers(1)
    assert set(dict(here.stream(piece, [("read", here.carry(tree))])).values()) == {f"True {CONTENT}".encode()}


def test_a_tree_that_workers_lack_is_sent(
    blind: None, workers: DaskWorkers, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = dict(workers.stream(piece, [("read", workers.carry(tree))] * 6))
    assert set(answers.values()) == {f"False {CONTENT}".encode()}
    monkeypatch.setattr(dask_workers, "LARGEST_SENT", 3)
    (tree / "sub" / "file").write_text("other content")
    with pytest.raises(HuskError, match=r"worker tcp://.* does not see .*/tree as it is here.*file system that all"):
        list(workers.stream(piece, [("read", workers.carry(tree))]))


def test_marks_follow_content(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trees.look(tree)
    os.utime(tree / "sub" / "file", (1, 1))
    assert trees.look(tree) == first
    trees.unpack(first, trees.packed(first), tree.parent / "scratch")
    trees.unpack(first, trees.packed(first), tree.parent / "scratch")  # another one was quicker: no matter
    assert trees.look(tree.parent / "scratch" / first.mark / "tree").mark == first.mark
    assert len(list((tree.parent / "scratch").iterdir())) == 1
    (tree / "sub" / "file").write_text("Content")
    assert trees.look(tree).mark != first.mark
    monkeypatch.setattr(trees, "LARGEST_SENT", 3)
    second = trees.look(tree)
    os.utime(tree / "sub" / "file", (2, 2))
    assert trees.look(tree).mark != second.mark  # large: by time and size
    with pytest.raises(UsageError, match="nowhere: No such file"):
        trees.look(tree / "nowhere")


# -- clusters that cannot be used --------------------------------------------------------------------------------------
def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "CONNECT_SECONDS", 0.5)
    with pytest.raises(UsageError, match=r"no Dask scheduler answers there .*start one with `dask scheduler`"):
        DaskWorkers("tcp://127.0.0.1:9")
    for wrong in ("no-address", "no/scheme://x", "tcp://host"):
        with pytest.raises(UsageError, match="give the scheduler's address, as tcp://host:8786"):
            DaskWorkers(wrong)


def test_no_certificates() -> None:
    with pytest.raises(UsageError, match="names no certificates"):
        DaskWorkers("tls://127.0.0.1:9")


def test_no_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match=r"pip install 'huskbox\[conform\]'"):
        DaskWorkers("tcp://127.0.0.1:9")


class FakeClient:
    """A cluster whose workers say what they are told to."""

    scheduler = SimpleNamespace(address="tcp://scheduler:8786")

    def __init__(self, *replies: dict[str, object], threads: int = 1) -> None:
        self._replies, self._threads = list(replies), threads

    def nthreads(self) -> dict[str, int]:
        return {"tcp://one:1": self._threads} if self._threads else {}

    def run(self, function: object, *args: object, on_error: str) -> dict[str, object]:
        return self._replies.pop(0)


def introduction(*missing: str) -> str:
    return json.dumps({"version": husk.__version__, "missing": missing})


class FakeFuture:
    """Each time it is waited for it has another state."""

    def __init__(self, *states: str) -> None:
        self._states, self.status = list(states), "pending"

    def add_done_callback(self, call: Callable[[FakeFuture], None]) -> None:
        self.status = self._states.pop(0)
        call(self)


def test_an_answer_that_is_lost_with_its_worker_is_waited_for_again() -> None:
    client = FakeClient({"tcp://a:1": husk.__version__}, {"tcp://a:1": introduction()})
    client.submit = lambda *_, **__: FakeFuture("lost", "pending", "finished")  # type: ignore[attr-defined]
    client.gather = lambda futures: [b"=done"] * len(futures)  # type: ignore[attr-defined]
    assert list(DaskWorkers(client).stream(piece, SQUARES[:2])) == [(0, b"done"), (1, b"done")]
    client = FakeClient({"tcp://a:1": husk.__version__}, {"tcp://a:1": introduction()}, {})
    client.submit = lambda *_, **__: FakeFuture("cancelled")  # type: ignore[attr-defined]
    client.gather = lambda futures: []  # type: ignore[attr-defined]
    client.cancel = lambda *_, **__: None  # type: ignore[attr-defined]
    with pytest.raises(HuskError, match="the scheduler is gone"):
        list(DaskWorkers(client).stream(piece, SQUARES[:2]))


def test_no_workers() -> None:
    with pytest.raises(HuskError, match="has no workers; start some with `dask worker tcp://scheduler:8786`"):
        DaskWorkers(FakeClient(threads=0), patience=0.2)


@pytest.mark.parametrize(
    ("replies", "sentence"),
    [
        ([{"tcp://a:1": ModuleNotFoundError("husk"), "tcp://b:1": husk.__version__}], "worker tcp://a:1 has no husk"),
        ([{"tcp://a:1": "0.0.7"}], "worker tcp://a:1 has husk 0.0.7, and here it is "),
        (
            [{"tcp://a:1": husk.__version__}, {"tcp://a:1": introduction("landlock", "clone")}],
            "worker tcp://a:1 lacks Landlock; make the workers alike, or leave these out",
        ),
        (
            [{"tcp://a:1": husk.__version__}, {"tcp://a:1": introduction("pid-namespace", "ipc-namespace")}],
            "worker tcp://a:1 lacks pid namespaces; make",
        ),
        ([{"tcp://a:1": husk.__version__}, {"tcp://a:1": OSError("no python")}], "cannot be examined .no python"),
    ],
    ids=["none", "another", "minimum", "wanted", "unknown"],
)
def test_unfit_workers_are_named(replies: list[dict[str, object]], sentence: str) -> None:
    with pytest.raises(HuskError, match=sentence):
        DaskWorkers(FakeClient(*replies), wanted=("pid-namespace",))


def test_a_worker_with_another_version_that_joins_later(
    workers: DaskWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "__version__", "9.9")
    monkeypatch.setattr(fitness, "__version__", "9.9")
    with pytest.raises(HuskError, match=f"has husk {husk.__version__}, and here it is 9.9; make the workers alike"):
        list(workers.stream(piece, SQUARES[:1]))


def test_the_last_worker_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path),
        silence_logs=logging.CRITICAL,
    ) as small:
        workers = DaskWorkers(small.scheduler_address, patience=3)
        try:
            answers = workers.stream(piece, itertools.repeat(("square", 1)))
            next(answers)
            small.scale(0)
            with pytest.raises(HuskError, match="has no workers"):
                deque(answers, maxlen=0)
        finally:
            workers.close()


# -- husk.map ----------------------------------------------------------------------------------------------------------
def halves(number: int) -> tuple[int, bytes]:
    if number == 3:
        raise ValueError("three")
    return number // 2, b"%d" % number


def test_map_on_a_cluster_is_map_here(cluster: Any) -> None:
    here = husk.map(halves, range(5), return_exceptions=True)
    there = husk.map(halves, range(5), return_exceptions=True, cluster=cluster.scheduler_address)
    assert here[:3] + here[4:] == there[:3] + there[4:] == [(0, b"0"), (0, b"1"), (1, b"2"), (2, b"4")]
    for failed in (here[3], there[3]):
        assert isinstance(failed, husk.ItemFailed) and (failed.number, failed.kind) == (3, "ValueError")
    with pytest.raises(UsageError, match=r"no image .*On worker tcp://"):
        husk.map(halves, [1], cluster=cluster.scheduler_address, image="no-such-image")


def test_dask_is_imported_only_for_a_cluster() -> None:
    look = "import sys, husk; husk.map, husk.Pool; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], timeout=60).returncode == 0
