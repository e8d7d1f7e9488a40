"""The range, the shape and the jumps of formulas."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.formula import Reference, compile_formula
from mosaico.formula.bounds import Bounds, bounds_of
from mosaico.items.formulas.properties import Line, is_tied, jumps, line_of

A, B = Reference("A", "mean"), Reference("B", "mean")
RATES = {A: Bounds(0.0, 1.0), B: Bounds(0.0, 1.0)}
COSTS = {A: Bounds(0.0, math.inf), B: Bounds(0.0, 1.0)}


@pytest.mark.parametrize(
    ("text", "slope", "offset"),
    [
        ("A", 1, 0),
        ("A * 1", 1, 0),
        ("1 - A", -1, 1),
        ("2 * (A + 1) / 4", 0.5, 0.5),
        ("WEIGHTED_SUM(A:0.3, A:0.2)", 0.5, 0),
        ("AVERAGE(A, 1)", 0.5, 0.5),
    ],
)
def test_line_of__linear_functions_of_one_metric(text: str, slope: float, offset: float) -> None:
    assert line_of(compile_formula(text)) == Line(A, slope, offset)


@pytest.mark.parametrize(
    "text", ["A * B", "A + B", "1 / A", "MIN(A, 1)", "A - A", "A / 0", "A + A.p95", "ABS(A)"]
)
def test_line_of__none_for_other_formulas(text: str) -> None:
    assert line_of(compile_formula(text)) is None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("WEIGHTED_SUM(A:0.5, B:0.5)", 0, 1),
        ("A - B", -1, 1),
        ("ABS(A - B)", 0, 1),
        ("MIN(A, B + 1)", 0, 1),
        ("AVERAGE(A, B + 2)", 1, 2),
        ("CLAMP(A * 2, 0.2, 0.8)", 0.2, 0.8),
        ("IF A > B THEN A ELSE 3", 0, 3),
        ("COALESCE(A, 2)", 0, 2),
        ("SQRT(A * B)", 0, 1),
        ("THRESHOLD(A, 0.5) * -2", -2, 0),
        ("A / B", 0, math.inf),
        ("A / (A - B)", -math.inf, math.inf),
        ("LOG(A)", -math.inf, math.inf),
    ],
)
def test_bounds_of__rates(text: str, low: float, high: float) -> None:
    assert bounds_of(compile_formula(text), RATES) == (low, high)


@pytest.mark.parametrize(("text", "low"), [("A / B", 0), ("A - B", -1), ("A * B", 0)])
def test_bounds_of__costs_have_no_upper_limit(text: str, low: float) -> None:
    assert bounds_of(compile_formula(text), COSTS) == (low, math.inf)


@given(st.floats(0, 1), st.floats(0, 1))
def test_bounds_of__contain_every_value(a: float, b: float) -> None:
    for text in ("A * B - A / (1 + B)", "MAX(A, B) - MIN(A, B)", "ABS(A - 2 * B)", "-A * (B - 2)"):
        formula = compile_formula(text)
        value = formula.evaluate({A: a, B: b}).value
        low, high = bounds_of(formula, RATES)
        assert value is not None
        assert low - 1e-12 <= value <= high + 1e-12


def test_jumps__are_thresholds_and_conditions() -> None:
    assert jumps(compile_formula("1 + THRESHOLD(A, 0.5)"))
    assert jumps(compile_formula("IF A > 1 THEN A ELSE B"))
    assert not jumps(compile_formula("MIN(A, B)"))
    assert is_tied(compile_formula("1 + MIN(A, B)"))
