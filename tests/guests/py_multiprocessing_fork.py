"""multiprocessing with the fork method: pool, queue, shared value, pipe, event."""

import multiprocessing as mp


def work(x):
    return x * x


def put(q, n):
    q.put(n)


def main():
    c = mp.get_context("fork")
    with c.Pool(2) as pool:
        print(pool.map(work, range(20)))
    q = c.Queue()
    ps = [c.Process(target=put, args=(q, i)) for i in range(4)]
    [p.start() for p in ps]
    print(sorted(q.get() for _ in ps))
    [p.join() for p in ps]
    print([p.exitcode for p in ps])
    v = c.Value("i", 0)

    def add():
        for _ in range(100):
            with v.get_lock():
                v.value += 1

    ps = [c.Process(target=add) for _ in range(4)]
    [p.start() for p in ps]
    [p.join() for p in ps]
    print(v.value)
    a, b = c.Pipe()
    p = c.Process(target=lambda: b.send({"x": [1, 2]}))
    p.start()
    print(a.recv())
    p.join()
    e = c.Event()
    p = c.Process(target=e.set)
    p.start()
    print(e.wait(60))
    p.join()


if __name__ == "__main__":
    main()
