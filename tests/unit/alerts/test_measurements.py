"""Measurements of watched values, their history and replays."""

from typing import Any

import pytest

from mosaico.alerts.backtest import Replay
from mosaico.alerts.evaluation.judging import Judge
from mosaico.alerts.evaluation.watched_values import (
    Measurement,
    measure_kpi,
    measure_metric,
    observe,
)
from mosaico.alerts.rules import (
    AlertEventState,
    Condition,
    RuleSpec,
    ValueSpec,
)
from mosaico.formula import Reference
from mosaico.metrics.aggregate import Aggregate, aggregate
from mosaico.metrics.registry import load_metrics
from mosaico.run_store.run_history import PastRun
from mosaico.statistics.verdict_rules import Side
from tests.support.past_runs import measurement_of, past_run, value_history


@pytest.fixture(autouse=True)
def _metrics() -> None:
    load_metrics()


# Four values with a standard deviation of sqrt(4/3) / 10: the standard error is sqrt(1/3) / 10.
SHARES = aggregate([0.4, 0.4, 0.6, 0.6])
ERROR = (0.04 / 3 / 4) ** 0.5


def test_measure_metric__a_mean_has_a_standard_error_and_a_percentile_has_none() -> None:
    mean = measure_metric(Reference("ROUGE", "mean"), SHARES)
    assert mean.point is not None
    assert (mean.point.value, mean.resolution) == (0.5, 0.25)
    assert mean.point.error == pytest.approx(ERROR)
    tail = measure_metric(Reference("ROUGE", "p95"), SHARES)
    assert (tail.spec.name, tail.resolution) == ("ROUGE.p95", 0.0)
    assert tail.point is not None
    assert tail.point.error is None


SHARE: dict[str, Any] = {"minimum": 0.0, "maximum": 1.0}


@pytest.mark.parametrize(
    ("metric", "stat", "subject"),
    [
        ("ROUGE", "mean", ValueSpec(name="ROUGE", harm=Side.LOW, is_share=True, **SHARE)),
        (
            "ERROR_RATE",
            "mean",
            ValueSpec(name="ERROR_RATE", harm=Side.HIGH, is_share=True, **SHARE),
        ),
        (
            "LATENCY_MS",
            "p95",
            ValueSpec(
                name="LATENCY_MS.p95", harm=Side.HIGH, logarithmic=True, unit="ms", minimum=0
            ),
        ),
        (
            "TOOL_CALLS",
            "mean",
            ValueSpec(name="TOOL_CALLS", harm=Side.BOTH, unit="calls per trace", minimum=0),
        ),
        ("ROUGE", "std", ValueSpec(name="ROUGE.std", harm=Side.BOTH, minimum=0)),
        ("LATENCY_MS", "coverage", ValueSpec(name="LATENCY_MS.coverage", is_share=True, **SHARE)),
        ("GONE", "mean", ValueSpec(name="GONE", harm=Side.BOTH)),
    ],
)
def test_measure_metric__the_harmful_side_comes_from_the_metric(
    metric: str, stat: str, subject: ValueSpec
) -> None:
    assert measure_metric(Reference(metric, stat), SHARES).spec == subject


def kpi(formula: str, aggregates: dict[str, Aggregate], value: float | None) -> Measurement:
    return measure_kpi(
        name="quality",
        direction="LOWER_IS_BETTER",
        unit=None,
        formula=formula,
        value=value,
        reason="why not",
        aggregates=aggregates,
    )


def test_measure_kpi__a_plain_metric_keeps_its_spec_with_the_direction_of_the_kpi() -> None:
    measurement = kpi("ROUGE", {"ROUGE": SHARES}, 0.5)
    assert measurement.spec == ValueSpec(name="quality", harm=Side.HIGH, is_share=True, **SHARE)
    assert measurement.resolution == 0.25


def test_measure_kpi__has_the_range_of_its_formula() -> None:
    spec = kpi("100 * ROUGE + BLEU", {"ROUGE": SHARES, "BLEU": SHARES}, 50.0).spec
    assert (spec.minimum, spec.maximum) == (0, 101)


def test_measure_kpi__the_error_adds_up_the_effects_of_all_means() -> None:
    # 2 · error of ROUGE + 3 · error of BLEU; a difference moves as far as a sum.
    for formula in ("2 * ROUGE + 3 * BLEU", "2 * ROUGE - 3 * BLEU"):
        point = kpi(formula, {"ROUGE": SHARES, "BLEU": SHARES}, 0.9).point
        assert point is not None
        assert point.error == pytest.approx(5 * ERROR)


@pytest.mark.parametrize("formula", ["ROUGE.p95 + BLEU", "ROUGE + EXACT_MATCH"])
def test_measure_kpi__without_the_error_of_one_reference_there_is_none(formula: str) -> None:
    point = kpi(formula, {"ROUGE": SHARES, "BLEU": SHARES}, 0.9).point
    assert point is not None
    assert point.error is None


def test_measure_kpi__an_undefined_kpi_has_a_reason() -> None:
    measurement = kpi("ROUGE / 0", {"ROUGE": SHARES}, None)
    assert (measurement.point, measurement.reason) == (None, "why not")


def test_observe__only_comparable_runs_are_history() -> None:
    past = [
        past_run(1),
        past_run(2, validity="INVALID"),
        past_run(3, status="FAILED", validity=None),
        past_run(4)._replace(fingerprint="other"),
        past_run(5),
        past_run(6),
    ]
    readings = {seq: measurement_of(seq / 10) for seq in range(1, 6)} | {6: measurement_of(None)}
    observation = observe(measurement_of(0.7), "print", past, readings)
    assert [point.value for point in observation.history] == [0.1, 0.5]
    assert observe(None, "print", past, readings).value is None


def replay(rule: RuleSpec, runs: list[PastRun], readings: dict[int, Measurement]) -> Replay:
    return Replay(runs=Judge(rule, value_history(runs, readings)).replay(runs))


def test_replay__counts_false_alarms_per_month_of_its_time_span() -> None:
    # Eleven runs, 0.5 in two of them apart from each other: two alarms in ten days.
    runs = [past_run(seq) for seq in range(11)]
    readings = {seq: measurement_of(0.5 if seq in (3, 7) else 0.9) for seq in range(11)}
    rule = RuleSpec(condition=Condition.LESS_THAN, threshold=0.8, keep_firing_for_runs=0)
    replayed = replay(rule, runs, readings)
    assert (
        replayed.count_notifications(AlertEventState.FIRING),
        replayed.count_notifications(AlertEventState.RESOLVED),
    ) == (2, 2)
    assert replayed.false_alarms_per_month() == pytest.approx(6.0)
    assert replayed.min_detectable_effect(rule) == pytest.approx(0.1)
    # Six days are too short to be multiplied up to a month.
    assert replay(rule, runs[:7], readings).false_alarms_per_month() is None
    assert replay(rule, [], {}).min_detectable_effect(rule) is None
