"""The trend of a formula holds for its values: no input that improves moves them the other way."""

import math

from hypothesis import given
from hypothesis import strategies as st

from mosaico.formula import CompiledFormula, Reference, compile_formula
from mosaico.formula.bounds import Bounds
from mosaico.formula.trend import Trend, trend_of

A, B, C = (Reference(name, "mean") for name in "ABC")
# A is a rate that improves when it rises, B a cost that improves when it falls, C a score of any sign.
TRENDS = {A: Trend.RISES, B: Trend.FALLS, C: Trend.RISES}
RANGES = {A: Bounds(0.0, 1.0), B: Bounds(0.0, math.inf), C: Bounds(-math.inf, math.inf)}
LIMITS = {A: (0.0, 1.0), B: (0.0, 50.0), C: (-5.0, 5.0)}


def combine(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(parts, parts)
    return st.one_of(
        st.tuples(parts, st.sampled_from("+-*/"), parts).map(lambda three: f"({' '.join(three)})"),
        parts.map(lambda part: f"-({part})"),
        st.tuples(st.sampled_from(["MIN", "MAX", "AVERAGE", "THRESHOLD"]), pair).map(
            lambda call: f"{call[0]}({call[1][0]}, {call[1][1]})"
        ),
        st.tuples(st.sampled_from(["ABS", "SQRT", "LOG"]), parts).map(
            lambda call: f"{call[0]}({call[1]})"
        ),
        pair.map(lambda two: f"WEIGHTED_SUM({two[0]}:0.5, {two[1]}:-2)"),
        pair.map(lambda two: f"IF {two[0]} > {two[1]} THEN 2 ELSE 1"),
        pair.map(lambda two: f"IF NOT {two[0]} < {two[1]} THEN 0 ELSE 1"),
    ).map(lambda text: f"({text})")


FORMULAS = st.recursive(st.sampled_from(["A", "B", "C", "0.5", "3", "0"]), combine, max_leaves=6)


def trend(formula: CompiledFormula) -> Trend:
    return trend_of(formula.root, TRENDS, RANGES)


@given(text=FORMULAS, data=st.data())
def test_trend__value_never_moves_against_it(text: str, data: st.DataObject) -> None:
    formula = compile_formula(text)
    before, after = dict[Reference, float | None](), dict[Reference, float | None]()
    for reference, (low, high) in LIMITS.items():
        worse, better = sorted(data.draw(st.floats(low, high)) for _ in range(2))
        if TRENDS[reference] is Trend.FALLS:
            worse, better = better, worse
        before[reference], after[reference] = worse, better
    first, second = formula.evaluate(before).value, formula.evaluate(after).value
    if first is None or second is None:
        return
    tolerance = 1e-9 * max(1.0, abs(first), abs(second))
    match trend(formula):
        case Trend.RISES:
            assert second >= first - tolerance
        case Trend.FALLS:
            assert second <= first + tolerance
        case Trend.CONSTANT:
            assert math.isclose(first, second, abs_tol=tolerance)
        case _:
            pass


def test_trend__of_an_unknown_input_is_unknown() -> None:
    assert trend_of(compile_formula("A + D").root, TRENDS, RANGES) is Trend.UNKNOWN
    assert trend_of(compile_formula("IF A > B THEN B ELSE A").root, TRENDS, RANGES) is Trend.UNKNOWN
