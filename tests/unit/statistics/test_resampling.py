"""Resampling: each row equals the aggregate of its drawn traces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.metrics.aggregate import aggregate
from mosaico.statistics.resampling import (
    MAX_UNITS,
    RESAMPLES,
    SWAPS,
    draw_pair,
    draw_run,
    resampled_counts,
    resampled_statistic,
    swap_test,
)
from mosaico.statistics.trials import FloatArray, IntArray

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
def test_resampled_statistic__equals_the_aggregate_of_the_drawn_traces(
    traces: list[tuple[int, float | None]],
) -> None:
    items = np.array([item for item, _ in traces])
    values = np.array([np.nan if value is None else value for _, value in traces])
    draws = draw_run(np.arange(4))
    for stat in STATISTICS:
        rows = resampled_statistic(stat, values, items, draws)
        for row, counts in zip(rows[:4], draws.counts[:4].tolist(), strict=True):
            expected = drawn(traces, counts, stat)
            assert row == pytest.approx(
                np.nan if expected is None else expected, nan_ok=True, rel=1e-9, abs=1e-4
            )


def test_resampled_statistic__refuses_unknown_statistics() -> None:
    with pytest.raises(ValueError, match="unknown statistic 'mode'"):
        resampled_statistic("mode", np.ones(2), np.arange(2), draw_run(np.arange(2)))


def test_draw_run__is_the_same_every_time() -> None:
    assert draw_run(np.arange(50)).counts.tobytes() == draw_run(np.arange(50)).counts.tobytes()


def test_draw_run__rows_draw_as_many_units_as_there_are() -> None:
    draws = draw_run(np.arange(50))
    assert draws.counts.shape == (RESAMPLES + 1, 50)
    assert (draws.counts[0] == 1).all()
    assert (draws.counts.sum(axis=1) == 50).all()


def test_draw_run__clusters_are_drawn_whole() -> None:
    draws = draw_run(np.array([1, 0, 1, 0, 1]))
    # Three times 1 of cluster 1, or five times nothing, or all of both.
    values = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    sums = resampled_statistic("sum", values, np.arange(5), draws)
    assert set(sums.tolist()) == {0.0, 3.0, 6.0}


def test_draw_run__many_units_are_drawn_in_groups() -> None:
    draws = draw_run(np.arange(3 * MAX_UNITS))
    assert draws.unit_count == MAX_UNITS
    assert np.bincount(draws.units).tolist() == [3] * MAX_UNITS


def test_draw_pair__exchanges_each_unit_between_the_runs() -> None:
    baseline, candidate = draw_pair(np.arange(4))
    swapped = slice(1, SWAPS + 1)
    assert baseline.counts[0].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert candidate.counts[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert (baseline.counts[swapped] + candidate.counts[swapped] == 1).all()
    # Drawn with replacement, each run from its own items.
    assert not baseline.counts[SWAPS + 1 :, 4:].any()
    assert (baseline.counts[SWAPS + 1 :, :4] == candidate.counts[SWAPS + 1 :, 4:]).all()


def test_resampled_counts__adds_counts_before_the_value() -> None:
    # Right and given of the name 4 in three items, and of the name 7 in the last of them.
    counts = np.array([[1.0, 1.0], [5.0, 8.0], [0.0, 1.0], [1.0, 1.0]])
    items, names = np.array([0, 2, 1, 2]), np.array([4, 7, 4, 4])
    draws = draw_run(np.arange(3))
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
        np.empty((0, 3)), nothing, nothing, draw_run(np.arange(3)), lambda *_: np.ones(1)
    )
    assert np.isnan(rows).all()
    assert len(rows) == RESAMPLES + 1


def rows_of(effect: float, swaps: list[float], resamples: list[float]) -> FloatArray:
    return np.array([effect, *np.resize(swaps, SWAPS), *np.resize(resamples, RESAMPLES)])


def test_swap_test__p_counts_ties_by_half() -> None:
    # One exchange in ten is as far from 0 as observed: (199 + 1) / 2 of 2000, but for rounding.
    rows = rows_of(-1.0, [1.0, *[0.0] * 9], [-1.0])
    test = swap_test(np.zeros(len(rows)), rows, 37, width=1.0)
    assert test.p == pytest.approx(0.05, abs=0.001)


def test_swap_test__interval_includes_0_unless_the_exchanges_exclude_it() -> None:
    rows = rows_of(-1.0, [1.0, 0.0], [-1.0])
    test = swap_test(np.zeros(len(rows)), rows, 37, width=1.0)
    assert test.p > 0.05
    assert test.interval(0.05).high == 0.0  # type: ignore[union-attr]
    sure = rows_of(-1.0, [0.0], [-1.0])
    test = swap_test(np.zeros(len(sure)), sure, 37, width=1.0)
    assert test.p == 0.001
    assert test.interval(0.05).high == -1.0  # type: ignore[union-attr]


def test_swap_test__one_unit_cannot_decide() -> None:
    rows = rows_of(-1.0, [1.0], [-1.0])
    assert not swap_test(np.zeros(len(rows)), rows, 1).can_decide
