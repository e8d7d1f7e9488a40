"""D1: writing metric values, compared with narrow rows through SQLAlchemy Core."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Column, Double, MetaData, Table, Text, text
from sqlalchemy.dialects.postgresql import insert

from benchmarks.result_rows import BenchRow, interleave
from benchmarks.table_rows import insert_rows
from mosaico.core.db import Database
from mosaico.core.migrations import upgrade
from mosaico.jobs.handlers import NO_JOB
from mosaico.metrics.types import TraceMeasurements
from mosaico.runs.leases import acquire_shard_lease
from mosaico.runs.shards import SHARD_TRACES, MeasuredShard, store_shard
from tests.support.postgres import cluster, drop_database, make_database

METRICS = ("ROUGE", "BLEU", "ACCURACY", "PRECISION", "RECALL", "F1_SCORE")
SHARD = SHARD_TRACES
SHARDS = 15  # 180 000 values per round
ROUNDS = 5
NOW = datetime(2026, 11, 21, tzinfo=UTC)

D1_GOAL = 8.0

NARROW = Table(
    "narrow_values",
    MetaData(),
    Column("run_id", Text, primary_key=True),
    Column("trace_id", Text, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("value", Double, nullable=False),
)


def measure() -> Iterator[BenchRow]:
    with _database() as db:
        NARROW.create(db.engine)
        shards = _shards()
        runs = iter(range(2 * ROUNDS))
        seconds = interleave(
            lambda: _write_ours(db, next(runs), shards),
            lambda: _write_narrow(db, next(runs), shards),
            repeat=ROUNDS,
        )
        values = SHARDS * SHARD * len(METRICS)
        ratio = seconds.peer_seconds / seconds.ours_seconds
        yield BenchRow(
            "D1",
            f"≥ {D1_GOAL:g}× narrow rows by SQLAlchemy executemany, both idempotent",
            ratio,
            ratio >= D1_GOAL,
            f"{values} values: {values / seconds.ours_seconds:,.0f} per second"
            f" compared with {values / seconds.peer_seconds:,.0f}",
        )


def _write_ours(db: Database, number: int, shards: list[list[TraceMeasurements]]) -> None:
    """Acquire the shard, then write it in one transaction, as a worker does."""
    run_id = _make_run(db, number)
    for shard, measured in enumerate(shards):
        lease = acquire_shard_lease(db, run_id, shard, NO_JOB)
        assert lease is not None
        with db.begin() as session:
            store_shard(session, lease, MeasuredShard(measured, {}, 0), NOW)


def _write_narrow(db: Database, number: int, shards: list[list[TraceMeasurements]]) -> None:
    statement = insert(NARROW).on_conflict_do_nothing()
    for measured in shards:
        with db.begin() as session:
            session.execute(
                statement,
                [
                    {
                        "run_id": f"run-{number}",
                        "trace_id": row.trace_id,
                        "metric": metric,
                        "value": value,
                    }
                    for row in measured
                    for metric, value in zip(METRICS, row.values, strict=True)
                ],
            )


def _make_run(db: Database, number: int) -> str:
    """A running run with its shards, before the first one is measured."""
    plan = (
        '{"benchmark_id":"b","benchmark_revision":1,"agent_id":"a","agent_revision":1,'
        '"source":"local","dataset_ref":"d","run_name":null,"metrics":[],"kpis":[],'
        '"min_coverage":0.9,"max_error_share":0.05}'
    )
    with db.begin() as session:
        session.execute(
            text(
                "INSERT INTO benchmark_runs (id, benchmark_id, agent_id, status, triggered_by,"
                " retry_count, collection_id, plan, fencing_token, shards_total, shards_done,"
                " traces_collected, traces_processed, metrics_computed)"
                " SELECT :id, 'b', 'a', 'RUNNING', 'MANUAL', 0, min(id), cast(:plan AS jsonb), 0,"
                " :total, 0, 0, 0, 0 FROM collections"
            ),
            # One shard more than is written: with its last shard a run would begin to finish.
            {"id": f"run-{number}", "plan": plan, "total": SHARDS + 1},
        )
        session.execute(
            text(
                "INSERT INTO run_shards (run_seq, shard, first, last, fencing_token)"
                " SELECT run.seq, n, n * :size, (n + 1) * :size - 1, 0"
                " FROM benchmark_runs AS run, generate_series(0, :last) AS n WHERE run.id = :id"
            ),
            {"id": f"run-{number}", "size": SHARD, "last": SHARDS - 1},
        )
    return f"run-{number}"


def _shards() -> list[list[TraceMeasurements]]:
    chance = random.Random(20_261_121)
    return [
        [
            TraceMeasurements(
                trace_id=f"{chance.getrandbits(128):032x}",
                values=tuple(chance.random() for _ in METRICS),
                missing={},
            )
            for _ in range(SHARD)
        ]
        for _ in range(SHARDS)
    ]


@contextmanager
def _database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench")
        url = make_database(running.url, "bench")
        upgrade(url)
        db = Database(url, pool_size=2, name="bench")
        with db.begin() as session:
            insert_rows(session, "agents", {"id": "'a'"})
            insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
            insert_rows(session, "collections", {"source": "'local'", "query": "'{}'"})
        yield db
        db.dispose()
