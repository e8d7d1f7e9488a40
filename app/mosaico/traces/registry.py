"""The registry of trace sources, the contract of a source, and why a run cannot collect its traces."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from mosaico.core.defaults import MIN_COVERAGE
from mosaico.core.encryption import Secret
from mosaico.core.errors import AppError
from mosaico.core.registry import LoadedPlugin, Registry
from mosaico.core.resources import Resources
from mosaico.harness.harness_config import HarnessConfig
from mosaico.traces.production import Duration, ProductionTraces
from mosaico.traces.redaction import RedactionRules, Redactor
from mosaico.traces.storable_traces import cut_attributes, make_storable
from mosaico.traces.types import DatasetItem, ExpectedItems, Trace


class CollectionFailed(AppError):
    """The traces could not be collected; the message contains the cause."""

    code = "COLLECTION_FAILED"
    status = 422
    exit_code = 65


class CredentialsRefused(CollectionFailed):
    """The server rejected the keys of the agent; set the keys of the correct project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """The traces to read, and the credentials to read them with.

    `run_name` None selects the newest run of the dataset. `dataset_version` is the version whose items count, where the
    items of the dataset live here. `late_scores` also reads scores that were
    added long after their trace or to its child spans, which costs more requests; with `production`,
    all scores. `harness`
    configures a source that produces its traces. `production`, with its exact window, asks for the
    traces of production instead of a run of a dataset. A run with fewer than `min_coverage` of
    `expect_items` (None: the items of the dataset) may still be growing: the source waits until it
    has had no new item for `settle_for` (None: as long as its items take). `input_path`, `output_path`
    and `expected_path` are JMESPath expressions of the texts that count in the JSON of a trace.
    `redact` is what is removed from texts before they are stored. `score_names` are the scores that metrics use: the
    source waits for those that evaluators add after the answers.
    `service_name` selects the spans of one agent. `url`, `project`, `public_key` and `secret_key` come from the
    `source` of the agent `agent_id`. `is_shared`: the benchmark lists other agents too.
    """

    dataset_ref: str | None
    run_name: str | None
    dataset_version: int | None = None
    late_scores: bool = False
    harness: HarnessConfig | None = None
    production: ProductionTraces | None = None
    expect_items: ExpectedItems = None
    settle_for: Duration | None = None
    input_path: str | None = None
    output_path: str | None = None
    expected_path: str | None = None
    redact: RedactionRules | None = None
    min_coverage: float = MIN_COVERAGE
    agent_id: str | None = None
    is_shared: bool = False
    score_names: tuple[str, ...] = ()
    service_name: str | None = None
    url: str | None = None
    project: str | None = None
    public_key: str | None = None
    secret_key: Secret | None = None

    def count_missing_scores(self, trace: Trace) -> int:
        """How many of the scores that metrics use an answer lacks, as numbers or as labels; evaluators score no failure."""
        if trace.outcome.is_missing or trace.outcome.is_agent_failure:
            return 0
        return sum(
            name not in trace.scores and name not in trace.attributes for name in self.score_names
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePage:
    """Some traces, and the cursor of the next page; None after the last page.

    `total` is the number of all traces, if the source knows it, and `as_of` the time of that
    number. `run_name` is the run being read, `run_id` and `run_at` its ID and start, if the source
    has runs of its own. A page without traces is a heartbeat of a source that waits, or has the
    `revision` of traces that the service holds. `held_back` counts the traces that are made and come
    with a later page: progress counts them now.
    `warning` says what is uncertain about the run of the source.
    `revision` identifies unchanging content: if the service already holds a collection with the
    same revision, it reads no further page. `dataset_items` is the number of active items of the
    dataset when the run of the source began; None if the source has no dataset. `waiting_for` is what the source waits for,
    in words. `retired_traces` counts the traces of retired items that were left out of the page.
    """

    traces: tuple[Trace, ...]
    cursor: str | None
    total: int | None = None
    as_of: datetime | None = None
    run_name: str | None = None
    run_id: str | None = None
    run_at: datetime | None = None
    held_back: int = 0
    revision: str | None = None
    dataset_items: int | None = None
    warning: str | None = None
    waiting_for: str | None = None
    retired_traces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """The result of a check of an agent's credentials: API version, server version and project."""

    api: str
    version: str | None
    project: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun:
    """A run in a source, which `TraceQuery.run_name` can name.

    `id` is unique, `name` is not always. `ended_at` is None when the source does not know it.
    `complete`: no activity for as long as the source takes to show what was written, so that a
    collection finds all of its `items`.
    """

    id: str
    name: str
    started_at: datetime
    ended_at: datetime | None
    items: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEstimate:
    """The requests that reading a window of production traces will send, from the counts of the source.

    `traces` is the number of traces in the window that pass the filters, `selected` of them are read.
    `requests` counts requests by their purpose, as if all traces had as many spans and scores. With
    `at_most` the numbers are upper limits.
    """

    traces: int
    selected: int
    requests: Mapping[str, int]
    at_most: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScore:
    """A score to write to the source: of one trace, or of the whole run when `trace_id` is None.

    A score with the `id` and the `at` of an earlier score replaces it.
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

    `pages` starts after `cursor` (None: at the start), and returns the same traces for the same
    cursor. A trace may occur twice; the first occurrence counts.
    Raises: `CollectionFailed` with a code when the traces cannot be read; `Unavailable` when a
    later attempt can succeed.
    """

    def pages(self, query: TraceQuery, cursor: str | None) -> Iterator[TracePage]: ...


RunNarrower: TypeAlias = Callable[[Resources, TraceQuery, SourceRun], SourceRun]
CompletePage: TypeAlias = Callable[[TracePage], TracePage]
ScoreWriter: TypeAlias = Callable[[Resources, TraceQuery, Sequence[NewScore]], Iterator[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """The functions of a trace source.

    `title` is its name in texts; None: the name with which it is registered. A source with `check` reads with the
    credentials of an agent: the form of agents and the guided setup offer it.
    `lock` names a lock for a query: collections with the same name are sequential across all
    workers; a lock of None allows concurrent collections. `check` verifies the credentials of a query and
    raises `CollectionFailed`. `list_runs` returns the runs of the query's dataset, newest first,
    and ignores its `run_name`; None when a source has no runs. Where several runs can share an ID,
    `narrow_run` returns the newest of them, with an ID of its own. `write_scores` writes all scores and
    yields heartbeats. `estimate` counts the requests that `pages` will send, for the kind of query that the source can count.
    These raise the errors of `pages`. All of them do network I/O: never call them in a transaction.
    `runs_models`: the source produces its traces
    with the models that the benchmark configures in `harness`. `reads_production`: the source reads
    `TraceQuery.production`, `maps_fields`: it applies the paths of the query. `list_items` yields the items of the query's dataset, for an agent that is
    run over them. `has_datasets`: the items of its datasets live in the source. `has_late_scores`: evaluators may add scores to a run of the source after it was read.
    """

    open: Callable[[Resources], TraceSource]
    title: str | None = None
    lock: Callable[[TraceQuery], str | None] | None = None
    check: Callable[[Resources, TraceQuery], SourceCheck] | None = None
    list_runs: Callable[[Resources, TraceQuery], Sequence[SourceRun]] | None = None
    narrow_run: RunNarrower | None = None
    write_scores: ScoreWriter | None = None
    estimate: Callable[[Resources, TraceQuery], RequestEstimate] | None = None
    runs_models: bool = False
    reads_production: bool = False
    maps_fields: bool = False
    list_items: Callable[[Resources, TraceQuery], Iterator[DatasetItem]] | None = None
    has_datasets: bool = False
    has_late_scores: bool = False


TRACE_SOURCES: Final[Registry[SourceSpec]] = Registry(
    "trace source", group="mosaico.trace_sources", item_type=SourceSpec
)


def source_title(kind: str) -> str:
    """The name of a trace source in texts; of one whose plugin is missing, its kind."""
    spec = TRACE_SOURCES.find(kind)
    return kind if spec is None or spec.title is None else spec.title


def list_tools() -> dict[str, str]:
    """The sources that read with the credentials of an agent, each with its title."""
    names = TRACE_SOURCES.names()
    return {name: source_title(name) for name in names if TRACE_SOURCES.get(name).check is not None}


def load_trace_sources(warn: Callable[[LoadedPlugin], None]) -> None:
    """Load the built-in sources and those of other distributions, once per process."""
    TRACE_SOURCES.load("mosaico.traces.sources", warn)


def collect(
    source: TraceSource,
    query: TraceQuery,
    cursor: str | None,
    complete_page: CompletePage = lambda page: page,
) -> Iterator[TracePage]:
    """Yield the pages of a source after `cursor`, with storable traces of short attributes and redacted texts.

    `complete_page` adds what the dataset of the query says of the items of a page.
    Raises: the errors of the source, and `CollectionFailed` for a repeated cursor.
    """
    # Hashes, because a run can have ten thousand cursors, each with a list of windows.
    seen_cursors = {hash(cursor)}
    # Before anything is cut: half of an address would not be found.
    redact = Redactor(query.redact).trace if query.redact else _unchanged
    for page in source.pages(query, cursor):
        if page.traces and page.cursor is not None and hash(page.cursor) in seen_cursors:
            raise CollectionFailed(
                "the source returned the same page twice, so the traces cannot be read "
                "completely; try again later",
                code="BAD_RESPONSE",
            )
        seen_cursors.add(hash(page.cursor))
        complete = complete_page(page)
        traces = map(make_storable, map(cut_attributes, map(redact, complete.traces)))
        yield replace(complete, traces=tuple(traces))


def _unchanged(trace: Trace) -> Trace:
    return trace


class AmbiguousUpload(CollectionFailed):
    """Several uploads of the dataset name no agent, and the benchmark lists several agents; upload the
    traces with `agentId`, or start the run with the `runName` of its upload.
    """


class ClusterFieldUnknown(CollectionFailed):
    """No item has the `clusterField` of the benchmark; correct it, or set it to null."""


class CommandsNotAllowed(CollectionFailed):
    """The workers may not run the command of the benchmark; ask the operator to list it in the file of
    MOSAICO_AGENT_COMMANDS.
    """


class DatasetChanged(CollectionFailed):
    """The dataset was changed during the run; start a new run."""


class HarnessNotConfigured(CollectionFailed):
    """The workers have no folder of datasets; set MOSAICO_HARNESS_DIR for them."""


class ModelRefused(CollectionFailed):
    """The provider rejects the requests for the model; correct the key or the model, then retry the run."""


class NoModel(CollectionFailed):
    """The harness settings of the benchmark do not fit its dataset; set `harness` as the message says."""


class NoModelAnswer(CollectionFailed):
    """No model answered any task; correct the cause in the message, then retry the run."""


class UnsupportedFilter(CollectionFailed):
    """The source cannot filter as `production.filters` asks; remove the filter in the message."""
