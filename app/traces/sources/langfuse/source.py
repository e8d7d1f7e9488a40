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
from app.traces.sources.langfuse.background import BEAT_S, attended
from app.traces.sources.langfuse.client import (
    Access,
    Client,
    access_of,
    open_client,
    turn_of,
)
from app.traces.sources.langfuse.cursor import START, Position, read_position
from app.traces.sources.langfuse.errors import BadResponse, NoTraces, RunNotFound
from app.traces.sources.langfuse.reader import Dataset, FoundRun, OtherGeneration, Reader
from app.traces.sources.langfuse.retry import PATIENCE, Patience
from app.traces.sources.langfuse.runs import (
    GENERATIONS,
    find_dataset,
    list_runs,
    no_dataset,
    reader_of,
    told,
)
from app.traces.sources.langfuse.scores import write_scores
from app.traces.sources.langfuse.server_cache import SERVERS, Known, check, project_of
from app.traces.types import Trace

log = logging.getLogger(__name__)

# Further passes over a run of which rows are missing; the waits before them double.
MAX_PASSES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseSource:
    """Reads one run; the cursor holds which API, run and stretches of time, and as of when."""

    resources: Resources
    patience: Patience = PATIENCE
    clock: Callable[[], float] = time.monotonic

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]:
        access = access_of(query.url, query.public_key, query.secret_key)
        stop, last = CancelToken(), cursor or START
        reading = _Reading(source=self, access=access, query=query, pause=stop.pause)
        for page in attended(reading.pages(read_position(cursor)), stop, beat_s=BEAT_S):
            if page is None:
                yield TracePage(traces=(), cursor=last)
                continue
            last = page.cursor or last
            yield page


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One collection, or what is left of it, read in the background."""

    source: LangfuseSource
    access: Access
    query: TraceQuery
    pause: Callable[[float], None]

    def pages(self, position: Position | None) -> Generator[TracePage, None, None]:
        resources, patience = self.source.resources, self.source.patience
        with (
            open_client(resources, self.access, pause=self.pause, patience=patience) as client,
            told(),
        ):
            at: Position | None = position or self._begin(client)
            while at is not None:
                once = _Pass(
                    reader=self._reader(client, at.api, at.project_id),
                    again=partial(self._again, client),
                    settling=self._is_settling,
                )
                at = yield from once.pages(at)

    def _begin(self, client: Client) -> Position:
        """Find the run: by what is known of the server, or by all that a server may offer."""
        known = SERVERS.find(self.access.host, self.access.public_key)
        if known is None:
            return self._search(client, project_of(client), GENERATIONS)
        try:
            rest = GENERATIONS[GENERATIONS.index(known.api) :]
            return self._search(client, known.project_id, rest)
        except OtherGeneration:
            SERVERS.forget(self.access.host, self.access.public_key)
            return self._begin(client)

    def _search(self, client: Client, project_id: str | None, apis: Sequence[str]) -> Position:
        """Raises: `OtherGeneration` when the server offers none of these APIs; `RunNotFound`."""
        dataset, offered, refused = self._dataset(client), list[Reader](), list[str]()
        for api in apis:
            reader = self._reader(client, api, project_id)
            try:
                run = reader.find(dataset, self.query.run_name)
            except OtherGeneration as other:
                refused.append(f"{api}: {other.detail or 'not found'}")
                continue
            offered.append(reader)
            known = Known(api=offered[0].api, project_id=project_id)
            SERVERS.keep(self.access.host, self.access.public_key, known)
            if run is not None:
                settled = self._settled(reader, dataset, run)
                now = self.source.resources.clock()
                return Position(api=api, run=settled, project_id=project_id, as_of=now)
        if not offered:
            raise OtherGeneration("; ".join(refused))
        raise self._no_run(offered[0], dataset)

    def _dataset(self, client: Client) -> Dataset | None:
        """The dataset of the benchmark; a run that is named needs none."""
        name = self.query.dataset_ref
        if name is None:
            if self.query.run_name is None:
                raise no_dataset()
            return None
        return find_dataset(client, name)

    def _no_run(self, reader: Reader, dataset: Dataset | None) -> RunNotFound:
        names = reader.known(dataset)
        wanted = f"no run {self.query.run_name!r}" if self.query.run_name else "no run yet"
        there = f"; its newest are {', '.join(map(repr, names))}" if names else ""
        where = f"the dataset {dataset.name!r}" if dataset else "the Langfuse project"
        return RunNotFound(
            f"{where} has {wanted} (asked with API {reader.api}){there}. Correct runName, or leave"
            " it out to read the newest run."
        )

    def _reader(self, client: Client, api: str, project_id: str | None) -> Reader:
        return reader_of(client, self.query, api, project_id, self._now_ms)

    def _now_ms(self) -> int:
        return int(self.source.resources.clock().timestamp() * 1000)

    def _is_settling(self, run: FoundRun) -> bool:
        """Whether something may have happened in the run that cannot be read yet."""
        return self._now_ms() - run.end < self.source.patience.settling_s * 1000

    def _settled(self, reader: Reader, dataset: Dataset | None, run: FoundRun) -> FoundRun:
        """The run once it looks the same several times; at the deadline, as it is then."""
        patience = self.source.patience
        ends_at, same = self.source.clock() + patience.settle_deadline_s, 1
        while self._is_settling(run) and same < patience.stable_polls:
            if self.source.clock() >= ends_at:
                log.warning("the run %r still grows; it is read as it is now", run.name)
                break
            self.pause(patience.poll_s)
            newer = reader.find(dataset, run.id if reader.api == "v4" else run.name) or run
            same = same + 1 if newer == run else 1
            run = newer
        return run

    def _again(self, client: Client, position: Position) -> Position:
        """The same run as it is now, to be read once more."""
        self.pause(self.source.patience.poll_s * 2.0**position.passes)
        reader = self._reader(client, position.api, position.project_id)
        dataset = self._dataset(client)
        found = reader.find(dataset, position.run.id if position.api == "v4" else position.run.name)
        return replace(
            position,
            run=found or position.run,
            as_of=self.source.resources.clock(),
            read=0,
            passes=position.passes + 1,
            rest=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """Reading a run once, from a position to its end."""

    reader: Reader
    again: Callable[[Position], Position]
    settling: Callable[[FoundRun], bool]

    def pages(self, position: Position) -> Generator[TracePage, None, Position | None]:
        """The pages; returns where a next pass begins when traces were missing, which may come.

        Raises: `NoTraces`; `BadResponse` when the server went in a circle before the end.
        """
        circled = False
        with closing(TraceTally()) as tally:
            for read in self.reader.pages(position.run, position.rest):
                circled |= read.circled
                so_far = position.read + tally.add(read.traces)
                position = replace(position, read=so_far, rest=read.rest)
                if read.rest is not None:
                    yield _page(read.traces, position, position)
        after = self._after(position, circled=circled)
        yield _page(read.traces, position, after)
        return after

    def _after(self, position: Position, *, circled: bool) -> Position | None:
        read, count = position.read, position.run.count
        if read >= count > 0:
            return None
        if position.passes < MAX_PASSES and self.settling(position.run):
            return self.again(position)
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


class TraceTally:
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


def _page(traces: tuple[Trace, ...], position: Position, after: Position | None) -> TracePage:
    return TracePage(
        traces=traces,
        cursor=None if after is None else after.text(),
        total=position.run.count,
        as_of=position.as_of,
        run_name=position.run.name,
        run_id=position.run.id,
        run_at=datetime.fromtimestamp(position.run.start / 1000, UTC),
    )


def lock_of(query: TraceQuery) -> str | None:
    """Collections and written scores with one key follow each other, in however many workers."""
    return turn_of((query.url or "").rstrip("/"), query.public_key or "")


TRACE_SOURCES.register(
    "langfuse",
    SourceSpec(
        open=lambda resources: LangfuseSource(resources=resources),
        lock=lock_of,
        check=check,
        list_runs=list_runs,
        write_scores=write_scores,
    ),
)
