"""Detects runs that are anomalous compared with the runs before them; pure.

Two sources of noise move the value of a run: chance within the run (an agent that solves a task four
times of five) and whatever changes between runs. When the values of single items are known, both
are estimated separately (method *components*); when only the values of runs are known, a robust
distance from the median is used (*mad*). With enough history, small changes that persist are
detected as well (*cusum*).

Source: Croux and Rousseeuw 1992, "Time-efficient algorithms for two highly robust estimators of
scale" (small-sample corrections of the MAD); Page 1954, "Continuous inspection schemes" (CUSUM).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median
from typing import Literal, NamedTuple, TypeAlias

from mosaico.statistics.verdict_rules import Side

# The tables of quantiles below end here, too.
WINDOW = 30
MIN_HISTORY = 5
# One false alarm in 200 runs: a KPI that is measured every day may alarm once in half a year.
ALPHA = 0.005
POWER = 0.8

# Limits of the MAD distance: lower when the standard error of the runs bounds the spread from below.
MAD_LIMIT_WITH_ERROR = 3.0
MAD_LIMIT = 3.5
# The MAD of a normal distribution is 1 / 1.4826 standard deviations.
MAD_TO_SIGMA = 1.4826
MAD_CORRECTIONS = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}

# CUSUM with these parameters detects a shift of one standard deviation within about ten runs.
DRIFT_HISTORY = 14
DRIFT_RUNS = 6
CUSUM_SLACK = 0.5
CUSUM_LIMIT = 5.0

# Numbers that differ by less than this fraction are equal.
TOLERANCE = 1e-9
# Above this exponent the exponential function overflows.
_MAX_EXPONENT = 700.0

# Quantiles of Student's t at 1 - ALPHA and 1 - ALPHA / 2 for 1 to 29 degrees of freedom: all that a
# window of 30 runs needs. A table, because processes that answer requests evaluate alert rules and
# must not import scipy; a test compares it with scipy.
T_CRITICAL_ONE_SIDED = (
    63.656741162872, 9.924843200918, 5.840909309733, 4.604094871350, 4.032142983555,
    3.707428021325, 3.499483297350, 3.355387331333, 3.249835541592, 3.169272672617,
    3.105806515539, 3.054539589393, 3.012275838717, 2.976842734371, 2.946712883475,
    2.920781622425, 2.898230519677, 2.878440472739, 2.860934606465, 2.845339709786,
    2.831359558023, 2.818756060600, 2.807335683770, 2.796939504774, 2.787435813677,
    2.778714533330, 2.770682957122, 2.763262455461, 2.756385903671,
)  # fmt: skip
T_CRITICAL_TWO_SIDED = (
    127.321336468875, 14.089047275555, 7.453318505151, 5.597568367075, 4.773340604856,
    4.316827103633, 4.029337177643, 3.832518685344, 3.689662392304, 3.581406202091,
    3.496614173254, 3.428444242292, 3.372467941011, 3.325695817838, 3.286038570946,
    3.251992874383, 3.222449911357, 3.196574222255, 3.173724530792, 3.153400532906,
    3.135206245406, 3.118824206861, 3.103996963141, 3.090513548717, 3.078199460544,
    3.066909116431, 3.056520108857, 3.046928775053, 3.038046744849,
)  # fmt: skip


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


AnomalyMethod: TypeAlias = Literal["components", "mad", "cusum"]


class Warmup(NamedTuple):
    """The history is too short: `runs` of the `required` runs exist."""

    runs: int
    required: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyScore:
    """A run compared with its history.

    `z` is the distance from the center in standard deviations: positive for harm, signed when both
    sides do harm. `low` to `high` is the expected range. `min_detectable_effect` is the smallest
    harmful change that is detected with 80 % power.
    """

    method: AnomalyMethod
    history: int
    center: float
    z: float
    critical: float
    low: float
    high: float
    min_detectable_effect: float
    is_anomaly: bool


AnomalyResult: TypeAlias = Warmup | AnomalyScore


class _Spread(NamedTuple):
    """The standard deviation of runs around the center.

    `prediction` includes the uncertainty of the center, as a new run sees it; `runs` does not.
    """

    method: Literal["components", "mad"]
    center: float
    prediction: float
    runs: float
    critical: float


def detect_anomaly(
    point: RunPoint,
    history: Sequence[RunPoint],
    *,
    side: Side,
    is_logarithmic: bool = False,
    resolution: float = 0.0,
    critical: float | None = None,
) -> AnomalyResult:
    """Compares one run with at most 30 runs before it, oldest first.

    `is_logarithmic` compares ratios (latency, cost), unless a value is not positive. `resolution` is
    the change of the value by one trace: the spread is never smaller. `critical` replaces the limit
    of the method.
    """
    # The newest ones; the caller passes them oldest first.
    window = history[-WINDOW:]
    if len(window) < MIN_HISTORY:
        return Warmup(len(window), MIN_HISTORY)
    if is_logarithmic and all(run.value > 0 for run in (point, *window)):
        score = _score(_to_log(point), [_to_log(run) for run in window], side, 0.0, critical)
        return _from_log(score)
    return _score(point, window, side, resolution, critical)


def _score(
    point: RunPoint,
    window: Sequence[RunPoint],
    side: Side,
    resolution: float,
    critical: float | None,
) -> AnomalyScore:
    spread = _estimate_spread(window, side, resolution)
    limit = spread.critical if critical is None else critical
    z = _harm(point.value - spread.center, side) / spread.prediction
    score = AnomalyScore(
        method=spread.method,
        history=len(window),
        center=spread.center,
        z=z,
        critical=limit,
        low=spread.center - limit * spread.prediction,
        high=spread.center + limit * spread.prediction,
        min_detectable_effect=(limit + NormalDist().inv_cdf(POWER)) * spread.prediction,
        is_anomaly=_exceeds(z, limit, side),
    )
    # A sudden change needs no search for a slow one; a short history gives no reference without the
    # latest runs.
    if score.is_anomaly or len(window) < DRIFT_HISTORY:
        return score
    return _detect_drift(point, window, side, resolution) or score


def _detect_drift(
    point: RunPoint, window: Sequence[RunPoint], side: Side, resolution: float
) -> AnomalyScore | None:
    """CUSUM of the latest runs against the earlier ones; None without a persistent small harm.

    The latest runs are left out of the reference, which a drift would otherwise pull along.
    """
    reference, latest = window[:-DRIFT_RUNS], [*window[-DRIFT_RUNS:], point]
    spread = _estimate_spread(reference, side, resolution)
    cusum = max(
        _cusum([sign * (run.value - spread.center) / spread.prediction for run in latest])
        for sign in _signs(side)
    )
    if cusum < CUSUM_LIMIT:
        return None
    half_width = spread.critical * spread.prediction
    return AnomalyScore(
        method="cusum",
        history=len(window),
        center=spread.center,
        z=cusum,
        critical=CUSUM_LIMIT,
        low=spread.center - half_width,
        high=spread.center + half_width,
        # A constant harm d adds d − slack per run and reaches the limit with the latest run.
        min_detectable_effect=CUSUM_SLACK * spread.runs + CUSUM_LIMIT * spread.runs / len(latest),
        is_anomaly=True,
    )


def _cusum(harms: Sequence[float]) -> float:
    """The final cumulative sum of the harm above the slack; it never falls below zero."""
    total = 0.0
    for harm in harms:
        total = max(0.0, total + harm - CUSUM_SLACK)
    return total


def _estimate_spread(window: Sequence[RunPoint], side: Side, resolution: float) -> _Spread:
    spread = _components_spread(window, side) or _mad_spread(window, side)
    # A history without any variation must not turn the smallest change into an anomaly.
    least = max(resolution, TOLERANCE * max(abs(spread.center), TOLERANCE))
    return spread._replace(prediction=max(spread.prediction, least), runs=max(spread.runs, least))


def _components_spread(window: Sequence[RunPoint], side: Side) -> _Spread | None:
    """Chance within runs plus the variance between runs; None when the items are unknown."""
    within = _variance_within(window)
    if within is None:
        return None
    values = [run.value for run in window]
    h, mean = len(values), math.fsum(values) / len(values)
    observed = math.fsum((value - mean) ** 2 for value in values) / (h - 1)
    # V + max(0, S² − V) is the larger of the two variances, and has the degrees of freedom of that
    # one: V is estimated from every trace of the history, S² from as many values as there are runs.
    is_within = observed <= within
    variance = within if is_within else observed
    return _Spread(
        method="components",
        center=mean,
        prediction=math.sqrt(variance * (1 + 1 / h)),
        runs=math.sqrt(variance),
        critical=_normal_critical(side) if is_within else _t_critical(h - 1, side),
    )


def _variance_within(window: Sequence[RunPoint]) -> float | None:
    """The variance of a run's mean by chance alone.

    It is the mean of the items' sample variances, each over all runs, divided by the traces per run.
    """
    sums_by_item: dict[str, list[ItemSum]] = defaultdict(list)
    for run in window:
        if not run.items:
            return None
        for item, item_sum in run.items.items():
            sums_by_item[item].append(item_sum)
    variances, traces = [], 0
    for sums in sums_by_item.values():
        n, total, squares = map(sum, zip(*sums, strict=True))
        traces += n
        # One value has no variance; such an item still counts as a trace.
        if n > 1:
            # Rounding can make the difference of two large numbers negative.
            variances.append(max(0.0, (squares - total**2 / n) / (n - 1)))
    if not variances:
        return None
    traces_per_run = traces / len(window)
    return math.fsum(variances) / len(variances) / traces_per_run


def _mad_spread(window: Sequence[RunPoint], side: Side) -> _Spread:
    """The distance from the median in units of the corrected MAD.

    The spread is at least the median standard error of the runs. When that is unknown it is at least
    what Student's t allows: of five values the MAD is often too small by chance, which would give
    7 % false alarms.
    """
    values = [run.value for run in window]
    h, center = len(values), median(values)
    mad = median(abs(value - center) for value in values)
    spread = mad * MAD_TO_SIGMA * _mad_correction(h)
    errors = [run.error for run in window if run.error is not None]
    if len(errors) == h:
        spread, critical = max(spread, median(errors)), MAD_LIMIT_WITH_ERROR
    else:
        mean = math.fsum(values) / h
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (h - 1))
        half_width = deviation * _t_critical(h - 1, side) * math.sqrt(1 + 1 / h)
        # Divided by the limit, so that the limit times the spread is at least this half-width.
        spread, critical = max(spread, half_width / MAD_LIMIT), MAD_LIMIT
    return _Spread("mad", center, spread, spread, critical)


def _mad_correction(h: int) -> float:
    return MAD_CORRECTIONS.get(h) or h / (h - 0.8)


def _t_critical(degrees: int, side: Side) -> float:
    """The limit of Student's t that chance exceeds with the probability ALPHA."""
    return (T_CRITICAL_TWO_SIDED if side is Side.BOTH else T_CRITICAL_ONE_SIDED)[degrees - 1]


def _normal_critical(side: Side) -> float:
    return NormalDist().inv_cdf(1 - ALPHA / len(_signs(side)))


def _signs(side: Side) -> tuple[float, ...]:
    return {Side.LOW: (-1.0,), Side.HIGH: (1.0,), Side.BOTH: (-1.0, 1.0)}[side]


def _harm(deviation: float, side: Side) -> float:
    return -deviation if side is Side.LOW else deviation


def _exceeds(z: float, critical: float, side: Side) -> bool:
    return (abs(z) if side is Side.BOTH else z) >= critical


def _to_log(run: RunPoint) -> RunPoint:
    # The delta method: the standard error of log x is that of x divided by x.
    error = None if run.error is None else run.error / run.value
    return RunPoint(value=math.log(run.value), error=error)


def _from_log(score: AnomalyScore) -> AnomalyScore:
    center, effect = math.exp(score.center), min(score.min_detectable_effect, _MAX_EXPONENT)
    return replace(
        score,
        center=center,
        low=math.exp(score.low),
        high=math.exp(score.high),
        min_detectable_effect=center * math.expm1(effect),
    )
