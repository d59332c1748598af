#!/usr/bin/env python3
import multiprocessing
import sys
from multiprocessing import shared_memory


def count(start, end, total, lock, name, slot):
    found = sum(1 for n in range(max(2, start), end) if all(n % d for d in range(2, int(n**0.5) + 1)))
    with lock:
        total.value += found
    block = shared_memory.SharedMemory(name)
    block.buf[slot] = 1
    block.close()


if __name__ == "__main__":
    limit, workers = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    methods = {}
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        total, lock = context.Value("i", 0, lock=False), context.Lock()
        block = shared_memory.SharedMemory(create=True, size=workers)
        step = -(-limit // workers)
        crew = [
            context.Process(target=count, args=(n * step, min(limit, (n + 1) * step), total, lock, block.name, n))
            for n in range(workers)
        ]
        for process in crew:
            process.start()
        for process in crew:
            process.join()
        methods[method] = total.value, bytes(block.buf[:workers])
        block.close()
        block.unlink()
    assert methods["fork"] == methods["spawn"] == (methods["fork"][0], b"\1" * workers), methods
    with multiprocessing.Pool(workers) as pool:
        assert pool.map(abs, range(-3, 0)) == [3, 2, 1]
    print(f"{methods['fork'][0]} primes below {limit}")
