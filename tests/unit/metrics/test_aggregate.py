"""Statistics of a column: known values and a comparison with numpy."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics.aggregate import (
    aggregate,
    missing_counts,
    percentile,
    with_run_value,
)
from mosaico.metrics.types import (
    MetricFailed,
    MetricFailureKind,
    MetricSkipped,
    MetricSkipReason,
    MetricSpec,
    TraceMeasurements,
)
from mosaico.traces.types import Trace
from tests.support.aggregates import aggregate_run

finite = st.floats(-1e9, 1e9)


def test_aggregate__four_values_by_hand() -> None:
    # 1, 2, 3, 6: sum 12, mean 3; squares 4 + 1 + 0 + 9 = 14, std √(14/3).
    # p50 lies halfway between 2 and 3; p95 at place 2.85: 3 + 0.85·3; p99 at 2.97: 3 + 0.97·3.
    statistics = aggregate([3.0, None, 1.0, 6.0, 2.0])
    assert statistics.n == statistics.count == 4
    assert statistics.sum == 12.0
    assert statistics.mean == 3.0
    assert statistics.std == math.sqrt(14 / 3)
    assert (statistics.min, statistics.max) == (1.0, 6.0)
    assert statistics.p50 == 2.5
    assert statistics.p95 == pytest.approx(5.55, abs=1e-12)
    assert statistics.p99 == pytest.approx(5.91, abs=1e-12)
    assert statistics.coverage == 0.8


def test_aggregate__overflowing_sum_is_undefined() -> None:
    statistics = aggregate([1e308, 1e308])
    assert (statistics.sum, statistics.mean, statistics.std) == (None, None, None)
    assert statistics.max == 1e308


def test_aggregate__percentiles_of_the_largest_numbers_are_between_them() -> None:
    # Their distance, 3.4e308, is no float; at 95 % are 0.05 of the one and 0.95 of the other.
    statistics = aggregate([1.7e308, -1.7e308])
    assert (statistics.mean, statistics.p50, statistics.std) == (0.0, 0.0, None)
    assert statistics.p95 == pytest.approx(1.53e308)


def test_aggregate__item_whose_sum_overflows_leaves_the_mean_undefined() -> None:
    statistics = aggregate([1e308, 1e308, 1.0], items=["a", "a", "b"])
    assert (statistics.mean, statistics.max) == (None, 1e308)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20),
    st.randoms(use_true_random=False),
)
def test_aggregate__is_finite_or_none(values: list[float], chance: random.Random) -> None:
    for items in (None, [chance.randint(0, 3) for _ in values]):
        statistics = aggregate(values, items=items).as_json().values()
        assert all(value is None or math.isfinite(value) for value in statistics)


@given(st.lists(finite | st.none(), max_size=60), st.randoms(use_true_random=False))
def test_aggregate__does_not_depend_on_the_order(
    column: list[float | None], chance: random.Random
) -> None:
    shuffled = column.copy()
    chance.shuffle(shuffled)
    assert repr(aggregate(column)) == repr(aggregate(shuffled))


@given(st.lists(finite, min_size=2, max_size=60))
def test_aggregate__equals_numpy(values: list[float]) -> None:
    statistics = aggregate(values)
    # Ours is rounded once (`math.fsum`), that of numpy with every addition.
    assert statistics.mean == pytest.approx(float(np.mean(values)), rel=1e-9, abs=1e-6)
    assert statistics.std == pytest.approx(float(np.std(values, ddof=1)), rel=1e-9, abs=1e-6)
    for percent, ours in ((50, statistics.p50), (95, statistics.p95), (99, statistics.p99)):
        assert ours == pytest.approx(float(np.percentile(values, percent)), rel=1e-9, abs=1e-6)


@given(st.lists(finite, min_size=1, max_size=60))
def test_aggregate__mean_and_percentiles_are_between_minimum_and_maximum(
    values: list[float],
) -> None:
    statistics = aggregate(values)
    assert statistics.min is not None
    assert statistics.max is not None
    for name in ("mean", "p50", "p95", "p99"):
        value = statistics.statistic(name)
        assert value is not None
        assert statistics.min <= value <= statistics.max


def test_percentile__of_an_empty_sequence_is_undefined() -> None:
    assert percentile([], 50) is None


def test_missing_counts__are_by_reason() -> None:
    rows = [
        TraceMeasurements("a", (0.5,), {}),
        TraceMeasurements("b", (None,), {"M": MetricSkipped(MetricSkipReason.NO_OUTPUT)}),
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

    def merge(self, first: list[int], second: list[int]) -> list[int]:
        return [first[0] + second[0], first[1] + second[1]]

    def run_value(self, summary: list[int]) -> float:
        long, count = summary
        return long / count


def test_aggregate_run__run_value_is_the_mean() -> None:
    traces = [Trace(trace_id=text, item_id=text, output=text) for text in ("a", "bb", "long")]
    statistics = aggregate_run(ShareOfLongOutputs(), [0.5, 0.5, 0.5], traces)
    assert statistics.mean == 1 / 3
    assert statistics.p50 == 0.5
    assert aggregate_run(ShareOfLongOutputs(), [None] * 3, traces).mean is None


def test_aggregate_run__failed_run_value_is_counted() -> None:
    statistics = aggregate([0.5, 1.0, None], missing={"RAISED": 1})
    broken = with_run_value(statistics, MetricFailed(MetricFailureKind.RAISED, "KeyError"))
    assert broken.mean is None
    assert broken.missing == {"RAISED": 2}
    assert (broken.n, broken.max) == (2, 1.0)
    assert with_run_value(statistics, None).mean is None
