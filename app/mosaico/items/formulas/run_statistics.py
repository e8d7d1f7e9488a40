"""The statistics of a run that formulas read, as sums over its items and as resamples.

Imports numpy; call it only in a process that computes.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaico.formula import Reference
from mosaico.formula.compile import CompiledFormula
from mosaico.formula.metric_statistics import passes_of, percentile_of
from mosaico.items.formulas.linearization import (
    FloatArray,
    ItemSumStatistic,
    columns_statistic,
    divide_sums,
    mean_statistic,
    without_rounding,
)
from mosaico.items.matrix import ItemMatrix, LabelCounts
from mosaico.metrics.aggregate import PASS_FUNCTIONS
from mosaico.metrics.registry import column_of, load_metrics, provider_for
from mosaico.metrics.types import CountedMetric, MetricRef
from mosaico.statistics.resampling import Draws, resampled_counts, resampled_statistic
from mosaico.statistics.trials import IntArray, ItemSums, reduce_trials, values_of_passes

Mask: TypeAlias = NDArray[np.bool_]
# These statistics include the items without a value.
OVER_ALL_ITEMS = frozenset({"n", "count", "coverage"})
# Statistics that depend on a single trace: no resample exceeds the observed values.
EXTREMES = frozenset({"min", "max"})


def reads_order_statistic(formula: CompiledFormula) -> bool:
    """Return whether a formula reads a statistic that jumps with single traces: it is no function of sums over items."""
    return any(
        ref.stat in EXTREMES or percentile_of(ref.stat) is not None for ref in formula.references
    )


class RunStatistics:
    """The items of a run. `count_metrics` are the metrics that are computed from label counts."""

    def __init__(self, matrix: ItemMatrix, count_metrics: Mapping[str, MetricRef]) -> None:
        self.matrix = matrix
        self.count_metrics = count_metrics
        self.item_index: IntArray = np.asarray(matrix.item_index, dtype=np.intp)
        self._masks: dict[str, Mask] = {}
        self._values: dict[str, FloatArray] = {}
        self._sums: dict[str, ItemSums] = {}

    @property
    def item_count(self) -> int:
        return len(self.matrix.items)

    def units(self) -> IntArray:
        """The cluster of each item, or the item itself."""
        if not self.matrix.clusters:
            return np.arange(self.item_count)
        return np.unique(np.asarray(self.matrix.clusters), return_inverse=True)[1].astype(np.intp)

    def values(self, column: str) -> FloatArray:
        """The values of a metric by trace, NaN where missing or infinite."""
        if column not in self._values:
            values = np.asarray(self.matrix.values[column])
            self._values[column] = np.where(np.isfinite(values), values, np.nan)
        return self._values[column]

    def item_sums(self, column: str) -> ItemSums:
        """The trials of a metric reduced to sums by item."""
        if column not in self._sums:
            self._sums[column] = reduce_trials(
                self.item_index, self.values(column), self.item_count
            )
        return self._sums[column]

    def by_run(self, ref: Reference) -> list[FloatArray]:
        """The mean or sum of each item in each run of the matrix, NaN without a value."""
        values, run_index = self.values(column_of(ref.key)), np.asarray(self.matrix.run_index)
        runs = [
            reduce_trials(
                self.item_index, np.where(run_index == run, values, np.nan), self.item_count
            )
            for run in range(self.matrix.runs)
        ]
        if ref.stat == "sum":
            return [np.where(sums.n > 0, sums.total, np.nan) for sums in runs]
        return [sums.means for sums in runs]

    def values_of_passes(self, ref: Reference) -> FloatArray | None:
        """The value of PASS_AT_K or PASS_POW_K of each item, NaN where it has too few trials; None for any other
        statistic. Of several runs it is the mean of theirs: trials of different runs differ by more than chance.
        """
        passes = passes_of(ref.stat)
        if passes is None:
            return None
        values, run_index = self.values(column_of(ref.key)), np.asarray(self.matrix.run_index)
        by_run = []
        for run in range(self.matrix.runs):
            selected = np.where(run_index == run, values, np.nan)
            sums = reduce_trials(self.item_index, selected, self.item_count)
            by_run.append(values_of_passes(PASS_FUNCTIONS[passes.function], sums, passes.k))
        stacked = np.stack(by_run)
        means = np.full(self.item_count, np.nan)
        counts = np.isfinite(stacked).sum(axis=0)
        np.divide(np.nansum(stacked, axis=0), counts, out=means, where=counts > 0)
        return means

    def has_value(self, ref: Reference) -> Mask:
        """Mask of the items with a value of a statistic."""
        passes = self.values_of_passes(ref)
        if passes is not None:
            return np.isfinite(passes)
        column = column_of(ref.key)
        if column not in self._masks:
            index = self.item_index[np.isfinite(self.values(column))]
            if column in self.count_metrics:
                # The label counts decide here: the value of the run is computed from them.
                index = np.asarray(self.matrix.counts[column].item_index, dtype=np.intp)
            self._masks[column] = np.bincount(index, minlength=self.item_count) > 0
        return self._masks[column]

    def is_counted(self, ref: Reference) -> bool:
        return ref.stat == "mean" and column_of(ref.key) in self.count_metrics

    def has_counts(self, ref: Reference) -> bool:
        """Return whether the label counts of a counted statistic are known."""
        return column_of(ref.key) in self.matrix.counts

    def statistic(
        self, ref: Reference, items: Mask, *, labels: "SharedLabels", center: float = 0.0
    ) -> ItemSumStatistic:
        """A statistic as a function of sums over the selected items.

        Counts and sums are those of one run, also when the matrix holds several. `center` is a
        number near the values, so that the sum of squares loses no digits. `labels` are those of
        all compared runs.
        """
        column = column_of(ref.key)
        if self.is_counted(ref):
            return self._counted(column, items, labels)
        values = self.values(column)
        if ref.stat == "mean" or passes_of(ref.stat):
            passes = self.values_of_passes(ref)
            means = self.item_sums(column).means if passes is None else passes
            return mean_statistic(np.where(items, means, np.nan))
        is_present = np.isfinite(values) & items[self.item_index]
        present, index = values[is_present], self.item_index[is_present]

        def by_item(weights: FloatArray | None, index: IntArray = index) -> FloatArray:
            return item_totals(weights, index, self.item_count) / self.matrix.runs

        match ref.stat:
            case "sum":
                return columns_statistic(
                    np.stack([by_item(present), by_item(None)], axis=1), _sum_if_any
                )
            case "n" | "count":
                return columns_statistic(by_item(None)[:, None], lambda sums: sums[:, 0])
            case "coverage":
                columns = [by_item(None), by_item(None, self.item_index)]
                return columns_statistic(np.stack(columns, axis=1), divide_sums)
            case "std":
                shifted = present - center
                columns = [by_item(None), by_item(shifted), by_item(shifted**2)]
                return columns_statistic(np.stack(columns, axis=1), _sample_deviation)
            case _:
                raise ValueError(f"the statistic {ref.stat!r} is not a function of sums over items")

    def rows(self, ref: Reference, items: Mask, draws: Draws) -> FloatArray:
        """The observed value of a statistic, and its value in every resample."""
        column = column_of(ref.key)
        if self.is_counted(ref):
            counts = self.matrix.counts[column]
            provider = self._provider(column)
            item_index = np.asarray(counts.item_index, dtype=np.intp)
            is_selected = items[item_index]
            return resampled_counts(
                np.array(counts.columns).T[is_selected],
                item_index[is_selected],
                np.asarray(counts.label_index, dtype=np.intp)[is_selected],
                draws,
                lambda labels, sums: provider.values_of_counts(
                    [counts.labels[index] for index in labels], sums
                ),
            )
        passes = self.values_of_passes(ref)
        if passes is not None:
            item_values = np.where(items, passes, np.nan)
            return resampled_statistic("mean", item_values, np.arange(self.item_count), draws)
        values = self.values(column)
        if ref.stat not in OVER_ALL_ITEMS:
            values = np.where(items[self.item_index], values, np.nan)
        return resampled_statistic(ref.stat, values, self.item_index, draws)

    def _provider(self, column: str) -> CountedMetric:
        load_metrics()
        provider = provider_for(self.count_metrics[column])
        assert isinstance(provider, CountedMetric)
        return provider

    def _counted(self, column: str, items: Mask, labels: "SharedLabels") -> ItemSumStatistic:
        """A statistic of label counts; its sums are those of each label's columns."""
        counts, provider = self.matrix.counts[column], self._provider(column)
        names, width = labels
        position = {label: index for index, label in enumerate(names)}
        item_index = np.asarray(counts.item_index, dtype=np.intp)
        is_selected = items[item_index]
        label_index = np.array([position[label] for label in counts.labels], dtype=np.intp)[
            np.asarray(counts.label_index, dtype=np.intp)
        ][is_selected]
        # A run without any value has no columns, whatever their number in another run.
        columns = np.array(counts.columns) if counts.columns else np.zeros((width, 0))
        entries = columns.T[is_selected] / self.matrix.runs
        sums = np.zeros((len(names), width))
        np.add.at(sums, label_index, entries)
        index = item_index[is_selected]

        def values(rows: FloatArray) -> FloatArray:
            tables = rows.reshape(len(rows), len(names), width)
            is_counted = tables.any(axis=(1, 2))
            if not is_counted.any():
                return np.full(len(rows), np.nan)
            return np.where(is_counted, provider.values_of_counts(names, tables), np.nan)

        def contributions(weights: FloatArray) -> FloatArray:
            terms = entries * weights.reshape(len(names), width)[label_index]
            totals, sizes = (
                item_totals(part.sum(axis=1), index, self.item_count)
                for part in (terms, np.abs(terms))
            )
            return without_rounding(totals, sizes)

        return ItemSumStatistic(sums.ravel(), values, contributions)


def item_totals(weights: FloatArray | None, index: IntArray, count: int) -> FloatArray:
    """The sum of the weights of each index from 0 to count; without weights their number."""
    return np.bincount(index, weights=weights, minlength=count).astype(np.float64)


class SharedLabels(NamedTuple):
    """The labels of all compared runs, each once, and the number of counts of a label."""

    names: list[str]
    width: int


def shared_labels(runs: Iterable[RunStatistics], column: str) -> SharedLabels:
    names, width = dict[str, None](), 0
    for run in runs:
        counts = run.matrix.counts.get(column, LabelCounts())
        names.update(dict.fromkeys(counts.labels))
        width = max(width, len(counts.columns))
    return SharedLabels(list(names), width)


def _sum_if_any(sums: FloatArray) -> FloatArray:
    return np.where(sums[:, 1] > 0, sums[:, 0], np.nan)


def _sample_deviation(sums: FloatArray) -> FloatArray:
    n, total, squares = sums.T
    with np.errstate(all="ignore"):
        variance = np.maximum(squares - total**2 / n, 0.0) / (n - 1)
        return np.where(n > 1, np.sqrt(variance), np.nan)


def pool_items(baseline: ItemMatrix, candidate: ItemMatrix) -> ItemMatrix:
    """The items of both runs in one matrix, first those of the baseline."""
    offset = len(baseline.items)
    return ItemMatrix(
        items=[*baseline.items, *candidate.items],
        item_index=array("l", [*baseline.item_index, *(i + offset for i in candidate.item_index)]),
        run_index=array("l", [0] * (len(baseline.item_index) + len(candidate.item_index))),
        values={
            name: array("d", [*values, *candidate.values[name]])
            for name, values in baseline.values.items()
            if name in candidate.values
        },
        counts={
            name: _pool_counts(counts, candidate.counts[name], offset)
            for name, counts in baseline.counts.items()
            if name in candidate.counts
        },
    )


def _pool_counts(first: LabelCounts, second: LabelCounts, offset: int) -> LabelCounts:
    labels = list(dict.fromkeys((*first.labels, *second.labels)))
    position = {label: index for index, label in enumerate(labels)}
    label_index = [position[first.labels[index]] for index in first.label_index]
    label_index += [position[second.labels[index]] for index in second.label_index]
    return LabelCounts(
        labels=labels,
        item_index=array("l", [*first.item_index, *(i + offset for i in second.item_index)]),
        label_index=array("l", label_index),
        columns=[
            array("d", [*first_column, *second_column])
            for first_column, second_column in zip(first.columns, second.columns, strict=True)
        ]
        # A run without any value has no columns.
        if first.columns and second.columns
        else first.columns or second.columns,
    )
