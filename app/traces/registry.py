"""Where traces can come from, and what a source promises."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from app.core.encryption import Secret
from app.core.errors import AppError
from app.core.registry import LoadedPlugin, Registry
from app.core.resources import Resources
from app.harness.harness_config import HarnessConfig
from app.traces.types import Trace


class CollectionFailed(AppError):
    """The traces could not be collected; the message says what to change."""

    code = "COLLECTION_FAILED"
    status = 422
    exit_code = 65


class CredentialsRefused(CollectionFailed):
    """The server does not take the agent's keys; give the agent those of the right project."""

    code = "CREDENTIALS_REFUSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces a run wants, and with whose credentials they are read.

    `run_name` None asks for the newest run of the dataset. `late_scores` asks for scores that were
    given long after their trace or inside of it, where that costs more requests. `harness` says
    which model makes the traces, where a source makes them. The last three are the agent's.
    """

    dataset_ref: str | None
    run_name: str | None
    late_scores: bool = False
    harness: HarnessConfig | None = None
    url: str | None = None
    public_key: str | None = None
    secret_key: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePage:
    """Some traces, and the cursor that goes on after them; None after the last page.

    `total` is how many traces there are in all, when the source knows, and `as_of` when that was
    found out. `run_name` is the run that is read, once the source knows it: the plan may ask for
    the newest; `run_id` and `run_at` are its id and its start where the source has runs of its
    own. A page without traces is a sign of life of a source that waits. `revision` names
    all the traces of the query where what bears that name never changes: a service that holds
    them already asks for no further page.
    """

    traces: tuple[Trace, ...]
    cursor: str | None
    total: int | None = None
    as_of: datetime | None = None
    run_name: str | None = None
    run_id: str | None = None
    run_at: datetime | None = None
    revision: str | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScore:
    """A score to be written where the traces came from: of one trace, or of the run `run_id` as a
    whole when there is no `trace_id`.

    One that is written again with its `id` and its `at` takes the place of the old one.
    """

    id: str
    name: str
    value: float
    at: datetime
    run_id: str
    trace_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


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


ScoreWriter: TypeAlias = Callable[[Resources, TraceQuery, Sequence[NewScore]], Iterator[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """How to open a source. Runs whose queries give one `lock` are collected one after the other,
    by however many workers; None means side by side. `check` tries the credentials of a query,
    and raises `CollectionFailed`. `list_runs` gives the runs of the query's dataset, newest first
    (its `run_name` is not looked at), and raises what `pages` does; None where a source has no
    runs that could be listed. `write_scores` writes all it is given, or raises as `pages` does;
    what it yields meanwhile are signs of life. All three go over the network: never inside a
    transaction. `runs_models`: the traces are made on the spot, as the benchmark orders in
    `harness`.
    """

    open: Callable[[Resources], TraceSource]
    lock: Callable[[TraceQuery], str | None] = _no_lock
    check: Callable[[Resources, TraceQuery], SourceCheck] | None = None
    list_runs: Callable[[Resources, TraceQuery], Sequence[SourceRun]] | None = None
    write_scores: ScoreWriter | None = None
    runs_models: bool = False


def _require_spec(name: str, source: object) -> None:
    if not isinstance(source, SourceSpec):
        raise TypeError(f"the trace source {name} is to be a SourceSpec, not {source!r:.80}")


TRACE_SOURCES: Final[Registry[SourceSpec]] = Registry(
    "trace source", group="mosaico.trace_sources", check=_require_spec
)


def load_trace_sources(warn: Callable[[LoadedPlugin], None]) -> None:
    """Find the built-in sources and those of other distributions, once in a process."""
    TRACE_SOURCES.load("app.traces.sources", warn)
