"""A signed call starts runs of a benchmark, once per ID."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx

from tests.integration.triggers.conftest import TriggerSetup, as_json, to_json
from tests.support.service import pointers


def test_webhook__signed_call_starts_a_run_with_its_event(setup: TriggerSetup) -> None:
    body = to_json(agentId="agent-001", runName="run-1")
    event = as_json(setup.create_sender().call("msg_1", body), 202)
    assert (event["type"], event["status"], event["benchmarkIds"]) == (
        "webhook",
        "STARTED",
        ["bench-001"],
    )
    setup.service.work()
    [run] = setup.list_runs()
    assert [run["id"]] == event["runIds"]
    assert (run["status"], run["triggeredBy"], run["runName"], run["triggerEventId"]) == (
        "COMPLETED",
        "WEBHOOK",
        "run-1",
        event["id"],
    )
    assert setup.service.get(f"/trigger-events/{event['id']}") == event


def test_webhook__without_agent_runs_every_evaluated_agent(setup: TriggerSetup) -> None:
    for agent_id in ("agent-002", "agent-003"):
        setup.service.create_agent(agent_id)
    everyone = ["agent-001", "agent-002", "agent-003"]
    setup.service.patch("/benchmarks/bench-001", {"evaluates": everyone})
    setup.service.patch("/agents/agent-002", {"archived": True})
    for number, body in enumerate(["", "{}"]):
        assert len(as_json(setup.create_sender().call(f"msg_{number}", body), 202)["runIds"]) == 2
    assert {run["agentId"] for run in setup.list_runs()} == {"agent-001", "agent-003"}


def test_webhook__call_without_agent_is_rejected_and_keeps_its_id_free(setup: TriggerSetup) -> None:
    setup.service.patch("/benchmarks/bench-001", {"evaluates": []})
    sender = setup.create_sender()
    assert "evaluates" in as_json(sender.call(), 422)["detail"]
    setup.service.patch("/benchmarks/bench-001", {"evaluates": ["agent-001"]})
    assert len(as_json(sender.call(), 202)["runIds"]) == 1


def test_webhook__invalid_body_starts_no_run(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    refused = [
        ('{"agentId": "agent-001", "trigger": 1}', 422, ["/trigger"]),
        ('{"agentId": 7}', 422, ["/agentId"]),
        ("[]", 422, [""]),
        ('{"agentId": ', 400, []),
        ('{"agentId": "agent-404"}', 404, []),
    ]
    for body, status, where in refused:
        assert pointers(as_json(sender.call("msg_1", body), status)) == where
    assert (setup.list_runs(), setup.list_events()) == ([], [])


def test_webhook__repeated_id_returns_the_same_event(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    first = as_json(sender.call("msg_1"), 202)
    setup.clock.advance(hours=23)
    # Signed anew: an ID is remembered longer than a signature is valid.
    again = as_json(sender.call("msg_1"), 202)
    assert (again, len(setup.list_runs())) == (first, 1)


def test_webhook__concurrent_calls_with_one_id_start_one_run(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: sender.call("msg_1"), range(24)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert len(setup.list_runs()) == 1


def test_webhook__reused_id_with_another_body_is_rejected(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    sender.call("msg_1")
    problem = as_json(sender.call("msg_1", to_json(runName="run-1")), 409)
    assert problem["type"] == "/problems/webhook-id-reused"
    assert len(setup.list_runs()) == 1


def test_delete_expired_events__keeps_ids_for_a_week(setup: TriggerSetup) -> None:
    from mosaico.triggers.service import delete_expired_events

    setup.create_sender().call("msg_1")
    for days, left_count in ((6.9, 1), (0.2, 0)):
        setup.clock.advance(days=days)
        with setup.service.resources.db.begin() as session:
            delete_expired_events(session, setup.clock())
        assert len(setup.list_events()) == left_count


def test_webhook__signature_time_may_differ_by_five_minutes(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    # Ten seconds less than MAX_CLOCK_DIFFERENCE, and then ten more.
    for number, seconds in enumerate((-290, 290)):
        at = setup.clock() + timedelta(seconds=seconds)
        assert sender.call(f"msg_{number}", at=at).status_code == 202
    for seconds in (-310, 310):
        stale = as_json(sender.call("msg_9", at=setup.clock() + timedelta(seconds=seconds)), 401)
        assert stale["type"] == "/problems/stale-signature"
    assert len(setup.list_runs()) == 2


def test_webhook__replayed_call_starts_no_run(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    headers = sender.headers("msg_1", "{}")
    assert sender.send(headers, "{}").status_code == 202
    assert sender.send(headers, "{}").status_code == 202
    setup.clock.advance(minutes=6)
    assert sender.send(headers, "{}").status_code == 401
    assert len(setup.list_runs()) == 1


def test_webhook__invalid_calls_get_identical_responses(
    setup: TriggerSetup,
) -> None:
    sender = setup.create_sender()
    setup.service.create_benchmark("bench-002", evaluates=["agent-001"])
    body = to_json(agentId="agent-001")
    headers = sender.headers("msg_1", body)
    # A well-formed secret that no benchmark has.
    other_sender = setup.sender_with("whsec_" + "A" * 43 + "=")

    def elsewhere(benchmark_id: str) -> httpx.Response:
        return setup.sender_with(sender.secret, benchmark_id).send(headers, body)

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
            # Standard Webhooks: v1a is the scheme of signatures with public keys.
            {**headers, "webhook-signature": headers["webhook-signature"].replace("v1,", "v1a,")},
            body,
        ),
        other_sender.call("msg_1", body),
        elsewhere("bench-002"),
        elsewhere("bench-404"),
        elsewhere("%2e%2e"),
    ]
    bodies = {
        json.dumps({**as_json(answer, 401), "instance": ""}, sort_keys=True) for answer in answers
    }
    assert len(bodies) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {"Signature"}
    assert (setup.list_runs(), setup.list_events()) == ([], [])


def test_webhook__wrong_parameters_are_refused_after_the_signature(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    for path in ("webhooks/langfuse", f"webhooks/benchmarks/{sender.benchmark_id}/runs"):
        assert setup.client.post(f"/api/v1/{path}?x=1", content=b"{}").status_code == 401, path

    signed = setup.client.post(
        f"/api/v1/{path}?x=1", headers=sender.headers("msg_1", "{}", None), content=b"{}"
    )

    assert pointers(as_json(signed, 422)) == ["x"]
    assert (setup.list_runs(), setup.list_events()) == ([], [])


def test_webhook__failures_of_an_address_are_limited_but_valid_calls_are_not(
    setup: TriggerSetup,
) -> None:
    sender = setup.create_sender()
    headers = sender.headers("msg_1", "{}")
    answers = [sender.send(headers, "[]") for _ in range(30)]
    assert [answer.status_code for answer in answers] == [401] * 30
    # Failures are forgiven with time: how many come before the limit is chance.
    while (last := sender.send(headers, "[]")).status_code == 401:
        answers.append(last)
        assert len(answers) < 300
    assert (last.status_code, int(last.headers["Retry-After"]) >= 1) == (429, True)
    assert sender.send(headers, "{}").status_code == 202


def test_webhook__body_over_64_kib_is_rejected(setup: TriggerSetup) -> None:
    sender = setup.create_sender()
    # Spaces around a document are valid JSON: only the size differs.
    fits = '{"runName": "x"}'.ljust(64 * 1024)
    assert sender.call("msg_1", fits).status_code == 202
    assert sender.call("msg_2", fits + " ").status_code == 413
    assert len(setup.list_runs()) == 1


def test_webhook_secrets__are_returned_once_and_rotated_without_a_gap(setup: TriggerSetup) -> None:
    first = setup.create_sender()
    second = setup.create_sender(previousExpiresAfterSeconds=3600)
    listed = setup.service.list_items("/benchmarks/bench-001/webhook-secrets")
    assert [set(secret) for secret in listed] == [{"id", "createdAt", "expiresAt"}] * 2
    assert [first.call("a").status_code, second.call("b").status_code] == [202, 202]
    setup.clock.advance(hours=1.1)
    assert [first.call("d").status_code, second.call("e").status_code] == [401, 202]

    [newest, _] = listed
    setup.service.delete(f"/benchmarks/bench-001/webhook-secrets/{newest['id']}")
    assert second.call("f").status_code == 401


def test_webhook_secrets__are_encrypted_in_the_database(setup: TriggerSetup) -> None:
    from sqlalchemy import text

    sender = setup.create_sender()
    with setup.service.resources.db.read() as session:
        stored = session.scalars(text("SELECT to_json(s)::text FROM webhook_secrets s")).one()
    assert sender.secret.removeprefix("whsec_") not in stored
