"""Metrics of labels, whose value of the run is no mean of items: intervals and verdicts all the same."""

from collections.abc import Collection
from typing import NamedTuple

import pytest

from app.comparison.stored_runs import compare_runs
from tests.support.service import JSON, Service, pair

MACRO = {"key": "F1_SCORE", "options": {"labels": "macro"}}
KPIS = [
    {"id": "f1", "name": "f1", "formula": "F1_SCORE"},
    {"id": "both", "name": "both", "formula": "MIN(F1_SCORE, ACCURACY)"},
]


class ScriptedReply(NamedTuple):
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


def night(service: Service, name: str, wrong: Collection[int]) -> JSON:
    service.upload(traces(wrong), run_name=name)
    return service.completed(runName=name)


def said(service: Service, run: JSON) -> ScriptedReply:
    path = f"/benchmark-runs/{run['id']}"
    metrics = {each["metric"]: each for each in service.get(f"{path}/metrics")["items"]}
    kpis = {each["name"]: each for each in service.get(f"{path}/kpis")["items"]}
    return ScriptedReply(metrics["F1_SCORE"], kpis)


def test_a_macro_f1_has_an_interval_and_a_verdict_and_so_has_a_kpi_that_reads_it(
    service: Service,
) -> None:
    service.agent()
    service.benchmark(metrics=[MACRO, "ACCURACY"], measures=KPIS)
    first = night(service, "monday", [0, 1, 20, 21])
    run = night(service, "tuesday", [0, 1, *range(20, 32)])
    # Right, expected, given before: 18, 20, 20 of both labels, an F1 of 36/40 each. After: 18, 20,
    # 30 of yes and 8, 20, 10 of no, (36/50 + 16/30) / 2 = 0.62667.
    before, after = said(service, first), said(service, run)
    assert before.metric["mean"] == pytest.approx(0.9)
    assert after.metric["mean"] == pytest.approx(0.62667, abs=1e-5)
    for each in (before, after):
        for found in (each.metric, *each.kpis.values()):
            value = found["mean"] if found is each.metric else found["value"]
            assert found["intervalLow"] < value < found["intervalHigh"]
    for verdict in (after.metric["verdict"], after.kpis["f1"]["verdict"]):
        assert verdict["verdict"] == "REGRESSED"
        assert verdict["method"] == "paired bootstrap"
        assert verdict["effect"] == pytest.approx(0.62667 - 0.9, abs=1e-5)
    assert after.kpis["both"]["verdict"]["verdict"] == "REGRESSED"

    compared = compare_runs(service.resources.db, [first["id"]], run["id"])
    [metric] = [each for each in compared.metrics if each.metric == "F1_SCORE"]
    said_before = after.metric["verdict"]
    for number in ("effect", "low", "high", "p", "verdict"):
        assert getattr(metric.verdict, number) == said_before[number]
    assert compared.flipped_items is not None
    assert compared.flipped_items.regressions == 10


def test_a_night_without_a_wrong_label_is_not_certain_to_be_followed_by_another(
    service: Service,
) -> None:
    service.agent()
    service.benchmark(metrics=[MACRO], measures=KPIS[:1])
    found = said(service, night(service, "monday", []))
    # Wilson for 40 of 40: 1 / (1 + z²/40).
    for each in (found.metric, found.kpis["f1"]):
        assert (each["intervalLow"], each["intervalHigh"]) == (pytest.approx(0.91238, abs=1e-5), 1)
