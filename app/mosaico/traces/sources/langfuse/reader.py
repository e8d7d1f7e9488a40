"""The common interface of the two API versions: a run, batches of its traces, and the cursor."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from mosaico.traces.registry import CollectionFailed
from mosaico.traces.sources.langfuse.json_fields import JSON, format_time, parse_time_ms
from mosaico.traces.types import Trace

# The cursor of a collection that has read nothing yet.
INITIAL_CURSOR: Final = '{"v":1}'
# A filter with more IDs can exceed the length of a URL.
IDS_PER_REQUEST: Final = 100

Cursor = TypeVar("Cursor")


class ApiVersionMismatch(Exception):
    """The server does not offer this API version; `detail` is the message of the server."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class ItemAnswer(NamedTuple):
    """One answer to an item; times in milliseconds since 1970."""

    item_id: str
    start: int
    end: int
    trial: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LangfuseDataset:
    """A dataset of the Langfuse project."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRun:
    """A run (experiment or dataset run) as the server describes it now.

    `start` and `end` are in milliseconds since 1970; `item_count` is the number of traces that the
    server reports. `dataset_id` is known by API v4. `dataset_items` is the number of active items of
    the dataset at `start`; None when it is unknown or not asked for. `since` is set when the run shares
    its ID with earlier runs of the same name: it has the rows from that time on. `warning` says what
    is uncertain about that.
    """

    id: str
    name: str
    dataset_name: str | None
    start: int
    end: int
    item_count: int
    dataset_items: int | None = None
    dataset_id: str | None = None
    since: int | None = None
    warning: str | None = None

    @property
    def source_id(self) -> str:
        """The ID of this run alone: that of the experiment, and `since` after an `@`."""
        return self.id if self.since is None else f"{self.id}@{format_time(self.since)}"

    @property
    def first_time(self) -> int:
        """No row of the run begins before."""
        return self.start if self.since is None else self.since


def split_source_id(source_id: str) -> tuple[str, int | None]:
    """The ID of the experiment and the time in a `source_id`; None without a time."""
    # From the right, because the ID of an experiment may contain an `@` itself.
    experiment_id, _, since = source_id.rpartition("@")
    since_ms = parse_time_ms(since) if experiment_id else None
    return (source_id, None) if since_ms is None else (experiment_id, since_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBatch:
    """Some traces of a run, and the unread part of the run; None when the run is complete.

    `loop_detected`: the server repeated itself, and the rows after the repetition were not read.
    """

    traces: tuple[Trace, ...]
    remaining: JSON | None
    loop_detected: bool = False


class RunReader(Protocol):
    """Reads runs through one API version.

    `find_run` looks a run up by name, then by ID; without a name it returns the newest run.
    `refresh_run` returns a run as it is now, in one request; None when the server does not return it.
    `narrow` returns the newest of the runs that share an ID, given the number of items of a complete run
    if it is known. `iter_rows` yields its rows, newest first.
    `list_runs` returns the newest runs of a dataset, `list_run_names` names for an error message.
    All raise `ApiVersionMismatch`. `read_batches` resumes with `remaining` of an earlier
    batch.
    """

    @property
    def api(self) -> str: ...

    def find_run(
        self, dataset: LangfuseDataset | None, name: str | None
    ) -> ExperimentRun | None: ...

    def refresh_run(self, run: ExperimentRun) -> ExperimentRun | None: ...

    def narrow(self, run: ExperimentRun, expected_items: int | None, /) -> ExperimentRun: ...

    def iter_rows(self, run: ExperimentRun) -> Iterator[ItemAnswer]: ...

    def list_runs(self, dataset: LangfuseDataset) -> list[ExperimentRun]: ...

    def list_run_names(self, dataset: LangfuseDataset | None) -> list[str]: ...

    def read_batches(self, run: ExperimentRun, remaining: JSON | None) -> Iterator[TraceBatch]: ...


class WindowCount(NamedTuple):
    """The number of traces in a window, and of all their spans and scores."""

    traces: int
    spans: int
    scores: int

    @property
    def spans_per_trace(self) -> float:
        return self.spans / max(self.traces, 1)

    @property
    def scores_per_trace(self) -> float:
        return self.scores / max(self.traces, 1)


def count_requests(rows: float, rows_per_request: int) -> int:
    """The number of requests for so many rows; also no rows take one."""
    return max(math.ceil(rows / rows_per_request), 1)


def count_part_requests(
    traces: int, parts_per_trace: float, count_list: Callable[[float], int]
) -> int:
    """The number of requests for the parts (spans or scores) of so many traces, which are read for each
    list of IDs. `count_list` counts those for a list of parts.

    Exact if all traces have as many parts.
    """
    full_lists, remainder = divmod(traces, IDS_PER_REQUEST)
    return full_lists * count_list(IDS_PER_REQUEST * parts_per_trace) + (
        count_list(remainder * parts_per_trace) if remainder else 0
    )


def split_ids(trace_ids: Sequence[str]) -> list[Sequence[str]]:
    """The IDs in lists that fit into one request each."""
    starts = range(0, len(trace_ids), IDS_PER_REQUEST)
    return [trace_ids[start : start + IDS_PER_REQUEST] for start in starts]


TraceLink = Callable[[str, str | None], str | None]


def make_trace_link(host: str, project_id: str | None) -> TraceLink:
    """A function that returns the web address of a trace, given its ID and a span to show."""

    def link(trace_id: str, span_id: str | None) -> str | None:
        if project_id is None:
            return None
        parameters = f"?observation={quote(span_id, safe='')}" if span_id else ""
        project, trace = quote(project_id, safe=""), quote(trace_id, safe="")
        return f"{host}/project/{project}/traces/{trace}{parameters}"

    return link


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCursor:
    """A position in the reading of one run.

    `traces_read` counts the stored traces of the current pass over the run, `completed_passes` the
    passes before it. `remaining` is the unread part in the format of the reader of `api`; None at
    the start of a pass. `as_of` is when the run was looked up.
    """

    api: str
    run: ExperimentRun
    project_id: str | None
    as_of: datetime
    traces_read: int = 0
    completed_passes: int = 0
    remaining: JSON | None = None
    version: Literal[1] = 1

    def encode(self) -> str:
        return _CURSOR.dump_json(self).decode()


_CURSOR: Final = TypeAdapter(CollectionCursor)


def parse_cursor(cursor: str | None) -> CollectionCursor | None:
    """Parse the cursor of a run; see `parse_stored_cursor`."""
    return parse_stored_cursor(_CURSOR, cursor)


def parse_stored_cursor(adapter: TypeAdapter[Cursor], cursor: str | None) -> Cursor | None:
    """Parse a cursor; None at the start of a collection.

    Raises: `CollectionFailed` for a cursor of another version of this program.
    """
    # The service stores the initial cursor before the first page, so both values mean "nothing read
    # yet".
    if cursor is None or cursor == INITIAL_CURSOR:
        return None
    try:
        return adapter.validate_json(cursor)
    # A cursor is written by this program only, so any other form comes from another version of it.
    except ValidationError:
        raise CollectionFailed(
            "the collection was started by another version of this program; retry the run"
        ) from None
