"""Which formulas are means over items, and which have to be resampled."""

import pytest

from app.comparison.variance import is_item_mean
from app.formula import compile_formula
from app.metrics.types import MetricRef


@pytest.mark.parametrize(
    "text",
    ["A", "A * 2 - B / 4", "-(0.5 * A)", "AVERAGE(A, B)", "WEIGHTED_SUM(A:0.3, B + 1:0.7)"],
)
def test_is_item_mean__linear_formulas_of_means(text: str) -> None:
    assert is_item_mean(compile_formula(text), {})


@pytest.mark.parametrize(
    "text",
    ["A * B", "2 / A", "MIN(A, B)", "THRESHOLD(A, 0.8)", "IF A > B THEN A ELSE B", "A.p95 + B"],
)
def test_is_item_mean__not_for_other_formulas(text: str) -> None:
    assert not is_item_mean(compile_formula(text), {})


def test_is_item_mean__not_for_label_counts() -> None:
    assert not is_item_mean(compile_formula("A + B"), {"B": MetricRef.of("B")})
