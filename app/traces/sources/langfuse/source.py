"""Traces of a run that Langfuse holds: an experiment, which older servers call a dataset run."""

import logging
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from app.core.http.throttle import CancelToken
from app.core.resources import Resources
from app.traces.registry import TRACE_SOURCES, SourceSpec, TracePage, TraceQuery
from app.traces.sources.langfuse.background import HEARTBEAT_S, with_heartbeat
from app.traces.sources.langfuse.client import (
    LangfuseClient,
    LangfuseCredentials,
    open_client,
    require_credentials,
    throttle_name,
)
from app.traces.sources.langfuse.cursor import INITIAL_CURSOR, CollectionCursor, parse_cursor
from app.traces.sources.langfuse.errors import BadResponse, NoTraces, RunNotFound
from app.traces.sources.langfuse.reader import (
    ApiVersionMismatch,
    ExperimentRun,
    LangfuseDataset,
    RunReader,
)
from app.traces.sources.langfuse.retry import COLLECTION_POLICY, LangfusePolicy
from app.traces.sources.langfuse.runs import (
    API_VERSIONS,
    find_dataset,
    list_runs,
    missing_dataset_ref,
    open_reader,
    translate_errors,
)
from app.traces.sources.langfuse.scores import write_scores
from app.traces.sources.langfuse.server_cache import (
    SERVER_CACHE,
    ServerInfo,
    check_server,
    find_project_id,
)
from app.traces.types import Trace

log = logging.getLogger(__name__)

# Further passes over a run of which rows are missing; the waits before them double.
MAX_PASSES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseSource:
    """Reads one run; the cursor holds which API, run and stretches of time, and as of when."""

    resources: Resources
    policy: LangfusePolicy = COLLECTION_POLICY
    clock: Callable[[], float] = time.monotonic

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        access = require_credentials(query.url, query.public_key, query.secret_key)
        stop, last = CancelToken(), cursor or INITIAL_CURSOR
        reading = _CollectionReader(source=self, credentials=access, query=query, pause=stop.pause)
        for page in with_heartbeat(
            reading.pages(parse_cursor(cursor)), stop, heartbeat_s=HEARTBEAT_S
        ):
            if page is None:
                yield TracePage(traces=(), cursor=last)
                continue
            last = page.cursor or last
            yield page


@dataclass(frozen=True, slots=True, kw_only=True)
class _CollectionReader:
    """One collection, or what is left of it, read in the background."""

    source: LangfuseSource
    credentials: LangfuseCredentials
    query: TraceQuery
    pause: Callable[[float], None]

    def pages(self, position: CollectionCursor | None) -> Generator[TracePage, None, None]:
        resources, patience = self.source.resources, self.source.policy
        with (
            open_client(resources, self.credentials, pause=self.pause, policy=patience) as client,
            translate_errors(),
        ):
            at: CollectionCursor | None = position or self._find_start(client)
            while at is not None:
                once = _ReadPass(
                    reader=self._open_reader(client, at.api, at.project_id),
                    restart=partial(self._restart, client),
                    is_active=self._is_active,
                )
                at = yield from once.pages(at)

    def _find_start(self, client: LangfuseClient) -> CollectionCursor:
        """Find the run: by what is known of the server, or by all that a server may offer."""
        known = SERVER_CACHE.get(self.credentials.host, self.credentials.public_key)
        if known is None:
            return self._search_apis(client, find_project_id(client), API_VERSIONS)
        try:
            rest = API_VERSIONS[API_VERSIONS.index(known.api) :]
            return self._search_apis(client, known.project_id, rest)
        except ApiVersionMismatch:
            SERVER_CACHE.evict(self.credentials.host, self.credentials.public_key)
            return self._find_start(client)

    def _search_apis(
        self, client: LangfuseClient, project_id: str | None, apis: Sequence[str]
    ) -> CollectionCursor:
        """Raises: `OtherGeneration` when the server offers none of these APIs; `RunNotFound`."""
        dataset, offered, refused = self._find_dataset(client), list[RunReader](), list[str]()
        for api in apis:
            reader = self._open_reader(client, api, project_id)
            try:
                run = reader.find_run(dataset, self.query.run_name)
            except ApiVersionMismatch as other:
                refused.append(f"{api}: {other.detail or 'not found'}")
                continue
            offered.append(reader)
            known = ServerInfo(api=offered[0].api, project_id=project_id)
            SERVER_CACHE.put(self.credentials.host, self.credentials.public_key, known)
            if run is not None:
                settled = self._wait_until_stable(reader, dataset, run)
                now = self.source.resources.clock()
                return CollectionCursor(api=api, run=settled, project_id=project_id, as_of=now)
        if not offered:
            raise ApiVersionMismatch("; ".join(refused))
        raise self._run_not_found(offered[0], dataset)

    def _find_dataset(self, client: LangfuseClient) -> LangfuseDataset | None:
        """The dataset of the benchmark; a run that is named needs none."""
        name = self.query.dataset_ref
        if name is None:
            if self.query.run_name is None:
                raise missing_dataset_ref()
            return None
        return find_dataset(client, name)

    def _run_not_found(self, reader: RunReader, dataset: LangfuseDataset | None) -> RunNotFound:
        names = reader.list_run_names(dataset)
        wanted = f"no run {self.query.run_name!r}" if self.query.run_name else "no run yet"
        there = f"; its newest are {', '.join(map(repr, names))}" if names else ""
        where = f"the dataset {dataset.name!r}" if dataset else "the Langfuse project"
        return RunNotFound(
            f"{where} has {wanted} (asked with API {reader.api}){there}. Correct runName, or leave"
            " it out to read the newest run."
        )

    def _open_reader(self, client: LangfuseClient, api: str, project_id: str | None) -> RunReader:
        return open_reader(client, self.query, api, project_id, self._now_ms)

    def _now_ms(self) -> int:
        return int(self.source.resources.clock().timestamp() * 1000)

    def _is_active(self, run: ExperimentRun) -> bool:
        """Whether something may have happened in the run that cannot be read yet."""
        return self._now_ms() - run.end < self.source.policy.active_run_s * 1000

    def _wait_until_stable(
        self, reader: RunReader, dataset: LangfuseDataset | None, run: ExperimentRun
    ) -> ExperimentRun:
        """The run once it looks the same several times; at the deadline, as it is then."""
        patience = self.source.policy
        ends_at, same = self.source.clock() + patience.stable_deadline_s, 1
        while self._is_active(run) and same < patience.stable_polls:
            if self.source.clock() >= ends_at:
                log.warning("the run %r still grows; it is read as it is now", run.name)
                break
            self.pause(patience.poll_s)
            newer = reader.find_run(dataset, run.id if reader.api == "v4" else run.name) or run
            same = same + 1 if newer == run else 1
            run = newer
        return run

    def _restart(self, client: LangfuseClient, position: CollectionCursor) -> CollectionCursor:
        """The same run as it is now, to be read once more."""
        self.pause(self.source.policy.poll_s * 2.0**position.completed_passes)
        reader = self._open_reader(client, position.api, position.project_id)
        dataset = self._find_dataset(client)
        found = reader.find_run(
            dataset, position.run.id if position.api == "v4" else position.run.name
        )
        return replace(
            position,
            run=found or position.run,
            as_of=self.source.resources.clock(),
            traces_read=0,
            completed_passes=position.completed_passes + 1,
            remaining=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadPass:
    """Reading a run once, from a position to its end."""

    reader: RunReader
    restart: Callable[[CollectionCursor], CollectionCursor]
    is_active: Callable[[ExperimentRun], bool]

    def pages(
        self, position: CollectionCursor
    ) -> Generator[TracePage, None, CollectionCursor | None]:
        """The pages; returns where a next pass begins when traces were missing, which may come.

        Raises: `NoTraces`; `BadResponse` when the server went in a circle before the end.
        """
        circled = False
        with closing(TraceCounter()) as tally:
            for read in self.reader.read_batches(position.run, position.remaining):
                circled |= read.loop_detected
                so_far = position.traces_read + tally.add(read.traces)
                position = replace(position, traces_read=so_far, remaining=read.remaining)
                if read.remaining is not None:
                    yield _to_page(read.traces, position, position)
        after = self._next_cursor(position, circled=circled)
        yield _to_page(read.traces, position, after)
        return after

    def _next_cursor(self, position: CollectionCursor, *, circled: bool) -> CollectionCursor | None:
        read, count = position.traces_read, position.run.item_count
        if read >= count > 0:
            return None
        if position.completed_passes < MAX_PASSES and self.is_active(position.run):
            return self.restart(position)
        if circled:
            raise BadResponse(
                f"Langfuse gave the same page twice, and {read} of {count} traces of the run"
                f" {position.run.name!r}; report it to the operator of the server, then retry"
            )
        if read == 0:
            raise NoTraces(
                f"the run {position.run.name!r} holds no trace (asked with API {position.api});"
                " check that it is the right run, and that it has ended"
            )
        if read < count:
            log.warning(
                "Langfuse counts %d traces and gave %d; the others are missing", count, read
            )
        return None


class TraceCounter:
    """Counts traces, however often each of them comes, in a file like that of `ItemSpool`."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE counted (trace INTEGER PRIMARY KEY)")

    def add(self, traces: Iterable[Trace]) -> int:
        """How many of these had not been counted yet."""
        before = self._database.total_changes
        # With its item, since one trace may answer several; 64 bits tell a million apart.
        rows = ((hash((trace.trace_id, trace.item_id)),) for trace in traces)
        self._database.executemany("INSERT OR IGNORE INTO counted VALUES (?)", rows)
        return self._database.total_changes - before

    def close(self) -> None:
        self._database.close()


def _to_page(
    traces: tuple[Trace, ...], position: CollectionCursor, after: CollectionCursor | None
) -> TracePage:
    return TracePage(
        traces=traces,
        cursor=None if after is None else after.encode(),
        total=position.run.item_count,
        as_of=position.as_of,
        run_name=position.run.name,
        run_id=position.run.id,
        run_at=datetime.fromtimestamp(position.run.start / 1000, UTC),
    )


def collection_lock(query: TraceQuery) -> str | None:
    """Collections and written scores with one key follow each other, in however many workers."""
    return throttle_name((query.url or "").rstrip("/"), query.public_key or "")


TRACE_SOURCES.register(
    "langfuse",
    SourceSpec(
        open=lambda resources: LangfuseSource(resources=resources),
        lock=collection_lock,
        check=check_server,
        list_runs=list_runs,
        write_scores=write_scores,
    ),
)
