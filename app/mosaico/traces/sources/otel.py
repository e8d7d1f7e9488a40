"""The `otel` trace source: spans that OpenTelemetry exporters sent to this service."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from mosaico.core.resources import Resources
from mosaico.traces.otel import queries
from mosaico.traces.otel.assembly import UNREAD, assemble_items, assemble_trace
from mosaico.traces.otel.facts import SERVICE
from mosaico.traces.otel.queries import ReceivedRun, TraceKey
from mosaico.traces.otel.unread import describe_unread
from mosaico.traces.production import ProductionTraces, item_id_of, parse_duration
from mosaico.traces.registry import (
    TRACE_SOURCES,
    CollectionFailed,
    SourceRun,
    SourceSpec,
    TracePage,
    TraceQuery,
    UnsupportedFilter,
)
from mosaico.traces.types import Trace

TRACES_PER_PAGE: Final = 100
# The traces of a window are ordered anew by each query.
KEYS_PER_QUERY: Final = 10_000
POLL_S: Final = 1.0
# No longer than a trace without a root is waited for.
MAX_WAIT: Final = queries.QUIET_WITHOUT_ROOT
# A run that lacks items is waited for this long after its newest span, unless the benchmark says.
SETTLE: Final = timedelta(minutes=1)
# Evaluators take longer than an agent between two items.
SCORE_SETTLE: Final = timedelta(minutes=2)
MAX_NAMES_SHOWN: Final = 10


class _Cursor(NamedTuple):
    """The place of the last read trace, the number of read traces, the time of the reading and the run."""

    rank: str
    read_count: int
    as_of: datetime
    run_name: str | None = None

    def after(self, last_rank: Sequence[str], count: int) -> "_Cursor":
        """The cursor after `count` more traces; `last_rank` is empty when there are none."""
        rank = last_rank[0] if last_rank else self.rank
        return self._replace(rank=rank, read_count=self.read_count + count)

    def encode(self) -> str:
        return json.dumps([self.rank, self.read_count, self.as_of.isoformat(), self.run_name])

    @classmethod
    def decode(cls, text: str) -> "_Cursor":
        rank, read_count, as_of, run_name = json.loads(text)
        return cls(rank, read_count, datetime.fromisoformat(as_of), run_name)


class _Unread:
    """The attributes of the traces so far that may hold texts and are not understood."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def warn(self, traces: Sequence[Trace]) -> str | None:
        """The warning of the run after further traces; None while all are understood."""
        for trace in traces:
            if names := trace.attributes.get(UNREAD):
                self._names |= dict.fromkeys(names.split(", "))
        return describe_unread(self._names) if self._names else None


class _RunGrowth:
    """Whether further spans of a run are expected: those of items, or of evaluators that score its answers."""

    def __init__(self, resources: Resources, query: TraceQuery) -> None:
        self._resources = resources
        self._query = query
        self._counted: ReceivedRun | None = None
        self._answers = self._unscored = 0

    def is_expected(self, run: ReceivedRun, now: datetime) -> bool:
        """Return whether the source waits; the wait is longer while something is missing."""
        if not run.is_quiet(now):
            return True
        expected = self._query.expect_items
        lacks_items = isinstance(expected, int) and run.items < self._query.min_coverage * expected
        if lacks_items and not run.is_quiet(now, _settle_time(self._query)):
            return True
        return not run.is_quiet(now, _score_settle_time(self._query)) and self._lacks_scores(run)

    def describe(self) -> str | None:
        """What the source waits for, in words; None for further items."""
        if not self._unscored:
            return None
        names = ", ".join(self._query.score_names)
        scored = self._answers - self._unscored
        return f"scores of evaluators: {scored} of {self._answers} answers have {names}"

    def _lacks_scores(self, run: ReceivedRun) -> bool:
        # Once for each state of the run: its traces are assembled.
        if self._query.score_names and run != self._counted:
            self._counted, missing = run, [*map(self._query.count_missing_scores, self._items(run))]
            self._answers, self._unscored = len(missing), sum(map(bool, missing))
        return self._unscored > 0

    def _items(self, run: ReceivedRun) -> Iterator[Trace]:
        dataset, after = _require_dataset(self._query), ""
        while True:
            with self._resources.db.read() as session:
                trace_ids = queries.list_run_trace_ids(
                    session, dataset, run.name, after, TRACES_PER_PAGE, self._query.service_name
                )
                yield from list(_read_items(session, trace_ids, dataset, run.name))
            if len(trace_ids) < TRACES_PER_PAGE:
                return
            after = trace_ids[-1]


def _read_items(
    session: Session, trace_ids: Sequence[str], dataset: str, run_name: str
) -> Iterator[Trace]:
    """The items of a run in some traces."""
    for spans in queries.read_spans_by_trace(session, trace_ids):
        yield from assemble_items(spans, dataset, run_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSource:
    """Reads `otel_spans`: an experiment run of a dataset, or the traces of a window.

    It first waits, for at most 15 minutes, until no further spans are expected.
    """

    resources: Resources
    pause: Callable[[float], None] = time.sleep

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        production = query.production
        if production is None:
            yield from self._run_pages(query, cursor)
        else:
            _require_supported(production)
            yield from self._window_pages(_of_service(production, query.service_name), cursor)

    def _run_pages(self, query: TraceQuery, text: str | None) -> Iterator[TracePage]:
        dataset = _require_dataset(query)
        cursor = _Cursor.decode(text) if text else self._start(self._get_run(query).name)
        query = replace(query, run_name=cursor.run_name)
        if not cursor.rank:
            growth = _RunGrowth(self.resources, query)
            yield from self._wait(
                cursor,
                lambda now: growth.is_expected(self._get_run(query), now),
                _longest_wait(query),
                growth.describe,
            )
            cursor = self._start(cursor.run_name)
        unread = _Unread()
        # Once: to count the items takes longer than to read a page.
        run = self._get_run(query)
        is_last = False
        while not is_last:
            with self.resources.db.read() as session:
                trace_ids = queries.list_run_trace_ids(
                    session, dataset, run.name, cursor.rank, TRACES_PER_PAGE, query.service_name
                )
                traces = tuple(_read_items(session, trace_ids, dataset, run.name))
            is_last = len(trace_ids) < TRACES_PER_PAGE
            cursor = cursor.after(trace_ids[-1:], len(traces))
            yield TracePage(
                traces=traces,
                cursor=None if is_last else cursor.encode(),
                total=run.items,
                as_of=cursor.as_of,
                run_name=run.name,
                run_id=run.name,
                run_at=_to_time(run.start_ns),
                warning=unread.warn(traces),
            )

    def _window_pages(self, production: ProductionTraces, text: str | None) -> Iterator[TracePage]:
        cursor = _Cursor.decode(text) if text else self._start()
        if not cursor.rank:
            yield from self._wait(
                cursor, lambda now: self._has_open_traces(production, now), MAX_WAIT
            )
            # Roots that are not expected any more are judged by the time after the wait.
            cursor = self._start()
        with self.resources.db.read() as session:
            total = queries.count_window(session, production)
        if production.sample_size is not None:
            total = min(total, production.sample_size)
        unread = _Unread()
        for keys, is_last in self._key_pages(production, cursor):
            cursor = cursor.after([key.rank for key in keys[-1:]], len(keys))
            traces = tuple(self._read_window_traces(production, keys))
            yield TracePage(
                traces=traces,
                cursor=None if is_last else cursor.encode(),
                total=total,
                as_of=cursor.as_of,
                warning=unread.warn(traces),
            )

    def _key_pages(
        self, production: ProductionTraces, cursor: _Cursor
    ) -> Iterator[tuple[list[TraceKey], bool]]:
        """The traces of each page, and whether it is the last page."""
        rank, read_count, is_end = cursor.rank, cursor.read_count, False
        while not is_end:
            limit = KEYS_PER_QUERY
            if production.sample_size is not None:
                limit = min(limit, production.sample_size - read_count)
            with self.resources.db.read() as session:
                keys = queries.list_window_keys(session, production, cursor.as_of, rank, limit)
            is_end = len(keys) < KEYS_PER_QUERY
            for start in range(0, max(len(keys), 1), TRACES_PER_PAGE):
                end = start + TRACES_PER_PAGE
                yield keys[start:end], is_end and end >= len(keys)
            rank = keys[-1].rank if keys else rank
            read_count += len(keys)

    def _read_window_traces(
        self, production: ProductionTraces, keys: Sequence[TraceKey]
    ) -> Iterator[Trace]:
        trace_ids = [key.trace_id for key in keys]
        with self.resources.db.read() as session:
            traces = {
                spans[0].trace_id: assemble_trace(spans)
                for spans in queries.read_spans_by_trace(session, trace_ids)
            }
        for trace_id in trace_ids:
            # A trace can be deleted since the page was planned.
            if (trace := traces.get(trace_id)) is not None:
                yield replace(trace, item_id=item_id_of(production.item_key, trace))

    def _start(self, run_name: str | None = None) -> _Cursor:
        return _Cursor("", 0, self.resources.clock(), run_name)

    def _wait(
        self,
        cursor: _Cursor,
        is_active: Callable[[datetime], bool],
        longest: timedelta,
        describe: Callable[[], str | None] = lambda: None,
    ) -> Iterator[TracePage]:
        """Yield heartbeats while further spans are expected, until the limit; `describe` says for what."""
        while (now := self.resources.clock()) < cursor.as_of + longest and is_active(now):
            yield TracePage(traces=(), cursor=cursor.encode(), waiting_for=describe())
            self.pause(POLL_S)

    def _has_open_traces(self, production: ProductionTraces, now: datetime) -> bool:
        with self.resources.db.read() as session:
            return queries.count_open_traces(session, production, now) > 0

    def _get_run(self, query: TraceQuery) -> ReceivedRun:
        """The run with the name of the query, or the newest run. Raises: `CollectionFailed`."""
        dataset = _require_dataset(query)
        with self.resources.db.read() as session:
            runs = queries.list_received_runs(session, dataset, query.run_name, query.service_name)
            all_runs = runs or queries.list_received_runs(
                session, dataset, service_name=query.service_name
            )
        if not runs:
            raise _run_not_found(dataset, query.run_name, all_runs)
        return runs[0]


def list_runs(resources: Resources, query: TraceQuery) -> Sequence[SourceRun]:
    """The runs of the query's dataset, the newest first; a run without new spans is complete."""
    dataset = _require_dataset(query)
    with resources.db.read() as session:
        runs = queries.list_received_runs(session, dataset, service_name=query.service_name)
    now = resources.clock()
    return [
        SourceRun(
            id=run.name,
            name=run.name,
            started_at=_to_time(run.start_ns),
            ended_at=_to_time(run.end_ns),
            items=run.items,
            complete=run.is_quiet(now),
        )
        for run in runs
    ]


def _of_service(production: ProductionTraces, service_name: str | None) -> ProductionTraces:
    if service_name is None:
        return production
    metadata = {**production.filters.metadata, SERVICE: service_name}
    filters = production.filters.model_copy(update={"metadata": metadata})
    return production.model_copy(update={"filters": filters})


def _settle_time(query: TraceQuery) -> timedelta:
    return SETTLE if query.settle_for is None else parse_duration(query.settle_for)


def _score_settle_time(query: TraceQuery) -> timedelta:
    return SCORE_SETTLE if query.settle_for is None else parse_duration(query.settle_for)


def _longest_wait(query: TraceQuery) -> timedelta:
    return max(MAX_WAIT, _settle_time(query))


def _require_dataset(query: TraceQuery) -> str:
    if query.dataset_ref is None:
        raise CollectionFailed(
            "the benchmark has no dataset; set its datasetRef to the value of the attribute "
            "mosaico.dataset, or set production to read the traces of a time window",
            code="DATASET_NOT_FOUND",
        )
    return query.dataset_ref


def _require_supported(production: ProductionTraces) -> None:
    if production.filters.score is not None:
        raise UnsupportedFilter(
            "OpenTelemetry spans have no scores to filter by; remove the score from"
            " production.filters"
        )


def _run_not_found(
    dataset: str, run_name: str | None, runs: Sequence[ReceivedRun]
) -> CollectionFailed:
    if not runs:
        return CollectionFailed(
            f"no spans of the dataset {dataset!r} have been received; send spans with the attributes"
            " mosaico.dataset, mosaico.run and mosaico.item_id to /v1/traces",
            code="DATASET_NOT_FOUND",
        )
    names = ", ".join(repr(run.name) for run in runs[:MAX_NAMES_SHOWN])
    return CollectionFailed(
        f"the dataset {dataset!r} has no run {run_name!r}; its newest runs are {names}",
        code="RUN_NOT_FOUND",
    )


def _to_time(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=nanoseconds // 1000)


TRACE_SOURCES.register(
    "otel",
    SourceSpec(
        title="OpenTelemetry",
        open=lambda resources: OtelSource(resources=resources),
        list_runs=list_runs,
        reads_production=True,
        has_late_scores=True,
    ),
)
