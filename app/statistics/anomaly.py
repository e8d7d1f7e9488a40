"""Whether a run stands out from those before it.

Two noises move a run: chance within it (an agent that solves a task four times of five) and what
changes between runs. Where the values of single tasks are known, both are estimated apart
(*components*); where only the numbers of the runs are, a robust distance is taken (*mad*). With
enough history a slow slide is looked for, too (*cusum*).

Source: Croux and Rousseeuw 1992 (the corrections of MAD), Page 1954 (CUSUM).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, median
from typing import Literal, NamedTuple, TypeAlias

from app.statistics.student_t import t_quantile

WINDOW = 30
MIN_HISTORY = 5
ALPHA = 0.005
POWER = 0.8

MAD_WITH_FLOOR = 3.0
MAD_WITHOUT = 3.5
MAD_TO_SIGMA = 1.4826
MAD_CORRECTIONS = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}

DRIFT_HISTORY = 14
DRIFT_RUNS = 6
CUSUM_SLACK = 0.5
CUSUM_LIMIT = 5.0

# Numbers that agree to this share are the same number.
SAME = 1e-9


class Side(StrEnum):
    """On which side of its history a value does harm."""

    LOW = "LOW"
    HIGH = "HIGH"
    BOTH = "BOTH"


class ItemSum(NamedTuple):
    """The values of one task in one run: how many, their sum, the sum of their squares."""

    n: int
    total: float
    squares: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """One run: its value, the standard error of it, and the values of its tasks where known."""

    value: float
    error: float | None = None
    items: Mapping[str, ItemSum] | None = None


class Learning(NamedTuple):
    """There is not enough history: so many runs, of so many."""

    have: int
    need: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run beside its history. `z` counts harm upwards on one side, and is signed on both.

    `low` and `high` hold what was to be expected; `visible` is the smallest harmful change that
    would stand out in four runs of five.
    """

    method: Literal["components", "mad", "cusum"]
    history: int
    center: float
    z: float
    critical: float
    low: float
    high: float
    visible: float
    stands_out: bool


Finding: TypeAlias = Learning | Judged


class _Spread(NamedTuple):
    """How far runs lie from the center by chance: of a new run, and of one whose center is known."""

    method: Literal["components", "mad"]
    center: float
    of_new: float
    of_known: float
    critical: float


def judge_run(
    point: RunPoint,
    history: Sequence[RunPoint],
    *,
    side: Side,
    logarithmic: bool = False,
    resolution: float = 0.0,
    critical: float | None = None,
    min_history: int = MIN_HISTORY,
) -> Finding:
    """One run against those before it, oldest first; only the last 30 are looked at.

    `logarithmic` compares ratios, as latency and cost want it; values that are not positive make
    it plain again. `resolution` is what one changed trace moves the value: no change below it is
    seen. `critical` takes the place of the limit of the method.
    """
    window = history[-WINDOW:]
    if len(window) < min_history:
        return Learning(len(window), min_history)
    if logarithmic and all(each.value > 0 for each in (point, *window)):
        found = _judge(_log(point), [_log(each) for each in window], side, 0.0, critical)
        return _unlog(found)
    return _judge(point, window, side, resolution, critical)


def _judge(
    point: RunPoint,
    window: Sequence[RunPoint],
    side: Side,
    resolution: float,
    critical: float | None,
) -> Judged:
    spread = _spread(window, side, resolution)
    limit = spread.critical if critical is None else critical
    deviation = _harm(point.value - spread.center, side)
    found = Judged(
        method=spread.method,
        history=len(window),
        center=spread.center,
        z=deviation / spread.of_new,
        critical=limit,
        low=spread.center - limit * spread.of_new,
        high=spread.center + limit * spread.of_new,
        visible=(limit + NormalDist().inv_cdf(POWER)) * spread.of_new,
        stands_out=_beyond(deviation / spread.of_new, limit, side),
    )
    if found.stands_out or len(window) < DRIFT_HISTORY:
        return found
    return _slide(point, window, side, resolution) or found


def _slide(
    point: RunPoint, window: Sequence[RunPoint], side: Side, resolution: float
) -> Judged | None:
    """A small harm that goes on: the last runs summed up against those before them."""
    before, last = window[:-DRIFT_RUNS], [*window[-DRIFT_RUNS:], point]
    spread = _spread(before, side, resolution)
    sums = [
        _cusum([sign * (each.value - spread.center) / spread.of_new for each in last])
        for sign in _signs(side)
    ]
    most = max(sums)
    if most < CUSUM_LIMIT:
        return None
    reach = spread.critical * spread.of_new
    return Judged(
        method="cusum",
        history=len(window),
        center=spread.center,
        z=most,
        critical=CUSUM_LIMIT,
        low=spread.center - reach,
        high=spread.center + reach,
        visible=CUSUM_SLACK * spread.of_known + CUSUM_LIMIT * spread.of_known / len(last),
        stands_out=True,
    )


def _cusum(harms: Sequence[float]) -> float:
    """Where the sum of what exceeds the slack ends; it never falls below zero."""
    total = 0.0
    for harm in harms:
        total = max(0.0, total + harm - CUSUM_SLACK)
    return total


def _spread(window: Sequence[RunPoint], side: Side, resolution: float) -> _Spread:
    found = _components(window, side) or _mad(window, side)
    least = max(resolution, SAME * max(abs(found.center), SAME))
    return found._replace(of_new=max(found.of_new, least), of_known=max(found.of_known, least))


def _components(window: Sequence[RunPoint], side: Side) -> _Spread | None:
    """Chance within the runs and the rest between them; None where tasks are not known."""
    within = _variance_within(window)
    if within is None:
        return None
    values = [point.value for point in window]
    h, mean = len(values), math.fsum(values) / len(values)
    seen = math.fsum((value - mean) ** 2 for value in values) / (h - 1)
    # V + max(0, S² - V) is the larger of the two, with the certainty of that one: V comes from
    # every trace of the history, S² from as many numbers as there are runs.
    total, degrees = (seen, h - 1.0) if seen > within else (within, math.inf)
    alpha = ALPHA / len(_signs(side))
    return _Spread(
        method="components",
        center=mean,
        of_new=math.sqrt(total * (1 + 1 / h)),
        of_known=math.sqrt(total),
        critical=t_quantile(1 - alpha, degrees),
    )


def _variance_within(window: Sequence[RunPoint]) -> float | None:
    """The variance of a run's mean by chance alone: the mean of the unbiased variances of the
    tasks, over the traces of a run.
    """
    tasks: dict[str, list[ItemSum]] = defaultdict(list)
    for point in window:
        if not point.items:
            return None
        for item, found in point.items.items():
            tasks[item].append(found)
    variances, traces = [], 0
    for sums in tasks.values():
        n, total, squares = map(sum, zip(*sums, strict=True))
        traces += n
        if n > 1:
            variances.append(max(0.0, (squares - total**2 / n) / (n - 1)))
    if not variances:
        return None
    traces_a_run = traces / len(window)
    return math.fsum(variances) / len(variances) / traces_a_run


def _mad(window: Sequence[RunPoint], side: Side) -> _Spread:
    """The distance from the median in units of the corrected MAD, and not below the standard error
    of a run; where that is not known, not below what Student's t would allow.
    """
    values = [point.value for point in window]
    h, center = len(values), median(values)
    spread = median(abs(value - center) for value in values) * MAD_TO_SIGMA * _correction(h)
    errors = [point.error for point in window if point.error is not None]
    if len(errors) == h:
        spread, critical = max(spread, median(errors)), MAD_WITH_FLOOR
    else:
        # So few values have a small MAD by chance far too often: 7 % false alarms at h = 5.
        mean = math.fsum(values) / h
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (h - 1))
        reach = t_quantile(1 - ALPHA / len(_signs(side)), h - 1) * math.sqrt(1 + 1 / h)
        spread, critical = max(spread, deviation * reach / MAD_WITHOUT), MAD_WITHOUT
    return _Spread("mad", center, spread, spread, critical)


def _correction(h: int) -> float:
    return MAD_CORRECTIONS.get(h) or h / (h - 0.8)


def _signs(side: Side) -> tuple[float, ...]:
    return {Side.LOW: (-1.0,), Side.HIGH: (1.0,), Side.BOTH: (-1.0, 1.0)}[side]


def _harm(deviation: float, side: Side) -> float:
    return -deviation if side is Side.LOW else deviation


def _beyond(z: float, critical: float, side: Side) -> bool:
    return (abs(z) if side is Side.BOTH else z) >= critical


def _log(point: RunPoint) -> RunPoint:
    error = None if point.error is None else point.error / point.value
    return RunPoint(value=math.log(point.value), error=error)


def _unlog(found: Judged) -> Judged:
    center = math.exp(found.center)
    return replace(
        found,
        center=center,
        low=math.exp(found.low),
        high=math.exp(found.high),
        visible=center * math.expm1(min(found.visible, 700.0)),
    )
