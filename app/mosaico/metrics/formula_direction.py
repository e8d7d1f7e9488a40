"""The direction in which a KPI improves: that of its formula, unless somebody names one."""

import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from mosaico.core.errors import AppError
from mosaico.formula import InvalidFormula, Reference, compile_formula
from mosaico.formula.bounds import EVERYTHING, Bounds
from mosaico.formula.metric_statistics import passes_of
from mosaico.formula.trend import Trend, trend_of
from mosaico.metrics.registry import column_of, provider_for, ref_of_column
from mosaico.metrics.types import Direction, MetricRef, MetricSpec, UnknownMetric

_TRENDS: Final = {
    Direction.HIGHER_IS_BETTER: Trend.RISES,
    Direction.LOWER_IS_BETTER: Trend.FALLS,
    Direction.NEITHER: Trend.UNKNOWN,
}
_DIRECTIONS: Final = {
    Trend.RISES: Direction.HIGHER_IS_BETTER,
    Trend.FALLS: Direction.LOWER_IS_BETTER,
}
_WORDS: Final = {
    "higher": Direction.HIGHER_IS_BETTER,
    "lower": Direction.LOWER_IS_BETTER,
    "neither": Direction.NEITHER,
}
_SENTENCES: Final = {
    Direction.HIGHER_IS_BETTER: "higher is better",
    Direction.LOWER_IS_BETTER: "lower is better",
}
# No formula ends with two words, so that the last one cannot be a part of it.
_FORMULA_AND_WORD: Final = re.compile(rf"(.*\S)\s+({'|'.join(_WORDS)})\s*", re.DOTALL)


class KpiFormulaText(NamedTuple):
    """The formula of a KPI; its direction is the one of the formula unless it is named. The rest is as in a benchmark."""

    formula: str
    direction: Direction | None = None
    unit: str | None = None
    gate: bool = False
    min_effect: float | None = None
    threshold_min: float | None = None
    threshold_max: float | None = None


def parse_kpi_text(text: str) -> KpiFormulaText:
    """Split `FORMULA`, or `FORMULA lower` with the direction: higher, lower or neither."""
    match = _FORMULA_AND_WORD.fullmatch(text)
    return KpiFormulaText(match[1], _WORDS[match[2]]) if match else KpiFormulaText(text)


def direction_of_formula(text: str, metrics: Iterable[MetricRef] = ()) -> Direction:
    """The direction of a valid formula: NEITHER where its parts have none, or not the same.

    `metrics` have options that may give them a direction; other metrics have their default options.
    """
    formula = compile_formula(text)
    chosen = {spec.key: spec for spec in (provider_for(ref).spec for ref in metrics)}
    specs = {
        reference: chosen.get(column_of(reference.key)) or _find_spec(reference)
        for reference in formula.references
    }
    trend = trend_of(
        formula.root,
        {ref: _statistic_trend(ref.stat, spec) for ref, spec in specs.items() if spec},
        {ref: statistic_bounds(ref.stat, spec) for ref, spec in specs.items() if spec},
    )
    return _DIRECTIONS.get(trend, Direction.NEITHER)


def direction_warnings(
    formula: str, direction: Direction, metrics: Iterable[MetricRef] = ()
) -> list[str]:
    """The reasons to check the direction of a KPI; a stored formula may be no longer valid, and the plugin of a metric
    may be gone.
    """
    try:
        derived = direction_of_formula(formula, metrics)
    except (InvalidFormula, UnknownMetric):
        return []
    if direction is derived is Direction.NEITHER:
        return [
            f"no direction follows from {formula}, so no change of it is better or worse; set one"
        ]
    if Direction.NEITHER in {direction, derived} or direction is derived:
        return []
    chosen, followed = (_SENTENCES[side] for side in (direction, derived))
    return [
        f"the direction says that {chosen}, but by {formula} {followed}; change it unless it is meant"
    ]


def statistic_bounds(stat: str, spec: MetricSpec) -> Bounds:
    """The range of a statistic of a metric."""
    low = -math.inf if spec.minimum is None else spec.minimum
    high = math.inf if spec.maximum is None else spec.maximum
    match stat:
        case "coverage":
            return Bounds(0.0, 1.0)
        case "n" | "count" | "std":
            return Bounds(0.0, math.inf)
        case "sum":
            return Bounds(0.0, math.inf) if low >= 0 else EVERYTHING
        case _ if passes_of(stat):
            return Bounds(0.0, 1.0)
        case _:
            return Bounds(low, high)


def _statistic_trend(stat: str, spec: MetricSpec) -> Trend:
    match stat:
        case "coverage":
            # Fewer missing values are better, whatever the metric measures.
            return Trend.RISES
        case "n" | "count":
            # The size of the run, by which sums are divided.
            return Trend.CONSTANT
        case "std":
            return Trend.UNKNOWN
        case _:
            return _TRENDS[spec.direction]


def _find_spec(reference: Reference) -> MetricSpec | None:
    """The specification of a metric; None when its plugin is no longer installed."""
    try:
        return provider_for(ref_of_column(reference.key)).spec
    except AppError:
        return None
