"""What the steps of a run cost at least: the same texts through the same libraries, without the service.

It does what a run cannot leave out: read the uploaded lines, parse them, store the traces, read them
again, hand them to a metric process, compute, store the values, and read them for the means. It checks
nothing, recovers from nothing, and stores the fewest columns. What it costs is a limit for E1.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg

from app.core.bulk_copy import SIGNATURE, TRAILER
from app.metrics.engine import score_chunk
from app.metrics.types import MetricRef
from app.runs.scoring import MAX_CHUNK_SIZE
from app.runs.shards import SHARD_TRACES, encode_row
from app.traces.types import Trace

TABLES: Final = """
    DROP TABLE IF EXISTS floor_lines, floor_traces, floor_values;
    CREATE TABLE floor_lines (position int PRIMARY KEY, line text);
    CREATE TABLE floor_traces
        (position int PRIMARY KEY, trace_id text UNIQUE, input text, expected text, output text);
    CREATE TABLE floor_values
        (run bigint, position int, "values" float8[], notes jsonb, PRIMARY KEY (run, position))
"""
DROPPED: Final = "DROP TABLE floor_lines, floor_traces, floor_values"
TEXTS: Final = ("traceId", "input", "expectedOutput", "output")

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
# A trace as the floor hands it to the metric process: its ID, input, expected output and output.
Texts: TypeAlias = tuple[str, str, str, str]


def floor_cpu_s(
    file: Path, url: str, refs: tuple[MetricRef, ...], postgres_cpu_s: Callable[[], float]
) -> float:
    """CPU seconds of all processes for the traces of a file, from the stored lines to the means."""
    with (
        psycopg.connect(url, autocommit=True) as connection,
        ProcessPoolExecutor(1) as pool,
    ):
        connection.execute(TABLES)
        with file.open() as lines:
            size = _copy_texts(connection, "floor_lines", ("int4", "text"), enumerate(lines))
        # The process imports the metrics now, and not in the measured time.
        pool.submit(_score, [("a", "a", "a", "a")], refs).result()
        before = postgres_cpu_s() + pool.submit(time.process_time).result() + time.process_time()
        for first in range(0, size, SHARD_TRACES):
            _collect(connection, first)
        for first in range(0, size, SHARD_TRACES):
            _measure(connection, first, pool, refs)
        connection.execute(
            'SELECT avg(value) FROM floor_values, unnest("values") WITH ORDINALITY AS v (value, metric)'
            " GROUP BY metric"
        ).fetchall()
        after = postgres_cpu_s() + pool.submit(time.process_time).result() + time.process_time()
        connection.execute(DROPPED)
    return after - before


def _collect(connection: Connection, first: int) -> None:
    lines = _rows(connection, "line", "floor_lines", first)
    documents = (json.loads(line) for (line,) in lines)
    traces = ((first + n, *map(document.get, TEXTS)) for n, document in enumerate(documents))
    _copy_texts(connection, "floor_traces", ("int4", *["text"] * len(TEXTS)), traces)


def _measure(
    connection: Connection,
    first: int,
    pool: ProcessPoolExecutor,
    refs: tuple[MetricRef, ...],
) -> None:
    rows = iter(_rows(connection, "trace_id, input, expected, output", "floor_traces", first))
    values: list[tuple[float | None, ...]] = []
    while chunk := list(islice(rows, MAX_CHUNK_SIZE)):
        values += pool.submit(_score, chunk, refs).result()
    encoded = [encode_row(1, first + n, row, None) for n, row in enumerate(values)]
    with (
        connection.cursor() as cursor,
        cursor.copy("COPY floor_values FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.write(b"".join((SIGNATURE, *encoded, TRAILER)))


def _copy_texts(
    connection: Connection, table: str, types: Sequence[str], rows: Iterable[Sequence[object]]
) -> int:
    """Append rows, and return their number."""
    number = 0
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
            number += 1
    return number


def _rows(connection: Connection, columns: str, table: str, first: int) -> list[tuple[Any, ...]]:
    """The rows of a shard."""
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(
            f"SELECT {columns} FROM {table} WHERE position BETWEEN %s AND %s ORDER BY position",
            (first, first + SHARD_TRACES - 1),
        ).fetchall()


def _score(chunk: Sequence[Texts], refs: tuple[MetricRef, ...]) -> list[tuple[float | None, ...]]:
    """The values of some traces; runs in the metric process."""
    traces = [
        Trace(
            trace_id=trace_id,
            item_id=trace_id,
            input=question,
            expected_output=expected,
            output=output,
        )
        for trace_id, question, expected, output in chunk
    ]
    return [row.values for row in score_chunk(traces, refs)]
