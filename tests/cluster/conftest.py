"""A cluster on this machine, one for each file of tests: what a session keeps open would disturb those that count."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from husk.cluster.dask_workers import DaskWorkers
from tests.cluster.pieces import make_blind, make_seeing


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two worker processes, each with a nanny that starts another when it dies."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    with (
        # So that a deadly piece of work costs few deaths, and nannies get the time they need on a busy machine.
        dask.config.set({"distributed.scheduler.allowed-failures": 1, "distributed.deploy.lost-worker-timeout": "1h"}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            local_directory=str(tmp_path_factory.mktemp("workers")),
            silence_logs=logging.CRITICAL,
        ) as made,
    ):
        yield made


@pytest.fixture
def workers(cluster: Any) -> Iterator[DaskWorkers]:
    made = DaskWorkers(cluster.scheduler_address)
    yield made
    made.close()


@pytest.fixture
def blind(workers: DaskWorkers) -> Iterator[None]:
    """Tests come in any order, and the workers are those of a whole file."""
    workers._client.run(make_blind)
    yield
    workers._client.run(make_seeing)
