"""A formula over many rows gives in each row the value of the single evaluation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mosaico.formula import Reference, compile_formula, format_expression
from mosaico.formula.ast import Expr
from mosaico.formula.rows import FormulaRows, InstabilityKind, evaluate_rows
from tests.unit.formula.formula_strategies import FEW, numbers, without_deadline

A, B, C = (Reference(name, "mean") for name in "ABC")
# Few values often, so that columns tie; −0.0 because bits are compared.
SEEN = st.none() | st.sampled_from([0.0, -0.0, 0.5, 1.0]) | st.floats(allow_nan=False)


def evaluate_text(text: str, **columns: list[float]) -> FormulaRows:
    metric_columns = {Reference(name, "mean"): np.array(values) for name, values in columns.items()}
    return evaluate_rows(compile_formula(text), metric_columns)


@given(
    root=numbers(st.sampled_from(FEW)),
    table=st.lists(st.lists(SEEN, min_size=len(FEW), max_size=len(FEW)), min_size=1, max_size=5),
)
@without_deadline
def test_evaluate_rows__each_row_equals_the_single_evaluation_bit_for_bit(
    root: Expr, table: list[list[float | None]]
) -> None:
    formula = compile_formula(format_expression(root))
    columns = {
        reference: np.array([np.nan if row[index] is None else row[index] for row in table])
        for index, reference in enumerate(FEW)
    }
    values = evaluate_rows(formula, columns).values
    alone = [formula.evaluate(dict(zip(FEW, row, strict=True))).value for row in table]
    expected = np.array([np.nan if value is None else value for value in alone])
    assert np.broadcast_to(values, expected.shape).tobytes() == expected.tobytes()


def test_evaluate_rows__minimum_of_nearly_tied_metrics_is_flagged() -> None:
    # Row 0: A is the smaller one; of the four resamples B is in one.
    rows = evaluate_text("1 + MIN(A, B)", A=[0.5, 0.5, 0.5, 0.5, 0.7], B=[0.6] * 5)
    assert rows.instabilities == ((InstabilityKind.TIE, "MIN(A, B)", 0.25),)


def test_evaluate_rows__minimum_with_a_clear_winner_is_not_flagged() -> None:
    assert evaluate_text("MIN(A, B)", A=[0.1] * 5, B=[0.6] * 5).instabilities == ()


def test_evaluate_rows__condition_that_differs_in_5_percent_of_rows_is_a_cliff() -> None:
    # Row 0 is the observed value; of the 20 resamples one is below the limit.
    values = [0.5, *[0.5] * 19, 0.4]
    rows = evaluate_text("IF A >= 0.5 THEN 1 ELSE 0", A=values)
    assert rows.instabilities == ((InstabilityKind.CLIFF, "A >= 0.5", 0.05),)
    assert (
        evaluate_text("THRESHOLD(A, 0.5)", A=values).instabilities[0].kind is InstabilityKind.CLIFF
    )
    assert evaluate_text("THRESHOLD(A, 0.3)", A=values).instabilities == ()


def test_evaluate_rows__unused_branch_is_not_flagged() -> None:
    # The minimum is computed in the second branch only, and the values as seen take the first.
    rows = evaluate_text("IF C > 0 THEN 1 ELSE MIN(A, B)", A=[1, 3, 1], B=[2, 2, 2], C=[1, 1, 1])
    assert rows.instabilities == ()


def test_evaluate_rows__formula_without_metrics_has_one_row() -> None:
    assert evaluate_text("1 + 1").values.tolist() == [2.0]
