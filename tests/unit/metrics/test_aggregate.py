"""Statistics of a column, by hand first, then as numpy has them."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Invalid
from app.metrics.aggregate import (
    STATISTICS,
    aggregate,
    aggregate_run,
    missing_counts,
    percentile,
    with_run_value,
)
from app.metrics.types import (
    MetricFailed,
    MetricFailureKind,
    MetricSkipped,
    MetricSpec,
    SkipReason,
    TraceMeasurements,
)
from app.traces.types import Trace

finite = st.floats(-1e9, 1e9)


def test_the_statistics_of_four_values_are_those_found_by_hand() -> None:
    # 1, 2, 3, 6: sum 12, mean 3; squares 4 + 1 + 0 + 9 = 14, std √(14/3).
    # p50 lies halfway between 2 and 3; p95 at place 2.85: 3 + 0.85·3; p99 at 2.97: 3 + 0.97·3.
    found = aggregate([3.0, None, 1.0, 6.0, 2.0])
    assert found.n == found.count == 4
    assert found.sum == 12.0
    assert found.mean == 3.0
    assert found.std == math.sqrt(14 / 3)
    assert (found.min, found.max) == (1.0, 6.0)
    assert found.p50 == 2.5
    assert found.p95 == pytest.approx(5.55, abs=1e-12)
    assert found.p99 == pytest.approx(5.91, abs=1e-12)
    assert found.coverage == 0.8


def test_a_column_without_values_has_no_statistics_but_counts() -> None:
    found = aggregate([None, None], missing={"NO_OUTPUT": 2})
    assert (found.n, found.count, found.coverage) == (0, 0, 0.0)
    rest = set(STATISTICS) - {"n", "count", "coverage"}
    assert [found.statistic(name) for name in rest] == [None] * len(rest)
    assert found.missing == {"NO_OUTPUT": 2}


def test_a_run_without_traces_has_no_coverage() -> None:
    assert aggregate([]).coverage is None


def test_one_value_has_no_deviation() -> None:
    found = aggregate([0.25])
    assert found.std is None
    assert found.mean == found.p50 == found.p99 == 0.25


def test_a_sum_beyond_the_range_of_a_float_is_undefined_not_infinite() -> None:
    found = aggregate([1e308, 1e308])
    assert (found.sum, found.mean, found.std) == (None, None, None)
    assert found.max == 1e308


@given(st.lists(finite | st.none(), max_size=60), st.randoms(use_true_random=False))
def test_the_order_of_the_values_changes_no_bit(
    column: list[float | None], chance: random.Random
) -> None:
    shuffled = column.copy()
    chance.shuffle(shuffled)
    assert repr(aggregate(column)) == repr(aggregate(shuffled))


@given(st.lists(finite, min_size=2, max_size=60))
def test_the_statistics_are_those_of_numpy(values: list[float]) -> None:
    found = aggregate(values)
    assert found.mean == pytest.approx(float(np.mean(values)), rel=1e-9, abs=1e-6)
    assert found.std == pytest.approx(float(np.std(values, ddof=1)), rel=1e-9, abs=1e-6)
    for percent, ours in ((50, found.p50), (95, found.p95), (99, found.p99)):
        assert ours == pytest.approx(float(np.percentile(values, percent)), rel=1e-9, abs=1e-6)


@given(st.lists(finite, min_size=1, max_size=60))
def test_mean_and_percentiles_lie_between_minimum_and_maximum(values: list[float]) -> None:
    found = aggregate(values)
    assert found.min is not None
    assert found.max is not None
    for name in ("mean", "p50", "p95", "p99"):
        value = found.statistic(name)
        assert value is not None
        assert found.min <= value <= found.max


def test_percentiles_of_an_empty_sequence_are_undefined() -> None:
    assert percentile([], 50) is None


def test_an_unknown_statistic_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Invalid, match=r"'p59'.*Did you mean p99 or p95 or p50"):
        aggregate([1.0]).statistic("p59")


def test_reasons_are_counted_by_name() -> None:
    rows = [
        TraceMeasurements("a", (0.5,), {}),
        TraceMeasurements("b", (None,), {"M": MetricSkipped(SkipReason.NO_OUTPUT)}),
        TraceMeasurements(
            "c", (None,), {"M": MetricFailed(MetricFailureKind.RAISED, "KeyError: 1")}
        ),
        TraceMeasurements(
            "d", (None,), {"M": MetricFailed(MetricFailureKind.RAISED, "KeyError: 2")}
        ),
    ]
    assert missing_counts(rows, "M") == {"NO_OUTPUT": 1, "RAISED": 2}


class ShareOfLongOutputs:
    spec = MetricSpec(key="LONG", description="", source="")

    def supports(self, trace: Trace) -> bool:  # noqa: ARG002
        return True

    def compute(self, trace: Trace) -> float:  # noqa: ARG002
        return 0.5

    def summarize(self, traces: Sequence[Trace]) -> list[int]:
        return [sum(len(trace.output or "") > 3 for trace in traces), len(traces)]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0], one[1] + other[1]]

    def run_value(self, summary: list[int]) -> float:
        long, count = summary
        return long / count


def test_a_metric_with_a_value_of_the_whole_run_has_it_as_mean() -> None:
    traces = [Trace(trace_id=text, item_id=text, output=text) for text in ("a", "bb", "long")]
    found = aggregate_run(ShareOfLongOutputs(), [0.5, 0.5, 0.5], traces)
    assert found.mean == 1 / 3
    assert found.p50 == 0.5
    assert aggregate_run(ShareOfLongOutputs(), [None] * 3, traces).mean is None


def test_a_run_whose_own_value_failed_has_no_mean_and_counts_the_failure() -> None:
    found = aggregate([0.5, 1.0, None], missing={"RAISED": 1})
    broken = with_run_value(found, MetricFailed(MetricFailureKind.RAISED, "KeyError"))
    assert broken.mean is None
    assert broken.missing == {"RAISED": 2}
    assert (broken.n, broken.max) == (2, 1.0)
    assert with_run_value(found, None).mean is None
