"""Rules, silences and acknowledgements over HTTP: what is taken, what is refused and why."""

from collections.abc import Callable

import pytest

from app.agents.queries import get_agent
from app.alerts.alert_rules import update_rule
from app.core.errors import NotFound
from tests.integration.alerts.conftest import RULE
from tests.support.service import JSON, Service, pointers

RuleMaker = Callable[..., JSON]
Night = Callable[..., JSON]


def test_a_rule_is_shown_as_it_was_sent_and_a_kpi_by_its_id(rule: RuleMaker) -> None:
    created = rule()
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
def test_a_rule_that_could_never_work_is_refused_with_the_place(
    ready: Service, change: JSON, wrong: list[str]
) -> None:
    problem = ready.refused(422, "POST", "/alert-configs", {**RULE, **change})
    assert pointers(problem) == wrong


def test_a_misspelt_kpi_is_answered_with_the_one_that_is_near(ready: Service) -> None:
    problem = ready.refused(422, "POST", "/alert-configs", {**RULE, "kpi": "qualty"})
    assert "quality" in problem["errors"][0]["detail"]


def test_a_rule_about_nothing_is_not_found(ready: Service) -> None:
    ready.refused(404, "POST", "/alert-configs", {**RULE, "benchmarkId": "none"})
    ready.refused(404, "POST", "/alert-configs", {**RULE, "agentId": "none"})
    ready.refused(404, "GET", "/alert-configs/none")
    ready.refused(404, "GET", "/alerts/none")
    ready.refused(404, "GET", "/silences/none")
    ready.refused(404, "POST", "/alert-configs/backtest", {"alertConfigId": "none"})


def test_a_backtest_of_an_agent_that_nobody_knows_is_not_found(
    ready: Service, rule: RuleMaker
) -> None:
    rule()
    body = {"alertConfigId": "rule-1", "agentId": "none"}
    problem = ready.refused(404, "POST", "/alert-configs/backtest", body)
    assert problem["type"] == "/problems/agent-not-found"


def test_a_rule_is_not_given_an_agent_that_is_deleted_at_this_moment(
    ready: Service, rule: RuleMaker
) -> None:
    rule()
    ready.agent("agent-002")
    res = ready.resources
    with res.db.begin() as session:
        agent = get_agent(session, "agent-002")
        ready.delete("/agents/agent-002")
        with pytest.raises(NotFound, match="deleted in the meantime"):
            update_rule(session, "rule-1", {"agent_id": agent.id}, res.secrets, res.clock())
        session.rollback()
    assert ready.get("/alert-configs/rule-1")["agentId"] is None


def test_a_trial_and_a_replay_take_no_true_alert_for_normal(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(keepFiringForRuns=0, baselineRuns=1)
    night(10)
    night(5)
    [alert] = ready.listed("/alerts")
    ready.post(f"/alerts/{alert['id']}/ack", {"verdict": "true"})
    night(5)
    [found] = ready.post("/alert-configs/rule-1/test")["assessments"]
    assert (found["outcome"], found["value"], found["baseline"]) == ("BREACH", 0.5, 1.0)
    body = {"alertConfigId": "rule-1", "agentId": "agent-001"}
    last = ready.post("/alert-configs/backtest", body)["runs"][-1]
    assert (last["outcome"], last["baseline"]) == ("BREACH", 1.0)


def test_an_id_is_given_once(ready: Service, rule: RuleMaker) -> None:
    rule()
    ready.refused(409, "POST", "/alert-configs", RULE)


def test_an_edit_of_what_has_changed_meanwhile_is_refused(ready: Service, rule: RuleMaker) -> None:
    rule()
    read = ready.send("GET", "/alert-configs/rule-1")
    tag = read.headers["ETag"]
    again = ready.send("GET", "/alert-configs/rule-1", headers={"If-None-Match": tag})
    assert again.status_code == 304
    changed = ready.send(
        "PATCH", "/alert-configs/rule-1", {"threshold": 20}, headers={"If-Match": tag}
    )
    assert (changed.status_code, changed.json()["revision"]) == (200, 2)
    whole = {key: value for key, value in RULE.items() if key != "id"}
    for method, body in (("PATCH", {"threshold": 30}), ("PUT", whole), ("DELETE", None)):
        ready.refused(412, method, "/alert-configs/rule-1", body, headers={"If-Match": tag})


def test_put_writes_every_field_and_a_patch_only_its_own(ready: Service, rule: RuleMaker) -> None:
    rule(forRuns=3, minimumEffect=0.1)
    patched = ready.patch("/alert-configs/rule-1", {"kpi": None, "metric": "EXACT_MATCH"})
    assert (patched["metric"], patched["kpi"], patched["forRuns"]) == ("EXACT_MATCH", None, 3)
    body = {key: value for key, value in RULE.items() if key != "id"}
    put = ready.put("/alert-configs/rule-1", body)
    assert (put["metric"], put["kpi"], put["forRuns"], put["minimumEffect"]) == (
        None, "k-1", 1, None,
    )  # fmt: skip
    ready.refused(422, "PATCH", "/alert-configs/rule-1", {"metric": "EXACT_MATCH"})


def test_rules_are_listed_by_benchmark_agent_and_whether_they_judge(
    ready: Service, rule: RuleMaker
) -> None:
    rule()
    rule(id="rule-2", agentId="agent-001", enabled=False)

    def names(**query: str) -> set[str]:
        return {each["id"] for each in ready.listed("/alert-configs", **query)}

    assert names() == names(agentId="agent-001") == {"rule-1", "rule-2"}
    assert names(agentId="other") == {"rule-1"}
    assert names(enabled="false") == {"rule-2"}
    assert names(benchmarkId="other") == set()


def test_a_rule_is_tried_on_the_newest_run_and_on_its_recipients(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8, channels=["WEBHOOK"],
         recipients=["https://hooks.example.com/alerts"])  # fmt: skip
    assert ready.post("/alert-configs/rule-1/test")["assessments"] == []
    run = night(7)
    tried = ready.post("/alert-configs/rule-1/test")
    [found] = tried["assessments"]
    assert (found["runId"], found["outcome"], found["value"]) == (run["id"], "BREACH", 0.7)
    message = ready.get(f"/notifications/{tried['notificationId']}")
    assert message["title"] == "Test of the alert rule quality falls"
    assert len(ready.listed("/alerts")) == 1  # the real one: a trial is no alert


def test_acknowledged_alerts_measure_how_often_a_rule_is_right(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    night(5)
    [alert] = ready.listed("/alerts", state="FIRING")
    path = f"/alerts/{alert['id']}/ack"
    assert ready.post(path, {"verdict": "noise"})["acknowledgedBy"]
    assert ready.get("/alert-configs/rule-1")["precision"] == {
        "true": 0, "noise": 1, "precision": 0.0, "review": False,
    }  # fmt: skip
    ready.post(path, {"verdict": "true"})
    assert ready.get("/alert-configs/rule-1")["precision"]["precision"] == 1.0
    ready.refused(422, "POST", path, {"verdict": "maybe"})


def test_only_what_fires_is_acknowledged_and_the_refusal_names_it(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    night(5)
    night(9)
    night(0, silent=5)
    alerts = {alert["state"]: alert for alert in ready.listed("/alerts")}
    wanted = {"RESOLVED": alerts["FIRING"]["id"], "RUN_INVALID": "state=FIRING"}
    for state, named in wanted.items():
        path = f"/alerts/{alerts[state]['id']}/ack"
        problem = ready.refused(409, "POST", path, {"verdict": "true"})
        assert problem["type"] == "/problems/not-acknowledgeable"
        assert named in problem["detail"]


def test_a_silence_names_something_and_ends(ready: Service) -> None:
    later = "2099-01-01T00:00:00Z"
    assert pointers(ready.refused(422, "POST", "/silences", {"matchers": {}, "endsAt": later})) == [
        "/matchers"
    ]
    quiet = {"matchers": {"severity": "INFO"}, "endsAt": "2020-01-01T00:00:00Z"}
    assert pointers(ready.refused(422, "POST", "/silences", quiet)) == ["/endsAt"]
    for never in ("2099-01-01T00:00:00", "9999-12-31T23:59:59-14:00"):
        unstorable = {**quiet, "endsAt": never}
        assert pointers(ready.refused(422, "POST", "/silences", unstorable)) == ["/endsAt"]
    made = ready.post("/silences", {**quiet, "id": "s-1", "endsAt": later, "comment": "move"})
    assert ready.get("/silences/s-1") == made
    assert [each["id"] for each in ready.listed("/silences", active="true")] == ["s-1"]
    ready.delete("/silences/s-1")
    assert ready.listed("/silences") == []


def test_a_backtest_tells_coverage_first_and_what_each_run_would_have_done(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    for right, silent in ((10, 0), (9, 0), (0, 5), (6, 0), (6, 0), (10, 0)):
        night(right, silent=silent)
    draft = {key: value for key, value in RULE.items() if key != "id"}
    found = ready.post(
        "/alert-configs/backtest", {"rule": {**draft, "keepFiringForRuns": 0, "baselineRuns": 2}}
    )
    assert found["coverage"] == {
        "runs": 6, "valid": 5, "invalid": 1, "failed": 0, "withValue": 4, "noData": 0, "warmup": 1,
    }  # fmt: skip
    # Baselines of two: -, 1, (invalid), .95, .75, .6: falls by 10 %, 36.8 %, 20 %, then a rise.
    assert [each["outcome"] for each in found["runs"]] == [
        "WARMUP", "BREACH", None, "BREACH", "BREACH", "HEALTHY",
    ]  # fmt: skip
    assert [each["notified"] for each in found["runs"]] == [
        None, "FIRING", None, None, None, "RESOLVED",
    ]  # fmt: skip
    assert (found["fired"], found["resolved"], found["noData"]) == (1, 1, 0)
    assert found["falseAlarmsPerMonth"] is None  # less than a week
    assert found["minDetectableEffect"] == pytest.approx(0.06)  # a tenth of (.6 + .6) / 2
    assert ready.listed("/alerts")[0]["state"] == "RUN_INVALID"  # nothing was told by the replay


def test_a_replay_says_what_the_runs_did(ready: Service, rule: RuleMaker, night: Night) -> None:
    rule(forRuns=2, baselineRuns=3)
    for right in (9, 9, 7, 7, 7, 9, 9):
        night(right)
    found = ready.post("/alert-configs/backtest", {"alertConfigId": "rule-1"})
    told = [(each["runId"], each["notified"]) for each in found["runs"] if each["notified"]]
    events = reversed(ready.listed("/alerts"))
    assert told == [(event["runId"], event["state"]) for event in events]
    assert told != []


def test_a_backtest_needs_one_rule_and_one_agent(ready: Service, rule: RuleMaker) -> None:
    ready.refused(422, "POST", "/alert-configs/backtest", {})
    rule()
    problem = ready.refused(422, "POST", "/alert-configs/backtest", {"alertConfigId": "rule-1"})
    assert pointers(problem) == ["/agentId"]
    body = {"alertConfigId": "rule-1", "agentId": "agent-001"}
    assert ready.post("/alert-configs/backtest", body)["coverage"]["runs"] == 0


def test_a_rule_whose_kpi_is_gone_can_still_be_disabled(ready: Service, rule: RuleMaker) -> None:
    rule()
    ready.delete("/benchmarks/bench-001/kpis/k-1")
    assert ready.patch("/alert-configs/rule-1", {"enabled": False})["enabled"] is False
    ready.refused(422, "PATCH", "/alert-configs/rule-1", {"threshold": 20})


def test_writing_a_rule_again_as_it_is_resolves_nothing(
    ready: Service, rule: RuleMaker, night: Night
) -> None:
    rule(condition="LESS_THAN", threshold=0.8)
    night(5)
    same = {key: value for key, value in RULE.items() if key != "id"}
    ready.put("/alert-configs/rule-1", {**same, "condition": "LESS_THAN", "threshold": 0.8})
    assert [alert["state"] for alert in ready.listed("/alerts")] == ["FIRING"]
