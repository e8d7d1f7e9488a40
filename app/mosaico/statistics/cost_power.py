"""The minimum detectable effect of costs and times, by simulated runs. Needs numpy.

The test of a cost is less sensitive than its standard error suggests: one expensive item carries
much of the change and of its spread alike, and few items rarely include the most expensive ones. So
the logarithms of the items' values, which are nearly normal, are fitted, runs are drawn from the
fit, and the effect is the smallest one that the test finds in four of five draws.
"""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mosaico.statistics.change import OWN_WEIGHT
from mosaico.statistics.distributions import t_quantile
from mosaico.statistics.trials import FloatArray, IntArray
from mosaico.statistics.verdict_rules import ALPHA, POWER

# Drawn pairs of runs: as many as keep a verdict fast. 400 pairs give the power within 2 %.
_CELLS, _MOST_PAIRS, _FEWEST_PAIRS = 100_000, 400, 100
# With more units the effect falls with the root of their number.
_MOST_UNITS = 1_000
# No change of costs is larger; a test that does not find it finds none.
_LARGEST = math.log(1000)
_STEPS, _GRID = 3, 16
_SEED = 37
# A little more than promised, because the fit is uncertain, too (simulated).
_AIM = POWER + 0.02


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogNormalItems:
    """Two runs of items whose values are log-normal, fitted to the logarithms.

    All numbers but `other_variance` are variances of logarithms: of the items' `levels`, of an item's value in
    one run without the noise of trials (`runs`), of what a run does to a whole cluster (`clusters`),
    and of one trial (`trial`; None is unknown, then `runs` includes it for `measured_trials` trials).
    `other_variance` is the variance of the item changes by the other metrics of a formula, relative to the
    value. `elasticity` is the change of the value's logarithm by that of the items. `sizes` are the
    numbers of items of the clusters, empty without clusters.
    """

    levels: float
    runs: float
    clusters: float = 0.0
    trial: float | None = None
    measured_trials: float = 1.0
    other_variance: float = 0.0
    elasticity: float = 1.0
    sizes: tuple[int, ...] = field(default=())

    def detectable_effect(self, items: int, trials: float) -> float:
        """The minimum detectable effect as the logarithm of a ratio; infinite when the test finds no
        change in four of five runs, however large.
        """
        sizes = self._planned_sizes(items)
        units = len(sizes) if sizes else items
        if units > _MOST_UNITS:
            fewer = max(1, items * _MOST_UNITS // units)
            return self.detectable_effect(fewer, trials) * math.sqrt(fewer / items)
        if units < 3:  # noqa: PLR2004 - no spread that a test could use
            return math.inf
        return self.elasticity * _DrawnRuns.of(self, sizes, items, trials).detectable()

    def settles(self, items: int, trials: float, margin: float) -> bool:
        """Return whether the interval of an unchanged value is within ± a margin, a logarithm, in
        four of five runs.
        """
        runs = _DrawnRuns.of(self, self._planned_sizes(items), items, trials)
        return runs.settled(margin / self.elasticity) >= _AIM

    def with_noise_of_trials(self) -> "LogNormalItems":
        """The best case of an unknown noise of trials: nothing but trials varies between runs."""
        trial = math.log1p(self.measured_trials * math.expm1(min(self.runs, 50.0)))
        return replace(self, runs=0.0, trial=trial)

    def _planned_sizes(self, items: int) -> tuple[int, ...]:
        """The clusters of so many items: those that were measured, again and again."""
        if not self.sizes or sum(self.sizes) == items:
            return self.sizes
        count = max(2, round(items * len(self.sizes) / sum(self.sizes)))
        return tuple(np.resize(np.array(self.sizes), count).tolist())

    def noise(self, trials: float) -> float:
        """The variance of an item's logarithm in one run of so many trials."""
        if self.trial is None:
            return self.runs * max(1.0, self.measured_trials / trials)
        return self.runs + math.log1p(math.expm1(min(self.trial, 50.0)) / trials)


def fit_log_normal(
    baseline: FloatArray,
    candidate: FloatArray,
    units: IntArray,
    *,
    trial: float | None,
    trials: float,
    other_variance: float = 0.0,
    elasticity: float = 1.0,
) -> LogNormalItems | None:
    """The fit to the item values of two runs, of shape (items,); None unless all are positive.

    `units` maps each item to its unit (0, 1, …); `trial` is the variance of the logarithm of one
    trial, None when it is unknown. The change of the runs is not noise.
    """
    items, count = len(baseline), int(units.max()) + 1
    if items < 3 or not (baseline > 0).all() or not (candidate > 0).all():  # noqa: PLR2004
        return None
    logs = np.log(np.stack([baseline, candidate]))
    changes = logs[1] - logs[0]
    noise = float(changes.var(ddof=1)) / 2
    is_clustered = count < items
    clusters = _cluster_variance(changes, units) / 2 if is_clustered else 0.0
    levels = max(0.0, float(logs.var(axis=1, ddof=1).mean()) - noise)
    if not changes.any() and trial is None:
        # One run alone: its items differ more than they will change.
        noise, levels = levels, 0.0
    within = max(0.0, noise - clusters)
    if trial is not None:
        within = max(0.0, within - math.log1p(math.expm1(min(trial, 50.0)) / trials))
    return LogNormalItems(
        levels=levels,
        runs=within,
        clusters=clusters,
        trial=trial,
        measured_trials=trials,
        other_variance=other_variance,
        elasticity=elasticity,
        sizes=tuple(np.bincount(units).tolist()) if is_clustered else (),
    )


def _cluster_variance(changes: FloatArray, units: IntArray) -> float:
    """The variance of the changes between clusters (analysis of variance); at least 0."""
    sizes = np.bincount(units)
    means = np.bincount(units, weights=changes) / sizes
    items, count = len(changes), len(sizes)
    inside = float(((changes - means[units]) ** 2).sum()) / max(1, items - count)
    between = float((sizes * (means - changes.mean()) ** 2).sum()) / (count - 1)
    typical_size = (items - float((sizes**2).sum()) / items) / (count - 1)
    return max(0.0, (between - inside) / typical_size)


class _DrawnRuns(NamedTuple):
    """Sums over the units of drawn pairs of runs, from which the test of any change follows.

    The candidate of a pair is multiplied by a factor, which makes every sum a polynomial of it.
    `totals` are the means of baseline, candidate and other changes; `squares` the weighted products of the
    deviations of two of them, `plain` the products as they are.
    """

    totals: FloatArray
    squares: FloatArray
    plain: FloatArray
    own: FloatArray
    units: int
    critical: float

    @classmethod
    def of(
        cls, fit: LogNormalItems, sizes: tuple[int, ...], items: int, trials: float
    ) -> "_DrawnRuns":
        counts = np.array(sizes) if sizes else np.ones(items, dtype=np.intp)
        items, units = int(counts.sum()), len(counts)
        normal, shared = _normals(items, units)
        noise = math.sqrt(fit.noise(trials))
        logs = math.sqrt(fit.levels) * normal[0] + noise * normal[1:3]
        if sizes:
            logs += np.repeat(math.sqrt(fit.clusters) * shared, counts, axis=2)
        values = np.exp(logs, out=logs) / items
        if fit.other_variance:
            other_changes = (
                math.sqrt(fit.other_variance) / max(fit.elasticity, 1e-9) / items * normal[3]
            )
            values = np.concatenate([values, other_changes[None]])
        if sizes:
            values = np.add.reduceat(values, np.cumsum(counts) - counts, axis=2)
        share = counts / items
        weight = 1 / (1 - share)
        totals = values.sum(axis=2)
        deviations = (values - share * totals[:, :, None]) * np.sqrt(weight)
        # With the gradient of each run: the relative deviations, which no factor changes.
        relative = deviations[1] / totals[1][:, None] - deviations[0] / totals[0][:, None]
        if fit.other_variance:
            relative += deviations[2]
        degrees = 1 / (
            (share**2).sum() + (share**2 * weight).sum() ** 2 - (share**4 * weight**2).sum()
        )
        return cls(
            totals=totals,
            squares=np.einsum("isu,jsu->ijs", deviations, deviations),
            plain=np.einsum("isu,jsu->ijs", values, values),
            own=np.einsum("su,su->s", relative, relative),
            units=units,
            critical=t_quantile(1 - ALPHA / 2, degrees),
        )

    def powers(self, effects: FloatArray) -> FloatArray:
        """Return how often the test of `mosaico.statistics.change` finds changes by these
        logarithms.
        """
        changes, variance = self._tested(np.exp(effects)[:, None])
        shares: FloatArray = (changes > self.critical * np.sqrt(variance)).mean(axis=1)
        return shares

    def _tested(self, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The change of each pair and its variance, of shape (factors, pairs)."""
        before, after = self.totals[0], factors * self.totals[1]
        other_changes = self.totals[2] if len(self.totals) > 2 else 0.0  # noqa: PLR2004 - the third
        # The mean gradient of the logarithm between the runs.
        ratios = np.log(after / before)
        slopes = np.divide(ratios, after - before, out=1 / after, where=after != before)
        between = _quadratic(self.squares, slopes, factors)
        variance = np.maximum(
            between + OWN_WEIGHT * (self.own - between),
            _quadratic(self.plain, slopes, factors) / (self.units - 1),
        )
        return ratios + other_changes, variance

    def settled(self, margin: float) -> float:
        """Return how often the interval of an unchanged value is within ± a margin."""
        changes, variance = self._tested(np.ones((1, 1)))
        reach = np.abs(changes) + self.critical * np.sqrt(variance)
        return float((reach <= margin).mean())

    def detectable(self) -> float:
        """The least effect with the power that is aimed at; infinite when none has it."""
        low, high = 0.0, _LARGEST
        for _ in range(_STEPS):
            effects = np.linspace(low, high, _GRID)[1:]
            enough = np.flatnonzero(self.powers(effects) >= _AIM)
            if not len(enough):
                return math.inf
            low, high = effects[enough[0]] - (effects[1] - effects[0]), effects[enough[0]]
        return float(high)


def _quadratic(products: FloatArray, slopes: FloatArray, factors: FloatArray) -> FloatArray:
    """Products of the change, slope * (factor * candidate - baseline) + rest, of shape (factors,
    pairs).
    """
    change: FloatArray = slopes**2 * (
        products[0, 0] - 2 * factors * products[0, 1] + factors**2 * products[1, 1]
    )
    if len(products) > 2:  # noqa: PLR2004 - the third is the rest
        change = change + 2 * slopes * (factors * products[1, 2] - products[0, 2]) + products[2, 2]
    return np.maximum(change, 0.0)


@lru_cache(maxsize=4)
def _normals(items: int, units: int) -> tuple[FloatArray, FloatArray]:
    """Standard normal numbers of pairs of runs: four for each item, two for each unit."""
    random = np.random.default_rng(_SEED)
    pairs = min(_MOST_PAIRS, max(_FEWEST_PAIRS, _CELLS // items))
    return random.standard_normal((4, pairs, items)), random.standard_normal((2, pairs, units))
