"""A metric over the traces with certain tags, and a metric of prepared traces: the metric itself, with every further
method that it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mosaico.formula.ast import filtered_key
from mosaico.llm.types import ModelAnswer, ModelKind, ModelRequest
from mosaico.metrics.types import (
    BatchMetric,
    CountedMetric,
    MetricJudgeScore,
    MetricProvider,
    MetricSpec,
    RemoteMetric,
    RunMetric,
    Summary,
)
from mosaico.traces.types import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def filter_metric(provider: MetricProvider, tags: tuple[str, ...]) -> MetricProvider:
    """The provider over the traces with all these tags; it has every further method of the provider.

    The engine skips the other traces by the tags of the specification.
    """
    spec = replace(provider.spec, key=filtered_key(provider.spec.key, tags), tags=tags)
    return _wrap(provider, spec, _unchanged)


def prepare_metric(
    provider: MetricProvider, version: str, prepare: Callable[[Trace], Trace]
) -> MetricProvider:
    """The provider of traces that `prepare` changes first, under a version of its own."""
    return _wrap(provider, replace(provider.spec, version=version), prepare)


def _wrap(
    provider: MetricProvider, spec: MetricSpec, prepare: Callable[[Trace], Trace]
) -> MetricProvider:
    kinds = tuple(kind for kind in _METHODS if isinstance(provider, kind))
    wrapped: MetricProvider = _filtered_class(kinds)(provider, spec, prepare)
    return wrapped


def _unchanged(trace: Trace) -> Trace:
    return trace


class _FilteredMetric:
    """Delegates to a provider, under a specification of its own."""

    def __init__(self, provider: Any, spec: MetricSpec, prepare: Callable[[Trace], Trace]) -> None:
        self.provider = provider
        self.spec = spec
        self.prepare = prepare

    def supports(self, trace: Trace) -> bool:
        return bool(self.provider.supports(self.prepare(trace)))

    def compute(self, trace: Trace) -> float:
        value: float = self.provider.compute(self.prepare(trace))
        return value


class _BatchMethods(_FilteredMetric):
    def compute_batch(self, traces: Sequence[Trace]) -> Sequence[float]:
        values: Sequence[float] = self.provider.compute_batch([*map(self.prepare, traces)])
        return values


class _RunMethods(_FilteredMetric):
    def summarize(self, traces: Sequence[Trace]) -> Summary:
        return self.provider.summarize([*map(self.prepare, traces)])

    def merge(self, first: Summary, second: Summary) -> Summary:
        return self.provider.merge(first, second)

    def run_value(self, summary: Summary) -> float | None:
        value: float | None = self.provider.run_value(summary)
        return value


class _CountedMethods(_RunMethods):
    def values_of_counts(
        self, names: Sequence[str], counts: "NDArray[np.float64]"
    ) -> "NDArray[np.float64]":
        values: NDArray[np.float64] = self.provider.values_of_counts(names, counts)
        return values


class _RemoteMethods(_FilteredMetric):
    @property
    def kind(self) -> ModelKind:
        kind: ModelKind = self.provider.kind
        return kind

    def requests(self, trace: Trace) -> Sequence[ModelRequest]:
        requests: Sequence[ModelRequest] = self.provider.requests(self.prepare(trace))
        return requests

    def read(self, trace: Trace, answers: Sequence[ModelAnswer]) -> MetricJudgeScore:
        score: MetricJudgeScore = self.provider.read(self.prepare(trace), answers)
        return score


# From the most special to the most general, which is the order of base classes.
_METHODS: dict[type, type[_FilteredMetric]] = {
    BatchMetric: _BatchMethods,
    CountedMetric: _CountedMethods,
    RunMetric: _RunMethods,
    RemoteMetric: _RemoteMethods,
}


@lru_cache(maxsize=16)
def _filtered_class(kinds: tuple[type, ...]) -> type[Any]:
    """The class with the methods of these kinds: a protocol is recognized by its methods."""
    bases = tuple(_METHODS[kind] for kind in kinds) or (_FilteredMetric,)
    return type("FilteredMetric", bases, {})
