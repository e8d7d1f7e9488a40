"""The Langfuse trace source: reads a run (experiment, or dataset run in API v3) or a time window."""

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from mosaico.core.http.threads import HEARTBEAT_S, with_heartbeat
from mosaico.core.http.throttle import CancelToken
from mosaico.core.resources import Resources
from mosaico.traces.registry import (
    TRACE_SOURCES,
    SourceSpec,
    TracePage,
    TraceQuery,
)
from mosaico.traces.sources.langfuse.catalog import (
    API_VERSIONS,
    check_server,
    find_dataset,
    find_project_id,
    has_dataset,
    list_items,
    list_runs,
    narrow_run,
    open_reader,
    translate_errors,
)
from mosaico.traces.sources.langfuse.client import (
    LangfuseClient,
    LangfuseCredentials,
    open_client,
    require_credentials,
    throttle_name,
)
from mosaico.traces.sources.langfuse.failures import (
    COLLECTION_POLICY,
    BadResponse,
    LangfusePolicy,
    SourceDatasetNotFound,
    SourceRunEmpty,
    SourceRunNotFound,
)
from mosaico.traces.sources.langfuse.json_fields import clean_texts
from mosaico.traces.sources.langfuse.reader import (
    INITIAL_CURSOR,
    ApiVersionMismatch,
    CollectionCursor,
    ExperimentRun,
    LangfuseDataset,
    RunReader,
    parse_cursor,
)
from mosaico.traces.sources.langfuse.score_settling import ScoreSettler
from mosaico.traces.sources.langfuse.scores import write_scores
from mosaico.traces.sources.langfuse.settling import RunSettler, is_active
from mosaico.traces.sources.langfuse.windows import WindowReader, estimate_requests
from mosaico.traces.types import Trace

log = logging.getLogger(__name__)

# Additional passes over a run with missing rows; the waits before them double.
# Waits of 5, 10, 20 and 40 s: together longer than reads lag behind writes (15 to 30 s).
MAX_PASSES: Final = 4


class _Awaited:
    """What the thread that reads a run waits for, in words; None while it does not wait."""

    text: str | None = None

    def tell(self, text: str | None) -> None:
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseSource:
    """Reads one run. The cursor holds the API version, the run, its unread part and the time."""

    resources: Resources
    policy: LangfusePolicy = COLLECTION_POLICY
    clock: Callable[[], float] = time.monotonic

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        credentials = require_credentials(query.url, query.public_key, query.secret_key)
        cancel, last_cursor = CancelToken(), cursor or INITIAL_CURSOR
        awaited = _Awaited()
        pages = self._read(credentials, query, cursor, cancel.pause, awaited)
        for page in with_heartbeat(pages, cancel, heartbeat_s=HEARTBEAT_S):
            if page is None:
                # A sign of life: the worker checks for a cancel while the source waits.
                yield TracePage(traces=(), cursor=last_cursor, waiting_for=awaited.text)
                continue
            last_cursor = page.cursor or last_cursor
            yield replace(page, traces=tuple(clean_texts(trace, query) for trace in page.traces))

    def _read(
        self,
        credentials: LangfuseCredentials,
        query: TraceQuery,
        cursor: str | None,
        pause: Callable[[float], None],
        awaited: "_Awaited",
    ) -> Generator[TracePage, None, None]:
        """The pages after a cursor: of the traces of production, or of a run."""
        if query.production is not None:
            window_reader = WindowReader(
                resources=self.resources,
                credentials=credentials,
                query=query,
                policy=self.policy,
                pause=pause,
            )
            return window_reader.pages(cursor)
        run_reader = _CollectionReader(
            source=self, credentials=credentials, query=query, pause=pause, awaited=awaited
        )
        return run_reader.pages(parse_cursor(cursor))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CollectionReader:
    """Reads one collection, or the rest of it, in a background thread."""

    source: LangfuseSource
    credentials: LangfuseCredentials
    query: TraceQuery
    pause: Callable[[float], None]
    awaited: _Awaited

    def pages(self, start: CollectionCursor | None) -> Generator[TracePage, None, None]:
        resources, policy = self.source.resources, self.source.policy
        with (
            open_client(resources, self.credentials, pause=self.pause, policy=policy) as client,
            translate_errors(),
        ):
            cursor: CollectionCursor | None = start or self._find_start(client)
            while cursor is not None:
                read_pass = _ReadPass(
                    reader=self._open_reader(client, cursor.api, cursor.project_id),
                    restart=partial(self._restart, client),
                    is_active=partial(is_active, self._now_ms, self.source.policy),
                )
                cursor = yield from read_pass.pages(cursor)

    def _find_start(self, client: LangfuseClient) -> CollectionCursor:
        """Find the run through the API versions in order.

        A run is where its writer stored it: runs of older SDKs are missing from API v4, so a server
        with both APIs is asked through both.
        Raises: `ApiVersionMismatch` when the server offers none of them; `SourceRunNotFound`.
        """
        project_id = find_project_id(client)
        try:
            dataset = self._find_dataset(client)
        except SourceDatasetNotFound:
            if (cursor := self._find_run_of_deleted_dataset(client, project_id)) is None:
                raise
            return cursor
        offered, rejections = list[RunReader](), list[str]()
        for api in API_VERSIONS:
            reader = self._open_reader(client, api, project_id)
            try:
                run = reader.find_run(dataset, self.query.run_name)
            except ApiVersionMismatch as mismatch:
                rejections.append(f"{api}: {mismatch.detail or 'not found'}")
                continue
            offered.append(reader)
            if run is not None:
                return self._settled_start(client, reader, run, project_id)
        if not offered:
            raise ApiVersionMismatch("; ".join(rejections))
        raise self._run_not_found(offered[0], dataset)

    def _find_run_of_deleted_dataset(
        self, client: LangfuseClient, project_id: str | None
    ) -> CollectionCursor | None:
        """The named run, if its dataset was deleted: API v4 keeps the rows of its experiments."""
        if self.query.run_name is None:
            return None
        reader = self._open_reader(client, "v4", project_id)
        try:
            run = reader.find_run(None, self.query.run_name)
        except ApiVersionMismatch:
            return None
        # A run of another dataset with this name is not the one that is asked for.
        if run is None or run.dataset_id is None or has_dataset(client, run.dataset_id):
            return None
        return self._settled_start(client, reader, run, project_id)

    def _settled_start(
        self, client: LangfuseClient, reader: RunReader, run: ExperimentRun, project_id: str | None
    ) -> CollectionCursor:
        run = self._settler(client, reader).wait(run)
        self._score_settler(reader).wait(run)
        now = self.source.resources.clock()
        return CollectionCursor(api=reader.api, run=run, project_id=project_id, as_of=now)

    def _find_dataset(self, client: LangfuseClient) -> LangfuseDataset | None:
        """The dataset of the benchmark; None when the query names a run and no dataset."""
        if self.query.dataset_ref is None and self.query.run_name is not None:
            return None
        return find_dataset(client, self.query.dataset_ref)

    def _run_not_found(
        self, reader: RunReader, dataset: LangfuseDataset | None
    ) -> SourceRunNotFound:
        names = reader.list_run_names(dataset)
        subject = f"the dataset {dataset.name!r}" if dataset else "the Langfuse project"
        missing = f"no run {self.query.run_name!r}" if self.query.run_name else "no run yet"
        newest = f"; its newest runs are {', '.join(map(repr, names))}" if names else ""
        return SourceRunNotFound(
            f"{subject} has {missing} (API {reader.api}){newest}. Correct runName, or omit it to"
            " read the newest run."
        )

    def _open_reader(self, client: LangfuseClient, api: str, project_id: str | None) -> RunReader:
        return open_reader(client, self.query, api, project_id, self._now_ms)

    def _settler(self, client: LangfuseClient, reader: RunReader) -> RunSettler:
        return RunSettler(
            client=client,
            reader=reader,
            query=self.query,
            policy=self.source.policy,
            pause=self.pause,
            clock=self.source.clock,
            now_ms=self._now_ms,
        )

    def _score_settler(self, reader: RunReader) -> ScoreSettler:
        return ScoreSettler(
            reader=reader,
            query=self.query,
            policy=self.source.policy,
            pause=self.pause,
            now_ms=self._now_ms,
            tell=self.awaited.tell,
        )

    def _now_ms(self) -> int:
        return int(self.source.resources.clock().timestamp() * 1000)

    def _restart(self, client: LangfuseClient, cursor: CollectionCursor) -> CollectionCursor:
        """The start of one more pass over the run as it is now, after a wait."""
        self.pause(self.source.policy.poll_s * 2.0**cursor.completed_passes)
        reader = self._open_reader(client, cursor.api, cursor.project_id)
        return replace(
            cursor,
            run=self._settler(client, reader).find_again(cursor.run),
            as_of=self.source.resources.clock(),
            traces_read=0,
            completed_passes=cursor.completed_passes + 1,
            remaining=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadPass:
    """One pass over a run, from a cursor to the end of the run."""

    reader: RunReader
    restart: Callable[[CollectionCursor], CollectionCursor]
    is_active: Callable[[ExperimentRun], bool]

    def pages(
        self, cursor: CollectionCursor
    ) -> Generator[TracePage, None, CollectionCursor | None]:
        """Yield the pages; return the start of the next pass, or None when the run is read.

        Raises: `SourceRunEmpty`; `BadResponse` when the server repeated itself before the end.
        """
        loop_detected = False
        with closing(TraceCounter()) as counter:
            for batch in self.reader.read_batches(cursor.run, cursor.remaining):
                loop_detected |= batch.loop_detected
                traces_read = cursor.traces_read + counter.add(batch.traces)
                cursor = replace(cursor, traces_read=traces_read, remaining=batch.remaining)
                if batch.remaining is not None:
                    yield _to_page(batch.traces, cursor, cursor)
        # The last batch is yielded after the decision: its cursor says whether the run is complete.
        following = self._next_cursor(cursor, loop_detected=loop_detected)
        yield _to_page(batch.traces, cursor, following)
        return following

    def _next_cursor(
        self, cursor: CollectionCursor, *, loop_detected: bool
    ) -> CollectionCursor | None:
        traces_read, item_count = cursor.traces_read, cursor.run.item_count
        # Compared by count: a server that answers without an error may still return fewer rows.
        if traces_read >= item_count > 0:
            return None
        # Only an active run can get the missing rows later.
        if cursor.completed_passes < MAX_PASSES and self.is_active(cursor.run):
            return self.restart(cursor)
        if loop_detected:
            raise BadResponse(
                f"Langfuse returned the same page twice, and only {traces_read} of {item_count}"
                f" traces of the run {cursor.run.name!r}; report it to the operator of the server,"
                " then retry"
            )
        if traces_read == 0:
            raise SourceRunEmpty(
                f"the run {cursor.run.name!r} has no traces (API {cursor.api}); check that it is"
                " the intended run, and that it has finished"
            )
        if traces_read < item_count:
            # Missing rows are missing, and never read as an answer of the agent.
            log.warning(
                "Langfuse reports %d traces and returned %d; the others are missing",
                item_count,
                traces_read,
            )
        return None


class TraceCounter:
    """Counts distinct traces, in a temporary file, because a run can have millions of them."""

    def __init__(self) -> None:
        # Imported here: 1 MiB that only a process needs that reads Langfuse.
        import sqlite3

        # An empty name is a private database on disk, deleted when it is closed.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE counted (trace INTEGER PRIMARY KEY)")

    def add(self, traces: Iterable[Trace]) -> int:
        """Add traces; returns how many of them are new."""
        changes_before = self._database.total_changes
        # With the item, because one trace can answer several items. A collision of 64-bit hashes
        # is unlikely among millions of traces.
        rows = ((hash((trace.trace_id, trace.item_id)),) for trace in traces)
        self._database.executemany("INSERT OR IGNORE INTO counted VALUES (?)", rows)
        return self._database.total_changes - changes_before

    def close(self) -> None:
        self._database.close()


def _to_page(
    traces: tuple[Trace, ...], read: CollectionCursor, following: CollectionCursor | None
) -> TracePage:
    return TracePage(
        traces=traces,
        cursor=None if following is None else following.encode(),
        total=read.run.item_count,
        as_of=read.as_of,
        run_name=read.run.name,
        run_id=read.run.source_id,
        run_at=datetime.fromtimestamp(read.run.start / 1000, UTC),
        dataset_items=read.run.dataset_items,
        warning=read.run.warning,
    )


def collection_lock(query: TraceQuery) -> str | None:
    """The lock of a collection: work with one key is sequential, in any number of workers."""
    return throttle_name((query.url or "").rstrip("/"), query.public_key or "")


TRACE_SOURCES.register(
    "langfuse",
    SourceSpec(
        title="Langfuse",
        open=lambda resources: LangfuseSource(resources=resources),
        lock=collection_lock,
        check=check_server,
        list_runs=list_runs,
        narrow_run=narrow_run,
        list_items=list_items,
        write_scores=write_scores,
        estimate=estimate_requests,
        reads_production=True,
        has_datasets=True,
        has_late_scores=True,
        maps_fields=True,
    ),
)
