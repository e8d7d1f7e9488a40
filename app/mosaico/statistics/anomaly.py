"""Detects runs that are anomalous compared with the runs before them; pure.

The evidence is that of `sequential`: the window of the last runs that differs most from the runs before it. Values
without a series (a percentile, a sum) have it, too: their noise within a run is the standard error of the value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from mosaico.statistics.run_variance import from_normal
from mosaico.statistics.sequential import (
    DEFAULT_FALSE_PAGES,
    RunLevel,
    WindowScore,
    assumed_sd,
    limit_of,
    scan_levels,
)
from mosaico.statistics.verdict_rules import Scale, Side

# The normal quantile of a power of 80 %.
POWER_Z: Final = 0.84


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """One run: its value, and the standard error of the value, when known."""

    value: float
    error: float | None = None


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
    levels: Sequence[RunLevel], *, side: Side, scale: Scale, critical: float | None = None
) -> AnomalyResult:
    """Compares the last runs with those before them, oldest first. On the scale RATIO levels are logarithms.

    `critical` replaces the limit of the default number of false alarms. Raises `OverflowError` for values near
    the limit of a float.
    """
    if len(levels) <= 1:
        return Warmup(0, 1)
    score = _strongest(levels, side, assumed_sd(levels, scale))
    limit = limit_of(DEFAULT_FALSE_PAGES) if critical is None else critical
    level = math.fsum(run.level for run in levels[-score.width :]) / score.width
    anomaly = _describe(score, level, limit, side, is_logarithmic=scale is Scale.RATIO)
    if not all(map(math.isfinite, (anomaly.z, anomaly.low, anomaly.high))):
        raise OverflowError("the values are too large to compare")
    return anomaly


def levels_of_values(
    points: Sequence[RunPoint], scale: Scale, resolution: float
) -> tuple[list[RunLevel], Scale]:
    """The levels of runs whose items are not known, and their scale: ratios with a value that is not positive are
    compared as numbers. `resolution` is the change of the value by one trace.
    """
    if scale is Scale.RATIO and not all(point.value > 0 for point in points):
        scale = Scale.NUMBER
    levels = []
    for run, point in enumerate(points):
        level, error = point.value, point.error
        if scale is Scale.RATIO:
            # The delta method: the standard error of log x is that of x divided by x.
            level, error = math.log(level), None if error is None else error / level
        noise = None if error is None else error**2
        levels.append(RunLevel(run, level, noise, grain=resolution))
    return levels, scale


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
