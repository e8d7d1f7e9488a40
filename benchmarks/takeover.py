"""Row R1: how long after the death of its worker a run is complete, by the step that it was in.

A new worker is started at the moment of the kill; undisturbed, the run takes about a second.
"""

import base64
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.core.db import Database
from app.core.migrations import upgrade
from app.core.resources import Resources
from app.core.secrets import SecretBox
from app.jobs.pool import ProcessPool
from app.metrics.registry import load_metrics
from app.plugins import load_plugins
from app.postgres.server import EmbeddedPostgres
from benchmarks.rows import BenchRow
from tests.support.house import House, house_of
from tests.support.kills import STEPS, kill_in
from tests.support.service import running_service

GOAL_S = 15.0


def measure() -> Iterator[BenchRow]:
    """A worker is killed that is in each step of a run at once, of as many runs."""
    with _house() as house:
        seconds = kill_in(house, tuple(STEPS))
    for step, taken_s in seconds.items():
        yield BenchRow(
            f"R1 {step}",
            f"≤ {GOAL_S:g} s",
            taken_s / GOAL_S,
            taken_s <= GOAL_S,
            f"complete {taken_s:.1f} s after kill -9, equal to an undisturbed run",
        )


@contextmanager
def _house() -> Iterator[House]:
    load_plugins()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with EmbeddedPostgres(path / "postgres").acquire() as lease:
            upgrade(lease.url)
            resources = Resources(
                db=Database(lease.url),
                secrets=SecretBox.from_keys([base64.b64encode(secrets.token_bytes(32)).decode()]),
                data_dir=path,
                options={"langfuse_default_url": "https://cloud.langfuse.com"},
            )
            pool = ProcessPool(1, warm_up=load_metrics)
            with running_service(resources, pool) as service, house_of(service, path) as house:
                yield house
            pool.close()
            resources.db.dispose()
