"""Percentiles and statistics of repeated trials in the aggregate of a run; expected numbers by hand."""

import pytest

from mosaico.kpis.evaluate import PlannedKpi, evaluate_kpis
from mosaico.metrics.aggregate import Aggregate, aggregate

# Item x: two of four trials pass; y: one of three; z: the only one.
COLUMN = [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, None]
ITEMS = ["x"] * 4 + ["y"] * 3 + ["z"] * 2
RUN = aggregate(COLUMN, items=ITEMS)


@pytest.mark.parametrize(
    ("stat", "value"),
    [
        ("pass_at_1", (1 / 2 + 1 / 3 + 1) / 3),
        ("pass_pow_1", (1 / 2 + 1 / 3 + 1) / 3),
        # x: 1 - C(2,2)/C(4,2) = 5/6; y: 1 - C(2,2)/C(3,2) = 2/3; z has one trial only.
        ("pass_at_2", (5 / 6 + 2 / 3) / 2),
        # Both trials of x pass in 1 of 6 pairs, those of y in none.
        ("pass_pow_2", (1 / 6 + 0) / 2),
        ("pass_at_4", 1.0),
        ("pass_pow_4", 0.0),
        ("pass_at_5", None),
    ],
)
def test_aggregate__pass_statistics_of_repeated_trials(stat: str, value: float | None) -> None:
    assert RUN.statistic(stat) == (value if value is None else pytest.approx(value))


def test_aggregate__every_percentile_interpolates() -> None:
    numbers = aggregate([10.0, 20.0, 30.0, 40.0, 50.0])
    # (5 - 1) * 0.9 = 3.6: 40 + 0.6 * 10.
    assert numbers.statistic("p90") == pytest.approx(46.0)
    assert numbers.statistic("p1") == pytest.approx(10.4)
    assert numbers.statistic("p50") == numbers.p50
    assert aggregate([]).statistic("p90") is None


def reason_of(formula: str, run: Aggregate) -> str | None:
    kpi = PlannedKpi(
        id="k", revision=1, name="k", formula=formula, direction="HIGHER_IS_BETTER", unit=None,
        threshold_min=None, threshold_max=None,
    )  # fmt: skip
    [value] = evaluate_kpis(
        [kpi],
        lambda _key, stat: run.statistic(stat),
        explain_missing=lambda reference: run.explain_missing(reference.stat),
    )
    return value.reason


def test_kpi__more_trials_than_there_are_is_named() -> None:
    assert reason_of("PASS_AT_K(TASK_PASSED, 4)", RUN) is None
    reason = reason_of("PASS_AT_K(TASK_PASSED, 5)", RUN)
    assert reason is not None
    assert "no item has 5 trials, the most is 4" in reason


def test_kpi__grades_have_no_passes_and_that_is_named() -> None:
    reason = reason_of("PASS_POW_K(ROUGE, 1)", aggregate([0.5, 1.0]))
    assert reason is not None
    assert "not 0 or 1" in reason


def test_aggregate__counts_items_with_too_few_trials() -> None:
    assert RUN.items_without("pass_at_2") == (1, 3)
    assert RUN.items_without("pass_at_1") == (0, 3)
