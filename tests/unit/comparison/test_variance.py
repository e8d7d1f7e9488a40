"""Which KPIs are means of what their formula says of each item, and which have to be resampled."""

import pytest

from app.comparison.variance import is_item_mean
from app.formula import compile_formula
from app.metrics.types import MetricRef


@pytest.mark.parametrize(
    "text",
    ["A", "A * 2 - B / 4", "-(0.5 * A)", "AVERAGE(A, B)", "WEIGHTED_SUM(A:0.3, B + 1:0.7)"],
)
def test_sums_of_means_are_means_of_the_items_sums(text: str) -> None:
    assert is_item_mean(compile_formula(text), {})


@pytest.mark.parametrize(
    "text",
    ["A * B", "2 / A", "MIN(A, B)", "THRESHOLD(A, 0.8)", "IF A > B THEN A ELSE B", "A.p95 + B"],
)
def test_all_others_are_not(text: str) -> None:
    assert not is_item_mean(compile_formula(text), {})


def test_what_is_read_off_counts_is_not() -> None:
    assert not is_item_mean(compile_formula("A + B"), {"B": MetricRef.of("B")})
