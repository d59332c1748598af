"""asyncio: child processes, a Unix server, threads, signals."""

import asyncio
import os
import signal


async def child(n):
    p = await asyncio.create_subprocess_exec("sh", "-c", f"sleep 0.0{n}; echo {n}; exit {n}", stdout=-1)
    out, _ = await p.communicate()
    return out.strip(), p.returncode


async def main():
    print(await asyncio.gather(*(child(n) for n in range(8))))
    p = await asyncio.create_subprocess_shell("cat", stdin=-1, stdout=-1)
    print(await p.communicate(b"x" * 100000) == (b"x" * 100000, None))

    async def serve(r, w):
        w.write((await r.readline()).upper())
        await w.drain()
        w.close()

    s = await asyncio.start_unix_server(serve, "sock")
    r, w = await asyncio.open_unix_connection("sock")
    w.write(b"hello\n")
    print(await r.read())
    w.close()
    s.close()
    await s.wait_closed()
    print(await asyncio.to_thread(os.path.exists, "/etc/passwd"))
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.1)
    except TimeoutError:
        print("timeout")
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, future.set_result, "signal")
    os.kill(os.getpid(), signal.SIGUSR1)
    print(await future)


asyncio.run(main())
