"""kernel: the tables of descriptors of a process. Most have one. But a thread may have its own, and where the first
thread has ended, what /proc shows of the process is empty: what is held there is nowhere else.
"""

from __future__ import annotations

import os

from husk.native._core import shares_table

ALONE = 3  # links of a directory that has one directory in it
COMPARED = 8  # tables; a process with more of them is looked at thread by thread, which finds the same, only slower


def tables_of(pid: int) -> list[bytes]:
    """Directories of /proc, one for each table; FileNotFoundError where the process has ended."""
    threads = b"/proc/%d/task" % pid
    if os.stat(threads).st_nlink == ALONE:
        return [b"/proc/%d/fd/" % pid]
    apart: list[int] = []
    for thread in map(int, os.listdir(threads)):
        if not any(shares_table(thread, other) for other in apart[:COMPARED]):
            apart.append(thread)
    return [b"/proc/%d/task/%d/fd/" % (pid, thread) for thread in apart]
