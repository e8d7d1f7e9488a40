"""Who decided what: names in pages, messages and answers of the API."""

from typing import Any

import pytest

from tests.integration.alerts.conftest import GOOD, RuleMaker, RunMaker, open_incident
from tests.support.browser_sessions import HTML
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import JSON, Service

REASON = "new prompt was planned"


@pytest.fixture
def ana(benchmark_service: Service) -> str:
    """A key with the name Ana and the role admin."""
    token: str = benchmark_service.post("/keys", {"name": "Ana", "role": "admin"})["token"]
    return token


@pytest.fixture
def incident(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> JSON:
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    return open_incident(benchmark_service)


def post_as(service: Service, token: str, path: str, body: Any = None) -> JSON:
    headers = {"Authorization": f"Bearer {token}"}
    response = service.client.post(f"/api/v1{path}", headers=headers, json=body)
    assert response.is_success, response.text
    answer: JSON = response.json()
    return answer


def last_message(service: Service) -> str:
    return str(service.list_items("/notifications")[0])


def test_false_alarm__names_who_said_so_and_why(
    benchmark_service: Service, incident: JSON, ana: str
) -> None:
    service = benchmark_service
    body = {"verdict": "noise", "note": REASON}
    alert = post_as(service, ana, f"/alerts/{incident['id']}/ack", body)
    assert alert["acknowledgedByName"] == "Ana"
    ended = service.get(f"/incidents/{incident['id']}")
    assert (ended["acknowledgedByName"], ended["resolvedByName"]) == ("Ana", "Ana")
    assert ended["explanation"].startswith(f"Ana: false alarm, {REASON};")
    assert f"Ana: false alarm, {REASON}" in last_message(service)
    [entry] = service.list_items("/audit", action="acknowledge_alert")
    assert entry["actorName"] == "Ana"


@pytest.mark.parametrize("answer", ["acknowledge", "noise"])
def test_judged_incident__has_the_reason_until_it_is_taken_back(
    benchmark_service: Service, incident: JSON, ana: str, answer: str
) -> None:
    service, path = benchmark_service, f"/incidents/{incident['id']}"
    assert post_as(service, ana, f"{path}/{answer}", {"note": REASON})["note"] == REASON
    assert (f"Ana: false alarm, {REASON}" in last_message(service)) == (answer == "noise")
    assert REASON in service.client.get(path, headers=HTML).text
    assert service.get(f"/alerts/{incident['id']}")["note"] == REASON
    assert post_as(service, ana, f"{path}/undo")["note"] is None


def test_accepted_level__keeps_its_reason_when_it_was_real(
    benchmark_service: Service, incident: JSON, ana: str
) -> None:
    path = f"/incidents/{incident['id']}"
    post_as(benchmark_service, ana, f"{path}/accept", {"note": REASON})
    assert post_as(benchmark_service, ana, f"{path}/acknowledge")["note"] == REASON


@pytest.mark.parametrize(
    ("path", "field"), [("/incidents/judge", "incident"), ("/inbox/ack", "message")]
)
def test_judgement_of_several__is_in_the_audit_log_with_each(
    benchmark_service: Service, incident: JSON, path: str, field: str
) -> None:
    service = benchmark_service
    [message] = service.list_items("/notifications")
    judged = {"incident": incident["id"], "message": message["id"]}[field]
    form = {field: judged, "verdict": "true", "note": REASON}
    sent = service.client.post(path, data=form, headers=HTML)
    assert sent.status_code in (200, 303), sent.text
    [entry] = [entry for entry in service.list_items("/audit") if entry["path"] == path]
    assert entry["resourceId"] == judged


def test_accepted_level__names_who_accepted_it(
    benchmark_service: Service, incident: JSON, ana: str
) -> None:
    service = benchmark_service
    ended = post_as(service, ana, f"/incidents/{incident['id']}/accept", {"note": REASON})
    assert ended["resolvedByName"] == "Ana"
    assert f"Ana: new level accepted, {REASON}" in last_message(service)
    newest = service.list_items("/benchmark-runs")[0]
    assert newest["acceptedByName"] == "Ana"
    assert service.get(f"/benchmark-runs/{newest['id']}")["acceptedByName"] == "Ana"
    assert (
        "accepted by Ana"
        in benchmark_service.client.get(f"/runs/{newest['id']}", headers=HTML).text
    )


def test_silence__names_who_made_it(benchmark_service: Service, ana: str) -> None:
    body = {"matchers": {"name": "nightly-*"}, "endsAt": "2099-01-01T00:00:00Z"}
    made = post_as(benchmark_service, ana, "/silences", body)
    assert made["createdByName"] == "Ana"
    # Whoever changes it later did not make it.
    patched = benchmark_service.patch(f"/silences/{made['id']}", {"comment": "moves"})
    assert (patched["createdBy"], patched["createdByName"]) == (made["createdBy"], "Ana")
    assert (
        "by Ana"
        in benchmark_service.client.get("/inbox?tab=silenced&ended=false", headers=HTML).text
    )


def test_note_of_an_incident__is_on_its_page_with_the_name(
    benchmark_service: Service, incident: JSON, ana: str
) -> None:
    note = post_as(benchmark_service, ana, f"/incidents/{incident['id']}/notes", {"text": REASON})
    assert (note["incidentId"], note["runId"]) == (incident["id"], None)
    assert benchmark_service.list_items("/notes", incidentId=incident["id"]) == [note]
    page = benchmark_service.client.get(f"/incidents/{incident['id']}", headers=HTML).text
    assert REASON in page
    assert "Ana · " in page


def test_false_alarm_of_a_fixed_threshold__is_told_as_any_other(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker, ana: str
) -> None:
    service = benchmark_service
    create_rule(condition="LESS_THAN", threshold=0.8)
    complete(0.92, 0.57)
    incident = open_incident(service)
    body = {"verdict": "noise", "note": REASON}
    post_as(service, ana, f"/alerts/{incident['id']}/ack", body)
    message = service.list_items("/notifications")[0]
    assert f"Ana: false alarm, {REASON}" in str(message)
    assert (message["severity"], message["readAt"] is None) == ("INFO", False)
    assert message["title"].startswith("False alarm: ")
    # The value is still outside.
    assert service.get(f"/incidents/{incident['id']}")["state"] == "OPEN"
    # Saying it again tells nobody anything new.
    post_as(service, ana, f"/alerts/{incident['id']}/ack", body)
    assert service.list_items("/notifications")[0]["id"] == message["id"]
    complete(0.92, 0.9)
    assert service.get(f"/incidents/{incident['id']}")["state"] == "RESOLVED"


@pytest.mark.parametrize(
    ("page", "api", "body", "changes"),
    [
        ("/agents/agent-001", "/agents/agent-001", {"owners": ["a@b.org"]}, ["owners"]),
        (
            "/benchmarks/bench-001",
            "/benchmarks/bench-001",
            {"taskDef": "answer well"},
            ["task def"],
        ),
        (
            "/alerts/rule-1",
            "/alert-configs/rule-1",
            {"name": "falls", "threshold": 5},
            ["name", "threshold"],
        ),
    ],
)
def test_each_revision__has_its_author(
    benchmark_service: Service, create_rule: RuleMaker, ana: str, page: str, api: str, body: JSON,
    changes: list[str],
) -> None:  # fmt: skip
    service = benchmark_service
    create_rule()
    headers = {"Authorization": f"Bearer {ana}"}
    assert "changed by Ana" not in service.client.get(page, headers=HTML).text
    edited = service.client.patch(f"/api/v1{api}", headers=headers, json=body)
    assert edited.status_code == 200, edited.text
    assert "changed by Ana" in service.client.get(page, headers=HTML).text
    service.patch(
        api,
        {"description": "later"}
        if "agents" in api
        else {"name": "later"}
        if "alert" in api
        else {"taskDef": "later"},
    )
    later, earlier = service.list_items(f"{api}/revisions")
    assert (earlier["changes"], earlier["changedByName"]) == (changes, "Ana")
    assert (earlier["revision"], later["revision"]) == (2, 3)
    assert later["changedBy"] not in (None, earlier["changedBy"])
    for address in (page, f"{page}/revisions"):
        shown = service.client.get(address, headers=HTML).text
        assert "Ana" in shown.partition("Revisions")[2]


def test_what_changed__says_by_whom(
    benchmark_service: Service, run_with: RunMaker, ana: str
) -> None:
    service = benchmark_service
    run_with(10)
    headers = {"Authorization": f"Bearer {ana}"}
    for path, body in (
        ("/benchmarks/bench-001", {"taskDef": "answer well"}),
        ("/agents/agent-001", {"description": "new model"}),
    ):
        edited = service.client.patch(f"/api/v1{path}", headers=headers, json=body)
        assert edited.status_code == 200, edited.text
    bad = run_with(2)
    changed = service.get(f"/benchmark-runs/{bad['id']}/attributes")["whatChanged"]
    assert (changed["benchmarkAuthors"], changed["agentAuthors"]) == (["Ana"], ["Ana"])
    for page in (f"/runs/{bad['id']}", "/"):
        shown = service.client.get(page, headers=HTML).text
        assert "the agent was changed by Ana" in shown
