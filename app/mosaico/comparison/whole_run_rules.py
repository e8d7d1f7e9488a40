"""Which earlier runs, and which assumption, tell how much whole runs of a KPI or metric vary; pure."""

from collections.abc import Mapping

from mosaico.items.formulas.properties import Line, ValueRange
from mosaico.metrics.registry import column_of
from mosaico.run_store.run_series import kpi_series, metric_series
from mosaico.statistics.verdict_rules import Scale
from mosaico.statistics.whole_runs import MeasuredRuns, WholeRuns


def whole_runs_of(
    column: str | None,
    kpi_id: str | None,
    line: Line | None,
    limits: ValueRange,
    *,
    measured: Mapping[str, MeasuredRuns],
    given_sd: float | None,
) -> WholeRuns:
    """How much whole runs of the tested value of a metric, or of a KPI, vary. `measured` is by series."""
    if line is not None and line.reference.stat == "mean":
        # The value that is tested is that of the metric.
        column = column_of(line.reference.key)
    series = kpi_series(kpi_id or "") if column is None else metric_series(column)
    return WholeRuns(scale=assumed_scale(limits), measured=measured.get(series), given_sd=given_sd)


def assumed_scale(limits: ValueRange) -> Scale:
    """The scale of the assumption, which follows from the values: shares (also with a constant) and their differences, logarithms of values from 0
    without an upper limit, and other numbers.
    """
    if limits.is_multiplicative:
        return Scale.RATIO
    if limits.minimum is None or limits.maximum is None:
        return Scale.NUMBER
    is_share = limits.maximum - limits.minimum <= 1
    is_difference = limits.minimum >= -1 and limits.maximum <= 1
    return Scale.RATE if is_share or is_difference else Scale.NUMBER
