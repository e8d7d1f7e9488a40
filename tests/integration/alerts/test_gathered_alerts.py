"""Alerts of the runs of one agent that are in progress at the same time are one message."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from mosaico.alerts import event_queries
from mosaico.alerts.publishing import GATHER_LIMIT, publish_gathered
from tests.support.service import JSON, Service, pair

BENCHMARKS = ("support", "billing")
WEBHOOK = {"channels": ["WEBHOOK"], "recipients": ["https://hooks.example.com/alerts"]}


@pytest.fixture
def two_benchmarks(service: Service) -> Service:
    """An agent with two benchmarks, each of which has a rule with the same recipient."""
    service.create_agent()
    for name in BENCHMARKS:
        service.create_benchmark(name, datasetRef=name, metrics=["EXACT_MATCH"])
        rule = {"id": f"rule-{name}", "name": f"{name} is bad", "benchmarkId": name, **WEBHOOK}
        limit = {"metric": "EXACT_MATCH", "condition": "LESS_THAN", "threshold": 0.8}
        service.post("/alert-configs", {**rule, **limit, "severity": "CRITICAL"})
    return service


def start(service: Service, benchmark: str, right: int) -> JSON:
    answers = [pair(number, "yes", "yes" if number < right else "no") for number in range(10)]
    service.upload(answers, name=benchmark)
    return service.start_run(benchmarkId=benchmark, runName="run-1")


def drop_jobs(service: Service, run: JSON) -> None:
    """The run stays PENDING, as one that waits for a worker."""
    with service.resources.db.begin() as session:
        jobs = "DELETE FROM procrastinate_jobs WHERE args ->> 'run_id' = :run_id"
        session.execute(text(jobs), {"run_id": run["id"]})


def publish_later(service: Service, after: timedelta = timedelta()) -> None:
    agent_id: str | None = ""
    while agent_id is not None:
        with service.resources.db.begin() as session:
            agent_id = publish_gathered(session, agent_id, service.resources.clock() + after)


def messages(service: Service) -> list[JSON]:
    return service.list_items("/notifications")


def test_gathered_alerts__of_two_benchmarks_in_one_night_are_one_message(
    two_benchmarks: Service,
) -> None:
    runs = [start(two_benchmarks, benchmark, right=6) for benchmark in BENCHMARKS]
    two_benchmarks.work()
    alerts = two_benchmarks.list_items("/alerts")
    assert {alert["runId"] for alert in alerts} == {run["id"] for run in runs}
    [message] = messages(two_benchmarks)
    assert [alert["notificationId"] for alert in alerts] == [message["id"]] * 2
    assert len(two_benchmarks.list_items("/deliveries")) == 1
    assert message["title"].startswith("Pelican: EXACT_MATCH 0.60, below 0.80 (")
    assert message["title"].endswith(") and 1 more")
    assert sorted(item["title"] for item in message["items"]) == [
        "Pelican: EXACT_MATCH 0.60, below 0.80 (billing)",
        "Pelican: EXACT_MATCH 0.60, below 0.80 (support)",
    ]
    facts = [(fact["name"], fact["value"]) for fact in message["facts"]]
    assert sorted(value for name, value in facts if name == "run") == sorted(
        run["id"] for run in runs
    )
    publish_later(two_benchmarks, GATHER_LIMIT)
    assert len(messages(two_benchmarks)) == 1


def test_gathered_alerts__are_published_when_the_other_run_ends_without_any(
    two_benchmarks: Service,
) -> None:
    other = start(two_benchmarks, "billing", right=10)
    drop_jobs(two_benchmarks, other)
    start(two_benchmarks, "support", right=6)
    two_benchmarks.work()
    [alert] = two_benchmarks.list_items("/alerts")
    publish_later(two_benchmarks)
    assert (alert["notificationId"], messages(two_benchmarks)) == (None, [])
    two_benchmarks.post(f"/benchmark-runs/{other['id']}/cancel")
    publish_later(two_benchmarks)
    [message] = messages(two_benchmarks)
    assert message["title"] == "Pelican: EXACT_MATCH 0.60, below 0.80 (support)"
    assert len(two_benchmarks.list_items("/deliveries")) == 1


def test_gathered_alerts__do_not_wait_longer_than_the_limit(two_benchmarks: Service) -> None:
    drop_jobs(two_benchmarks, start(two_benchmarks, "billing", right=10))
    start(two_benchmarks, "support", right=6)
    two_benchmarks.work()
    publish_later(two_benchmarks, GATHER_LIMIT - timedelta(minutes=1))
    assert messages(two_benchmarks) == []
    publish_later(two_benchmarks, GATHER_LIMIT)
    assert len(messages(two_benchmarks)) == 1


def test_gathered_alerts__of_different_agents_do_not_wait_for_each_other(
    two_benchmarks: Service,
) -> None:
    two_benchmarks.create_agent("agent-002")
    # A run of the first agent waits, and the alert of its other run with it.
    drop_jobs(two_benchmarks, start(two_benchmarks, "billing", right=10))
    two_benchmarks.start_run(benchmarkId="support", agentId="agent-002", runName="run-1")
    start(two_benchmarks, "support", right=6)
    two_benchmarks.post(
        "/alert-configs",
        {
            "name": "quality", "benchmarkId": "support", "agentId": "agent-002",
            "metric": "EXACT_MATCH", "condition": "LESS_THAN", "threshold": 0.9,
        },
    )  # fmt: skip
    two_benchmarks.work()
    [message] = messages(two_benchmarks)
    assert {fact["value"] for fact in message["facts"] if fact["name"] == "agent"} == {
        "Pelican (agent-002)"
    }


def test_gathered_alerts__of_several_agents_are_published_one_after_the_other(
    two_benchmarks: Service,
) -> None:
    two_benchmarks.create_agent("agent-002")
    for agent_id in ("agent-001", "agent-002"):
        waiting = two_benchmarks.start_run(benchmarkId="billing", agentId=agent_id, runName="none")
        drop_jobs(two_benchmarks, waiting)
    start(two_benchmarks, "support", right=6)
    two_benchmarks.start_run(benchmarkId="support", agentId="agent-002", runName="run-1")
    two_benchmarks.work()
    assert messages(two_benchmarks) == []
    with two_benchmarks.resources.db.begin() as session:
        later = two_benchmarks.resources.clock() + GATHER_LIMIT
        assert publish_gathered(session, "", later) == "agent-001"
    assert len(messages(two_benchmarks)) == 1
    publish_later(two_benchmarks, GATHER_LIMIT)
    assert len(messages(two_benchmarks)) == 2


def test_gathered_alerts__a_full_message_does_not_wait(
    two_benchmarks: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_jobs(two_benchmarks, start(two_benchmarks, "billing", right=10))
    start(two_benchmarks, "support", right=6)
    two_benchmarks.work()
    publish_later(two_benchmarks)
    assert messages(two_benchmarks) == []
    monkeypatch.setattr(event_queries, "MAX_GATHERED", 1)
    publish_later(two_benchmarks)
    assert len(messages(two_benchmarks)) == 1
