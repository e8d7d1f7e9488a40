"""`mosaico alerts why` and the log of the worker: the reason of each rule that did not page about a run."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mosaico.alerts.page_reasons import ADVICE
from tests.integration.cli.conftest import Shell
from tests.integration.docs.test_examples import ROOT, blocks, examples, matches
from tests.support.page_commands import command_environment, run_command
from tests.support.service import JSON, Service, pair

RULE = {"benchmarkId": "bench-001", "kpi": "quality", "condition": "LESS_THAN", "threshold": 0.9}
RECIPIENT = {"channels": ["WEBHOOK"], "recipients": ["http://127.0.0.1:1/hook"]}


@pytest.fixture
def judged(service: Service) -> Service:
    """A service whose next run has the quality 0: no word of its answers is right."""
    service.create_agent()
    service.create_agent("agent-002")
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1, output="wrong")])
    return service


def add_rule(service: Service, name: str, **fields: Any) -> None:
    service.post("/alert-configs", {"id": name, "name": name, **RULE, **fields})


def why(mosaico: Shell, run_id: str = "latest") -> JSON:
    document: JSON = json.loads(mosaico.ok("alerts", "why", run_id, "--json").stdout)
    return document


def reasons(mosaico: Shell, run_id: str = "latest") -> dict[str, str]:
    return {rule["name"]: rule["reason"] for rule in why(mosaico, run_id)["rules"]}


def test_alerts_why__says_the_reason_of_each_rule(judged: Service, mosaico: Shell) -> None:
    add_rule(judged, "pages", **RECIPIENT)
    add_rule(judged, "calm", threshold=-1, **RECIPIENT)
    add_rule(judged, "patient", forRuns=2, **RECIPIENT)
    add_rule(judged, "muted", **RECIPIENT)
    add_rule(judged, "nobody")
    add_rule(judged, "other", agentId="agent-002", **RECIPIENT)
    add_rule(judged, "off", enabled=False, **RECIPIENT)
    add_rule(judged, "history", condition="PERCENTAGE_DROP", threshold=10, **RECIPIENT)
    silence = {"matchers": {"alertConfigId": "muted"}, "endsAt": "2099-01-01T00:00:00Z"}
    judged.post("/silences", silence)
    with capture_logs() as lines:
        run = judged.complete_run()
    add_rule(judged, "late", **RECIPIENT)
    expected = {
        "pages": "PAGED",
        "calm": "NO_BREACH",
        "patient": "PENDING",
        "muted": "SILENCED",
        "nobody": "NO_RECIPIENTS",
        "other": "OTHER_AGENT",
        "off": "DISABLED",
        "history": "NO_HISTORY",
        "late": "NOT_JUDGED",
    }
    assert reasons(mosaico, run["id"]) == expected

    logged = {line["rule"]: line for line in lines if line["event"] == "alert rule did not page"}
    judged_rules = {"calm", "patient", "muted", "nobody", "history"}
    assert {name: logged[name]["reason"] for name in logged} == {
        name: expected[name] for name in judged_rules
    }
    assert all(line["run_id"] == run["id"] and line["watches"] for line in logged.values())
    assert all(line["explanation"] for line in logged.values())


def test_alerts_why__tells_an_open_incident_from_a_repeated_run(
    judged: Service, mosaico: Shell
) -> None:
    add_rule(judged, "pages", **RECIPIENT)
    judged.complete_run()
    judged.complete_run(runName="run-1")
    assert reasons(mosaico) == {"pages": "SAME_DATA"}
    judged.upload([pair(1, output="wrong again")], run_name="run-2")
    judged.complete_run(runName="run-2")
    assert reasons(mosaico) == {"pages": "ONGOING"}


def test_alerts_why__shows_what_became_of_the_message(judged: Service, mosaico: Shell) -> None:
    add_rule(judged, "pages", **RECIPIENT)
    judged.complete_run()
    [delivery] = why(mosaico)["deliveries"]
    # Nobody listens there: the worker tries again later.
    assert (delivery["channel"], delivery["status"]) == ("WEBHOOK", "PENDING")
    assert delivery["detail"]
    shown = mosaico.ok("alerts", "why", "latest").stdout
    assert "PAGED" in shown
    assert delivery["detail"] in shown


def recipients(mosaico: Shell) -> dict[str, list[str]]:
    """The ports of the recipients of each rule."""
    return {
        rule["name"]: [each["recipient"].split(":")[2][0] for each in rule["recipients"]]
        for rule in why(mosaico)["rules"]
    }


def test_alerts_why__says_what_was_true_that_night(judged: Service, mosaico: Shell) -> None:
    add_rule(judged, "pages", **RECIPIENT)
    add_rule(judged, "nobody")
    judged.complete_run()
    judged.patch("/alert-configs/pages", {"channels": ["IN_APP"], "recipients": []})
    judged.patch("/alert-configs/nobody", RECIPIENT)
    add_rule(judged, "disabled-since", enabled=False)
    assert reasons(mosaico) == {
        "pages": "PAGED",
        "nobody": "NO_RECIPIENTS",
        "disabled-since": "NOT_JUDGED",
    }
    assert recipients(mosaico) == {"pages": ["1"], "nobody": [], "disabled-since": []}


def test_alerts_why__names_recipients_whose_endpoint_is_gone(
    judged: Service, mosaico: Shell
) -> None:
    add_rule(judged, "pages", **RECIPIENT)
    judged.complete_run()
    judged.patch("/alert-configs/pages", {"channels": ["IN_APP"], "recipients": []})
    for endpoint in judged.get("/endpoints")["items"]:
        judged.delete(f"/endpoints/{endpoint['id']}")
    assert (reasons(mosaico), recipients(mosaico)) == ({"pages": "PAGED"}, {"pages": ["1"]})


def test_alerts_why__shows_each_delivery_once_and_those_of_own_messages(
    judged: Service, mosaico: Shell
) -> None:
    first, second = RECIPIENT["recipients"][0], "http://127.0.0.1:2/hook"
    add_rule(judged, "both", channels=["WEBHOOK"], recipients=[first, second])
    # The first recipient gets a message with both alerts, the second one of its own.
    add_rule(judged, "one", **RECIPIENT)
    judged.complete_run()
    deliveries = why(mosaico)["deliveries"]
    assert sorted(row["recipient"].split(":")[2][0] for row in deliveries) == ["1", "2"]
    assert reasons(mosaico) == {"both": "PAGED", "one": "PAGED"}
    [alert] = judged.get("/alerts", alertConfigId="both")["items"]
    page = judged.client.get(f"/alerts/events/{alert['id']}").text
    assert all(f"/deliveries/{row['id']}" in page for row in deliveries)
    # Both incidents are on one card of Morning, which names each recipient once.
    told = judged.client.get("/").text.partition("Told: ")[2].partition("nobody has judged")[0]
    assert told.count("webhook") == len(deliveries)


def test_alerts_why__of_a_collapse_that_another_rule_told(judged: Service, mosaico: Shell) -> None:
    add_rule(judged, "pages", **RECIPIENT)
    add_rule(judged, "patient", forRuns=2, **RECIPIENT)
    judged.complete_run()
    judged.upload([pair(1, output="wrong again")], run_name="run-2")
    judged.complete_run(runName="run-2")
    assert reasons(mosaico) == {"pages": "ONGOING", "patient": "TOLD_BEFORE"}


def test_alerts_why__of_runs_that_no_rule_judges(judged: Service, mosaico: Shell) -> None:
    judged.complete_run()
    assert "no alert rule" in why(mosaico)["finding"]
    add_rule(judged, "pages", **RECIPIENT)
    judged.complete_run(runName="no such run")
    found = why(mosaico)
    assert "FAILED" in found["finding"] or "not valid" in found["finding"]
    assert found["rules"] == []


PAGE = "docs/why-no-page.md"


def test_docs_why_no_page__commands_answer_as_shown(service: Service, tmp_path: Path) -> None:
    service.create_agent()
    service.create_benchmark(metrics=["ROUGE"], measures=[{"name": "quality", "formula": "ROUGE"}])
    service.upload([pair(1, "yes", "yes"), pair(2, "yes", "no")])
    add_rule(service, "quality falls", id="drop", threshold=0.1)
    add_rule(service, "quality is low", id="low", **RECIPIENT)
    add_rule(service, "two nights in a row", id="two", forRuns=2, **RECIPIENT)
    with capture_logs() as lines:
        service.complete_run()
    # In the order of the rules, with what the logger adds.
    (tmp_path / "worker.log").write_text(
        "".join(f"{json.dumps({**line, 'level': 'info'})}\n" for line in reversed(lines))
    )
    environment = command_environment(service, tmp_path)
    for block in blocks(PAGE, "console"):
        for command, output in examples(block):
            done = run_command(command, environment, tmp_path)
            assert matches(f"{done.stderr}{done.stdout}", output), done.stderr + done.stdout


def test_docs_why_no_page__names_every_reason() -> None:
    text = (ROOT / PAGE).read_text()
    assert [reason for reason in ADVICE if f"| `{reason}` |" not in text] == []
