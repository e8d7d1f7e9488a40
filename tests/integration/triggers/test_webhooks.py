"""A benchmark is run by a signed call, once for each id, and by nothing else."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
from standardwebhooks.webhooks import Webhook

from app.triggers.rules import MAX_SECRETS
from tests.integration.triggers.conftest import Scene, as_json, compact
from tests.support.service import pointers


def test_a_signed_call_starts_a_run_that_says_what_started_it(scene: Scene) -> None:
    body = compact(agentId="agent-001", runName="night-1")
    event = as_json(scene.sender().call("msg_1", body), 202)
    assert (event["type"], event["status"], event["benchmarkIds"]) == (
        "webhook",
        "STARTED",
        ["bench-001"],
    )
    scene.service.work()
    [run] = scene.runs()
    assert [run["id"]] == event["runIds"]
    assert (run["status"], run["triggeredBy"], run["runName"], run["triggerEventId"]) == (
        "COMPLETED",
        "WEBHOOK",
        "night-1",
        event["id"],
    )
    assert scene.service.get(f"/trigger-events/{event['id']}") == event


def test_without_an_agent_each_one_that_the_benchmark_evaluates_is_run(scene: Scene) -> None:
    for agent_id in ("agent-002", "agent-003"):
        scene.service.agent(agent_id)
    everyone = ["agent-001", "agent-002", "agent-003"]
    scene.service.patch("/benchmarks/bench-001", {"evaluates": everyone})
    scene.service.patch("/agents/agent-002", {"archived": True})
    for number, body in enumerate(["", "{}"]):
        assert len(as_json(scene.sender().call(f"msg_{number}", body), 202)["runIds"]) == 2
    assert {run["agentId"] for run in scene.runs()} == {"agent-001", "agent-003"}


def test_a_call_for_nobody_is_refused_and_its_id_is_not_used_up(scene: Scene) -> None:
    scene.service.patch("/benchmarks/bench-001", {"evaluates": []})
    sender = scene.sender()
    assert "evaluates" in as_json(sender.call(), 422)["detail"]
    scene.service.patch("/benchmarks/bench-001", {"evaluates": ["agent-001"]})
    assert len(as_json(sender.call(), 202)["runIds"]) == 1


def test_a_signed_call_that_says_something_wrong_starts_nothing(scene: Scene) -> None:
    sender = scene.sender()
    refused = [
        ('{"agentId": "agent-001", "trigger": 1}', 422, ["/trigger"]),
        ('{"agentId": 7}', 422, ["/agentId"]),
        ("[]", 422, [""]),
        ('{"agentId": ', 400, []),
        ('{"agentId": "agent-404"}', 404, []),
    ]
    for body, status, where in refused:
        assert pointers(as_json(sender.call("msg_1", body), status)) == where
    assert (scene.runs(), scene.events()) == ([], [])


def test_a_repeated_id_starts_one_run_and_gets_the_same_answer(scene: Scene) -> None:
    sender = scene.sender()
    first = as_json(sender.call("msg_1"), 202)
    scene.clock.go_on(hours=23)
    again = as_json(sender.call("msg_1"), 202)
    assert (again, len(scene.runs())) == (first, 1)


def test_many_calls_with_one_id_at_the_same_time_start_one_run(scene: Scene) -> None:
    sender = scene.sender()
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: sender.call("msg_1"), range(24)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert len(scene.runs()) == 1


def test_an_id_that_comes_again_with_another_body_is_refused(scene: Scene) -> None:
    sender = scene.sender()
    sender.call("msg_1")
    problem = as_json(sender.call("msg_1", compact(runName="night-1")), 409)
    assert problem["type"] == "/problems/webhook-id-reused"
    assert len(scene.runs()) == 1


def test_the_same_id_may_be_used_for_two_benchmarks(scene: Scene) -> None:
    scene.service.benchmark("bench-002", evaluates=["agent-001"], metrics=["ROUGE"])
    for benchmark_id in ("bench-001", "bench-002"):
        as_json(scene.sender(benchmark_id).call("msg_1"), 202)
    assert [run["benchmarkId"] for run in scene.runs()] == ["bench-001", "bench-002"]


def test_ids_are_forgotten_after_a_week_and_not_before(scene: Scene) -> None:
    from app.triggers.service import delete_expired_events

    scene.sender().call("msg_1")
    for days, left in ((6.9, 1), (0.2, 0)):
        scene.clock.go_on(days=days)
        with scene.service.resources.db.begin() as session:
            delete_expired_events(session, scene.clock())
        assert len(scene.events()) == left


def test_a_call_is_accepted_within_five_minutes(scene: Scene) -> None:
    sender = scene.sender()
    for number, seconds in enumerate((-290, 290)):
        at = scene.clock() + timedelta(seconds=seconds)
        assert sender.call(f"msg_{number}", at=at).status_code == 202
    for seconds in (-310, 310):
        stale = as_json(sender.call("msg_9", at=scene.clock() + timedelta(seconds=seconds)), 401)
        assert stale["type"] == "/problems/stale-signature"
    assert len(scene.runs()) == 2


def test_a_recorded_call_that_is_sent_again_later_starts_nothing(scene: Scene) -> None:
    sender = scene.sender()
    headers = sender.headers("msg_1", "{}")
    assert sender.send(headers, "{}").status_code == 202
    assert sender.send(headers, "{}").status_code == 202
    scene.clock.go_on(minutes=6)
    assert sender.send(headers, "{}").status_code == 401
    assert len(scene.runs()) == 1


def test_unsigned_forged_and_misdirected_calls_get_one_answer_and_start_nothing(
    scene: Scene,
) -> None:
    sender = scene.sender()
    scene.service.benchmark("bench-002", evaluates=["agent-001"])
    body = compact(agentId="agent-001")
    headers = sender.headers("msg_1", body)
    stranger = scene.sender_with("whsec_" + "A" * 43 + "=")

    def elsewhere(benchmark_id: str) -> httpx.Response:
        return scene.sender_with(sender.secret, benchmark_id).send(headers, body)

    answers = [
        sender.send({"Content-Type": "application/json"}, body),
        sender.send(headers, body.replace("agent-001", "agent-002")),
        sender.send(headers, body + " "),
        sender.send(headers, b""),
        sender.send({**headers, "webhook-id": "msg_2"}, body),
        sender.send(
            {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}, body
        ),
        sender.send({**headers, "webhook-timestamp": "soon"}, body),
        sender.send({**headers, "webhook-signature": "v1,"}, body),
        sender.send(
            {**headers, "webhook-signature": headers["webhook-signature"].replace("v1,", "v1a,")},
            body,
        ),
        stranger.call("msg_1", body),
        elsewhere("bench-002"),
        elsewhere("bench-404"),
        elsewhere("%2e%2e"),
    ]
    said = {
        json.dumps({**as_json(answer, 401), "instance": ""}, sort_keys=True) for answer in answers
    }
    assert len(said) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {"Signature"}
    assert (scene.runs(), scene.events()) == ([], [])


def test_who_is_wrong_too_often_is_slowed_while_the_owner_behind_the_same_proxy_is_not(
    scene: Scene,
) -> None:
    sender = scene.sender()
    headers = sender.headers("msg_1", "{}")
    answers = [sender.send(headers, "[]") for _ in range(30)]
    assert [answer.status_code for answer in answers] == [401] * 30
    while (last := sender.send(headers, "[]")).status_code == 401:
        answers.append(last)
        assert len(answers) < 300
    assert (last.status_code, int(last.headers["Retry-After"]) >= 1) == (429, True)
    assert sender.send(headers, "{}").status_code == 202


def test_a_body_of_more_than_64_kib_is_refused(scene: Scene) -> None:
    sender = scene.sender()
    fits = '{"runName": "x"}'.ljust(64 * 1024)
    assert sender.call("msg_1", fits).status_code == 202
    assert sender.call("msg_2", fits + " ").status_code == 413
    assert len(scene.runs()) == 1


def test_secrets_are_shown_once_and_rotated_without_a_gap(scene: Scene) -> None:
    first = scene.sender()
    second = scene.sender(previousExpiresAfterSeconds=3600)
    listed = scene.service.listed("/benchmarks/bench-001/webhook-secrets")
    assert [set(each) for each in listed] == [{"id", "createdAt", "expiresAt"}] * 2
    assert [first.call("a").status_code, second.call("b").status_code] == [202, 202]
    scene.clock.go_on(hours=1.1)
    assert [first.call("d").status_code, second.call("e").status_code] == [401, 202]

    [newest, _] = listed
    scene.service.delete(f"/benchmarks/bench-001/webhook-secrets/{newest['id']}")
    assert second.call("f").status_code == 401


def test_during_a_rotation_a_call_may_carry_several_signatures(scene: Scene) -> None:
    old, new = scene.sender(), scene.sender()
    listed = scene.service.listed("/benchmarks/bench-001/webhook-secrets")
    scene.service.delete(f"/benchmarks/bench-001/webhook-secrets/{listed[-1]['id']}")
    now = scene.service.resources.clock()
    headers = old.headers("c", "{}", now)
    assert old.send(headers, "{}").status_code == 401
    headers["webhook-signature"] += " " + new.headers("c", "{}", now)["webhook-signature"]
    assert old.send(headers, "{}").status_code == 202


def test_the_reference_verifies_what_it_signed_with_a_secret_of_ours(scene: Scene) -> None:
    sender = scene.sender()
    assert Webhook(sender.secret).verify("{}", sender.headers("msg_1", "{}")) == {}
    assert len(Webhook(sender.secret)._whsecret) == 32


def test_there_are_only_so_many_secrets(scene: Scene) -> None:
    path = "/benchmarks/bench-001/webhook-secrets"
    for _ in range(MAX_SECRETS):
        scene.sender()
    assert scene.service.refused(409, "POST", path, {})["type"] == "/problems/too-many-secrets"
    scene.sender(previousExpiresAfterSeconds=0)


def test_no_secret_stands_in_the_database(scene: Scene) -> None:
    from sqlalchemy import text

    sender = scene.sender()
    with scene.service.resources.db.read() as session:
        stored = session.scalars(text("SELECT to_json(s)::text FROM webhook_secrets s")).one()
    assert sender.secret.removeprefix("whsec_") not in stored


def test_a_client_may_not_say_that_something_else_started_its_run(scene: Scene) -> None:
    for said in ("WEBHOOK", "EVENT", "SCHEDULED"):
        body = {"benchmarkId": "bench-001", "agentId": "agent-001", "triggerType": said}
        scene.service.refused(422, "POST", "/benchmark-runs", body)
