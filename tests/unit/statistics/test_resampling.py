"""Resampling: each row equals the aggregate of its drawn traces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.metrics.aggregate import aggregate
from app.statistics.resampling import (
    MAX_UNITS,
    draw_items,
    resampled_counts,
    resampled_error,
    resampled_interval,
    resampled_p,
    resampled_statistic,
    share_at_least,
)
from app.statistics.trials import FloatArray, IntArray

STATISTICS = ("mean", "n", "std", "min", "max", "p50", "p95", "p99", "sum", "count", "coverage")
TRACES = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.floats(-1e3, 1e3)), min_size=1, max_size=12
)


def drawn(traces: list[tuple[int, float | None]], counts: list[int], stat: str) -> float | None:
    """A statistic of the traces of items that were drawn so often; drawn twice, one item is two."""
    again = [(f"{item}/{copy}", value) for item, value in traces for copy in range(counts[item])]
    values, items = [value for _, value in again], [item for item, _ in again]
    return aggregate(values, items=items).statistic(stat)


@given(TRACES)
@settings(max_examples=50)
def test_resampled_statistic__equals_the_aggregate_of_the_drawn_traces(
    traces: list[tuple[int, float | None]],
) -> None:
    items = np.array([item for item, _ in traces])
    values = np.array([np.nan if value is None else value for _, value in traces])
    draws = draw_items(4, resamples=3)
    for stat in STATISTICS:
        rows = resampled_statistic(stat, values, items, draws)
        for row, counts in zip(rows, draws.counts.tolist(), strict=True):
            expected = drawn(traces, counts, stat)
            assert row == pytest.approx(
                np.nan if expected is None else expected, nan_ok=True, rel=1e-9, abs=1e-4
            )


def test_resampled_statistic__refuses_unknown_statistics() -> None:
    with pytest.raises(ValueError, match="unknown statistic 'mode'"):
        resampled_statistic("mode", np.ones(2), np.arange(2), draw_items(2, resamples=1))


def test_draw_items__depends_on_the_seed_only() -> None:
    assert draw_items(50).counts.tobytes() == draw_items(50).counts.tobytes()
    assert draw_items(50).counts.tobytes() != draw_items(50, seed=1).counts.tobytes()


def test_draw_items__rows_draw_as_many_items_as_there_are() -> None:
    draws = draw_items(50)
    assert draws.counts.shape == (2001, 50)
    assert (draws.counts[0] == 1).all()
    assert (draws.counts.sum(axis=1) == 50).all()


def test_draw_items__clusters_are_drawn_whole() -> None:
    draws = draw_items(5, clusters=["b", "a", "b", "a", "b"])
    assert draws.units.tolist() == [1, 0, 1, 0, 1]
    assert (draws.unit_count, draws.clusters) == (2, 2)
    # Three times 1 of cluster b, or five times nothing, or all of both.
    values = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    sums = resampled_statistic("sum", values, np.arange(5), draws)
    assert set(sums.tolist()) == {0.0, 3.0, 6.0}


def test_draw_items__many_items_are_drawn_in_groups() -> None:
    draws = draw_items(3 * MAX_UNITS, resamples=20)
    assert draws.unit_count == MAX_UNITS
    assert np.bincount(draws.units).tolist() == [3] * MAX_UNITS
    assert draws.clusters is None


def test_resampled_counts__adds_counts_before_the_value() -> None:
    # Right and given of the name 4 in three items, and of the name 7 in the last of them.
    counts = np.array([[1.0, 1.0], [5.0, 8.0], [0.0, 1.0], [1.0, 1.0]])
    items, names = np.array([0, 2, 1, 2]), np.array([4, 7, 4, 4])
    draws = draw_items(3, resamples=50)
    shapes = set()

    def precision_of_the_first(labels: IntArray, sums: FloatArray) -> FloatArray:
        shapes.add((tuple(labels.tolist()), sums.shape[1:]))
        return np.asarray(sums[:, 0, 0] / sums[:, 0, 1])

    rows = resampled_counts(counts, items, names, draws, precision_of_the_first)
    assert shapes == {((4, 7), (2, 2))}
    assert rows[0] == 2 / 3
    by_hand = draws.counts @ np.array([[1, 1], [0, 1], [1, 1]])
    assert rows.tolist() == (by_hand[:, 0] / by_hand[:, 1]).tolist()


def test_resampled_counts__nan_without_counts() -> None:
    nothing = np.empty(0, dtype=np.intp)
    rows = resampled_counts(
        np.empty((0, 3)), nothing, nothing, draw_items(3, resamples=5), lambda *_: np.ones(1)
    )
    assert np.isnan(rows).all()
    assert len(rows) == 6


def test_resampled_interval__of_a_mean_agrees_with_student_t() -> None:
    values = np.random.default_rng(8).normal(1.0, 2.0, 20)
    rows = resampled_statistic("mean", values, np.arange(20), draw_items(20, resamples=20_000))
    error = values.std(ddof=1) / np.sqrt(20)
    interval = resampled_interval(rows, 20)
    assert interval is not None
    assert (interval.high - interval.low) / 2 == pytest.approx(2.093 * error, rel=0.05)
    assert resampled_error(rows, 20) == pytest.approx(error, rel=0.03)


@pytest.mark.parametrize("shift", [0.0, 0.5, 0.9, 1.0, 1.1, 2.0])
def test_resampled_p__is_consistent_with_the_interval(shift: float) -> None:
    values = np.random.default_rng(8).normal(0.0, 1.0, 12)
    rows = resampled_statistic(
        "mean", values - values.mean() + shift, np.arange(12), draw_items(12)
    )
    interval = resampled_interval(rows, 12)
    assert interval is not None
    assert (resampled_p(rows, 12) < 0.05) is (interval.low > 0)


def test_resampled_interval__unknown_for_one_unit_or_no_values() -> None:
    nothing = np.full(100, np.nan)
    for rows, units in ((np.ones(100), 1), (nothing, 10)):
        assert resampled_interval(rows, units) is None
        assert resampled_error(rows, units) is None
        assert resampled_p(rows, units) == 1.0
    assert share_at_least(nothing, 0.5) is None


def test_share_at_least__of_finite_resamples() -> None:
    assert share_at_least(np.array([9.0, 0.1, 0.5, 0.6, np.nan]), 0.5) == pytest.approx(2 / 3)
