"""A suspicious run of an agent with a runUrl is repeated by the agent, and both decide about the page."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from standardwebhooks.webhooks import Webhook

from mosaico.alerts.confirmations import CONFIRM_TIMEOUT
from mosaico.jobs import outcomes
from mosaico.triggers import repetitions
from tests.integration.triggers.conftest import TriggerSetup
from tests.support.http_agent import HttpAgent, running_http_agent
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.service import JSON

ITEMS = 12
GOOD_NIGHTS = 4
FIRST_NIGHT = DEFAULT_TIME - timedelta(days=20)


@pytest.fixture
def agent() -> Iterator[HttpAgent]:
    with running_http_agent() as agent:
        yield agent


@dataclass(kw_only=True)
class Nights:
    """A benchmark of a Langfuse dataset with a REGRESSED rule, and the nights of its agent."""

    setup: TriggerSetup
    langfuse: FakeLangfuse
    agent: HttpAgent
    secret: str
    count: int = 0

    def experiment(self, name: str, right: int, trials: int = 1, **more: Any) -> None:
        self.count += 1
        self.langfuse.experiment(
            run=name,
            items=ITEMS,
            started=FIRST_NIGHT + timedelta(hours=20 * self.count),
            expected_of=lambda number: f"answer {number}",
            trials=trials,
            output_of=lambda row: f"answer {row // trials}" if row // trials < right else "nothing",
            **more,
        )

    def night(self, right: int) -> JSON:
        """A night with so many right answers, judged; repetitions that it needs are asked for."""
        self.experiment(f"night-{self.count}", right)
        return self.judge(f"night-{self.count - 1}")

    def judge(self, run_name: str) -> JSON:
        started = self.setup.service.start_run(runName=run_name)
        self.setup.service.work()
        return self.run(started["id"])

    def look(self) -> None:
        """The worker looks for the runs of agents now, and not after minutes."""
        due = "UPDATE procrastinate_jobs SET scheduled_at = now() WHERE task_name = 'triggers.look_for_run'"
        with self.setup.service.resources.db.begin() as session:
            session.execute(text(due))
        self.setup.service.work()

    def run(self, run_id: str) -> JSON:
        return self.setup.service.get(f"/benchmark-runs/{run_id}")

    def repetitions(self) -> list[JSON]:
        return [run for run in self.setup.list_runs() if run["confirms"] is not None]

    def alerts(self) -> list[str]:
        return [
            alert["state"]
            for alert in self.setup.service.get("/alerts", alertConfigId="rule")["items"]
        ]

    def state(self) -> str:
        [state] = self.setup.service.get("/alert-configs/rule")["states"]
        return str(state["state"])

    def over_runs(self, run: JSON) -> tuple[str, str | None]:
        """The verdict over the runs that is stored with a run: its status and event."""
        [metric] = self.setup.service.get(f"/benchmark-runs/{run['id']}/metrics")["items"]
        return metric["overRuns"]["status"], metric["overRuns"]["event"]


@pytest.fixture
def nights(setup: TriggerSetup, agent: HttpAgent) -> Iterator[Nights]:
    """Good nights, after which the agent can be asked."""
    with run_fake_langfuse() as langfuse:
        keys = {
            "langfuseUrl": langfuse.url,
            "langfusePublicKey": langfuse.public_key,
            "langfuseSecretKey": langfuse.secret_key,
        }
        setup.service.patch("/agents/agent-001", {**keys, "runUrl": agent.url})
        setup.service.patch(
            "/benchmarks/bench-001", {"source": "langfuse", "metrics": ["ACCURACY"]}
        )
        secret = setup.service.post("/benchmarks/bench-001/webhook-secrets", {})["secret"]
        rule = {"id": "rule", "name": "answers are wrong", "benchmarkId": "bench-001"}
        setup.service.post(
            "/alert-configs", {**rule, "metric": "ACCURACY", "condition": "REGRESSED"}
        )
        nights = Nights(setup=setup, langfuse=langfuse, agent=agent, secret=secret)
        for _ in range(GOOD_NIGHTS):
            nights.night(ITEMS)
        yield nights


def page(setup: TriggerSetup, run_id: str) -> str:
    """The page of a run, as a browser gets it."""
    origin = str(setup.client.base_url).rstrip("/")
    key = setup.service.client.headers["Authorization"].removeprefix("Bearer ")
    setup.client.post("/login", data={"key": key}, headers={"Origin": origin})
    response = setup.client.get(f"/runs/{run_id}")
    assert response.status_code == 200, response.text
    return response.text


def test_repetition__agent_makes_the_run_again_and_both_page(
    setup: TriggerSetup, nights: Nights, agent: HttpAgent
) -> None:
    setup.set_triggers(newRun={})
    # The first poll only notes which runs exist already.
    setup.tick(minutes=5)
    bad = nights.night(3)
    assert bad["repeatedBy"] == "AGENT"
    [repetition] = nights.repetitions()
    assert (repetition["status"], repetition["confirms"]) == ("PENDING", bad["id"])
    assert (nights.state(), nights.alerts()) == ("PENDING", [])
    assert nights.over_runs(bad) == ("PENDING", None)
    [(headers, body)] = agent.requests
    assert headers["webhook-id"] == repetition["id"]
    assert Webhook(nights.secret).verify(body, headers) == {
        "type": "repetition",
        "data": {
            "requestId": repetition["id"],
            "runName": repetition["runName"],
            "benchmarkId": "bench-001",
            "agentId": "agent-001",
            "datasetName": "support",
            "trials": 2,
        },
    }
    nights.look()
    assert nights.run(repetition["id"])["status"] == "PENDING"
    nights.experiment(repetition["runName"], 3, trials=2)
    nights.look()
    ended = nights.run(repetition["id"])
    assert (ended["status"], ended["validity"], ended["tracesTotal"]) == (
        "COMPLETED",
        "VALID",
        2 * ITEMS,
    )
    assert (nights.state(), nights.alerts()) == ("FIRING", ["FIRING"])
    assert nights.over_runs(bad) == ("FIRING", "OPENED")
    assert ended["repeatedBy"] is None
    assert "by the agent" in page(setup, bad["id"])
    assert f'repeats <a href="/runs/{bad["id"]}">' in page(setup, repetition["id"])
    # The trigger for new runs has judged the bad night, and takes no repetition for another one.
    run_count = len(setup.list_runs())
    setup.tick(minutes=6)
    setup.tick(minutes=6)
    assert len(setup.list_runs()) == run_count
    assert len(agent.requests) == 1


def test_repetition__that_is_fine_pages_nobody_and_is_no_night(
    setup: TriggerSetup, nights: Nights, agent: HttpAgent
) -> None:
    agent.make = lambda request: nights.experiment(
        request["runName"], ITEMS, trials=request["trials"]
    )
    suspicious = nights.night(10)
    assert (nights.state(), nights.over_runs(suspicious)) == ("PENDING", ("PENDING", None))
    nights.look()
    assert (nights.state(), nights.alerts()) == ("OK", [])
    assert nights.over_runs(suspicious) == ("OK", None)
    # Later runs are compared with all traces of the night: ten right ones of 12, and 24 of 24.
    with setup.service.resources.db.read() as session:
        levels = session.scalars(text("SELECT level FROM run_series ORDER BY run_seq DESC LIMIT 1"))
        assert levels.one() == pytest.approx(34 / 36)
    [repetition] = nights.repetitions()
    assert repetition["status"] == "COMPLETED"
    # A run without a name reads the newest run, and a pattern the newest that matches: of the nights.
    newest = setup.service.start_run()
    setup.service.work()
    assert nights.run(newest["id"])["runName"] == f"night-{GOOD_NIGHTS}"
    refused = setup.service.expect_problem(
        422,
        "POST",
        "/benchmark-runs",
        {"benchmarkId": "bench-001", "agentId": "agent-001", "runName": repetition["runName"]},
    )
    assert refused["errors"][0]["pointer"] == "/runName"


def test_repetition__agent_that_does_not_promise_the_name_is_not_awaited(
    nights: Nights, agent: HttpAgent
) -> None:
    agent.promises = False
    bad = nights.night(3)
    [repetition] = nights.repetitions()
    assert (repetition["status"], repetition["errorCode"]) == ("FAILED", "NOT_REPEATED")
    assert "has no header mosaico-run-name" in repetition["errorMessage"]
    assert (nights.state(), nights.alerts()) == ("FIRING", ["FIRING"])
    assert nights.over_runs(bad) == ("FIRING", "OPENED")


def test_repetition__stored_verdict_does_not_wait_for_a_rule_that_was_deleted(
    setup: TriggerSetup, nights: Nights
) -> None:
    bad = nights.night(3)
    assert nights.over_runs(bad) == ("PENDING", None)
    setup.service.delete("/alert-configs/rule")
    assert nights.over_runs(bad) == ("FIRING", "OPENED")
    # Without a rule the series goes on from there.
    assert nights.over_runs(nights.night(3)) == ("FIRING", None)


def test_repetition__stored_verdict_of_the_next_run_goes_on_from_the_run_alone(
    nights: Nights,
) -> None:
    bad = nights.night(3)
    after = nights.night(3)
    assert nights.state() == "FIRING"
    assert nights.over_runs(bad) == ("FIRING", "OPENED")
    assert nights.over_runs(after) == ("FIRING", None)


def test_repetition__agent_that_is_down_delays_no_page(
    nights: Nights, agent: HttpAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "FIRST_RETRY_DELAY_S", 0.001)
    agent.status = 503
    nights.night(3)
    [repetition] = nights.repetitions()
    assert (repetition["status"], nights.alerts()) == ("FAILED", ["FIRING"])
    assert "HTTP 503" in repetition["errorMessage"]
    assert {headers["webhook-id"] for headers, _ in agent.requests} == {repetition["id"]}


def test_repetition__that_does_not_come_ends_after_two_hours_and_its_run_is_never_a_night(
    setup: TriggerSetup, nights: Nights, agent: HttpAgent
) -> None:
    setup.set_triggers(newRun={})
    setup.tick(minutes=5)
    nights.night(3)
    [repetition] = nights.repetitions()
    setup.clock.advance(seconds=CONFIRM_TIMEOUT.total_seconds() + 1)
    nights.look()
    ended = nights.run(repetition["id"])
    assert (ended["status"], ended["errorCode"]) == ("FAILED", "NOT_REPEATED")
    assert "no complete run" in ended["errorMessage"]
    assert nights.alerts() == ["FIRING"]
    nights.experiment(repetition["runName"], ITEMS)
    run_count = len(setup.list_runs())
    setup.tick(minutes=6)
    assert len(setup.list_runs()) == run_count
    # A retry asks the agent again, for a run of another name.
    setup.clock.offset = timedelta()
    retried = setup.service.post(f"/benchmark-runs/{repetition['id']}/retry")
    setup.service.work()
    assert retried["confirms"] == repetition["confirms"]
    assert json.loads(agent.requests[-1][1])["data"]["runName"] == retried["runName"]
    assert retried["runName"] not in (None, repetition["runName"])


def test_repetition__worker_that_dies_after_the_request_repeats_it_with_its_id(
    setup: TriggerSetup, nights: Nights, agent: HttpAgent
) -> None:
    nights.night(3)
    [repetition] = nights.repetitions()
    # As after a kill between the request and the next step.
    with setup.service.resources.db.begin() as session:
        session.execute(
            text("DELETE FROM procrastinate_jobs WHERE task_name = 'triggers.look_for_run'")
        )
    repetitions.ask_agent(setup.service.resources, repetition["id"])
    assert [headers["webhook-id"] for headers, _ in agent.requests] == [repetition["id"]] * 2
    assert agent.requests[0][1] == agent.requests[1][1]
    nights.experiment(repetition["runName"], 3)
    nights.look()
    assert nights.run(repetition["id"])["status"] == "COMPLETED"
    # A step of a run that has ended asks nobody.
    repetitions.ask_agent(setup.service.resources, repetition["id"])
    assert len(agent.requests) == 2


def test_repetition__cancelled_decides_by_the_run_alone(
    setup: TriggerSetup, nights: Nights
) -> None:
    nights.night(3)
    [repetition] = nights.repetitions()
    setup.service.post(f"/benchmark-runs/{repetition['id']}/cancel")
    assert nights.alerts() == ["FIRING"]
    nights.look()
    assert nights.run(repetition["id"])["status"] == "CANCELLED"


def test_repetition__that_is_invalid_decides_by_the_run_alone(
    nights: Nights, agent: HttpAgent
) -> None:
    # Errors of the model provider count for nothing; those of the agent would be a valid, bad run.
    outage = "Error code: 429 - rate limit reached"
    agent.make = lambda request: nights.experiment(
        request["runName"], ITEMS, errors=set(range(ITEMS)), failure=outage
    )
    nights.night(3)
    nights.look()
    [repetition] = nights.repetitions()
    assert (repetition["status"], repetition["validity"]) == ("COMPLETED", "INVALID")
    assert nights.alerts() == ["FIRING"]


@pytest.mark.parametrize("missing", ["runUrl", "secret"])
def test_plan__without_it_the_run_cannot_be_repeated(
    setup: TriggerSetup, nights: Nights, agent: HttpAgent, missing: str
) -> None:
    if missing == "runUrl":
        setup.service.patch("/agents/agent-001", {"runUrl": None})
    elif missing == "secret":
        [secret] = setup.service.get("/benchmarks/bench-001/webhook-secrets")["items"]
        setup.service.send("DELETE", f"/benchmarks/bench-001/webhook-secrets/{secret['id']}")
    bad = nights.night(3)
    assert bad["repeatedBy"] is None
    assert (nights.repetitions(), agent.requests, nights.alerts()) == ([], [], ["FIRING"])
