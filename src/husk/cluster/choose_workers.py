"""cluster: threads of this process, or a cluster: whichever the caller names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from husk.cluster.local_workers import LocalWorkers
from husk.cluster.work import Workers

if TYPE_CHECKING:
    from distributed import Client


@contextmanager
def chosen_workers(
    cluster: str | Client | None, jobs: int = 0, *, namespaces: bool = False
) -> Iterator[Workers]:
    """Workers, while the `with` lasts. `jobs` (0: one for each processor) counts here only. `namespaces`: workers of a
    cluster must have them, because results would not be the same without."""
    if not cluster:
        yield LocalWorkers(jobs or os.cpu_count() or 1)
        return
    from husk.cluster.dask_workers import DaskWorkers  # slow to import, and so is what it imports
    from husk.cluster.fitness import NAMESPACES

    workers = DaskWorkers(cluster, wanted=NAMESPACES if namespaces else ())
    try:
        yield workers
    finally:
        workers.close()
