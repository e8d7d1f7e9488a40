"""A judgement from the values of two runs over the same items. Needs numpy."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.statistics.differences import (
    FLIPPED_ITEMS,
    cluster_flip_p,
    cluster_t_p,
    paired_t_p,
    sign_flip_p,
)
from app.statistics.intervals import Interval
from app.statistics.means import are_passes, clustered_error, standard_error, t_interval
from app.statistics.paired import compare_passes
from app.statistics.power import ChangeVariance, smallest_visible, trials_needed
from app.statistics.ratios import ratio_of_geometric_means
from app.statistics.repeats import FloatArray, IntArray, ItemSums
from app.statistics.resampling import (
    SEED,
    Draws,
    cluster_places,
    draw_items,
    resampled_error,
    resampled_interval,
    resampled_p,
)
from app.statistics.verdict import (
    FEW_CLUSTERS,
    TRIALS_FOR_FIXED,
    Judgement,
    Note,
    Remedy,
    Scale,
    Verdict,
    VerdictRule,
    no_judgement,
    settled,
)

_HALF_WIDTH = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change by one of the methods: `error` is the standard error of it."""

    effect: float
    interval: Interval | None
    p: float | None
    error: float | None
    method: str


class _Sides(NamedTuple):
    base: float
    value: float


class _Size(NamedTuple):
    items: int
    trials: float
    clusters: int | None


def judge(
    base: ItemSums,
    candidate: ItemSums,
    rule: VerdictRule,
    *,
    clusters: Sequence[str] | None = None,
    seed: int = SEED,
) -> Judgement:
    """The candidate beside the baseline, item by item: entry i of all arguments is the same item.

    Items without a value in either run are left out. `clusters` names the group of each item, where
    items of a group resemble each other. The same input and seed give the same bits.
    """
    both = (base.n > 0) & (candidate.n > 0)
    if not both.any():
        return no_judgement(Verdict.INVALID, Note.NO_ITEMS)
    before, after = base.where(both), candidate.where(both)
    places = None if clusters is None else cluster_places(_kept(clusters, both.tolist()))
    if rule.scale is Scale.RATIO:
        return _judged_ratio(before, after, rule, places, seed)
    sides = _Sides(float(before.means.mean()), float(after.means.mean()))
    return _told(
        _change(before, after, places, seed),
        rule,
        sides=sides,
        unit=1.0 if rule.scale is Scale.RATE else abs(sides.base),
        size=_size(after, places),
        variance=change_variance(before, after),
        fixed=_fixed(before, after),
    )


def change_variance(base: ItemSums, candidate: ItemSums) -> ChangeVariance:
    """The variance of the items' changes between two runs of the same items, all with a value."""
    within = base.within + candidate.within
    changes = candidate.means - base.means
    seen = float(changes.var(ddof=1)) if len(changes) > 1 else 0.0
    if not np.isfinite(within).any():
        return ChangeVariance(seen, None)
    known = np.isfinite(within)
    noise = (base.within / base.n + candidate.within / candidate.n)[known]
    return ChangeVariance(max(0.0, seen - float(noise.mean())), float(within[known].mean()))


def judge_resampled(
    base: FloatArray,
    candidate: FloatArray,
    rule: VerdictRule,
    draws: Draws,
    *,
    trials: float = 1.0,
    notes: Iterable[Note] = (),
    among: NDArray[np.bool_] | None = None,
) -> Judgement:
    """A KPI beside itself in the baseline, from its values in the same draws of both runs.

    Row 0 of each is the value as seen. `trials` is the mean number of trials an item, `notes` what
    the formula had to say (TIE, CLIFF, EXTREME), `among` the items that have what it reads.
    Resamples never go beyond the largest value that was seen, and call one such difference in nine a
    change: no p nor interval is made of an EXTREME.
    """
    items, units, clusters = draws.among(among)
    told = tuple(notes)
    if not (np.isfinite(base[0]) and np.isfinite(candidate[0])):
        return no_judgement(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=items)
    level, seen = float(base[0]), float(candidate[0])
    rows, as_ratio = candidate - base, rule.scale is Scale.RATIO and level > 0
    if as_ratio:
        with np.errstate(all="ignore"):
            rows = np.where(base > 0, candidate / base - 1, np.nan)
    if Note.EXTREME in told:
        rows = np.where(np.arange(len(rows)) == 0, rows, np.nan)
    interval, error = resampled_interval(rows, units), resampled_error(rows, units)
    known = np.isfinite(rows).all() or Note.EXTREME in told
    sometimes = () if known else (Note.UNDEFINED_SOMETIMES,)
    return _told(
        _Change(
            effect=float(rows[0]),
            interval=interval,
            p=None if Note.EXTREME in told else resampled_p(rows, units),
            error=error,
            method="paired bootstrap",
        ),
        rule,
        sides=_Sides(level, seen),
        unit=1.0 if rule.scale is Scale.RATE or as_ratio else abs(level),
        size=_Size(items, trials, clusters),
        variance=None if error is None else ChangeVariance(error**2 * items, None, trials),
        notes=(*told, *sometimes),
    )


def _told(
    change: _Change,
    rule: VerdictRule,
    *,
    sides: _Sides,
    unit: float,
    size: _Size,
    variance: ChangeVariance | None,
    fixed: Interval | None = None,
    notes: Sequence[Note] = (),
) -> Judgement:
    """The judgement that a change amounts to."""
    interval, visible = change.interval, _visible(change)
    degenerate = interval is not None and interval.low == interval.high
    few = size.clusters is not None and size.clusters < FEW_CLUSTERS
    told = (Note.DEGENERATE,) * degenerate + (Note.FEW_CLUSTERS,) * few
    return settled(
        Judgement(
            verdict=Verdict.INCONCLUSIVE,
            effect=change.effect,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            p=change.p,
            p_adjusted=change.p,
            mde=visible,
            n_items=size.items,
            trials=size.trials,
            method=change.method,
            base=sides.base,
            value=sides.value,
            min_effect=rule.min_effect * unit,
            margin=rule.margin * unit,
            side=rule.side,
            alpha=rule.alpha,
            fixed=fixed,
            clusters=size.clusters,
            remedy=_remedy(visible, rule.margin * unit, variance, size),
            notes=(*notes, *told),
        )
    )


def _visible(change: _Change) -> float | None:
    """The smallest visible change; where no item changed, what the interval leaves possible."""
    if change.error:
        return smallest_visible(change.error)
    if change.interval is None or change.interval.low == change.interval.high:
        return None
    return smallest_visible((change.interval.high - change.interval.low) / 2 / _HALF_WIDTH)


def _remedy(
    visible: float | None, margin: float, variance: ChangeVariance | None, size: _Size
) -> Remedy | None:
    """What brings the visible change under the margin; as clusters see it, where there are any."""
    if visible is None or visible <= margin or variance is None:
        return None
    trials = max(1, round(size.trials))
    seen = smallest_visible(math.sqrt(variance.of(trials) / size.items))
    wanted = trials_needed(
        variance, items=size.items, change=margin * seen / visible if seen else margin
    )
    if wanted is None or wanted.more_trials is None:
        return wanted
    return wanted._replace(more_trials=max(1, wanted.more_trials - trials))


def _change(
    before: ItemSums,
    after: ItemSums,
    places: IntArray | None,
    seed: int,
) -> _Change:
    differences = after.means - before.means
    if places is not None:
        return _of_clusters(differences, places, seed)
    if are_passes(before, after):
        return _of_passes(before, after, differences)
    return _of_means(differences, seed)


def _of_passes(before: ItemSums, after: ItemSums, differences: FloatArray) -> _Change:
    found = compare_passes((before.total == 1).tolist(), (after.total == 1).tolist())
    return _Change(
        effect=found.difference,
        interval=found.interval,
        p=found.test.mid_p,
        error=_error(differences),
        method="McNemar mid-p",
    )


def _of_means(differences: FloatArray, seed: int) -> _Change:
    n, mean, error = len(differences), float(differences.mean()), _error(differences)
    flipped = n <= FLIPPED_ITEMS
    p = 1.0 if error is None else paired_t_p(differences)
    return _Change(
        effect=mean,
        interval=None if error is None else t_interval(mean, error, n - 1),
        p=sign_flip_p(differences, seed=seed) if flipped else p,
        error=error,
        method="sign-flip permutation" if flipped else "paired t",
    )


def _of_clusters(differences: FloatArray, places: IntArray, seed: int) -> _Change:
    mean, count = float(differences.mean()), int(places.max()) + 1
    if count == 1:
        return _Change(effect=mean, interval=None, p=1.0, error=None, method="one cluster")
    few = count < FEW_CLUSTERS
    flipped = cluster_flip_p(differences, places, seed=seed) if few else None
    error = clustered_error(differences, places)
    return _Change(
        effect=mean,
        interval=t_interval(mean, error, count - 1),
        p=cluster_t_p(differences, places) if flipped is None else flipped,
        error=error,
        method="sign-flip of clusters" if few else "cluster t",
    )


def _judged_ratio(
    before: ItemSums, after: ItemSums, rule: VerdictRule, places: IntArray | None, seed: int
) -> Judgement:
    """Items with a value that is not positive have no ratio, and are left out."""
    positive = (before.means > 0) & (after.means > 0)
    if not positive.any():
        return no_judgement(Verdict.INCONCLUSIVE, Note.UNDEFINED, n_items=len(positive))
    first, second = before.where(positive), after.where(positive)
    groups = None if places is None else [str(place) for place in places[positive].tolist()]
    draws = draw_items(len(first.n), clusters=groups, seed=seed)
    found = ratio_of_geometric_means(first.means, second.means, draws)
    interval = found.interval
    return _told(
        _Change(
            effect=found.ratio - 1,
            interval=interval and Interval(low=interval.low - 1, high=interval.high - 1),
            p=found.p,
            error=found.error,
            method="ratio of geometric means, Wilcoxon",
        ),
        rule,
        sides=_Sides(_geometric_mean(first.means), _geometric_mean(second.means)),
        unit=1.0,
        size=_size(second, None if places is None else draws.units),
        variance=change_variance(_of_logs(first), _of_logs(second)),
    )


def _of_logs(items: ItemSums) -> ItemSums:
    """The same as logarithms: the noise of a trial as a share of the item's mean."""
    logs, deviations = np.log(items.means), np.nan_to_num(items.within) / items.means**2
    squares = deviations * np.maximum(items.n - 1, 0) + items.n * logs**2
    return ItemSums(n=items.n, total=items.n * logs, squares=squares)


def _fixed(before: ItemSums, after: ItemSums) -> Interval | None:
    """The interval for these very items; None below three trials of each."""
    if min(before.n.min(), after.n.min()) < TRIALS_FOR_FIXED:
        return None
    noise = before.within / before.n + after.within / after.n
    error = math.sqrt(float(noise.sum())) / len(noise)
    degrees = float((before.n + after.n - 2).sum())
    return t_interval(float((after.means - before.means).mean()), error, degrees)


def _size(items: ItemSums, places: IntArray | None) -> _Size:
    clusters = None if places is None else int(places.max()) + 1
    return _Size(len(items.n), float(items.n.mean()), clusters)


def _error(differences: FloatArray) -> float | None:
    return standard_error(differences) if len(differences) > 1 else None


def _geometric_mean(values: FloatArray) -> float:
    return math.exp(float(np.log(values).mean()))


def _kept(clusters: Sequence[str], kept: Sequence[bool]) -> list[str]:
    return [cluster for cluster, has in zip(clusters, kept, strict=True) if has]
