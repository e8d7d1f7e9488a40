"""The lists of alerts and incidents: filters, order, and what is not found."""

from typing import Any

import pytest

from tests.integration.alerts.conftest import GOOD, RULE, RuleMaker
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import Service


@pytest.mark.parametrize("path", ["/alerts", "/incidents"])
def test_list__filters_by_several_values_text_and_time(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker, path: str
) -> None:
    create_regressed(name="Quality of nightly runs")
    complete(*GOOD, 0.57, 0.56)
    [incident] = benchmark_service.list_items("/incidents")

    def count(**filters: Any) -> int:
        return len(benchmark_service.list_items(path, **filters))

    assert count() == count(benchmarkId=[incident["benchmarkId"], "another"]) == 1
    assert count(agentId=["another", "third"]) == 0
    assert count(text="NIGHTLY RUNS") == 1
    # As a wildcard of SQL it would be found.
    assert count(text="nightly%runs") == 0
    [entry] = benchmark_service.list_items(path)
    time = entry["createdAt"] if path == "/alerts" else entry["openedAt"]
    assert (count(**{"from": time}), count(to=time)) == (1, 0)
    severities = {severity: count(severity=severity) for severity in ("INFO", entry["severity"])}
    assert severities == {"INFO": 0, entry["severity"]: 1}
    if path == "/incidents":
        assert (count(kpi=incident["kpi"]), count(kpi="another")) == (1, 0)


@pytest.mark.parametrize(("path", "time"), [("/alerts", "createdAt"), ("/incidents", "openedAt")])
def test_list__is_sorted_by_the_asked_field_page_by_page(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    path: str, time: str,
) -> None:  # fmt: skip
    for name in ("b", "a", "c"):
        create_regressed(id=name, name=name)
    complete(*GOOD, 0.57, 0.56)

    def names(**parameters: Any) -> list[str]:
        return [entry["name"] for entry in benchmark_service.list_items(path, **parameters)]

    newest_first = benchmark_service.list_items(path)
    assert names(sort="name", limit=1) == ["a", "b", "c"]
    assert names(sort="-name", limit=2) == ["c", "b", "a"]
    oldest_first = benchmark_service.list_items(path, sort=time.removesuffix("At"))
    assert oldest_first == newest_first[::-1]
    for sort in ("benchmark", "-agent", "state"):
        assert sorted(names(sort=sort, limit=1)) == ["a", "b", "c"]
    benchmark_service.expect_problem(422, "GET", path, params={"sort": "id"})


def test_incidents__unknown_id_and_roles(
    benchmark_service: Service, create_regressed: RuleMaker
) -> None:
    problem = benchmark_service.expect_problem(404, "GET", "/incidents/gone")
    assert "GET /api/v1/incidents" in problem["detail"]
    problem = benchmark_service.expect_problem(404, "POST", "/incidents/gone/noise")
    assert problem["type"].endswith("/incident-not-found")
    problem = benchmark_service.expect_problem(
        422, "POST", "/alert-configs",
        {**RULE, "condition": "REGRESSED", "threshold": None, "forRuns": 2},
    )  # fmt: skip
    assert problem["errors"][0]["pointer"] == "/forRuns"
    problem = benchmark_service.expect_problem(
        422, "POST", "/alert-configs", {**RULE, "falsePagesPerMonth": 0.05}
    )
    # RULE has another condition, which makes no such promise.
    assert problem["errors"][0]["pointer"] == "/falsePagesPerMonth"
