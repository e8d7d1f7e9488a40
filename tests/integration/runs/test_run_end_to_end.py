"""The main use case over the API: traces in, KPI values out."""

import pytest

from tests.support.service import Service, pair


def test_run__measures_its_traces_and_evaluates_its_kpis(service: Service) -> None:
    service.create_agent()
    service.create_benchmark(
        metrics=["ROUGE", "ACCURACY"],
        measures=[{"name": "quality", "formula": "WEIGHTED_SUM(ROUGE:0.5, ACCURACY:0.5)"}],
    )
    # ROUGE-L of "a b" against "a b c d": P = 1, R = 1/2, F1 = 2/3. Means: 5/6 and 1/2.
    service.upload([pair(1), pair(2, output="a b")])

    run = service.complete_run()

    assert run["status"] == "COMPLETED"
    assert run["validity"] == "VALID"
    assert (run["tracesTotal"], run["tracesProcessed"], run["metricsComputed"]) == (2, 2, 6)
    metrics = service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
    assert [metric["metric"] for metric in metrics] == ["ROUGE", "ACCURACY"]
    assert [metric["mean"] for metric in metrics] == [pytest.approx(5 / 6), 0.5]
    [kpi] = service.get(f"/benchmark-runs/{run['id']}/kpis")["items"]
    assert kpi["value"] == pytest.approx((5 / 6 + 1 / 2) / 2)
    [entry] = service.get("/kpi-history")["items"]
    assert (entry["runId"], entry["value"]) == (run["id"], kpi["value"])


def test_run__of_the_newest_upload_has_its_run_name(
    service: Service,
) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"])
    service.upload([pair(1)], run_name="monday")
    run = service.start_run()
    service.work()
    service.upload([pair(1), pair(2)], run_name="tuesday")

    assert service.get(f"/benchmark-runs/{run['id']}")["runName"] == "monday"
    assert service.complete_run()["runName"] == "tuesday"
