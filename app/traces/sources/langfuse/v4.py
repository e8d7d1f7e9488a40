"""The fourth generation of the API: experiments, their rows, and observations by experiment."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

from app.core.http.throttle import MAX_IN_FLIGHT
from app.traces.sources.langfuse.client import LangfuseClient, Parameters, get_meta, get_rows
from app.traces.sources.langfuse.errors import BadResponse, NotFoundError, PageTooLarge
from app.traces.sources.langfuse.mapping import map_row, parse_task
from app.traces.sources.langfuse.payload import (
    JSON,
    format_time,
    get_text,
    get_time_ms,
    parse_number,
    require_text,
)
from app.traces.sources.langfuse.reader import (
    ApiVersionMismatch,
    ExperimentRun,
    LangfuseDataset,
    TraceBatch,
    TraceLink,
)
from app.traces.sources.langfuse.scores import group_by_trace
from app.traces.sources.langfuse.time_windows import (
    RowPage,
    TimeWindow,
    WindowRows,
    WindowSizer,
    fetch_with_splitting,
    iter_newest_first,
)
from app.traces.sources.langfuse.usage import (
    CALL_TYPES,
    ObservedSpan,
    TaskSpan,
    parse_span,
    select_descendants,
    split_calls,
    sum_usage,
)
from app.traces.types import Trace

ROWS_PER_PAGE: Final = 100
CALLS_PER_PAGE: Final = 1000
SCORES_PER_ROW: Final = 50
MAX_NAMES_SHOWN: Final = 10

# Below this a run is one chain of pages: stretches of time would only add requests.
MIN_ROWS_TO_SPLIT: Final = 1000
TARGET_ROWS_PER_WINDOW: Final = 80
CALLS_PER_ROW: Final = 2
CALL_CONCURRENCY: Final = 2

# The API wants a lower bound; nothing in Langfuse is older than Langfuse.
EARLIEST_MS: Final = 1_577_836_800_000  # 2020-01-01
DAY_MS: Final = 86_400_000
FALLBACK_DAYS: Final = (365, 90, 14)


class _FilterCondition(NamedTuple):
    column: str
    values: Sequence[str]

    def to_json(self) -> JSON:
        """Equality is the one form in which a value may hold any character."""
        if len(self.values) == 1:
            return {
                "type": "string",
                "column": self.column,
                "operator": "=",
                "value": self.values[0],
            }
        return {
            "type": "stringOptions",
            "column": self.column,
            "operator": "any of",
            "value": list(self.values),
        }


# Servers order what began in the same minute as they like.
ORDER_SLACK_MS: Final = 60_000


class CallStream:
    """Calls of traces whose rows have not come yet; `end` is when the newest may have begun.

    Both come newest first, and a call begins after its task has: once all calls are read that
    began since a row did, all of that row's are there.
    """

    def __init__(self, pages: Iterator[RowPage], *, start: int, end: int) -> None:
        self._pages = pages
        self._start = start
        self._oldest_read = end
        self._unclaimed = defaultdict[str, list[ObservedSpan]](list)

    def read_since(self, start_ms: int) -> None:
        """Read on until every call that began at `moment` or later is there.

        Raises: `BadResponse` when the server goes in a circle: no count tells what is missing.
        """
        while self._oldest_read > start_ms - ORDER_SLACK_MS:
            page = next(self._pages, None)
            if page is None:
                self._oldest_read = self._start - ORDER_SLACK_MS
                return
            self._store(page)

    def take(self, trace_id: str) -> list[ObservedSpan]:
        """The calls of a trace, which are forgotten here."""
        return self._unclaimed.pop(trace_id, [])

    @property
    def resume_before_ms(self) -> int:
        """The calls that rows to come may need began before this time."""
        # A dictionary keeps its order: the first that waits is the newest.
        newest = next((spans[0].start for spans in self._unclaimed.values()), self._oldest_read)
        return max(newest, self._oldest_read) + ORDER_SLACK_MS

    def _store(self, page: RowPage) -> None:
        if page.loop_detected:
            raise BadResponse(
                "Langfuse gave the same page of calls twice, so that tokens and costs cannot be"
                " added up; report it to the operator of the server, then retry"
            )
        spans = [span for span in map(parse_span, page.rows) if span is not None]
        for span in spans:
            self._unclaimed[span.trace_id].append(span)
        if not page.remaining:
            self._oldest_read = self._start - ORDER_SLACK_MS
        elif page.remaining[0].cursor is None:
            self._oldest_read = page.remaining[0].end
        elif spans:
            self._oldest_read = min(span.start for span in spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class V4Reader:
    """Reads experiments; `late_scores` asks for scores that rows do not show, too."""

    client: LangfuseClient
    link: TraceLink
    now_ms: Callable[[], int]
    late_scores: bool
    api: Final = "v4"

    def find_run(self, dataset: LangfuseDataset | None, name: str | None) -> ExperimentRun | None:
        within = [] if dataset is None else [_FilterCondition("datasetId", [dataset.id])]
        if name is None:
            return self._find_newest(within, dataset)
        named = self._find_newest([*within, _FilterCondition("name", [name])], dataset)
        return named or self._find_newest([*within, _FilterCondition("id", [name])], dataset)

    def list_runs(self, dataset: LangfuseDataset) -> list[ExperimentRun]:
        rows = self._list_experiments([_FilterCondition("datasetId", [dataset.id])], ROWS_PER_PAGE)
        return [_parse_run(row, dataset) for row in rows]

    def list_run_names(self, dataset: LangfuseDataset | None) -> list[str]:
        within = [] if dataset is None else [_FilterCondition("datasetId", [dataset.id])]
        rows = self._list_experiments(within, MAX_NAMES_SHOWN)
        return [name for row in rows if (name := get_text(row, "name"))]

    def read_batches(self, run: ExperimentRun, rest: JSON | None) -> Iterator[TraceBatch]:
        plan = _ReadPlan.from_json(rest) if rest else _ReadPlan.for_run(run)
        rows = iter_newest_first(
            plan.rows,
            lambda part: fetch_with_splitting(part, lambda one: self._fetch_rows(run, one)),
            sizer=plan.row_sizer,
            concurrency=MAX_IN_FLIGHT,
        )
        calls = CallStream(
            iter_newest_first(
                plan.calls,
                lambda part: fetch_with_splitting(part, lambda one: self._fetch_calls(run, one)),
                sizer=plan.call_sizer,
                concurrency=CALL_CONCURRENCY,
            ),
            start=run.start,
            end=max((part.end for part in plan.calls), default=run.start),
        )
        for page in rows:
            traces = self._map_traces(page, calls)
            after = plan.remaining_after(page, calls) if page.remaining else None
            yield TraceBatch(traces=traces, remaining=after, loop_detected=page.loop_detected)

    def _find_newest(
        self, conditions: Sequence[_FilterCondition], dataset: LangfuseDataset | None
    ) -> ExperimentRun | None:
        rows = self._list_experiments(conditions, MAX_NAMES_SHOWN)
        found = [_parse_run(row, dataset) for row in rows]
        return max(found, key=lambda run: run.end, default=None)

    def _list_experiments(self, conditions: Sequence[_FilterCondition], limit: int) -> list[JSON]:
        """Experiments by latest activity; of shorter times when the server cannot search them all.

        Raises: `OtherGeneration` when the server does not know experiments.
        """
        since = [EARLIEST_MS, *(self.now_ms() - days * DAY_MS for days in FALLBACK_DAYS)]
        refused: PageTooLarge | None = None
        for start in since:
            try:
                found = self.client.get(
                    "/experiments",
                    {
                        "fromStartTime": format_time(start),
                        "limit": limit,
                        "fields": "core",
                        "filter": _filter_parameter(*conditions) if conditions else None,
                    },
                )
            except NotFoundError as error:
                raise ApiVersionMismatch(error.detail) from None
            except PageTooLarge as error:
                refused = error
            else:
                return get_rows(found, "GET /experiments")
        assert refused is not None
        raise refused.final_error

    def _fetch_rows(self, run: ExperimentRun, window: TimeWindow) -> WindowRows:
        fields = "core,io,metadata,scores"
        document = self.client.get(
            "/experiment-items",
            {
                **_window_parameters(window),
                "filter": _filter_parameter(_FilterCondition("experimentId", [run.id])),
                "fields": fields,
                "scoreLimit": SCORES_PER_ROW,
            },
        )
        fetched = _to_window_rows(document, window, "GET /experiment-items")
        if not self.late_scores or not fetched.rows:
            return fetched
        ids = {require_text(row, "traceId", "a row of an experiment") for row in fetched.rows}
        return replace(fetched, late_scores=tuple(self._iter_scores(sorted(ids))))

    def _fetch_calls(self, run: ExperimentRun, window: TimeWindow) -> WindowRows:
        document = self.client.get(
            "/v2/observations",
            {
                **_window_parameters(window),
                "fields": "core,basic,usage,trace_context",
                "filter": _filter_parameter(
                    _FilterCondition("experimentId", [run.id]), _FilterCondition("type", CALL_TYPES)
                ),
            },
        )
        return _to_window_rows(document, window, "GET /v2/observations")

    def _iter_scores(self, trace_ids: Sequence[str]) -> Iterator[JSON]:
        """Every score of some traces, of whatever time and span."""
        asked: Parameters = {
            "traceId": ",".join(trace_ids),
            "fields": "details,subject",
            "limit": ROWS_PER_PAGE,
        }
        return self._iter_all("/v3/scores", asked)

    def _iter_spans(self, tasks: Sequence[TaskSpan]) -> Iterator[ObservedSpan]:
        """Every span of the traces of some tasks."""
        trace_ids = sorted({task.trace_id for task in tasks})
        asked: Parameters = {
            "filter": _filter_parameter(_FilterCondition("traceId", trace_ids)),
            "fields": "core,basic,usage",
            "fromStartTime": format_time(min(task.start for task in tasks)),
            "limit": CALLS_PER_PAGE,
        }
        rows = self._iter_all("/v2/observations", asked)
        return (span for row in rows if (span := parse_span(row)) is not None)

    def _iter_all(self, path: str, asked: Parameters) -> Iterator[JSON]:
        cursor, limit, seen = None, int(asked["limit"] or 1), set[str]()
        while True:
            try:
                document = self.client.get(path, {**asked, "cursor": cursor, "limit": limit})
            except PageTooLarge as refusal:
                if limit == 1:
                    raise refusal.final_error from None
                limit //= 2
                continue
            yield from get_rows(document, f"GET {path}")
            cursor = get_text(get_meta(document), "cursor")
            if cursor is None:
                return
            if cursor in seen:
                raise BadResponse(f"GET {path} (API v4) gave the same page twice")
            seen.add(cursor)

    def _map_traces(self, page: RowPage, calls: CallStream) -> tuple[Trace, ...]:
        """The rows of a page as traces, each row once."""
        tasks = {task.id: task for task in map(parse_task, page.rows)}
        if not tasks:
            return ()
        calls.read_since(min(task.start for task in tasks.values()))
        own = self._select_agent_calls(list(tasks.values()), calls)
        late = group_by_trace(page.late_scores)
        rows = {str(row["id"]): row for row in page.rows}
        return tuple(
            map_row(
                rows[task.id],
                task,
                sum_usage(own[task.id]),
                late.get(task.trace_id, ()),
                self.link,
            )
            for task in tasks.values()
        )

    def _select_agent_calls(
        self, tasks: Sequence[TaskSpan], calls: CallStream
    ) -> dict[str, list[ObservedSpan]]:
        """The agent's calls by task; where only the whole tree can tell, it is asked for."""
        known = {trace_id: calls.take(trace_id) for trace_id in {task.trace_id for task in tasks}}
        sorted_ = {task.id: split_calls(task, known[task.trace_id]) for task in tasks}
        own = {task_id: found.own for task_id, found in sorted_.items()}
        unclear = [task for task in tasks if sorted_[task.id].ambiguous]
        if unclear:
            spans = list(self._iter_spans(unclear))
            for task in unclear:
                inside = select_descendants(task, spans)
                own[task.id] = [span for span in inside if span.type in CALL_TYPES]
        return own


class _ReadPlan(NamedTuple):
    """What is left to read of an experiment, and how."""

    start: int
    rows: list[TimeWindow]
    calls: list[TimeWindow]
    row_sizer: WindowSizer
    call_sizer: WindowSizer

    @classmethod
    def for_run(cls, run: ExperimentRun) -> "_ReadPlan":
        end = run.end + 1
        width = None
        if run.item_count > MIN_ROWS_TO_SPLIT:
            width = max((end - run.start) * TARGET_ROWS_PER_WINDOW // run.item_count, 1)
        calls = width and width * CALLS_PER_PAGE // (TARGET_ROWS_PER_WINDOW * CALLS_PER_ROW)
        return cls(
            start=run.start,
            rows=[TimeWindow(start=run.start, end=end, limit=ROWS_PER_PAGE)],
            calls=[TimeWindow(start=run.start, end=end, limit=CALLS_PER_PAGE)],
            row_sizer=WindowSizer(width_ms=width),
            call_sizer=WindowSizer(width_ms=calls),
        )

    @classmethod
    def from_json(cls, document: JSON) -> "_ReadPlan":
        return cls(
            start=int(document["start"]),
            rows=[TimeWindow.from_json(part) for part in document["rows"]],
            calls=[TimeWindow.from_json(part) for part in document["calls"]],
            row_sizer=WindowSizer(width_ms=document["pace"][0]),
            call_sizer=WindowSizer(width_ms=document["pace"][1]),
        )

    def remaining_after(self, page: RowPage, calls: CallStream) -> JSON:
        before = calls.resume_before_ms
        left = (
            [TimeWindow(start=self.start, end=before, limit=CALLS_PER_PAGE)]
            if before > self.start
            else []
        )
        return {
            "start": self.start,
            "rows": [part.to_json() for part in page.remaining],
            "calls": [part.to_json() for part in left],
            "pace": [self.row_sizer.width_ms, self.call_sizer.width_ms],
        }


def _window_parameters(part: TimeWindow) -> Parameters:
    return {
        "fromStartTime": format_time(part.start),
        "toStartTime": format_time(part.end),
        "limit": part.limit,
        "cursor": part.cursor,
    }


def _filter_parameter(*conditions: _FilterCondition) -> str:
    return json.dumps([condition.to_json() for condition in conditions], separators=(",", ":"))


def _to_window_rows(document: JSON, part: TimeWindow, asked: str) -> WindowRows:
    rows = get_rows(document, asked)
    cursor = get_text(get_meta(document), "cursor")
    rest = [replace(part, cursor=cursor)] if cursor is not None else []
    size = sum(
        len(text)
        for row in rows
        for text in chain((row.get("input"), row.get("output"), row.get("expectedOutput")))
        if isinstance(text, str)
    )
    return WindowRows(rows=rows, remaining=rest, size_bytes=size)


def _parse_run(row: JSON, dataset: LangfuseDataset | None) -> ExperimentRun:
    start, end = get_time_ms(row, "startTime"), get_time_ms(row, "endTime")
    count = parse_number(row.get("itemCount"))
    if start is None or count is None:
        raise BadResponse(
            "Langfuse sent an experiment without startTime or itemCount; check that langfuseUrl"
            " is the address of a Langfuse server of version 4"
        )
    return ExperimentRun(
        id=require_text(row, "id", "an experiment"),
        name=get_text(row, "name") or "",
        dataset_name=None if dataset is None else dataset.name,
        start=start,
        end=start if end is None else max(end, start),
        item_count=int(count),
    )
