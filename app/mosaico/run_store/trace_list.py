"""The traces of a run as a page lists them: filtered, with the beginnings of their texts."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from mosaico.core.errors import Invalid
from mosaico.core.keyset import (
    BadCursor,
    BatchSizes,
    CursorValue,
    PageQuery,
    PageRows,
    decode_cursor,
    iter_batches,
    match_until,
    search_page,
)
from mosaico.core.schemas import ListFilter
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import TraceOutcome

PREVIEW_CHARS = 160
# Their texts may be long.
SEARCHED_TRACES = BatchSizes(100, 2_000)
COUNT_TIME_S: Final = 0.1
NEIGHBOR_TIME_S: Final = 0.1


class TraceListFilter(ListFilter):
    """Filter of traces."""

    item_id: str | None = Field(
        default=None, validation_alias="itemId", description="Filter by item."
    )
    text: str | None = Field(
        default=None, max_length=200, description="Filter by a part of an ID or of the output."
    )
    state: Literal["failed", "missing"] | None = Field(
        default=None,
        description="`failed`: without an answer; `missing`: without a value of `metric`.",
    )
    metric: str | None = Field(
        default=None, description="The metric of the filters `below` and `missing`."
    )
    below: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Filter by values of `metric` below this limit.",
    )


class ListedTrace(NamedTuple):
    """A trace with the beginnings of its texts, and its values in the order of the run's metrics."""

    position: int
    trace_id: str
    item_id: str
    trial: int
    outcome: str
    input: str | None
    output: str | None
    error: str | None
    values: list[float | None] | None


class TraceCount(NamedTuple):
    """A number of traces; not exact where counting stopped before the last trace."""

    number: int
    is_exact: bool


class NeighborTraces(NamedTuple):
    """The IDs of the traces before and after a trace; None at the ends, and where none was found in time."""

    before: str | None
    after: str | None


def search_traces(
    session: Session, run: BenchmarkRun, trace_filter: TraceListFilter, query: PageQuery
) -> PageRows[ListedTrace]:
    """Return one page of traces, in the order of the source. Raises: `Invalid` for an unknown
    metric.
    """
    statement = _select_traces(
        run,
        CollectedTrace.position, CollectedTrace.trace_id, CollectedTrace.item_id,
        CollectedTrace.trial, CollectedTrace.outcome, _beginning(CollectedTrace.input),
        _beginning(CollectedTrace.output), _beginning(CollectedTrace.error), TraceResult.values,
    )  # fmt: skip
    conditions = trace_conditions(run.metric_keys or [], trace_filter)

    def find_last(cursor: str | None, row_count: int) -> list[CursorValue] | None:
        # Positions have no gaps.
        last = _first_position(cursor) + row_count - 1
        return [last] if conditions and last + 1 < (run.traces_total or 0) else None

    def read_until(last: Sequence[CursorValue] | None, part: PageQuery) -> list[ListedTrace]:
        window = match_until([CollectedTrace.position], last)
        rows = statement.where(
            CollectedTrace.position >= _first_position(part.cursor), *conditions, *window
        )
        ordered = rows.order_by(CollectedTrace.position).limit(part.limit + 1)
        return [ListedTrace(*row) for row in session.execute(ordered)]

    batches = iter_batches(find_last, query.cursor, SEARCHED_TRACES)
    return search_page(batches, read_until, lambda trace: [trace.position], query)


def count_traces(session: Session, run: BenchmarkRun, trace_filter: TraceListFilter) -> TraceCount:
    """The number of traces that the filter selects, counted for at most `COUNT_TIME_S`. Raises: `Invalid`
    for an unknown metric.
    """
    conditions = trace_conditions(run.metric_keys or [], trace_filter)
    total = run.traces_total or run.traces_collected
    if not conditions:
        return TraceCount(total, is_exact=True)
    matching = _select_traces(run, func.count()).where(*conditions)
    number = 0
    ends_at = time.monotonic() + COUNT_TIME_S
    for window in _iter_windows(0, total):
        if time.monotonic() > ends_at:
            return TraceCount(number, is_exact=False)
        number += session.scalar(matching.where(_is_in(window))) or 0
    return TraceCount(number, is_exact=True)


def find_neighbors(
    session: Session, run: BenchmarkRun, position: int, trace_filter: TraceListFilter
) -> NeighborTraces:
    """The traces before and after a position, of those that the filter selects. Raises: `Invalid` for an
    unknown metric.
    """
    conditions = trace_conditions(run.metric_keys or [], trace_filter)
    matching = _select_traces(run, CollectedTrace.trace_id).where(*conditions).limit(1)
    end = max(run.traces_total or run.traces_collected, position + 2)

    def find_first(windows: Iterator[range], order: ColumnElement[Any]) -> str | None:
        ends_at = time.monotonic() + NEIGHBOR_TIME_S
        for window in windows:
            trace_id: str | None = session.scalar(matching.where(_is_in(window)).order_by(order))
            if trace_id is not None or time.monotonic() > ends_at:
                return trace_id
        return None

    return NeighborTraces(
        find_first(_iter_windows(position - 1, -1), CollectedTrace.position.desc()),
        find_first(_iter_windows(position + 1, end), CollectedTrace.position.asc()),
    )


def list_trials_of_item(session: Session, runs: Iterable[BenchmarkRun], item_id: str) -> list[int]:
    """The numbers of the trials of an item that any of the runs has, in order."""
    statement = (
        select(CollectedTrace.trial)
        .where(
            CollectedTrace.collection_id.in_([run.collection_id for run in runs]),
            CollectedTrace.item_id == item_id,
        )
        .distinct()
        .order_by(CollectedTrace.trial)
    )
    return list(session.scalars(statement))


def get_traces_of_item(
    session: Session, run: BenchmarkRun, item_id: str, trials: Sequence[int]
) -> dict[int, tuple[CollectedTrace, TraceResult | None]]:
    """The traces of some trials of an item in a run, by the number of the trial."""
    statement = (
        select(CollectedTrace, TraceResult)
        .outerjoin(
            TraceResult,
            (TraceResult.run_seq == run.seq) & (TraceResult.position == CollectedTrace.position),
        )
        .where(
            CollectedTrace.collection_id == run.collection_id,
            CollectedTrace.item_id == item_id,
            CollectedTrace.trial.in_(trials),
        )
        .order_by(CollectedTrace.position)
    )
    return {trace.trial: (trace, result) for trace, result in session.execute(statement)}


def trace_conditions(
    columns: Sequence[str], trace_filter: TraceListFilter
) -> list[ColumnElement[bool]]:
    """The conditions of the given filters, on collected traces joined with their results; `columns` are
    the metrics of the run. Raises: `Invalid` for an unknown metric.
    """
    conditions: list[ColumnElement[bool]] = []
    if trace_filter.item_id:
        conditions.append(CollectedTrace.item_id == trace_filter.item_id)
    if trace_filter.state == "failed":
        conditions.append(CollectedTrace.outcome != TraceOutcome.SCORED)
    if trace_filter.text:
        searched = (CollectedTrace.item_id, CollectedTrace.trace_id, CollectedTrace.output)
        matches = (column.icontains(trace_filter.text, autoescape=True) for column in searched)
        conditions.append(or_(*matches))
    if trace_filter.metric:
        if trace_filter.metric not in columns:
            raise Invalid(
                f"the run has no metric {trace_filter.metric!r}; it has {', '.join(columns)}"
            )
        # Arrays of Postgres count from 1.
        value: Any = TraceResult.values[columns.index(trace_filter.metric) + 1]
        if trace_filter.below is not None:
            conditions.append(value < trace_filter.below)
        if trace_filter.state == "missing":
            conditions.append(value.is_(None))
    return conditions


def _select_traces(run: BenchmarkRun, *columns: Any) -> Select[Any]:
    """The traces of a run with their results, if they have any."""
    return (
        select(*columns)
        .select_from(CollectedTrace)
        .outerjoin(
            TraceResult,
            (TraceResult.run_seq == run.seq) & (TraceResult.position == CollectedTrace.position),
        )
        .where(CollectedTrace.collection_id == run.collection_id)
    )


def _iter_windows(first: int, end: int) -> Iterator[range]:
    """The positions from `first` to the one before `end`, or down to the one after it, in parts that a
    statement reads in a short time. The first part is the smallest: a neighbor is often near.
    """
    step = 1 if first <= end else -1
    size = SEARCHED_TRACES.smallest
    while (end - first) * step > 0:
        stop = first + step * size
        stop = min(stop, end) if step > 0 else max(stop, end)
        yield range(first, stop, step)
        first, size = stop, min(size * 2, SEARCHED_TRACES.largest)


def _is_in(window: range) -> ColumnElement[bool]:
    return CollectedTrace.position.between(min(window[0], window[-1]), max(window[0], window[-1]))


def _beginning(column: Any) -> Any:
    # One character more, so that a reader sees whether the text is cut.
    return func.left(column, PREVIEW_CHARS + 1)


def _first_position(cursor: str | None) -> int:
    """The first position after a cursor; 0 without one."""
    if cursor is None:
        return 0
    values = decode_cursor(cursor)
    if len(values) != 1 or not isinstance(values[0], int) or not 0 <= values[0] < 1 << 31:
        raise BadCursor
    return values[0] + 1
