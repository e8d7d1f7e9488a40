"""A KPI of a run as a mean over its items: its value, and what each item contributes to it.

A KPI is a function of sums over the items. Its change by one item is, to first order, the gradient
of that function times what the item adds to the sums (the influence of the item). These numbers
have the KPI as their mean, so that every test of a mean can test a KPI of any smooth formula.

Imports numpy; call it only in a process that computes.
Source: Efron 1982, "The jackknife, the bootstrap and other resampling plans", chapter 6
(infinitesimal jackknife).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.formula import CompiledFormula, Reference

FloatArray: TypeAlias = NDArray[np.float64]
Gradient: TypeAlias = Mapping[Reference, FloatArray]

# The step of the central differences, as a fraction of the input: its square is the error of the
# derivative of a smooth function, and rounding adds 1e-16 / step.
STEP = 1e-5
# The step of a smaller input would be 0, or its square.
NEGLIGIBLE = 1e-150
# Terms that cancel but for this fraction of their size are equal: the derivatives are differences,
# whose error is about STEP**2.
ROUNDING = 1e-9
# The same for exact derivatives, where only the sums are rounded.
EXACT_ROUNDING = 1e-12
# Rows of a block of sums: with thousands of labels all rows at once would take gigabytes.
_ROWS = 256


class ItemSumStatistic(NamedTuple):
    """A statistic of a run as a function of k sums over its items.

    `value_of` maps sums of shape (rows, k) to one value per row, NaN where the statistic has none.
    `contributions` maps k weights to one number per item: the weighted sum of what it adds.
    """

    sums: FloatArray
    value_of: Callable[[FloatArray], FloatArray]
    contributions: Callable[[FloatArray], FloatArray]


class LinearizedKpi(NamedTuple):
    """The value of a KPI and one number per item, of shape (items,), whose mean is the value."""

    value: float
    item_values: FloatArray


def linearize(
    formula: CompiledFormula, item_means: Mapping[Reference, FloatArray]
) -> LinearizedKpi | None:
    """A KPI of one run from the means of its metrics by item.

    `item_means` has an array of shape (items,) for each reference of the formula, all in the order
    of the same items; NaN is an item without a value, which is left out of that metric. None when
    the KPI has no value or no gradient, and for references that are not means over items.
    """
    if any(ref.stat != "mean" or ref not in item_means for ref in formula.references):
        return None
    statistics = {ref: mean_statistic(item_means[ref]) for ref in formula.references}
    sums = sums_of(statistics)
    value, gradient = value_at(formula, statistics, sums), gradient_at(formula, statistics, sums)
    if value is None or gradient is None:
        return None
    influences = influences_of(statistics, gradient)
    return LinearizedKpi(value, value + len(influences) * influences)


def mean_statistic(item_means: FloatArray) -> ItemSumStatistic:
    """The mean over the items that have a value; NaN is an item without one."""
    has_value = np.isfinite(item_means)
    return columns_statistic(
        np.stack([np.where(has_value, item_means, 0.0), has_value], axis=1).astype(np.float64),
        divide_sums,
    )


def columns_statistic(
    columns: FloatArray, value_of: Callable[[FloatArray], FloatArray]
) -> ItemSumStatistic:
    """A statistic of sums; `columns` of shape (items, k) are what each item adds to them."""
    rounding = EXACT_ROUNDING if value_of is divide_sums else ROUNDING

    def contributions(weights: FloatArray) -> FloatArray:
        return without_rounding(columns @ weights, np.abs(columns) @ np.abs(weights), rounding)

    return ItemSumStatistic(columns.sum(axis=0), value_of, contributions)


def without_rounding(
    totals: FloatArray, sizes: FloatArray | float, rounding: float = ROUNDING
) -> FloatArray:
    """The totals, 0 where their terms, of these sizes, cancel but for rounding.

    Otherwise items that are all alike would seem to differ, by 1e-17, and nothing be certain about
    others: the spread of the items would not be 0 but almost 0.
    """
    limits = rounding * sizes
    cleaned: FloatArray = np.where((np.abs(totals) <= limits) & np.isfinite(limits), 0.0, totals)
    return cleaned


def divide_sums(sums: FloatArray) -> FloatArray:
    """The first sum divided by the second; NaN where that is not positive."""
    is_positive = sums[:, 1] > 0
    return np.where(is_positive, sums[:, 0] / np.where(is_positive, sums[:, 1], 1.0), np.nan)


def sums_of(statistics: Mapping[Reference, ItemSumStatistic]) -> dict[Reference, FloatArray]:
    """The observed sums of each statistic."""
    return {ref: statistic.sums for ref, statistic in statistics.items()}


def value_at(
    formula: CompiledFormula,
    statistics: Mapping[Reference, ItemSumStatistic],
    sums: Mapping[Reference, FloatArray],
) -> float | None:
    """The value of a formula for given sums; None when it is undefined."""
    return _evaluate(formula, _inputs(statistics, sums))


def gradient_at(
    formula: CompiledFormula,
    statistics: Mapping[Reference, ItemSumStatistic],
    sums: Mapping[Reference, FloatArray],
) -> Gradient | None:
    """The derivatives of a formula by the sums of each statistic; None when one is undefined."""
    inputs = _inputs(statistics, sums)
    gradient = {}
    for ref in formula.references:
        slope = _slope(formula, inputs, ref)
        if slope is None:
            return None
        # A metric that does not decide the value must not spoil it with an undefined gradient.
        gradient[ref] = (
            slope * _statistic_gradient(statistics[ref], sums[ref])
            if slope
            else np.zeros(len(sums[ref]))
        )
        if not np.isfinite(gradient[ref]).all():
            return None
    return gradient


def contributions_of(
    statistics: Mapping[Reference, ItemSumStatistic], gradient: Gradient
) -> FloatArray:
    """Return the contribution of each item to a formula with this gradient, of shape (items,)."""
    terms = [statistics[ref].contributions(weights) for ref, weights in gradient.items()]
    contributions: FloatArray = np.sum(terms, axis=0)
    # A single term is exact but for a common factor.
    return (
        without_rounding(contributions, np.abs(terms).sum(axis=0)) if terms[1:] else contributions
    )


def influences_of(
    statistics: Mapping[Reference, ItemSumStatistic], gradient: Gradient
) -> FloatArray:
    """The contributions of the items relative to their mean; they add up to 0."""
    contributions = contributions_of(statistics, gradient)
    centered: FloatArray = contributions - contributions.mean()
    return without_rounding(centered, np.abs(contributions).max(initial=0.0), EXACT_ROUNDING)


def mean_of_sums(
    first: Mapping[Reference, ItemSumStatistic], second: Mapping[Reference, ItemSumStatistic]
) -> dict[Reference, FloatArray]:
    """The sums half way between two runs."""
    return {ref: (first[ref].sums + second[ref].sums) / 2 for ref in first}


def slopes_of_means(gradient: Gradient, references: Sequence[Reference]) -> dict[str, float] | None:
    """The derivative of a formula by the sum of the item means of each metric, by its key.

    None when the formula reads anything but means over items: then a single trace has no share in
    the value.
    """
    if any(ref.stat != "mean" or len(gradient[ref]) != 2 for ref in references):  # noqa: PLR2004
        return None
    return {ref.key: float(gradient[ref][0]) for ref in references}


def _inputs(
    statistics: Mapping[Reference, ItemSumStatistic], sums: Mapping[Reference, FloatArray]
) -> dict[Reference, float | None]:
    values = {ref: float(statistics[ref].value_of(row[None, :])[0]) for ref, row in sums.items()}
    return {ref: value if math.isfinite(value) else None for ref, value in values.items()}


def _evaluate(formula: CompiledFormula, inputs: Mapping[Reference, float | None]) -> float | None:
    value = formula.evaluate(inputs).value
    return None if value is None or not math.isfinite(value) else value


def _slope(
    formula: CompiledFormula, inputs: Mapping[Reference, float | None], ref: Reference
) -> float | None:
    """The derivative of a formula by one input; 0 for an input that is missing."""
    value = inputs[ref]
    if value is None:
        return 0.0
    step = STEP * (abs(value) if abs(value) > NEGLIGIBLE else 1.0)
    # At the end of a domain, such as the logarithm of 0, only one of the sides is defined.
    points = [
        (shifted, result)
        for shifted in (value - step, value, value + step)
        if (result := _evaluate(formula, {**inputs, ref: shifted})) is not None
    ]
    if len(points) < 2:  # noqa: PLR2004 - a difference
        return None
    (first, low), (last, high) = points[0], points[-1]
    return (high - low) / (last - first)


def _statistic_gradient(statistic: ItemSumStatistic, sums: FloatArray) -> FloatArray:
    """The derivatives of a statistic by its sums, of shape (k,)."""
    if statistic.value_of is divide_sums:
        # The most frequent statistic without the rounding of differences.
        exact: FloatArray = np.array([1.0, -sums[0] / sums[1]]) / sums[1]
        return exact
    steps = STEP * np.where(np.abs(sums) > NEGLIGIBLE, np.abs(sums), 1.0)
    gradient = np.empty(len(sums))
    for start in range(0, len(sums), _ROWS):
        index = np.arange(start, min(start + _ROWS, len(sums)))
        rows = np.repeat(sums[None, :], 2 * len(index), axis=0)
        rows[np.arange(len(index)), index] += steps[index]
        rows[len(index) + np.arange(len(index)), index] -= steps[index]
        high, low = np.split(statistic.value_of(rows), 2)
        gradient[index] = (high - low) / (2 * steps[index])
    return gradient


def log_ratio(value: float, baseline: float) -> float:
    """The logarithm of a ratio of positive numbers, also where the ratio itself is beyond a float."""
    ratio = value / baseline
    if 0 < ratio < math.inf:
        return math.log(ratio)
    return math.log(value) - math.log(baseline)


class LinearChange(NamedTuple):
    """A change with the contributions of the items, of shape (items of the formula,).

    `changes` add up to about the effect, `influences` (of the candidate minus of the baseline) to 0.
    For runs of different items these are the influences of baseline and candidate with the gradient
    between the runs.
    `gradient` is that between the runs, on the scale of the effect.
    """

    baseline: float
    candidate: float
    effect: float
    is_logarithm: bool
    changes: FloatArray
    influences: FloatArray
    baseline_influences: FloatArray
    candidate_influences: FloatArray
    gradient: Gradient


def mean_change(change: LinearChange, by_run: list[LinearChange]) -> LinearChange:
    """The mean of the changes from each baseline run; `change` is that from their mean."""
    if not by_run or any(other.is_logarithm is not change.is_logarithm for other in by_run):
        return change
    effect = math.fsum(other.effect for other in by_run) / len(by_run)
    own = np.mean([other.baseline_influences for other in by_run], axis=0)
    return change._replace(
        # On a logarithmic scale the geometric mean, so that the effect leads to the candidate.
        baseline=change.candidate * math.exp(-effect)
        if change.is_logarithm
        else change.candidate - effect,
        effect=effect,
        changes=np.mean([other.changes for other in by_run], axis=0),
        influences=change.candidate_influences - own,
        baseline_influences=own,
    )
