"""Adjusted p-values: by hand, then against scipy and statsmodels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.statistics.multiplicity import benjamini_hochberg, holm
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
stats = Reference("scipy.stats")
multitest = Reference("statsmodels.stats.multitest")

P_VALUES = st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=1, max_size=20)


def test_holm__by_hand() -> None:
    # .01·3 = .03, then .02·2 = .04, then .03·1, kept at .04: never smaller than one before.
    assert holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])


def test_benjamini_hochberg__by_hand() -> None:
    # From the largest: .04·4/4 = .04; .03·4/3 = .04; .005·4/2 = .01; .004·4/1 = .016, cut to .01.
    assert benjamini_hochberg([0.04, 0.005, 0.03, 0.004]) == pytest.approx([0.04, 0.01, 0.04, 0.01])


def test_adjustments__keep_a_single_p_value() -> None:
    assert holm([0.3]) == benjamini_hochberg([0.3]) == [0.3]
    assert holm([]) == benjamini_hochberg([]) == []


@given(P_VALUES)
def test_benjamini_hochberg__equals_scipy(p_values: list[float]) -> None:
    expected = stats.false_discovery_control(p_values).tolist()
    assert benjamini_hochberg(p_values) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("p_values", [[0.02, 0.01, 0.03], [0.5, 0.5, 0.001, 0.9]])
def test_holm__equals_statsmodels(p_values: list[float]) -> None:
    expected = multitest.multipletests(p_values, method="holm")[1].tolist()
    assert holm(p_values) == pytest.approx(expected, abs=1e-12)


@given(P_VALUES)
def test_adjustments__never_reduce_p_and_holm_is_stricter(
    p_values: list[float],
) -> None:
    for raw, shared, strict in zip(
        p_values, benjamini_hochberg(p_values), holm(p_values), strict=True
    ):
        assert raw <= shared * (1 + 1e-12)
        assert shared <= strict * (1 + 1e-12)
        assert strict <= 1.0
