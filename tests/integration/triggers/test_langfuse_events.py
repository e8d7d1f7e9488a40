"""Langfuse events: signed, matched by rules of benchmarks, and run by jobs."""

import hashlib
import hmac
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from mosaico.triggers import secrets
from tests.integration.triggers.conftest import LANGFUSE_SECRET, TriggerSetup, as_json
from tests.support.service import JSON, pair

# A run that exists is evaluated; without `runName` somebody has to run the agent.
REMOTE = {
    "projectId": "p-1",
    "datasetId": "d-1",
    "datasetName": "support",
    "payload": '{"runName": "run-1"}',
}


class LangfuseSender:
    """Sends events as Langfuse does: the whole secret is the key."""

    def __init__(self, setup: TriggerSetup, secret: str = LANGFUSE_SECRET) -> None:
        self.setup, self.secret = setup, secret

    def header(self, body: bytes, ago_s: int = 0) -> str:
        seconds = int(self.setup.clock().timestamp()) - ago_s
        content = f"{seconds}.".encode() + body
        return (
            f"t={seconds},v1={hmac.new(self.secret.encode(), content, hashlib.sha256).hexdigest()}"
        )

    def send(self, document: Any, ago_s: int = 0) -> httpx.Response:
        body = json.dumps(document).encode()
        return self.deliver(body, self.header(body, ago_s))

    def deliver(self, body: bytes, header: str | None) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        if header is not None:
            headers["x-langfuse-signature"] = header
        return self.setup.client.post("/api/v1/webhooks/langfuse", content=body, headers=headers)

    def accepted(self, document: Any) -> JSON:
        return as_json(self.send(document), 202)


@pytest.fixture
def langfuse(setup: TriggerSetup) -> LangfuseSender:
    body = {"name": "project one", "secret": LANGFUSE_SECRET}
    response = setup.service.post("/langfuse-secrets", body)
    assert set(response) == {"id", "name", "createdAt"}
    return LangfuseSender(setup)


def set_rules(setup: TriggerSetup, *rules: JSON, benchmark_id: str = "bench-001") -> None:
    setup.set_triggers(benchmark_id, langfuse=list(rules))


def test_langfuse_event__runs_benchmarks_with_matching_rules(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    for benchmark_id in ("bench-002", "bench-003"):
        setup.service.create_benchmark(benchmark_id, evaluates=["agent-001"], metrics=["ROUGE"])
    set_rules(setup, {"event": "remote-experiment", "datasetName": "support", "projectId": "p-1"})
    set_rules(setup, {"event": "remote-experiment"}, benchmark_id="bench-002")
    set_rules(setup, {"event": "prompt-version"}, benchmark_id="bench-003")
    event = langfuse.accepted(REMOTE)
    assert (event["status"], event["benchmarkIds"], event["runIds"]) == (
        "WAITING",
        ["bench-001", "bench-002"],
        [],
    )
    setup.service.work()
    runs = setup.list_runs()
    assert [(run["benchmarkId"], run["triggeredBy"], run["status"]) for run in runs] == [
        ("bench-001", "WEBHOOK", "COMPLETED"),
        ("bench-002", "WEBHOOK", "COMPLETED"),
    ]
    [settled] = setup.list_events(type="remote-experiment", status="STARTED")
    assert settled["runIds"] == [run["id"] for run in runs]
    assert {run["triggerEventId"] for run in runs} == {settled["id"]} == {event["id"]}


def test_langfuse_event__payload_selects_benchmark_agent_and_run(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    setup.service.create_agent("agent-002")
    setup.service.patch("/benchmarks/bench-001", {"evaluates": ["agent-001", "agent-002"]})
    setup.service.create_benchmark("bench-002", evaluates=["agent-001"], metrics=["ROUGE"])
    setup.service.upload([pair(2)], run_name="run-2")
    for benchmark_id in ("bench-001", "bench-002"):
        set_rules(setup, {"event": "remote-experiment"}, benchmark_id=benchmark_id)
    payload = {"benchmark": "bench-001", "agent": "agent-002", "runName": "run-1"}
    langfuse.accepted({**REMOTE, "payload": json.dumps(payload)})
    setup.service.work()
    [run] = setup.list_runs()
    assert (run["benchmarkId"], run["agentId"], run["runName"]) == (
        "bench-001",
        "agent-002",
        "run-1",
    )


def test_langfuse_event__without_matching_rule_is_ignored_with_a_reason(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    set_rules(setup, {"event": "remote-experiment", "datasetName": "other"})
    event = langfuse.accepted(REMOTE)
    assert (event["status"], event["benchmarkIds"], event["runIds"]) == ("IGNORED", [], [])
    assert "triggers.langfuse" in event["reason"]
    event = langfuse.accepted({"id": "e-1", "type": "project-notification", "event": {}})
    assert (event["type"], event["status"]) == ("other", "IGNORED")
    assert langfuse.accepted([1, 2])["status"] == "IGNORED"
    setup.service.work()
    assert (setup.list_runs(), len(setup.list_events(status="IGNORED"))) == ([], 3)


def test_langfuse_event__retries_start_no_further_run(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    set_rules(
        setup,
        {"event": "prompt-version", "promptName": "greeting", "label": "production"},
        {"event": "monitor-alert", "severity": "critical"},
    )
    prompt = {"id": "v-2", "name": "greeting", "labels": ["production"], "projectId": "p-1"}
    version = {"id": "e-1", "type": "prompt-version", "action": "updated", "prompt": prompt}
    alert = {
        "id": "e-2",
        "type": "monitor-alert",
        "payload": {"monitorId": "m", "severity": "critical"},
    }
    # Langfuse sends an event again when the answer is late, with the same ID.
    for _ in range(3):
        setup.clock.advance(minutes=1)
        for event_body in (version, alert):
            langfuse.accepted(event_body)
        setup.service.work()
    assert len(setup.list_runs()) == 2
    assert sorted(event["type"] for event in setup.list_events()) == [
        "monitor-alert",
        "prompt-version",
    ]


def test_langfuse_event__replayed_experiment_starts_no_run(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    set_rules(setup, {"event": "remote-experiment"})
    body = json.dumps(REMOTE).encode()
    # A remote experiment has no ID of its own: the signed call itself identifies it.
    header = langfuse.header(body)
    first, again = (as_json(langfuse.deliver(body, header), 202) for _ in range(2))
    assert first["id"] == again["id"]
    setup.service.work()
    # Just after MAX_CLOCK_DIFFERENCE (5 minutes): a recorded call is of no use any more.
    setup.clock.advance(minutes=6)
    assert langfuse.deliver(body, header).status_code == 401
    setup.service.work()
    assert len(setup.list_runs()) == 1


def test_langfuse_event__invalid_signatures_start_no_run(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    set_rules(setup, {"event": "remote-experiment"})
    body = json.dumps(REMOTE).encode()
    assert langfuse.deliver(body, None).status_code == 401
    assert langfuse.deliver(body + b" ", langfuse.header(body)).status_code == 401
    assert langfuse.deliver(b"no JSON", langfuse.header(body)).status_code == 401
    # Ten seconds more than MAX_CLOCK_DIFFERENCE, before and after.
    assert langfuse.send(REMOTE, ago_s=310).status_code == 401
    assert langfuse.send(REMOTE, ago_s=-310).status_code == 401
    assert LangfuseSender(setup, "lf-whsec_another").send(REMOTE).status_code == 401
    # The secret of a benchmark is for its own webhook, and must not open this address.
    benchmark_secret = setup.create_sender().secret
    assert LangfuseSender(setup, benchmark_secret).send(REMOTE).status_code == 401
    setup.service.work()
    assert (setup.list_runs(), setup.list_events()) == ([], [])


def test_langfuse_event__invalid_json_is_rejected(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    assert langfuse.deliver(b"{", langfuse.header(b"{")).status_code == 400
    assert setup.list_events() == []


def test_langfuse_secrets__several_are_valid_until_deleted(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    other = "lf-whsec_another-project-0123"
    body = setup.service.post("/langfuse-secrets", {"name": "project two", "secret": other})
    assert LangfuseSender(setup, other).accepted(REMOTE)["secretId"] == body["id"]
    assert langfuse.accepted(REMOTE)["secretId"] != body["id"]
    assert [secret["name"] for secret in setup.service.list_items("/langfuse-secrets")] == [
        "project two",
        "project one",
    ]
    setup.service.delete(f"/langfuse-secrets/{body['id']}")
    assert LangfuseSender(setup, other).send(REMOTE).status_code == 401
    assert langfuse.send(REMOTE).status_code == 202
    with setup.service.resources.db.read() as session:
        # The whole row as text: the secret must not be in any column.
        stored = session.scalars(text("SELECT to_json(s)::text FROM webhook_secrets s")).all()
    assert not [row for row in stored if LANGFUSE_SECRET in row]


def test_langfuse_secrets__of_concurrent_requests_as_many_succeed_as_fit(
    setup: TriggerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "MAX_SECRETS", 3)
    body = {"name": "project", "secret": LANGFUSE_SECRET}

    def create(_number: int) -> int:
        return setup.service.send("POST", "/langfuse-secrets", body).status_code

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(create, range(8))) == [201] * 3 + [409] * 5
    problem = setup.service.expect_problem(409, "POST", "/langfuse-secrets", body)
    assert problem["type"] == "/problems/too-many-secrets"


def test_langfuse_secrets__invalid_secrets_are_rejected_without_an_echo(
    setup: TriggerSetup,
) -> None:
    for secret in ("whsec_0123456789abcdef", "lf-whsec_short", "lf-whsec_with a blank in it"):
        body = {"name": "project", "secret": secret}
        problem = setup.service.expect_problem(422, "POST", "/langfuse-secrets", body)
        assert secret not in str(problem)


def test_start_runs__one_failure_does_not_stop_the_others(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    setup.service.create_agent("agent-002")
    setup.service.create_benchmark("bench-002", evaluates=["agent-002"], metrics=["ROUGE"])
    for benchmark_id in ("bench-001", "bench-002"):
        set_rules(setup, {"event": "remote-experiment"}, benchmark_id=benchmark_id)
    # Of the two benchmarks only bench-001 evaluates this agent.
    langfuse.accepted({**REMOTE, "payload": {"agent": "agent-001", "runName": "run-1"}})
    setup.service.work()
    [event] = setup.list_events()
    assert (event["status"], len(event["runIds"])) == ("STARTED", 1)
    assert event["reason"].startswith("bench-002, agent-001:")


def test_start_event_runs__uses_the_current_configuration(
    setup: TriggerSetup, langfuse: LangfuseSender
) -> None:
    set_rules(setup, {"event": "remote-experiment"})
    langfuse.accepted(REMOTE)
    setup.set_triggers(langfuse=[])
    setup.service.work()
    [event] = setup.list_events()
    assert (event["status"], event["reason"], setup.list_runs()) == (
        "IGNORED",
        "no benchmark has a matching trigger any more",
        [],
    )
