"""Events of Langfuse: signed by it, matched by rules on benchmarks, run in the background."""

import hashlib
import hmac
import json
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tests.integration.triggers.conftest import LANGFUSE_SECRET, Scene, as_json
from tests.support.service import JSON, pair

REMOTE = {"projectId": "p-1", "datasetId": "d-1", "datasetName": "support"}


class Langfuse:
    """Sends as Langfuse does: the whole text of the secret is the key."""

    def __init__(self, scene: Scene, secret: str = LANGFUSE_SECRET) -> None:
        self.scene, self.secret = scene, secret

    def header(self, body: bytes, ago_s: int = 0) -> str:
        seconds = int(self.scene.clock().timestamp()) - ago_s
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
        return self.scene.stranger.post("/api/v1/webhooks/langfuse", content=body, headers=headers)

    def accepted(self, document: Any) -> JSON:
        return as_json(self.send(document), 202)


@pytest.fixture
def langfuse(scene: Scene) -> Langfuse:
    kept = {"name": "project one", "secret": LANGFUSE_SECRET}
    shown = scene.service.post("/langfuse-secrets", kept)
    assert set(shown) == {"id", "name", "createdAt"}
    return Langfuse(scene)


def listens(scene: Scene, *rules: JSON, benchmark_id: str = "bench-001") -> None:
    scene.triggers(benchmark_id, langfuse=list(rules))


def test_a_remote_experiment_runs_the_benchmarks_whose_rules_fit(
    scene: Scene, langfuse: Langfuse
) -> None:
    for benchmark_id in ("bench-002", "bench-003"):
        scene.service.benchmark(benchmark_id, evaluates=["agent-001"], metrics=["ROUGE"])
    listens(scene, {"event": "remote-experiment", "datasetName": "support", "projectId": "p-1"})
    listens(scene, {"event": "remote-experiment"}, benchmark_id="bench-002")
    listens(scene, {"event": "prompt-version"}, benchmark_id="bench-003")
    event = langfuse.accepted({**REMOTE, "payload": "{}"})
    assert (event["status"], event["benchmarkIds"], event["runIds"]) == (
        "WAITING",
        ["bench-001", "bench-002"],
        [],
    )
    scene.service.work()
    runs = scene.runs()
    assert [(run["benchmarkId"], run["triggeredBy"], run["status"]) for run in runs] == [
        ("bench-001", "WEBHOOK", "COMPLETED"),
        ("bench-002", "WEBHOOK", "COMPLETED"),
    ]
    [settled] = scene.events(type="remote-experiment", status="STARTED")
    assert settled["runIds"] == [run["id"] for run in runs]
    assert {run["triggerEventId"] for run in runs} == {settled["id"]} == {event["id"]}


def test_its_payload_may_choose_benchmark_agent_and_run(scene: Scene, langfuse: Langfuse) -> None:
    scene.service.agent("agent-002")
    scene.service.patch("/benchmarks/bench-001", {"evaluates": ["agent-001", "agent-002"]})
    scene.service.benchmark("bench-002", evaluates=["agent-001"], metrics=["ROUGE"])
    scene.service.upload([pair(2)], run_name="night-2")
    for benchmark_id in ("bench-001", "bench-002"):
        listens(scene, {"event": "remote-experiment"}, benchmark_id=benchmark_id)
    asked = {"benchmark": "bench-001", "agent": "agent-002", "runName": "night-1"}
    langfuse.accepted({**REMOTE, "payload": json.dumps(asked)})
    scene.service.work()
    [run] = scene.runs()
    assert (run["benchmarkId"], run["agentId"], run["runName"]) == (
        "bench-001",
        "agent-002",
        "night-1",
    )


def test_an_event_that_nobody_waits_for_is_recorded_with_the_reason(
    scene: Scene, langfuse: Langfuse
) -> None:
    listens(scene, {"event": "remote-experiment", "datasetName": "other"})
    event = langfuse.accepted(REMOTE)
    assert (event["status"], event["benchmarkIds"], event["runIds"]) == ("IGNORED", [], [])
    assert "triggers.langfuse" in event["reason"]
    told = langfuse.accepted({"id": "e-1", "type": "project-notification", "event": {}})
    assert (told["type"], told["status"]) == ("other", "IGNORED")
    assert langfuse.accepted([1, 2])["status"] == "IGNORED"
    scene.service.work()
    assert (scene.runs(), len(scene.events(status="IGNORED"))) == ([], 3)


def test_prompts_and_monitors_start_runs_and_their_retries_do_not(
    scene: Scene, langfuse: Langfuse
) -> None:
    listens(
        scene,
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
    for _ in range(3):
        scene.clock.go_on(minutes=1)
        for told in (version, alert):
            langfuse.accepted(told)
        scene.service.work()
    assert len(scene.runs()) == 2
    assert sorted(event["type"] for event in scene.events()) == ["monitor-alert", "prompt-version"]


def test_a_recorded_experiment_that_is_sent_again_starts_nothing(
    scene: Scene, langfuse: Langfuse
) -> None:
    listens(scene, {"event": "remote-experiment"})
    body = json.dumps(REMOTE).encode()
    header = langfuse.header(body)
    first, again = (as_json(langfuse.deliver(body, header), 202) for _ in range(2))
    assert first["id"] == again["id"]
    scene.service.work()
    scene.clock.go_on(minutes=6)
    assert langfuse.deliver(body, header).status_code == 401
    scene.service.work()
    assert len(scene.runs()) == 1


def test_unsigned_forged_and_stale_events_start_nothing(scene: Scene, langfuse: Langfuse) -> None:
    listens(scene, {"event": "remote-experiment"})
    body = json.dumps(REMOTE).encode()
    assert langfuse.deliver(body, None).status_code == 401
    assert langfuse.deliver(body + b" ", langfuse.header(body)).status_code == 401
    assert langfuse.deliver(b"no JSON", langfuse.header(body)).status_code == 401
    assert langfuse.send(REMOTE, ago_s=310).status_code == 401
    assert langfuse.send(REMOTE, ago_s=-310).status_code == 401
    assert Langfuse(scene, "lf-whsec_another").send(REMOTE).status_code == 401
    benchmark_secret = scene.sender().secret
    assert Langfuse(scene, benchmark_secret).send(REMOTE).status_code == 401
    scene.service.work()
    assert (scene.runs(), scene.events()) == ([], [])


def test_a_signed_text_that_is_no_json_is_refused(scene: Scene, langfuse: Langfuse) -> None:
    assert langfuse.deliver(b"{", langfuse.header(b"{")).status_code == 400
    assert scene.events() == []


def test_several_secrets_count_until_they_are_deleted(scene: Scene, langfuse: Langfuse) -> None:
    other = "lf-whsec_another-project-0123"
    kept = scene.service.post("/langfuse-secrets", {"name": "project two", "secret": other})
    assert Langfuse(scene, other).accepted(REMOTE)["secretId"] == kept["id"]
    assert langfuse.accepted(REMOTE)["secretId"] != kept["id"]
    assert [each["name"] for each in scene.service.listed("/langfuse-secrets")] == [
        "project two",
        "project one",
    ]
    scene.service.delete(f"/langfuse-secrets/{kept['id']}")
    assert Langfuse(scene, other).send(REMOTE).status_code == 401
    assert langfuse.send(REMOTE).status_code == 202
    with scene.service.resources.db.read() as session:
        stored = session.scalars(text("SELECT to_json(s)::text FROM webhook_secrets s")).all()
    assert not [row for row in stored if LANGFUSE_SECRET in row]


def test_other_secrets_are_refused_and_not_repeated(scene: Scene) -> None:
    for secret in ("whsec_0123456789abcdef", "lf-whsec_short", "lf-whsec_with a blank in it"):
        body = {"name": "project", "secret": secret}
        problem = scene.service.refused(422, "POST", "/langfuse-secrets", body)
        assert secret not in str(problem)


def test_what_cannot_be_started_is_told_and_does_not_keep_the_rest_from_starting(
    scene: Scene, langfuse: Langfuse
) -> None:
    scene.service.agent("agent-002")
    scene.service.benchmark("bench-002", evaluates=["agent-002"], metrics=["ROUGE"])
    for benchmark_id in ("bench-001", "bench-002"):
        listens(scene, {"event": "remote-experiment"}, benchmark_id=benchmark_id)
    langfuse.accepted({**REMOTE, "payload": {"agent": "agent-001"}})
    scene.service.work()
    [event] = scene.events()
    assert (event["status"], len(event["runIds"])) == ("STARTED", 1)
    assert event["reason"].startswith("bench-002, agent-001:")


def test_what_changed_before_the_job_counts(scene: Scene, langfuse: Langfuse) -> None:
    listens(scene, {"event": "remote-experiment"})
    langfuse.accepted(REMOTE)
    scene.triggers(langfuse=[])
    scene.service.work()
    [event] = scene.events()
    assert (event["status"], event["reason"], scene.runs()) == (
        "IGNORED",
        "no benchmark has a matching trigger any more",
        [],
    )
