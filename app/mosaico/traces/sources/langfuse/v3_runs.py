"""Reader for API v3: dataset runs, whole traces, and observations by trace."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mosaico.core.http.threads import run_in_order
from mosaico.core.http.throttle import MAX_IN_FLIGHT
from mosaico.core.ids import is_path_segment
from mosaico.traces.sources.langfuse.client import (
    LangfuseClient,
    NumberedPage,
    Parameters,
    fetch_page,
    fetch_page_in_parts,
    get_rows,
    iter_pages,
    quote_segment,
)
from mosaico.traces.sources.langfuse.failures import BadResponse, NotFoundError, PageTooLarge
from mosaico.traces.sources.langfuse.json_fields import (
    JSON,
    format_time,
    get_text,
    get_time_ms,
    require_text,
)
from mosaico.traces.sources.langfuse.mapping import (
    MALFORMED_PREFIX,
    RunItem,
    digest_row,
    malformed_trace,
    map_trace,
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
from mosaico.traces.sources.langfuse.settling import describe_old_links, find_newest_links
from mosaico.traces.sources.langfuse.v3_windows import ROWS_PER_PAGE, fetch_bundle
from mosaico.traces.types import Trace

MAX_NAMES_SHOWN: Final = 10
MAX_RUNS_LISTED: Final = 20
# 1,000 runs: the list has no search by ID.
MAX_RUN_PAGES: Final = 10
RUN_ITEM_FIELDS: Final = ("id", "datasetItemId", "traceId", "observationId", "createdAt")
ITEM_FIELDS: Final = ("id", "expectedOutput", "metadata")


class ItemStore:
    """Items of a dataset by ID, in a temporary file: a dataset can exceed the memory."""

    def __init__(self) -> None:
        # Imported here: 1 MiB that only a process needs that reads Langfuse.
        import sqlite3

        # An empty name is a private database on disk; worker threads read it.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._lock = threading.Lock()
        self._database.execute("CREATE TABLE items (id TEXT PRIMARY KEY, item TEXT)")

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        # Without the input, which the trace has: the rest is all that it needs from its item.
        rows = [
            (str(item["id"]), json.dumps({name: item.get(name) for name in ITEM_FIELDS}))
            for item in items
        ]
        with self._lock:
            self._database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?)", rows)

    def find(self, item_ids: Sequence[str]) -> dict[str, JSON]:
        """The stored items among these IDs."""
        items: dict[str, JSON] = {}
        with self._lock:
            for item_id in item_ids:
                rows = self._database.execute("SELECT item FROM items WHERE id = ?", (item_id,))
                for (item,) in rows:
                    items[item_id] = json.loads(item)
        return items

    def close(self) -> None:
        self._database.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class V3Reader:
    """Reads dataset runs. The API returns only the newest trace of each item.

    `settle_ms` is the pause after which a run has ended; None: as `settle_time_ms`.
    """

    client: LangfuseClient
    link: TraceLink
    settle_ms: int | None = None
    api: Final = "v3"

    def find_run(self, dataset: LangfuseDataset | None, name: str | None) -> ExperimentRun | None:
        if dataset is None:
            return None
        _require_path_segment(dataset)
        # By name first, because that is one request; as ID only if no run has the name.
        if name is not None:
            document = self._fetch_run(dataset.name, name)
            if document is not None:
                return _parse_run(document, dataset.name, self.settle_ms)
        experiment_id = None if name is None else split_source_id(name)[0]
        run_name = self._find_run_name(dataset, run_id=experiment_id)
        document = None if run_name is None else self._fetch_run(dataset.name, run_name)
        return None if document is None else _parse_run(document, dataset.name, self.settle_ms)

    def refresh_run(self, run: ExperimentRun) -> ExperimentRun | None:
        document = self._fetch_run(run.dataset_name or "", run.name)
        return (
            None
            if document is None
            else _parse_run(document, run.dataset_name or "", self.settle_ms)
        )

    def narrow(self, run: ExperimentRun, _: int | None, /) -> ExperimentRun:
        """The run as it is: it was narrowed when it was found, since its items come with it."""
        return run

    def iter_rows(self, run: ExperimentRun) -> Iterator[ItemAnswer]:
        document = self._fetch_run(run.dataset_name or "", run.name) or {}
        rows = [row for row in _parse_rows(document, run.start) if row.start >= run.first_time]
        return iter(sorted(rows, key=lambda row: row.end, reverse=True))

    def list_runs(self, dataset: LangfuseDataset) -> list[ExperimentRun]:
        _require_path_segment(dataset)
        rows = sorted(
            self._fetch_runs(dataset.name, 1), key=lambda row: -(get_time_ms(row, "createdAt") or 0)
        )
        return [self._summarize_run(row, dataset) for row in rows[:MAX_RUNS_LISTED]]

    def list_run_names(self, dataset: LangfuseDataset | None) -> list[str]:
        rows = () if dataset is None else self._fetch_runs(dataset.name, 1)
        return [name for row in rows if (name := get_text(row, "name"))][:MAX_NAMES_SHOWN]

    def read_batches(self, run: ExperimentRun, remaining: JSON | None) -> Iterator[TraceBatch]:
        # Fetched again, also after a resume: the cursor holds a count of items, not the items.
        document = self._fetch_run(run.dataset_name or "", run.name)
        run_items = _parse_run_items(document or {}, since=run.since, until=run.end)
        if not run_items:
            yield TraceBatch(traces=(), remaining=None)
            return
        done = int(remaining["done"]) if remaining else 0
        with closing(ItemStore()) as items:
            self._load_items(items, run, {item.item_id for item in run_items[done:]})
            starts = range(done, len(run_items), ROWS_PER_PAGE)
            chunks = [run_items[start : start + ROWS_PER_PAGE] for start in starts]
            tasks = (partial(self._read_traces, chunk, items) for chunk in chunks)
            # Each chunk takes several requests, so half the concurrency keeps the client busy.
            for traces in run_in_order(tasks, concurrency=MAX_IN_FLIGHT // 2):
                done = min(done + ROWS_PER_PAGE, len(run_items))
                unread = {"done": done} if done < len(run_items) else None
                yield TraceBatch(traces=traces, remaining=unread)

    def _find_run_name(self, dataset: LangfuseDataset, *, run_id: str | None) -> str | None:
        """The name of the run with this ID, or of the newest run."""
        if run_id is None:
            runs = self._fetch_runs(dataset.name, 1)
            newest = max(runs, key=lambda run: get_time_ms(run, "createdAt") or 0, default={})
            return get_text(newest, "name")
        run = self._find_listed_run(dataset.name, "id", run_id)
        return None if run is None else get_text(run, "name")

    def _find_listed_run(self, dataset_name: str, field: str, value: str) -> JSON | None:
        """The listed run with this field value, without its items."""
        for number in range(1, MAX_RUN_PAGES + 1):
            runs = self._fetch_runs(dataset_name, number)
            match = next((run for run in runs if run.get(field) == value), None)
            if match is not None or not runs:
                return match
        return None

    def _fetch_runs(self, dataset_name: str, number: int) -> list[JSON]:
        """Return one page of the run list. Raises: `ApiVersionMismatch`."""
        path = f"/datasets/{quote_segment(dataset_name)}/runs"
        try:
            document = self.client.get(path, {"page": number, "limit": ROWS_PER_PAGE})
        except NotFoundError as error:
            raise ApiVersionMismatch(error.detail) from None
        return get_rows(document, f"GET {path}")

    def _summarize_run(self, row: JSON, dataset: LangfuseDataset) -> ExperimentRun:
        """A run without its items, in one request.

        A page of one item returns the newest item, which dates the end of the run, and the number
        of pages, which is the number of items.
        """
        name = require_text(row, "name", "a run")
        newest = self._fetch_run_items(dataset.id, name, 1, limit=1)
        start = _require_start(row)
        times = (get_time_ms(item, "createdAt") or start for item in newest.rows)
        return ExperimentRun(
            id=require_text(row, "id", "a run"),
            name=name,
            dataset_name=dataset.name,
            start=start,
            end=max(times, default=start),
            item_count=newest.total_pages if newest.rows else 0,
        )

    def _fetch_run(self, dataset_name: str, name: str) -> JSON | None:
        """A run with all its items, in one response if it is not too large; None if not found.

        Raises: `ApiVersionMismatch` when the server no longer offers this API.
        """
        if not is_path_segment(name):
            return self._fetch_run_in_pages(dataset_name, name)
        path = f"/datasets/{quote_segment(dataset_name)}/runs/{quote_segment(name)}"
        try:
            return self.client.get(path)
        except PageTooLarge:
            return self._fetch_run_in_pages(dataset_name, name)
        except NotFoundError as error:
            # A v4-only server also answers 404, before it looks for the run; only its message
            # differs, and a server without this path sends no message at all.
            if "events_only" in error.detail or not error.detail:
                raise ApiVersionMismatch(error.detail) from None
            return None

    def _fetch_run_in_pages(self, dataset_name: str, name: str) -> JSON | None:
        run = self._find_listed_run(dataset_name, "name", name)
        if run is None:
            return None
        dataset_id = require_text(run, "datasetId", "a run")
        fetch = partial(self._fetch_run_items, dataset_id, name, limit=ROWS_PER_PAGE)
        pages = iter_pages(
            fetch, limit=ROWS_PER_PAGE, concurrency=MAX_IN_FLIGHT, rows_name="items of a run"
        )
        return {**run, "datasetRunItems": [row for page in pages for row in page.rows]}

    def _fetch_run_items(
        self, dataset_id: str, name: str, number: int, *, limit: int
    ) -> NumberedPage:
        parameters: Parameters = {"datasetId": dataset_id, "runName": name, "limit": limit}
        try:
            return fetch_page(
                self.client, "/dataset-run-items", parameters, number, RUN_ITEM_FIELDS
            )
        except NotFoundError:
            # 404 means no items here; a server without this API was noticed before.
            return NumberedPage([], 0)

    def _load_items(self, items: ItemStore, run: ExperimentRun, item_ids: set[str]) -> None:
        """Read the dataset as it was when the run started, until all needed items are stored."""
        # The version includes items that were deleted or archived after the start of the run.
        parameters = {
            "datasetName": run.dataset_name,
            "version": format_time(run.start),
            "limit": ROWS_PER_PAGE,
        }
        fetch = partial(
            fetch_page_in_parts, self.client, "/dataset-items", parameters, fields=ITEM_FIELDS
        )
        missing = set(item_ids)
        for page in iter_pages(
            fetch, limit=ROWS_PER_PAGE, concurrency=MAX_IN_FLIGHT, rows_name="items of a dataset"
        ):
            items.add(page.rows)
            missing -= {str(row.get("id")) for row in page.rows}
            # Usually long before the end of a large dataset.
            if not missing:
                return

    def _read_traces(self, run_items: Sequence[RunItem], items: ItemStore) -> tuple[Trace, ...]:
        linked_items = [item for item in run_items if not item.is_malformed]
        linked_spans = frozenset(item.span_id for item in linked_items)
        bundle = fetch_bundle(
            self.client, sorted({item.trace_id for item in linked_items}), linked_spans
        )
        dataset_items = items.find([item.item_id for item in linked_items])
        return *(
            map_trace(item, bundle, dataset_items.get(item.item_id), self.link)
            for item in linked_items
            if item.trace_id in bundle.traces
        ), *(
            malformed_trace(item.trace_id, item.item_id) for item in run_items if item.is_malformed
        )


def _require_path_segment(dataset: LangfuseDataset) -> None:
    """Raises: `ApiVersionMismatch`: API v3 reads a dataset by path only, API v4 by its ID."""
    if not is_path_segment(dataset.name):
        raise ApiVersionMismatch(
            f"the dataset name {dataset.name!r} cannot be part of a URL; rename the dataset"
        )


def _parse_run(document: JSON, dataset_name: str, settle_ms: int | None) -> ExperimentRun:
    created = _require_start(document)
    rows = _parse_rows(document, created)
    end = max((row.end for row in rows), default=created)
    since = find_newest_links(created, rows, settle_ms)
    return ExperimentRun(
        id=require_text(document, "id", "a run"),
        name=require_text(document, "name", "a run"),
        dataset_name=dataset_name,
        start=created if since is None else since,
        end=end,
        item_count=len(_parse_run_items(document, since=since, until=end)),
        since=since,
        warning=describe_old_links(rows) if since is None else None,
    )


def _parse_rows(document: JSON, created: int) -> list[ItemAnswer]:
    """The links of a run to its traces, each at the time at which it was made."""
    links = ((get_time_ms(row, "createdAt") or created, row) for row in _run_item_rows(document))
    return [ItemAnswer(str(row.get("datasetItemId")), at, at) for at, row in links]


def _require_start(document: JSON) -> int:
    start = get_time_ms(document, "createdAt")
    if start is None:
        raise BadResponse(
            "Langfuse returned a run without createdAt; check that langfuseUrl is the address of a"
            " Langfuse server of version 3"
        )
    return start


def _parse_run_items(document: JSON, *, since: int | None, until: int) -> list[RunItem]:
    """The items of a run in a time (milliseconds since 1970), deduplicated.

    Sorted by ID: the cursor counts items, so the order must not change when items are added.
    """
    run_items = {
        _run_item_id(item): _parse_run_item(item)
        for item in _run_item_rows(document)
        if (since or 0) <= (get_time_ms(item, "createdAt") or until) <= until
    }
    if run_items and all(item.is_malformed for item in run_items.values()):
        raise BadResponse(
            "Langfuse returned a run whose items have no datasetItemId or traceId; check that"
            " langfuseUrl is the address of a Langfuse server of version 3"
        )
    return [run_items[run_item_id] for run_item_id in sorted(run_items)]


def _run_item_rows(document: JSON) -> list[JSON]:
    rows = document.get("datasetRunItems") or ()
    return [row if isinstance(row, dict) else {"row": row} for row in rows]


def _run_item_id(item: JSON) -> str:
    """The ID of a link; of one without it, an ID by its content."""
    return get_text(item, "id") or digest_row(item)


def _parse_run_item(item: JSON) -> RunItem:
    item_id, trace_id = get_text(item, "datasetItemId"), get_text(item, "traceId")
    if item_id is None or trace_id is None:
        placeholder = f"{MALFORMED_PREFIX}{_run_item_id(item)}"
        return RunItem(item_id or placeholder, placeholder, None, is_malformed=True)
    return RunItem(item_id, trace_id, get_text(item, "observationId"))
