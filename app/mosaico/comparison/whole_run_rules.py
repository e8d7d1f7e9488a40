"""Which earlier runs, and which assumption, tell how much whole runs of a KPI or metric vary; pure."""

from collections.abc import Mapping

from mosaico.comparison.comparison_spec import KpiComparisonSpec
from mosaico.items.formulas.properties import Line, ValueRange
from mosaico.metrics.registry import column_of
from mosaico.run_store.series_points import kpi_series, metric_series
from mosaico.statistics.verdict_rules import Scale
from mosaico.statistics.whole_runs import MeasuredRuns, WholeRuns


def whole_runs_of(
    column: str | None,
    kpi_id: str | None,
    line: Line | None,
    limits: ValueRange,
    *,
    is_amount: bool,
    measured: Mapping[str, MeasuredRuns],
    given_sd: float | None,
) -> WholeRuns:
    """How much whole runs of the tested value of a metric, or of a KPI, vary. `measured` is by series, and
    `is_amount` marks times, costs and tokens.
    """
    if line is not None and line.reference.stat == "mean":
        # The value that is tested is that of the metric.
        column = column_of(line.reference.key)
    series = kpi_series(kpi_id or "") if column is None else metric_series(column)
    return WholeRuns(
        scale=assumed_scale(limits, is_amount=is_amount),
        measured=measured.get(series),
        given_sd=given_sd,
    )


def assumed_sd_of_kpi(kpi: KpiComparisonSpec, value: float, *, is_logarithm: bool) -> float:
    """The assumed standard deviation of whole runs of a KPI with this value, or of its logarithm: that of the value that
    its verdict tests, so that alerts assume the same.
    """
    line = kpi.line
    slope, offset = (1.0, 0.0) if line is None else (line.slope, line.offset)
    runs = WholeRuns(scale=assumed_scale(kpi.limits, is_amount=kpi.is_amount))
    sd = abs(slope) * runs.assumed_sd(abs((value - offset) / slope), is_logarithm=False)
    return sd / value if is_logarithm else sd


def assumed_scale(limits: ValueRange, *, is_amount: bool) -> Scale:
    """The scale of the assumption, of verdicts, gates and alerts, which follows from the values and never from the limits of a
    rule: shares (also with a constant) and their differences, logarithms of times, costs and tokens, and other numbers.
    Counts are other numbers: most are 0 or small, and have no useful logarithm by item.
    """
    if limits.is_multiplicative and is_amount:
        return Scale.RATIO
    if limits.minimum is None or limits.maximum is None:
        return Scale.NUMBER
    is_share = limits.maximum - limits.minimum <= 1
    is_difference = limits.minimum >= -1 and limits.maximum <= 1
    return Scale.RATE if is_share or is_difference else Scale.NUMBER
