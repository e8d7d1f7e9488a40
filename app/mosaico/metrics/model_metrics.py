"""Metrics whose values come from a model: their requests, and the values of the answers.

Both are code of a provider, like `compute` of every other metric, and run in a child process of
a worker. In between `mosaico.metrics.remote_measurement` fetches the answers.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from mosaico.core.text import replace_unstorable
from mosaico.llm.types import ModelAnswer, ModelKind, ModelRequest
from mosaico.metrics.engine import attempt, check_value, measure_without_computing
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import (
    InvalidJudgment,
    Measurement,
    MetricFailed,
    MetricFailureKind,
    MetricJudgeScore,
    MetricRef,
    RemoteMetric,
)
from mosaico.traces.types import Trace

REASON_CHARS: Final = 1000

# A list, because a measurement can be a tuple: isinstance distinguishes them.
TraceRequests: TypeAlias = list[ModelRequest]


class AnsweredTrace(NamedTuple):
    """A trace with the answers to its requests."""

    trace: Trace
    answers: tuple[ModelAnswer, ...]


class JudgedTrace(NamedTuple):
    """The measurement of a trace, and the reason that the model gave."""

    measurement: Measurement
    reason: str | None = None


def is_remote(ref: MetricRef) -> bool:
    """Return whether the values of a metric come from a model."""
    return isinstance(provider_for(ref), RemoteMetric)


def model_kind(ref: MetricRef) -> ModelKind:
    """The kind of model that a remote metric needs."""
    return _remote_provider(ref).kind


def requests_for_traces(
    ref: MetricRef, traces: Sequence[Trace]
) -> list[TraceRequests | Measurement]:
    """The requests for each trace, or its measurement when that is known without a model."""
    return provider_requests(_remote_provider(ref), traces)


def judge_traces(ref: MetricRef, traces: Sequence[AnsweredTrace]) -> list[JudgedTrace]:
    """The measurement of each trace."""
    return provider_verdicts(_remote_provider(ref), traces)


def provider_requests(
    metric: RemoteMetric, traces: Sequence[Trace]
) -> list[TraceRequests | Measurement]:
    """`requests_for_traces` for a provider."""
    return [_requests(metric, trace) for trace in traces]


def provider_verdicts(metric: RemoteMetric, traces: Sequence[AnsweredTrace]) -> list[JudgedTrace]:
    """`judge_traces` for a provider."""
    return [_judge(metric, trace) for trace in traces]


def _remote_provider(ref: MetricRef) -> RemoteMetric:
    load_metrics()
    provider = provider_for(ref)
    if not isinstance(provider, RemoteMetric):
        raise TypeError(f"{ref.key} needs no model")
    return provider


def _requests(metric: RemoteMetric, trace: Trace) -> TraceRequests | Measurement:
    # No request, and no cost, for a trace whose value is known without a model.
    measurement = measure_without_computing(trace, metric)
    if measurement is not None:
        return measurement
    requests = attempt(metric.requests, trace)
    # A list also when the provider returns a tuple: see `TraceRequests`.
    return requests if isinstance(requests, MetricFailed) else list(requests)


def _judge(metric: RemoteMetric, trace: AnsweredTrace) -> JudgedTrace:
    score = attempt(_read, metric, trace)
    if isinstance(score, MetricFailed):
        return JudgedTrace(score)
    value = check_value(score.value, metric.spec)
    if isinstance(value, MetricFailed):
        # The provider returned what the model said, so the model is at fault.
        return JudgedTrace(
            MetricFailed(MetricFailureKind.JUDGE_ERROR, f"{value.kind}: {value.detail}")
        )
    reason = replace_unstorable(score.reason[:REASON_CHARS]) if score.reason else None
    return JudgedTrace(value, reason)


def _read(metric: RemoteMetric, trace: AnsweredTrace) -> MetricJudgeScore | MetricFailed:
    try:
        return metric.read(*trace)
    except InvalidJudgment as error:
        return MetricFailed(MetricFailureKind.JUDGE_ERROR, str(error)[:REASON_CHARS])
