"""One metric without values, at a limit or with an error voids no other verdict."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mosaico.comparison.category_values import values_by_category
from mosaico.comparison.comparison_rules import RunComparison
from mosaico.comparison.pair_comparison import RunPair, compare
from mosaico.comparison.schemas import CategoryMetric
from mosaico.comparison.value_failures import ValueFailures
from mosaico.kpis.verdict_types import ValueVerdict
from mosaico.metrics.providers.operation import ToolCallSuccessRate
from mosaico.statistics.verdict_rules import Verdict, VerdictNote
from tests.support.random_benchmarks import RandomBenchmark, measure_runs
from tests.support.service import JSON, pair

pytestmark = pytest.mark.usefixtures("plugins")

RATE = "TOOL_CALL_SUCCESS_RATE"
METRICS = ["LATENCY_MS", RATE, "ACCURACY"]
ITEMS = 30
OK, UNKNOWN = {"name": "search", "ok": True}, {"name": "search"}


def traces(wrong: int = 0, calls: Sequence[Sequence[JSON] | None] = (None,)) -> list[JSON]:
    """Thirty answers, of which the first ones are wrong, with these tool calls in turn."""
    return [
        pair(
            number, "yes", "no" if number < wrong else "yes", latencyMs=100.0 + number,
            toolCalls=calls[number % len(calls)],
        )
        for number in range(ITEMS)
    ]  # fmt: skip


def measured(
    baseline: list[JSON],
    candidate: list[JSON],
    kpis: dict[str, str] | None = None,
    metrics: Sequence[object] = METRICS,
) -> RunPair:
    formulas = {"quality": "ACCURACY"} if kpis is None else kpis
    return measure_runs(RandomBenchmark([*metrics], formulas, baseline, candidate))


def verdicts(runs: RunPair) -> dict[str, ValueVerdict]:
    """The verdicts of metrics and KPIs by name; the KPIs are judged, the metrics are not."""
    comparison = compare(replace(runs, judged=()))
    return {
        **{metric.metric: metric.verdict for metric in comparison.metrics},
        **{kpi.name: kpi.verdict for kpi in comparison.kpis},
    }


def rate_of_all(runs: RunPair) -> CategoryMetric:
    """The tool success of the candidate as the only category."""
    comparison = RunComparison(plan=runs.candidate.plan, kpis=runs.kpis, baseline=None)
    items = runs.candidate.items
    [values] = values_by_category("run-1", comparison, items, {"all": {*items.items}})
    return next(metric for metric in values.metrics if metric.metric == RATE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([None], [None]), ([[]], [[]]), ([[UNKNOWN]], [[UNKNOWN]]),
        ([[OK]], [None]), ([None], [[OK]]), ([[OK], None], [None, [OK]]),
    ],
)  # fmt: skip
def test_metric_without_values__is_missing_and_the_others_are_judged(
    before: Sequence[list[JSON] | None], after: Sequence[list[JSON] | None]
) -> None:
    runs = measured(traces(calls=before), traces(10, calls=after))
    found = verdicts(runs)
    assert (found[RATE].verdict, found[RATE].notes) == (Verdict.INVALID, (VerdictNote.NO_ITEMS,))
    for name in ("ACCURACY", "quality"):
        assert found[name].verdict is Verdict.REGRESSED
        assert found[name].effect == pytest.approx(-10 / 30)
    assert found["LATENCY_MS"].verdict is Verdict.NO_EVIDENCE


def test_rate_of_calls__that_all_succeed_is_like_any_other_rate_of_1() -> None:
    calls = [[OK] * number for number in range(1, 8)]
    runs = measured(traces(calls=calls), traces(calls=[*reversed(calls), [OK]]))
    found = verdicts(runs)
    rate, accuracy = found[RATE], found["ACCURACY"]
    # Nothing changed in 30 items: another one may still change in 1 - 0.025^(1/30) of all.
    assert (rate.low, rate.high) == pytest.approx((-0.11570, 0.0), abs=1e-5)
    assert (rate.low, rate.high, rate.verdict) == (accuracy.low, accuracy.high, accuracy.verdict)
    assert VerdictNote.IDENTICAL in rate.notes
    # Wilson for 30 of 30 with t of 29 degrees, 2.04523: 30 / (30 + 2.04523²) = 0.87763.
    values = rate_of_all(runs)
    assert (values.value, values.interval_high, values.reason) == (1.0, 1.0, None)
    assert values.interval_low == pytest.approx(0.87763, abs=1e-5)


def test_one_item__with_a_kpi_beyond_1_has_no_verdict_and_no_error() -> None:
    kpi = {"greatest": "MAX(BLEU, BLEU) * 100"}
    found = verdicts(measured([pair(1)], [pair(1)], kpi, ["BLEU"]))
    assert found["greatest"].verdict is Verdict.INCONCLUSIVE
    assert found["greatest"].notes == (VerdictNote.IDENTICAL, VerdictNote.FEW_ITEMS)
    assert found["greatest"].value == pytest.approx(100.0)


@pytest.mark.parametrize("formula", ['SCORE["x"]', 'SCORE["x"].p95', 'SCORE["x"] * SCORE["x"]'])
def test_largest_numbers__void_no_other_verdict(formula: str) -> None:
    scores = [{"x": sign * 1.7e308} for sign in (1, -1)] * (ITEMS // 2)
    before, after = (
        [trace | {"scores": score} for trace, score in zip(run, scores, strict=True)]
        for run in (traces(), traces(10))
    )
    metrics = [*METRICS, {"key": "SCORE", "options": {"name": "x"}}]
    found = verdicts(measured(before, after[::-1], {"score": formula}, metrics))
    assert found["ACCURACY"].verdict is Verdict.REGRESSED
    assert found["score"].explanation


def fail(*_: object) -> None:
    raise RuntimeError("no counts today")


def test_unexpected_error__of_one_metric_touches_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    kpis = {"quality": "ACCURACY", "calls": f"100 * {RATE}", "both": f"MIN(ACCURACY, {RATE})"}
    runs = measured(traces(calls=[[OK]]), traces(10, calls=[[OK]]), kpis)
    expected = verdicts(runs)
    monkeypatch.setattr(ToolCallSuccessRate, "values_of_counts", fail)
    found = verdicts(runs)
    for name in ("ACCURACY", "quality"):
        # The family of the adjusted p-values is smaller.
        assert found[name].p == expected[name].p
        assert found[name].verdict is Verdict.REGRESSED
    for name in (RATE, "calls", "both"):
        assert found[name].verdict is None
        assert found[name].reason == (
            f"the comparison of {name} failed: RuntimeError: no counts today"
        )
    run = compare(replace(runs, judged=())).verdict
    assert run.verdict is Verdict.REGRESSED
    for name in (RATE, "calls", "both"):
        assert f"The comparison of {name} failed: RuntimeError" in run.explanation
    values = rate_of_all(runs)
    assert (values.value, values.reason) == (None, found[RATE].reason)


def test_value_failures__keep_the_first_error_of_each_metric() -> None:
    failures = ValueFailures()
    assert failures.attempt(("A", None), lambda: 1 // 0) is None
    assert failures.attempt(("A", None), lambda: int("x")) is None
    assert failures.attempt(("B", None), lambda: 2) == 2
    [(key, failure)] = failures.by_key.items()
    assert key == ("A", None)
    assert failure.error == "ZeroDivisionError: integer division or modulo by zero"
    assert "1 // 0" in failure.details
