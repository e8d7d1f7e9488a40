"""A service behind PgBouncer that pools transactions: nothing is lost, nothing written twice."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from mosaico.core.db import Database
from mosaico.core.resources import Resources
from mosaico.jobs.process_pool import ProcessPool
from tests.support.deployment import TRACES, Deployment, deployed_service
from tests.support.kills import STEPS, kill_worker_in, run_undisturbed
from tests.support.network import network_to
from tests.support.pgbouncer import pooled_url
from tests.support.processes import until
from tests.support.service import running_service

RUNS = 3
BUSY_WORKERS = """
    SELECT count(DISTINCT worker_id) FROM procrastinate_jobs WHERE status = 'doing'
"""
POOLED_SESSIONS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name IN ('mosaico', 'mosaico-worker')
"""
POOL_SIZE = 6


@pytest.fixture
def pooled(
    service_resources: Resources, metric_pool: ProcessPool, tmp_path: Path
) -> Iterator[Deployment]:
    """A service that reaches its database through PgBouncer, and directly where it must."""
    direct_url = service_resources.db.url
    with pooled_url(direct_url, pool_size=POOL_SIZE) as url:
        db = Database(url, direct_url=direct_url)
        with (
            running_service(replace(service_resources, db=db), metric_pool) as service,
            deployed_service(service, tmp_path) as deployment,
        ):
            yield deployment
        db.dispose()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(("scoring", "finishing", "writing back"), id="some-steps"),
        pytest.param(tuple(STEPS), id="every-step", marks=pytest.mark.prove),
    ],
)
def test_pooled_connections__killed_worker_loses_and_duplicates_no_row(
    pooled: Deployment, steps: tuple[str, ...]
) -> None:
    kill_worker_in(pooled, steps, run_undisturbed(pooled))

    assert pooled.database.value(POOLED_SESSIONS) <= POOL_SIZE


def test_pooled_connections__workers_that_die_or_lose_the_network_lose_and_duplicate_nothing(
    pooled: Deployment,
) -> None:
    pooled.upload("calm")
    calm = pooled.programs.worker()
    undisturbed = pooled.start("calm")
    pooled.completed_run(undisturbed)
    expected = pooled.database.stored_run(undisturbed).results
    calm.send(signal.SIGTERM)
    assert calm.wait_for_exit() == 0
    db = pooled.service.resources.db
    # One job each, so that all three workers hold one; the metric at
    # the gate waits longer than the usual limit.
    settings = {"MOSAICO_WORKER_CONCURRENCY": "1", "MOSAICO_METRIC_TIMEOUT_S": "300"}
    with ExitStack() as networks:
        addresses, lines = {}, []
        for name, url in (
            ("DATABASE_URL", db.url),
            ("MOSAICO_DATABASE_DIRECT_URL", db.direct_url),
        ):
            server = make_url(url)
            line = networks.enter_context(network_to(str(server.host), int(server.port or 0)))
            lines.append(line)
            address = server.set(host="127.0.0.1", port=line.port)
            addresses[name] = address.render_as_string(hide_password=False)
        killed, healthy = pooled.programs.workers(2, **settings)
        [partitioned] = pooled.programs.workers(1, **settings, **addresses)
        for number in range(RUNS):
            pooled.upload(f"run-{number}", tags=["gate:busy"], tagged=0)
        runs = [pooled.start(f"run-{number}") for number in range(RUNS)]
        # Each worker holds a job at the gate.
        until(lambda: pooled.database.value(BUSY_WORKERS) == RUNS, what=healthy.log)

        killed.kill()
        for line in lines:
            line.cut()
        pooled.programs.gate("busy").open()

        for run_id in runs:
            pooled.completed_run(run_id)
        for line in lines:
            line.mend()
        # It finds that others did its job, and takes the next one.
        healthy.send(signal.SIGTERM)
        assert healthy.wait_for_exit() == 0
        pooled.upload("after")
        pooled.completed_run(pooled.start("after"))
        assert partitioned.is_running

    for run_id in runs:
        results = pooled.database.stored_run(run_id).results
        assert len(results) == TRACES
        assert results == expected
