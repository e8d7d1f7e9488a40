"""What people answer to an incident: noise, acceptance, acknowledgement."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.integration.alerts.conftest import (
    BACK,
    GOOD,
    HISTORY_RULES,
    RuleMaker,
    holds,
    notified_states,
    open_incident,
)
from tests.support.page_commands import command_environment, run_command
from tests.support.processes import until
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import Service
from tests.support.stored import DatabaseReader


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_noise__returns_the_runs_and_closes_the_incident(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.57, 0.56)
    incident = open_incident(benchmark_service)
    dismissed = benchmark_service.post(f"/incidents/{incident['id']}/noise")
    assert (dismissed["state"], dismissed["resolution"], dismissed["verdict"]) == (
        "RESOLVED", "NOISE", "noise",
    )  # fmt: skip
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    assert set(holds(rows)) == {None}
    # The dismissed runs are history: ordinary runs after them are no improvement and no incident.
    complete(0.91, 0.92)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    if rule["condition"] == "PERCENTAGE_DROP":
        [state] = benchmark_service.get("/alert-configs/rule-1")["states"]
        # The five runs before the newest one, the dismissed runs among them.
        assert state["baseline"] == pytest.approx((0.91 + 0.92 + 0.57 + 0.56 + 0.91) / 5)
    assert benchmark_service.get("/alert-configs/rule-1")["precision"]["noise"] == 1


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_noise__that_was_real_leaves_the_history_again_and_stays_closed(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.57, 0.56)
    path = f"/incidents/{open_incident(benchmark_service)['id']}"
    benchmark_service.post(f"{path}/noise")
    assert set(holds(rows)) == {None}
    complete(0.91)
    taken_back = benchmark_service.post(f"{path}/acknowledge")
    assert (taken_back["state"], taken_back["resolution"], taken_back["verdict"]) == (
        "RESOLVED", "NOISE", "true",
    )  # fmt: skip
    assert holds(rows) == [*[None] * len(GOOD), "INCIDENT", "INCIDENT", None]
    bad_runs = {len(GOOD) + 1, len(GOOD) + 2}
    for table, column in (("alert_states", "series"), ("run_series", "state")):
        newest = f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL ORDER BY run_seq DESC"
        for (state,) in rows.all(f"{newest} LIMIT 1"):
            runs = {*state["reference"]}
            assert len(GOOD) in runs
            assert not runs & bad_runs, table
    complete(0.92)
    if rule["condition"] == "PERCENTAGE_DROP":
        [state] = benchmark_service.get("/alert-configs/rule-1")["states"]
        # The five runs before the newest one, without the bad ones.
        assert state["baseline"] == pytest.approx((0.9 + 0.93 + 0.91 + 0.92 + 0.91) / 5)
    complete(0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]


@pytest.mark.parametrize("rule", HISTORY_RULES, ids=lambda rule: str(rule["condition"]))
def test_accept__the_new_level_is_the_baseline_of_later_runs(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, rule: dict[str, object],
) -> None:  # fmt: skip
    create_regressed(**rule)
    complete(*GOOD, 0.72, 0.71, 0.73)
    incident = open_incident(benchmark_service)
    accepted = benchmark_service.post(
        f"/incidents/{incident['id']}/accept", {"note": "cheaper model"}
    )
    assert (accepted["resolution"], accepted["note"]) == ("ACCEPTED", "cheaper model")
    assert accepted["resolvedBy"]
    complete(0.72, 0.7, 0.71, 0.73, 0.72, 0.71)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    [state] = benchmark_service.get("/alert-configs/rule-1")["states"]
    assert state["baseline"] == pytest.approx(0.72, abs=0.02)
    complete(0.4)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]
    assert holds(rows)[7] is None
    problem = benchmark_service.expect_problem(
        409, "POST", f"/incidents/{incident['id']}/accept", {}
    )
    assert problem["type"].endswith("/nothing-to-accept")


def test_accept_run__closes_the_incident_that_the_run_belongs_to(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    benchmark_service.post("/benchmark-runs/run-7/accept", {"note": "a new data set"})
    [incident] = benchmark_service.list_items("/incidents")
    assert (incident["resolution"], incident["note"]) == ("ACCEPTED", "a new data set")
    complete(0.57, 0.56)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]


def test_acknowledge__keeps_the_incident_open_until_it_recovers(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57)
    incident = open_incident(benchmark_service)
    acknowledged = benchmark_service.post(f"/incidents/{incident['id']}/acknowledge")
    assert (acknowledged["state"], acknowledged["verdict"]) == ("OPEN", "true")
    alert = benchmark_service.get(f"/alerts/{incident['alertId']}")
    assert (alert["verdict"], alert["incidentId"]) == ("true", incident["id"])
    complete(*BACK)
    assert benchmark_service.get(f"/incidents/{incident['id']}")["resolution"] == "RECOVERED"


@pytest.mark.parametrize("answer", ["acknowledge", "noise"])
def test_incident__a_second_collapse_is_told_whatever_was_said_about_the_first(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker, answer: str
) -> None:
    create_regressed()
    complete(*GOOD, *GOOD, 0.57)
    benchmark_service.post(f"/incidents/{open_incident(benchmark_service)['id']}/{answer}")
    complete(*BACK)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED"]
    complete(0.3)
    assert notified_states(benchmark_service) == ["FIRING", "RESOLVED", "FIRING"]


def test_fixed_threshold__has_no_level_to_accept_and_stays_out_of_histories(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader,
) -> None:  # fmt: skip
    create_rule(condition="LESS_THAN", threshold=0.8)
    complete(0.7, 0.7)
    incident = open_incident(benchmark_service)
    problem = benchmark_service.expect_problem(
        409, "POST", f"/incidents/{incident['id']}/accept", {}
    )
    assert problem["type"].endswith("/nothing-to-accept")
    benchmark_service.post(f"/incidents/{incident['id']}/noise")
    assert open_incident(benchmark_service)["verdict"] == "noise"
    assert set(holds(rows)) == {None}


@pytest.mark.parametrize("command", ["incidents noise", "incidents accept", "alerts ack"])
def test_incident_commands__ask_before_the_history_changes(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    tmp_path: Path, command: str,
) -> None:  # fmt: skip
    create_regressed()
    complete(*GOOD, 0.57)
    incident_id = open_incident(benchmark_service)["id"]
    verdict = " --verdict noise" if command == "alerts ack" else ""
    environment = command_environment(benchmark_service, tmp_path)
    asked = run_command(f"mosaico {command} {incident_id}{verdict}", environment, tmp_path)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "requires confirmation" in asked.stderr
    assert "--yes" in asked.stderr
    assert open_incident(benchmark_service)["verdict"] is None
    done = run_command(f"mosaico {command} {incident_id}{verdict} --yes", environment, tmp_path)
    assert done.returncode == 0, done.stderr
    [incident] = benchmark_service.list_items("/incidents")
    assert incident["state"] == "RESOLVED"


def test_incident_commands__say_what_became_of_the_incident(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker, tmp_path: Path
) -> None:
    create_rule(condition="LESS_THAN", threshold=0.8, keepFiringForRuns=0)
    complete(0.7)
    incident_id = open_incident(benchmark_service)["id"]
    environment = command_environment(benchmark_service, tmp_path)

    def status_of(action: str, *, yes: str = "") -> str:
        return run_command(
            f"mosaico incidents {action} {incident_id}{yes}", environment, tmp_path
        ).stderr

    noise = status_of("noise", yes=" --yes")
    assert "stays open until the value is within the threshold again" in noise
    assert "it stays open until it recovers" in status_of("acknowledge")
    complete(0.9)
    assert "it ended at " in status_of("acknowledge")


def test_pages__say_before_a_false_alarm_is_reported_what_taking_it_back_means(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> None:
    create_regressed()
    complete(*GOOD, 0.57)
    incident = open_incident(benchmark_service)
    for path in (f"/incidents/{incident['id']}", f"/alerts/events/{incident['alertId']}", "/inbox"):
        page = benchmark_service.client.get(path, headers={"Accept": "text/html"}).text
        [form] = [form for form in page.split("<form")[1:] if "False alarm<" in form]
        # It is opened again at once, or stays closed once later runs were judged without it.
        assert "Undo opens it again" in form
        assert "its runs no longer count, but it stays closed" in form


@pytest.mark.parametrize("answer", ["acknowledge", "noise"])
def test_answer__reads_the_message_when_its_last_alert_is_judged(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker, answer: str
) -> None:
    # Two rules, whose alerts are one message.
    create_regressed()
    create_regressed(id="rule-2", name="second")
    complete(*GOOD, 0.57, 0.56)
    [message] = benchmark_service.get("/notifications")["items"]
    incidents = benchmark_service.get("/incidents?state=OPEN")["items"]
    assert len(incidents) == 2

    def is_read() -> bool:
        read = benchmark_service.get(f"/notifications/{message['id']}")["readAt"]
        return read is not None

    benchmark_service.post(f"/incidents/{incidents[0]['id']}/{answer}")
    assert not is_read()
    benchmark_service.post(f"/incidents/{incidents[1]['id']}/{answer}")
    assert is_read()


@pytest.mark.parametrize("path", ["/inbox/{message}/ack", "/api/v1/incidents/{incident}/noise"])
def test_answer__locks_the_message_before_its_incidents(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker,
    rows: DatabaseReader, path: str,
) -> None:  # fmt: skip
    """Two people who answer, one to a message and one to an incident in it, cannot deadlock."""
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    [message] = benchmark_service.get("/notifications")["items"]
    url = path.format(message=message["id"], incident=open_incident(benchmark_service)["id"])
    form = {"verdict": "noise"} if url.startswith("/inbox") else None
    headers = {"Origin": str(benchmark_service.client.base_url).rstrip("/")}
    with psycopg.connect(rows.url) as holder, ThreadPoolExecutor() as pool:
        holder.execute("SELECT FROM notifications FOR UPDATE")
        answer = pool.submit(benchmark_service.client.post, url, data=form, headers=headers)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        until(lambda: holder.execute(waiting).fetchone() == (1,), what="the answer waits")
        holder.execute("SELECT FROM incidents FOR UPDATE NOWAIT")
        holder.rollback()
        assert answer.result().status_code in (200, 303)
