"""The value of a whole run where it is not the mean of its traces: summarized, merged, read off.

A summary is kept as a note: `{"summary": …}`, or `{"failed": kind, "detail": …}` when the provider
broke. Notes are JSON: a part of a run is summarized by whoever measures it, and stored.
"""

import json
import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, TypeAlias

from app.core.strict_json import reject_unacceptable
from app.metrics.engine import attempt, number_of
from app.metrics.registry import load_metrics, provider_for
from app.metrics.types import CountedMetric, MetricFailed, MetricFailureKind, MetricRef, RunMetric
from app.traces.types import Trace

StoredSummary: TypeAlias = dict[str, Any]


def summarize_with(
    provider: RunMetric, column: Sequence[float | None], traces: Sequence[Trace]
) -> StoredSummary:
    """The note of some traces; those without a value in the metric's column are left out."""
    valued = [trace for trace, value in zip(traces, column, strict=True) if value is not None]
    return _to_stored(attempt(provider.summarize, valued))


def merge_with(provider: RunMetric, notes: Iterable[StoredSummary]) -> StoredSummary:
    """One note of several, at least one; one that failed makes the whole fail."""

    def merge(first: StoredSummary, other: StoredSummary) -> StoredSummary:
        for note in (first, other):
            if "failed" in note:
                return note
        return _to_stored(attempt(provider.merge, first["summary"], other["summary"]))

    return reduce(merge, notes)


def run_value(provider: RunMetric, note: StoredSummary) -> float | MetricFailed | None:
    """The value that the note of all traces stands for; None when the metric has none."""
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
    """The same by name: what it takes and returns can cross to another process."""
    return summarize_with(_run_provider(ref), column, traces)


def merge_summaries(ref: MetricRef, notes: Sequence[StoredSummary]) -> StoredSummary:
    """The same by name."""
    return merge_with(_run_provider(ref), notes)


def value_of_summary(ref: MetricRef, note: StoredSummary) -> float | MetricFailed | None:
    """The same by name."""
    return run_value(_run_provider(ref), note)


def is_run_metric(ref: MetricRef) -> bool:
    """Whether a metric has a value of the whole run that is not the mean of its traces."""
    return isinstance(provider_for(ref), RunMetric)


def is_counted(ref: MetricRef) -> bool:
    """Whether the value of the whole run is read off counts that add up."""
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
    """The note of a summary, which must be storable."""
    if not isinstance(summary, MetricFailed):
        stored = attempt(_as_stored, summary)
        if not isinstance(stored, MetricFailed):
            return {"summary": stored}
        summary = stored
    return failed_summary(summary)


def _as_stored(summary: object) -> object:
    """As it comes back from the database: no tuples, no keys but texts, nothing it cannot hold."""
    value = json.loads(json.dumps(summary))
    reject_unacceptable(value)
    return value
