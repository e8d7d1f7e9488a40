"""KPIs that a rule watches: what is refused while it does, and a value without a direction."""

import pytest
from sqlalchemy import update

from mosaico.benchmarks.models import KpiDefinition
from tests.integration.alerts.conftest import RULE, RuleMaker, RunMaker
from tests.support.service import Service

REGRESSED = {**RULE, "condition": "REGRESSED", "threshold": None}


def test_delete_kpi__watched_by_a_rule_is_refused_with_its_name(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    problem = benchmark_service.expect_problem(409, "DELETE", "/benchmarks/bench-001/kpis/k-1")
    assert problem["type"].endswith("/dependents-exist")
    assert "the alert rule 'quality falls' (rule-1)" in problem["detail"]
    benchmark_service.delete("/alert-configs/rule-1")
    benchmark_service.delete("/benchmarks/bench-001/kpis/k-1")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_replace_kpis__a_rule_moves_along_with_a_rename_and_refuses_a_loss(
    benchmark_service: Service, create_rule: RuleMaker, method: str
) -> None:
    create_rule()
    other = {"name": "accuracy", "formula": "EXACT_MATCH"}
    body = {"datasetRef": "support", "metrics": ["EXACT_MATCH"], "measures": [other]}
    problem = benchmark_service.expect_problem(409, method, "/benchmarks/bench-001", body)
    assert problem["errors"] == [
        {
            "pointer": "/measures",
            "detail": "the alert rule 'quality falls' (rule-1) watches the KPI 'quality'",
        }
    ]
    body["measures"] = [{"id": "k-1", **other}]
    assert benchmark_service.send(method, "/benchmarks/bench-001", body).is_success
    assert benchmark_service.get("/alert-configs/rule-1")["kpi"] == "k-1"
    assert benchmark_service.post("/alert-configs/rule-1/test")["assessments"] == []


def test_regressed__on_a_value_without_a_direction_is_refused(benchmark_service: Service) -> None:
    """Such a rule could never fire."""
    benchmark_service.post(
        "/benchmarks/bench-001/kpis",
        {"id": "k-2", "name": "calls", "formula": "TOOL_CALLS", "direction": "NEITHER"},
    )
    for watched in ({"kpi": "calls"}, {"kpi": None, "metric": "TOOL_CALLS"}):
        problem = benchmark_service.expect_problem(
            422, "POST", "/alert-configs", {**REGRESSED, **watched}
        )
        [error] = problem["errors"]
        assert error["pointer"] == ("/kpi" if watched["kpi"] else "/metric")
        assert "direction" in error["detail"]
        assert "GREATER_THAN" in error["detail"]
    benchmark_service.post("/alert-configs", {**RULE, "kpi": "calls", "condition": "GREATER_THAN"})
    problem = benchmark_service.expect_problem(
        422, "PATCH", "/alert-configs/rule-1", {"condition": "REGRESSED", "threshold": None}
    )
    assert problem["errors"][0]["pointer"] == "/kpi"


def test_regressed__the_kpi_keeps_its_direction(benchmark_service: Service) -> None:
    benchmark_service.post("/alert-configs", REGRESSED)
    kpi = {"id": "k-1", "name": "quality", "formula": "EXACT_MATCH", "direction": "NEITHER"}
    path = "/benchmarks/bench-001"
    changes: list[tuple[str, dict[str, object]]] = [
        (f"{path}/kpis/k-1", {"direction": "NEITHER"}),
        (path, {"measures": [kpi]}),
    ]
    for address, body in changes:
        problem = benchmark_service.expect_problem(409, "PATCH", address, body)
        assert problem["type"].endswith("/kpi-in-use")
        assert "'quality' needs a direction" in problem["detail"]
        assert "change their condition to a threshold" in problem["detail"]
    benchmark_service.patch("/alert-configs/rule-1", {"condition": "LESS_THAN", "threshold": 0.8})
    benchmark_service.patch(f"{path}/kpis/k-1", {"direction": "NEITHER"})


def test_regressed__a_stored_rule_on_a_value_without_a_direction_says_so(
    benchmark_service: Service, run_with: RunMaker
) -> None:
    """A rule from before such rules were refused must not watch in silence."""
    benchmark_service.post("/alert-configs", REGRESSED)
    with benchmark_service.resources.db.begin() as session:
        session.execute(update(KpiDefinition).values(direction="NEITHER"))
    run_with(10)
    [state] = benchmark_service.get("/alert-configs/rule-1")["states"]
    assert state["state"] == "NO_DATA"
    assert "no direction" in state["explanation"]
    [alert] = benchmark_service.list_items("/alerts")
    assert (alert["state"], alert["explanation"]) == ("NO_DATA", state["explanation"])
