"""The aggregate of one metric over traces that are all at hand."""

from collections.abc import Mapping, Sequence

from mosaico.metrics.aggregate import Aggregate, aggregate_measured, with_run_value
from mosaico.metrics.run_value import run_value, summarize_with
from mosaico.metrics.types import MetricProvider, RunMetric
from mosaico.traces.types import Trace


def aggregate_run(
    provider: MetricProvider,
    column: Sequence[float | None],
    traces: Sequence[Trace],
    *,
    missing: Mapping[str, int] | None = None,
) -> Aggregate:
    """The aggregate, with the value of the whole run as mean when the provider defines one."""
    statistics = aggregate_measured(column, missing=missing)
    if not isinstance(provider, RunMetric) or not statistics.n:
        return statistics
    return with_run_value(statistics, run_value(provider, summarize_with(provider, column, traces)))
