"""husk.Executor: what concurrent.futures and asyncio expect of an executor, with each task in a box of its own."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import time
from concurrent import futures

import pytest

import husk
from tests.lib.running import until


def power(base: int, exponent: int = 2) -> int:
    return int(base**exponent)


def leaves() -> list[str]:
    with open("/workspace/left", "a") as file:
        file.write("x")
    return os.listdir("/workspace")


def reads(path: str) -> str:
    with open(path) as file:
        return file.read()


def sleeps(seconds: float) -> float:
    print("begun")
    time.sleep(seconds)
    return seconds


def raises(kind: str) -> None:
    if kind == "exit":
        os._exit(3)
    if kind == "timeout":
        raise type("timeout", (Exception,), {})("not husk's")
    if kind == "SystemExit":
        raise SystemExit("out")
    raise {"KeyError": KeyError, "ValueError": ValueError, "StopIteration": StopIteration}[kind]("told")


def test_submit_map_wait_and_as_completed() -> None:
    with husk.Executor(2) as executor:
        first, second = executor.submit(power, 3), executor.submit(power, 2, exponent=5)
        assert {future.result() for future in futures.as_completed([first, second])} == {9, 32}
        assert list(executor.map(power, [1, 2, 3], [1, 2, 3])) == [1, 4, 27]
        done, rest = futures.wait([executor.submit(leaves), executor.submit(leaves)])
        assert [future.result() for future in done] == [["left"], ["left"]] and not rest
    assert "shut down" in repr(executor)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(power, 1)


@pytest.mark.parametrize(
    ("kind", "caught"),
    [
        ("KeyError", KeyError),
        ("ValueError", ValueError),
        ("StopIteration", husk.TaskFailed),
        ("SystemExit", husk.TaskFailed),
        ("exit", husk.TaskFailed),
        ("timeout", husk.TaskFailed),
    ],
)
def test_exceptions_as_they_are_in_the_box(kind: str, caught: type[Exception]) -> None:
    with husk.Executor(1) as executor:
        error = executor.submit(raises, kind).exception()
    assert isinstance(error, husk.TaskFailed) and isinstance(error, caught)
    assert not isinstance(error, SystemExit | StopIteration | TimeoutError)
    if kind == "exit":
        assert (error.kind, error.result and error.result.returncode) == ("ended", 3)
    elif kind != "timeout":
        assert error.kind == kind and "raise " in error.traceback
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error)) and str(error).startswith(error.kind)


def test_a_refusal_is_told_with_its_remedy() -> None:
    with husk.Executor(1) as executor, pytest.raises(FileNotFoundError) as caught:
        executor.submit(reads, "/etc/shadow").result()
    assert isinstance(caught.value, husk.TaskFailed) and caught.value.result is not None
    assert "mounts=['/etc/shadow:/etc/shadow:ro']" in caught.value.result.explain()


def test_timeouts() -> None:
    with husk.Executor(1, timeout=0.5) as executor:
        with pytest.raises(TimeoutError) as caught:
            executor.submit(sleeps, 600).result()
        assert isinstance(caught.value, husk.TaskFailed) and caught.value.kind == "timeout"


def test_cancelling() -> None:
    with husk.Executor(1) as executor:
        running = executor.submit(sleeps, 600)
        waiting = executor.submit(sleeps, 600)
        assert until(running.running)
        assert waiting.cancel() and waiting.cancelled()
        assert not running.cancel()  # of one that runs only its box can be ended
        error = running.exception()
        assert isinstance(error, husk.TaskFailed) and error.kind == "cancelled"


def test_shutting_down() -> None:
    executor = husk.Executor(1)
    running, waiting = executor.submit(sleeps, 0.2), executor.submit(sleeps, 600)
    assert until(running.running)
    executor.shutdown(cancel_futures=True)
    assert running.result() == 0.2 and waiting.cancelled()
    other = husk.Executor(2)
    tasks = [other.submit(sleeps, 600) for _ in range(3)]
    assert until(lambda: sum(task.running() for task in tasks) == 2)
    other.kill_workers()
    assert [type(task.exception()) for task in tasks[:2]] == [husk.TaskFailed] * 2 and tasks[2].cancelled()


def test_progress() -> None:
    seen: list[husk.Progress] = []
    most = threading.Lock()

    def note(now: husk.Progress) -> None:
        assert most.acquire(blocking=False)  # never two at once
        seen.append(now)
        most.release()
        raise OSError("is told, and harms no task")

    with husk.Executor(2, progress=note) as executor:
        list(executor.map(power, range(3)))
        executor.submit(raises, "ValueError").exception()
    assert seen[-1] == husk.Progress(submitted=4, running=0, done=4, failed=1)
    assert [now.done for now in seen] == sorted(now.done for now in seen) and max(now.running for now in seen) <= 2


def test_what_cannot_go_into_a_box() -> None:
    with husk.Executor(1) as executor:
        with pytest.raises(TypeError, match="lambda"):
            executor.submit(lambda: 1)
        with pytest.raises(TypeError, match="plain value"):
            executor.submit(power, object())  # type: ignore[arg-type]
        with pytest.raises(husk.UsageError, match="limits="):
            husk.Executor(1, limits={"memory": "lots"}).submit(power, 1).result()
    for options in ({"keep": "name"}, {"publish": ["0:80"]}):
        with pytest.raises(ValueError, match="new box"):
            husk.Executor(1, **options)
    with pytest.raises(ValueError, match="max_workers"):
        husk.Executor(0)


def test_in_an_event_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with husk.Executor(2, image="") as executor:
            assert await asyncio.gather(*(loop.run_in_executor(executor, power, n) for n in (2, 3))) == [4, 9]
            with pytest.raises(asyncio.TimeoutError):  # which ends the box, or leaving the block would take minutes
                await asyncio.wait_for(loop.run_in_executor(executor, sleeps, 600), 0.3)

    asyncio.run(main())
