"""What a benchmark can see: by hand, and that more trials and items never see less."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.statistics.intervals import Interval
from app.statistics.power import (
    ChangeVariance,
    Inferiority,
    items_needed,
    no_worse_than,
    smallest_visible,
    trials_needed,
    visible_change,
)
from app.statistics.verdict import Remedy

VARIANCES = st.builds(ChangeVariance, st.floats(0.0, 1.0), st.floats(0.001, 1.0))


def test_the_smallest_visible_change_is_2_80_standard_errors() -> None:
    # (.04 + .16/4) / 100 = .0008
    variance = ChangeVariance(items=0.04, trial=0.16)
    expected = 2.8 * math.sqrt(0.0008)
    assert visible_change(variance, items=100, trials=4) == pytest.approx(expected)
    assert smallest_visible(0.1) == pytest.approx(0.28)


def test_trials_bring_down_what_is_noise_within_items_only() -> None:
    # Bearable: 100 · (.14 / 2.8)² = .25; of it .05 is between items, .6 / .2 = 3 trials.
    variance = ChangeVariance(items=0.05, trial=0.6)
    assert trials_needed(variance, items=100, change=0.14) == Remedy(3)
    assert trials_needed(variance, items=100, change=2.8) is None
    assert trials_needed(ChangeVariance(items=0.25, trial=0.6), items=100, change=0.14) == Remedy(
        None
    )


def test_after_one_trial_the_number_is_the_best_case() -> None:
    # .75 / .25: all of it noise within items.
    variance = ChangeVariance(items=0.75, trial=None)
    assert trials_needed(variance, items=100, change=0.14) == Remedy(3, at_best=True)


def test_items_bring_down_everything() -> None:
    # (.05 + .6/3) · (2.8 / .14)² = .25 · 400
    assert items_needed(ChangeVariance(items=0.05, trial=0.6), trials=3, change=0.14) == 100


def test_what_cannot_be_asked_is_refused() -> None:
    variance = ChangeVariance(items=0.05, trial=0.6)
    with pytest.raises(ValueError, match="sees nothing"):
        visible_change(variance, items=0, trials=1)
    with pytest.raises(ValueError, match="larger one"):
        items_needed(variance, trials=1, change=0.0)
    assert trials_needed(ChangeVariance(0.1, None), items=10, change=0.0) == Remedy(
        None, at_best=True
    )


@given(VARIANCES, st.integers(5, 500), st.floats(0.01, 0.5))
def test_the_trials_asked_for_see_the_change_and_one_less_does_not(
    variance: ChangeVariance, items: int, change: float
) -> None:
    found = trials_needed(variance, items=items, change=change)
    needed = 1 if found is None else found.more_trials
    if needed is None:
        assert visible_change(variance, items=items, trials=1_000) > change * (1 - 1e-9)
        return
    assert visible_change(variance, items=items, trials=needed) <= change * (1 + 1e-9)
    if needed > 1:
        assert visible_change(variance, items=items, trials=needed - 1) > change * (1 - 1e-9)


def test_no_worse_is_proven_by_the_interval_and_not_by_the_value() -> None:
    assert no_worse_than(Interval(low=-0.1, high=0.04), 0.05) == Inferiority(True, 0.04)
    assert no_worse_than(Interval(low=0.06, high=0.2), 0.05) == Inferiority(False, 0.2)
    assert no_worse_than(Interval(low=-0.1, high=0.06), 0.05) == Inferiority(None, 0.06)
