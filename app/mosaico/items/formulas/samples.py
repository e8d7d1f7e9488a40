"""The change of a formula between two runs of different items. Imports numpy."""

import math
from typing import NamedTuple

import numpy as np

from mosaico.formula import CompiledFormula
from mosaico.formula.ast import Arithmetic, Expr, Metric, Number, walk
from mosaico.items.formulas.linearization import FloatArray, LinearChange
from mosaico.items.formulas.properties import ValueRange
from mosaico.items.formulas.run_statistics import Mask, RunStatistics
from mosaico.metrics.registry import column_of
from mosaico.statistics.change import ChangeTest, UnitInfluences, unpaired_change_test
from mosaico.statistics.trials import IntArray, ItemSums
from mosaico.statistics.two_samples import (
    SampledShare,
    item_logarithms,
    share_change_test,
)


class SampleChange(NamedTuple):
    """The test of a change between two samples; `is_typical`: it is that of a typical item, and not of the mean."""

    test: ChangeTest
    is_typical: bool = False


class SamplePair(NamedTuple):
    """Two runs of different items."""

    baseline: RunStatistics
    candidate: RunStatistics

    def units(self) -> tuple[IntArray, IntArray]:
        return self.baseline.units(), self.candidate.units()


def sample_change(
    runs: SamplePair, formula: CompiledFormula, linear: LinearChange, limits: ValueRange
) -> SampleChange:
    """The test: of costs and times by the logarithms of the items, of a value between two limits by Newcombe's
    interval, of any other one by Welch's t.
    """
    if linear.is_logarithm and (typical := _typical_change(runs, formula, linear)):
        return SampleChange(typical, is_typical=True)
    if not linear.is_logarithm and (shares := _share_change(runs, formula, linear, limits)):
        return SampleChange(shares)
    return SampleChange(_welch(runs, linear, limits))


def _typical_change(
    runs: SamplePair, formula: CompiledFormula, linear: LinearChange
) -> ChangeTest | None:
    """The change where the mean of the items' logarithms stands for the logarithm of their mean: of a mean of a metric,
    also one that is divided by something else, such as a cost per pass; None of any other formula.
    """
    amount = _amount_of(formula.root)
    sums = None if amount is None else _item_sums(runs, amount)
    if sums is None or _is_read_again(formula, amount) or all(run.are_binary for run in sums):
        return None
    has_value = [run.n > 0 for run in sums]
    means = [run.means[mask] for run, mask in zip(sums, has_value, strict=True)]
    logarithms = item_logarithms(means[0], means[1])
    if logarithms is None:
        return None
    effect, units = linear.effect, []
    for index, (own, sign) in enumerate(
        ((linear.baseline_influences, -1), (linear.candidate_influences, 1))
    ):
        values, logs, mask = means[index], logarithms[index], has_value[index]
        mean, typical = float(values.mean()), float(logs.mean())
        effect += sign * (typical - math.log(mean))
        influences = own.copy()
        influences[mask] += (logs - typical - (values - mean) / mean) / len(logs)
        is_read = _reads(runs[index], formula)
        units.append(_units_of(influences[is_read], runs.units()[index][is_read]))
    return unpaired_change_test(effect, units[0], units[1])


def _amount_of(node: Expr) -> Metric | None:
    """The mean of a metric that a formula multiplies with a number, or divides by something; None of any other one."""
    match node:
        case Metric(reference=reference) if reference.stat == "mean":
            return node
        case Arithmetic(operator="/", left=left):
            return _amount_of(left)
        case Arithmetic(operator="*", left=Number(), right=right):
            return _amount_of(right)
        case Arithmetic(operator="*", left=left, right=Number()):
            return _amount_of(left)
        case _:
            return None


def _is_read_again(formula: CompiledFormula, amount: Metric | None) -> bool:
    """Whether the formula reads the metric elsewhere, too, so that it is no multiple of it."""
    nodes = [node for node, _ in walk(formula.root) if isinstance(node, Metric)]
    return amount is not None and [node.reference for node in nodes].count(amount.reference) > 1


def _reads(run: RunStatistics, formula: CompiledFormula) -> Mask:
    """The items with a value of any metric of the formula."""
    masks = [run.has_value(ref) for ref in formula.references]
    is_read: Mask = np.logical_or.reduce(masks)
    return is_read


def _share_change(
    runs: SamplePair, formula: CompiledFormula, linear: LinearChange, limits: ValueRange
) -> ChangeTest | None:
    """The change of a value between two limits; None without both limits."""
    minimum, width = limits.minimum, limits.width
    if minimum is None or not width or not math.isfinite(width):
        return None
    sums = _item_sums(runs, formula.root)
    shares = []
    for index, (value, influences) in enumerate(
        (
            (linear.baseline, linear.baseline_influences),
            (linear.candidate, linear.candidate_influences),
        )
    ):
        own = sums and sums[index]
        has_value = own.n > 0 if own else np.ones(len(influences), dtype=np.bool_)
        shares.append(
            SampledShare.of(
                min(max((value - minimum) / width, 0.0), 1.0),
                _units_of(influences[has_value] / width, runs.units()[index][has_value]),
                int(own.n.sum()) if own and own.are_binary else None,
            )
        )
    return share_change_test(shares[0], shares[1], width=width)


def _welch(runs: SamplePair, linear: LinearChange, limits: ValueRange) -> ChangeTest:
    """Welch's t of what the items contribute to the change."""
    units = runs.units()
    tests = (
        unpaired_change_test(
            linear.effect,
            UnitInfluences.of_items(first, units[0]),
            UnitInfluences.of_items(second, units[1]),
            width=None if linear.is_logarithm else limits.width,
        )
        # A run with large outliers hides them with the gradient at its own mean.
        for first, second in (
            (linear.baseline_influences, linear.candidate_influences),
            (linear.changes, linear.influences),
        )
    )
    return max(tests, key=lambda test: test.p)


def _item_sums(runs: SamplePair, root: Expr) -> tuple[ItemSums, ItemSums] | None:
    """The values by item of both runs; None of any other formula than the mean of a metric over items."""
    if not isinstance(root, Metric) or root.reference.stat != "mean":
        return None
    if any(run.is_counted(root.reference) for run in runs):
        return None
    column = column_of(root.reference.key)
    return runs.baseline.item_sums(column), runs.candidate.item_sums(column)


def _units_of(influences: FloatArray, units: IntArray) -> UnitInfluences:
    return UnitInfluences.of_items(influences, _renumbered(units))


def _renumbered(units: IntArray) -> IntArray:
    """The units from 0 without gaps."""
    return np.unique(units, return_inverse=True)[1].astype(np.intp)
