"""Where traces can come from, and what a source promises."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from app.core.errors import AppError
from app.core.registry import Loaded, Registry
from app.core.resources import Resources
from app.core.secrets import Secret
from app.traces.types import Trace


class CollectionFailed(AppError):
    """The traces could not be collected; the message says what to change."""

    code = "COLLECTION_FAILED"
    status = 422
    exit_code = 65


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces a run wants, and with whose credentials they are read.

    `run_name` None asks for the newest run of the dataset. `late_scores` asks for scores that were
    given long after their trace or inside of it, where that costs more requests. The last three
    are the agent's.
    """

    dataset_ref: str | None
    run_name: str | None
    late_scores: bool = False
    url: str | None = None
    public_key: str | None = None
    secret_key: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePage:
    """Some traces, and the cursor that goes on after them; None after the last page.

    `total` is how many traces there are in all, when the source knows, and `as_of` when that was
    found out. `run_name` is the run that is read, once the source knows it: the plan may ask for
    the newest. A page without traces is a sign of life of a source that waits.
    """

    traces: tuple[Trace, ...]
    cursor: str | None
    total: int | None = None
    as_of: datetime | None = None
    run_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """What answered when the credentials of an agent were tried."""

    api: str
    version: str | None
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun:
    """A run that a source holds: what `TraceQuery.run_name` can name.

    `name` is as people wrote it, and not always unique; `id` is. `ended_at` is None where the
    source does not know. `complete`: nothing new has come for as long as the source takes to show
    what was written, so that a collection would find all of its `items`.
    """

    id: str
    name: str
    started_at: datetime
    ended_at: datetime | None
    items: int
    complete: bool


class TraceSource(Protocol):
    """Reads the traces of one run of an agent, page by page.

    `pages` starts after `cursor` (None: at the beginning), and asking again with the same cursor
    gives the same traces. A trace may come twice; only its first form counts.
    Raises: `CollectionFailed` with one of its codes when there is nothing to read or no way to;
    `Unavailable` when trying again later may help.
    """

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]: ...


def _no_lock(_: TraceQuery) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """How to open a source. Runs whose queries give one `lock` are collected one after the other,
    by however many workers; None means side by side. `check` tries the credentials of a query,
    and raises `CollectionFailed`. `list_runs` gives the runs of the query's dataset, newest first
    (its `run_name` is not looked at), and raises what `pages` does; None where a source has no
    runs that could be listed. Both go over the network: never inside a transaction.
    """

    open: Callable[[Resources], TraceSource]
    lock: Callable[[TraceQuery], str | None] = _no_lock
    check: Callable[[Resources, TraceQuery], SourceCheck] | None = None
    list_runs: Callable[[Resources, TraceQuery], Sequence[SourceRun]] | None = None


def _require_spec(name: str, source: object) -> None:
    if not isinstance(source, SourceSpec):
        raise TypeError(f"the trace source {name} is to be a SourceSpec, not {source!r:.80}")


TRACE_SOURCES: Final[Registry[SourceSpec]] = Registry(
    "trace source", group="mosaico.trace_sources", check=_require_spec
)


def load_trace_sources(warn: Callable[[Loaded], None]) -> None:
    """Find the built-in sources and those of other distributions, once in a process."""
    if not TRACE_SOURCES:
        TRACE_SOURCES.load_folder("app.traces.sources")
        TRACE_SOURCES.load_entry_points(warn)
