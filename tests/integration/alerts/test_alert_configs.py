"""Alert rules over HTTP: create, update, list."""

from typing import Any

import pytest

from mosaico.agents.queries import get_agent
from mosaico.alerts.rule_service import update_rule
from mosaico.alerts.schemas import AlertConfigPatch
from mosaico.core.errors import NotFound
from tests.integration.alerts.conftest import RULE, RuleMaker, RunMaker
from tests.support.service import JSON, Service, pointers
from tests.support.stored import DatabaseReader


def test_create_rule__is_returned_as_sent_with_the_id_of_its_kpi(create_rule: RuleMaker) -> None:
    created = create_rule()
    assert {name: created[name] for name in RULE if name != "kpi"} == {
        name: value for name, value in RULE.items() if name != "kpi"
    }
    assert created["kpi"] == "k-1"
    assert (created["severity"], created["channels"], created["recipients"]) == (
        "WARNING", ["IN_APP"], [],
    )  # fmt: skip
    assert (created["forRuns"], created["keepFiringForRuns"], created["baselineRuns"]) == (1, 1, 5)
    assert (created["noData"], created["cooldownMinutes"], created["enabled"]) == (
        "NO_DATA", 0, True,
    )  # fmt: skip
    assert created["states"] == []
    assert created["promisedFalsePages"] is None, "it does not judge several runs together"


def test_rule__of_an_agent_that_the_benchmark_does_not_evaluate_is_refused(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    benchmark_service.create_agent("evaluated")
    benchmark_service.create_agent("other")
    benchmark_service.patch(f"/benchmarks/{RULE['benchmarkId']}", {"evaluates": ["evaluated"]})
    rule = create_rule(agentId="evaluated")
    for method, path, body in (
        ("POST", "/alert-configs", {**RULE, "agentId": "other"}),
        ("PATCH", f"/alert-configs/{rule['id']}", {"agentId": "other"}),
    ):
        problem = benchmark_service.expect_problem(422, method, path, body)
        assert pointers(problem) == ["/agentId"]
        assert "`evaluates`" in problem["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"kpi": None}, ["/metric"]),
        ({"metric": "EXACT_MATCH"}, ["/metric"]),
        ({"kpi": "qualty"}, ["/kpi"]),
        ({"kpi": None, "metric": "ROUGE"}, ["/metric"]),
        ({"kpi": None, "metric": "EXACT_MATCH.p142"}, ["/metric"]),
        ({"threshold": None}, ["/threshold"]),
        ({"threshold": 0}, ["/threshold"]),
        ({"channels": ["PIGEON"]}, ["/channels/0"]),
        ({"channels": ["EMAIL"]}, ["/channels/0"]),
        ({"channels": ["EMAIL"], "recipients": ["nobody"]}, ["/recipients/0", "/channels/0"]),
        ({"condition": "WORSE"}, ["/condition"]),
        ({"forRuns": 0}, ["/forRuns"]),
        ({"minimumEffect": -1}, ["/minimumEffect"]),
        ({"threshold": "ten"}, ["/threshold"]),
        ({"treshold": 1}, ["/treshold"]),
    ],
    ids=str,
)
def test_create_rule__an_invalid_rule_is_refused_with_pointers(
    benchmark_service: Service, change: JSON, wrong: list[str]
) -> None:
    problem = benchmark_service.expect_problem(422, "POST", "/alert-configs", {**RULE, **change})
    assert pointers(problem) == wrong


def test_create_rule__a_misspelt_kpi_gets_a_suggestion(benchmark_service: Service) -> None:
    problem = benchmark_service.expect_problem(
        422, "POST", "/alert-configs", {**RULE, "kpi": "qualty"}
    )
    assert "quality" in problem["errors"][0]["detail"]


def test_create_rule__an_unknown_benchmark_or_agent_is_not_found(
    benchmark_service: Service,
) -> None:
    benchmark_service.expect_problem(404, "POST", "/alert-configs", {**RULE, "benchmarkId": "none"})
    benchmark_service.expect_problem(404, "POST", "/alert-configs", {**RULE, "agentId": "none"})
    benchmark_service.expect_problem(404, "GET", "/alert-configs/none")
    benchmark_service.expect_problem(404, "GET", "/alerts/none")
    benchmark_service.expect_problem(404, "GET", "/silences/none")
    benchmark_service.expect_problem(404, "PATCH", "/silences/none", {"comment": "move"})
    benchmark_service.expect_problem(
        404, "POST", "/alert-configs/backtest", {"alertConfigId": "none"}
    )


def test_update_rule__an_agent_that_is_deleted_concurrently_is_not_found(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    benchmark_service.create_agent("agent-002")
    res = benchmark_service.resources
    with res.db.begin() as session:
        # Read in this transaction and deleted in another: only the foreign key notices it.
        agent = get_agent(session, "agent-002")
        benchmark_service.delete("/agents/agent-002")
        patch = AlertConfigPatch.model_validate({"agentId": agent.id})
        with pytest.raises(NotFound, match="deleted in the meantime"):
            update_rule(session, "rule-1", patch, res.secrets, res.clock())
        session.rollback()
    assert benchmark_service.get("/alert-configs/rule-1")["agentId"] is None


def test_create_rule__a_taken_id_is_a_conflict(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    benchmark_service.expect_problem(409, "POST", "/alert-configs", RULE)


def test_update_rule__an_outdated_etag_is_refused(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    read = benchmark_service.send("GET", "/alert-configs/rule-1")
    tag = read.headers["ETag"]
    again = benchmark_service.send("GET", "/alert-configs/rule-1", headers={"If-None-Match": tag})
    assert again.status_code == 304
    changed = benchmark_service.send(
        "PATCH", "/alert-configs/rule-1", {"threshold": 20}, headers={"If-Match": tag}
    )
    assert (changed.status_code, changed.json()["revision"]) == (200, 2)
    full_body = {key: value for key, value in RULE.items() if key != "id"}
    for method, body in (("PATCH", {"threshold": 30}), ("PUT", full_body), ("DELETE", None)):
        benchmark_service.expect_problem(
            412, method, "/alert-configs/rule-1", body, headers={"If-Match": tag}
        )


def test_update_rule__put_writes_all_fields_and_patch_the_given_ones(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule(forRuns=3, minimumEffect=0.1)
    patched = benchmark_service.patch(
        "/alert-configs/rule-1", {"kpi": None, "metric": "EXACT_MATCH"}
    )
    assert (patched["metric"], patched["kpi"], patched["forRuns"]) == ("EXACT_MATCH", None, 3)
    body = {key: value for key, value in RULE.items() if key != "id"}
    put = benchmark_service.put("/alert-configs/rule-1", body)
    assert (put["metric"], put["kpi"], put["forRuns"], put["minimumEffect"]) == (
        None, "k-1", 1, None,
    )  # fmt: skip
    benchmark_service.expect_problem(
        422, "PATCH", "/alert-configs/rule-1", {"metric": "EXACT_MATCH"}
    )


def test_list_rules__filters_by_benchmark_agent_and_enabled(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    create_rule(id="rule-2", agentId="agent-001", enabled=False)

    def names(**query: Any) -> set[str]:
        return {
            alert_rule["id"]
            for alert_rule in benchmark_service.list_items("/alert-configs", **query)
        }

    # A rule without an agent watches all of them.
    assert names() == names(agentId="agent-001") == {"rule-1", "rule-2"}
    assert names(agentId="other") == {"rule-1"}
    assert names(enabled="false") == {"rule-2"}
    assert names(benchmarkId="other") == set()
    benchmark_id = benchmark_service.get("/alert-configs/rule-1")["benchmarkId"]
    assert names(benchmarkId=["other", benchmark_id]) == {"rule-1", "rule-2"}
    assert names(agentId=["other", "agent-001"], enabled="false") == {"rule-2"}


def test_update_rule__a_rule_without_its_kpi_can_be_disabled(
    benchmark_service: Service, create_rule: RuleMaker, rows: DatabaseReader
) -> None:
    create_rule()
    # The API removes no KPI that a rule watches.
    rows.execute("UPDATE kpi_definitions SET retired_at = now()")
    assert benchmark_service.patch("/alert-configs/rule-1", {"enabled": False})["enabled"] is False
    benchmark_service.expect_problem(422, "PATCH", "/alert-configs/rule-1", {"threshold": 20})


def test_update_rule__equal_values_resolve_nothing(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    run_with(5)
    same = {key: value for key, value in RULE.items() if key != "id"}
    benchmark_service.put(
        "/alert-configs/rule-1", {**same, "condition": "LESS_THAN", "threshold": 0.8}
    )
    assert [alert["state"] for alert in benchmark_service.list_items("/alerts")] == ["FIRING"]
