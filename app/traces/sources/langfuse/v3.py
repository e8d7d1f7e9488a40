"""The third generation of the API: dataset runs, traces, and observations by trace."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from app.core.http.throttle import MAX_IN_FLIGHT
from app.traces.sources.langfuse.background import run_in_order
from app.traces.sources.langfuse.client import (
    LangfuseClient,
    Parameters,
    get_rows,
    is_path_segment,
    quote_segment,
)
from app.traces.sources.langfuse.errors import BadResponse, NotFoundError, PageTooLarge
from app.traces.sources.langfuse.mapping import error_text, parse_trial, task_latency_ms
from app.traces.sources.langfuse.page_pagination import (
    NumberedPage,
    fetch_page,
    fetch_page_in_parts,
    iter_pages,
)
from app.traces.sources.langfuse.payload import (
    JSON,
    first_tags,
    format_time,
    get_object,
    get_text,
    get_time_ms,
    normalize_json_value,
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
from app.traces.sources.langfuse.scores import group_by_trace, select_scores
from app.traces.sources.langfuse.usage import (
    CALL_TYPES,
    TASK_SPAN_NAME,
    ObservedSpan,
    TaskSpan,
    parse_span,
    select_descendants,
    sum_usage,
)
from app.traces.types import Trace, TraceOutcome

ROWS_PER_PAGE: Final = 100
MIN_SPLIT_IDS: Final = 1
MAX_NAMES_SHOWN: Final = 10
MAX_RUNS_LISTED: Final = 20
RUN_ITEM_FIELDS: Final = ("id", "datasetItemId", "traceId", "observationId", "createdAt")
ITEM_FIELDS: Final = ("id", "expectedOutput")
LONG_FIELDS: Final = ("input", "output", "metadata")
MAX_RUN_PAGES: Final = 10
TAG_EXPECTED_OUTPUT_GONE: Final = "expected-output-gone"


class _RunItem(NamedTuple):
    """That a trace, or a span of it, answered an item of the dataset."""

    item_id: str
    trace_id: str
    span_id: str | None


class _TraceBundle(NamedTuple):
    """All that is known of some traces."""

    traces: dict[str, JSON]
    observations: dict[str, list[JSON]]
    scores: dict[str, list[Mapping[str, Any]]]

    def merge(self, other: "_TraceBundle") -> "_TraceBundle":
        return _TraceBundle(
            self.traces | other.traces,
            self.observations | other.observations,
            self.scores | other.scores,
        )


class ItemStore:
    """Items by id, in a file of its own that nobody else sees and that ends with it."""

    def __init__(self) -> None:
        # An empty name is a private database on disk; its readers may be in other threads.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._lock = threading.Lock()
        self._database.execute("CREATE TABLE items (id TEXT PRIMARY KEY, item TEXT)")

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        rows = [
            (str(item["id"]), json.dumps({"expectedOutput": item.get("expectedOutput")}))
            for item in items
        ]
        with self._lock:
            self._database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?)", rows)

    def find(self, ids: Sequence[str]) -> dict[str, JSON]:
        """Those of the items that there are."""
        found: dict[str, JSON] = {}
        with self._lock:
            for item_id in ids:
                row = self._database.execute("SELECT item FROM items WHERE id = ?", (item_id,))
                for (item,) in row:
                    found[item_id] = json.loads(item)
        return found

    def close(self) -> None:
        self._database.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class V3Reader:
    """Reads dataset runs. The server gives one trace for each item: repetitions are lost."""

    client: LangfuseClient
    link: TraceLink
    api: Final = "v3"

    def find_run(self, dataset: LangfuseDataset | None, name: str | None) -> ExperimentRun | None:
        if dataset is None:
            return None
        _require_path_segment(dataset)
        if name is not None:
            document = self._fetch_run(dataset.name, name)
            if document is not None:
                return _parse_run(document, dataset)
        newest = self._find_run_name(dataset, name)
        document = None if newest is None else self._fetch_run(dataset.name, newest)
        return None if document is None else _parse_run(document, dataset)

    def list_runs(self, dataset: LangfuseDataset) -> list[ExperimentRun]:
        _require_path_segment(dataset)
        rows = sorted(
            self._fetch_runs(dataset.name, 1), key=lambda row: -(get_time_ms(row, "createdAt") or 0)
        )
        return [self._summarize_run(row, dataset) for row in rows[:MAX_RUNS_LISTED]]

    def list_run_names(self, dataset: LangfuseDataset | None) -> list[str]:
        runs = () if dataset is None else self._fetch_runs(dataset.name, 1)
        return [name for run in runs if (name := get_text(run, "name"))][:MAX_NAMES_SHOWN]

    def read_batches(self, run: ExperimentRun, rest: JSON | None) -> Iterator[TraceBatch]:
        document = self._fetch_run(run.dataset_name or "", run.name)
        items = _parse_run_items(document or {}, until=run.end)
        if not items:
            yield TraceBatch(traces=(), remaining=None)
            return
        done = int(rest["done"]) if rest else 0
        with closing(ItemStore()) as spool:
            self._load_items(spool, run, wanted={item.item_id for item in items[done:]})
            chunks = [
                items[at : at + ROWS_PER_PAGE] for at in range(done, len(items), ROWS_PER_PAGE)
            ]
            works = (partial(self._read_traces, chunk, spool) for chunk in chunks)
            for traces in run_in_order(works, concurrency=MAX_IN_FLIGHT // 2):
                done = min(done + ROWS_PER_PAGE, len(items))
                yield TraceBatch(
                    traces=traces, remaining={"done": done} if done < len(items) else None
                )

    def _find_run_name(self, dataset: LangfuseDataset, run_id: str | None) -> str | None:
        """The name of the run with an id, or of the newest."""
        if run_id is None:
            runs = self._fetch_runs(dataset.name, 1)
            newest = max(runs, key=lambda run: get_time_ms(run, "createdAt") or 0, default={})
            return get_text(newest, "name")
        found = self._find_listed_run(dataset.name, "id", run_id)
        return None if found is None else get_text(found, "name")

    def _find_listed_run(self, dataset_name: str, field: str, value: str) -> JSON | None:
        """The run whose id or name that is, without its items."""
        for page in range(1, MAX_RUN_PAGES + 1):
            runs = self._fetch_runs(dataset_name, page)
            found = next((run for run in runs if run.get(field) == value), None)
            if found is not None or not runs:
                return found
        return None

    def _fetch_runs(self, dataset_name: str, page: int) -> list[JSON]:
        path = f"/datasets/{quote_segment(dataset_name)}/runs"
        try:
            document = self.client.get(path, {"page": page, "limit": ROWS_PER_PAGE})
        except NotFoundError as error:
            raise ApiVersionMismatch(error.detail) from None
        return get_rows(document, f"GET {path}")

    def _summarize_run(self, row: JSON, dataset: LangfuseDataset) -> ExperimentRun:
        """A run without its items: its newest one tells of its end, the pages how many there are."""
        name = require_text(row, "name", "a run")
        newest = self._fetch_run_items(dataset.id, name, 1, limit=1)
        start = _require_start(row)
        return ExperimentRun(
            id=require_text(row, "id", "a run"),
            name=name,
            dataset_name=dataset.name,
            start=start,
            end=max(
                (get_time_ms(item, "createdAt") or start for item in newest.rows), default=start
            ),
            item_count=newest.total_pages if newest.rows else 0,
        )

    def _fetch_run(self, dataset_name: str, name: str) -> JSON | None:
        """A run with all its items, in one answer where that is not too much; None if there is none.

        Raises: `OtherGeneration` when the server does not offer this any more.
        """
        if not is_path_segment(name):
            return self._fetch_run_in_pages(dataset_name, name)
        path = f"/datasets/{quote_segment(dataset_name)}/runs/{quote_segment(name)}"
        try:
            return self.client.get(path)
        except PageTooLarge:
            return self._fetch_run_in_pages(dataset_name, name)
        except NotFoundError as error:
            if "events_only" in error.detail or not error.detail:
                raise ApiVersionMismatch(error.detail) from None
            return None

    def _fetch_run_in_pages(self, dataset_name: str, name: str) -> JSON | None:
        run = self._find_listed_run(dataset_name, "name", name)
        if run is None:
            return None
        dataset_id = require_text(run, "datasetId", "a run")
        read = partial(self._fetch_run_items, dataset_id, name, limit=ROWS_PER_PAGE)
        pages = iter_pages(
            read, limit=ROWS_PER_PAGE, concurrency=MAX_IN_FLIGHT, rows_name="items of a run"
        )
        return {**run, "datasetRunItems": [row for page in pages for row in page.rows]}

    def _fetch_run_items(
        self, dataset_id: str, name: str, number: int, *, limit: int
    ) -> NumberedPage:
        asked: Parameters = {"datasetId": dataset_id, "runName": name, "limit": limit}
        try:
            return fetch_page(self.client, "/dataset-run-items", asked, number, RUN_ITEM_FIELDS)
        except NotFoundError:
            return NumberedPage([], 0)

    def _load_items(self, spool: ItemStore, run: ExperimentRun, wanted: set[str]) -> None:
        """Read the dataset as it was when the run began, as far as the run needs it."""
        asked = {
            "datasetName": run.dataset_name,
            "version": format_time(run.start),
            "limit": ROWS_PER_PAGE,
        }
        read = partial(
            fetch_page_in_parts, self.client, "/dataset-items", asked, fields=ITEM_FIELDS
        )
        missing = set(wanted)
        for page in iter_pages(
            read, limit=ROWS_PER_PAGE, concurrency=MAX_IN_FLIGHT, rows_name="items of a dataset"
        ):
            spool.add(page.rows)
            missing -= {str(row.get("id")) for row in page.rows}
            if not missing:
                return

    def _read_traces(self, items: Sequence[_RunItem], spool: ItemStore) -> tuple[Trace, ...]:
        linked = frozenset(item.span_id for item in items)
        bulk = self._fetch_bundle(sorted({item.trace_id for item in items}), linked)
        expected = spool.find([item.item_id for item in items])
        return tuple(
            _map_trace(item, bulk, expected.get(item.item_id), self.link)
            for item in items
            if item.trace_id in bulk.traces
        )

    def _fetch_bundle(self, ids: Sequence[str], linked: frozenset[str | None]) -> _TraceBundle:
        """Traces with observations and scores; in smaller groups when the server asks for it."""
        try:
            return self._fetch_bundle_at_once(ids, linked)
        except PageTooLarge as refusal:
            if len(ids) <= MIN_SPLIT_IDS:
                raise refusal.final_error from None
            half = len(ids) // 2
            first, second = (
                self._fetch_bundle(ids[:half], linked),
                self._fetch_bundle(ids[half:], linked),
            )
            return first.merge(second)

    def _fetch_bundle_at_once(
        self, ids: Sequence[str], linked: frozenset[str | None]
    ) -> _TraceBundle:
        rows = self._iter_filtered(
            "/traces", "id", ids, fields="core,io,scores,observations,metrics"
        )
        traces: dict[str, JSON] = {}
        for row in rows:
            if row.get("id") in ids:
                traces[str(row["id"])] = row
            if len(traces) == len(ids):
                break  # all that was asked for: no further page is looked at
        for trace_id in ids:
            if trace_id not in traces and (one := self._fetch_trace(trace_id)) is not None:
                traces[trace_id] = one
        if not traces:
            return _TraceBundle({}, {}, {})
        observations: dict[str, list[JSON]] = {}
        for row in self._iter_filtered("/observations", "traceId", list(traces)):
            observations.setdefault(str(row.get("traceId")), []).append(
                _drop_long_fields(row, linked)
            )
        scores = group_by_trace(self._iter_filtered("/v2/scores", "traceId", list(traces)))
        return _TraceBundle(traces, observations, dict(scores))

    def _fetch_trace(self, trace_id: str) -> JSON | None:
        """One trace, from a server that does not know filters or has not got the trace yet."""
        if not is_path_segment(trace_id):
            return None
        try:
            return self.client.get(f"/traces/{quote_segment(trace_id)}")
        except NotFoundError:
            return None

    def _iter_filtered(
        self, path: str, column: str, values: Sequence[str], **more: str
    ) -> Iterator[JSON]:
        """All rows of which a column has one of some values."""
        asks = [
            {"type": "stringOptions", "column": column, "operator": "any of", "value": list(values)}
        ]
        asked: Parameters = {"filter": json.dumps(asks), "limit": ROWS_PER_PAGE, **more}
        read = fetch_page if len(values) > MIN_SPLIT_IDS else fetch_page_in_parts
        what = path.removeprefix("/")
        for page in iter_pages(
            partial(read, self.client, path, asked), limit=ROWS_PER_PAGE, rows_name=what
        ):
            yield from page.rows


def _require_path_segment(dataset: LangfuseDataset) -> None:
    if not is_path_segment(dataset.name):
        raise ApiVersionMismatch(
            f"no address of it can hold the dataset's name {dataset.name!r}; rename the dataset"
        )


def _parse_run(document: JSON, dataset: LangfuseDataset) -> ExperimentRun:
    start = _require_start(document)
    times = (
        get_time_ms(item, "createdAt") or start for item in document.get("datasetRunItems") or ()
    )
    end = max(times, default=start)
    return ExperimentRun(
        id=require_text(document, "id", "a run"),
        name=require_text(document, "name", "a run"),
        dataset_name=dataset.name,
        start=start,
        end=end,
        item_count=len(_parse_run_items(document, until=end)),
    )


def _require_start(document: JSON) -> int:
    start = get_time_ms(document, "createdAt")
    if start is None:
        raise BadResponse(
            "Langfuse sent a run without createdAt; check that langfuseUrl is the address of a"
            " Langfuse server of version 3"
        )
    return start


def _parse_run_items(document: JSON, *, until: int) -> list[_RunItem]:
    """The items of a run as of a time, in a fixed order."""
    found = {
        str(item.get("id")): _RunItem(
            item_id=require_text(item, "datasetItemId", "an item of a run"),
            trace_id=require_text(item, "traceId", "an item of a run"),
            span_id=get_text(item, "observationId"),
        )
        for item in document.get("datasetRunItems") or ()
        if (get_time_ms(item, "createdAt") or until) <= until
    }
    return [found[identity] for identity in sorted(found)]


def _map_trace(
    item: _RunItem, bulk: _TraceBundle, dataset_item: JSON | None, link: TraceLink
) -> Trace:
    """A run item as a trace: the texts of the agent's own span, or of the whole trace."""
    trace, rows = bulk.traces[item.trace_id], bulk.observations.get(item.trace_id, [])
    spans = [span for row in rows if (span := parse_span(row)) is not None]
    task = _find_task(item, spans)
    row = next((row for row in rows if task is not None and row.get("id") == task.id), {})
    output, failed = _task_text(row, trace, "output"), row.get("level") == "ERROR"
    spending = sum_usage(_select_agent_calls(task, spans))
    tags = first_tags(trace.get("tags"))
    return Trace(
        trace_id=item.trace_id,
        item_id=item.item_id,
        trial=parse_trial(get_object(trace, "metadata")),
        outcome=TraceOutcome.AGENT_ERROR if failed else TraceOutcome.SCORED,
        input=_task_text(row, trace, "input"),
        expected_output=normalize_json_value((dataset_item or {}).get("expectedOutput")),
        output=None if failed else output,
        error=error_text(get_text(row, "statusMessage") or output) if failed else None,
        tags=tags if dataset_item is not None else (*tags, TAG_EXPECTED_OUTPUT_GONE),
        url=link(item.trace_id, item.span_id),
        input_tokens=spending.input_tokens,
        output_tokens=spending.output_tokens,
        cost_usd=spending.cost_usd,
        latency_ms=_trace_latency_ms(task, trace),
        tool_calls=spending.tool_calls,
        turns=spending.turns,
        scores=select_scores(
            [*bulk.scores.get(item.trace_id, ()), *(trace.get("scores") or ())],
            task_id=task.id if task else "",
        ),
    )


def _drop_long_fields(row: JSON, linked: frozenset[str | None]) -> JSON:
    """An observation without the texts of a call: only those of what may be the task are read."""
    is_root = row.get("parentObservationId") is None
    if is_root or row.get("name") == TASK_SPAN_NAME or row.get("id") in linked:
        return row
    return {name: value for name, value in row.items() if name not in LONG_FIELDS}


def _find_task(item: _RunItem, spans: Sequence[ObservedSpan]) -> TaskSpan | None:
    """The span of the agent's work: as SDKs name it, else the one that the run item names, else
    the root of the trace.
    """
    named = next((span for span in spans if span.name == TASK_SPAN_NAME), None)
    linked = next((span for span in spans if span.id == item.span_id), None)
    root = next((span for span in spans if span.parent_id is None), None)
    found = named or linked or root
    if found is None:
        return None
    return TaskSpan(id=found.id, trace_id=item.trace_id, start=found.start, end=found.end)


def _select_agent_calls(task: TaskSpan | None, spans: Sequence[ObservedSpan]) -> list[ObservedSpan]:
    if task is None:
        return []
    inside = [span for span in spans if span.id == task.id] + select_descendants(task, spans)
    return [span for span in inside if span.type in CALL_TYPES]


def _task_text(row: JSON, trace: JSON, name: str) -> str | None:
    own = normalize_json_value(row.get(name))
    return own if own is not None else normalize_json_value(trace.get(name))


def _trace_latency_ms(task: TaskSpan | None, trace: JSON) -> float | None:
    """Milliseconds of the task; of the whole trace where there is no task. -1 means unknown."""
    if task is not None and task.end is not None:
        return task_latency_ms(task)
    seconds = parse_number(trace.get("latency"))
    return seconds * 1000 if seconds is not None and seconds >= 0 else None
