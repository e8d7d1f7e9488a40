"""Deleting a million traces: batches of DELETE in one table against dropped partitions by collection.

The tables have the columns and indexes of `collected_traces`. docs/research/partitions.md has the figures.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.result_rows import BenchRow
from mosaico.core.migrations import upgrade
from mosaico.runs.retention import ROWS_PER_BATCH
from tests.support.postgres import cluster, drop_database, make_database

COLLECTIONS: Final = 200
TRACES: Final = 10_000
PARTITIONS: Final = 20
DELETED: Final = COLLECTIONS // 2
LOOKUPS: Final = 2_000
PLAIN, PARTED = "plain_traces", "parted_traces"

COPY_TABLE: Final = "CREATE TABLE {name} (LIKE collected_traces INCLUDING ALL) {partitioned}"
FILL: Final = """
    INSERT INTO {name} (collection_id, position, trace_id, item_id, trial, outcome, tags, input, output)
    SELECT collection, n, md5(collection || '/' || n), 'case-' || n, 1, 'scored', '{{}}',
           repeat('how are the bikes rented? ', 4), repeat('by the day, with warm batteries ', 20)
    FROM generate_series(1, {collections}) AS collection, generate_series(0, {last}) AS n
"""
LOOK_UP: Final = "SELECT trace_id FROM {name} WHERE collection_id = %s AND position = %s"


def measure() -> Iterator[BenchRow]:
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        drop_database(running.url, "bench_partitions")
        url = make_database(running.url, "bench_partitions")
        upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            fills = _fill(connection)
            lookups = {name: _lookup_us(connection, name) for name in (PLAIN, PARTED)}
            batches, drops = _delete(connection), _drop(connection)
            wait_ms = _drop_beside_reader(connection, url)
    yield BenchRow(
        "delete", "partitions drop faster", sum(drops) / sum(batches), sum(drops) < sum(batches),
        f"{DELETED * TRACES:,} traces: {len(batches)} batches of {ROWS_PER_BATCH} in {sum(batches) / 1000:.1f} s"
        f" (worst {max(batches):.0f} ms), {len(drops)} dropped partitions in {sum(drops):.0f} ms",
    )  # fmt: skip
    yield BenchRow(
        "write and read", "partitions cost nothing", fills[PARTED] / fills[PLAIN],
        fills[PARTED] <= 1.05 * fills[PLAIN],
        f"written in {fills[PLAIN]:.1f} s, with partitions {fills[PARTED]:.1f} s; one trace read in"
        f" {lookups[PLAIN]:.0f} and {lookups[PARTED]:.0f} µs",
    )  # fmt: skip
    yield BenchRow(
        "drop blocks", "a reader of another collection is not waited for", wait_ms / 100, wait_ms < 100,
        f"DROP beside an open read of another partition waited {wait_ms:.0f} ms, until its lock_timeout;"
        " every statement behind it waits as long",
    )  # fmt: skip


def _fill(connection: psycopg.Connection) -> dict[str, float]:
    """Seconds to write each table."""
    _execute(connection, COPY_TABLE.format(name=PLAIN, partitioned=""))
    _execute(
        connection, COPY_TABLE.format(name=PARTED, partitioned="PARTITION BY RANGE (collection_id)")
    )
    step = COLLECTIONS // PARTITIONS
    for number in range(PARTITIONS):
        first = 1 + number * step
        _execute(
            connection,
            f"CREATE TABLE part_{number} PARTITION OF {PARTED} FOR VALUES FROM ({first}) TO ({first + step})",
        )
    seconds = {}
    for name in (PLAIN, PARTED):
        statement = FILL.format(name=name, collections=COLLECTIONS, last=TRACES - 1)
        seconds[name] = _execute(connection, statement) / 1000
        _execute(connection, f"ANALYZE {name}")
    return seconds


def _lookup_us(connection: psycopg.Connection, name: str) -> float:
    statement = LOOK_UP.format(name=name).encode()
    began = time.perf_counter()
    for number in range(LOOKUPS):
        # Scattered over the table, so that no page of it is read again at once.
        key = [1 + number % COLLECTIONS, number * 7 % TRACES]
        assert connection.execute(statement, key).fetchone() is not None
    return (time.perf_counter() - began) / LOOKUPS * 1e6


def _delete(connection: psycopg.Connection) -> list[float]:
    """Milliseconds of each batch, as a purge deletes: a range of positions of one collection."""
    return [
        _execute(
            connection,
            f"DELETE FROM {PLAIN} WHERE collection_id = {collection}"
            f" AND position BETWEEN {first} AND {first + ROWS_PER_BATCH - 1}",
        )
        for collection in range(1, DELETED + 1)
        for first in range(0, TRACES, ROWS_PER_BATCH)
    ]


def _drop(connection: psycopg.Connection) -> list[float]:
    """Milliseconds of each dropped partition; the same traces as in `_delete`."""
    # Half of the partitions have half of the collections.
    count = PARTITIONS * DELETED // COLLECTIONS
    return [_execute(connection, f"DROP TABLE part_{number}") for number in range(count)]


def _drop_beside_reader(connection: psycopg.Connection, url: str) -> float:
    """Milliseconds that a DROP waits while a transaction that read the table is open; at most 2 s."""
    with psycopg.connect(url) as reader:
        reader.execute(f"SELECT count(*) FROM {PARTED} WHERE collection_id < 0".encode())
        reader.execute(LOOK_UP.format(name=PARTED).encode(), [COLLECTIONS, 0])
        # Without it the DROP would wait for ever: the reader ends after it, in the same thread.
        _execute(connection, "SET lock_timeout = '2s'")
        began = time.perf_counter()
        with suppress(psycopg.errors.LockNotAvailable):
            _execute(connection, f"DROP TABLE part_{PARTITIONS - 2}")
        return (time.perf_counter() - began) * 1000


def _execute(connection: psycopg.Connection, statement: str) -> float:
    """Milliseconds of a statement."""
    began = time.perf_counter()
    connection.execute(statement.encode())
    return (time.perf_counter() - began) * 1000
