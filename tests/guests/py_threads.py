"""Threads that create and rename files, a timer signal in the main thread."""

import os
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor


def job(n):
    with open(f"f{n}", "w") as f:
        f.write(str(n) * 100)
    os.rename(f"f{n}", f"g{n}")
    return len(open(f"g{n}").read())


with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(job, range(200))))
q = queue.Queue()
ts = [threading.Thread(target=lambda: q.put(threading.current_thread().name)) for _ in range(10)]
[t.start() for t in ts]
[t.join() for t in ts]
print(q.qsize())
signal.signal(signal.SIGALRM, lambda *a: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.1)
time.sleep(0.3)
while len(os.listdir("/proc/self/task")) > 1:  # one that was joined is still listed until the kernel is done with it
    time.sleep(0.01)
print(threading.active_count(), len(os.listdir("/proc/self/task")))
