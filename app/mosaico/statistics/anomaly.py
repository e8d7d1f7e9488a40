"""Detects runs that are anomalous compared with the runs before them; pure.

The evidence is that of `sequential`: the window of the last runs that differs most from the runs before it. Here it is
read from the values of runs, so that every statistic has it (a percentile, a sum, a KPI without a direction); the noise
within a run comes from its items when they are known, otherwise from the standard error of its value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from mosaico.statistics.run_variance import from_normal, prior_sd
from mosaico.statistics.sequential import (
    DEFAULT_FALSE_PAGES,
    RunLevel,
    WindowScore,
    limit_of,
    scan_levels,
)
from mosaico.statistics.verdict_rules import Scale, Side

# The history of a run: more runs would be read with all of their items.
WINDOW: Final = 30
# The normal quantile of a power of 80 %.
POWER_Z: Final = 0.84


class ItemSum(NamedTuple):
    """The values of one item in one run: their number, their sum, the sum of their squares."""

    n: int
    total: float
    squares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """One run: its value, the standard error of the value, and the values by item, when known."""

    value: float
    error: float | None = None
    items: Mapping[str, ItemSum] | None = None


# The others are those of alerts that were stored by earlier versions.
AnomalyMethod: TypeAlias = Literal["windows", "components", "mad", "cusum"]


class Warmup(NamedTuple):
    """The history is too short: `runs` of the `required` runs exist."""

    runs: int
    required: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyScore:
    """The last `width` runs compared with the `history` of runs before them.

    `z` is the distance of their mean `level` from the `center` in standard errors: positive for harm, signed when both
    sides do harm. `low` to `high` is the expected range of the level. `min_detectable_effect` is the smallest
    harmful change that is detected with 80 % power.
    """

    width: int
    history: int
    level: float
    center: float
    z: float
    critical: float
    low: float
    high: float
    min_detectable_effect: float
    is_anomaly: bool
    method: AnomalyMethod = "windows"


AnomalyResult: TypeAlias = Warmup | AnomalyScore


def detect_anomaly(
    point: RunPoint,
    history: Sequence[RunPoint],
    *,
    side: Side,
    scale: Scale = Scale.NUMBER,
    resolution: float = 0.0,
    critical: float | None = None,
) -> AnomalyResult:
    """Compares the last runs with at most 30 runs before the newest one, oldest first.

    The scale RATIO compares ratios (latency, cost), unless a value is not positive. `resolution` is the change of the
    value by one trace, where items are not known. `critical` replaces the limit of the default number of
    false alarms. Raises `OverflowError` for values near the limit of a float.
    """
    points = [*history[-WINDOW:], point]
    if len(points) == 1:
        return Warmup(0, 1)
    if scale is Scale.RATIO and not all(run.value > 0 for run in points):
        scale = Scale.NUMBER
    levels = _levels(points, resolution, is_logarithmic=scale is Scale.RATIO)
    size = math.fsum(abs(run.level) for run in levels) / len(levels)
    score = _strongest(levels, side, prior_sd(scale, size))
    limit = limit_of(DEFAULT_FALSE_PAGES) if critical is None else critical
    level = math.fsum(run.level for run in levels[-score.width :]) / score.width
    anomaly = _describe(score, level, limit, side, is_logarithmic=scale is Scale.RATIO)
    if not all(map(math.isfinite, (anomaly.z, anomaly.low, anomaly.high))):
        raise OverflowError("the values are too large to compare")
    return anomaly


def _strongest(levels: Sequence[RunLevel], side: Side, sd: float) -> WindowScore:
    """The window with the largest harm."""
    fall, rise = scan_levels(levels, prior_sd=sd)
    assert fall is not None, "checked by the caller: there is an earlier run"
    assert rise is not None, "as there is a fall"
    if side is Side.BOTH:
        return max(fall, rise, key=lambda score: abs(score.z))
    return fall if side is Side.LOW else rise


def _describe(
    score: WindowScore, level: float, limit: float, side: Side, *, is_logarithmic: bool
) -> AnomalyScore:
    center = level - score.effect
    half_width = from_normal(limit, score.degrees) * score.standard_error + score.ignored
    detectable = from_normal(limit + POWER_Z, score.degrees) * score.standard_error + score.ignored
    low, high = center - half_width, center + half_width
    if is_logarithmic:
        detectable = math.exp(center) * math.expm1(detectable)
        level, center, low, high = map(math.exp, (level, center, low, high))
    # Positive for a rise where both sides do harm.
    z = score.z if side is Side.LOW else -score.z
    return AnomalyScore(
        width=score.width,
        history=score.reference,
        level=level,
        center=center,
        z=z,
        critical=limit,
        low=low,
        high=high,
        min_detectable_effect=detectable,
        is_anomaly=(abs(z) if side is Side.BOTH else z) > limit,
    )


def _levels(
    points: Sequence[RunPoint], resolution: float, *, is_logarithmic: bool
) -> list[RunLevel]:
    """The levels of runs. With items, a level of ratios is the mean of their logarithms, moved as a whole to the
    mean of the values: a typical item decides, and not a few expensive ones.
    """
    items = [_item_means(point, is_logarithmic=is_logarithmic) for point in points]
    values = [math.log(point.value) if is_logarithmic else point.value for point in points]
    if is_logarithmic and all(items):
        means = [math.fsum(means.values()) / len(means) for means in items]
        distance = math.fsum(map(float.__sub__, values, means)) / len(means)
        values = [mean + distance for mean in means]
    noises = [None, *(_noise_of_items(*neighbors) for neighbors in pairwise(items))]
    levels = []
    for run, (point, value, noise) in enumerate(zip(points, values, noises, strict=True)):
        if point.items or point.error is None:
            variance, grain = noise or (None, 0.0)
        else:
            # The delta method: the standard error of log x is that of x divided by x.
            error = point.error / point.value if is_logarithmic else point.error
            variance, grain = error**2, resolution
        levels.append(RunLevel(run, value, variance, grain=grain))
    return levels


def _item_means(point: RunPoint, *, is_logarithmic: bool) -> dict[str, float]:
    means = {item: values.total / values.n for item, values in (point.items or {}).items()}
    if not is_logarithmic:
        return means
    # An item that costs nothing counts as half of the smallest other value.
    least = min((mean for mean in means.values() if mean > 0), default=2.0) / 2
    return {item: math.log(mean if mean > 0 else least) for item, mean in means.items()}


def _noise_of_items(
    before: Mapping[str, float], after: Mapping[str, float]
) -> tuple[float, float] | None:
    """The variance of the mean of a run by its items, from their changes, and how far one of the items that change
    moves the mean; None when fewer than two items are known.
    """
    changes = [after[item] - before[item] for item in after if item in before]
    count = len(changes)
    if count <= 1:
        return None
    mean = math.fsum(changes) / count
    squares = math.fsum((change - mean) ** 2 for change in changes)
    around_zero = math.fsum(change**2 for change in changes)
    fourth = math.fsum(change**4 for change in changes)
    grain = math.sqrt(fourth / around_zero) / count if around_zero else 0.0
    # A change has the noise of two runs.
    return squares / (count * (count - 1)) / 2, grain
