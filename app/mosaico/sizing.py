"""Sizes an installation: cores, connections, bytes and Langfuse requests for a number of traces a
night.

A pure model over measured constants. All constants of the model are in this module, each with its
unit and the command that measures it; `docs/scaling.md` shows them and describes the accuracy of
the model.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from mosaico.core.errors import Invalid

DAYS_PER_YEAR: Final = 365
MICROSECONDS: Final = 1e6


class Measured(NamedTuple):
    """A constant of the model: its value, its unit, and the command or page that it comes from."""

    value: float
    unit: str
    source: str


METRIC_CPU: Final[Mapping[str, Measured]] = MappingProxyType(
    {
        name: Measured(microseconds, "µs of CPU per trace", "python -m benchmarks large size")
        for name, microseconds in (
            ("ROUGE", 12),
            ("BLEU", 13),
            ("ACCURACY", 4),
            ("PRECISION", 5),
            ("RECALL", 6),
            ("F1_SCORE", 7),
        )
    }
)
# The words of a trace are counted once for all of its metrics but ACCURACY.
WORDS_CPU: Final = Measured(
    14, "µs of CPU per trace, shared by its metrics of words", "python -m benchmarks large size"
)
METRICS_WITHOUT_WORDS: Final = frozenset({"ACCURACY"})
# A metric that is not in the table shares nothing: it counts like the most expensive one alone.
OTHER_METRIC_CPU: Final = METRIC_CPU["BLEU"].value + WORDS_CPU.value
TRACE_CPU: Final = Measured(
    70, "µs of CPU per trace beside its metrics", "python -m benchmarks large run"
)
DATABASE_SHARE: Final = Measured(
    0.5,
    "of the CPU beside the metrics, in the database that also stores the traces",
    "python -m benchmarks large run",
)
UPLOAD_CPU: Final = Measured(
    33, "µs of CPU per trace for its upload", "python -m benchmarks large run"
)
LANGFUSE_CPU: Final = Measured(
    210,
    "µs of CPU per trace for its collection from Langfuse",
    "python -m benchmarks collection",
)
RUN_CPU: Final = Measured(90, "ms of CPU per run", "python -m benchmarks large schedules")
TRACE_BYTES: Final = Measured(
    970, "bytes per trace with its texts and indexes", "python -m benchmarks large history"
)
VALUE_BYTES: Final = Measured(
    175, "bytes per trace for its metric values", "python -m benchmarks large history"
)
RUN_BYTES: Final = Measured(
    72_000, "bytes per run for 20 KPIs and its series", "python -m benchmarks large history"
)
FINISH_CPU: Final = Measured(
    20, "µs per trace for intervals and verdicts", "python -m benchmarks large run"
)
TRACES_PER_REQUEST: Final = Measured(100, "traces per Langfuse request", "docs/langfuse.md")
REQUESTS_PER_RUN: Final = Measured(6, "Langfuse requests per run", "docs/langfuse.md")
WORKER_CONNECTIONS: Final = Measured(13, "connections per worker", "docs/deployment.md")
SERVICE_CONNECTIONS: Final = Measured(
    50, "connections of one API and one scheduler", "docs/deployment.md"
)
METRIC_PROCESSES: Final = Measured(2, "metric processes per worker", "docs/deployment.md")

# The size from which a part is replaced. Those of Postgres are what one server is commonly run with.
MAX_CORES_OF_MACHINE: Final = 64
MAX_DATABASE_CORES: Final = 16
MAX_DATABASE_BYTES: Final = 4e12
# Of rows and indexes: the write-ahead log and the checkpoints write them again.
MAX_WRITTEN_BYTES_PER_S: Final = 100e6
MAX_CONNECTIONS: Final = 400
MAX_REQUESTS_PER_MINUTE: Final = 1_000
MAX_FINISH_S: Final = 600.0
# From this share of its capacity on, the replacement of a part is worth planning.
STRAINED_SHARE: Final = 0.5


class Part(StrEnum):
    """A part of an installation that a size can outgrow."""

    MACHINE = "cores of one machine"
    LANGFUSE = "requests to Langfuse"
    FINISH = "the finishing step of one run"
    CONNECTIONS = "connections to Postgres"
    DATABASE_DISK = "the disk of one database"
    DATABASE_WRITES = "the writes of one database"
    DATABASE_CPU = "the cores of one database"


REMEDIES: Final[Mapping[Part, str]] = MappingProxyType(
    {
        Part.MACHINE: "add worker machines: `mosaico worker --queues score` needs only the database URL",
        Part.LANGFUSE: "export spans to MOSAICO by OpenTelemetry, upload traces, or sample production traces",
        Part.FINISH: "split the benchmark, or sample: an interval needs thousands of items, not millions",
        Part.CONNECTIONS: "a pooler in transaction mode, with `MOSAICO_DATABASE_DIRECT_URL` for what needs a session",
        Part.DATABASE_DISK: (
            "shorter `keepDays`; partitions, which give the space of deleted traces back at once; then texts in"
            " object storage and only their keys in Postgres"
        ),
        Part.DATABASE_WRITES: (
            "partitions, whose smaller indexes are written faster; then one database per group of benchmarks"
        ),
        Part.DATABASE_CPU: "one database per group of benchmarks; an engine such as Ray for metric processes",
    }
)


class SizingLoad(NamedTuple):
    """The load of an installation in a night: traces of all runs, runs, metrics of each trace, the
    days for which traces are kept, and the hours in which a night must be done.
    """

    traces: int
    runs: int
    metrics: Collection[str] = tuple(METRIC_CPU)
    retention_days: int = 30
    hours: float = 6.0


class Limit(NamedTuple):
    """A part of an installation: how much of it is used, as a share of its capacity, and its
    remedy.
    """

    part: Part
    share: float
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationSize:
    """The resources that a load needs.

    `cores` are those of all machines; `metric_cores`, `database_cores` and `langfuse_cores`, which collect from
    Langfuse, are parts of them. Uploads need `upload_cores` instead of the latter. Bytes are in Postgres, with
    indexes: written per night, kept for the retention, and history per year, which is never deleted.
    `limits` are sorted by share, the first to break first.
    """

    cores: float
    metric_cores: float
    database_cores: float
    langfuse_cores: float
    upload_cores: float
    workers: int
    connections: int
    bytes_per_night: float
    bytes_per_second: float
    stored_bytes: float
    history_bytes_per_year: float
    langfuse_requests: int
    langfuse_requests_per_minute: float
    finish_s: float
    limits: Sequence[Limit]

    @property
    def strained(self) -> list[Limit]:
        """The parts whose replacement is worth planning, those that do not bear the load included."""
        return [limit for limit in self.limits if limit.share > STRAINED_SHARE]


def size_installation(load: SizingLoad) -> InstallationSize:
    """The size for a load whose runs are all equally large.

    Raises: `Invalid` for a load that is not positive, or with fewer traces than runs.
    """
    _require_valid(load)
    seconds = load.hours * 3600
    metric_s = load.traces * metrics_cpu(load.metrics) / MICROSECONDS
    langfuse_s = load.traces * LANGFUSE_CPU.value / MICROSECONDS
    beside_s = load.traces * TRACE_CPU.value / MICROSECONDS + load.runs * RUN_CPU.value / 1000
    database_s = beside_s * DATABASE_SHARE.value
    whole_s = metric_s + langfuse_s + beside_s
    finish_s = load.traces / load.runs * FINISH_CPU.value / MICROSECONDS
    requests = math.ceil(
        load.traces / TRACES_PER_REQUEST.value + load.runs * REQUESTS_PER_RUN.value
    )
    workers = max(1, math.ceil((whole_s - database_s) / seconds / METRIC_PROCESSES.value))
    trace_bytes = load.traces * (TRACE_BYTES.value + VALUE_BYTES.value)
    history_bytes = load.runs * RUN_BYTES.value
    history_per_year = history_bytes * DAYS_PER_YEAR
    bytes_per_second = (trace_bytes + history_bytes) / seconds
    stored = trace_bytes * load.retention_days
    connections = int(SERVICE_CONNECTIONS.value + workers * WORKER_CONNECTIONS.value)
    return InstallationSize(
        cores=whole_s / seconds,
        metric_cores=metric_s / seconds,
        database_cores=database_s / seconds,
        langfuse_cores=langfuse_s / seconds,
        upload_cores=load.traces * UPLOAD_CPU.value / MICROSECONDS / seconds,
        workers=workers,
        connections=connections,
        bytes_per_night=trace_bytes + history_bytes,
        bytes_per_second=bytes_per_second,
        stored_bytes=stored,
        history_bytes_per_year=history_per_year,
        langfuse_requests=requests,
        langfuse_requests_per_minute=requests / (load.hours * 60),
        finish_s=finish_s,
        limits=_limits(
            {
                Part.MACHINE: whole_s / seconds / MAX_CORES_OF_MACHINE,
                Part.LANGFUSE: requests / (load.hours * 60) / MAX_REQUESTS_PER_MINUTE,
                Part.FINISH: finish_s / MAX_FINISH_S,
                Part.CONNECTIONS: connections / MAX_CONNECTIONS,
                Part.DATABASE_DISK: (stored + history_per_year) / MAX_DATABASE_BYTES,
                Part.DATABASE_WRITES: bytes_per_second / MAX_WRITTEN_BYTES_PER_S,
                Part.DATABASE_CPU: database_s / seconds / MAX_DATABASE_CORES,
            }
        ),
    )


def metrics_cpu(names: Collection[str]) -> float:
    """The CPU of some metrics of one trace in µs, with what they share."""
    measured = METRIC_CPU.keys() & names
    shared = WORDS_CPU.value if measured - METRICS_WITHOUT_WORDS else 0.0
    own = sum(METRIC_CPU[name].value if name in measured else OTHER_METRIC_CPU for name in names)
    return shared + own


def _limits(shares: Mapping[Part, float]) -> list[Limit]:
    by_share = sorted(shares.items(), key=lambda item: -item[1])
    return [Limit(part, share, REMEDIES[part]) for part, share in by_share]


def _require_valid(load: SizingLoad) -> None:
    if load.runs < 1 or load.traces < load.runs:
        raise Invalid("each run has at least one trace; raise --traces, or lower --runs")
    if load.retention_days < 1 or load.hours <= 0:
        raise Invalid("the retention and the hours of a night are positive")
