"""Values of whole runs by `RunMetric`: shards are summarized and stored, then merged and read.

A stored summary is JSON: `{"summary": ...}`, or `{"failed": kind, "detail": ...}` when the provider
failed.
"""

import json
import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, TypeAlias

from mosaico.core.strict_json import reject_unacceptable
from mosaico.metrics.engine import attempt, decide_reference, number_of
from mosaico.metrics.reference_choice import has_references, with_each_reference
from mosaico.metrics.registry import load_metrics, provider_for
from mosaico.metrics.types import (
    CountedMetric,
    MetricFailed,
    MetricFailureKind,
    MetricProvider,
    MetricRef,
    RunMetric,
)
from mosaico.traces.types import Trace

StoredSummary: TypeAlias = dict[str, Any]


def summarize_with(
    provider: RunMetric, column: Sequence[float | None], traces: Sequence[Trace]
) -> StoredSummary:
    """The summary of the traces that have a value in the metric's column."""
    # Only traces with a value: the value of the run and the values of its traces then describe the
    # same.
    valued = [
        _with_deciding_reference(trace, provider)
        for trace, value in zip(traces, column, strict=True)
        if value is not None
    ]
    return _to_stored(attempt(provider.summarize, valued))


def _with_deciding_reference(trace: Trace, provider: RunMetric) -> Trace:
    """The trace with the one expected answer that its value is of."""
    if not isinstance(provider, MetricProvider) or not has_references(trace, provider.spec):
        return trace
    if trace.outcome.is_agent_failure or not trace.output:
        return with_each_reference(trace)[0]
    return decide_reference(trace, provider)[0]


def merge_with(provider: RunMetric, notes: Iterable[StoredSummary]) -> StoredSummary:
    """The merged summary of at least one; a failed one makes the whole fail."""

    def merge(first: StoredSummary, other: StoredSummary) -> StoredSummary:
        # A failed shard fails the whole: a value without it would be one of another set of items.
        for note in (first, other):
            if "failed" in note:
                return note
        return _to_stored(attempt(provider.merge, first["summary"], other["summary"]))

    # From the first to the last shard: a merge that rounds gives the same bits in each repetition.
    return reduce(merge, notes)


def run_value(provider: RunMetric, note: StoredSummary) -> float | MetricFailed | None:
    """The value of a run from the summary of all its traces; None when it is undefined."""
    if "failed" in note:
        return MetricFailed(MetricFailureKind(note["failed"]), note["detail"])
    value = attempt(provider.run_value, note["summary"])
    if value is None or isinstance(value, MetricFailed):
        return value
    number = value if type(value) is float else attempt(number_of, value)
    if isinstance(number, MetricFailed):
        return MetricFailed(MetricFailureKind.NOT_A_NUMBER, number.detail)
    return (
        number if math.isfinite(number) else MetricFailed(MetricFailureKind.NON_FINITE, str(number))
    )


def summarize_traces(
    ref: MetricRef, column: Sequence[float | None], traces: Sequence[Trace]
) -> StoredSummary:
    """`summarize_with` for a metric reference: arguments and result can be pickled."""
    return summarize_with(_run_provider(ref), column, traces)


def merge_summaries(ref: MetricRef, notes: Sequence[StoredSummary]) -> StoredSummary:
    """`merge_with` for a metric reference."""
    return merge_with(_run_provider(ref), notes)


def value_of_summary(ref: MetricRef, note: StoredSummary) -> float | MetricFailed | None:
    """`run_value` for a metric reference."""
    return run_value(_run_provider(ref), note)


def is_run_metric(ref: MetricRef) -> bool:
    """Return whether the value of a run is not the mean of its traces."""
    return isinstance(provider_for(ref), RunMetric)


def is_counted(ref: MetricRef) -> bool:
    """Return whether the value of a run is computed from additive counts."""
    return isinstance(provider_for(ref), CountedMetric)


def failed_summary(failure: MetricFailed) -> StoredSummary:
    return {"failed": failure.kind.value, "detail": failure.detail}


def _run_provider(ref: MetricRef) -> RunMetric:
    load_metrics()
    provider = provider_for(ref)
    if not isinstance(provider, RunMetric):
        raise TypeError(f"{ref.key} has no value of a whole run")
    return provider


def _to_stored(summary: object) -> StoredSummary:
    """The summary in its stored form, or a failure when it cannot be stored."""
    if not isinstance(summary, MetricFailed):
        stored = attempt(_as_stored, summary)
        if not isinstance(stored, MetricFailed):
            return {"summary": stored}
        summary = stored
    return failed_summary(summary)


def _as_stored(summary: object) -> object:
    """The summary as the database returns it. Raises Invalid when it cannot be stored."""
    # Round trip, so that `merge` sees the same types whether or not the summary was stored: JSON
    # turns tuples into lists and keys into texts.
    value = json.loads(json.dumps(summary))
    reject_unacceptable(value)
    return value
