"""Remote experiments of Langfuse: the agent is asked to run, and its new run is evaluated."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from mosaico.core.resources import Resources
from mosaico.jobs import outcomes
from mosaico.jobs.handlers import MAX_ATTEMPTS
from mosaico.triggers.awaited_runs import take_step
from mosaico.triggers.models import AwaitedRun
from tests.integration.triggers.conftest import LANGFUSE_SECRET, TriggerSetup
from tests.integration.triggers.test_langfuse_events import LangfuseSender, set_rules
from tests.support.http_agent import HttpAgent, running_http_agent
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.service import JSON

EXPERIMENT = {"projectId": "p-1", "datasetId": "d-1", "datasetName": "support", "payload": "{}"}


@pytest.fixture
def service_resources(service_resources: Resources, tmp_path: Path) -> Resources:
    """A service that may run a command, which answers with its question."""
    commands = tmp_path / "commands.json"
    commands.write_text(json.dumps({"echo": {"command": "cat"}}))
    options = {**service_resources.options, "agent_commands": str(commands)}
    return replace(service_resources, options=options)


@pytest.fixture
def run_url() -> Iterator[HttpAgent]:
    """The `runUrl` of an agent."""
    with running_http_agent() as agent:
        yield agent


@pytest.fixture
def source() -> Iterator[FakeLangfuse]:
    with run_fake_langfuse() as running:
        running.experiment(run="old", items=3)
        yield running


@pytest.fixture
def sender(setup: TriggerSetup, source: FakeLangfuse) -> LangfuseSender:
    """A sender of events to a benchmark of a Langfuse dataset."""
    setup.service.patch(
        "/agents/agent-001",
        {
            "langfuseUrl": source.url,
            "langfusePublicKey": source.public_key,
            "langfuseSecretKey": source.secret_key,
        },
    )
    setup.service.patch("/benchmarks/bench-001", {"source": "langfuse", "metrics": ["ACCURACY"]})
    set_rules(setup, {"event": "remote-experiment"})
    setup.service.post("/langfuse-secrets", {"name": "one", "secret": LANGFUSE_SECRET})
    return LangfuseSender(setup)


def refused(sender: LangfuseSender) -> JSON:
    response = sender.send(EXPERIMENT)
    assert response.status_code == 409, response.text
    problem: JSON = response.json()
    return problem


def only_event(setup: TriggerSetup) -> JSON:
    [event] = setup.list_events(type="remote-experiment")
    return event


def forward_experiment(setup: TriggerSetup, sender: LangfuseSender, run_url: HttpAgent) -> None:
    """Send an event that requests a run of the agent at its `runUrl`."""
    setup.service.patch("/agents/agent-001", {"runUrl": run_url.url})
    setup.service.post("/benchmarks/bench-001/webhook-secrets", {})
    sender.accepted(EXPERIMENT)
    setup.service.work()


def test_experiment__nothing_runs_the_agent_is_refused_with_the_reason(
    setup: TriggerSetup, sender: LangfuseSender
) -> None:
    assert "set its runUrl" in refused(sender)["detail"]
    setup.service.patch("/agents/agent-001", {"runUrl": "http://127.0.0.1:9/run"})
    assert "/webhook-secrets" in refused(sender)["detail"]
    setup.service.post("/benchmarks/bench-001/webhook-secrets", {})
    setup.service.patch("/benchmarks/bench-001", {"datasetRef": "other"})
    assert "reads the dataset 'other'" in refused(sender)["detail"]
    setup.service.patch("/benchmarks/bench-001", {"source": "local"})
    assert "'local' neither runs the agent" in refused(sender)["detail"]
    setup.service.work()
    # The old run is not evaluated in its place.
    assert (setup.list_runs(), setup.list_events(type="remote-experiment")) == ([], [])


def test_experiment__request_is_forwarded_and_the_new_run_is_evaluated(
    setup: TriggerSetup, sender: LangfuseSender, source: FakeLangfuse, run_url: HttpAgent
) -> None:
    setup.service.patch("/agents/agent-001", {"runUrl": run_url.url})
    secret = setup.service.post("/benchmarks/bench-001/webhook-secrets", {})["secret"]
    event = sender.accepted(EXPERIMENT)
    setup.service.work()
    [(headers, body)] = run_url.requests
    assert Webhook(secret).verify(body, {name.lower(): text for name, text in headers.items()}) == {
        "type": "remote-experiment",
        "data": {
            "eventId": event["id"],
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "datasetName": "support",
            "projectId": "p-1",
        },
    }
    assert json.loads(body)["data"]["eventId"] == event["id"]
    assert (setup.list_runs(), only_event(setup)["status"]) == ([], "WAITING")
    source.experiment(run="new", items=3)
    setup.tick(minutes=1)
    [run] = setup.list_runs()
    assert (run["runName"], run["triggeredBy"], run["triggerEventId"]) == (
        "new",
        "WEBHOOK",
        event["id"],
    )
    assert only_event(setup)["status"] == "STARTED"


@pytest.mark.parametrize("pause", [timedelta(minutes=5), timedelta(hours=20)])
def test_experiment__new_run_under_the_name_of_an_old_one_is_evaluated(
    setup: TriggerSetup,
    sender: LangfuseSender,
    source: FakeLangfuse,
    run_url: HttpAgent,
    pause: timedelta,
) -> None:
    forward_experiment(setup, sender, run_url)
    # The run that existed before the request is not the one that was asked for.
    setup.tick(minutes=1)
    assert (setup.list_runs(), only_event(setup)["status"]) == ([], "WAITING")
    source.experiment(
        run="old", items=3, started=DEFAULT_TIME + pause, output_of=lambda _: "new answer"
    )
    setup.tick(minutes=1)
    [run] = setup.list_runs()
    assert (run["runName"], run["tracesTotal"], only_event(setup)["status"]) == (
        "old",
        3,
        "STARTED",
    )
    assert run["sourceRunAt"] > (DEFAULT_TIME + pause / 2).isoformat()
    traces = setup.service.get(f"/benchmark-runs/{run['id']}/results")["items"]
    assert {trace["output"] for trace in traces} == {"new answer"}


def test_poll__second_night_of_a_name_is_evaluated_once(
    setup: TriggerSetup, sender: LangfuseSender, source: FakeLangfuse
) -> None:
    assert sender.setup is setup
    setup.set_triggers(newRun={})
    setup.tick(minutes=5)
    assert setup.list_runs() == []
    for night in (1, 2):
        source.experiment(run="old", items=3, started=DEFAULT_TIME + timedelta(hours=20 * night))
        # The second look finds the same run and starts nothing.
        for _ in range(2):
            setup.tick(minutes=6)
        runs = setup.list_runs()
        assert [run["runName"] for run in runs] == ["old"] * night
        assert [run["sameSourceAs"] for run in runs] == [None] * night
    # Evaluators that end late are no new run.
    source.experiment(run="old", items=1, started=DEFAULT_TIME + timedelta(hours=40, minutes=1))
    setup.tick(minutes=6)
    assert len(setup.list_runs()) == 2


def test_schedule__evaluates_each_night_of_a_name_once(
    setup: TriggerSetup, sender: LangfuseSender, source: FakeLangfuse
) -> None:
    assert sender.setup is setup
    schedule = setup.service.post(
        "/schedule-configs",
        {
            "name": "nightly",
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "cronExpression": "0 0 3 * * *",
            "runNamePattern": "o*",
        },
    )
    for night in range(2):
        # The second start of a night finds its run evaluated.
        for _ in range(2):
            setup.service.post(f"/schedule-configs/{schedule['id']}/trigger")
            setup.service.work()
        runs = setup.list_runs()
        assert [run["sameSourceAs"] for run in runs] == [None] * (night + 1)
        source.experiment(
            run="old", items=3, started=DEFAULT_TIME + timedelta(hours=20 * (night + 1))
        )


def test_experiment__without_a_new_run_ends_at_the_limit(
    setup: TriggerSetup, sender: LangfuseSender, run_url: HttpAgent
) -> None:
    forward_experiment(setup, sender, run_url)
    # An hour more than MAX_WAIT.
    setup.tick(hours=7)
    event = only_event(setup)
    assert (event["status"], setup.list_runs()) == ("IGNORED", [])
    assert "no complete new run" in event["reason"]


@pytest.mark.parametrize("status", [500, 429])
def test_experiment__request_is_repeated_until_the_agent_accepts_it(
    setup: TriggerSetup,
    sender: LangfuseSender,
    source: FakeLangfuse,
    run_url: HttpAgent,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    monkeypatch.setattr(outcomes, "FIRST_RETRY_DELAY_S", 0.001)
    run_url.statuses = [status, status]
    forward_experiment(setup, sender, run_url)
    # The agent tells a repeated request from a new one by its ID.
    ids = {headers["webhook-id"] for headers, _ in run_url.requests}
    assert (len(run_url.requests), len(ids)) == (3, 1)
    assert only_event(setup)["status"] == "WAITING"
    source.experiment(run="new", items=3)
    setup.tick(minutes=1)
    [run] = setup.list_runs()
    assert (run["runName"], only_event(setup)["status"]) == ("new", "STARTED")


def test_experiment__agent_that_never_accepts_is_the_reason_of_the_event(
    setup: TriggerSetup, sender: LangfuseSender, run_url: HttpAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "FIRST_RETRY_DELAY_S", 0.001)
    run_url.status = 503
    forward_experiment(setup, sender, run_url)
    event = only_event(setup)
    assert (event["status"], setup.list_runs()) == ("IGNORED", [])
    assert len(run_url.requests) == MAX_ATTEMPTS
    assert "HTTP 503" in event["reason"]


def test_experiment__repeated_step_sends_the_same_id(
    setup: TriggerSetup, sender: LangfuseSender, run_url: HttpAgent
) -> None:
    setup.service.patch("/agents/agent-001", {"runUrl": run_url.url})
    setup.service.post("/benchmarks/bench-001/webhook-secrets", {})
    event = sender.accepted(EXPERIMENT)
    setup.service.work()
    key = (event["id"], "bench-001", "agent-001")
    # As after a kill between the request and its record.
    with setup.service.resources.db.begin() as session:
        session.get_one(AwaitedRun, key).forwarded_at = None
    take_step(setup.service.resources, key)
    ids = {headers["webhook-id"] for headers, _ in run_url.requests}
    assert (len(run_url.requests), len(ids)) == (2, 1)


def test_experiment__harness_runs_the_agent(setup: TriggerSetup, sender: LangfuseSender) -> None:
    body = {"source": "harness", "datasetRef": "langfuse:support", "harness": {"command": "echo"}}
    setup.service.patch("/benchmarks/bench-001", body)
    assert sender.send(EXPERIMENT).status_code == 202
    setup.service.work()
    [run] = setup.list_runs()
    assert (run["status"], run["triggeredBy"], run["tracesTotal"]) == ("COMPLETED", "WEBHOOK", 3)
    traces = setup.service.list_items(f"/benchmark-runs/{run['id']}/results")
    # Made now by the command, and not those of the old run.
    assert {trace["output"] for trace in traces} == {f"question {number}" for number in range(3)}
    assert only_event(setup)["status"] == "STARTED"
