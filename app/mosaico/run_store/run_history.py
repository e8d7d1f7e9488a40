"""Typed reads of earlier runs: their KPI values, aggregates, item sums and changed traces."""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    SQLColumnExpression,
    exists,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.orm import Session

from mosaico.kpis.judge_types import KpiCorrection
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.aggregate import Aggregate
from mosaico.run_store.models import POSITION, BenchmarkRun, RunMetricAggregate, TraceResult
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.run_store.sql_means import mean_of
from mosaico.statistics.passes import read_passes
from mosaico.traces.models import CollectedTrace

SelectT = TypeVar("SelectT", bound=Select[*tuple[Any, ...]])

MAX_AGENTS = 50
MAX_SEQ: Final = 2**63 - 1

# An aggregate has its number of traces under another name.
_SHARED_FIELDS: Final = [
    field.name
    for field in fields(Aggregate)
    if field.name not in {"count", "percentiles", "passes"}
]


class PastRun(NamedTuple):
    """A run that has ended; `night` is its place, see `mosaico.run_store.models.POSITION`. `same_data_as`
    is the ID of the run whose data it repeats, and `is_accepted` says that its level was accepted.
    """

    seq: int
    id: str
    status: str
    validity: str | None
    fingerprint: str | None
    completed_at: datetime
    traces: int | None
    night: int
    has_new_data: bool = True
    is_late: bool = False
    is_rescored: bool = False
    same_data_as: str | None = None
    is_accepted: bool = False

    @property
    def is_other_data(self) -> bool:
        """Whether a rescored run has values that its origin does not have: for the night of its origin."""
        return self.is_rescored and self.same_data_as is None

    @property
    def is_valid(self) -> bool:
        return self.status == RunStatus.COMPLETED and self.validity == Validity.VALID


class PastKpi(NamedTuple):
    """A KPI value of an earlier run, with the formula and the verdict of that time."""

    run_seq: int
    name: str
    value: float | None
    undefined_reason: str | None
    formula: str
    direction: str
    unit: str | None
    verdict: ValueVerdict | None
    correction: KpiCorrection | None


class PastMetric(NamedTuple):
    """The aggregate of one metric over an earlier run, with its verdict."""

    aggregate: Aggregate
    verdict: ValueVerdict | None


class ChangedTrace(NamedTuple):
    """A trace that changed for the worse, with the mean of its item in the run before."""

    trace_id: str
    item_id: str
    url: str | None
    value: float
    before: float | None


def list_comparable_runs(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    *,
    fingerprint: str | None,
    besides: int,
    night: int,
    limit: int,
    excluded: Sequence[tuple[int, int | None]] = (),
) -> list[PastRun]:
    """The last valid runs of an agent with the same fingerprint whose data were new and not late, oldest first:
    all `besides` one, for no later night than `night`. `excluded` are ranges of sequence numbers, without their
    ends; None is no end.
    """
    gaps = list(_iter_gaps(excluded, MAX_SEQ))
    if not gaps:
        return []
    gap = (
        func.unnest(*(literal(ends, ARRAY(BigInteger)) for ends in zip(*gaps, strict=True)))
        .table_valued("first", "before")
        .render_derived(name="gap")
    )
    # The last runs of each gap: the planner expects few runs that pass many conditions, and reads all of them.
    run = (
        _select_ended(benchmark_id, agent_id)
        .where(
            BenchmarkRun.seq >= gap.c.first,
            BenchmarkRun.seq < gap.c.before,
            BenchmarkRun.seq != besides,
            night >= POSITION,
            BenchmarkRun.has_new_data,
            BenchmarkRun.is_late.is_(False),
            BenchmarkRun.fingerprint == fingerprint,
        )
        .order_by(BenchmarkRun.seq.desc())
        .limit(limit)
        .lateral("run")
    )
    return _last_runs(session, select(*run.c).select_from(gap).join(run, true()), run.c.seq, limit)


def _iter_gaps(spans: Sequence[tuple[int, int | None]], before: int) -> Iterator[tuple[int, int]]:
    """The ranges of sequence numbers below `before` that are in no span, each without its end."""
    first = 0
    for start, end in sorted(spans, key=lambda span: span[0]):
        if first < min(start, before):
            yield first, min(start, before)
        if end is None:
            return
        first = max(first, end)
    if first < before:
        yield first, before


def find_runs(session: Session, seqs: Iterable[int]) -> dict[int, PastRun]:
    """Runs that have ended, by sequence number; those that were deleted are missing."""
    statement = select(*_PAST_RUN_COLUMNS).where(
        BenchmarkRun.seq.in_(list(seqs)), BenchmarkRun.completed_at.is_not(None)
    )
    rows: Any = session.execute(statement)
    return {row.seq: PastRun(*row) for row in rows}


def has_unfinished_runs(session: Session, agent_id: str, *, besides: str | None = None) -> bool:
    """Return whether runs of an agent wait or run; `besides` is a run that does not count."""
    unfinished = exists().where(
        BenchmarkRun.agent_id == agent_id,
        BenchmarkRun.status.in_((RunStatus.PENDING, RunStatus.RUNNING)),
    )
    if besides is not None:
        unfinished = unfinished.where(BenchmarkRun.id != besides)
    return bool(session.scalar(select(unfinished)))


def read_plan(session: Session, run_seq: int) -> RunPlan | None:
    """The plan of a run; None when the run was deleted or never began."""
    return session.scalar(select(BenchmarkRun.plan).where(BenchmarkRun.seq == run_seq))


def list_valid_seqs(
    session: Session, benchmark_id: str, agent_id: str, first: int, before: int, *, limit: int
) -> list[int]:
    """The sequence numbers of the last valid runs of an agent with new data from `first` to before `before`, oldest
    first.
    """
    statement = select(BenchmarkRun.seq).where(
        BenchmarkRun.benchmark_id == benchmark_id,
        BenchmarkRun.agent_id == agent_id,
        BenchmarkRun.seq >= first,
        BenchmarkRun.seq < before,
        BenchmarkRun.has_new_data,
        BenchmarkRun.is_late.is_(False),
    )
    newest = session.scalars(statement.order_by(BenchmarkRun.seq.desc()).limit(limit))
    return list(newest)[::-1]


def list_ended_runs(
    session: Session,
    benchmark_id: str,
    agent_id: str,
    *,
    since: datetime | None,
    limit: int,
) -> list[PastRun]:
    """The last completed and failed runs of an agent, valid or not, oldest first."""
    statement = _select_ended(benchmark_id, agent_id)
    if since is not None:
        statement = statement.where(BenchmarkRun.completed_at >= since)
    return _last_runs(session, statement, BenchmarkRun.seq, limit)


def list_agents_with_runs(session: Session, benchmark_id: str) -> list[str]:
    """IDs of the agents that have runs of a benchmark, at most `MAX_AGENTS`."""
    statement = select(BenchmarkRun.agent_id).where(BenchmarkRun.benchmark_id == benchmark_id)
    statement = statement.distinct().order_by(BenchmarkRun.agent_id).limit(MAX_AGENTS)
    return list(session.scalars(statement))


class RunHistory:
    """The stored values of some runs. Aggregates and item sums are read once for each metric,
    however many alert rules use them.
    """

    def __init__(self, session: Session, runs: Iterable[PastRun]) -> None:
        self._session = session
        self._seqs = [run.seq for run in runs]
        self._metrics: dict[str, dict[int, PastMetric]] = {}

    def kpi_values(self, kpi_id: str) -> list[PastKpi]:
        """The values of one KPI, in no order."""
        statement = select(
            KpiHistory.run_seq,
            KpiHistory.name,
            KpiHistory.value,
            KpiHistory.undefined_reason,
            KpiHistory.formula,
            KpiHistory.direction,
            KpiHistory.unit,
            KpiHistory.verdict,
            KpiHistory.correction,
        ).where(KpiHistory.run_seq.in_(self._seqs), KpiHistory.kpi_id == kpi_id)
        return [PastKpi(*row) for row in self._session.execute(statement)]

    def metrics(self, column: str) -> Mapping[int, PastMetric]:
        """The aggregates of one metric, by the sequence number of the run."""
        self.load_metrics({column})
        return self._metrics[column]

    def load_metrics(self, columns: set[str]) -> None:
        """Read the aggregates of several metrics in one query."""
        # Read once, however many rules use the metric.
        missing = sorted(columns - self._metrics.keys())
        if not missing:
            return
        # Also for metrics that no run has, so that they are not looked up again.
        self._metrics |= {column: {} for column in missing}
        statement = select(RunMetricAggregate).where(
            RunMetricAggregate.run_seq.in_(self._seqs), RunMetricAggregate.metric.in_(missing)
        )
        for row in self._session.scalars(statement):
            self._metrics[row.metric][row.run_seq] = PastMetric(aggregate_of(row), row.verdict)

    def aggregates_of_run(self, run_seq: int) -> dict[str, Aggregate]:
        """The aggregates of one run, by column, as far as they were loaded."""
        return {
            column: metrics[run_seq].aggregate
            for column, metrics in self._metrics.items()
            if run_seq in metrics
        }


def list_changed_traces(
    session: Session,
    column: str,
    run_seq: int,
    previous_seq: int | None,
    *,
    fell: bool,
    limit: int,
) -> list[ChangedTrace]:
    """The traces of a run whose value fell (or rose) most against the mean of their item in the
    previous run, largest change first. A trace without a previous value counts from 0.
    """
    # Joined here: Postgres knows nothing of the traces of runs that have just been stored, and compared
    # each trace with each item.
    means = {} if previous_seq is None else _item_means(session, column, previous_seq)
    value = _metric_value(column)
    columns = (CollectedTrace.trace_id, CollectedTrace.item_id, CollectedTrace.url, value)
    rows = session.execute(_from_results(select(*columns)).where(*_has_value(run_seq, value)))
    changed = (ChangedTrace(*row, before=means.get(row.item_id)) for row in rows)
    return heapq.nsmallest(
        limit,
        (trace for trace in changed if trace.before is None or _harm(trace, fell=fell) > 0),
        # Nothing in two runs tells equal changes apart, and a repeated job must choose the same traces.
        key=lambda trace: (-_harm(trace, fell=fell), trace.trace_id),
    )


def _item_means(session: Session, column: str, run_seq: int) -> Mapping[str, float]:
    value = _metric_value(column)
    means = _from_results(select(CollectedTrace.item_id, mean_of(value).label("mean")))
    rows = session.execute(
        means.where(*_has_value(run_seq, value)).group_by(CollectedTrace.item_id)
    )
    return {row.item_id: row.mean for row in rows}


def _has_value(run_seq: int, value: ColumnElement[Any]) -> tuple[ColumnElement[bool], ...]:
    return BenchmarkRun.seq == run_seq, value.is_not(None)


def _harm(trace: ChangedTrace, *, fell: bool) -> float:
    """By how much a trace changed for the worse; negative for the better."""
    change = trace.value - (trace.before or 0.0)
    return -change if fell else change


_PAST_RUN_COLUMNS = (
    BenchmarkRun.seq,
    BenchmarkRun.id,
    BenchmarkRun.status,
    BenchmarkRun.validity,
    BenchmarkRun.fingerprint,
    BenchmarkRun.completed_at,
    BenchmarkRun.traces_total,
    POSITION,
    BenchmarkRun.has_new_data,
    BenchmarkRun.is_late,
    BenchmarkRun.rescore_of.is_not(None),
    BenchmarkRun.same_data_as,
    BenchmarkRun.accepted_at.is_not(None),
)


def _select_ended(benchmark_id: str, agent_id: str) -> Select[*tuple[Any, ...]]:
    return select(*_PAST_RUN_COLUMNS).where(
        BenchmarkRun.benchmark_id == benchmark_id,
        BenchmarkRun.agent_id == agent_id,
        BenchmarkRun.status.in_((RunStatus.COMPLETED, RunStatus.FAILED)),
    )


def _last_runs(
    session: Session, statement: Select[*tuple[Any, ...]], seq: SQLColumnExpression[int], limit: int
) -> list[PastRun]:
    rows = session.execute(statement.order_by(seq.desc()).limit(limit))
    # The newest runs are selected with an index in descending order; readers expect the oldest
    # first.
    return [PastRun(*row) for row in rows][::-1]


def _metric_value(column: str) -> ColumnElement[float]:
    """One metric of a row of `trace_results`; NULL for a run that does not measure it."""
    # The values of a trace are one array, in the order of the metric keys of its run: a column per
    # metric would need a migration for each new metric.
    return TraceResult.values[func.array_position(BenchmarkRun.metric_keys, column)]


def _from_results(statement: SelectT) -> SelectT:
    """Join runs, the values of their traces and the traces."""
    return (
        statement.select_from(BenchmarkRun)
        .join(TraceResult, TraceResult.run_seq == BenchmarkRun.seq)
        .join(
            CollectedTrace,
            (CollectedTrace.collection_id == BenchmarkRun.collection_id)
            & (CollectedTrace.position == TraceResult.position),
        )
    )


def aggregate_of(row: RunMetricAggregate) -> Aggregate:
    return Aggregate(
        count=row.n,
        percentiles=tuple(row.percentiles or ()),
        passes=read_passes(row.passes),
        **{name: getattr(row, name) for name in _SHARED_FIELDS},
    )
