"""What recipients are told of incidents: a collapse that several rules see is one message to each of them when it
begins, and one when it is over.
"""

from tests.integration.alerts.conftest import RuleMaker
from tests.support.run_histories import RunHistoryMaker
from tests.support.service import JSON, Service

WEBHOOK = {"channels": ["WEBHOOK"], "recipients": ["https://hooks.example.com/alerts"]}


def titles(service: Service) -> list[str]:
    """The titles of the messages to the recipient, oldest first."""
    deliveries: list[JSON] = service.list_items("/deliveries")
    ids = [delivery["notificationId"] for delivery in reversed(deliveries)]
    return [service.get(f"/notifications/{id_}")["title"] for id_ in ids]


def make_rules(create_rule: RuleMaker, **fields: object) -> None:
    """Three rules about one value that fire and recover at different runs."""
    shared = {**WEBHOOK, "severity": "CRITICAL", **fields}
    limit = {"condition": "LESS_THAN", "threshold": 0.8}
    create_rule(id="first", name="below 0.8", keepFiringForRuns=0, **limit, **shared)
    create_rule(
        id="second", name="below 0.8 twice", forRuns=2, keepFiringForRuns=0, **limit, **shared
    )
    create_rule(id="third", name="falls", baselineRuns=2, keepFiringForRuns=2, **shared)


def test_collapse__is_told_once_when_it_fires_and_once_when_it_is_over(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    make_rules(create_rule)
    complete(1.0, 1.0, 0.3, 0.3)
    # Two rules fired in the third run and one in the fourth.
    firing = benchmark_service.list_items("/alerts", state="FIRING")
    assert sorted(alert["alertConfigId"] for alert in firing) == ["first", "second", "third"]
    assert len({alert["runId"] for alert in firing}) == 2
    [title] = titles(benchmark_service)
    assert "quality" in title
    # The two limits are met again at once; the other rule waits for two more runs.
    complete(1.0)
    assert len(benchmark_service.list_items("/alerts", state="RESOLVED")) == 2
    assert titles(benchmark_service) == [title]
    complete(1.0, 1.0)
    assert len(benchmark_service.list_items("/alerts", state="RESOLVED")) == 3
    [_, end] = titles(benchmark_service)
    assert end.startswith("Resolved after ")


def test_collapse__during_an_older_incident_is_told(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    """A rule whose limit was never met hides nothing."""
    create_rule(id="always", name="below 1", condition="LESS_THAN", threshold=1, **WEBHOOK)
    complete(0.9, 0.9, 0.9)
    create_rule(id="falls", name="falls", threshold=20, **WEBHOOK)
    complete(0.9)
    assert len(titles(benchmark_service)) == 1
    complete(0.3)
    assert len(titles(benchmark_service)) == 2


def test_collapse__of_a_higher_severity_is_told(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    limit = {"condition": "LESS_THAN", "threshold": 0.8, **WEBHOOK}
    create_rule(id="warning", name="once", severity="WARNING", **limit)
    create_rule(id="critical", name="twice", severity="CRITICAL", forRuns=2, **limit)
    complete(0.5, 0.5)
    assert [title.split(":")[0] for title in titles(benchmark_service)] == ["Pelican", "Pelican"]


def test_collapse__another_recipient_gets_its_own_messages(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    limit = {"condition": "LESS_THAN", "threshold": 0.8, "keepFiringForRuns": 0}
    create_rule(id="one", name="once", **limit, **WEBHOOK)
    other = {"channels": ["WEBHOOK"], "recipients": ["https://hooks.example.com/others"]}
    create_rule(id="two", name="twice", forRuns=2, **limit, **other)
    complete(0.5, 0.5, 1.0)
    # Of each: one that it fires, and one that it is over.
    assert len(titles(benchmark_service)) == 4


def test_message__has_the_times_of_the_zone_of_the_schedule(
    benchmark_service: Service, create_rule: RuleMaker, complete: RunHistoryMaker
) -> None:
    for id_, zone, enabled in (("old", "Asia/Tokyo", False), ("now", "Europe/Rome", True)):
        schedule = {"id": id_, "name": id_, "benchmarkId": "bench-001", "agentId": "agent-001"}
        cron = {"cronExpression": "0 0 2 * * *", "timezone": zone, "enabled": enabled}
        benchmark_service.post("/schedule-configs", {**schedule, **cron})
    create_rule(condition="LESS_THAN", threshold=0.8)
    complete(0.5)
    [message] = benchmark_service.list_items("/notifications")
    [item] = message["items"]
    assert any("Europe/Rome" in sentence for sentence in item["sentences"])
    assert message["title"] == "Pelican: quality 0.500, below 0.800 (bench-001)"
