"""Evaluation of the KPIs of a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaico.formula import register_metric_keys
from mosaico.kpis.evaluate import KpiValue, PlannedKpi, evaluate_kpis
from mosaico.metrics.aggregate import aggregate
from mosaico.metrics.registry import load_metrics
from mosaico.metrics.types import MetricRef
from mosaico.metrics.unread_texts import measured_texts

register_metric_keys(["ROUGE", "BLEU"])


def kpi(formula: str, low: float | None = None, high: float | None = None) -> PlannedKpi:
    return PlannedKpi(
        id=formula,
        revision=1,
        name=formula,
        formula=formula,
        direction="NEITHER",
        unit=None,
        threshold_min=low,
        threshold_max=high,
    )


def value_of(planned: PlannedKpi, values: dict[tuple[str, str], float | None]) -> KpiValue:
    [value] = evaluate_kpis([planned], lambda key, name: values[key, name])
    return value


def test_evaluate_kpis__each_kpi_reads_the_statistics_of_its_formula() -> None:
    # (0.5 + 0.7) / 2 = 0.6, with the 95th percentile of BLEU.
    kpi_value = value_of(
        kpi("AVERAGE(ROUGE, bleu.P95)"), {("ROUGE", "mean"): 0.5, ("BLEU", "p95"): 0.7}
    )
    assert kpi_value.value == pytest.approx(0.6)
    assert kpi_value.reason is None


def test_evaluate_kpis__a_missing_metric_makes_the_kpi_undefined() -> None:
    kpi_value = value_of(
        kpi("ROUGE + BLEU", low=0), {("ROUGE", "mean"): 0.5, ("BLEU", "mean"): None}
    )
    assert kpi_value.value is None
    # Column 9 of "ROUGE + BLEU".
    assert kpi_value.reason == "BLEU has no value (column 9)"
    assert kpi_value.within_thresholds is None


def test_evaluate_kpis__a_metric_that_cannot_read_the_texts_is_named() -> None:
    load_metrics()
    aggregates = {
        "ROUGE": aggregate([], expected=0, missing={"NOT_APPLICABLE": 60}),
        "BLEU": aggregate([0.5] * 60),
    }
    texts = measured_texts([MetricRef.of("ROUGE"), MetricRef.of("BLEU")], aggregates)
    planned = [kpi("MIN(ROUGE, BLEU)"), kpi("BLEU"), kpi("ROUGE.count")]
    values = evaluate_kpis(planned, lambda key, name: aggregates[key].statistic(name), texts)
    assert [value.value for value in values] == [None, 0.5, 0.0]
    reason = values[0].reason
    assert reason is not None
    assert reason.startswith("ROUGE has no value (column 5): ROUGE cannot read 60 of 60")
    assert "CHRF" in reason


@pytest.mark.parametrize(
    ("low", "high", "within"),
    [
        (None, None, None),
        (0.5, None, True),
        (0.51, None, False),
        (None, 0.5, True),
        (None, 0.49, False),
        (0.5, 0.5, True),
        (0.6, 1, False),
        (0, 0.4, False),
    ],
)
def test_within_thresholds__bounds_are_inclusive(
    low: float | None, high: float | None, within: bool | None
) -> None:
    kpi_value = value_of(kpi("ROUGE", low, high), {("ROUGE", "mean"): 0.5})
    assert kpi_value.within_thresholds is within


# Means are finite; with 0 and the smallest floats the formula has no value.
@given(st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_evaluate_kpis__a_value_or_a_reason_and_never_both(rouge: float | None) -> None:
    kpi_value = value_of(kpi("1 / ROUGE"), {("ROUGE", "mean"): rouge})
    assert (kpi_value.value is None) == bool(kpi_value.reason)


def test_evaluate_kpis__without_kpis_there_are_no_values() -> None:
    assert evaluate_kpis([], lambda _key, _name: 0.0) == []
