"""KPIs of repeated trials and of percentiles, from the upload to verdicts, alerts and pages."""

from tests.support.service import JSON, Service, pair

KPIS = [
    {"id": "at", "name": "one of two", "formula": "PASS_AT_K(EXACT_MATCH, 2)"},
    {"id": "pow", "name": "both", "formula": "PASS_POW_K(EXACT_MATCH, 2)"},
    {"id": "three", "name": "one of three", "formula": "PASS_AT_K(EXACT_MATCH, 3)"},
    {"id": "slow", "name": "slow answers", "formula": "LATENCY_MS.p90"},
]


def upload(service: Service, name: str, passes: list[list[bool]]) -> JSON:
    """A run whose item i has these trials; the latencies are 100, 200, … ms."""
    traces: list[JSON] = []
    for item, trials in enumerate(passes):
        for trial, is_pass in enumerate(trials):
            trace = pair(item, "yes", "yes" if is_pass else "no")
            trace["traceId"] = f"{name}-{item}-{trial}"
            trace["latencyMs"] = 100.0 * (len(traces) + 1)
            traces.append(trace)
    service.upload(traces, run_name=name)
    return service.complete_run(runName=name)


def test_kpis__of_trials_and_percentiles_have_values_verdicts_and_alerts(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH", "LATENCY_MS"], measures=KPIS)
    rule = {"id": "slow-metric", "name": "slow", "benchmarkId": "bench-001", "metric": "LATENCY_MS.p90"}  # fmt: skip
    service.post("/alert-configs", {**rule, "condition": "GREATER_THAN", "threshold": 1})
    drop = {**rule, "id": "slower", "condition": "PERCENTAGE_RISE", "threshold": 20, "baselineRuns": 1}  # fmt: skip
    service.post("/alert-configs", drop)
    # Nine items pass both trials; one has a single trial.
    first = upload(service, "first", [[True, True]] * 9 + [[True]])
    values = {
        row["kpiId"]: row for row in service.list_items(f"/benchmark-runs/{first['id']}/kpis")
    }
    # 19 latencies of 100 to 1,900 ms: (19 - 1) * 0.9 = 16.2, so 1,700 + 0.2 * 100.
    assert {key: row["value"] for key, row in values.items()} == {
        "at": 1.0, "pow": 1.0, "three": None, "slow": 1720.0,
    }  # fmt: skip
    assert "no item has 3 trials, the most is 2" in values["three"]["undefinedReason"]
    warning = service.get(f"/benchmark-runs/{first['id']}")["metricWarning"]
    assert "PASS_AT_K(EXACT_MATCH, 2) leaves out 1 of 10 items" in warning
    # Six items fail one of two trials, and the run has as many traces.
    second = upload(service, "second", [[True, False]] * 6 + [[True, True]] * 3 + [[True]])
    rows = {row["kpiId"]: row for row in service.list_items(f"/benchmark-runs/{second['id']}/kpis")}
    assert (rows["at"]["value"], rows["pow"]["value"]) == (1.0, 3 / 9)
    assert rows["pow"]["verdict"]["verdict"] == "REGRESSED"
    assert rows["at"]["verdict"]["verdict"] != "REGRESSED"
    assert rows["slow"]["verdict"]["verdict"] != "REGRESSED"
    alerts = service.list_items("/alerts", alertConfigId="slow-metric")
    assert [alert["value"] for alert in alerts] == [1720.0]
    # The history of the other rule is that of stored runs.
    evaluations = service.list_items(f"/benchmark-runs/{second['id']}/evaluations")
    [judged] = [row for row in evaluations if row["alertConfigId"] == "slower"]
    assert (judged["result"], judged["value"]) == ("NO_BREACH", 1720.0)


def test_formula_page__shows_a_percentile_of_a_stored_run(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["EXACT_MATCH", "LATENCY_MS"], measures=KPIS)
    run = upload(service, "first", [[True, True]] * 9 + [[True]])
    page = service.client.get(
        "/formulas", params={"formula": "LATENCY_MS.p90 / 10", "run": run["id"]}
    )
    assert page.status_code == 200
    assert "172" in page.text
