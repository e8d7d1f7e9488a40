"""What is mine: agents with owners, Morning and the inbox narrowed to them, and incidents assigned to a person."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.integration.alerts.conftest import GOOD, RuleMaker, open_incident
from tests.support.browser_sessions import HTML
from tests.support.people import create_person
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import JSON, Service

ADDRESS = "ana@example.org"
Sender = Callable[..., httpx.Response]


@pytest.fixture
def person(benchmark_service: Service) -> str:
    return create_person(benchmark_service)


@pytest.fixture
def as_ana(benchmark_service: Service, person: str) -> Sender:
    """Sends a request with a key that belongs to Ana."""
    body = {"name": "Ana's script", "role": "run", "personId": person}
    token = benchmark_service.post("/keys", body)["token"]

    def send(method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        return benchmark_service.client.request(method, path, headers=headers, **more)

    return send


@pytest.fixture
def incident(
    benchmark_service: Service, create_regressed: RuleMaker, complete: RunHistoryMaker
) -> JSON:
    create_regressed()
    complete(*GOOD, 0.57, 0.56)
    return open_incident(benchmark_service)


def test_owners__are_addresses_once_and_in_lower_case(benchmark_service: Service) -> None:
    service = benchmark_service
    sent = {"owners": ["Ana@Example.org ", ADDRESS, "bo@example.org"]}
    agent = service.patch("/agents/agent-001", sent)
    assert agent["owners"] == [ADDRESS, "bo@example.org"]
    assert service.get("/agents/agent-001")["owners"] == agent["owners"]
    service.expect_problem(422, "PATCH", "/agents/agent-001", {"owners": ["Ana"]})
    # The person has not logged in yet.
    page = service.client.get("/agents/agent-001", headers=HTML).text
    assert "bo@example.org" in page
    create_person(service)
    assert "Ana Rossi" in service.client.get("/agents/agent-001", headers=HTML).text
    assert service.patch("/agents/agent-001", {"owners": []})["owners"] == []


def test_mine__morning_and_inbox_have_only_agents_of_the_person(
    benchmark_service: Service, incident: JSON, as_ana: Sender
) -> None:
    service = benchmark_service
    service.create_agent("other")

    def shown(path: str) -> int:
        return len(
            as_ana("GET", f"/api/v1{path}").json()[{"/inbox": "items"}.get(path[:6], "cells")]
        )

    assert (shown("/overview"), shown("/inbox")) == (1, 1)
    overview = as_ana("GET", "/api/v1/overview?mine=true").json()
    assert (overview["cells"], overview["changes"], overview["hiddenAgents"]) == ([], [], 2)
    assert [period["changes"] for period in overview["periods"]] == [0, 0, 0]
    assert as_ana("GET", "/api/v1/inbox?mine=true").json()["items"] == []
    assert as_ana("GET", "/api/v1/overview/fleet?mine=true").json()["pairs"] == []
    service.patch("/agents/agent-001", {"owners": [ADDRESS]})
    overview = as_ana("GET", "/api/v1/overview?mine=true").json()
    assert [cell["agentId"] for cell in overview["cells"]] == ["agent-001"]
    assert (len(overview["changes"]), overview["hiddenAgents"]) == (1, 1)
    assert shown("/inbox?mine=true") == 1
    fleet = as_ana("GET", "/api/v1/overview/fleet?mine=true").json()
    assert (len(fleet["pairs"]), fleet["hiddenAgents"]) == (1, 1)


@pytest.mark.parametrize("path", ["/", "/fleet", "/inbox"])
def test_mine__page_says_what_is_hidden(
    benchmark_service: Service, incident: JSON, as_ana: Sender, path: str
) -> None:
    page = as_ana("GET", f"{path}?mine=true", headers=HTML).text
    assert "No agent is yours" in page
    assert "1 other agent is not shown" in " ".join(page.split())
    assert re.search(rf'href="{path}\?[^"]*mine=true', as_ana("GET", path, headers=HTML).text)
    # A key of nobody has no choice, and is told so instead of an empty page.
    nobody = benchmark_service.client
    assert "mine=true" not in nobody.get(path, headers=HTML).text
    refused = nobody.get(f"{path}?mine=true", headers=HTML)
    assert refused.status_code == 422
    assert "belongs to a person" in refused.text


@pytest.mark.parametrize("path", ["/overview", "/overview/fleet", "/inbox"])
def test_mine__of_a_key_of_nobody_is_refused(service: Service, path: str) -> None:
    service.expect_problem(422, "GET", f"{path}?mine=true")


def test_incident__is_assigned_to_a_person_who_sees_it_as_own(
    benchmark_service: Service, incident: JSON, as_ana: Sender, person: str
) -> None:
    service, path = benchmark_service, f"/incidents/{incident['id']}"
    assigned = service.post(f"{path}/assign", {"assignee": ADDRESS.upper()})
    assert (assigned["assigneeId"], assigned["assigneeName"]) == (person, "Ana Rossi")
    assert assigned["assignedByName"]
    assert assigned["assignedAt"]
    [entry] = service.list_items("/audit", action="assign_incident")
    assert (entry["resourceId"], entry["fields"]) == (incident["id"], ["assignee"])
    for page in (path, "/", "/inbox"):
        assert "ssigned to" in service.client.get(page, headers=HTML).text
        assert "Ana Rossi" in service.client.get(page, headers=HTML).text
    [change] = service.get("/overview")["changes"]
    assert change["assignees"] == ["Ana Rossi"]
    [entry] = service.list_items("/inbox")
    assert {alert["assigneeName"] for alert in entry["alerts"]} == {"Ana Rossi"}
    # The agent of an incident that is mine is mine, too.
    assert len(as_ana("GET", "/api/v1/overview?mine=true").json()["cells"]) == 1
    service.post(f"{path}/noise")
    assert "Assigned to Ana Rossi." in str(service.list_items("/notifications")[0])
    freed = service.post(f"{path}/unassign")
    assert (freed["assigneeId"], freed["assigneeName"]) == (None, None)
    assert as_ana("GET", "/api/v1/overview?mine=true").json()["cells"] == []


@pytest.mark.parametrize("change", [{"only": []}, {"blocked": True}, {}])
def test_incident__is_not_assigned_to_somebody_who_cannot_see_it(
    benchmark_service: Service, incident: JSON, person: str, change: JSON
) -> None:
    service = benchmark_service
    if change == {"only": []}:
        service.create_benchmark("elsewhere")
        change = {"only": ["elsewhere"]}
    if change:
        service.patch(f"/people/{person}", change)
    who = ADDRESS if change else "nobody@example.org"
    path = f"/incidents/{incident['id']}"
    problem = service.expect_problem(422, "POST", f"{path}/assign", {"assignee": who})
    expected = "nobody@example.org" if not change else "Ana Rossi"
    assert expected in problem["detail"]
    assert service.get(path)["assigneeId"] is None
    page = service.client.get(path, headers=HTML).text
    assert (f'value="{ADDRESS}"' in page) == (not change)


def test_page__assigns_an_incident(benchmark_service: Service, incident: JSON, person: str) -> None:
    path = f"/incidents/{incident['id']}"
    sent = benchmark_service.client.post(
        f"{path}/assign", data={"assignee": person}, headers=HTML, follow_redirects=False
    )
    assert sent.status_code == 303
    assert benchmark_service.get(path)["assigneeId"] == person
    benchmark_service.client.post(f"{path}/unassign", headers=HTML)
    assert benchmark_service.get(path)["assigneeId"] is None
