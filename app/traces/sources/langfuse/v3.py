"""The third generation of the API: dataset runs, traces, and observations by trace."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from app.core.http.throttle import IN_FLIGHT
from app.traces.sources.langfuse.background import in_order
from app.traces.sources.langfuse.client import (
    Client,
    Parameters,
    is_segment,
    rows_of,
    segment,
)
from app.traces.sources.langfuse.errors import AskForLess, BadResponse, NotThere
from app.traces.sources.langfuse.mapping import error_text, latency_ms, trial_of
from app.traces.sources.langfuse.page_pagination import (
    Page,
    each_page,
    read_page,
    read_page_in_parts,
)
from app.traces.sources.langfuse.payload import (
    JSON,
    moment,
    number_of,
    object_of,
    required_text,
    tags_of,
    text_of,
    text_of_value,
    time_of,
)
from app.traces.sources.langfuse.reader import Dataset, FoundRun, Link, OtherGeneration, ReadPage
from app.traces.sources.langfuse.scores import by_trace, scores_of
from app.traces.sources.langfuse.usage import (
    CALL_TYPES,
    TASK_SPAN,
    Span,
    Task,
    below,
    span_of,
    spending_of,
)
from app.traces.types import Outcome, Trace

ROWS: Final = 100
FEWEST_IDS: Final = 1
NAMES_SHOWN: Final = 10
RUNS_LISTED: Final = 20
RUN_ITEM_FIELDS: Final = ("id", "datasetItemId", "traceId", "observationId", "createdAt")
ITEM_FIELDS: Final = ("id", "expectedOutput")
LONG_FIELDS: Final = ("input", "output", "metadata")
RUN_PAGES_SEARCHED: Final = 10
NO_EXPECTED_OUTPUT: Final = "expected-output-gone"


class _RunItem(NamedTuple):
    """That a trace, or a span of it, answered an item of the dataset."""

    item_id: str
    trace_id: str
    span_id: str | None


class _Bulk(NamedTuple):
    """All that is known of some traces."""

    traces: dict[str, JSON]
    observations: dict[str, list[JSON]]
    scores: dict[str, list[Mapping[str, Any]]]

    def with_more(self, other: "_Bulk") -> "_Bulk":
        return _Bulk(
            self.traces | other.traces,
            self.observations | other.observations,
            self.scores | other.scores,
        )


class ItemSpool:
    """Items by id, in a file of its own that nobody else sees and that ends with it."""

    def __init__(self) -> None:
        # An empty name is a private database on disk; its readers may be in other threads.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._turn = threading.Lock()
        self._database.execute("CREATE TABLE items (id TEXT PRIMARY KEY, item TEXT)")

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        rows = [
            (str(item["id"]), json.dumps({"expectedOutput": item.get("expectedOutput")}))
            for item in items
        ]
        with self._turn:
            self._database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?)", rows)

    def find(self, ids: Sequence[str]) -> dict[str, JSON]:
        """Those of the items that there are."""
        found: dict[str, JSON] = {}
        with self._turn:
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

    client: Client
    link: Link
    api: Final = "v3"

    def find(self, dataset: Dataset | None, name: str | None) -> FoundRun | None:
        if dataset is None:
            return None
        _require_segment(dataset)
        if name is not None:
            document = self._run(dataset.name, name)
            if document is not None:
                return _found_run(document, dataset)
        newest = self._newest_or_by_id(dataset, name)
        document = None if newest is None else self._run(dataset.name, newest)
        return None if document is None else _found_run(document, dataset)

    def runs(self, dataset: Dataset) -> list[FoundRun]:
        _require_segment(dataset)
        rows = sorted(
            self._runs(dataset.name, 1), key=lambda row: -(time_of(row, "createdAt") or 0)
        )
        return [self._listed(row, dataset) for row in rows[:RUNS_LISTED]]

    def known(self, dataset: Dataset | None) -> list[str]:
        runs = () if dataset is None else self._runs(dataset.name, 1)
        return [name for run in runs if (name := text_of(run, "name"))][:NAMES_SHOWN]

    def pages(self, run: FoundRun, rest: JSON | None) -> Iterator[ReadPage]:
        document = self._run(run.dataset_name or "", run.name)
        items = _run_items(document or {}, until=run.end)
        if not items:
            yield ReadPage(traces=(), rest=None)
            return
        done = int(rest["done"]) if rest else 0
        with closing(ItemSpool()) as spool:
            self._fill(spool, run, wanted={item.item_id for item in items[done:]})
            chunks = [items[at : at + ROWS] for at in range(done, len(items), ROWS)]
            works = (partial(self._traces, chunk, spool) for chunk in chunks)
            for traces in in_order(works, ahead=IN_FLIGHT // 2):
                done = min(done + ROWS, len(items))
                yield ReadPage(traces=traces, rest={"done": done} if done < len(items) else None)

    def _newest_or_by_id(self, dataset: Dataset, run_id: str | None) -> str | None:
        """The name of the run with an id, or of the newest."""
        if run_id is None:
            runs = self._runs(dataset.name, 1)
            newest = max(runs, key=lambda run: time_of(run, "createdAt") or 0, default={})
            return text_of(newest, "name")
        found = self._listed_as(dataset.name, "id", run_id)
        return None if found is None else text_of(found, "name")

    def _listed_as(self, dataset_name: str, field: str, value: str) -> JSON | None:
        """The run whose id or name that is, without its items."""
        for page in range(1, RUN_PAGES_SEARCHED + 1):
            runs = self._runs(dataset_name, page)
            found = next((run for run in runs if run.get(field) == value), None)
            if found is not None or not runs:
                return found
        return None

    def _runs(self, dataset_name: str, page: int) -> list[JSON]:
        path = f"/datasets/{segment(dataset_name)}/runs"
        try:
            document = self.client.get(path, {"page": page, "limit": ROWS})
        except NotThere as error:
            raise OtherGeneration(error.detail) from None
        return rows_of(document, f"GET {path}")

    def _listed(self, row: JSON, dataset: Dataset) -> FoundRun:
        """A run without its items: its newest one tells of its end, the pages how many there are."""
        name = required_text(row, "name", "a run")
        newest = self._run_items(dataset.id, name, 1, limit=1)
        start = _start_of(row)
        return FoundRun(
            id=required_text(row, "id", "a run"),
            name=name,
            dataset_name=dataset.name,
            start=start,
            end=max((time_of(item, "createdAt") or start for item in newest.rows), default=start),
            count=newest.total_pages if newest.rows else 0,
        )

    def _run(self, dataset_name: str, name: str) -> JSON | None:
        """A run with all its items, in one answer where that is not too much; None if there is none.

        Raises: `OtherGeneration` when the server does not offer this any more.
        """
        if not is_segment(name):
            return self._run_in_pages(dataset_name, name)
        path = f"/datasets/{segment(dataset_name)}/runs/{segment(name)}"
        try:
            return self.client.get(path)
        except AskForLess:
            return self._run_in_pages(dataset_name, name)
        except NotThere as error:
            if "events_only" in error.detail or not error.detail:
                raise OtherGeneration(error.detail) from None
            return None

    def _run_in_pages(self, dataset_name: str, name: str) -> JSON | None:
        run = self._listed_as(dataset_name, "name", name)
        if run is None:
            return None
        dataset_id = required_text(run, "datasetId", "a run")
        read = partial(self._run_items, dataset_id, name, limit=ROWS)
        pages = each_page(read, limit=ROWS, ahead=IN_FLIGHT, what="items of a run")
        return {**run, "datasetRunItems": [row for page in pages for row in page.rows]}

    def _run_items(self, dataset_id: str, name: str, number: int, *, limit: int) -> Page:
        asked: Parameters = {"datasetId": dataset_id, "runName": name, "limit": limit}
        try:
            return read_page(self.client, "/dataset-run-items", asked, number, RUN_ITEM_FIELDS)
        except NotThere:
            return Page([], 0)

    def _fill(self, spool: ItemSpool, run: FoundRun, wanted: set[str]) -> None:
        """Read the dataset as it was when the run began, as far as the run needs it."""
        asked = {"datasetName": run.dataset_name, "version": moment(run.start), "limit": ROWS}
        read = partial(read_page_in_parts, self.client, "/dataset-items", asked, fields=ITEM_FIELDS)
        missing = set(wanted)
        for page in each_page(read, limit=ROWS, ahead=IN_FLIGHT, what="items of a dataset"):
            spool.add(page.rows)
            missing -= {str(row.get("id")) for row in page.rows}
            if not missing:
                return

    def _traces(self, items: Sequence[_RunItem], spool: ItemSpool) -> tuple[Trace, ...]:
        linked = frozenset(item.span_id for item in items)
        bulk = self._bulk(sorted({item.trace_id for item in items}), linked)
        expected = spool.find([item.item_id for item in items])
        return tuple(
            _trace(item, bulk, expected.get(item.item_id), self.link)
            for item in items
            if item.trace_id in bulk.traces
        )

    def _bulk(self, ids: Sequence[str], linked: frozenset[str | None]) -> _Bulk:
        """Traces with observations and scores; in smaller groups when the server asks for it."""
        try:
            return self._bulk_at_once(ids, linked)
        except AskForLess as refusal:
            if len(ids) <= FEWEST_IDS:
                raise refusal.instead from None
            half = len(ids) // 2
            first, second = self._bulk(ids[:half], linked), self._bulk(ids[half:], linked)
            return first.with_more(second)

    def _bulk_at_once(self, ids: Sequence[str], linked: frozenset[str | None]) -> _Bulk:
        rows = self._filtered("/traces", "id", ids, fields="core,io,scores,observations,metrics")
        traces: dict[str, JSON] = {}
        for row in rows:
            if row.get("id") in ids:
                traces[str(row["id"])] = row
            if len(traces) == len(ids):
                break  # all that was asked for: no further page is looked at
        for trace_id in ids:
            if trace_id not in traces and (one := self._trace(trace_id)) is not None:
                traces[trace_id] = one
        if not traces:
            return _Bulk({}, {}, {})
        observations: dict[str, list[JSON]] = {}
        for row in self._filtered("/observations", "traceId", list(traces)):
            observations.setdefault(str(row.get("traceId")), []).append(_slim(row, linked))
        scores = by_trace(self._filtered("/v2/scores", "traceId", list(traces)))
        return _Bulk(traces, observations, dict(scores))

    def _trace(self, trace_id: str) -> JSON | None:
        """One trace, from a server that does not know filters or has not got the trace yet."""
        if not is_segment(trace_id):
            return None
        try:
            return self.client.get(f"/traces/{segment(trace_id)}")
        except NotThere:
            return None

    def _filtered(
        self, path: str, column: str, values: Sequence[str], **more: str
    ) -> Iterator[JSON]:
        """All rows of which a column has one of some values."""
        asks = [
            {"type": "stringOptions", "column": column, "operator": "any of", "value": list(values)}
        ]
        asked: Parameters = {"filter": json.dumps(asks), "limit": ROWS, **more}
        read = read_page if len(values) > FEWEST_IDS else read_page_in_parts
        what = path.removeprefix("/")
        for page in each_page(partial(read, self.client, path, asked), limit=ROWS, what=what):
            yield from page.rows


def _require_segment(dataset: Dataset) -> None:
    if not is_segment(dataset.name):
        raise OtherGeneration(
            f"no address of it can hold the dataset's name {dataset.name!r}; rename the dataset"
        )


def _found_run(document: JSON, dataset: Dataset) -> FoundRun:
    start = _start_of(document)
    times = (time_of(item, "createdAt") or start for item in document.get("datasetRunItems") or ())
    end = max(times, default=start)
    return FoundRun(
        id=required_text(document, "id", "a run"),
        name=required_text(document, "name", "a run"),
        dataset_name=dataset.name,
        start=start,
        end=end,
        count=len(_run_items(document, until=end)),
    )


def _start_of(document: JSON) -> int:
    start = time_of(document, "createdAt")
    if start is None:
        raise BadResponse(
            "Langfuse sent a run without createdAt; check that langfuseUrl is the address of a"
            " Langfuse server of version 3"
        )
    return start


def _run_items(document: JSON, *, until: int) -> list[_RunItem]:
    """The items of a run as of a time, in a fixed order."""
    found = {
        str(item.get("id")): _RunItem(
            item_id=required_text(item, "datasetItemId", "an item of a run"),
            trace_id=required_text(item, "traceId", "an item of a run"),
            span_id=text_of(item, "observationId"),
        )
        for item in document.get("datasetRunItems") or ()
        if (time_of(item, "createdAt") or until) <= until
    }
    return [found[identity] for identity in sorted(found)]


def _trace(item: _RunItem, bulk: _Bulk, dataset_item: JSON | None, link: Link) -> Trace:
    """A run item as a trace: the texts of the agent's own span, or of the whole trace."""
    trace, rows = bulk.traces[item.trace_id], bulk.observations.get(item.trace_id, [])
    spans = [span for row in rows if (span := span_of(row)) is not None]
    task = _task(item, spans)
    row = next((row for row in rows if task is not None and row.get("id") == task.id), {})
    output, failed = _text(row, trace, "output"), row.get("level") == "ERROR"
    spending = spending_of(_own_calls(task, spans))
    tags = tags_of(trace.get("tags"))
    return Trace(
        trace_id=item.trace_id,
        item_id=item.item_id,
        trial=trial_of(object_of(trace, "metadata")),
        outcome=Outcome.AGENT_ERROR if failed else Outcome.SCORED,
        input=_text(row, trace, "input"),
        expected_output=text_of_value((dataset_item or {}).get("expectedOutput")),
        output=None if failed else output,
        error=error_text(text_of(row, "statusMessage") or output) if failed else None,
        tags=tags if dataset_item is not None else (*tags, NO_EXPECTED_OUTPUT),
        url=link(item.trace_id, item.span_id),
        input_tokens=spending.input_tokens,
        output_tokens=spending.output_tokens,
        cost_usd=spending.cost_usd,
        latency_ms=_latency(task, trace),
        tool_calls=spending.tool_calls,
        turns=spending.turns,
        scores=scores_of(
            [*bulk.scores.get(item.trace_id, ()), *(trace.get("scores") or ())],
            task_id=task.id if task else "",
        ),
    )


def _slim(row: JSON, linked: frozenset[str | None]) -> JSON:
    """An observation without the texts of a call: only those of what may be the task are read."""
    is_root = row.get("parentObservationId") is None
    if is_root or row.get("name") == TASK_SPAN or row.get("id") in linked:
        return row
    return {name: value for name, value in row.items() if name not in LONG_FIELDS}


def _task(item: _RunItem, spans: Sequence[Span]) -> Task | None:
    """The span of the agent's work: as SDKs name it, else the one that the run item names, else
    the root of the trace.
    """
    named = next((span for span in spans if span.name == TASK_SPAN), None)
    linked = next((span for span in spans if span.id == item.span_id), None)
    root = next((span for span in spans if span.parent_id is None), None)
    found = named or linked or root
    if found is None:
        return None
    return Task(id=found.id, trace_id=item.trace_id, start=found.start, end=found.end)


def _own_calls(task: Task | None, spans: Sequence[Span]) -> list[Span]:
    if task is None:
        return []
    inside = [span for span in spans if span.id == task.id] + below(task, spans)
    return [span for span in inside if span.type in CALL_TYPES]


def _text(row: JSON, trace: JSON, name: str) -> str | None:
    own = text_of_value(row.get(name))
    return own if own is not None else text_of_value(trace.get(name))


def _latency(task: Task | None, trace: JSON) -> float | None:
    """Milliseconds of the task; of the whole trace where there is no task. -1 means unknown."""
    if task is not None and task.end is not None:
        return latency_ms(task)
    seconds = number_of(trace.get("latency"))
    return seconds * 1000 if seconds is not None and seconds >= 0 else None
