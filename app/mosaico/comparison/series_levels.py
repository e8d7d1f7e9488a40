"""The values of a run by item for each KPI and metric, and the levels of runs from such values.

Imports numpy; call it only in a process that computes.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mosaico.comparison.comparison_spec import (
    ComparisonSpec,
    KpiComparisonSpec,
    MetricComparisonSpec,
)
from mosaico.comparison.value_failures import ValueFailures
from mosaico.comparison.whole_run_rules import assumed_scale, assumed_sd_of_kpi
from mosaico.formula import compile_formula
from mosaico.items.formulas.linearization import linearize
from mosaico.items.matrix import ItemMatrix
from mosaico.metrics.registry import column_of
from mosaico.run_store.series_points import (
    ItemIndex,
    RunPoints,
    SeriesPoint,
    StoredPoint,
    kpi_series,
    metric_series,
)
from mosaico.statistics.run_levels import FloatArray, RunItemValues, fit_levels
from mosaico.statistics.sequential import MAX_REFERENCE, RunLevel, Scan, assumed_sd, scan_levels
from mosaico.statistics.trials import reduce_trials
from mosaico.statistics.verdict_rules import Scale, Side
from mosaico.statistics.whole_runs import MeasuredRuns, measure_runs

KEY_BYTES = 8
TRACE_BYTES = 4
# Runs before a run that its levels are fitted with: its reference, and a long incident.
MAX_EARLIER = 3 * MAX_REFERENCE
# Values by item in all fits of one series: a history of a year with 500 items that change each night.
MAX_VALUES = 20_000_000
# The stored level of the value 0 on the scale RATIO.
ZERO = -math.inf
# A value of 0 counts as half of the smallest other value of the series, as measurements below a limit of
# detection do: a clear fall for every series, and not so far that one zero hides all other changes.
ZERO_DISTANCE = math.log(2)
# Of the mean of a run: stored contributions have seven digits, so that smaller values are not told from 0.
SMALLEST_SHARE = 1e-5


@np.errstate(all="ignore")
def points_of_run(
    spec: ComparisonSpec, kpi_values: Mapping[str, float], failures: ValueFailures
) -> RunPoints:
    """The points of all compared metrics and KPIs of a run; `kpi_values` are by KPI ID.

    A value that is not a mean over items has a level, and nothing by item. Values that overflow, and on
    the scale RATIO those that are negative, are left out, and so are those that fail.
    """
    matrix = spec.run
    columns = [metric.column for metric in spec.metrics if metric.column not in spec.count_metrics]
    means = {column: _item_means(matrix, column) for column in columns}
    points = {
        metric_series(metric.column): failures.attempt(
            (metric.column, None), partial(_point_of_metric, metric, metric.rule.side, means)
        )
        for metric in spec.metrics
        if metric.column in means and metric.rule is not None
    }
    points |= {
        kpi_series(kpi.id): failures.attempt(
            (None, kpi.id),
            partial(_point_of_kpi, kpi, kpi.rule.side, means, kpi_values.get(kpi.id)),
        )
        for kpi in spec.kpis
        if kpi.rule is not None
    }
    return RunPoints(
        items=_item_index(matrix),
        series={name: point for name, point in points.items() if point is not None},
    )


def measure_series(runs: Sequence[RunPoints]) -> dict[str, MeasuredRuns]:
    """How much whole runs vary, by series, from the points of unchanged runs, oldest first; without series that are in
    fewer than two of them.
    """
    measured = {
        series: measure_runs([*levels_of_points(points).values()], Scale(points[-1].scale))
        for series, points in _points_by_series(runs).items()
    }
    return {series: runs for series, runs in measured.items() if runs is not None}


def scan_series(runs: Sequence[RunPoints]) -> dict[str, Scan]:
    """The evidence that the last runs differ from those before them, by series; oldest run first."""
    scans = {}
    for series, points in _points_by_series(runs).items():
        levels = [*levels_of_points(points).values()][-MAX_REFERENCE:]
        if levels:
            prior = assumed_sd(levels, Scale(points[-1].scale))
            scans[series] = scan_levels(levels, prior_sd=prior)
    return scans


def _points_by_series(runs: Sequence[RunPoints]) -> dict[str, list[StoredPoint]]:
    points: dict[str, list[StoredPoint]] = {}
    for number, run in enumerate(runs):
        for series, point in run.series.items():
            stored = StoredPoint(
                number, point.scale, point.level, point.item_values, run.items, point.assumed_sd
            )
            points.setdefault(series, []).append(stored)
    return points


def levels_of_points(points: Sequence[StoredPoint]) -> dict[int, RunLevel]:
    """The levels of runs, oldest first, on the items of the newest run.

    Runs whose points cannot be compared with the newest one are left out: logarithms where the newest run has none,
    and those without values by item where the newest run has them.
    """
    if not points:
        return {}
    newest = points[-1]
    comparable = [
        point
        for point in (_as_newest(point, newest) for point in points)
        if point is not None and (point.item_values is None) is (newest.item_values is None)
    ]
    positive = [point for point in comparable if point.level != ZERO]
    if newest.item_values is None:
        levels = {point.run_seq: RunLevel(point.run_seq, point.level) for point in positive}
    elif newest.scale == Scale.RATIO:
        levels = _levels_of_logarithms(positive)
    else:
        levels = fit_levels([_run_item_values(point) for point in positive])
    zero_level = min((level.level for level in levels.values()), default=0.0) - ZERO_DISTANCE
    levels |= {
        point.run_seq: RunLevel(point.run_seq, zero_level, traces=_trace_count(point), is_zero=True)
        for point in comparable
        if point.level == ZERO
    }
    assumed = {point.run_seq: point.assumed_sd for point in comparable}
    return {run: level._replace(assumed_sd=assumed[run]) for run, level in sorted(levels.items())}


def _as_newest(point: StoredPoint, newest: StoredPoint) -> StoredPoint | None:
    """A point with logarithms if the newest one has them: the scale of a KPI may be another one since an upgrade."""
    if (point.scale == Scale.RATIO) is (newest.scale == Scale.RATIO):
        return point
    if point.scale == Scale.RATIO or point.level < 0:
        return None
    values = np.frombuffer(point.item_values or b"", dtype="<f4").astype(np.float64)
    level, values = _logarithms(point.level, values)
    stored = None if point.item_values is None else values.astype("<f4").tobytes()
    return point._replace(scale=Scale.RATIO, level=level, item_values=stored, assumed_sd=None)


def _logarithms(level: float, values: FloatArray) -> tuple[float, FloatArray]:
    """The logarithm of the level of a run that is not negative, and what its items contribute to it."""
    if level == 0:
        return ZERO, np.where(np.isnan(values), np.nan, 0.0)
    return math.log(level), math.log(level) + values / level - 1


def levels_by_run(
    points: Sequence[StoredPoint], first: int = 0, *, max_values: int = MAX_VALUES
) -> dict[int, dict[int, RunLevel]]:
    """The levels of the runs up to each run on the items of that run, as they were when it ended; from the run at
    `first` on.

    `points` are in the order of the runs. Runs that follow each other on the same items share a fit. Of more than
    `max_values` values by item, the oldest runs share one, too.
    """
    levels: dict[int, dict[int, RunLevel]] = {}
    end, left = len(points), max_values
    while end > first:
        start = _first_on_same_items(points, first, end) if left > 0 else first
        fitted = points[max(0, start - MAX_EARLIER) : end]
        left -= sum(_value_count(point) for point in fitted)
        block = levels_of_points(fitted)
        levels |= {point.run_seq: block for point in points[start:end]}
        end = start
    return levels


def _first_on_same_items(points: Sequence[StoredPoint], first: int, end: int) -> int:
    """The first of the points before `end` that follow each other with the same items and scale."""
    start, items = end - 1, _items_with_value(points[end - 1])
    while start > first and _items_with_value(points[start - 1]) == items:
        start -= 1
    return start


def _items_with_value(point: StoredPoint) -> tuple[str, bytes | None]:
    if point.item_values is None:
        return point.scale, None
    run = _run_item_values(point)
    return point.scale, np.sort(run.keys[np.isfinite(run.values)]).tobytes()


def _value_count(point: StoredPoint) -> int:
    return 1 + len(point.items.traces) // TRACE_BYTES


def _levels_of_logarithms(points: Sequence[StoredPoint]) -> dict[int, RunLevel]:
    """The levels of times and costs: the mean of the items' logarithms, moved as a whole to the mean of the values.

    The logarithm of the mean follows a few expensive items, and pages about them. A change of the levels is therefore
    that of a typical item, which may differ from that of the sum.
    """
    levels = fit_levels([_logarithms_of_items(point) for point in points])
    totals = [
        point.level - levels[point.run_seq].level for point in points if point.run_seq in levels
    ]
    # One distance for all runs, so that levels are of the size of the values that people see.
    distance = math.fsum(totals) / max(1, len(totals))
    return {
        run: level._replace(level=level.level + distance, is_typical=True)
        for run, level in levels.items()
    }


def _logarithms_of_items(point: StoredPoint) -> RunItemValues:
    """An item without a positive value counts as half of the smallest positive one of the run, as a run does."""
    run = _run_item_values(point)
    # The values of the items in means of the run: a contribution is the logarithm of the mean, plus share - 1.
    shares = run.values - point.level + 1
    smallest = np.min(shares, initial=np.inf, where=shares > SMALLEST_SHARE)
    logarithms = point.level + np.log(np.where(shares > SMALLEST_SHARE, shares, smallest / 2))
    return replace(run, values=np.where(np.isnan(shares), np.nan, logarithms))


def _trace_count(point: StoredPoint) -> float:
    if point.item_values is None:
        return 1.0
    run = _run_item_values(point)
    return float(run.traces[np.isfinite(run.values)].sum())


def _item_means(matrix: ItemMatrix, column: str) -> FloatArray:
    item_index = np.asarray(matrix.item_index, dtype=np.intp)
    values = np.asarray(matrix.values[column])
    return reduce_trials(item_index, values, len(matrix.items)).means


def _point_of_metric(
    metric: MetricComparisonSpec, side: Side, means: Mapping[str, FloatArray]
) -> SeriesPoint | None:
    scale = assumed_scale(metric.limits, is_amount=metric.is_amount)
    return _point_of_items(scale, side, means[metric.column])


def _point_of_items(scale: Scale, side: Side, values: FloatArray) -> SeriesPoint | None:
    """The point of a value that is the mean of `values` by item; None without a level.

    On the scale RATIO the level is the logarithm of the mean, the sum that users pay, and the values by item are
    their contributions to it; `levels_of_points` reads the items' logarithms from them.
    """
    values = np.where(np.isfinite(values), values, np.nan)
    if np.isnan(values).all():
        return None
    level = float(np.nanmean(values))
    if scale is Scale.RATIO:
        if level < 0:
            return None
        level, values = _logarithms(level, values)
    return SeriesPoint(scale, side, level, values.astype("<f4").tobytes())


def _point_of_kpi(
    kpi: KpiComparisonSpec,
    side: Side,
    means: Mapping[str, FloatArray],
    value: float | None,
) -> SeriesPoint | None:
    point = _value_of_kpi(kpi, side, means, value)
    return point and point._replace(assumed_sd=_assumed_sd(kpi, point))


def _assumed_sd(kpi: KpiComparisonSpec, point: SeriesPoint) -> float | None:
    """How much the KPI is assumed to vary, on the scale of its point; None of the value 0, which has no logarithm."""
    if point.level == ZERO:
        return None
    is_logarithm = point.scale is Scale.RATIO
    value = math.exp(point.level) if is_logarithm else point.level
    return assumed_sd_of_kpi(kpi, value, is_logarithm=is_logarithm)


def _value_of_kpi(
    kpi: KpiComparisonSpec,
    side: Side,
    means: Mapping[str, FloatArray],
    value: float | None,
) -> SeriesPoint | None:
    scale = assumed_scale(kpi.value_limits, is_amount=kpi.is_amount)
    if kpi.column is not None and kpi.column in means:
        return _point_of_items(scale, side, means[kpi.column])
    formula = compile_formula(kpi.formula)
    item_means = {
        reference: means[column_of(reference.key)]
        for reference in formula.references
        if reference.stat == "mean" and column_of(reference.key) in means
    }
    linearized = linearize(formula, item_means) if item_means else None
    if linearized is not None:
        # A sum with a constant can be negative, and has no logarithm then.
        is_multiple = kpi.line is not None and kpi.line.offset == 0 and kpi.line.slope > 0
        return _point_of_items(
            scale if is_multiple else _additive(scale),
            side,
            linearized.item_values,
        )
    if value is None or not math.isfinite(value):
        return None
    if scale is not Scale.RATIO:
        return SeriesPoint(scale, side, value)
    if value < 0:
        return None
    return SeriesPoint(scale, side, math.log(value) if value > 0 else ZERO)


def _additive(scale: Scale) -> Scale:
    return Scale.NUMBER if scale is Scale.RATIO else scale


def _item_index(matrix: ItemMatrix) -> ItemIndex:
    keys = [
        item_key(item, revision)
        for item, revision in zip(matrix.items, matrix.revisions, strict=True)
    ]
    traces = np.bincount(np.asarray(matrix.item_index, dtype=np.intp), minlength=len(matrix.items))
    return ItemIndex(
        keys=b"".join(keys),
        traces=traces.astype("<i4").tobytes(),
        clusters=b"".join(map(_key, matrix.clusters)) or None,
    )


def item_key(item_id: str, revision: str) -> bytes:
    """The key of an item and its task; see `ItemIndex`."""
    return _key(f"{item_id}\0{revision}")


def _key(name: str) -> bytes:
    """Eight bytes of an MD5: two of 10,000 items get the same key once in 10¹¹ runs."""
    return hashlib.md5(name.encode(), usedforsecurity=False).digest()[:KEY_BYTES]


def _run_item_values(point: StoredPoint) -> RunItemValues:
    keys, traces, clusters = point.items
    assert point.item_values is not None
    return RunItemValues(
        run=point.run_seq,
        keys=np.frombuffer(keys, dtype="<i8").astype(np.int64),
        values=np.frombuffer(point.item_values, dtype="<f4").astype(np.float64),
        traces=np.frombuffer(traces, dtype="<i4").astype(np.float64),
        clusters=None
        if clusters is None
        else np.frombuffer(clusters, dtype="<i8").astype(np.int64),
    )
