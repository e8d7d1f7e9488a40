"""A KPI of a run as a mean over its items: its value, and what each item contributes to it.

A KPI is a function of sums over the items. Its change by one item is, to first order, the gradient
of that function times what the item adds to the sums (the influence of the item). These numbers
have the KPI as their mean, so that every test of a mean can test a KPI of any smooth formula.

Imports numpy; call it only in a process that computes.
Source: Efron 1982, "The jackknife, the bootstrap and other resampling plans", chapter 6
(infinitesimal jackknife).
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.formula import CompiledFormula, Reference

FloatArray: TypeAlias = NDArray[np.float64]

# The step of the central differences, as a fraction of the input: its square is the error of the
# derivative of a smooth function, and rounding adds 1e-16 / step.
STEP = 1e-5


class ItemComponents(NamedTuple):
    """A statistic of a run as a function of sums over its items.

    `columns` of shape (items, k) are what each item adds to the k sums. `value_of` maps sums of
    shape (rows, k) to one value per row, NaN where the statistic has none.
    """

    columns: FloatArray
    value_of: Callable[[FloatArray], FloatArray]

    @property
    def sums(self) -> FloatArray:
        """The sums over all items, of shape (k,)."""
        sums: FloatArray = self.columns.sum(axis=0)
        return sums


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
    the KPI has no value or no gradient, and for references that are no means over items.
    """
    components = {ref: mean_components(means) for ref, means in item_means.items()}
    if any(ref.stat != "mean" or ref not in components for ref in formula.references):
        return None
    point = {ref: components[ref].sums for ref in formula.references}
    value = value_at(formula, components, point)
    influence = gradient_sums(formula, components, point, components)
    if value is None or influence is None:
        return None
    return LinearizedKpi(value, value + len(influence) * (influence - influence.mean()))


def mean_components(item_means: FloatArray) -> ItemComponents:
    """The mean over the items that have a value; NaN is an item without one."""
    has_value = np.isfinite(item_means)
    columns = np.stack([np.where(has_value, item_means, 0.0), has_value], axis=1)
    return ItemComponents(columns.astype(np.float64), _ratio)


def value_at(
    formula: CompiledFormula,
    components: Mapping[Reference, ItemComponents],
    sums: Mapping[Reference, FloatArray],
) -> float | None:
    """The value of a formula for given sums; None when it is undefined."""
    return _evaluate(formula, _inputs(components, sums))


def gradient_sums(
    formula: CompiledFormula,
    components: Mapping[Reference, ItemComponents],
    point: Mapping[Reference, FloatArray],
    columns: Mapping[Reference, ItemComponents],
) -> FloatArray | None:
    """The gradient of a formula at the sums `point`, times the columns of each item.

    One number per item, whose sum is the change of the formula, to first order, when the columns
    are added to the sums. None when the gradient is undefined.
    """
    inputs = _inputs(components, point)
    total: FloatArray | None = None
    for ref in formula.references:
        slope = _slope(formula, inputs, ref)
        if slope is None:
            return None
        if slope == 0.0:
            # A metric that does not decide the value must not spoil it with an undefined gradient.
            term = np.zeros(len(columns[ref].columns))
        else:
            term = slope * (columns[ref].columns @ _statistic_gradient(components[ref], point[ref]))
        total = term if total is None else total + term
    return total if total is None or np.isfinite(total).all() else None


def _inputs(
    components: Mapping[Reference, ItemComponents], sums: Mapping[Reference, FloatArray]
) -> dict[Reference, float | None]:
    values = {ref: float(components[ref].value_of(row[None, :])[0]) for ref, row in sums.items()}
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
    step = STEP * (abs(value) or 1.0)
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


def _statistic_gradient(statistic: ItemComponents, sums: FloatArray) -> FloatArray:
    """The derivatives of a statistic by its sums, of shape (k,)."""
    steps = STEP * np.where(sums == 0.0, 1.0, np.abs(sums))
    gradient = np.empty(len(sums))
    for start in range(0, len(sums), _ROWS):
        index = np.arange(start, min(start + _ROWS, len(sums)))
        rows = np.repeat(sums[None, :], 2 * len(index), axis=0)
        rows[np.arange(len(index)), index] += steps[index]
        rows[len(index) + np.arange(len(index)), index] -= steps[index]
        high, low = np.split(statistic.value_of(rows), 2)
        gradient[index] = (high - low) / (2 * steps[index])
    return gradient


# Rows of a block of sums: with thousands of labels all rows at once would take gigabytes.
_ROWS = 256


def _ratio(sums: FloatArray) -> FloatArray:
    """The first sum divided by the second; NaN where that is not positive."""
    is_positive = sums[:, 1] > 0
    return np.where(is_positive, sums[:, 0] / np.where(is_positive, sums[:, 1], 1.0), np.nan)
