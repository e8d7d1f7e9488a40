"""The shards of a run: ranges of its traces that workers measure in parallel, each once."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import text, update
from sqlalchemy.orm import Session

from mosaico.comparison.fingerprint import find_fingerprint
from mosaico.core.batches import batched
from mosaico.core.bulk_copy import (
    ARRAY_HEAD,
    NULL_FIELD,
    copy_encoded_rows,
    encode_field,
    encode_json,
)
from mosaico.core.postgres_notify import notify_streams
from mosaico.jobs.declarations import FinishRun, ScoreShard
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.queue import enqueue_many, enqueue_next
from mosaico.metrics.engine import NOT_SELECTED
from mosaico.metrics.run_value import StoredSummary
from mosaico.metrics.types import MetricNote, TraceMeasurements, note_of
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.rules import RunStatus
from mosaico.run_store.shard_ranges import ShardRange, list_shard_ranges
from mosaico.runs.leases import (
    RunEnded,
    RunLease,
    ShardLease,
    complete_shard,
    lock_leased_run,
)
from mosaico.traces.models import Collection
from mosaico.traces.queries import has_attribute
from mosaico.traces.registry import ClusterFieldUnknown, CollectionFailed

# Small enough that a killed worker repeats seconds of work and the texts of a shard fit in memory
# several times; large enough that its transaction and COPY do not dominate.
SHARD_TRACES = 2000
SHARD_BYTES = 8 * 1024 * 1024

_STORE_SHARDS = text(
    """
    INSERT INTO run_shards (run_seq, shard, first, last, fencing_token)
    SELECT :run_seq, shard, first, last, 0
    FROM unnest(CAST(:shards AS int[]), CAST(:firsts AS int[]), CAST(:lasts AS int[]))
        AS planned (shard, first, last)
    """
)

RESULT_COLUMNS = ("run_seq", "position", "values", "notes")

# Rows are encoded here as binary COPY wants them: the driver adapts an array value by value in
# Python, which took longer than all else that a worker does to write a shard.
# Source: Postgres manual, COPY § Binary Format, and `array_recv`.
FLOAT8_OID = 701

_HEAD = struct.Struct(">hiqiii")
_VALUE = struct.Struct(">id")


class MeasuredShard(NamedTuple):
    """The rows of a shard, the summaries of its columns that have a value of the whole run, and the number of
    values that earlier runs had measured.
    """

    rows: Sequence[TraceMeasurements]
    summaries: Mapping[str, StoredSummary]
    reused: int


def require_clusters(session: Session, collection_id: int, field: str) -> None:
    """Raise `CollectionFailed` when no item of a collection has `field`, the `clusterField` of the
    benchmark. Reads all traces in the worst case: never call it in a transaction that holds the lock of
    the run.
    """
    if not has_attribute(session, collection_id, field):
        raise ClusterFieldUnknown(
            f"no item has {field!r}, the clusterField of the benchmark: neither as an attribute nor as a"
            f" tag {field}:…; correct clusterField, or set it to null"
        )


def _no_traces(plan: RunPlan) -> str:
    if plan.production is None:
        return "the source has no traces for this run; check the dataset and the run name"
    window = plan.production.exact_window
    return (
        f"the source has no traces from {window.from_:%Y-%m-%d %H:%M} to {window.to:%Y-%m-%d %H:%M} UTC"
        " that pass the filters; check the window and the filters in `production` of the benchmark"
    )


def split_run(job: JobContext, lease: RunLease, run: BenchmarkRun) -> None:
    """Divide the collected traces of a run into shards, and start to measure them."""
    db = job.resources.db
    with db.read() as session:
        ranges = list_shard_ranges(
            session, lease.run_id, traces=SHARD_TRACES, size_bytes=SHARD_BYTES
        )
        plan = _with_reader(session, run, lease.plan)
        # In a read transaction of its own: it reads all items, and must not hold the lock of the
        # run meanwhile.
        fingerprint = find_fingerprint(session, run, plan)
        field = lease.plan.cluster_field
        # Of the run and not of the lease: an earlier collection may have replaced the one of the lease.
        if ranges and field is not None and run.collection_id is not None:
            require_clusters(session, run.collection_id, field)
    with db.begin() as session:
        create_shards(session, replace(lease, plan=plan), ranges, fingerprint)


def _with_reader(session: Session, run: BenchmarkRun, plan: RunPlan) -> RunPlan:
    """The plan with what read the traces, where its version is not the first one."""
    collection = session.get(Collection, run.collection_id) if run.collection_id else None
    if collection is None or collection.reader is None:
        return plan
    read = plan.model_copy(update={"reader": collection.reader})
    return read if read.reader_version != plan.reader_version else plan


def create_shards(
    session: Session,
    lease: RunLease,
    ranges: Sequence[ShardRange],
    fingerprint: str,
) -> None:
    """Create a shard and its job for each range; does nothing when the run has shards already. The
    items of the run are known now, so that its fingerprint is stored too.

    Raises: `CollectionFailed` when there is no trace to score.
    """
    if not ranges:
        raise CollectionFailed(_no_traces(lease.plan), code="NO_TRACES")
    # Positions begin at 0, so the last one tells the number of traces.
    traces = ranges[-1].last + 1
    planned = (
        update(BenchmarkRun)
        .where(
            BenchmarkRun.id == lease.run_id,
            BenchmarkRun.status == RunStatus.RUNNING,
            BenchmarkRun.fencing_token == lease.fencing_token,
            BenchmarkRun.shards_total.is_(None),
        )
        .values(
            traces_total=traces,
            traces_collected=traces,
            shards_total=len(ranges),
            fingerprint=fingerprint,
            # Without a reader it is the plan of the run already.
            **({"plan": lease.plan} if lease.plan.reader is not None else {}),
        )
        .returning(BenchmarkRun.seq)
    )
    if session.scalar(planned) is None:
        # Raises, unless the job is repeated because its worker died after the commit.
        lock_leased_run(session, lease)
        return
    for batch in batched(list(enumerate(ranges))):
        columns = {
            "shards": [shard for shard, _ in batch],
            "firsts": [shard_range.first for _, shard_range in batch],
            "lasts": [shard_range.last for _, shard_range in batch],
        }
        session.execute(_STORE_SHARDS, {"run_seq": lease.run_seq, **columns})
    # Rows and jobs become visible with the same commit: no worker can look for a missing shard.
    later_shards = [ScoreShard(run_id=lease.run_id, shard=shard) for shard in range(1, len(ranges))]
    enqueue_many(session, later_shards)
    enqueue_next(session, ScoreShard(run_id=lease.run_id, shard=0))


def store_shard(
    session: Session,
    lease: ShardLease,
    shard: MeasuredShard,
    now: datetime,
) -> None:
    """Write the values of a shard; the last shard starts the finish of the run.

    Raises: `RunEnded` when the run has ended or the lease is void.
    """
    # The shard is locked before the run, here and in `retention._lock_ended`; the other order could
    # deadlock.
    complete_shard(session, lease, now, shard.summaries)
    copy_encoded_rows(session, "trace_results", RESULT_COLUMNS, _result_rows(lease, shard.rows))
    # The run is updated in the same transaction without having been locked before: shards that are
    # stored at the same time only wait here, and exactly one of them sees the last count.
    progress = session.execute(
        update(BenchmarkRun)
        .where(BenchmarkRun.seq == lease.run_seq, BenchmarkRun.status == RunStatus.RUNNING)
        .values(
            shards_done=BenchmarkRun.shards_done + 1,
            traces_processed=BenchmarkRun.traces_processed + len(shard.rows),
            metrics_computed=BenchmarkRun.metrics_computed
            + _count_values(shard.rows)
            - shard.reused,
            metrics_reused=BenchmarkRun.metrics_reused + shard.reused,
        )
        .returning(BenchmarkRun.shards_done, BenchmarkRun.shards_total)
    ).one_or_none()
    # The run ended in the meantime: the rollback removes the rows that were copied above.
    if progress is None:
        raise RunEnded
    notify_streams(session, lease.run_id)
    # In this transaction: a worker that dies after the commit cannot leave a run without its
    # finish.
    if progress.shards_done == progress.shards_total:
        enqueue_next(session, FinishRun(run_id=lease.run_id))


def _count_values(measured: Sequence[TraceMeasurements]) -> int:
    return sum(len(row.values) - row.values.count(None) for row in measured)


def _result_rows(lease: ShardLease, measured: Sequence[TraceMeasurements]) -> Iterator[bytes]:
    for position, row in enumerate(measured, start=lease.first):
        yield encode_row(lease.run_seq, position, row.values, _notes(row) or None)


def _notes(row: TraceMeasurements) -> dict[str, MetricNote]:
    """Reasons for missing values and reasons given by judges, as `trace_results.notes` stores them."""
    notes: dict[str, MetricNote] = {
        key: note_of(why)
        for key, why in row.missing.items()
        # Most traces are outside of a filter: a value that is missing without a note is one of them.
        if why != NOT_SELECTED
    }
    for key, reason in (row.reasons or {}).items():
        notes[key] = {"reason": reason}
    return notes


def encode_row(
    run_seq: int,
    position: int,
    values: Sequence[float | None],
    notes: Mapping[str, MetricNote] | None,
) -> bytes:
    """One row: `run_seq int8, position int4, values float8[], notes jsonb`; values are not empty."""
    parts = [ARRAY_HEAD.pack(1, int(None in values), FLOAT8_OID, len(values), 1)]
    parts += [NULL_FIELD if value is None else _VALUE.pack(8, value) for value in values]
    encoded = b"".join(parts)
    # Each field is preceded by its length in bytes; the head ends with the length of the array.
    head = _HEAD.pack(4, 8, run_seq, 4, position, len(encoded))
    return b"".join(
        (head, encoded, NULL_FIELD if notes is None else encode_field(encode_json(notes)))
    )
