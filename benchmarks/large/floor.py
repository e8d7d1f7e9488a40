"""What the steps of a run cost at least: the same texts through the same libraries, without the service.

It does what a run cannot leave out: read the stored traces, hand them to a metric process, compute, store
the values, and read them for means, intervals and a comparison; before it, the upload parses and stores the
traces. The tables have the columns and indexes of the product. It checks nothing and recovers from
nothing. What it costs is a limit for E1, and for how much faster than the peer a service can be.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import psycopg

from mosaico.comparison.baseline_comparison import compute_in_child
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.core.batches import batched
from mosaico.core.bulk_copy import SIGNATURE, TRAILER
from mosaico.items.matrix import ItemMatrix, ItemRow, matrix_of_rows, pair_items
from mosaico.items.queries import MAX_ITEMS
from mosaico.metrics.engine import score_chunk
from mosaico.metrics.types import MetricRef
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.queries import ScoredTrace
from mosaico.runs.metric_columns import MetricColumns
from mosaico.runs.scoring import MAX_CHUNK_SIZE
from mosaico.runs.shards import RESULT_COLUMNS, SHARD_TRACES, encode_complete_rows
from mosaico.traces.types import Trace, TraceOutcome

TABLES: Final = """
    DROP TABLE IF EXISTS floor_traces, floor_results;
    CREATE TABLE floor_traces (LIKE collected_traces INCLUDING ALL);
    CREATE TABLE floor_results (LIKE trace_results INCLUDING ALL)
"""
DROPPED: Final = "DROP TABLE floor_traces, floor_results"
TRACE_COLUMNS: Final = {
    "collection_id": "int8",
    "position": "int4",
    "trace_id": "text",
    "item_id": "text",
    "trial": "int2",
    "outcome": "text",
    "input": "text",
    "expected_output": "text",
    "output": "text",
    "tags": "text[]",
}
READ_TRACES: Final = """
    SELECT trace_id, input, expected_output, output FROM floor_traces
    WHERE collection_id = 1 AND position BETWEEN %s AND %s ORDER BY position
"""
READ_VALUES: Final = """
    SELECT "values" FROM floor_results WHERE run_seq = 1 AND position BETWEEN %s AND %s
"""
READ_ITEMS: Final = """
    SELECT trace.item_id, result.values FROM floor_results AS result
    JOIN floor_traces AS trace ON collection_id = 1 AND trace.position = result.position
    WHERE run_seq = 1 ORDER BY trace.item_id COLLATE "C" LIMIT %s
"""
PLAN: Final = "SELECT plan FROM benchmark_runs WHERE run_name = %s"
# What a metric process imports at the first comparison.
COMPARISON_MODULES: Final = (
    "mosaico.comparison.child_computation",
    "mosaico.comparison.series_levels",
)

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
# A trace as the floor hands it to the metric process: its ID, input, expected output and output.
Texts: TypeAlias = tuple[str, str, str, str]
TraceValues: TypeAlias = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class FloorCost:
    """CPU seconds of all processes by step; the upload of the lines is not part of a run."""

    size: int
    upload_s: float
    steps: Mapping[str, float]

    @property
    def run_s(self) -> float:
        return sum(self.steps.values())

    @property
    def whole_s(self) -> float:
        return self.upload_s + self.run_s

    def __str__(self) -> str:
        """The steps in µs per trace."""
        micros = {name: seconds / self.size * 1e6 for name, seconds in self.steps.items()}
        return ", ".join(f"{name} {amount:.1f}" for name, amount in micros.items())


def measure_floor(file: Path, url: str, postgres_cpu_s: Callable[[], float]) -> FloorCost:
    """What the traces of a file cost, of which the service has a run of the same name."""
    with psycopg.connect(url, autocommit=True) as connection, ProcessPoolExecutor(1) as pool:
        [(plan,)] = connection.execute(PLAN, [file.stem]).fetchall()
        connection.execute(TABLES)
        try:
            return _Floor(connection, pool, RunPlan.model_validate(plan), postgres_cpu_s).cost(file)
        finally:
            connection.execute(DROPPED)


@dataclass(frozen=True, slots=True)
class _Floor:
    connection: Connection
    pool: ProcessPoolExecutor
    plan: RunPlan
    postgres_cpu_s: Callable[[], float]
    steps: dict[str, float] = field(default_factory=dict)

    def cost(self, file: Path) -> FloorCost:
        self._warm_up()
        with self._step("upload"), file.open() as lines:
            size = self._copy("floor_traces", TRACE_COLUMNS, _trace_rows(lines))
        shards = range(0, size, SHARD_TRACES)
        # In memory, unlike a run, so that each step is measured alone.
        with self._step("read traces"):
            texts = [self._rows(READ_TRACES, first) for first in shards]
        with self._step("hand over, compute metrics"):
            values = [self._measure(shard) for shard in texts]
        del texts
        with self._step("store values"):
            for first, shard_values in zip(shards, values, strict=True):
                self._store(first, shard_values)
        del values
        with self._step("means"):
            self._means(shards)
        with self._step("intervals, comparison"):
            self._compare()
        return FloorCost(size, self.steps.pop("upload"), self.steps)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        before = self._cpu_s()
        yield
        self.steps[name] = self._cpu_s() - before

    def _cpu_s(self) -> float:
        child_s = self.pool.submit(time.process_time).result()
        return self.postgres_cpu_s() + child_s + time.process_time()

    def _warm_up(self) -> None:
        """Imports are not part of the measured time."""
        self.pool.submit(_score, [("a", "a", "a", "a")], self.plan.refs).result()
        for module in COMPARISON_MODULES:
            self.pool.submit(_import, module).result()

    def _measure(self, texts: Sequence[Texts]) -> list[TraceValues]:
        calls = (
            self.pool.submit(_score, chunk, self.plan.refs)
            for chunk in batched(texts, MAX_CHUNK_SIZE)
        )
        return [values for call in calls for values in call.result()]

    def _store(self, first: int, values: Sequence[TraceValues]) -> None:
        columns = ", ".join(f'"{name}"' for name in RESULT_COLUMNS)
        statement = f"COPY floor_results ({columns}) FROM STDIN (FORMAT BINARY)"
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(b"".join((SIGNATURE, encode_complete_rows(1, first, values), TRAILER)))

    def _means(self, shards: Iterable[int]) -> None:
        columns = MetricColumns(self.plan.columns, trials=False)
        for first in shards:
            columns.extend(
                [
                    ScoredTrace(values, None, False, None)
                    for (values,) in self._rows(READ_VALUES, first)
                ]
            )
        columns.aggregates()

    def _compare(self) -> None:
        """The intervals of a run, and its comparison with one whose items have other values."""
        with self.connection.cursor(binary=True) as cursor:
            rows = cursor.execute(READ_ITEMS, [MAX_ITEMS]).fetchall()
        run = self._matrix(rows)
        others = [
            (item, values) for (item, _), (_, values) in zip(rows, rows[1:] + rows[:1], strict=True)
        ]
        comparison = RunComparison(plan=self.plan, kpis=(), baseline=None)
        spec = comparison.spec(run, pair_items(self._matrix(others), run))
        self.pool.submit(compute_in_child, spec, {}).result()

    def _matrix(self, rows: Iterable[tuple[Any, ...]]) -> ItemMatrix:
        columns = self.plan.columns
        item_rows = (ItemRow(1, item, "", [], values) for item, values in rows)
        return matrix_of_rows(item_rows, {1: columns}, columns)

    def _copy(
        self, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[object]]
    ) -> int:
        """Append rows, and return their number."""
        number = 0
        statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(list(columns.values()))
            for row in rows:
                copy.write_row(row)
                number += 1
        return number

    def _rows(self, statement: str, first: int) -> list[tuple[Any, ...]]:
        """The rows of a shard."""
        with self.connection.cursor(binary=True) as cursor:
            return cursor.execute(statement.encode(), (first, first + SHARD_TRACES - 1)).fetchall()


def _trace_rows(lines: Iterable[str]) -> Iterator[tuple[object, ...]]:
    """The rows of `TRACE_COLUMNS`."""
    for position, line in enumerate(lines):
        document = json.loads(line)
        trace_id, outcome = document["traceId"], TraceOutcome.SCORED.value
        texts = (document["input"], document["expectedOutput"], document["output"])
        yield (1, position, trace_id, trace_id, 0, outcome, *texts, [])


def _score(chunk: Sequence[Texts], refs: tuple[MetricRef, ...]) -> list[TraceValues]:
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


def _import(module: str) -> None:
    import_module(module)
