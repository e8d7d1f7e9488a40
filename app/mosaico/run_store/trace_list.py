"""The traces of a run as a page lists them: filtered, with the beginnings of their texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from mosaico.core.errors import Invalid
from mosaico.core.keyset import ListRows, PageQuery, PageRows, encode_cursor
from mosaico.core.schemas import ListFilter
from mosaico.metrics.types import MetricNote, MetricSkipReason
from mosaico.run_store.deciding_metric import DecidingMetric
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import TraceOutcome

PREVIEW_CHARS = 160
# Their texts may be long.
SEARCHED_TRACES = 1_000
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
    state: Literal["wrong", "failed", "missing"] | None = Field(
        default=None,
        description="`wrong`: wrong by the metric of the KPI that decides; `failed`: without an"
        " answer; `missing`: without a value of `metric`.",
    )
    metric: str | None = Field(
        default=None, description="The metric of the filters `below` and `missing`."
    )
    below: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Filter by values of `metric` below this limit.",
    )


def outcome_in_run(outcome: str, notes: Mapping[str, MetricNote] | None) -> str:
    """The outcome of a trace in a run, whose rules may excuse an error: then its values are missing for this reason."""
    if not TraceOutcome(outcome).is_agent_failure:
        return outcome
    is_excused = any(
        note.get("skipped") == MetricSkipReason.INFRA_ERROR for note in (notes or {}).values()
    )
    return TraceOutcome.INFRA_ERROR if is_excused else outcome


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
    session: Session,
    run: BenchmarkRun,
    trace_filter: TraceListFilter,
    query: PageQuery,
    decider: DecidingMetric | None = None,
) -> PageRows[ListedTrace]:
    """Return one page of traces, in the order of the source; wrong answers are those by `decider`. Raises: `Invalid`
    for an unknown metric.
    """
    statement = _select_traces(
        run,
        CollectedTrace.position, CollectedTrace.trace_id, CollectedTrace.item_id,
        CollectedTrace.trial, CollectedTrace.outcome, _beginning(CollectedTrace.input),
        _beginning(CollectedTrace.output), _beginning(CollectedTrace.error), TraceResult.values, TraceResult.notes,
    )  # fmt: skip
    page = _list_rows(run, statement, trace_filter, decider).read_page(session, query)
    width = len(ListedTrace._fields)
    return page.with_rows(
        [
            ListedTrace._make(row[:width])._replace(outcome=outcome_in_run(row.outcome, row.notes))
            for row in page.rows
        ]
    )


def count_traces(
    session: Session,
    run: BenchmarkRun,
    trace_filter: TraceListFilter,
    decider: DecidingMetric | None = None,
) -> TraceCount:
    """The number of traces that the filter selects, counted for at most `COUNT_TIME_S`. Raises: `Invalid`
    for an unknown metric.
    """
    rows = _list_rows(run, _select_traces(run, CollectedTrace.position), trace_filter, decider)
    total = run.traces_total or run.traces_collected
    if not rows.conditions:
        return TraceCount(total, is_exact=True)
    page = rows.search(session, PageQuery(total), COUNT_TIME_S)
    return TraceCount(len(page.rows), is_exact=page.next_cursor is None)


def find_neighbors(
    session: Session,
    run: BenchmarkRun,
    position: int,
    trace_filter: TraceListFilter,
    decider: DecidingMetric | None = None,
) -> NeighborTraces:
    """The traces before and after a position, of those that the filter selects. Raises: `Invalid` for an
    unknown metric.
    """
    statement = _select_traces(run, CollectedTrace.trace_id)
    query = PageQuery(1, encode_cursor([position]))

    def find_next(*, descending: bool) -> str | None:
        rows = _list_rows(run, statement, trace_filter, decider, descending=descending)
        page = rows.read_page(session, query, NEIGHBOR_TIME_S)
        return page.rows[0].trace_id if page.rows else None

    return NeighborTraces(find_next(descending=True), find_next(descending=False))


def _list_rows(
    run: BenchmarkRun,
    statement: Select[Any],
    trace_filter: TraceListFilter,
    decider: DecidingMetric | None,
    *,
    descending: bool = False,
) -> ListRows:
    return ListRows(
        statement=statement,
        keys=[CollectedTrace.position],
        descending=descending,
        conditions=trace_conditions(run.metric_keys or [], trace_filter, decider),
        batch_rows=SEARCHED_TRACES,
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
    columns: Sequence[str], trace_filter: TraceListFilter, decider: DecidingMetric | None = None
) -> list[ColumnElement[bool]]:
    """The conditions of the given filters, on collected traces joined with their results; `columns` are
    the metrics of the run, and `decider` is the one of right and wrong answers. Raises: `Invalid` for an unknown metric.
    """
    conditions: list[ColumnElement[bool]] = []
    if trace_filter.item_id:
        conditions.append(CollectedTrace.item_id == trace_filter.item_id)
    if trace_filter.state == "failed":
        conditions.append(CollectedTrace.outcome != TraceOutcome.SCORED)
    if trace_filter.state == "wrong" and decider:
        conditions.append(decider.wrong_answers(columns))
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


def _beginning(column: Any) -> Any:
    # One character more, so that a reader sees whether the text is cut.
    return func.left(column, PREVIEW_CHARS + 1)
