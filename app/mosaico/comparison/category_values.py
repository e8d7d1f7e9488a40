"""Values, intervals and changes of runs by category; a category is a tag `field:name` of items.

Imports numpy; call it only in a process that computes.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, TypeAlias

from mosaico.comparison.child_computation import compute, observed_values
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.comparison_spec import ComparisonResult, ComparisonSpec
from mosaico.comparison.comparison_verdicts import render_compared
from mosaico.comparison.schemas import (
    CategoryComparison,
    CategoryKpi,
    CategoryMetric,
    CategoryValues,
    KpiComparison,
    MetricComparison,
)
from mosaico.comparison.value_failures import describe_failure, log_failures
from mosaico.formula.ast import split_filter
from mosaico.items.matrix import ItemMatrix, ItemPairing, pair_items
from mosaico.kpis.verdict_types import RunVerdicts, SubjectKey
from mosaico.statistics.multiplicity import benjamini_hochberg

CATEGORY_FIELD: Final = "category"
MAX_CATEGORIES: Final = 50

# The items of each category by its name, in alphabetical order.
ItemsByCategory: TypeAlias = Mapping[str, AbstractSet[str]]


class CategorySelection(NamedTuple):
    """The categories that are computed together, and the number of those after them."""

    categories: ItemsByCategory
    left_out: int

    @property
    def last(self) -> str | None:
        """The last category, if others follow."""
        return [*self.categories][-1] if self.left_out else None


def select_categories(
    categories: ItemsByCategory, after: str | None, limit: int = MAX_CATEGORIES
) -> CategorySelection:
    """The first categories after the name `after`: at most `limit`, and at most 50."""
    names = [name for name in categories if after is None or name > after]
    selected = names[: min(limit, MAX_CATEGORIES)]
    return CategorySelection(
        {name: categories[name] for name in selected}, len(names) - len(selected)
    )


def categories_of(
    features: Iterable[Mapping[str, AbstractSet[str]]], field: str
) -> ItemsByCategory:
    """All categories in the features of runs (`ItemAttributes.features`)."""
    prefix = f"tag:{field}:"
    categories: dict[str, set[str]] = {}
    for feature, items in (entry for run in features for entry in run.items()):
        if feature.startswith(prefix):
            categories.setdefault(feature.removeprefix(prefix), set()).update(items)
    return {name: categories[name] for name in sorted(categories)}


def values_by_category(
    run_id: str, comparison: RunComparison, run: ItemMatrix, categories: ItemsByCategory
) -> list[CategoryValues]:
    """The metrics and KPIs of a run over the items of each category, with 95 % intervals."""
    return [
        _category_values(run_id, name, comparison, _select(run, items))
        for name, items in categories.items()
    ]


def _category_values(
    run_id: str, name: str, comparison: RunComparison, run: ItemMatrix
) -> CategoryValues:
    spec = comparison.spec(run, None)
    observed, result = observed_values(spec), compute(spec)
    failures = {**observed.failures, **result.failures}
    log_failures(run_id, failures)

    def reason(key: SubjectKey, value_name: str) -> str | None:
        failure = failures.get(key)
        return describe_failure(value_name, failure) if failure else None

    intervals = {
        kpi: interval.interval
        for kpi, interval in result.kpi_intervals.items()
        if interval.interval is not None
    }
    names = {value.kpi.id: value.kpi.name for value in comparison.kpis}
    return CategoryValues(
        category=name,
        items=len(run.items),
        metrics=[
            CategoryMetric(
                metric=metric.column,
                value=observed.metrics.get(metric.column),
                interval_low=interval.low if interval else None,
                interval_high=interval.high if interval else None,
                reason=reason((metric.column, None), metric.column),
            )
            for metric in spec.metrics
            # A filtered metric is one of its own category only, where it equals the metric.
            if not split_filter(metric.column).tags
            and metric.column not in comparison.plan.added_columns
            for interval in [result.metric_intervals.get(metric.column)]
        ],
        kpis=[
            CategoryKpi(
                kpi_id=kpi.id,
                name=names[kpi.id],
                value=observed.kpis.get(kpi.id),
                interval_low=interval.low if interval else None,
                interval_high=interval.high if interval else None,
                reason=reason((None, kpi.id), names[kpi.id]),
            )
            for kpi in spec.kpis
            for interval in [intervals.get(kpi.id)]
        ],
    )


def changes_by_category(
    run_id: str,
    comparison: RunComparison,
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    categories: ItemsByCategory,
) -> list[CategoryComparison]:
    """The changes over the items of each category that both runs have.

    The p-values of each metric and of each KPI are adjusted for all its categories (Benjamini and
    Hochberg): one of twenty categories would otherwise regress by chance.
    """
    compared = [
        changes
        for name, items in categories.items()
        if (changes := _compare_category(name, comparison, baseline, candidate, items)) is not None
    ]
    comparisons = []
    for changes in _adjust(compared):
        verdicts = render_compared(comparison, changes.result, changes.pairing)
        log_failures(run_id, verdicts.failures)
        comparisons.append(_category_comparison(changes, verdicts, comparison))
    return comparisons


class _CategoryChanges(NamedTuple):
    """The computed changes of one category."""

    name: str
    pairing: ItemPairing
    spec: ComparisonSpec
    result: ComparisonResult


def _compare_category(
    name: str,
    comparison: RunComparison,
    baseline: ItemMatrix,
    candidate: ItemMatrix,
    items: AbstractSet[str],
) -> _CategoryChanges | None:
    """The changes of a category; None when one of the runs has no item of it."""
    before, after = _select(baseline, items), _select(candidate, items)
    if not before.items or not after.items:
        return None
    pairing = pair_items(before, after)
    spec = comparison.spec(after, pairing)
    return _CategoryChanges(name, pairing, spec, compute(spec))


def _adjust(compared: Sequence[_CategoryChanges]) -> list[_CategoryChanges]:
    """The changes with p-values, and so intervals, adjusted for the categories of each metric and KPI."""
    p_values = [
        {
            name: change.p
            for name, change in (*changes.result.metrics.items(), *changes.result.kpis.items())
            if change.p is not None
        }
        for changes in compared
    ]
    for name in dict.fromkeys(name for values in p_values for name in values):
        owners = [values for values in p_values if name in values]
        adjusted = benjamini_hochberg(values[name] for values in owners)
        for values, p_adjusted in zip(owners, adjusted, strict=True):
            values[name] = p_adjusted
    return [
        changes._replace(result=compute(changes.spec, values))
        for changes, values in zip(compared, p_values, strict=True)
    ]


def _category_comparison(
    changes: _CategoryChanges, verdicts: RunVerdicts, comparison: RunComparison
) -> CategoryComparison:
    return CategoryComparison(
        category=changes.name,
        items=len(changes.pairing.candidate.items),
        kpis=[
            KpiComparison.of(value.kpi, verdicts.kpis[value.kpi.id])
            for value in comparison.kpis
            if value.kpi.id in changes.result.kpis or (None, value.kpi.id) in verdicts.failures
        ],
        metrics=[
            MetricComparison(metric=column, verdict=verdicts.metrics[column])
            for column in verdicts.metrics
            if column in changes.result.metrics or (column, None) in verdicts.failures
            if not split_filter(column).tags and column not in comparison.plan.added_columns
        ],
    )


def _select(matrix: ItemMatrix, items: AbstractSet[str]) -> ItemMatrix:
    return matrix.take([index for index, item in enumerate(matrix.items) if item in items])
