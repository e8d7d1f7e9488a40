"""Types of metrics: specification, provider protocols, measurements of a trace, and errors of metrics in a request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

from mosaico.core.errors import Invalid, NotFound
from mosaico.llm.types import ModelAnswer, ModelKind, ModelRequest
from mosaico.traces.types import Trace


class InvalidMetricReference(Invalid):
    """A metric, an option or a statistic of it is not valid; correct it as described in the message.
    GET /api/v1/metrics lists the options of each metric.
    """

    code = "invalid-metric"


class UnknownMetric(NotFound):
    """No metric has this name; GET /api/v1/metrics lists all metrics."""


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The metric of failed answers, which every run measures.
ERROR_RATE: Final = "ERROR_RATE"
# Units of what an answer took: times, money, tokens, steps. They come from the reader, not from the texts.
WORK_UNITS: Final = frozenset({"ms", "s", "USD", "tokens", "calls", "turns"})

OptionValue: TypeAlias = bool | int | float | str
Summary: TypeAlias = Any  # JSON: it is stored, and crosses between processes


class Direction(StrEnum):
    """The direction in which a metric improves."""

    HIGHER_IS_BETTER = "HIGHER_IS_BETTER"
    LOWER_IS_BETTER = "LOWER_IS_BETTER"
    NEITHER = "NEITHER"


class Need(StrEnum):
    """A text of the trace that a metric requires."""

    INPUT = "INPUT"
    EXPECTED_OUTPUT = "EXPECTED_OUTPUT"
    OUTPUT = "OUTPUT"


class MetricSkipReason(StrEnum):
    """The reason why a metric does not apply to a trace. A skipped value is missing, never zero.

    A trace that is NOT_SELECTED or NOT_APPLICABLE is not one of the metric's traces: it is outside its coverage.
    """

    NO_INPUT = "NO_INPUT"
    NO_EXPECTED_OUTPUT = "NO_EXPECTED_OUTPUT"
    NO_OUTPUT = "NO_OUTPUT"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    NOT_SELECTED = "NOT_SELECTED"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    AGENT_ERROR = "AGENT_ERROR"
    INFRA_ERROR = "INFRA_ERROR"
    JUDGE_ERROR = "JUDGE_ERROR"


class MetricFailureKind(StrEnum):
    """The reason why a provider, or its model, produced no valid value for a trace."""

    RAISED = "RAISED"
    NOT_A_NUMBER = "NOT_A_NUMBER"
    NON_FINITE = "NON_FINITE"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    JUDGE_ERROR = "JUDGE_ERROR"
    HANG = "HANG"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DIED = "DIED"


class ReadableTexts(NamedTuple):
    """The expected texts that a metric can read: those for which `accepts` is true.

    The expected text alone decides. An answer that the metric cannot read is a bad answer to a readable expected text,
    not a missing one. `alternatives` are the metrics to use for the other texts, such as "CHRF".
    """

    accepts: Callable[[str], bool]
    alternatives: tuple[str, ...] = ()


def worst_of_range(
    minimum: float | None, maximum: float | None, direction: Direction
) -> float | None:
    """The end of a range that is worse; None if it is open, or the metric has no direction."""
    ends = {Direction.HIGHER_IS_BETTER: minimum, Direction.LOWER_IS_BETTER: maximum}
    return ends.get(direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """Specification of a metric: description, unit, range, direction and source.

    `minimum` and `maximum` are inclusive, None means unbounded. `worst` is the value of a trace on
    which the agent failed; None: the end of the range that is worse, and such a trace is skipped if that is
    open. A metric that `measures_failures` is computed as for any other trace (failures take time and money,
    too). The values of a metric that `is_delivered` come with the traces; a failed trace without one has the `worst`
    value. `version` must change whenever the same trace could get another value, and therefore
    depends on the options. A trace without all of the `tags` is not selected. To a trace with an expected
    text that is not one of the `readable` ones the metric is not applicable; None: it reads every text.
    """

    key: str
    description: str
    source: str
    version: str = "1"
    unit: str = "ratio"
    minimum: float | None = 0.0
    maximum: float | None = 1.0
    direction: Direction = Direction.HIGHER_IS_BETTER
    worst: float | None = None
    measures_failures: bool = False
    is_delivered: bool = False
    needs: frozenset[Need] = frozenset()
    tags: tuple[str, ...] = ()
    readable: ReadableTexts | None = None

    @property
    def failure_value(self) -> float | None:
        """The value of a trace on which the agent failed, unless it is measured; None where it is not known."""
        if self.worst is not None or self.measures_failures:
            return self.worst
        return worst_of_range(self.minimum, self.maximum, self.direction)

    def selects(self, trace: Trace) -> bool:
        """Return whether the trace has all tags of the metric."""
        return all(tag in trace.all_tags for tag in self.tags)

    def applies_to(self, trace: Trace) -> bool:
        """Return whether the metric can read the expected text of the trace, or it has none."""
        if self.readable is None or trace.expected_output is None:
            return True
        return self.readable.accepts(trace.expected_output)


@runtime_checkable
class MetricProvider(Protocol):
    """One metric.

    `compute` is pure. It is called only for traces that `supports` accepts and that have the texts
    which the metric needs. After an exception only the value of that trace is missing.
    """

    @property
    def spec(self) -> MetricSpec: ...

    def supports(self, trace: Trace) -> bool: ...

    def compute(self, trace: Trace) -> float: ...


@runtime_checkable
class BatchMetric(Protocol):
    """A provider that is faster on many traces at once: one value per trace, in order.

    When the batch raises or has another length, the engine computes trace by trace instead.
    """

    def compute_batch(self, traces: Sequence[Trace]) -> Sequence[float]: ...


@runtime_checkable
class RunMetric(Protocol):
    """A provider whose value of a run is not the mean of its traces.

    `summarize` reduces the traces that have a value, including those on which the agent failed, to
    a small summary. `merge` combines two summaries. `run_value` computes the value of the run from
    the last summary, None when it has none. The value must not depend on how the traces are split
    or on the order of merging.
    """

    def summarize(self, traces: Sequence[Trace]) -> Summary: ...

    def merge(self, first: Summary, second: Summary) -> Summary: ...

    def run_value(self, summary: Summary) -> float | None: ...


@runtime_checkable
class CountedMetric(RunMetric, Protocol):
    """A `RunMetric` whose summaries are tables `{name: [counts]}` that are merged by addition.

    Its value can be computed for every resample of the items, so that it has a confidence interval
    and a verdict. `values_of_counts` reads many tables at once: `counts[row, i]` are the counts of
    `names[i]`, 0 where a table lacks the name. One value per row, NaN where it is undefined.
    """

    def values_of_counts(
        self, names: Sequence[str], counts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]": ...


class MetricJudgeScore(NamedTuple):
    """The value that a model gives a trace, and the reason in its words."""

    value: float
    reason: str | None = None


class InvalidJudgment(Exception):
    """The answers of a model contain no valid value; the message contains the reason."""


@runtime_checkable
class RemoteMetric(MetricProvider, Protocol):
    """A provider whose values come from a model on a server; it is pure like any other.

    `requests` returns the requests for a trace, none when no model is needed. `read` computes the
    value from the answers, which come in the order of the requests. One option is `model`; when
    the benchmark does not set it, it is the operator's model of that `kind`. `compute` is not
    called.

    Raises, from `read`: `InvalidJudgment` for unusable answers.
    """

    @property
    def kind(self) -> ModelKind: ...

    def requests(self, trace: Trace) -> Sequence[ModelRequest]: ...

    def read(self, trace: Trace, answers: Sequence[ModelAnswer]) -> MetricJudgeScore: ...


class MetricFactory(Protocol):
    """Creates a provider. Its keyword-only parameters with defaults are the options of the metric."""

    def __call__(self) -> MetricProvider: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRef:
    """A metric as a benchmark refers to it: a key, and the options that differ from the defaults.

    Options are pairs sorted by their wire name (`useStemmer`), so that equal references compare
    equal.
    """

    key: str
    options: tuple[tuple[str, OptionValue], ...] = ()

    @classmethod
    def of(cls, key: str, options: Mapping[str, OptionValue] | None = None) -> "MetricRef":
        return cls(key=key, options=tuple(sorted((options or {}).items())))


class MetricSkipped(NamedTuple):
    """The metric does not apply to this trace."""

    reason: MetricSkipReason


class MetricFailed(NamedTuple):
    """The provider could not measure this trace; `detail` is for the developer of the metric."""

    kind: MetricFailureKind
    detail: str


class MetricNote(TypedDict, total=False):
    """What is stored of a value beside its number: why it is missing, or the `reason` of a judge."""

    skipped: str
    failed: str
    detail: str
    reason: str


Missing: TypeAlias = MetricSkipped | MetricFailed


def note_of(missing: Missing) -> MetricNote:
    """The stored reason of a missing value."""
    if isinstance(missing, MetricSkipped):
        return {"skipped": missing.reason}
    return {"failed": missing.kind, "detail": missing.detail}


Measurement: TypeAlias = float | Missing


class TraceMeasurements(NamedTuple):
    """One row of a run: values in the order of its metrics, None where one is missing.

    `missing` holds the reason for each None by metric key, `reasons` what a model wrote about a
    value.
    """

    trace_id: str
    values: tuple[float | None, ...]
    missing: Mapping[str, Missing]
    reasons: Mapping[str, str] | None = None
