"""Metrics whose values come from a model: their requests, and the values of the answers.

Both are code of a provider, like `compute` of every other metric, and run in a child process of
a worker. In between `mosaico.metrics.remote_measurement` fetches the answers.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from mosaico.core.text import replace_unstorable
from mosaico.llm.types import ModelAnswer, ModelKind, ModelRequest
from mosaico.metrics.engine import attempt, check_value, measure_without_computing
from mosaico.metrics.reference_choice import (
    choose_reference,
    has_references,
    with_each_reference,
    with_reference_list,
)
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
    requests = attempt(_requests_for_references, metric, trace)
    # A list also when the provider returns a tuple: see `TraceRequests`.
    return requests if isinstance(requests, MetricFailed) else list(requests)


def _requests_for_references(metric: RemoteMetric, trace: Trace) -> list[ModelRequest]:
    return [request for variant in _variants(metric, trace) for request in metric.requests(variant)]


def _variants(metric: RemoteMetric, trace: Trace) -> list[Trace]:
    """The trace as a model sees it: with a list of the expected answers, or once with each of them where texts are
    compared by their embeddings.
    """
    if not has_references(trace, metric.spec):
        return [trace]
    if metric.kind is ModelKind.CHAT:
        return [with_reference_list(trace)]
    return with_each_reference(trace)


def _judge(metric: RemoteMetric, trace: AnsweredTrace) -> JudgedTrace:
    variants = _variants(metric, trace.trace)
    if len(variants) == 1:
        return _judge_one(metric, AnsweredTrace(variants[0], trace.answers))
    judged, answers = [], iter(trace.answers)
    for variant in variants:
        count = len(metric.requests(variant))
        judged.append(_judge_one(metric, AnsweredTrace(variant, tuple(islice(answers, count)))))
    measurements = [one.measurement for one in judged]
    return judged[choose_reference(trace.trace, metric.spec, measurements)]


def _judge_one(metric: RemoteMetric, trace: AnsweredTrace) -> JudgedTrace:
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
