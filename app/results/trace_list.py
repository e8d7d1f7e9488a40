"""The traces of a run as a page lists them: filtered, with the beginnings of their texts."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from app.core.errors import Invalid
from app.core.keyset import (
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
from app.core.schemas import ListFilter
from app.results.models import BenchmarkRun, TraceResult
from app.traces.models import CollectedTrace
from app.traces.types import TraceOutcome

PREVIEW_CHARS = 160
# Their texts may be long.
SEARCHED_TRACES = BatchSizes(100, 2_000)


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
        default=None, description="Filter by values of `metric` below this limit."
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


class NeighborTraces(NamedTuple):
    """The IDs of the traces before and after a trace; None at the ends."""

    before: str | None
    after: str | None


def search_traces(
    session: Session, run: BenchmarkRun, trace_filter: TraceListFilter, query: PageQuery
) -> PageRows[ListedTrace]:
    """Return one page of traces, in the order of the source. Raises: `Invalid` for an unknown
    metric.
    """
    statement = (
        select(
            CollectedTrace.position, CollectedTrace.trace_id, CollectedTrace.item_id,
            CollectedTrace.trial, CollectedTrace.outcome, _beginning(CollectedTrace.input),
            _beginning(CollectedTrace.output), _beginning(CollectedTrace.error), TraceResult.values,
        )
        .outerjoin(
            TraceResult,
            (TraceResult.run_seq == run.seq) & (TraceResult.position == CollectedTrace.position),
        )
        .where(CollectedTrace.collection_id == run.collection_id)
    )  # fmt: skip
    conditions = trace_conditions(run.metric_keys or [], trace_filter)

    def find_last(cursor: str | None, row_count: int) -> list[CursorValue] | None:
        # Positions have no gaps.
        last = _first_position(cursor) + row_count - 1
        return [last] if conditions and last + 1 < (run.traces_total or 0) else None

    def read_until(last: Sequence[CursorValue] | None, part: PageQuery) -> list[ListedTrace]:
        window = match_until([CollectedTrace.position], last, descending=False)
        rows = statement.where(
            CollectedTrace.position >= _first_position(part.cursor), *conditions, *window
        )
        ordered = rows.order_by(CollectedTrace.position).limit(part.limit + 1)
        return [ListedTrace(*row) for row in session.execute(ordered)]

    batches = iter_batches(find_last, query.cursor, SEARCHED_TRACES)
    return search_page(batches, read_until, lambda trace: [trace.position], query)


def find_neighbors(session: Session, collection_id: int, position: int) -> NeighborTraces:
    """The traces before and after a position of a collection."""
    ids = {
        row.position: row.trace_id
        for row in session.execute(
            select(CollectedTrace.position, CollectedTrace.trace_id).where(
                CollectedTrace.collection_id == collection_id,
                CollectedTrace.position.in_([position - 1, position + 1]),
            )
        )
    }
    return NeighborTraces(ids.get(position - 1), ids.get(position + 1))


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
