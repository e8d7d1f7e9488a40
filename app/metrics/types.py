"""What a metric is, what it says about one trace, and how somebody provides a new one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from app.llm.types import ModelAnswer, ModelKind, ModelRequest
from app.traces.types import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OptionValue: TypeAlias = bool | int | float | str
Summary: TypeAlias = Any  # JSON: it is stored, and crosses between processes


class Direction(StrEnum):
    """Which way a metric should move."""

    HIGHER_IS_BETTER = "HIGHER_IS_BETTER"
    LOWER_IS_BETTER = "LOWER_IS_BETTER"
    NEITHER = "NEITHER"


class Need(StrEnum):
    """A text of the trace without which a metric says nothing."""

    EXPECTED_OUTPUT = "EXPECTED_OUTPUT"
    OUTPUT = "OUTPUT"


class SkipReason(StrEnum):
    """Why a metric does not apply to a trace; nobody's fault, and never counted as zero."""

    NO_EXPECTED_OUTPUT = "NO_EXPECTED_OUTPUT"
    NO_OUTPUT = "NO_OUTPUT"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    AGENT_ERROR = "AGENT_ERROR"
    INFRA_ERROR = "INFRA_ERROR"
    JUDGE_ERROR = "JUDGE_ERROR"


class MetricFailureKind(StrEnum):
    """How a provider broke its promise on one trace, or the model that it asked."""

    RAISED = "RAISED"
    NOT_A_NUMBER = "NOT_A_NUMBER"
    NON_FINITE = "NON_FINITE"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    JUDGE_ERROR = "JUDGE_ERROR"
    HANG = "HANG"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DIED = "DIED"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSpec:
    """What a metric measures, in which unit and range, and who defined it.

    `minimum` and `maximum` are inclusive, None means open. `worst` is the value that a trace takes
    when the agent failed on it; None means that such a trace is skipped, unless the metric
    `measures_failures`: then it is asked for them as for any other (time and money are spent on
    failures, too). `version` changes whenever the same trace could get another value, so also with
    every option.
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
    needs: frozenset[Need] = frozenset()


class MetricProvider(Protocol):
    """One metric. `compute` is only asked for traces that `supports` accepts and whose needs are
    met; it is pure, and an exception costs the value of that trace alone.
    """

    @property
    def spec(self) -> MetricSpec: ...

    def supports(self, trace: Trace) -> bool: ...

    def compute(self, trace: Trace) -> float: ...


@runtime_checkable
class BatchMetric(Protocol):
    """A provider that is faster on many traces at once: one value a trace, in their order.

    When the batch raises or has another length, the engine asks trace by trace instead.
    """

    def compute_batch(self, traces: Sequence[Trace]) -> Sequence[float]: ...


@runtime_checkable
class RunMetric(Protocol):
    """A provider whose value for a run is not the mean of its traces (from counts, for example).

    `summarize` boils traces down to something small; it is given the traces that have a value, those
    on which the agent failed among them. `merge` makes one summary of two, and `run_value` reads the
    value of the run off the last one; None when there is none. However the traces are cut and in
    whatever order they are merged, the value is the same.
    """

    def summarize(self, traces: Sequence[Trace]) -> Summary: ...

    def merge(self, first: Summary, second: Summary) -> Summary: ...

    def run_value(self, summary: Summary) -> float | None: ...


@runtime_checkable
class CountedMetric(RunMetric, Protocol):
    """A `RunMetric` whose summaries are tables `{name: [counts]}` that are merged by adding: the value
    of any choice of items can be read off, and so it has an interval and a verdict.

    `values_of_counts` reads many tables at once: `counts[row, i]` are the counts of `names[i]`, all
    of them 0 where a table lacks the name. One value a row, NaN where there is none.
    """

    def values_of_counts(
        self, names: Sequence[str], counts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]": ...


class JudgeScore(NamedTuple):
    """What the answers of a model say about a trace, and why, in the words of the model."""

    value: float
    reason: str | None = None


class JudgeError(Exception):
    """The answers of a model say nothing that could be read; the message says what is wrong."""


@runtime_checkable
class RemoteMetric(MetricProvider, Protocol):
    """A provider whose values come from a model on a server. It is pure like any other: `requests`
    says what to ask about a trace, nothing when no model is needed, and `read` what the answers
    say, in the order of the requests. Its options have a `model`; where a benchmark names none, it
    is the operator's model of that `kind`. `compute` is never asked.

    Raises, from `read`: `JudgeError` for answers that are of no use.
    """

    @property
    def kind(self) -> ModelKind: ...

    def requests(self, trace: Trace) -> Sequence[ModelRequest]: ...

    def read(self, trace: Trace, answers: Sequence[ModelAnswer]) -> JudgeScore: ...


class MetricFactory(Protocol):
    """Makes a provider. Its keyword-only parameters with defaults are the options of the metric."""

    def __call__(self) -> MetricProvider: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRef:
    """A metric as a benchmark names it: a key, and the options that differ from the defaults.

    Options are sorted pairs in their wire names (`useStemmer`), so that equal references are equal.
    """

    key: str
    options: tuple[tuple[str, OptionValue], ...] = ()

    @classmethod
    def of(cls, key: str, options: Mapping[str, OptionValue] | None = None) -> "MetricRef":
        return cls(key=key, options=tuple(sorted((options or {}).items())))


class MetricSkipped(NamedTuple):
    """The metric does not apply to this trace."""

    reason: SkipReason


class MetricFailed(NamedTuple):
    """The provider could not measure this trace; `detail` is for whoever mends it."""

    kind: MetricFailureKind
    detail: str


Missing: TypeAlias = MetricSkipped | MetricFailed
Measurement: TypeAlias = float | Missing


class TraceMeasurements(NamedTuple):
    """One row of a run: values in the order of its metrics, None where one is missing.

    `missing` holds the reason of every None, by key; `reasons` what a model said of a value.
    """

    trace_id: str
    values: tuple[float | None, ...]
    missing: Mapping[str, Missing]
    reasons: Mapping[str, str] | None = None
