"""The asyncio twin, and boxes kept ready."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import husk
from tests.lib.running import bare_stands, until


def test_everything_awaited() -> None:
    async def main() -> None:
        async with husk.AsyncSandbox() as box:
            await box.write("d/f", "data")
            done = await box.run(["cat", "d/f"], capture_output=True, text=True, check=True)
            assert done.stdout == "data" and await box.read("d/f", text=True) == "data"
            assert await box.listdir() == ["d"] and await box.exists("d/f") and await box.diff()
            with pytest.raises(husk.CalledProcessError):
                await box.run(["false"], check=True)
            with pytest.raises(husk.TimeoutExpired):
                await box.run(["sleep", "60"], timeout=0.5)
            with pytest.raises(FileNotFoundError):
                await box.run(["no-such-program"])

    asyncio.run(main())


@pytest.fixture
def room() -> Iterator[None]:
    """Descriptors for fifty boxes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_fifty_boxes_at_once_from_threads_and_in_a_loop(room: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are open before the first is closed, and the event loop goes on meanwhile: no box of the loop opens before
    the loop has gone on. The fixture counts what is left."""
    half, found = 25, []
    open_ones, all_open, goes_on = threading.Semaphore(0), threading.Event(), threading.Event()

    def opened(image: str, **options: Any) -> husk.Sandbox:
        assert goes_on.wait(60), "the loop stands still while a box opens"
        return husk.Sandbox(image, **options)

    monkeypatch.setattr("husk.api.aio.Sandbox", opened)

    def ask(box: husk.Sandbox, number: int) -> None:
        done = box.run(["cat"], input=str(number), capture_output=True, text=True)
        found.append(int(done.stdout))

    def in_a_thread(number: int) -> None:
        with husk.Sandbox(namespaces=number % 2 == 0 or not bare_stands()) as box:
            open_ones.release()
            all_open.wait()
            ask(box, number)

    async def in_the_loop(number: int, go: asyncio.Event) -> None:
        async with husk.AsyncSandbox() as box:
            open_ones.release()
            await go.wait()
            done = await box.run(["cat"], input=str(number), capture_output=True, text=True)
            found.append(int(done.stdout))

    async def main() -> None:
        go = asyncio.Event()
        tasks = [asyncio.create_task(in_the_loop(number, go)) for number in range(half)]
        for _ in range(5):  # all of them have begun to open after the first
            await asyncio.sleep(0)
        goes_on.set()
        for _ in range(2 * half):
            while not open_ones.acquire(blocking=False):
                await asyncio.sleep(0.01)
        go.set()
        all_open.set()
        await asyncio.gather(*tasks)

    threads = [threading.Thread(target=in_a_thread, args=(number,)) for number in range(half, 2 * half)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(2 * half))


def test_too_few_descriptors_are_said(room: None) -> None:
    """Wherever the making of a box runs out of them, and nothing stays open then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    husk.Sandbox().close()  # what the first box imports and opens for good
    before = sorted(os.listdir("/proc/self/fd"))
    made = 0
    for spare in [*range(12), *range(12, 60, 3)]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + spare, hard))
        try:
            husk.Sandbox().close()
            made += 1
        except husk.HuskError as error:
            assert not made and "ulimit -n" in str(error), (spare, error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert until(lambda: sorted(os.listdir("/proc/self/fd")) == before), spare
    assert 0 < made < 20


def test_a_cancelled_run_is_gone() -> None:
    async def main() -> None:
        async with husk.AsyncSandbox() as box:
            running = asyncio.create_task(box.run(["sleep", "100"]))
            await asyncio.sleep(0.3)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert box.sandbox._runs._processes == set()
            assert (await box.run(["true"])).returncode == 0

    asyncio.run(main())


def test_streams_awaited() -> None:
    async def main() -> None:
        async with husk.AsyncSandbox() as box:
            async with await box.popen(["cat"], stdin=husk.PIPE, stdout=husk.PIPE) as process:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(b"one\n")
                assert await process.stdout.readline() == b"one\n"
                assert await process.communicate(b"two") == (b"two", None)
                assert process.returncode == 0
            async with await box.popen(["sleep", "100"]) as process:
                process.terminate()
                assert await process.wait() == -signal.SIGTERM

    asyncio.run(main())


def test_boxes_in_a_thread_while_another_runs_a_loop() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        assert husk.run(["echo", "hi"], capture_output=True).stdout == b"hi\n"

        async def inside() -> int:
            async with husk.AsyncSandbox() as box:
                return (await box.run(["true"])).returncode

        assert asyncio.run_coroutine_threadsafe(inside(), loop).result(60) == 0
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_pool_gives_fresh_boxes_and_fills_up_again() -> None:
    with husk.Pool(2, limits={"processes": 50}) as pool:
        assert pool.wait_ready(60)
        for _ in range(3):
            done = pool.run("ls; echo used > f", shell=True, capture_output=True, text=True)
            assert (done.stdout, done.returncode) == ("", 0)
        with pool.box() as box:
            box.run("echo kept > f", shell=True)
            assert box.read("f") == b"kept\n"
        assert pool.wait_ready(60)
    with pytest.raises(ValueError, match="closed"):
        pool.run(["true"])


def test_a_box_that_died_waiting_is_not_given_out() -> None:
    with husk.Pool(1) as pool:
        assert pool.wait_ready(60)
        (waiting,) = pool._ready
        assert waiting._runs.standby is not None
        os.kill(waiting._runs.standby.pid, signal.SIGKILL)
        while waiting.ready:
            time.sleep(0.01)
        assert pool.run(["echo", "alive"], capture_output=True).stdout == b"alive\n"


def test_a_pool_used_by_many_threads() -> None:
    with husk.Pool(2) as pool:
        found: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: found.append(pool.run(["cat"], input=b"x", capture_output=True).stdout))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [b"x"] * 6


def test_wrong_arguments_are_told_at_once() -> None:
    with pytest.raises(husk.UsageError):
        husk.Pool(1, mounts=["/no/such:/m"])
    with pytest.raises(ValueError):
        husk.Pool(0)


def test_a_mount_of_a_pool_that_became_a_link(tmp_path: Path) -> None:
    """The guest of one box puts it into the directory above, for the next box."""
    (tmp_path / "above" / "data").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    with husk.Pool(1, warm=None, mounts=[f"{tmp_path}/above:/above:rw", f"{tmp_path}/above/data:/data"]) as pool:
        pool.run(["sh", "-ec", f"cd /above; mv data away; ln -s {tmp_path}/outside data"], check=True)
        with pytest.raises(husk.HuskError, match="data"):
            pool._made()
