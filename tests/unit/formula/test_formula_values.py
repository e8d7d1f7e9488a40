"""Values of formulas."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from simpleeval import simple_eval

from mosaico.formula import CompiledFormula, Reference, compile_formula, format_expression
from mosaico.formula.ast import Expr
from mosaico.formula.evaluate import explain
from tests.unit.formula.formula_strategies import ARITHMETIC, FEW, numbers, without_deadline

METRICS = {"A": 0.5, "B": 0.25, "C": 0.2, "ZERO": 0.0, "MINUS": -4.0}
VALUES = {Reference(name, "mean"): value for name, value in METRICS.items()} | {
    Reference("A", "p95"): 0.9,
    Reference("A", "count"): 200.0,
    Reference('SCORE["Answer Relevance"]', "mean"): 0.7,
    Reference('SCORE["Answer Relevance"]', "p95"): 0.8,
    Reference('SCORE["answer relevance"]', "mean"): 0.1,
    Reference('LLM_JUDGE["tone"]', "p95"): 0.9,
    Reference('SCORE["say \\"hi\\" \\\\"]', "mean"): 0.3,
}


def value_of(text: str) -> float:
    value, reason = compile_formula(text).evaluate(VALUES)
    assert value is not None, reason
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", 0.5),
        ("a.MEAN", 0.5),
        ("A.p95", 0.9),
        ("a.P95", 0.9),
        ("A.count", 200.0),
        ('SCORE["Answer Relevance"]', 0.7),
        ('score["Answer Relevance"].P95', 0.8),
        ('SCORE["answer relevance"]', 0.1),
        (r'SCORE["say \"hi\" \\"]', 0.3),
        ('llm_judge["tone"].p95', 0.9),
        ("1.5e2", 150.0),
        (".5", 0.5),
        ("5.", 5.0),
        # half of 0.5 + 0.25
        ("AVERAGE(A, B)", 0.375),
        ("AVERAGE(A)", 0.5),
        # 0.5*0.5 + 0.25*0.3 + 0.2*0.2 = 0.25 + 0.075 + 0.04
        ("WEIGHTED_SUM(A:0.5, B:0.3, C:0.2)", 0.365),
        # the plain sum, whatever the weights add up to: 0.5*2 + 0.25*(-1) = 0.75
        ("WEIGHTED_SUM(A:2, B:-1)", 0.75),
        ("WEIGHTED_SUM(A:+2, B:-2, B:-2)", 0.0),
        # (0.5 + 0.25) * 4 = 3
        ("WEIGHTED_SUM(A + B:4)", 3.0),
        ("MIN(A, B, C)", 0.2),
        ("MAX(A, B, C)", 0.5),
        ("MIN(A)", 0.5),
        ("THRESHOLD(A, 0.5)", 1.0),
        ("THRESHOLD(B, A)", 0.0),
        # 0.5 - 0.25/0.5 = 0
        ("A - B / A", 0.0),
        ("(A - B) / A", 0.5),
        # left to right: (8 / 4) / 2 and (8 - 4) - 2
        ("8 / 4 / 2", 1.0),
        ("8 - 4 - 2", 2.0),
        ("-A * 2", -1.0),
        ("2 * -A", -1.0),
        ("--A", 0.5),
        ("IF A > B THEN 1 ELSE 2", 1.0),
        ("IF A < B THEN 1 ELSE 2", 2.0),
        ("if a >= 0.5 and b <= 0.25 then 1 else 0", 1.0),
        ("IF A > 1 OR B > 1 OR C > 0 THEN 1 ELSE 0", 1.0),
        # NOT binds tighter than AND: (NOT false) AND true
        ("IF NOT A > 1 AND B > 0 THEN 1 ELSE 0", 1.0),
        # AND binds tighter than OR: true OR (false AND false)
        ("IF A > 0 OR A > 1 AND B > 1 THEN 1 ELSE 0", 1.0),
        ("IF (A > 0 OR A > 1) AND B > 1 THEN 1 ELSE 0", 0.0),
        # ELSE takes all to its right: IF … ELSE (2 + 10)
        ("IF A > B THEN 1 ELSE 2 + 10", 1.0),
        ("10 + IF A > B THEN 1 ELSE 2", 11.0),
        ("IF A > 1 THEN 1 ELSE IF B > 1 THEN 2 ELSE 3", 3.0),
        ("IF IF A > 1 THEN B > 0 ELSE C > 0 THEN 1 ELSE 0", 1.0),
        ("ABS(MINUS)", 4.0),
        ("SQRT(-MINUS)", 2.0),
        ("SQRT(ZERO)", 0.0),
        ("LOG(1)", 0.0),
        ("CLAMP(A * 4, 0, 1)", 1.0),
        ("CLAMP(MINUS, 0, 1)", 0.0),
        ("CLAMP(A, 0, 1)", 0.5),
        ("COALESCE(A, B)", 0.5),
        ("COALESCE(MISSING, B)", 0.25),
        ("COALESCE(A / ZERO, SQRT(MINUS), LOG(ZERO), 1e308 * 1e308, C)", 0.2),
    ],
)  # fmt: skip
def test_evaluate__equals_the_manual_calculation(text: str, expected: float) -> None:
    assert value_of(text) == pytest.approx(expected, rel=1e-15, abs=0)


def test_log__is_the_natural_logarithm() -> None:
    assert value_of("LOG(A)") == math.log(0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 0.1 + 0.2 is 0.30000000000000004, off by 2e-16 of itself
        ("IF 0.1 + 0.2 == 0.3 THEN 1 ELSE 0", 1.0),
        ("IF 0.1 + 0.2 != 0.3 THEN 1 ELSE 0", 0.0),
        ("IF 1 == 1.0000000005 THEN 1 ELSE 0", 1.0),
        ("IF 1 == 1.00000001 THEN 1 ELSE 0", 0.0),
        # relative: near zero nothing but zero equals zero
        ("IF 0 == 1e-300 THEN 1 ELSE 0", 0.0),
        # the other comparisons are exact
        ("IF 0.1 + 0.2 <= 0.3 THEN 1 ELSE 0", 0.0),
    ],
)
def test_equality__allows_a_relative_difference_of_one_billionth(
    text: str, expected: float
) -> None:
    assert value_of(text) == expected


def test_evaluate__result_is_never_negative_zero() -> None:
    assert math.copysign(1.0, value_of("ZERO * -1")) == 1.0


def test_if__evaluates_only_the_chosen_branch() -> None:
    assert value_of("IF A > B THEN A ELSE MISSING / ZERO") == 0.5
    assert value_of("IF A < B THEN MISSING ELSE A") == 0.5


def test_and_or__stop_when_the_left_operand_decides() -> None:
    assert value_of("IF A < B AND MISSING > 0 THEN 1 ELSE 0") == 0.0
    assert value_of("IF A > B OR 1 / ZERO > 0 THEN 1 ELSE 0") == 1.0


def test_formula__references_are_unique_and_ordered() -> None:
    formula = compile_formula('B + A.p95 + b.mean + SCORE["x"] + A')
    assert formula.references == (
        Reference("B", "mean"),
        Reference("A", "p95"),
        Reference('SCORE["x"]', "mean"),
        Reference("A", "mean"),
    )


def test_compile__formula_cannot_reach_builtins() -> None:
    function = compile_formula("ABS(A)").function
    assert vars(function).get("__builtins__") is None
    assert function.__globals__["__builtins__"] == {}


inputs = st.dictionaries(
    st.sampled_from(FEW),
    # The ends of the floats, which overflow and underflow; random floats hardly ever hit them.
    st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, None, math.nan, math.inf])
    | st.floats(allow_nan=False, allow_infinity=False),
)


@without_deadline
@given(numbers(st.sampled_from(FEW)), inputs)
def test_compile__function_and_explanation_agree_bit_for_bit(
    root: Expr, values: dict[Reference, float | None]
) -> None:
    formula = compile_expression(root)
    fast, slow = formula.evaluate(values), explain(formula.root, formula.source, values)
    assert repr(fast) == repr(slow)
    assert (fast.value is None) != (fast.reason is None)
    assert fast.value is None or math.isfinite(fast.value)


@without_deadline
@given(
    # The means only: a name with a statistic, such as A.p95, is an attribute for simpleeval.
    numbers(st.sampled_from(FEW[::2]), ARITHMETIC),
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3),
)
def test_evaluate__arithmetic_equals_python(root: Expr, numbers_given: list[float]) -> None:
    formula = compile_expression(root)
    values = dict(zip(FEW[::2], numbers_given, strict=True))
    value, reason = formula.evaluate(values)
    # Python goes on with an infinite part (1 / inf is 0); a formula does not.
    assume(reason is None or "too large" not in reason)
    plain = {reference.key: value for reference, value in values.items()}
    try:
        expected = simple_eval(formula.text, names=plain)
    except (ZeroDivisionError, OverflowError):
        assert value is None
        return
    # simpleeval reads whole numbers as exact integers; a formula computes with floats.
    assert value == pytest.approx(expected, rel=1e-12)


def compile_expression(root: Expr) -> CompiledFormula:
    return compile_formula(format_expression(root))
