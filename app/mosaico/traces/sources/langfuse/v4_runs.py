"""Reader for API v4: experiments, their rows, and observations by experiment.

Rows hold the texts but no tokens, costs or tool calls. Those come from a second stream, the calls
of the experiment, which is read in step with the rows and joined by trace.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mosaico.core.http.throttle import MAX_IN_FLIGHT
from mosaico.traces.sources.langfuse.client import LangfuseClient, Parameters, get_rows
from mosaico.traces.sources.langfuse.failures import NotFoundError, PageTooLarge
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    equals,
    format_time,
    get_object,
    get_text,
)
from mosaico.traces.sources.langfuse.mapping import (
    is_task_row,
    map_malformed_row,
    map_row,
    parse_task,
    parse_trial,
)
from mosaico.traces.sources.langfuse.reader import (
    ApiVersionMismatch,
    ExperimentRun,
    ItemAnswer,
    LangfuseDataset,
    TraceBatch,
    TraceLink,
    split_source_id,
)
from mosaico.traces.sources.langfuse.scores import group_by_trace
from mosaico.traces.sources.langfuse.settling import (
    MIN_PAUSE_MS,
    describe_doubts,
    first_time_ms,
    leaves_room,
    select_newest_run,
)
from mosaico.traces.sources.langfuse.usage import (
    CALL_TYPES,
    ObservedSpan,
    TaskSpan,
    select_descendants,
    split_calls,
    sum_usage,
)
from mosaico.traces.sources.langfuse.v4_paging import (
    RowPage,
    TimeWindow,
    WindowRows,
    WindowSizer,
    fetch_with_splitting,
    iter_newest_first,
    to_window_rows,
)
from mosaico.traces.sources.langfuse.v4_requests import (
    SPAN_FIELDS,
    SPANS_PER_PAGE,
    CallStream,
    filter_parameter,
    iter_all,
    iter_scores,
    iter_spans,
    parse_experiment,
)
from mosaico.traces.types import Trace

ROWS_PER_PAGE: Final = 100
# The server's maximum.
SCORES_PER_ROW: Final = 50
MAX_NAMES_SHOWN: Final = 10
# A smaller run is read as one chain of pages: time windows would only add requests.
MIN_ROWS_TO_SPLIT: Final = 1000
# Below the page size, so that most windows fit into one page although rows come unevenly.
TARGET_ROWS_PER_WINDOW: Final = 80
CALLS_PER_ROW: Final = 2
# Pages of calls are ten times as large as those of rows and are needed at the same pace.
CALL_CONCURRENCY: Final = 2
# `fromStartTime` is required; nothing in Langfuse is older than Langfuse.
EARLIEST_MS: Final = 1_577_836_800_000  # 2020-01-01
DAY_MS: Final = 86_400_000
FALLBACK_DAYS: Final = (365, 90, 14)


@dataclass(frozen=True, slots=True, kw_only=True)
class V4Reader:
    """Reads experiments; `late_scores` also fetches the scores that rows do not contain.

    `settle_ms` is the pause after which a run has ended; None: as `settle_time_ms`.
    """

    client: LangfuseClient
    link: TraceLink
    now_ms: Callable[[], int]
    late_scores: bool
    settle_ms: int | None = None
    api: Final = "v4"

    def find_run(self, dataset: LangfuseDataset | None, name: str | None) -> ExperimentRun | None:
        in_dataset = _dataset_filter(dataset)
        if name is None:
            return self._find_newest(in_dataset, dataset)
        by_name = self._find_newest([*in_dataset, equals("name", name)], dataset)
        # An experiment may be named like the ID of another one: the name counts first.
        run = by_name or self._find_newest([*in_dataset, equals("id", name)], dataset)
        experiment_id, since = split_source_id(name)
        if run is None and since is not None:
            return self._find_newest([*in_dataset, equals("id", experiment_id)], dataset, since)
        return run

    def refresh_run(self, run: ExperimentRun) -> ExperimentRun | None:
        # By ID, because several experiments can share a name.
        current = self._find_newest([equals("id", run.id)], None, run.since)
        if current is None:
            return None
        # The first span since then can be an evaluation of the run before.
        start = current.start if run.since is None else run.start
        return replace(current, start=start, dataset_name=run.dataset_name, warning=run.warning)

    def narrow(self, run: ExperimentRun, expected_items: int | None, /) -> ExperimentRun:
        settle_ms = self.settle_ms
        if run.end - run.start <= (MIN_PAUSE_MS if settle_ms is None else settle_ms):
            return run
        rows = list[ItemAnswer]()
        for row in self.iter_rows(run):
            rows.append(row)
            if len(rows) % ROWS_PER_PAGE == 0:
                is_found = select_newest_run(rows, settle_ms).earlier_end is not None
                if is_found or not leaves_room(run.start, run.item_count, rows, expected_items):
                    break
        newest = select_newest_run(rows, settle_ms)
        run = replace(run, warning=describe_doubts(newest, run.item_count) or run.warning)
        if newest.earlier_end is None:
            return run
        since = first_time_ms(newest.earlier_end, settle_ms)
        part = replace(run, since=since, start=newest.rows[0].start, dataset_items=None)
        return self.refresh_run(part) or replace(part, item_count=len(newest.rows))

    def iter_rows(self, run: ExperimentRun) -> Iterator[ItemAnswer]:
        parameters: Parameters = {
            "fromStartTime": format_time(run.first_time),
            "filter": filter_parameter(equals("experimentId", run.id)),
            "fields": "core,metadata",
            "limit": ROWS_PER_PAGE,
        }
        ids = set[str]()
        # A server that repeats a page is reported when the traces are read.
        for row in iter_all(self.client, "/experiment-items", parameters, ends_at_loop=True):
            # Once: a row that was ingested twice is not a second trial.
            if is_task_row(row) and row["id"] not in ids:
                ids.add(row["id"])
                task = parse_task(row)
                yield ItemAnswer(
                    item_id=get_text(row, "experimentItemId") or task.trace_id,
                    start=task.start,
                    end=max(task.end or 0, task.start),
                    trial=parse_trial(get_object(row, "metadata")),
                )

    def list_runs(self, dataset: LangfuseDataset) -> list[ExperimentRun]:
        rows = self._list_experiments(_dataset_filter(dataset), ROWS_PER_PAGE)
        return [parse_experiment(row, dataset) for row in rows]

    def list_run_names(self, dataset: LangfuseDataset | None) -> list[str]:
        rows = self._list_experiments(_dataset_filter(dataset), MAX_NAMES_SHOWN)
        return [name for row in rows if (name := get_text(row, "name"))]

    def read_batches(self, run: ExperimentRun, remaining: JSON | None) -> Iterator[TraceBatch]:
        plan = _ReadPlan.from_json(remaining) if remaining else _ReadPlan.for_run(run)
        row_pages = iter_newest_first(
            plan.rows,
            lambda window: fetch_with_splitting(window, lambda part: self._fetch_rows(run, part)),
            sizer=plan.row_sizer,
            concurrency=MAX_IN_FLIGHT,
        )
        call_pages = iter_newest_first(
            plan.calls,
            lambda window: fetch_with_splitting(window, lambda part: self._fetch_calls(run, part)),
            sizer=plan.call_sizer,
            concurrency=CALL_CONCURRENCY,
        )
        calls_end = max((window.end for window in plan.calls), default=run.first_time)
        calls = CallStream(call_pages, start=run.first_time, end=calls_end)
        has_read_rows = remaining is not None
        for page in row_pages:
            if not has_read_rows:
                _require_any_task(page)
            has_read_rows = has_read_rows or bool(page.rows)
            traces = self._map_traces(page, calls)
            unread = plan.remaining_after(page, calls) if page.remaining else None
            yield TraceBatch(traces=traces, remaining=unread, loop_detected=page.loop_detected)

    def _find_newest(
        self,
        conditions: Sequence[JSON],
        dataset: LangfuseDataset | None,
        since: int | None = None,
    ) -> ExperimentRun | None:
        rows = self._list_experiments(conditions, MAX_NAMES_SHOWN, since)
        runs = [replace(parse_experiment(row, dataset), since=since) for row in rows]
        return max(runs, key=lambda run: run.end, default=None)

    def _list_experiments(
        self, conditions: Sequence[JSON], limit: int, since: int | None = None
    ) -> list[JSON]:
        """Experiments by latest activity, in a shorter period when the server cannot search all.

        Start, end and number of items count the time after `since` only.
        Raises: `ApiVersionMismatch` when the server does not know experiments.
        """
        starts = [EARLIEST_MS, *(self.now_ms() - days * DAY_MS for days in FALLBACK_DAYS)]
        starts = starts if since is None else [since]
        too_large: PageTooLarge | None = None
        for start in starts:
            try:
                document = self.client.get(
                    "/experiments",
                    {
                        "fromStartTime": format_time(start),
                        "limit": limit,
                        "fields": "core",
                        "filter": filter_parameter(*conditions) if conditions else None,
                    },
                )
            except NotFoundError as error:
                raise ApiVersionMismatch(error.detail) from None
            except PageTooLarge as error:
                too_large = error
            else:
                return get_rows(document, "GET /experiments")
        assert too_large is not None
        raise too_large.final_error

    def _fetch_rows(self, run: ExperimentRun, window: TimeWindow) -> WindowRows:
        document = self.client.get(
            "/experiment-items",
            {
                **window.parameters(),
                "filter": filter_parameter(equals("experimentId", run.id)),
                "fields": "core,io,metadata,itemMetadata,scores",
                "scoreLimit": SCORES_PER_ROW,
            },
        )
        window_rows = to_window_rows(document, window, "GET /experiment-items")
        if not self.late_scores or not window_rows.rows:
            return window_rows
        trace_ids = {str(row["traceId"]) for row in window_rows.rows if is_task_row(row)}
        return replace(window_rows, late_scores=tuple(iter_scores(self.client, sorted(trace_ids))))

    def _fetch_calls(self, run: ExperimentRun, window: TimeWindow) -> WindowRows:
        conditions = (
            equals("experimentId", run.id),
            equals("type", *CALL_TYPES),
        )
        document = self.client.get(
            "/v2/observations",
            {
                **window.parameters(),
                "fields": SPAN_FIELDS,
                "filter": filter_parameter(*conditions),
            },
        )
        return to_window_rows(document, window, "GET /v2/observations")

    def _map_traces(self, page: RowPage, calls: CallStream) -> tuple[Trace, ...]:
        """Map the rows of a page to traces, each row once."""
        # By ID: a span that was ingested twice comes as two rows.
        task_rows = [row for row in page.rows if is_task_row(row)]
        malformed = tuple(map_malformed_row(row) for row in page.rows if not is_task_row(row))
        tasks = {task.id: task for task in map(parse_task, task_rows)}
        if not tasks:
            return malformed
        calls.read_since(min(task.start for task in tasks.values()))
        agent_calls = self._select_agent_calls(list(tasks.values()), calls)
        late_scores = group_by_trace(page.late_scores)
        rows = {str(row["id"]): row for row in task_rows}
        return *(
            map_row(
                rows[task.id],
                task,
                sum_usage(agent_calls[task.id]),
                late_scores.get(task.trace_id, ()),
                self.link,
            )
            for task in tasks.values()
        ), *malformed

    def _select_agent_calls(
        self, tasks: Sequence[TaskSpan], calls: CallStream
    ) -> dict[str, list[ObservedSpan]]:
        """The agent's calls by task ID; fetches the whole span tree of ambiguous traces only."""
        # Taken once per trace, because several tasks can share a trace.
        trace_calls = {
            trace_id: calls.take(trace_id) for trace_id in {task.trace_id for task in tasks}
        }
        splits = {task.id: split_calls(task, trace_calls[task.trace_id]) for task in tasks}
        agent_calls = {task_id: split.own for task_id, split in splits.items()}
        ambiguous_tasks = [task for task in tasks if splits[task.id].ambiguous]
        if ambiguous_tasks:
            trace_ids = sorted({task.trace_id for task in ambiguous_tasks})
            since = min(task.start for task in ambiguous_tasks)
            spans = list(iter_spans(self.client, trace_ids, since))
            for task in ambiguous_tasks:
                descendants = select_descendants(task, spans)
                agent_calls[task.id] = [span for span in descendants if span.type in CALL_TYPES]
        return agent_calls


class _ReadPlan(NamedTuple):
    """The unread windows of an experiment and the current window widths."""

    start: int
    rows: list[TimeWindow]
    calls: list[TimeWindow]
    row_sizer: WindowSizer
    call_sizer: WindowSizer

    @classmethod
    def for_run(cls, run: ExperimentRun) -> "_ReadPlan":
        """The plan of a whole run, with widths from its average density."""
        end = run.end + 1  # the end of a window is exclusive
        row_width = None
        if run.item_count > MIN_ROWS_TO_SPLIT:
            row_width = max((end - run.start) * TARGET_ROWS_PER_WINDOW // run.item_count, 1)
        call_width = row_width and (
            row_width * SPANS_PER_PAGE // (TARGET_ROWS_PER_WINDOW * CALLS_PER_ROW)
        )
        return cls(
            start=run.first_time,
            rows=[TimeWindow(start=run.first_time, end=end, limit=ROWS_PER_PAGE)],
            calls=[TimeWindow(start=run.first_time, end=end, limit=SPANS_PER_PAGE)],
            row_sizer=WindowSizer(width_ms=row_width),
            call_sizer=WindowSizer(width_ms=call_width),
        )

    @classmethod
    def from_json(cls, document: JSON) -> "_ReadPlan":
        row_width, call_width = document["widths"]
        return cls(
            start=int(document["start"]),
            rows=[TimeWindow.from_json(window) for window in document["rows"]],
            calls=[TimeWindow.from_json(window) for window in document["calls"]],
            row_sizer=WindowSizer(width_ms=row_width),
            call_sizer=WindowSizer(width_ms=call_width),
        )

    def remaining_after(self, page: RowPage, calls: CallStream) -> JSON:
        """The unread part of the run after a page, for the cursor."""
        # The calls restart without a cursor: unclaimed calls in memory must be read again.
        end = calls.resume_before_ms
        unread_calls = (
            [TimeWindow(start=self.start, end=end, limit=SPANS_PER_PAGE)]
            if end > self.start
            else []
        )
        return {
            "start": self.start,
            "rows": [window.to_json() for window in page.remaining],
            "calls": [window.to_json() for window in unread_calls],
            "widths": [self.row_sizer.width_ms, self.call_sizer.width_ms],
        }


def _require_any_task(page: RowPage) -> None:
    """Raises: `BadResponse` for a first page without one good row: it comes from another program."""
    if not any(map(is_task_row, page.rows)):
        for row in page.rows:
            parse_task(row)


def _dataset_filter(dataset: LangfuseDataset | None) -> list[JSON]:
    return [] if dataset is None else [equals("datasetId", dataset.id)]
