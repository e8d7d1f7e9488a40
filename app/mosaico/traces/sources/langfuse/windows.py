"""Reads the production traces of a time window: all in the order of the server, or a drawn selection.

A selection is needed for a sample, and for a filter that the list of traces does not know. Then the
IDs of the window are listed first, and the traces are read in the order of their rank. The order
depends on nothing but the IDs, so a collection resumes after the rank of its last trace.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Literal, Protocol

from pydantic import TypeAdapter

from mosaico.core.http.threads import run_in_order
from mosaico.core.http.throttle import CancelToken
from mosaico.core.resources import Resources
from mosaico.traces.production import ProductionTraces, draw_sample, sampling_rank
from mosaico.traces.registry import RequestEstimate, TracePage, TraceQuery
from mosaico.traces.sources.langfuse.catalog import LISTING_POLICY, detect_server
from mosaico.traces.sources.langfuse.client import (
    LangfuseClient,
    LangfuseCredentials,
    open_client,
    require_credentials,
)
from mosaico.traces.sources.langfuse.failures import (
    BadResponse,
    LangfusePolicy,
    NotFoundError,
    PageTooLarge,
)
from mosaico.traces.sources.langfuse.json_fields import JSON
from mosaico.traces.sources.langfuse.reader import (
    TraceLink,
    WindowCount,
    make_trace_link,
    parse_stored_cursor,
    split_ids,
)
from mosaico.traces.sources.langfuse.v3_windows import V3Window
from mosaico.traces.sources.langfuse.v4_windows import V4Window
from mosaico.traces.types import Trace

# Chunks of a selection that are read at the same time. Each chunk sends several requests, and the
# limit of requests in flight is per key.
CONCURRENCY: Final = 4


class WindowApi(Protocol):
    """Reads production traces through one API version.

    `lists_ids`: the traces have to be selected by ID. `iter_batches` yields traces and the position
    after them, None at the end. `iter_ids` yields the IDs of the traces that pass the filters, maybe
    several times. `read_traces` returns the traces with these IDs in their order. `count` counts
    what passes the filters; a filter on scores can be left out. `estimate` counts the requests that
    read `selected` traces, by purpose.
    """

    @property
    def lists_ids(self) -> bool: ...

    def iter_batches(
        self, position: JSON | None
    ) -> Iterator[tuple[tuple[Trace, ...], JSON | None]]: ...

    def iter_ids(self) -> Iterator[str]: ...

    def read_traces(self, trace_ids: Sequence[str]) -> tuple[Trace, ...]: ...

    def count(self) -> WindowCount: ...

    def estimate(self, count: WindowCount, selected: int) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCursor:
    """A position in a window: after the trace with the rank `rank`, or at `position` of the server.

    `done` is the number of selected traces that are read. A cursor is stored with the collection and
    may be read by a newer program: increase the `version` when the meaning of a field changes.
    """

    api: str
    project_id: str | None
    as_of: datetime
    position: JSON | None = None
    rank: str = ""
    done: int = 0
    version: Literal[1] = 1

    def encode(self) -> str:
        return _CURSOR.dump_json(self).decode()


_CURSOR: Final = TypeAdapter(WindowCursor)


def open_window(client: LangfuseClient, query: TraceQuery, api: str, link: TraceLink) -> WindowApi:
    """The reader of a window for one API version."""
    assert query.production is not None
    # The API version is part of the cursor, because `position` has another form in each version: a
    # collection must continue with the version that began it.
    reader = V3Window if api == "v3" else V4Window
    return reader(
        client=client, link=link, production=query.production, reads_scores=query.late_scores
    )


def estimate_requests(resources: Resources, query: TraceQuery) -> RequestEstimate:
    """The requests that a run over a window of production traces will send to Langfuse.

    Raises: `CollectionFailed` with its codes.
    """
    production = query.production
    assert production is not None
    credentials = require_credentials(query.url, query.public_key, query.secret_key)
    with (
        open_client(
            resources, credentials, pause=CancelToken().pause, policy=LISTING_POLICY
        ) as client,
        translate_window_errors(),
    ):
        info = detect_server(client)
        api = open_window(client, query, info.api, make_trace_link(credentials.host, None))
        count = api.count()
    selected = min(count.traces, production.sample_size or count.traces)
    requests = api.estimate(count, selected)
    return RequestEstimate(
        traces=count.traces,
        selected=selected,
        # The project, and the version of the API.
        requests={"server": 2, **requests},
        at_most=info.api == "v4" and production.filters.score is not None,
    )


@contextmanager
def translate_window_errors() -> Iterator[None]:
    """Translate the internal exceptions of readers into errors with a remedy for the user."""
    try:
        yield
    except PageTooLarge as error:
        raise error.final_error from None
    except NotFoundError as error:
        raise BadResponse(
            f"the server does not offer an API that returns traces ({error.detail or 'not found'});"
            " check that langfuseUrl is the address of a Langfuse server of version 3 or newer"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReader:
    """Reads the traces of a window, or the rest of them, in a background thread."""

    resources: Resources
    credentials: LangfuseCredentials
    query: TraceQuery
    policy: LangfusePolicy
    pause: Callable[[float], None]

    def pages(self, text: str | None) -> Generator[TracePage, None, None]:
        with (
            open_client(
                self.resources, self.credentials, pause=self.pause, policy=self.policy
            ) as client,
            translate_window_errors(),
        ):
            cursor = parse_stored_cursor(_CURSOR, text)
            yield from self._read(client, cursor or self._find_start(client))

    def _find_start(self, client: LangfuseClient) -> WindowCursor:
        info = detect_server(client)
        return WindowCursor(api=info.api, project_id=info.project_id, as_of=self.resources.clock())

    def _read(self, client: LangfuseClient, cursor: WindowCursor) -> Iterator[TracePage]:
        link = make_trace_link(self.credentials.host, cursor.project_id)
        api = open_window(client, self.query, cursor.api, link)
        pages = self._read_selection(api, cursor) if api.lists_ids else self._read_all(api, cursor)
        for traces, following, total in pages:
            yield TracePage(
                traces=traces,
                cursor=None if following is None else following.encode(),
                total=total,
                as_of=cursor.as_of,
            )

    def _read_all(self, api: WindowApi, cursor: WindowCursor) -> "_Pages":
        for traces, position in api.iter_batches(cursor.position):
            following = None if position is None else replace(cursor, position=position)
            yield traces, following, None

    def _read_selection(self, api: WindowApi, cursor: WindowCursor) -> "_Pages":
        production = self._production
        size = production.sample_size
        # The sample is the traces with the lowest ranks. After a restart only those with a rank
        # above that of the last stored trace are missing, so the stored ones are not read again.
        remaining = None if size is None else size - cursor.done
        trace_ids = draw_sample(production.seed, api.iter_ids(), remaining, cursor.rank)
        total = cursor.done + len(trace_ids)
        # An empty page reports the total of a window without traces, and ends a collection whose
        # last trace was stored already.
        if not trace_ids:
            yield (), None, total
        chunks = split_ids(trace_ids)
        batches = run_in_order(
            (partial(api.read_traces, chunk) for chunk in chunks), concurrency=CONCURRENCY
        )
        for chunk, traces in zip(chunks, batches, strict=True):
            cursor = replace(
                cursor,
                # The cursor moves with each chunk, not with each trace: a chunk is stored as a
                # whole.
                rank=sampling_rank(production.seed, chunk[-1]),
                done=cursor.done + len(chunk),
            )
            yield traces, cursor if cursor.done < total else None, total

    @property
    def _production(self) -> ProductionTraces:
        assert self.query.production is not None
        return self.query.production


_Pages = Iterable[tuple[tuple[Trace, ...], WindowCursor | None, int | None]]
