"""multiprocessing with spawn and forkserver, shared memory, a manager."""

import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory


def work(x):
    return x + 100


def main():
    for method in ("spawn", "forkserver"):
        c = mp.get_context(method)
        with c.Pool(2) as pool:
            print(method, pool.map(work, range(10)))
    s = shared_memory.SharedMemory(create=True, size=100)
    s.buf[:5] = b"hello"
    t = shared_memory.SharedMemory(s.name)
    print(bytes(t.buf[:5]))
    t.close()
    s.close()
    s.unlink()
    with ProcessPoolExecutor(2, mp_context=mp.get_context("spawn")) as pool:
        print(list(pool.map(work, range(5))))
    with mp.Manager() as m:
        d = m.dict()
        d["k"] = 1
        print(dict(d))


if __name__ == "__main__":
    main()
