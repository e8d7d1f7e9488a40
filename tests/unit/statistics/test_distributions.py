"""The normal distribution and Student's t: closed forms, then scipy on a grid and for any numbers."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.statistics.distributions import normal_cdf, normal_quantile, t_cdf, t_quantile
from tests.support.references import IN_ONE_PROCESS, Reference

pytestmark = IN_ONE_PROCESS
special = Reference("scipy.special")

DEGREES = (0.5, 1.0, 1.5, 2.0, 3.0, 5.7, 12.0, 29.3, 100.0, 199.9, 200.0, 201.0, 4e3, 1e5, 1e7)
NUMBERS = (0.001, 0.1, 0.7, 1.5, 1.999, 2.0, 2.001, 3.0, 5.0, 10.0, 20.0, 37.0, 1e3, 1e9)
# Farther, scipy's own quantile leaves the range of floats.
TAILS = (1e-60, 1e-30, 1e-16, 1e-9, 1e-4, 0.001, 0.025, 0.1, 0.2499, 0.25, 0.3, 0.49)
INSIDE = (*TAILS, 0.5, *(1 - tail for tail in TAILS if tail >= 1e-16))


def of_scipy(number: float) -> object:
    return pytest.approx(float(number), rel=1e-12, abs=1e-307)


@pytest.mark.parametrize("t", [1e-300, 1e-9, *NUMBERS, 1e150])
def test_t_cdf__of_few_degrees_by_hand(t: float) -> None:
    # 1 degree: atan(1/t) / π. 2 degrees: (1 - t / sqrt(2 + t²)) / 2, without the difference of like numbers.
    root = math.hypot(t, math.sqrt(2))
    assert t_cdf(-t, 1) == pytest.approx(math.atan(1 / t) / math.pi, rel=1e-13)
    assert t_cdf(-t, 2) == pytest.approx(1 / root / (root + t), rel=1e-13)


@pytest.mark.parametrize("p", [0.5 + distance for distance in (2e-16, 1e-12, 1e-8, 1e-5, 0.01)])
def test_t_quantile__near_the_median_by_hand(p: float) -> None:
    # scipy has no right digit of the nearest one.
    distance = p - 0.5
    of_two = 2 * distance / math.sqrt(0.5 - 2 * distance**2)
    for sign, number in ((1, p), (-1, 0.5 - distance)):
        of_one = sign * math.tan(math.pi * distance)
        assert t_quantile(number, 1) == pytest.approx(of_one, rel=1e-13)
        assert t_quantile(number, 2) == pytest.approx(sign * of_two, rel=1e-13)


@pytest.mark.parametrize("p", [1e-300, *TAILS])
def test_t_quantile__of_few_degrees_by_hand(p: float) -> None:
    assert t_quantile(p, 1) == pytest.approx(-1 / math.tan(math.pi * p), rel=1e-13)
    of_two = (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    assert t_quantile(p, 2) == pytest.approx(of_two, rel=1e-12)


@pytest.mark.parametrize(("t", "degrees"), list(product(NUMBERS, DEGREES)))
def test_t_cdf__equals_scipy(t: float, degrees: float) -> None:
    assert t_cdf(-t, degrees) == of_scipy(special.stdtr(degrees, -t))
    assert t_cdf(t, degrees) == of_scipy(special.stdtr(degrees, t))


@pytest.mark.parametrize(("p", "degrees"), list(product(INSIDE, DEGREES)))
def test_t_quantile__equals_scipy(p: float, degrees: float) -> None:
    assert t_quantile(p, degrees) == of_scipy(special.stdtrit(degrees, p))


@pytest.mark.parametrize(
    ("p", "degrees"), [(p, degrees) for p in (1e-300, 1e-150) for degrees in DEGREES if degrees > 3]
)
def test_t_quantile__far_in_the_tail_is_the_inverse_of_scipys_probability(
    p: float, degrees: float
) -> None:
    assert special.stdtr(degrees, t_quantile(p, degrees)) == pytest.approx(p, rel=1e-12)


@given(st.floats(-50, 50).filter(lambda t: abs(t) > 1e-3), st.floats(0.5, 1e7))
def test_t_cdf__of_any_number_equals_scipy(t: float, degrees: float) -> None:
    assert t_cdf(t, degrees) == of_scipy(special.stdtr(degrees, t))


@given(
    st.floats(1e-60, 1, exclude_max=True).filter(lambda p: abs(p - 0.5) > 1e-3),
    st.floats(0.5, 1e7),
)
def test_t_quantile__of_any_probability_is_the_inverse(p: float, degrees: float) -> None:
    t = t_quantile(p, degrees)
    assert t == of_scipy(special.stdtrit(degrees, p))
    assert t_cdf(t, degrees) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("p", INSIDE)
def test_normal__equals_scipy_and_is_student_of_infinite_degrees(p: float) -> None:
    z = normal_quantile(p)
    assert z == of_scipy(special.ndtri(p))
    assert normal_cdf(z) == of_scipy(special.ndtr(z))
    assert t_quantile(p, math.inf) == z
    assert t_cdf(z, math.inf) == normal_cdf(z)


@pytest.mark.parametrize("degrees", [0.5, 7.0, math.inf])
def test_ends__are_infinite(degrees: float) -> None:
    assert (t_cdf(-math.inf, degrees), t_cdf(0.0, degrees), t_cdf(math.inf, degrees)) == (0, 0.5, 1)
    assert (t_quantile(0, degrees), t_quantile(1, degrees)) == (-math.inf, math.inf)
    assert t_quantile(0.5, degrees) == 0


@pytest.mark.parametrize("degrees", [math.nan, -1.0, 0.0, 5e-324, 1e-8, 0.1])
def test_t__of_too_few_degrees_is_no_number(degrees: float) -> None:
    assert all(map(math.isnan, (t_cdf(1.0, degrees), t_quantile(0.1, degrees))))
    assert all(map(math.isnan, (t_quantile(0.3, degrees), t_quantile(0.5, degrees))))


@pytest.mark.parametrize("p", [math.nan, -0.1, 1.1])
def test_quantiles__of_no_probability_are_no_number(p: float) -> None:
    assert all(map(math.isnan, (normal_quantile(p), t_quantile(p, 7), t_quantile(p, math.inf))))
    assert math.isnan(t_cdf(math.nan, 7))
