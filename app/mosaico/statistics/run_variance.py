"""How much the level of an unchanged agent varies from run to run: one model for all decisions; pure.

    level of a run = level of the agent + effect of the whole run + noise of its items

The noise of the items is known from the items themselves. The effect of a whole run (the provider, the time of day)
is known only from other runs, so its variance is shrunk to a prior that counts as one run: with two runs the prior
speaks, with ten the series does.

Pure Python, because alert rules are decided in processes that do not import numpy.

Sources: Satterthwaite 1946 (degrees of freedom); Wallace 1959, "Bounds on normal approximations to Student's t".
"""

import math
from typing import Final, NamedTuple

from mosaico.statistics.verdict_rules import Scale

# The assumed standard deviation of whole runs beyond their items: points of a share (real runs of one agent: 1.2),
# a fraction of the level of other numbers, and of times and costs (both not measured).
PRIOR_SDS: Final = {Scale.RATE: 0.015, Scale.NUMBER: 0.02, Scale.RATIO: 0.05}
# The prior counts as so many runs. More would outvote the measured runs of a series that varies more.
PRIOR_RUNS: Final = 1
MAX_DEGREES: Final = 300.0

# Of the correlation of neighboring runs, this number divided by the number of pairs is taken for chance: few runs
# say little, and a correlation by chance hides a fall.
CHANCE_PAIRS: Final = 2.4
# How fast the correlation of run effects decays with the distance between two runs; also the largest correlation.
CORRELATION_DECAY: Final = 0.7
# The variance of correlated runs grows by this power of 1 + correlation: they deviate less from their own mean than
# from the true level, and they wander off and come back.
CORRELATION_POWER: Final = 3


class RunVariance(NamedTuple):
    """The variance of the levels of unchanged runs.

    `between` is the variance of whole runs, `per_trace` the item noise of a run times its traces, `correlation` that
    of neighboring runs beyond chance. `degrees` are the degrees of freedom of the estimate.
    """

    between: float
    per_trace: float
    correlation: float
    degrees: float

    def of_mean(self, runs: int, inverse_traces: float) -> float:
        """The variance of the mean of consecutive runs; `inverse_traces` is the sum of 1/traces."""
        independent = (runs * self.between + self.per_trace * inverse_traces) / runs**2
        widening = (1 + self.correlation) ** CORRELATION_POWER
        return widening * independent * (1 + self.correlation * _neighbor_weight(runs))


def estimate_run_variance(
    per_trace: float | None,
    squares: float,
    degrees: int,
    *,
    prior_sd: float,
    inverse_traces: float = 1.0,
    neighbor_products: float = 0.0,
) -> RunVariance:
    """The variance of unchanged runs.

    `per_trace` is the item noise of one trace, and `inverse_traces` the mean of 1/traces: their product is the
    variance of a level by its items alone. None: the items are not known. `squares` is the sum of squares of the
    levels about their mean, with its `degrees` of freedom (0 and 0 for a single run), and `neighbor_products` the
    sum of products of neighboring deviations, freed from the bias of the mean.
    """
    items = (per_trace or 0.0) * inverse_traces
    counted = PRIOR_RUNS + degrees
    total = max(items, (PRIOR_RUNS * (items + prior_sd**2) + squares) / counted)
    between = total - items
    share = 2.0 if between <= total / 2 else total / between
    # A single run with known items says nothing about whole runs: the prior is taken as it is.
    is_assumed = degrees == 0 and per_trace is not None
    return RunVariance(
        between=between,
        per_trace=per_trace or 0.0,
        correlation=_correlation(neighbor_products, squares, degrees, total),
        degrees=MAX_DEGREES if is_assumed else min(MAX_DEGREES, counted * share**2),
    )


def _correlation(products: float, squares: float, degrees: int, total: float) -> float:
    if degrees == 0 or total == 0:
        return 0.0
    beyond_chance = products - squares * CHANCE_PAIRS / degrees
    return min(CORRELATION_DECAY, max(0.0, beyond_chance / degrees / total))


def _neighbor_weight(runs: int) -> float:
    """How much the correlation of neighbors adds to the variance of the mean of so many runs.

    2 Σ (1 - distance / runs) decay^(distance-1), over all distances between two of the runs.
    """
    decay = CORRELATION_DECAY
    distant = (1 - decay**runs) / (1 - decay)
    return 2 * (1 - distant / runs) / (1 - decay)


def prior_sd(scale: Scale, level: float) -> float:
    """The assumed standard deviation of whole runs; that of NUMBER is a fraction of the level."""
    return PRIOR_SDS[scale] * (abs(level) if scale is Scale.NUMBER else 1.0)


def to_normal(t: float, degrees: float) -> float:
    """The normal quantile of the same tail as a Student t (Wallace's approximation)."""
    factor = (8 * degrees + 1) / (8 * degrees + 3)
    return math.copysign(factor * math.sqrt(degrees * math.log1p(t * t / degrees)), t)


def from_normal(z: float, degrees: float) -> float:
    """The Student t of the same tail as a normal quantile: the inverse of `to_normal`."""
    factor = (8 * degrees + 1) / (8 * degrees + 3)
    return math.copysign(math.sqrt(degrees * math.expm1((z / factor) ** 2 / degrees)), z)
