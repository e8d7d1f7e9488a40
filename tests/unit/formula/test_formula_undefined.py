"""Undefined values of formulas, and their reasons."""

import math

import pytest

from mosaico.formula import Reference, compile_formula
from tests.support.texts import assert_names

VALUES = {
    Reference("A", "mean"): 0.5,
    Reference("ZERO", "mean"): 0.0,
    Reference("NOTHING", "mean"): None,
    Reference("NAN", "mean"): math.nan,
    Reference("INFINITE", "mean"): -math.inf,
    Reference("HUGE", "mean"): 1e308,
}


def reason_of(text: str) -> str:
    value, reason = compile_formula(text).evaluate(VALUES)
    assert value is None
    assert reason is not None
    return reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("A + MISSING", "MISSING has no value (column 5)"),
        ("A + nothing", "NOTHING has no value (column 5)"),
        ("A.p95", "A.p95 has no value (column 1)"),
        ('SCORE["a b"].max', 'SCORE["a b"].max has no value (column 1)'),
        ("A + NAN", "NAN is not a finite number (column 5)"),
        ("IF INFINITE > 0 THEN 1 ELSE 0", "INFINITE is not a finite number (column 4)"),
        ("A / ZERO", "division by zero (column 5)"),
        ("A / (ZERO * 2)", "division by zero (column 6)"),
        ("1 + SQRT(-A)", "SQRT: the square root of a negative number (column 5)"),
        ("LOG(ZERO)", "LOG: the logarithm of a number that is not positive (column 1)"),
        ("CLAMP(A, 1, 0)", "CLAMP: a range whose lower end is above its upper end (column 1)"),
        ("HUGE * 10", "the result of '*' is too large (column 1)"),
        ("HUGE * 10 - HUGE * 10", "the result of '*' is too large (column 1)"),
        ("AVERAGE(HUGE, HUGE)", "the result of AVERAGE is too large (column 1)"),
        ("WEIGHTED_SUM(HUGE:10)", "a weighted value"),
        ("A +\n  MISSING", "MISSING has no value (line 2, column 3)"),
    ],
)
def test_evaluate__undefined_formula_names_reason_and_position(text: str, reason: str) -> None:
    assert reason in reason_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "IF HUGE * 10 > 5 THEN 1 ELSE 0",
        # In floats each of them would be finite again: 1 / inf is 0, and MIN(1, inf) is 1.
        "1 / (HUGE * 10)",
        "MIN(1, HUGE * 10)",
        "MAX(1, -(HUGE * 10))",
        "CLAMP(HUGE * 10, 0, 1)",
        "THRESHOLD(HUGE * 10, 1)",
        "THRESHOLD(SQRT(ABS(HUGE * 10)), 1)",
        "IF (IF A > 0 THEN HUGE * 10 ELSE 1) == 1 THEN 1 ELSE 0",
    ],
)
def test_evaluate__overflow_is_not_hidden_by_later_operations(text: str) -> None:
    assert "too large" in reason_of(text)


def test_evaluate__missing_metric_is_not_zero() -> None:
    assert compile_formula("MISSING").evaluate({}).value is None
    assert compile_formula("WEIGHTED_SUM(A:1, MISSING:0)").evaluate(VALUES).value is None


def test_evaluate__undefined_condition_makes_the_choice_undefined() -> None:
    assert reason_of("IF MISSING > 0 THEN 1 ELSE 0") == "MISSING has no value (column 4)"
    assert reason_of("IF MISSING > 0 OR A > 0 THEN 1 ELSE 0") == "MISSING has no value (column 4)"


def test_coalesce__without_a_defined_value_lists_every_reason() -> None:
    assert_names(
        reason_of("COALESCE(MISSING, A / ZERO)"),
        "COALESCE is defined (column 1)",
        "MISSING has no value (column 10)",
        "division by zero (column 23)",
    )


def test_evaluate__integer_too_large_for_a_float_is_not_finite() -> None:
    value, reason = compile_formula("A").evaluate({Reference("A", "mean"): 10**400})
    assert value is None
    assert reason == "A is not a finite number (column 1)"
