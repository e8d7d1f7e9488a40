"""Power: by hand, and monotone in trials and items."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaico.statistics.power import (
    ChangeModel,
    detectable_in_errors,
    items_needed,
    items_to_detect_any,
    settle_equivalence,
    trials_needed,
)
from mosaico.statistics.verdict_rules import Remedy, Scale
from tests.support.references import IN_ONE_PROCESS, Reference

special = Reference("scipy.special")

NUMBERS = st.builds(
    ChangeModel,
    scale=st.just(Scale.NUMBER),
    items=st.floats(0.0, 1.0),
    trial=st.floats(0.001, 1.0),
)


@pytest.mark.parametrize(("degrees", "errors"), [(9, 3.46), (19, 3.09), (36, 2.95), (199, 2.83)])
def test_detectable_in_errors__of_few_degrees_is_larger(degrees: float, errors: float) -> None:
    # For many degrees 1.96 + 0.84 = 2.80; with few, the estimated
    # error itself varies (noncentral t).
    assert detectable_in_errors(degrees) == pytest.approx(errors, abs=0.02)
    assert detectable_in_errors(1e6) == pytest.approx(2.80, abs=0.005)


@IN_ONE_PROCESS
@pytest.mark.parametrize("degrees", [1, 2, 9, 40.5, 400])
def test_detectable_in_errors__is_found_as_often_as_promised(degrees: float) -> None:
    # The error at hand is as likely below as above each of these ratios; the error of the test is in the noncentral t.
    parts = [(point + 0.5) / 2000 for point in range(2000)]
    ratios = [math.sqrt(special.chdtri(degrees, 1 - part) / degrees) for part in parts]
    critical = special.stdtrit(degrees, 0.975)
    effect = detectable_in_errors(degrees)
    missed = [special.nctdtr(degrees, effect * ratio, critical) for ratio in ratios]
    assert 1 - math.fsum(missed) / len(missed) == pytest.approx(0.8, abs=5e-4)


def test_detectable_effect__of_numbers_by_hand() -> None:
    # (.04 + 2 · .08 / 4) / 10,000 = .000008 per mean.
    model = ChangeModel(scale=Scale.NUMBER, items=0.04, trial=0.08)
    assert model.detectable_effect(10_000, 4) == pytest.approx(2.8016 * math.sqrt(8e-6), rel=1e-3)


def test_detectable_effect__of_passes_includes_the_spread_of_the_drop() -> None:
    # Half of the items always pass and half never do: a drop is one of the first half only.
    split = ChangeModel(scale=Scale.RATE, items=0.0, trial=0.05, mean=0.5, square=0.5)
    equal = ChangeModel(scale=Scale.RATE, items=0.0, trial=0.05, mean=0.5, square=0.25)
    assert split.detectable_effect(37, 5) > equal.detectable_effect(37, 5)
    # Two items that pass half of the time cannot fall by more than one pass.
    assert split.detectable_effect(2, 1) == math.inf
    assert items_to_detect_any(split, trials=1) == 14
    # What never passes cannot fall.
    never = ChangeModel(scale=Scale.RATE, items=0.0, trial=0.05, mean=0.0, square=0.0)
    assert items_to_detect_any(never, trials=1) is None


def test_trials_needed__reduce_the_noise_between_trials_only() -> None:
    model = ChangeModel(scale=Scale.NUMBER, items=0.05, trial=0.3)
    remedy = trials_needed(model, items=100, change=0.14)
    assert remedy is not None
    assert remedy.more_trials == 4
    assert trials_needed(model, items=100, change=2.8) is None
    larger = ChangeModel(scale=Scale.NUMBER, items=0.25, trial=0.3)
    assert trials_needed(larger, items=100, change=0.14) == Remedy(None)


def test_trials_needed__after_one_trial_is_a_lower_bound() -> None:
    model = ChangeModel(scale=Scale.NUMBER, items=0.75, trial=None)
    remedy = trials_needed(model, items=100, change=0.14)
    assert remedy is not None
    assert remedy.at_best


def test_settle_equivalence__by_hand() -> None:
    # (1.9842 + 1.2816)² = 10.666; 2 · .1 · 10.666 / (100 · .05²) = 8.53 trials.
    model = ChangeModel(scale=Scale.NUMBER, items=0.0, trial=0.1)
    assert settle_equivalence(model, items=100, trials=1, margin=0.05) == Remedy(9)
    assert settle_equivalence(model, items=100, trials=9, margin=0.05) is None
    spread = ChangeModel(scale=Scale.NUMBER, items=0.1, trial=0.1)
    assert settle_equivalence(spread, items=100, trials=1, margin=0.05) == Remedy(None)


def test_power__invalid_arguments_are_refused() -> None:
    model = ChangeModel(scale=Scale.NUMBER, items=0.05, trial=0.6)
    with pytest.raises(ValueError, match="detects nothing"):
        model.detectable_effect(0, 1)
    with pytest.raises(ValueError, match="larger change"):
        items_needed(model, trials=1, change=0.0)


@given(NUMBERS, st.integers(5, 500), st.floats(0.05, 0.5))
@settings(max_examples=8)
def test_trials_needed__is_the_smallest_number(
    model: ChangeModel, items: int, change: float
) -> None:
    remedy = trials_needed(model, items=items, change=change)
    needed = 1 if remedy is None else remedy.more_trials
    if needed is None:
        assert model.detectable_effect(items, 1000) > change
    else:
        assert model.detectable_effect(items, needed) <= change
        assert needed == 1 or model.detectable_effect(items, needed - 1) > change


@given(NUMBERS, st.integers(1, 20), st.floats(0.05, 0.5))
@settings(max_examples=8)
def test_items_needed__is_the_smallest_number(
    model: ChangeModel, trials: int, change: float
) -> None:
    needed = items_needed(model, trials=trials, change=change)
    assert needed is not None
    assert model.detectable_effect(needed, trials) <= change
