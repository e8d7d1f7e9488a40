"""A KPI of a run as a mean over items."""

import math

import numpy as np
import pytest

from mosaico.formula import Reference, compile_formula
from mosaico.items.formulas.linearization import linearize, log_ratio

A = np.array([1.0, 0.0, 1.0, 0.5])
B = np.array([0.2, 0.4, np.nan, 0.6])
MEANS = {Reference("A", "mean"): A, Reference("B", "mean"): B}


def test_linearize__a_metric_is_its_item_means() -> None:
    kpi = linearize(compile_formula("A"), MEANS)
    assert kpi is not None
    assert kpi.value == pytest.approx(0.625)
    assert kpi.item_values == pytest.approx(A, abs=1e-9)


def test_linearize__mean_of_the_items_is_the_kpi() -> None:
    # By hand: the gradient of A / B at (0.625, 0.4) is (2.5, -3.90625); B has three of four items.
    kpi = linearize(compile_formula("A / B"), MEANS)
    assert kpi is not None
    assert kpi.value == pytest.approx(0.625 / 0.4)
    by_hand = kpi.value + 2.5 * (A - 0.625) - 3.90625 * np.nan_to_num(B - 0.4) * 4 / 3
    assert kpi.item_values == pytest.approx(by_hand, abs=1e-6)
    assert kpi.item_values.mean() == pytest.approx(kpi.value)


def test_log_ratio__is_known_where_the_ratio_is_no_float() -> None:
    assert log_ratio(3.0, 2.0) == math.log(1.5)
    for value, baseline in ((1e-200, 1e200), (1e200, 1e-200)):
        expected = 400 * math.log(10) * (1 if value > baseline else -1)
        assert log_ratio(value, baseline) == pytest.approx(expected)


@pytest.mark.parametrize("value", [0.1, 0.7, 1e-9, 12345.678])
def test_linearize__items_that_are_all_alike_do_not_differ_by_rounding(value: float) -> None:
    means = {
        Reference("A", "mean"): np.full(30, value),
        Reference("B", "mean"): np.full(30, value * 3),
    }
    for formula in ("A", "A / B", "A * B", "MAX(A, A) * 100"):
        kpi = linearize(compile_formula(formula), means)
        assert kpi is not None
        assert (kpi.item_values == kpi.value).all()


def test_linearize__undefined_kpi_is_none() -> None:
    nothing = {Reference("A", "mean"): A, Reference("B", "mean"): np.full(4, np.nan)}
    assert linearize(compile_formula("A / B"), nothing) is None
    assert linearize(compile_formula("A.p95"), MEANS) is None


def test_linearize__first_defined_metric_counts() -> None:
    nothing = {Reference("A", "mean"): A, Reference("B", "mean"): np.full(4, np.nan)}
    kpi = linearize(compile_formula("COALESCE(B, A)"), nothing)
    assert kpi is not None
    assert kpi.item_values == pytest.approx(A, abs=1e-9)
