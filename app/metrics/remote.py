"""Metrics whose values come from a model: what it is asked, and what its answers are worth.

Both run in a child process, like `compute` of any other metric: they are a provider's code. The
answers are got in between, by `app.runs.llm_metrics`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from app.core.text import replace_unstorable
from app.llm.types import ModelAnswer, ModelKind, ModelRequest
from app.metrics.engine import attempt, checked, known_without_computing
from app.metrics.registry import load_metrics, provider_for
from app.metrics.types import (
    Failed,
    FailureKind,
    JudgeError,
    Measurement,
    MetricRef,
    Reading,
    RemoteMetric,
)
from app.traces.types import Trace

REASON_CHARS: Final = 1000

Requests: TypeAlias = list[ModelRequest]  # no tuple: so is a reason why a value is missing


class Answered(NamedTuple):
    """A trace, and what the model answered to the requests about it."""

    trace: Trace
    answers: tuple[ModelAnswer, ...]


class Judged(NamedTuple):
    """What a metric says about a trace, and what the model gave as its reason."""

    measurement: Measurement
    reason: str | None = None


def is_remote(ref: MetricRef) -> bool:
    """Whether the values of a metric come from a model."""
    return isinstance(provider_for(ref), RemoteMetric)


def kind_of(ref: MetricRef) -> ModelKind:
    """The kind of model that a remote metric asks."""
    return _named(ref).kind


def requests_about(ref: MetricRef, traces: Sequence[Trace]) -> list[Requests | Measurement]:
    """What is to be asked about each trace, or what is known of it without asking."""
    return requests_to(_named(ref), traces)


def judged(ref: MetricRef, answered: Sequence[Answered]) -> list[Judged]:
    """What the answers say about each trace."""
    return judged_by(_named(ref), answered)


def requests_to(metric: RemoteMetric, traces: Sequence[Trace]) -> list[Requests | Measurement]:
    """The same for a provider."""
    return [_requests(metric, trace) for trace in traces]


def judged_by(metric: RemoteMetric, answered: Sequence[Answered]) -> list[Judged]:
    """The same for a provider."""
    return [_judged(metric, one) for one in answered]


def _named(ref: MetricRef) -> RemoteMetric:
    load_metrics()
    provider = provider_for(ref)
    if not isinstance(provider, RemoteMetric):
        raise TypeError(f"{ref.key} asks no model")
    return provider


def _requests(metric: RemoteMetric, trace: Trace) -> Requests | Measurement:
    known = known_without_computing(trace, metric)
    if known is not None:
        return known
    requests = attempt(metric.requests, trace)
    return requests if isinstance(requests, Failed) else list(requests)


def _judged(metric: RemoteMetric, answered: Answered) -> Judged:
    reading = attempt(_read, metric, answered)
    if isinstance(reading, Failed):
        return Judged(reading)
    value = checked(reading.value, metric.spec)
    if isinstance(value, Failed):
        return Judged(Failed(FailureKind.JUDGE_ERROR, f"{value.kind}: {value.detail}"))
    return Judged(
        value, replace_unstorable(reading.reason[:REASON_CHARS]) if reading.reason else None
    )


def _read(metric: RemoteMetric, answered: Answered) -> Reading | Failed:
    try:
        return metric.read(*answered)
    except JudgeError as error:
        return Failed(FailureKind.JUDGE_ERROR, str(error)[:REASON_CHARS])
