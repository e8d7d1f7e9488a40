"""Functions of powers and roundings, percentiles, and statistics of repeated trials; expected numbers by hand."""

import math

import pytest

from mosaico.formula import Reference, check_formula, compile_formula, format_formula
from mosaico.formula.bounds import Bounds, bounds_of
from mosaico.formula.trend import Trend, trend_of

A, B = Reference("A", "mean"), Reference("B", "mean")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("POW(9, 0.5)", 3.0),
        ("POW(2, -2)", 0.25),
        ("POW(-2, 3)", -8.0),
        ("POW(0, 0)", 1.0),
        ("EXP(0)", 1.0),
        ("EXP(LOG(5))", 5.0),
        ("SQRT(16)", 4.0),
        # Halves away from 0, by the decimals that are written: 2.675 is stored as a little less.
        ("ROUND(2.5)", 3.0),
        ("ROUND(-2.5)", -3.0),
        ("ROUND(2.675, 2)", 2.68),
        ("ROUND(0.125, 2)", 0.13),
        ("ROUND(1234, -2)", 1200.0),
        ("ROUND(1250, -2)", 1300.0),
        ("ROUND(-0.4)", 0.0),
        ("ROUND(1e300, 300)", 1e300),
    ],
)
def test_function__has_the_value(text: str, value: float) -> None:
    assert compile_formula(text).evaluate({}).value == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("LOG(0)", "LOG: the logarithm of a number that is not positive"),
        ("SQRT(-1)", "SQRT: the square root of a negative number"),
        ("POW(0, -1)", "POW: a negative power of 0"),
        ("POW(-8, 1 / 3)", "POW: a power of a negative number with an exponent that is not whole"),
        ("POW(10, 400)", "the result of POW is too large"),
        ("EXP(1000)", "the result of EXP is too large"),
        ("EXP(-1e308 * 10)", "the result of '*' is too large"),
        ("ROUND(1, 0.5)", "ROUND: a number of digits that is not whole"),
        ("ROUND(1.7e308, -308)", "ROUND: a number of digits that is not whole, from -300 to 300"),
    ],
)
def test_function__outside_its_domain_is_undefined_with_the_reason(text: str, reason: str) -> None:
    result = compile_formula(text).evaluate({})
    assert result.value is None
    assert result.reason is not None
    assert result.reason.startswith(reason)


@pytest.mark.parametrize(
    ("text", "bounds", "trend"),
    [
        ("POW(A, 2)", Bounds(0, 4), Trend.RISES),
        ("POW(A, -1)", Bounds(0.5, math.inf), Trend.FALLS),
        ("POW(A - 1, 2)", Bounds(-math.inf, math.inf), Trend.UNKNOWN),
        ("EXP(-A)", Bounds(math.exp(-2), 1), Trend.FALLS),
        ("ROUND(A / 3, 1)", Bounds(0, 0.7), Trend.RISES),
        ("PASS_AT_K(A, 2)", Bounds(0, 1), Trend.RISES),
    ],
)
def test_function__has_a_range_and_a_direction(text: str, bounds: Bounds, trend: Trend) -> None:
    formula = compile_formula(text)
    passes = Reference("A", "pass_at_2")
    limits = {A: Bounds(0, 2), passes: Bounds(0, 1)}
    assert bounds_of(formula, limits) == pytest.approx(bounds)
    assert trend_of(formula.root, {A: Trend.RISES, passes: Trend.RISES}, limits) is trend


@pytest.mark.parametrize(
    ("text", "canonical", "reference"),
    [
        ("latency_ms.P90", "LATENCY_MS.p90", Reference("LATENCY_MS", "p90")),
        ("a.p1", "A.p1", Reference("A", "p1")),
        ("pass_at_k(a, 3)", "PASS_AT_K(A, 3)", Reference("A", "pass_at_3")),
        ('PASS_POW_K(a{x="y"}, 2)', 'PASS_POW_K(A{x="y"}, 2)', Reference('A{x="y"}', "pass_pow_2")),
    ],
)
def test_statistic__is_read_and_written_in_one_form(
    text: str, canonical: str, reference: Reference
) -> None:
    assert compile_formula(text).references == (reference,)
    assert format_formula(text) == canonical
    assert format_formula(canonical) == canonical


@pytest.mark.parametrize(
    "text", ["A.p0", "A.p100", "A.p05", "PASS_AT_K(A, 0)", "PASS_AT_K(A.p95, 2)", "PASS_AT_K(A, B)"]
)
def test_statistic__other_percents_and_trials_are_refused(text: str) -> None:
    assert check_formula(text).mistakes
