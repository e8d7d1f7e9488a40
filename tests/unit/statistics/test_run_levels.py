"""Levels of runs over the items they share."""

from collections.abc import Sequence

import numpy as np
import pytest

from mosaico.statistics.run_levels import IntArray, RunItemValues, fit_levels


def values_of(
    run: int,
    values_by_item: Sequence[float],
    *,
    keys: Sequence[int] | None = None,
    traces: float = 1.0,
    clusters: IntArray | None = None,
) -> RunItemValues:
    values = np.asarray(values_by_item, dtype=float)
    return RunItemValues(
        run=run,
        keys=np.arange(values.size) if keys is None else np.asarray(keys),
        values=values,
        traces=np.full(values.size, traces),
        clusters=clusters,
    )


def test_fit_levels__complete_values_have_their_means_and_the_noise_of_item_changes() -> None:
    levels = fit_levels([values_of(4, [1, 0, 1, 1]), values_of(7, [1, 1, 0, 1])])
    assert [levels[4].level, levels[7].level] == [0.75, 0.75]
    assert levels[4].noise is None
    # The changes 0, 1, -1, 0 have the sample variance 2/3; half of it, over 4 items.
    assert levels[7].noise == pytest.approx(2 / 3 / 4 / 2)
    assert levels[7].traces == 4


def test_fit_levels__a_change_of_all_items_alike_is_no_noise() -> None:
    levels = fit_levels([values_of(1, [0.2, 0.4, 0.6]), values_of(2, [0.1, 0.3, 0.5])])
    assert levels[1].level - levels[2].level == pytest.approx(0.1)
    assert levels[2].noise == pytest.approx(0)


def test_fit_levels__missing_hard_items_do_not_raise_the_level() -> None:
    everything = [1.0, 0.9, 0.5, 0.1, 0.0, 0.2]
    without_hard = [1.0, 0.9, 0.5, np.nan, np.nan, 0.2]
    levels = fit_levels(
        [values_of(1, everything), values_of(2, without_hard), values_of(3, everything)]
    )
    assert [levels[run].level for run in (1, 2, 3)] == pytest.approx([0.45] * 3)


def test_fit_levels__new_items_are_compared_only_where_other_runs_have_them() -> None:
    old = values_of(1, [0.8, 0.6, 0.4, 0.2], keys=[1, 2, 3, 4])
    new = values_of(2, [0.8, 0.6, 0.4, 0.0], keys=[1, 2, 3, 9])
    levels = fit_levels([old, new])
    assert levels[1].level == pytest.approx(levels[2].level)
    assert levels[2].level == pytest.approx(0.45)


def test_fit_levels__runs_without_common_items_are_samples() -> None:
    first = values_of(1, [1, 0, 1, 1], keys=[1, 2, 3, 4])
    second = values_of(2, [0, 0, 1, 1], keys=[5, 6, 7, 8])
    levels = fit_levels([first, second])
    assert [levels[1].level, levels[2].level] == [0.75, 0.5]
    assert levels[1].noise == pytest.approx(0.25 / 4)


def test_fit_levels__a_run_of_other_items_is_left_out() -> None:
    runs = [values_of(1, [1] * 4, keys=[11, 12, 13, 14])]
    runs += [values_of(run, [1, 0, 1, 1]) for run in (2, 3)]
    assert fit_levels(runs).keys() == {2, 3}


def test_fit_levels__items_of_a_cluster_count_as_one() -> None:
    clusters = np.array([1, 1, 2, 2])
    runs = [values_of(1, [0, 0, 0, 0]), values_of(2, [1, 1, 0, 0], clusters=clusters)]
    # Residuals by cluster are 1 and -1: (1 + 1) / 4² · 2/1, and half of it for one run.
    assert fit_levels(runs)[2].noise == pytest.approx(2 / 16 * 2 / 2)


def test_fit_levels__more_traces_mean_less_noise() -> None:
    runs = [values_of(1, [0, 1, 0, 1]), values_of(2, [1, 0, 0, 1], traces=3.0)]
    noise = fit_levels(runs)[2].noise
    equal = fit_levels([runs[0], values_of(2, [1, 0, 0, 1])])[2].noise
    assert equal is not None
    assert noise == pytest.approx(equal / 2)


def test_fit_levels__runs_without_values_are_left_out() -> None:
    runs = [values_of(1, [np.nan, np.nan]), values_of(2, [0.5, 0.7])]
    assert fit_levels(runs).keys() == {2}
    assert fit_levels([]) == {}
