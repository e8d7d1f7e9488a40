"""Agents over HTTP: every verb, and a secret that nobody sees again."""

import logging

import pytest
from sqlalchemy import text

from mosaico.agents.queries import get_agent
from mosaico.agents.service import reveal_run_url, reveal_secret
from mosaico.core.encryption import Secret
from tests.support.service import JSON, Service, pair, pointers

SECRET = "sk-lf-0123456789-never-shown"
OTHER_SECRET = "sk-lf-9876543210-not-shown-either"
HOME = "https://langfuse.example.org"


def stored_secret(service: Service, agent_id: str) -> str | None:
    with service.resources.db.read() as session:
        secret = reveal_secret(get_agent(session, agent_id), service.resources.secrets)
        return secret.reveal() if secret else None


def test_agents_api__create_read_list_change_replace_delete(service: Service) -> None:
    answer = service.send(
        "POST", "/agents", {"id": "agent-001", "name": "Pelican", "description": "first"}
    )
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/api/v1/agents/agent-001"
    created = answer.json()
    assert (
        created.items()
        >= {
            "id": "agent-001",
            "name": "Pelican",
            "description": "first",
            "langfuseProjectName": None,
            "langfuseUrl": "https://cloud.langfuse.com",
            "langfusePublicKey": None,
            "secretSet": False,
            "archived": False,
            "revision": 1,
        }.items()
    )
    assert service.get("/agents/agent-001") == created
    assert service.get("/agents") == {"items": [created], "nextCursor": None}

    changed = service.patch("/agents/agent-001", {"langfuseProjectName": "pelican"})
    assert (changed["langfuseProjectName"], changed["description"]) == ("pelican", "first")
    assert changed["revision"] == 2
    assert changed["updatedAt"] > created["updatedAt"]
    assert changed["createdAt"] == created["createdAt"]

    replaced = service.put("/agents/agent-001", {"name": "Heron"})
    assert (replaced["name"], replaced["description"]) == ("Heron", None)
    assert replaced["langfuseProjectName"] is None

    service.delete("/agents/agent-001")
    assert service.get("/agents")["items"] == []
    for method in ("GET", "PATCH", "PUT", "DELETE"):
        body = {"name": "x"} if method in ("PATCH", "PUT") else None
        problem = service.expect_problem(404, method, "/agents/agent-001", body)
        assert problem["type"] == "/problems/agent-not-found"
        assert "GET /api/v1/agents" in problem["detail"]


def test_create_agent__id_is_generated_and_unique(service: Service) -> None:
    first, second = (service.post("/agents", {"name": "same name"}) for _ in range(2))
    assert first["id"] < second["id"], "made ids are ordered by time"
    service.create_agent("a.b_c-D")
    problem = service.expect_problem(409, "POST", "/agents", {"id": "a.b_c-D", "name": "again"})
    assert "taken" in problem["detail"]
    assert service.get("/agents/a.b_c-D")["name"] == "Pelican"
    for hostile in ("", "-a", "a b", "😀", "a/b", "x" * 65, "a\n"):
        assert pointers(
            service.expect_problem(422, "POST", "/agents", {"id": hostile, "name": "x"})
        ) == ["/id"]


def test_change_agent__absent_keeps_and_null_clears(service: Service) -> None:
    service.create_agent(description="text", langfusePublicKey="pk-1", langfuseProjectName="p")
    patched = service.patch("/agents/agent-001", {"description": None})
    assert patched["description"] is None
    assert (patched["langfusePublicKey"], patched["langfuseProjectName"]) == ("pk-1", "p")
    assert pointers(service.expect_problem(422, "PATCH", "/agents/agent-001", {"name": None})) == [
        "/name"
    ]
    assert pointers(service.expect_problem(422, "PATCH", "/agents/agent-001", {"id": "other"})) == [
        "/id"
    ]
    assert service.get("/agents/agent-001") == patched


def test_agents_api__misspelled_names_of_original_system_are_accepted(service: Service) -> None:
    body = {
        "name": "Pelican",
        "llangfuseProjectName": "p",
        "llangfuseUrl": HOME,
        "llangfusePublicKey": "pk-1",
        "llangfuseSecretKey": SECRET,
    }
    agent = service.post("/agents", {"id": "agent-001", **body})
    assert (agent["langfuseProjectName"], agent["langfuseUrl"]) == ("p", HOME)
    assert (agent["langfusePublicKey"], agent["secretSet"]) == ("pk-1", True)
    misspelt = {name[1:]: value for name, value in agent.items() if name.startswith("ll")}
    assert misspelt.keys() == {"langfuseProjectName", "langfuseUrl", "langfusePublicKey"}
    assert all(agent[name] == value for name, value in misspelt.items())
    assert stored_secret(service, "agent-001") == SECRET
    service.patch("/agents/agent-001", {"llangfuseSecretKey": OTHER_SECRET})
    assert stored_secret(service, "agent-001") == OTHER_SECRET
    service.put("/agents/agent-001", body)
    assert stored_secret(service, "agent-001") == SECRET


def test_agents_api__two_spellings_of_one_field_are_one_value(service: Service) -> None:
    equal = {"langfuseUrl": HOME, "llangfuseUrl": HOME, "langfuseSecretKey": SECRET}
    agent = service.create_agent(**equal, llangfuseSecretKey=SECRET)
    assert (agent["langfuseUrl"], stored_secret(service, "agent-001")) == (HOME, SECRET)
    for name, value in (("Url", "https://x.example.org"), ("ProjectName", "y"), ("SecretKey", "z")):
        both = {"name": "x", f"langfuse{name}": f"{value}1", f"llangfuse{name}": value}
        problem = service.expect_problem(422, "POST", "/agents", both)
        assert pointers(problem) == [f"/llangfuse{name}"], name
    # The spelling that differs from what is shown is the changed one.
    for spelling in ("langfuseProjectName", "llangfuseProjectName"):
        shown = service.get("/agents/agent-001")
        changed = service.put("/agents/agent-001", {**shown, spelling: f"by {spelling}"})
        assert changed["langfuseProjectName"] == changed["llangfuseProjectName"]
        assert changed["langfuseProjectName"] == f"by {spelling}"
    assert stored_secret(service, "agent-001") == SECRET
    shown = service.get("/agents/agent-001")
    two = {**shown, "langfuseProjectName": "one", "llangfuseProjectName": "two"}
    problem = service.expect_problem(422, "PUT", "/agents/agent-001", two)
    assert pointers(problem) == ["/llangfuseProjectName"]


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ({"langfusePublicKey": "pk-lf-1"}, "langfuseSecretKey"),
        ({"langfuseSecretKey": SECRET}, "langfusePublicKey"),
    ],
)
def test_agent__half_of_its_keys_names_the_missing_one_and_reads_no_uploads(
    service: Service, keys: JSON, field: str
) -> None:
    service.create_agent(**keys)
    service.create_benchmark()
    service.upload([pair(number) for number in range(5)])
    run = service.complete_run()
    assert (run["status"], run["errorCode"]) == ("FAILED", "LANGFUSE_AUTH")
    assert f"set {field}" in run["errorMessage"]
    check = service.post("/agents/agent-001/check")
    assert check["ok"] is False
    assert f"set {field}" in check["detail"]


def test_agent_secret__not_in_response_log_or_plain_column(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body: JSON = {"name": "Pelican", "langfuseUrl": HOME, "langfuseSecretKey": SECRET}
    answers = [
        service.send("POST", "/agents", {"id": "a", **body}, headers={"Idempotency-Key": "k"}),
        service.send("POST", "/agents", {"id": "a", **body}, headers={"Idempotency-Key": "k"}),
        service.send("POST", "/agents", {"id": "a", **body}),
        service.send("GET", "/agents/a"),
        service.send("GET", "/agents"),
        service.send("PATCH", "/agents/a", {"langfuseSecretKey": SECRET, "name": 7}),
        service.send("PATCH", "/agents/a", {"langfuseUrl": f"https://u:{SECRET}@example.org"}),
        service.send("PUT", "/agents/a", body),
        service.send("POST", "/agents", {"langfuseSecretKey": [SECRET], "name": "x"}),
        service.send("POST", "/agents", {"langfuseSecretKey": SECRET * 90, "name": "x"}),
    ]
    assert [answer.status_code for answer in answers] == [
        201, 201, 409, 200, 200, 422, 422, 200, 422, 422,
    ]  # fmt: skip
    assert answers[1].content == answers[0].content
    for answer in answers:
        assert SECRET not in answer.text
    assert SECRET not in caplog.text
    with service.resources.db.read() as session:
        rows = [
            *session.scalars(text("SELECT a::text FROM agents a")),
            *session.scalars(text("SELECT k::text FROM idempotency_keys k")),
        ]
    assert len(rows) == 2
    assert SECRET not in str(rows)
    assert stored_secret(service, "a") == SECRET


def test_change_agent__new_url_requires_secret(service: Service) -> None:
    service.create_agent(langfuseUrl=HOME, langfuseSecretKey=SECRET)
    elsewhere = {"name": "Pelican", "langfuseUrl": "https://evil.example.org"}
    for method, body in (
        ("PATCH", {"langfuseUrl": "https://evil.example.org"}),
        ("PATCH", {"langfuseUrl": None}),
        ("PATCH", {"llangfuseUrl": "https://evil.example.org"}),
        ("PUT", elsewhere),
        ("PUT", {"name": "Pelican"}),
    ):
        problem = service.expect_problem(422, method, "/agents/agent-001", body)
        assert problem["type"] == "/problems/secret-required"
        assert pointers(problem) == ["/langfuseSecretKey"]
    assert service.get("/agents/agent-001")["langfuseUrl"] == HOME

    assert service.patch("/agents/agent-001", {"langfuseUrl": HOME, "name": "New"})["secretSet"]
    assert service.put("/agents/agent-001", {"name": "Pelican", "langfuseUrl": HOME})["secretSet"]
    patched = service.patch("/agents/agent-001", {**elsewhere, "langfuseSecretKey": OTHER_SECRET})
    assert (patched["langfuseUrl"], patched["secretSet"]) == (elsewhere["langfuseUrl"], True)
    assert stored_secret(service, "agent-001") == OTHER_SECRET
    cleared = service.patch("/agents/agent-001", {"langfuseUrl": HOME, "langfuseSecretKey": None})
    assert cleared["secretSet"] is False
    assert stored_secret(service, "agent-001") is None


def test_delete_agent__with_history_is_a_conflict(service: Service) -> None:
    service.create_agent()
    service.create_agent("agent-002")
    service.create_benchmark(evaluates=["agent-002"])
    service.create_benchmark("bench-002")
    service.start_run(benchmarkId="bench-002")
    for agent_id in ("agent-001", "agent-002"):
        problem = service.expect_problem(409, "DELETE", f"/agents/{agent_id}")
        assert problem["type"] == "/problems/agent-in-use"
        assert '"archived": true' in problem["detail"]
    assert service.patch("/agents/agent-001", {"archived": True})["archived"] is True
    assert [agent["id"] for agent in service.get("/agents")["items"]] == ["agent-002"]
    assert [agent["id"] for agent in service.get("/agents", archived=True)["items"]] == [
        "agent-001"
    ]
    assert service.get("/agents/agent-001")["archived"] is True
    run = {"benchmarkId": "bench-002", "agentId": "agent-001"}
    assert "archived" in service.expect_problem(409, "POST", "/benchmark-runs", run)["detail"]
    service.patch("/agents/agent-001", {"archived": False})
    service.post("/benchmark-runs", run)


def test_agents_api__run_url_is_encrypted_and_kept_when_it_is_sent_back_redacted(
    service: Service,
) -> None:
    url, shown = "https://agent.example/run/QmVhcmVyU2VjcmV0", "https://agent.example/…cmV0"
    agent = service.create_agent(runUrl=url)
    assert agent["runUrl"] == shown
    with service.resources.db.read() as session:
        stored = get_agent(session, agent["id"])
        assert stored.run_url == shown
        assert "agent.example" not in str(stored.run_address)
        assert reveal_run_url(stored, service.resources.secrets) == Secret(url)

    # What a client has read, with one change; then a form, which sends every field.
    for method, body in (
        ("PATCH", {"name": "Heron", "runUrl": shown}),
        ("PUT", {"name": "Egret", "runUrl": shown}),
    ):
        response = service.send(method, f"/agents/{agent['id']}", body)
        assert response.status_code == 200, response.text
        with service.resources.db.read() as session:
            stored = get_agent(session, agent["id"])
            assert reveal_run_url(stored, service.resources.secrets) == Secret(url)

    other = {"runUrl": "https://agent.example/…cmV1"}
    for method, path in (("PATCH", f"/agents/{agent['id']}"), ("POST", "/agents")):
        problem = service.expect_problem(422, method, path, {"name": "Stork", **other})
        assert pointers(problem) == ["/runUrl"]
    service.patch(f"/agents/{agent['id']}", {"runUrl": None})
    with service.resources.db.read() as session:
        stored = get_agent(session, agent["id"])
        assert (stored.run_url, stored.run_address) == (None, None)
