"""Alert rules, silences, backtests and acknowledgements over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from app.agents.queries import get_agent
from app.alerts.publishing import DisplayNameReader
from app.alerts.rule_service import update_rule
from app.alerts.schemas import AlertConfigPatch
from app.benchmarks.models import KpiDefinition
from app.core.errors import NotFound
from tests.integration.alerts.conftest import RULE
from tests.support.service import JSON, Service, pointers
from tests.support.stored import DatabaseReader

RuleMaker = Callable[..., JSON]
RunMaker = Callable[..., JSON]


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


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"kpi": None}, ["/metric"]),
        ({"metric": "EXACT_MATCH"}, ["/metric"]),
        ({"kpi": "qualty"}, ["/kpi"]),
        ({"kpi": None, "metric": "ROUGE"}, ["/metric"]),
        ({"kpi": None, "metric": "EXACT_MATCH.p42"}, ["/metric"]),
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


def test_backtest__an_unknown_agent_is_not_found(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    create_rule()
    body = {"alertConfigId": "rule-1", "agentId": "none"}
    problem = benchmark_service.expect_problem(404, "POST", "/alert-configs/backtest", body)
    assert problem["type"] == "/problems/agent-not-found"


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


def test_rule_test__excludes_runs_of_confirmed_incidents(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(keepFiringForRuns=0, baselineRuns=1)
    run_with(10)
    run_with(5)
    [alert] = benchmark_service.list_items("/alerts")
    benchmark_service.post(f"/alerts/{alert['id']}/ack", {"verdict": "true"})
    run_with(5)
    # With its incident among the earlier runs, the second run would be the baseline: 0.5.
    [assessment] = benchmark_service.post("/alert-configs/rule-1/test")["assessments"]
    assert (assessment["outcome"], assessment["value"], assessment["baseline"]) == (
        "BREACH",
        0.5,
        1.0,
    )
    body = {"alertConfigId": "rule-1", "agentId": "agent-001"}
    last = benchmark_service.post("/alert-configs/backtest", body)["runs"][-1]
    assert (last["outcome"], last["baseline"]) == ("BREACH", 1.0)


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


def test_rule_test__assesses_the_newest_run_and_notifies_the_recipients(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, channels=["WEBHOOK"],
         recipients=["https://hooks.example.com/alerts"])  # fmt: skip
    assert benchmark_service.post("/alert-configs/rule-1/test")["assessments"] == []
    run = run_with(7)
    rule_test = benchmark_service.post("/alert-configs/rule-1/test")
    [assessment] = rule_test["assessments"]
    assert (assessment["runId"], assessment["outcome"], assessment["value"]) == (
        run["id"],
        "BREACH",
        0.7,
    )
    message = benchmark_service.get(f"/notifications/{rule_test['notificationId']}")
    assert message["title"] == "Test of the alert rule quality falls (bench-001)"
    assert len(benchmark_service.list_items("/alerts")) == 1  # the real one: a trial is no alert


def test_acknowledge__counts_towards_the_precision_of_the_rule(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8)
    run_with(5)
    [alert] = benchmark_service.list_items("/alerts", state="FIRING")
    path = f"/alerts/{alert['id']}/ack"
    assert benchmark_service.post(path, {"verdict": "noise"})["acknowledgedBy"]
    assert benchmark_service.get("/alert-configs/rule-1")["precision"] == {
        "true": 0, "noise": 1, "precision": 0.0, "review": False,
    }  # fmt: skip
    benchmark_service.post(path, {"verdict": "true"})
    assert benchmark_service.get("/alert-configs/rule-1")["precision"]["precision"] == 1.0
    benchmark_service.expect_problem(422, "POST", path, {"verdict": "maybe"})


def test_acknowledge__refuses_other_states_and_names_the_firing_alert(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    run_with(5)
    run_with(9)
    run_with(0, silent=5)
    alerts = {alert["state"]: alert for alert in benchmark_service.list_items("/alerts")}
    expected_hints = {"RESOLVED": alerts["FIRING"]["id"], "RUN_INVALID": "state=FIRING"}
    for state, named in expected_hints.items():
        path = f"/alerts/{alerts[state]['id']}/ack"
        problem = benchmark_service.expect_problem(409, "POST", path, {"verdict": "true"})
        assert problem["type"] == "/problems/not-acknowledgeable"
        assert named in problem["detail"]


def test_backtest__returns_coverage_and_each_replayed_run(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    for right, silent in ((10, 0), (9, 0), (0, 5), (6, 0), (6, 0), (10, 0)):
        run_with(right, silent=silent)
    draft = {key: value for key, value in RULE.items() if key != "id"}
    backtest = benchmark_service.post(
        "/alert-configs/backtest", {"rule": {**draft, "keepFiringForRuns": 0, "baselineRuns": 2}}
    )
    assert backtest["coverage"] == {
        "runs": 6, "valid": 5, "invalid": 1, "failed": 0, "withValue": 4, "noData": 0, "warmup": 1,
    }  # fmt: skip
    # The baseline is 1 until the incident, and its runs never join: falls by 10 %, 40 % and 40 %.
    assert [replayed_run["outcome"] for replayed_run in backtest["runs"]] == [
        "WARMUP", "BREACH", None, "BREACH", "BREACH", "HEALTHY",
    ]  # fmt: skip
    assert [replayed_run["notified"] for replayed_run in backtest["runs"]] == [
        None, "FIRING", None, None, None, "RESOLVED",
    ]  # fmt: skip
    assert (backtest["fired"], backtest["resolved"], backtest["noData"]) == (1, 1, 0)
    assert backtest["falseAlarmsPerMonth"] is None  # less than a week
    assert backtest["minDetectableEffect"] == pytest.approx(0.1)  # a tenth of 1
    assert (
        benchmark_service.list_items("/alerts")[0]["state"] == "RUN_INVALID"
    )  # nothing was told by the replay


def test_backtest__equals_what_the_runs_did(
    benchmark_service: Service, create_rule: RuleMaker, run_with: RunMaker
) -> None:
    create_rule(forRuns=2, baselineRuns=3)
    # From 0.9 to 0.7 is a fall of 22 %: the second one fires, and the second good run resolves.
    for right in (9, 9, 7, 7, 7, 9, 9):
        run_with(right)
    backtest = benchmark_service.post("/alert-configs/backtest", {"alertConfigId": "rule-1"})
    notifications = [
        (replayed_run["runId"], replayed_run["notified"])
        for replayed_run in backtest["runs"]
        if replayed_run["notified"]
    ]
    events = reversed(benchmark_service.list_items("/alerts"))
    assert notifications == [(event["runId"], event["state"]) for event in events]
    assert notifications != []


def test_backtest__needs_one_rule_and_one_agent(
    benchmark_service: Service, create_rule: RuleMaker
) -> None:
    benchmark_service.expect_problem(422, "POST", "/alert-configs/backtest", {})
    create_rule()
    problem = benchmark_service.expect_problem(
        422, "POST", "/alert-configs/backtest", {"alertConfigId": "rule-1"}
    )
    assert pointers(problem) == ["/agentId"]
    body = {"alertConfigId": "rule-1", "agentId": "agent-001"}
    assert benchmark_service.post("/alert-configs/backtest", body)["coverage"]["runs"] == 0


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


def test_delete_kpi__watched_by_a_rule_is_refused_with_its_name(
    benchmark_service: Service, create_rule: Callable[..., JSON]
) -> None:
    create_rule()
    problem = benchmark_service.expect_problem(409, "DELETE", "/benchmarks/bench-001/kpis/k-1")
    assert problem["type"].endswith("/kpi-in-use")
    assert problem["detail"].startswith(
        "'quality' cannot be removed, because the alert rules 'quality falls' (rule-1) watch it"
    )
    benchmark_service.delete("/alert-configs/rule-1")
    benchmark_service.delete("/benchmarks/bench-001/kpis/k-1")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_replace_kpis__a_rule_moves_along_with_a_rename_and_refuses_a_loss(
    benchmark_service: Service, create_rule: Callable[..., JSON], method: str
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


@pytest.mark.parametrize("name", [" ", 5, None])
def test_names__of_a_benchmark_without_a_usable_name_is_its_id(
    service: Service, name: object
) -> None:
    """As on the pages: a blank text or a number in the metadata is no name."""
    service.create_agent(id="bot", name="Bot")
    service.create_benchmark(id="faq", metadata={"name": name})
    with service.resources.db.read() as session:
        names = DisplayNameReader(session).names("faq", "bot")
    assert names == ("faq", "Bot")


REGRESSED = {**RULE, "condition": "REGRESSED", "threshold": None}


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
