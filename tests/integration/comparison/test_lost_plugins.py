"""A stored run whose metric plugin is gone: what is left is compared, and the rest has a reason."""

import pytest
from sqlalchemy import text

from mosaico.comparison import stored_run_comparison
from tests.support.service import Service, pair

GONE = "METRIC_OF_A_LOST_PLUGIN"


def answers(wrong: int) -> list[dict[str, object]]:
    return [
        pair(number, "yes", "no" if number < wrong else "yes")
        | {"tags": [f"category:{'ab'[number % 2]}"]}
        for number in range(40)
    ]


def test_lost_plugin__the_rest_is_compared_with_a_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process, whose registry has the metrics.
    monkeypatch.setattr(
        stored_run_comparison,
        "query_in_child",
        lambda db, function, *arguments, **options: function(db, *arguments, **options),
    )
    service.create_agent()
    service.create_benchmark(
        metrics=["ACCURACY", "CONTAINS"],
        measures=[
            {"id": "right", "name": "right", "formula": "ACCURACY"},
            {"id": "gone", "name": "gone", "formula": "CONTAINS * 2"},
        ],
    )
    runs = []
    for name, wrong in (("monday", 0), ("tuesday", 20)):
        service.upload(answers(wrong), run_name=name)
        runs.append(service.complete_run(runName=name)["id"])
    with service.resources.db.begin() as session:
        renamed = "UPDATE benchmark_runs SET plan = replace(plan::text, 'CONTAINS', :gone)::jsonb,"
        renamed += " metric_keys = array_replace(metric_keys, 'CONTAINS', :gone)"
        session.execute(text(renamed), {"gone": GONE})
    comparison = service.get("/benchmark-runs/compare", baseline=runs[0], candidate=runs[1])
    metrics = {row["metric"]: row["verdict"] for row in comparison["metrics"]}
    kpis = {row["name"]: row["verdict"] for row in comparison["kpis"]}
    assert (metrics["ACCURACY"]["verdict"], kpis["right"]["verdict"]) == ("REGRESSED",) * 2
    assert metrics[GONE]["verdict"] is kpis["gone"]["verdict"] is None
    assert "no longer installed" in metrics[GONE]["reason"]
    assert GONE in comparison["verdict"]["explanation"]
    page = service.get(f"/benchmark-runs/{runs[1]}/categories")
    for category in page["items"]:
        values = {row["metric"]: row for row in category["metrics"]}
        assert values["ACCURACY"]["value"] is not None
        assert "no longer installed" in values[GONE]["reason"]
    report = service.client.get(f"/api/v1/benchmark-runs/{runs[1]}/report")
    assert report.status_code == 200
