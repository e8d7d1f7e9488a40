"""Run values of label metrics, operation metrics of failures, and metric aliases."""

import pytest

from mosaico.runs import shards
from tests.support.service import JSON, Service, pair, pointers

RUNS = "/benchmark-runs"


def by_metric(service: Service, run: JSON) -> dict[str, JSON]:
    return {
        aggregate["metric"]: aggregate
        for aggregate in service.get(f"{RUNS}/{run['id']}/metrics")["items"]
    }


def by_kpi(service: Service, run: JSON) -> dict[str, float | None]:
    items = service.get(f"{RUNS}/{run['id']}/kpis")["items"]
    return {kpi_value["name"]: kpi_value["value"] for kpi_value in items}


def labels(expected: str, predicted: str) -> list[JSON]:
    return [
        pair(n, expected_label, other)
        for n, (expected_label, other) in enumerate(zip(expected, predicted, strict=True))
    ]


@pytest.mark.parametrize("shard_traces", [1000, 2])
def test_run_value__covers_all_labels_of_any_number_of_shards(
    service: Service, monkeypatch: pytest.MonkeyPatch, shard_traces: int
) -> None:
    # Expected a a b b c, given a b b b a: right, expected, given are a (1, 2, 2), b (2, 2, 3),
    # c (0, 1, 0). Macro precision (1/2 + 2/3 + 0) / 3, recall of b 2/2, accuracy 3/5.
    monkeypatch.setattr(shards, "SHARD_TRACES", shard_traces)
    service.create_agent()
    service.create_benchmark(
        metrics=[
            {"key": "PRECISION", "options": {"labels": "macro"}},
            {"key": "RECALL", "options": {"labels": "binary", "positive": "B"}},
            {"key": "ACCURACY", "options": {"labels": "micro"}},
            "EXACT_MATCH",
        ],
        measures=[{"name": "sum", "formula": "PRECISION + RECALL.mean + ACCURACY"}],
    )
    service.upload([*labels("aabbc", "abbba"), pair(9, "a", None, outcome="infra_error")])
    run = service.complete_run()
    metrics = by_metric(service, run)
    precision = (1 / 2 + 2 / 3 + 0) / 3
    assert metrics["PRECISION"]["mean"] == pytest.approx(precision, abs=1e-15)
    assert metrics["RECALL"]["mean"] == 1.0
    assert metrics["ACCURACY"]["mean"] == metrics["EXACT_MATCH"]["mean"] == 3 / 5
    # The other statistics are those of right (1) and wrong (0).
    assert (metrics["PRECISION"]["n"], metrics["PRECISION"]["sum"]) == (5, 3.0)
    assert by_kpi(service, run)["sum"] == pytest.approx(precision + 1 + 3 / 5, abs=1e-12)
    results = service.list_items(f"{RUNS}/{run['id']}/results")
    assert [row["values"]["PRECISION"] for row in results] == [1.0, 0.0, 1.0, 1.0, 0.0, None]


def test_run_value__is_missing_without_labels(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=[{"key": "F1_SCORE", "options": {"labels": "macro"}}])
    service.upload([pair(1, None, "a")])
    run = service.complete_run()
    assert run["status"] == "COMPLETED"
    assert by_metric(service, run)["F1_SCORE"]["mean"] is None


def test_operation_metrics__cover_failed_traces_and_are_missing_when_unknown(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", "LATENCY", "COST_USD", "TURNS", "TOOL_CALLS", "STATUS", "ERROR_COUNT"],
        measures=[
            {"name": "slowest", "formula": "LATENCY.max"},
            {"name": "same", "formula": "LATENCY_MS.max - LATENCY.max"},
            {"name": "healthy", "formula": "IF STATUS == 1 THEN 1 ELSE 0"},
            {"name": "tokens", "formula": "TOTAL_TOKENS.sum"},
        ],
        # Tokens are known of one of four traces.
        minCoverage=0.25,
    )
    broken = {"name": "search", "ok": False}
    service.upload(
        [
            pair(1, latencyMs=100, costUsd=0.5, turns=2, toolCalls=[broken], inputTokens=7,
                 outputTokens=1),
            pair(2, None, outcome="timeout", latencyMs=900, costUsd=0.25, turns=4, toolCalls=[]),
            pair(3),
            pair(4, None, outcome="infra_error", latencyMs=5000, costUsd=9),
        ]
    )  # fmt: skip
    run = service.complete_run()
    metrics = by_metric(service, run)
    assert "LATENCY" not in metrics
    # (100 + 900) / 2: the 5000 ms of the infra_error are no latency of the agent.
    assert (metrics["LATENCY_MS"]["n"], metrics["LATENCY_MS"]["mean"]) == (2, 500.0)
    assert (metrics["COST_USD"]["n"], metrics["COST_USD"]["sum"]) == (2, 0.75)
    assert (metrics["TURNS"]["n"], metrics["TURNS"]["mean"]) == (2, 3.0)
    assert (metrics["TOOL_CALLS"]["n"], metrics["TOOL_CALLS"]["mean"]) == (2, 0.5)
    # 1, 0 and 1: the timeout is an error of the agent, the infra_error none.
    assert (metrics["STATUS"]["n"], metrics["STATUS"]["mean"]) == (3, 2 / 3)
    assert (metrics["ERROR_COUNT"]["n"], metrics["ERROR_COUNT"]["sum"]) == (3, 2.0)
    assert metrics["TURNS"]["missing"] == {"NOT_SUPPORTED": 1, "INFRA_ERROR": 1}
    assert by_kpi(service, run) == {"slowest": 900.0, "same": 0.0, "healthy": 0.0, "tokens": 8.0}


def test_benchmark__one_metric_under_two_names_is_listed_twice(service: Service) -> None:
    problem = service.expect_problem(
        422, "POST", "/benchmarks",
        {"id": "b", "datasetRef": "support", "metrics": ["LATENCY", "LATENCY_MS"]},
    )  # fmt: skip
    assert pointers(problem) == ["/metrics/1"]


def test_benchmark__contradictory_metric_options_are_refused_with_pointers(
    service: Service,
) -> None:
    wrong = [
        {"key": "RECALL", "options": {"labels": "binary"}},
        {"key": "F1_SCORE", "options": {"labels": "makro", "positive": 7}},
        {"key": "ACCURACY", "options": {"positive": "yes"}},
    ]
    problem = service.expect_problem(
        422, "POST", "/benchmarks", {"id": "b", "datasetRef": "support", "metrics": wrong}
    )
    assert pointers(problem) == [
        "/metrics/0",
        "/metrics/1/options/labels",
        "/metrics/1/options/positive",
        "/metrics/2",
    ]


def test_texts__that_a_metric_cannot_read_are_outside_of_its_coverage_and_named(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", "CHRF", {"key": "BLEU", "options": {"tokenizer": "char"}}],
        measures=[
            {"name": "overlap", "formula": "MIN(ROUGE, CHRF)"},
            {"name": "characters", "formula": "CHRF"},
        ],
    )
    text = "Возврат занимает пять дней"
    failed = pair(3, text, None, outcome="agent_error")
    service.upload([pair(1, text, text), pair(2, text, "пять дней"), failed], run_name="russian")
    run = service.complete_run(runName="russian")
    assert (run["validity"], run["coverage"], run["errorShare"]) == ("VALID", 1.0, 0.0)
    assert "ROUGE cannot read 3 of 3 expected answers" in run["metricWarning"]
    metrics = by_metric(service, run)
    rouge = metrics["ROUGE"]
    assert (rouge["n"], rouge["expected"], rouge["coverage"]) == (0, 0, None)
    assert rouge["missing"] == {"NOT_APPLICABLE": 3}
    # The failed trace is 0.
    assert (metrics["CHRF"]["n"], metrics["CHRF"]["coverage"]) == (3, 1.0)
    assert metrics["CHRF"]["min"] == 0.0
    kpis = {kpi["name"]: kpi for kpi in service.get(f"{RUNS}/{run['id']}/kpis")["items"]}
    assert kpis["overlap"]["value"] is None
    assert "ROUGE cannot read 3 of 3" in kpis["overlap"]["undefinedReason"]
    assert kpis["overlap"]["coverage"] == 1.0
    assert kpis["characters"]["value"] is not None
    page = service.client.get(f"/runs/{run['id']}").text
    assert "ROUGE cannot read 3 of 3 expected answers" in page
    assert "3 × NOT_APPLICABLE" in page
    # One in twelve is said nowhere but in the counts.
    english = [pair(number, "Returns take five days", "five days") for number in range(2, 13)]
    service.upload([pair(1, text, text), *english], run_name="english")
    run = service.complete_run(runName="english")
    assert run["metricWarning"] is None
    rouge = by_metric(service, run)["ROUGE"]
    assert (rouge["n"], rouge["coverage"], rouge["missing"]) == (11, 1.0, {"NOT_APPLICABLE": 1})


def test_several_expected_answers__are_stored_and_decide_by_the_best(service: Service) -> None:
    # "b" is one of a, b; "a b" contains both, "a" only one of them. Label counts take the one that fits.
    service.create_agent()
    service.create_benchmark(
        metrics=["CONTAINS", "EXACT_MATCH", {"key": "RECALL", "options": {"labels": "micro"}}]
    )
    service.upload(
        [
            {"traceId": "any", "expectedAny": ["a", "b"], "output": "b"},
            {"traceId": "all", "expectedAll": ["a", "b"], "output": "a b"},
            {"traceId": "part", "expectedAll": ["a", "b"], "output": "a"},
        ]
    )
    run = service.complete_run()
    results = service.list_items(f"{RUNS}/{run['id']}/results")
    assert [row["values"]["CONTAINS"] for row in results] == [1.0, 1.0, 0.0]
    assert [row["values"]["EXACT_MATCH"] for row in results] == [1.0, 0.0, 0.0]
    assert by_metric(service, run)["RECALL"]["mean"] == pytest.approx(1 / 3)
    page = service.client.get(f"/runs/{run['id']}/traces/all").text
    assert "an answer must fit all of them" in page
    assert all(f'<pre class="said" tabindex="0">{text}</pre>' in page for text in ("a", "b"))
    trace = service.get(f"{RUNS}/{run['id']}/traces/any")
    assert (trace["expectedOutput"], trace["expectedAny"], trace["expectedAll"]) == (
        "a",
        ["a", "b"],
        [],
    )
