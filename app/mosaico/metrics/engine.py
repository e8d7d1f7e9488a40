"""Computes metrics of traces, and contains every failure of a provider."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from mosaico.core.text import shorten
from mosaico.jobs.lost_calls import CallLost, CallTimeout, OutOfMemory
from mosaico.metrics.reference_choice import (
    choose_reference,
    has_references,
    with_each_reference,
)
from mosaico.metrics.registry import load_metrics, providers_for
from mosaico.metrics.types import (
    Measurement,
    MetricFailed,
    MetricFailureKind,
    MetricProvider,
    MetricRef,
    MetricSkipped,
    MetricSkipReason,
    MetricSpec,
    Missing,
    Need,
    TraceMeasurements,
)
from mosaico.traces.types import Trace, TraceOutcome

T = TypeVar("T")

# Traces of one call of the pool. A call costs as much as some traces with cheap metrics, but it is also the time
# after which a cancelled run stops, and what a metric that hangs loses at first.
CHUNK_SIZE: Final = 64
_DETAIL_CHARS: Final = 299
_PROVIDER_ERRORS: Final = (Exception, SystemExit)  # third-party code may even exit

_SCORED: Final = TraceOutcome.SCORED  # looked up once: access to enum members is slow
_NOT_THE_AGENT: Final[Mapping[TraceOutcome, MetricSkipped]] = {
    TraceOutcome.INFRA_ERROR: MetricSkipped(MetricSkipReason.INFRA_ERROR),
    TraceOutcome.JUDGE_ERROR: MetricSkipped(MetricSkipReason.JUDGE_ERROR),
}
_NO_INPUT: Final = MetricSkipped(MetricSkipReason.NO_INPUT)
_NO_EXPECTED: Final = MetricSkipped(MetricSkipReason.NO_EXPECTED_OUTPUT)
_NO_OUTPUT: Final = MetricSkipped(MetricSkipReason.NO_OUTPUT)
_AGENT_FAILED: Final = MetricSkipped(MetricSkipReason.AGENT_ERROR)
NOT_SELECTED: Final = MetricSkipped(MetricSkipReason.NOT_SELECTED)
_NOT_APPLICABLE: Final = MetricSkipped(MetricSkipReason.NOT_APPLICABLE)
_NOT_SUPPORTED: Final = MetricSkipped(MetricSkipReason.NOT_SUPPORTED)


def measure(trace: Trace, providers: Sequence[MetricProvider]) -> TraceMeasurements:
    """Every metric of one trace; a provider that fails loses its own value only."""
    # Most traces are complete: the check is made once per trace instead of once per metric.
    ask = _computed if _is_complete(trace) else _measure_one
    return _row(trace, providers, [ask(trace, provider) for provider in providers])


def measure_chunk(
    traces: Sequence[Trace], providers: Sequence[MetricProvider]
) -> list[TraceMeasurements]:
    """`measure` for several traces; uses the batch form of providers that have one."""
    columns = {
        index: _batch_column(traces, provider, provider.compute_batch)
        for index, provider in enumerate(providers)
        # `isinstance` of a protocol takes as long as some metrics of a chunk.
        if hasattr(provider, "compute_batch")
    }
    if not columns:
        return [measure(trace, providers) for trace in traces]
    # Row by row for the other providers: the metrics of a trace share the counts of its texts.
    return [
        _row(
            trace,
            providers,
            [
                columns[index][position] if index in columns else _measure_one(trace, provider)
                for index, provider in enumerate(providers)
            ],
        )
        for position, trace in enumerate(traces)
    ]


def score_chunk(traces: Sequence[Trace], metrics: tuple[MetricRef, ...]) -> list[TraceMeasurements]:
    """`measure_chunk` with metric references: arguments and result can be pickled.

    Raises: NotFound or Invalid for a metric that does not exist in this process.
    """
    # The pool's child process starts without any registered metric.
    load_metrics()
    # As a list: a lazy sequence would decode each trace again for each metric of the batch form.
    return measure_chunk(list(traces), providers_for(metrics))


def score_within_limits(
    traces: Sequence[Trace], metrics: tuple[MetricRef, ...]
) -> list[TraceMeasurements]:
    """`score_chunk` in a process with a memory limit.

    Raises: MemoryError when a provider reached the limit. An earlier trace may have filled the
    memory, so the caller should repeat the chunk in a new process.
    """
    rows = score_chunk(traces, metrics)
    for row in rows:
        for missing in row.missing.values():
            if (
                isinstance(missing, MetricFailed)
                and missing.kind is MetricFailureKind.OUT_OF_MEMORY
            ):
                # As an exception, so that the caller sees the whole chunk as lost and repeats it.
                raise MemoryError(missing.detail)
    return rows


def measure_all(
    traces: Iterable[Trace], metrics: Sequence[MetricRef]
) -> Iterator[TraceMeasurements]:
    """Rows in the order of the traces, computed lazily."""
    remaining = iter(traces)
    while chunk := list(islice(remaining, CHUNK_SIZE)):
        yield from score_chunk(chunk, tuple(metrics))


def failure_of_lost_call(error: CallLost) -> MetricFailed:
    """The failure of a metric whose child process hung, died or ran out of memory."""
    kinds = {CallTimeout: MetricFailureKind.HANG, OutOfMemory: MetricFailureKind.OUT_OF_MEMORY}
    return MetricFailed(kinds.get(type(error), MetricFailureKind.DIED), str(error))


def _row(
    trace: Trace, providers: Sequence[MetricProvider], measured: Sequence[Measurement]
) -> TraceMeasurements:
    values: list[float | None] = []
    missing: dict[str, Missing] = {}
    for provider, measurement in zip(providers, measured, strict=True):
        if isinstance(measurement, float):
            values.append(measurement)
        else:
            # A missing value is never 0; its reason is kept beside it.
            values.append(None)
            missing[provider.spec.key] = measurement
    return TraceMeasurements(trace.trace_id, tuple(values), missing)


def _batch_column(
    traces: Sequence[Trace],
    provider: MetricProvider,
    compute: Callable[[Sequence[Trace]], Sequence[float]],
) -> Sequence[Measurement]:
    column = [
        _measure_one(trace, provider)
        if has_references(trace, provider.spec)
        else measure_without_computing(trace, provider)
        for trace in traces
    ]
    remaining = [
        trace for trace, measurement in zip(traces, column, strict=True) if measurement is None
    ]
    # The batch gets only the traces that need computing; its values are put back at their
    # positions.
    computed = iter(_batch(remaining, provider.spec, compute))
    # An iterator that is exhausted (the batch failed) leaves None, which is then computed one by
    # one.
    batch = [next(computed, None) if measurement is None else measurement for measurement in column]
    return [
        _measure_one(trace, provider) if value is None else value
        for trace, value in zip(traces, batch, strict=True)
    ]


def _batch(
    traces: Sequence[Trace],
    spec: MetricSpec,
    compute: Callable[[Sequence[Trace]], Sequence[float]],
) -> list[Measurement]:
    """One measurement per trace, or none at all when the batch failed as a whole."""
    try:
        values = list(compute(traces)) if traces else []
    except _PROVIDER_ERRORS:  # the caller computes trace by trace, which shows the one that fails
        return []
    # With another number of values it is unknown which belongs to which trace.
    return [check_value(value, spec) for value in values] if len(values) == len(traces) else []


def _measure_one(trace: Trace, provider: MetricProvider) -> Measurement:
    measurement = _measure_from_outcome(trace, provider.spec)
    return _computed(trace, provider) if measurement is None else measurement


def _computed(trace: Trace, provider: MetricProvider) -> Measurement:
    spec = provider.spec
    if (spec.tags or spec.readable) and (outside := _measure_outside(trace, spec)):
        return outside
    if has_references(trace, spec):
        return decide_reference(trace, provider)[1]
    try:
        if not provider.supports(trace):
            return _unsupported(trace, spec)
        value = provider.compute(trace)
    except _PROVIDER_ERRORS as error:
        return failure_of(error)
    return check_value(value, spec)


def decide_reference(trace: Trace, provider: MetricProvider) -> tuple[Trace, Measurement]:
    """The trace with the expected answer that decides for a metric, and its measurement."""
    variants = with_each_reference(trace)
    measurements = [_computed(variant, provider) for variant in variants]
    chosen = choose_reference(trace, provider.spec, measurements)
    return variants[chosen], measurements[chosen]


def _is_complete(trace: Trace) -> bool:
    """Return whether the trace has all that any metric can need: the fast path of `measure`."""
    return (
        trace.outcome is _SCORED
        and trace.expected_output is not None
        and not _is_blank(trace.output)
    )


def _is_blank(text: str | None) -> bool:
    return not text or text.isspace()


def _measure_from_outcome(trace: Trace, spec: MetricSpec) -> Measurement | None:
    """A measurement that needs no provider: skipped, or the worst value after a failure."""
    # Before the outcome: a failure outside of the metric's traces is not one of this metric.
    if outside := _measure_outside(trace, spec):
        return outside
    if _is_complete(trace):
        return None
    if trace.outcome in _NOT_THE_AGENT:
        return _NOT_THE_AGENT[trace.outcome]
    if trace.expected_output is None and Need.EXPECTED_OUTPUT in spec.needs:
        return _NO_EXPECTED
    if trace.outcome is not _SCORED and not spec.measures_failures:
        return _measure_failure(spec)
    return _measure_from_output(trace, spec)


def _measure_failure(spec: MetricSpec) -> Measurement:
    """An agent that crashes must not look better than one that answers badly."""
    worst = spec.failure_value
    return _AGENT_FAILED if worst is None else float(worst)


def _measure_outside(trace: Trace, spec: MetricSpec) -> Missing | None:
    """The reason why a trace is not one of the metric's traces; None when it is one."""
    if spec.tags and not spec.selects(trace):
        return NOT_SELECTED
    if spec.readable is None:
        return None
    applies = attempt(spec.applies_to, trace)
    if isinstance(applies, MetricFailed):
        return applies
    return None if applies else _NOT_APPLICABLE


def _measure_from_output(trace: Trace, spec: MetricSpec) -> Measurement | None:
    """Measure a metric that needs an output: skipped without an output, the worst value for an
    empty answer.
    """
    if Need.OUTPUT not in spec.needs or not _is_blank(trace.output):
        return None
    if trace.output is None:
        return _NO_OUTPUT
    # An agent that says nothing must not look better than one that answers badly, unless nothing is
    # the expected answer.
    is_expected = trace.expected_output is not None and _is_blank(trace.expected_output)
    return None if is_expected or spec.worst is None else float(spec.worst)


def measure_without_computing(trace: Trace, provider: MetricProvider) -> Measurement | None:
    measurement = _measure_from_outcome(trace, provider.spec)
    if measurement is not None:
        return measurement
    try:
        return None if provider.supports(trace) else _unsupported(trace, provider.spec)
    except _PROVIDER_ERRORS as error:
        return failure_of(error)


def _unsupported(trace: Trace, spec: MetricSpec) -> Measurement:
    # Most traces of a file lack what most delivered metrics need, and are no failures.
    if trace.outcome is not _SCORED and trace.outcome.is_agent_failure and spec.is_delivered:
        return _measure_failure(spec)
    # Few metrics need an input, so it is looked at only when the provider refuses the trace.
    has_no_input = trace.input is None and Need.INPUT in spec.needs
    return _NO_INPUT if has_no_input else _NOT_SUPPORTED


def check_value(value: object, spec: MetricSpec) -> Measurement:
    low, high = spec.minimum, spec.maximum
    # The usual case first: a float in a range, which is neither NaN nor infinite then.
    if type(value) is float and low is not None and high is not None and low <= value <= high:
        return value + 0.0  # turns -0.0 into 0.0, which would sort and print differently
    try:
        number = value if type(value) is float else number_of(value)
    except (TypeError, OverflowError) as error:
        return MetricFailed(MetricFailureKind.NOT_A_NUMBER, shorten(str(error), _DETAIL_CHARS))
    if not math.isfinite(number):
        return MetricFailed(MetricFailureKind.NON_FINITE, str(number))
    if (low is not None and number < low) or (high is not None and number > high):
        return MetricFailed(MetricFailureKind.OUT_OF_RANGE, f"{number!r} is not in [{low}, {high}]")
    return number + 0.0


def number_of(value: object) -> float:
    """A number as a float. Raises TypeError for another type, OverflowError beyond the range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} {value!r}")
    return float(value)


def attempt(function: Callable[..., T], *arguments: Any) -> T | MetricFailed:
    """The result of a provider's function, or its failure."""
    try:
        return function(*arguments)
    except _PROVIDER_ERRORS as error:
        return failure_of(error)


def failure_of(error: BaseException) -> MetricFailed:
    memory = isinstance(error, MemoryError)
    kind = MetricFailureKind.OUT_OF_MEMORY if memory else MetricFailureKind.RAISED
    return MetricFailed(kind, shorten(f"{type(error).__name__}: {error}", _DETAIL_CHARS))
