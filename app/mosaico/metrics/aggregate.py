"""Aggregates of a run: statistics of one metric, of which some values are missing."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mosaico.core.registry import suggest_names
from mosaico.core.text import count_noun
from mosaico.formula.metric_statistics import passes_of, percentile_of
from mosaico.metrics.types import (
    InvalidMetricReference,
    MetricFailed,
    MetricSkipReason,
    Missing,
    TraceMeasurements,
)
from mosaico.statistics.passes import (
    ItemsByCounts,
    PassCounts,
    PassFunction,
    mean_over_counts,
    pass_at_k,
    pass_hat_k,
)

PASS_FUNCTIONS: Final[Mapping[str, PassFunction]] = {
    "PASS_AT_K": pass_at_k,
    "PASS_POW_K": pass_hat_k,
}
STATISTICS: Final = (
    "mean", "n", "std", "min", "max", "p50", "p95", "p99", "sum", "count", "coverage",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """The statistics of one metric over a run.

    `mean` is the mean over the items: the trials of an item are averaged first, so that an item
    with more trials, or with more values, has no greater weight. When a metric defines a value of
    the whole run, `mean` is that value. The other statistics are over the traces: `n` and `count`
    are the number of values, `coverage` is their share of all traces; `std` is the sample standard
    deviation (n - 1), None for fewer than two values; percentiles interpolate linearly between the
    order statistics (Hyndman and Fan 1996, definition 7; the default of numpy). Without any value
    all but n, count and coverage are None; without any trace coverage is None, too. `missing`
    counts the reasons, such as `NO_OUTPUT` or `RAISED`; `expected` is the number of traces that the
    metric is about: those with the tags of its filter to which it is applicable. `percentiles` are p1 to
    p99, and `passes` the numbers of items by their trials and passes, None where a value is not 0 or 1;
    an aggregate that an earlier version stored has neither.
    """

    mean: float | None
    n: int
    std: float | None
    min: float | None
    max: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    sum: float | None
    count: int
    coverage: float | None
    missing: Mapping[str, int]
    expected: int
    percentiles: tuple[float, ...] = field(default=(), repr=False)
    passes: ItemsByCounts | None = field(default=None, repr=False)

    @property
    def not_applicable(self) -> int:
        """The number of traces with an expected text that the metric cannot read."""
        return self.missing.get(MetricSkipReason.NOT_APPLICABLE, 0)

    def statistic(self, name: str) -> float | None:
        """One statistic by its name in formulas. Raises Invalid for an unknown name."""
        percent, passes = percentile_of(name), passes_of(name)
        if passes is not None:
            compute = PASS_FUNCTIONS[passes.function]
            return mean_over_counts(compute, self.passes, passes.k) if self.passes else None
        if percent is not None and self.percentiles:
            return self.percentiles[percent - 1]
        if percent is not None and name not in STATISTICS:
            return None
        if name not in STATISTICS:
            raise InvalidMetricReference(
                f"no statistic is named {name!r}.{suggest_names(name, list(STATISTICS))}"
                f" Known: {', '.join(STATISTICS)}."
            )
        value: float | None = getattr(self, name)
        return value

    def explain_missing(self, name: str) -> str | None:
        """Why a percentile, PASS_AT_K or PASS_POW_K has no value, and what to do; None where another reason says it."""
        passes = passes_of(name)
        if not self.n or name in STATISTICS or (passes is None and percentile_of(name) is None):
            return None
        if not self.percentiles:
            return "an earlier version computed the run and did not store it; run `mosaico runs rescore`"
        if passes is None:
            return None
        if self.passes is None:
            return "a value is not 0 or 1; use a metric that passes or fails, such as TASK_PASSED"
        most = max(counts.trials for counts in self.passes)
        return (
            f"no item has {count_noun(passes.k, 'trial')}, the most is {most}; run each item at least"
            f" {passes.k} times, or lower k"
        )

    def items_without(self, name: str) -> tuple[int, int]:
        """The items with fewer trials than PASS_AT_K or PASS_POW_K of this name needs, and all that have a value."""
        passes, items = passes_of(name), self.passes or {}
        fewer = (n for counts, n in items.items() if passes and counts.trials < passes.k)
        return sum(fewer), sum(items.values())

    def as_json(self) -> dict[str, float | None]:
        """The statistics by name."""
        return {name: self.statistic(name) for name in STATISTICS}


def aggregate(
    column: Sequence[float | None],
    *,
    expected: int | None = None,
    missing: Mapping[str, int] | None = None,
    items: Sequence[int | str] | None = None,
) -> Aggregate:
    """Statistics of finite values in any order, with None for a missing one.

    `expected` is the number of traces when the column holds the present values only. `items[i]`
    is the item of `column[i]`; without it every value has an item of its own.
    Sums are rounded once (Shewchuk 1997), so that the order of the values does not matter to the
    last bit. A sum beyond the range of a float is None, and so are the statistics based on it.
    """
    # Sorted also for the sums: the shards of a run arrive in any order, and the result must not
    # depend on it.
    values = sorted(value for value in column if value is not None)
    traces = len(column) if expected is None else expected
    n = len(values)
    total = _exact_sum(values) if n else None
    # The mean over the traces is needed for `std` in any case; below, `mean` may become that of the
    # items.
    mean = _mean(values, total)
    deviation = _sample_deviation(values, mean)
    if items is not None:
        mean = _mean_of_items(column, items)
    return Aggregate(
        mean=mean,
        n=n,
        std=deviation,
        min=values[0] if values else None,
        max=values[-1] if values else None,
        p50=percentile(values, 50),
        p95=percentile(values, 95),
        p99=percentile(values, 99),
        sum=total,
        count=n,
        coverage=n / traces if traces else None,
        missing=dict(missing or {}),
        expected=traces,
        percentiles=tuple(
            value for percent in range(1, 100) if (value := percentile(values, percent)) is not None
        ),
        passes=_count_passes(values, column, items),
    )


def aggregate_measured(
    column: Sequence[float | None],
    *,
    missing: Mapping[str, int] | None = None,
    items: Sequence[str] | None = None,
) -> Aggregate:
    """`aggregate` of one entry per trace. Traces that a filter does not select are not counted; those to which the
    metric is not applicable are counted as missing, outside of its coverage.
    """
    counted = dict(missing or {})
    outside = counted.pop(MetricSkipReason.NOT_SELECTED, 0)
    outside += counted.get(MetricSkipReason.NOT_APPLICABLE, 0)
    return aggregate(column, expected=len(column) - outside, missing=counted, items=items)


def with_run_value(statistics: Aggregate, value: float | MetricFailed | None) -> Aggregate:
    """The aggregate with the value of the run as mean; a failure counts as one missing value."""
    if not isinstance(value, MetricFailed):
        return replace(statistics, mean=value)
    kind = value.kind.value
    missing = {**statistics.missing, kind: statistics.missing.get(kind, 0) + 1}
    return replace(statistics, mean=None, missing=missing)


def missing_counts(rows: Iterable[TraceMeasurements], key: str) -> dict[str, int]:
    """The number of missing values of a metric by reason."""
    reasons = (row.missing.get(key) for row in rows)
    return dict(Counter(reason_name(reason) for reason in reasons if reason is not None))


def reason_name(missing: Missing) -> str:
    """The name of a reason in counts, reports and the database."""
    return (missing.kind if isinstance(missing, MetricFailed) else missing.reason).value


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """A percentile of an ascending sequence; None when it is empty."""
    if not ordered:
        return None
    position = (len(ordered) - 1) * (percent / 100)
    below = math.floor(position)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    between = position - below
    if math.isinf(high - low):
        return low * (1 - between) + high * between
    # Interpolate from the nearer end: a rounding error then cannot exceed either end.
    if between < 0.5:  # noqa: PLR2004
        return low + (high - low) * between
    return high - (high - low) * (1 - between)


def _exact_sum(values: Iterable[float]) -> float | None:
    try:
        return math.fsum(values)
    except OverflowError:
        return None


def _count_passes(
    ordered: Sequence[float], column: Sequence[float | None], items: Sequence[int | str] | None
) -> ItemsByCounts | None:
    """The number of items by trials and passes; None when a value is neither 0 nor 1."""
    passed = ordered.count(1.0)
    if passed + ordered.count(0.0) != len(ordered):
        return None
    if items is None:
        counts = {PassCounts(1, 0): len(ordered) - passed, PassCounts(1, 1): passed}
        return {key: count for key, count in counts.items() if count}
    trials, passes = Counter[int | str](), Counter[int | str]()
    for item, value in zip(items, column, strict=True):
        if value is not None:
            trials[item] += 1
            passes[item] += value == 1.0
    return Counter(PassCounts(trials[item], passes[item]) for item in trials)


def _mean_of_items(column: Sequence[float | None], items: Sequence[int | str]) -> float | None:
    """The mean over the items that have a value; None when the mean of one of them is beyond the range."""
    trials: dict[int | str, list[float]] = {}
    for item, value in zip(items, column, strict=True):
        if value is not None:
            trials.setdefault(item, []).append(value)
    means = [
        # Most items have one trial. Plus 0.0, as of a sum: the mean of -0.0 is 0.0.
        _mean(sorted(values), _exact_sum(values)) if len(values) > 1 else values[0] + 0.0
        for values in trials.values()
    ]
    present = sorted(mean for mean in means if mean is not None)
    if len(present) < len(means):
        return None
    return _mean(present, _exact_sum(present))


def _mean(ordered: Sequence[float], total: float | None) -> float | None:
    if not ordered or total is None:
        return None
    # A rounded quotient can lie outside of the values.
    return min(max(total / len(ordered), ordered[0]), ordered[-1])


def _sample_deviation(ordered: Sequence[float], mean: float | None) -> float | None:
    if len(ordered) < 2 or mean is None:  # noqa: PLR2004
        return None
    try:
        # Two passes: the one-pass formula with the sum of squares loses all digits when the mean is
        # large.
        squares = math.fsum((value - mean) ** 2 for value in ordered)
    except OverflowError:
        return None
    return math.sqrt(squares / (len(ordered) - 1)) if math.isfinite(squares) else None
