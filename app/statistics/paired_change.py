"""The change between two runs over the same items, and its verdict. Needs numpy and scipy."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.statistics.hypothesis_tests import (
    FLIPPED_ITEMS,
    cluster_flip_p,
    cluster_t_p,
    compare_passes,
    paired_t_p,
    sign_flip_p,
    wilcoxon_p,
)
from app.statistics.intervals import Interval
from app.statistics.means import clustered_error, standard_error, t_interval
from app.statistics.power import ChangeVariance, detectable_effect, trials_needed
from app.statistics.resampling import (
    SEED,
    Draws,
    cluster_index,
    draw_items,
    resampled_error,
    resampled_interval,
    resampled_p,
)
from app.statistics.trials import FloatArray, IntArray, ItemSums
from app.statistics.verdict_rules import (
    FEW_CLUSTERS,
    TRIALS_FOR_FIXED,
    ChangeVerdict,
    Note,
    Remedy,
    Scale,
    Verdict,
    VerdictRule,
    decide_verdict,
    without_change,
)

# The half-width of a normal 95 % interval in standard errors.
_HALF_WIDTH = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangeEstimate:
    """A change by one of the methods; `error` is its standard error."""

    effect: float
    interval: Interval | None
    p: float | None
    error: float | None
    method: str


class RatioChange(NamedTuple):
    """The candidate's geometric mean divided by the baseline's, with its interval.

    `error` is the standard error of the logarithm; None for a single item or cluster.
    """

    ratio: float
    interval: Interval | None
    error: float | None
    p: float


class _RunValues(NamedTuple):
    baseline: float
    candidate: float


class _SampleSize(NamedTuple):
    items: int
    trials: float
    clusters: int | None


def compare_items(
    baseline: ItemSums,
    candidate: ItemSums,
    rule: VerdictRule,
    *,
    clusters: Sequence[str] | None = None,
    seed: int = SEED,
) -> ChangeVerdict:
    """The change of a metric item by item; entry i of all arguments is the same item.

    Items without a value in one of the runs are left out. `clusters` names the cluster of each item.
    The same input and seed give the same bits.
    """
    in_both = (baseline.n > 0) & (candidate.n > 0)
    if not in_both.any():
        return without_change(Verdict.INVALID, Note.NO_ITEMS)
    # Only items of both runs: otherwise a change of the test set would look like one of the agent.
    before, after = baseline.where(in_both), candidate.where(in_both)
    index = None if clusters is None else cluster_index(_select(clusters, in_both.tolist()))
    if rule.scale is Scale.RATIO:
        return _compare_ratios(before, after, rule, index, seed)
    values = _RunValues(float(before.means.mean()), float(after.means.mean()))
    return _verdict(
        _estimate_change(before, after, index, seed),
        rule,
        values=values,
        unit=1.0 if rule.scale is Scale.RATE else abs(values.baseline),
        size=_sample_size(after, index),
        variance=change_variance(before, after),
        fixed=_fixed_items_interval(before, after),
    )


def change_variance(baseline: ItemSums, candidate: ItemSums) -> ChangeVariance:
    """The variance of the items' changes between two runs of the same items, all with a value."""
    trial_variances = baseline.trial_variances + candidate.trial_variances
    changes = candidate.means - baseline.means
    observed = float(changes.var(ddof=1)) if len(changes) > 1 else 0.0
    is_known = np.isfinite(trial_variances)
    if not is_known.any():
        return ChangeVariance(observed, None)
    noise = baseline.trial_variances / baseline.n + candidate.trial_variances / candidate.n
    return ChangeVariance(
        max(0.0, observed - float(noise[is_known].mean())), float(trial_variances[is_known].mean())
    )


def compare_resampled(
    baseline: FloatArray,
    candidate: FloatArray,
    rule: VerdictRule,
    draws: Draws,
    *,
    trials: float = 1.0,
    notes: Iterable[Note] = (),
    items: NDArray[np.bool_] | None = None,
) -> ChangeVerdict:
    """The change of a KPI from its values in the same draws of both runs.

    Row 0 of both arrays is the observed value. `trials` is the mean number of trials per item,
    `notes` are those of the formula (TIE, CLIFF, EXTREME), `items` selects the items that have what
    the formula reads. With EXTREME there is neither p nor interval: a resample never exceeds the
    observed maximum, so that one difference in nine would be called a change.
    """
    item_count, units, clusters = draws.size(items)
    formula_notes = tuple(notes)
    if not (np.isfinite(baseline[0]) and np.isfinite(candidate[0])):
        return without_change(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=item_count)
    values = _RunValues(float(baseline[0]), float(candidate[0]))
    is_ratio = rule.scale is Scale.RATIO and values.baseline > 0
    rows = _ratio_changes(baseline, candidate) if is_ratio else candidate - baseline
    is_extreme = Note.EXTREME in formula_notes
    if is_extreme:
        rows = np.where(np.arange(len(rows)) == 0, rows, np.nan)
    elif not np.isfinite(rows).all():
        formula_notes = (*formula_notes, Note.UNDEFINED_SOMETIMES)
    error = resampled_error(rows, units)
    return _verdict(
        _ChangeEstimate(
            effect=float(rows[0]),
            interval=resampled_interval(rows, units),
            p=None if is_extreme else resampled_p(rows, units),
            error=error,
            method="paired bootstrap",
        ),
        rule,
        values=values,
        unit=1.0 if rule.scale is Scale.RATE or is_ratio else abs(values.baseline),
        size=_SampleSize(item_count, trials, clusters),
        variance=None if error is None else ChangeVariance(error**2 * item_count, None, trials),
        notes=formula_notes,
    )


def ratio_of_geometric_means(
    baseline: FloatArray, candidate: FloatArray, draws: Draws
) -> RatioChange:
    """The change of positive values of the same items as a ratio.

    The interval is a bootstrap of the mean logarithm of the items' ratios, p is Wilcoxon's test of
    these logarithms, by cluster where items are clustered.
    Source: Fleming and Wallace 1986, "How not to lie with statistics", for the geometric mean.
    """
    logs = np.log(candidate) - np.log(baseline)
    per_unit = [
        np.bincount(draws.units, weights=column, minlength=draws.unit_count)
        for column in (logs, np.ones(len(logs)))
    ]
    totals, counts = draws.sums(np.stack(per_unit, axis=1).astype(np.float64)).T
    rows = totals / counts
    interval = resampled_interval(rows, draws.unit_count)
    return RatioChange(
        ratio=math.exp(float(rows[0])),
        interval=interval and Interval(low=math.exp(interval.low), high=math.exp(interval.high)),
        error=resampled_error(rows, draws.unit_count),
        # The items of a cluster are not independent, so its mean is ranked instead.
        p=wilcoxon_p(logs if draws.clusters is None else per_unit[0] / per_unit[1]),
    )


def _ratio_changes(baseline: FloatArray, candidate: FloatArray) -> FloatArray:
    """The relative change of each row; NaN for a baseline that is not positive."""
    with np.errstate(all="ignore"):
        return np.where(baseline > 0, candidate / baseline - 1, np.nan)


def _verdict(
    change: _ChangeEstimate,
    rule: VerdictRule,
    *,
    values: _RunValues,
    unit: float,
    size: _SampleSize,
    variance: ChangeVariance | None,
    fixed: Interval | None = None,
    notes: Sequence[Note] = (),
) -> ChangeVerdict:
    """The verdict on an estimated change; `unit` converts the limits of the rule into its unit."""
    interval, mde = change.interval, _detectable(change)
    is_degenerate = interval is not None and interval.low == interval.high
    has_few_clusters = size.clusters is not None and size.clusters < FEW_CLUSTERS
    is_identical = change.effect == 0 and not change.error
    own_notes = (
        (Note.IDENTICAL,) * is_identical
        + (Note.DEGENERATE,) * (is_degenerate and not is_identical)
        + (Note.FEW_CLUSTERS,) * has_few_clusters
    )
    return decide_verdict(
        ChangeVerdict(
            verdict=Verdict.INCONCLUSIVE,
            effect=change.effect,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            p=change.p,
            p_adjusted=change.p,
            mde=mde,
            n_items=size.items,
            trials=size.trials,
            method=change.method,
            baseline_value=values.baseline,
            value=values.candidate,
            min_effect=rule.min_effect * unit,
            margin=rule.margin * unit,
            side=rule.side,
            alpha=rule.alpha,
            fixed=fixed,
            clusters=size.clusters,
            remedy=_remedy(mde, rule.margin * unit, variance, size),
            notes=(*notes, *own_notes),
        )
    )


def _detectable(change: _ChangeEstimate) -> float | None:
    """The minimum detectable effect; without variance the one that the interval implies."""
    if change.error:
        return detectable_effect(change.error)
    if change.interval is None or change.interval.low == change.interval.high:
        return None
    return detectable_effect((change.interval.high - change.interval.low) / 2 / _HALF_WIDTH)


def _remedy(
    mde: float | None, margin: float, variance: ChangeVariance | None, size: _SampleSize
) -> Remedy | None:
    """What reduces the minimum detectable effect to the margin.

    The variance is that of independent items. Clusters make the real `mde` larger, so the margin is
    reduced by the same factor.
    """
    if mde is None or mde <= margin or variance is None:
        return None
    trials = max(1, round(size.trials))
    unclustered = detectable_effect(math.sqrt(variance.with_trials(trials) / size.items))
    target = margin * unclustered / mde if unclustered else margin
    remedy = trials_needed(variance, items=size.items, change=target)
    if remedy is None or remedy.more_trials is None:
        return remedy
    return remedy._replace(more_trials=max(1, remedy.more_trials - trials))


def _estimate_change(
    before: ItemSums, after: ItemSums, clusters: IntArray | None, seed: int
) -> _ChangeEstimate:
    differences = after.means - before.means
    if clusters is not None:
        return _clustered_change(differences, clusters, seed)
    if before.are_single_passes and after.are_single_passes:
        return _pass_change(before, after, differences)
    return _mean_change(differences, seed)


def _pass_change(before: ItemSums, after: ItemSums, differences: FloatArray) -> _ChangeEstimate:
    passes = compare_passes((before.total == 1).tolist(), (after.total == 1).tolist())
    return _ChangeEstimate(
        effect=passes.difference,
        interval=passes.interval,
        p=passes.test.mid_p,
        error=_error(differences),
        method="McNemar mid-p",
    )


def _mean_change(differences: FloatArray, seed: int) -> _ChangeEstimate:
    n, mean, error = len(differences), float(differences.mean()), _error(differences)
    is_flipped = n <= FLIPPED_ITEMS
    t_test_p = 1.0 if error is None else paired_t_p(differences)
    return _ChangeEstimate(
        effect=mean,
        interval=None if error is None else t_interval(mean, error, n - 1),
        p=sign_flip_p(differences, seed=seed) if is_flipped else t_test_p,
        error=error,
        method="sign-flip permutation" if is_flipped else "paired t",
    )


def _clustered_change(differences: FloatArray, clusters: IntArray, seed: int) -> _ChangeEstimate:
    mean, count = float(differences.mean()), int(clusters.max()) + 1
    if count == 1:
        return _ChangeEstimate(effect=mean, interval=None, p=1.0, error=None, method="one cluster")
    is_few = count < FEW_CLUSTERS
    error = clustered_error(differences, clusters)
    return _ChangeEstimate(
        effect=mean,
        interval=t_interval(mean, error, count - 1),
        p=cluster_flip_p(differences, clusters, seed=seed)
        if is_few
        else cluster_t_p(differences, clusters),
        error=error,
        method="sign-flip of clusters" if is_few else "cluster t",
    )


def _compare_ratios(
    before: ItemSums, after: ItemSums, rule: VerdictRule, clusters: IntArray | None, seed: int
) -> ChangeVerdict:
    """The change as a ratio; items without a positive value have no ratio and are left out."""
    is_positive = (before.means > 0) & (after.means > 0)
    if not is_positive.any():
        return without_change(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=len(is_positive))
    first, second = before.where(is_positive), after.where(is_positive)
    names = None if clusters is None else [str(index) for index in clusters[is_positive].tolist()]
    draws = draw_items(len(first.n), clusters=names, seed=seed)
    change = ratio_of_geometric_means(first.means, second.means, draws)
    interval = change.interval
    return _verdict(
        _ChangeEstimate(
            effect=change.ratio - 1,
            interval=interval and Interval(low=interval.low - 1, high=interval.high - 1),
            p=change.p,
            error=change.error,
            method="ratio of geometric means, Wilcoxon",
        ),
        rule,
        values=_RunValues(_geometric_mean(first.means), _geometric_mean(second.means)),
        unit=1.0,
        size=_sample_size(second, None if clusters is None else draws.units),
        variance=change_variance(_logarithms(first), _logarithms(second)),
    )


def _logarithms(items: ItemSums) -> ItemSums:
    """The logarithms of the items' means, with the noise of a trial relative to the mean.

    By the delta method the variance of log(x) is the variance of x divided by its squared mean.
    """
    logs = np.log(items.means)
    # NaN is an item with one trial, whose noise is unknown.
    variances = np.nan_to_num(items.trial_variances) / items.means**2
    squares = variances * np.maximum(items.n - 1, 0) + items.n * logs**2
    return ItemSums(n=items.n, total=items.n * logs, squares=squares)


def _fixed_items_interval(before: ItemSums, after: ItemSums) -> Interval | None:
    """The interval for exactly these items; None below three trials of each item.

    Only the noise between trials counts, not the sampling of items.
    """
    if min(before.n.min(), after.n.min()) < TRIALS_FOR_FIXED:
        return None
    noise = before.trial_variances / before.n + after.trial_variances / after.n
    error = math.sqrt(float(noise.sum())) / len(noise)
    # Each item of each run gives its number of trials less one for its own mean.
    degrees = float((before.n + after.n - 2).sum())
    return t_interval(float((after.means - before.means).mean()), error, degrees)


def _sample_size(items: ItemSums, clusters: IntArray | None) -> _SampleSize:
    cluster_count = None if clusters is None else int(clusters.max()) + 1
    return _SampleSize(len(items.n), float(items.n.mean()), cluster_count)


def _error(differences: FloatArray) -> float | None:
    return standard_error(differences) if len(differences) > 1 else None


def _geometric_mean(values: FloatArray) -> float:
    return math.exp(float(np.log(values).mean()))


def _select(names: Sequence[str], mask: Sequence[bool]) -> list[str]:
    return [name for name, is_selected in zip(names, mask, strict=True) if is_selected]
