"""Metrics of labels, which are no mean over items, have intervals and verdicts."""

from collections.abc import Collection
from typing import NamedTuple

import pytest

from mosaico.comparison.stored_run_comparison import ComparisonRequest, compare_runs
from tests.support.service import JSON, Service, pair

MACRO = {"key": "F1_SCORE", "options": {"labels": "macro"}}
KPIS = [
    {"id": "f1", "name": "f1", "formula": "F1_SCORE"},
    {"id": "both", "name": "both", "formula": "MIN(F1_SCORE, ACCURACY)"},
]


class LabelReply(NamedTuple):
    """What a run says of its metric and its KPIs, by name."""

    metric: JSON
    kpis: dict[str, JSON]


def traces(wrong: Collection[int]) -> list[JSON]:
    """Twenty questions to say yes to and twenty to say no to; to the wrong ones the other is said."""
    expected = ["yes" if number < 20 else "no" for number in range(40)]
    other = {"yes": "no", "no": "yes"}
    return [
        pair(number, label, other[label] if number in wrong else label)
        for number, label in enumerate(expected)
    ]


def complete_run(service: Service, name: str, wrong: Collection[int]) -> JSON:
    service.upload(traces(wrong), run_name=name)
    return service.complete_run(runName=name)


def said(service: Service, run: JSON) -> LabelReply:
    path = f"/benchmark-runs/{run['id']}"
    metrics = {row["metric"]: row for row in service.get(f"{path}/metrics")["items"]}
    kpis = {row["name"]: row for row in service.get(f"{path}/kpis")["items"]}
    return LabelReply(metrics["F1_SCORE"], kpis)


def test_macro_f1__has_interval_and_verdict_and_so_have_its_kpis(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=[MACRO, "ACCURACY"], measures=KPIS)
    first = complete_run(service, "monday", [0, 1, 20, 21])
    run = complete_run(service, "tuesday", [0, 1, *range(20, 32)])
    # Right, expected, given before: 18, 20, 20 of both labels, an F1 of 36/40 each. After: 18, 20,
    # 30 of yes and 8, 20, 10 of no, (36/50 + 16/30) / 2 = 0.62667.
    before, after = said(service, first), said(service, run)
    assert before.metric["mean"] == pytest.approx(0.9)
    assert after.metric["mean"] == pytest.approx(0.62667, abs=1e-5)
    for values in (before, after):
        for row in (values.metric, *values.kpis.values()):
            value = row["mean"] if row is values.metric else row["value"]
            assert row["intervalLow"] < value < row["intervalHigh"]
    for verdict in (after.metric["verdict"], after.kpis["f1"]["verdict"]):
        assert verdict["verdict"] == "REGRESSED"
        assert verdict["method"] == "paired t"
        assert verdict["effect"] == pytest.approx(0.62667 - 0.9, abs=1e-5)
    assert after.kpis["both"]["verdict"]["verdict"] == "REGRESSED"

    compared = compare_runs(service.resources.db, ComparisonRequest((first["id"],), run["id"]))
    [metric] = [comparison for comparison in compared.metrics if comparison.metric == "F1_SCORE"]
    said_before = after.metric["verdict"]
    for number in ("effect", "low", "high", "p", "verdict"):
        assert getattr(metric.verdict, number) == said_before[number]
    assert compared.flipped_items is not None
    assert compared.flipped_items.regressions == 10


def test_macro_f1__without_wrong_labels_has_a_wilson_interval(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=[MACRO], measures=KPIS[:1])
    values = said(service, complete_run(service, "monday", []))
    # Wilson for 40 of 40, with the quantile of Student's t: 1 / (1 + 2.0227²/40).
    for row in (values.metric, values.kpis["f1"]):
        assert (row["intervalLow"], row["intervalHigh"]) == (pytest.approx(0.90720, abs=1e-4), 1)
