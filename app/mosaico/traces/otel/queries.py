"""Reads of received spans: runs of experiments, traces of a window, and the spans of traces."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, cast, exists, func, or_, select, text, tuple_
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.traces.models import OtelSpan, OtelTrace
from mosaico.traces.otel.facts import SERVICE
from mosaico.traces.otel.spans import Span, StoredSpan, load_span
from mosaico.traces.production import ProductionTraces, TraceFilters

MAX_RUNS_LISTED: Final = 200
# A trace with its root is complete when no span came for this long: exporters send every 5 s.
QUIET: Final = timedelta(seconds=30)
# A root may never come, for example because the process was killed.
QUIET_WITHOUT_ROOT: Final = timedelta(minutes=15)
SPANS_PER_FETCH: Final = 500


class ReceivedRun(NamedTuple):
    """A run of an experiment; `items` counts its items, once per trace."""

    name: str
    items: int
    start_ns: int
    end_ns: int
    last_received_at: datetime

    def is_quiet(self, now: datetime, quiet: timedelta = QUIET) -> bool:
        """Return whether no span of the run has arrived for a while, so the run has
        probably ended.
        """
        return self.last_received_at <= now - quiet


class TraceKey(NamedTuple):
    """A trace and its place in the order in which the traces of a window are read."""

    rank: str
    trace_id: str


def list_received_runs(
    session: Session, dataset: str, run_name: str | None = None, service_name: str | None = None
) -> list[ReceivedRun]:
    """The runs of a dataset, the newest first; with names only that run, and items of that service."""
    statement = (
        select(
            OtelSpan.run_name,
            func.count(func.distinct(tuple_(OtelSpan.trace_id, OtelSpan.item_id))),
            func.min(OtelSpan.start_ns).label("start_ns"),
            func.max(OtelSpan.end_ns),
            func.max(OtelTrace.last_received_at),
        )
        .join(OtelTrace, OtelTrace.trace_id == OtelSpan.trace_id)
        .where(OtelSpan.dataset == dataset, OtelSpan.item_id.is_not(None))
        .group_by(OtelSpan.run_name)
        .order_by(func.min(OtelSpan.start_ns).desc())
        .limit(MAX_RUNS_LISTED)
    )
    if run_name is not None:
        statement = statement.where(OtelSpan.run_name == run_name)
    if service_name is not None:
        statement = statement.where(_is_of_service(service_name))
    # Not None: a span with an item has a run.
    return [
        ReceivedRun(row[0] or "", row[1], row[2], row[3], row[4])
        for row in session.execute(statement)
    ]


def list_run_trace_ids(
    session: Session,
    dataset: str,
    run_name: str,
    after: str,
    limit: int,
    service_name: str | None,
) -> list[str]:
    """The IDs of the traces of a run in their order, from the first one behind `after`; with a service
    those with an item of it.
    """
    statement = (
        select(OtelSpan.trace_id)
        .where(
            OtelSpan.dataset == dataset,
            OtelSpan.run_name == run_name,
            OtelSpan.item_id.is_not(None),
            OtelSpan.trace_id > after,
        )
        .distinct()
        .order_by(OtelSpan.trace_id)
        .limit(limit)
    )
    if service_name is not None:
        statement = statement.where(_is_of_service(service_name))
    return list(session.scalars(statement))


def list_window_keys(
    session: Session, production: ProductionTraces, as_of: datetime, after: str, limit: int
) -> list[TraceKey]:
    """The next traces of a window that can be read: by time, or those of a sample by their rank."""
    if production.sample_size is None:
        # Fixed width, so that texts have the order of times.
        rank: ColumnElement[str] = func.to_char(
            func.timezone("UTC", OtelTrace.occurred_at), 'YYYY-MM-DD"T"HH24:MI:SS.US'
        ).concat(OtelTrace.trace_id)
    else:
        rank = func.md5(f"{production.seed}:" + OtelTrace.trace_id)
    statement = (
        select(rank, OtelTrace.trace_id)
        .where(_in_window(production), _is_readable(as_of), rank > after)
        .order_by(rank)
        .limit(limit)
    )
    _allow_long_statement(session)
    return [TraceKey(*row) for row in session.execute(statement)]


def count_window(session: Session, production: ProductionTraces) -> int:
    """The number of traces in a window, of which a sample is read at most in its size."""
    _allow_long_statement(session)
    return session.scalars(_count_traces(_in_window(production))).one()


def count_open_traces(session: Session, production: ProductionTraces, now: datetime) -> int:
    """The number of traces in a window that probably receive further spans."""
    is_open = or_(~_is_readable(now), OtelTrace.last_received_at > now - QUIET)
    _allow_long_statement(session)
    return session.scalars(_count_traces(_in_window(production), is_open)).one()


def read_spans_by_trace(session: Session, trace_ids: Sequence[str]) -> Iterator[list[Span]]:
    """The spans of traces, one trace after the other in the order of their IDs."""
    statement = (
        select(
            OtelSpan.trace_id,
            OtelSpan.span_id,
            OtelSpan.parent_id,
            OtelSpan.name,
            OtelSpan.start_ns,
            OtelSpan.end_ns,
            OtelSpan.content,
        )
        .where(OtelSpan.trace_id.in_(trace_ids))
        .order_by(OtelSpan.trace_id, OtelSpan.start_ns, OtelSpan.span_id)
        .execution_options(yield_per=SPANS_PER_FETCH)
    )
    spans = (load_span(StoredSpan(*row)) for row in session.execute(statement))
    for _, group in groupby(spans, key=lambda span: span.trace_id):
        yield list(group)


def _count_traces(*conditions: ColumnElement[bool]) -> Select[int]:
    return select(func.count()).select_from(OtelTrace).where(*conditions)


def _allow_long_statement(session: Session) -> None:
    """A window can hold a million traces: more than the limit that protects requests allows."""
    session.execute(text("SET LOCAL statement_timeout = '60s'"))


def _is_readable(as_of: datetime) -> ColumnElement[bool]:
    """Return whether the root has arrived, or is no longer expected."""
    return or_(OtelTrace.has_root, OtelTrace.last_received_at <= as_of - QUIET_WITHOUT_ROOT)


def _in_window(production: ProductionTraces) -> ColumnElement[bool]:
    window = production.exact_window
    return and_(
        OtelTrace.occurred_at >= window.from_,
        OtelTrace.occurred_at < window.to,
        *_filter_conditions(production.filters),
    )


def _filter_conditions(filters: TraceFilters) -> Iterator[ColumnElement[bool]]:
    """One condition per filter; a trace passes when one of its spans states the value."""
    for fact, values in (
        ("name", [filters.name]),
        ("release", [filters.release]),
        ("version", [filters.version]),
        ("environment", filters.environment),
        ("user", filters.user),
        ("session", filters.session),
    ):
        stated_values = [value for value in values if value is not None]
        if stated_values:
            yield _some_span(OtelSpan.facts[fact].astext.in_(stated_values))
    for tag in filters.tags:
        yield _some_span(_facts_contain({"tags": [tag]}))
    for key, value in filters.metadata.items():
        yield _some_span(_facts_contain({"metadata": {key: value}}))


def _is_of_service(name: str) -> ColumnElement[bool]:
    return _facts_contain({"metadata": {SERVICE: name}})


def _some_span(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(OtelSpan.trace_id == OtelTrace.trace_id, condition)


def _facts_contain(part: dict[str, Any]) -> ColumnElement[bool]:
    return OtelSpan.facts.contains(cast(part, JSONB))
