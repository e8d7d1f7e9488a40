"""Workers are killed between an alert and its delivery: the message arrives under one ID."""

import dataclasses
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.kill_points import KillPoint, blocked_at
from tests.support.processes import Program, Programs, until
from tests.support.service import JSON, Service, pair
from tests.support.stored import WAIT_FOR_LOCK, DatabaseReader, HeldLock

ROUNDS = 100
DELIVERY = "NEW.task_name = 'notifications.deliver' AND NEW.lock = 'notifications: {host}'"


# In the order of the delivery of one alert. `fetching` is last: a worker that is blocked while it
# fetches a job fetches no other job.
POINTS: Mapping[str, KillPoint] = {
    "deciding": KillPoint("INSERT ON alert_events", "NEW.rule_id = '{rule}'", 1),
    "queueing": KillPoint("INSERT ON deliveries", "NEW.endpoint_id = '{endpoint}'", 1),
    "claiming": KillPoint(
        "UPDATE ON endpoints",
        "NEW.id = '{endpoint}' AND OLD.secret IS NULL AND NEW.secret IS NOT NULL",
        1,
    ),
    "sent": KillPoint(None, "", 2),
    "answered": KillPoint(
        "UPDATE ON deliveries", "NEW.endpoint_id = '{endpoint}' AND NEW.status = 'DELIVERED'", 2
    ),
    "recorded": KillPoint(
        "UPDATE ON procrastinate_jobs", f"OLD.status = 'doing' AND OLD.id = NEW.id AND {DELIVERY}", 1
    ),
    "fetching": KillPoint(
        "UPDATE ON procrastinate_jobs", f"OLD.status = 'todo' AND NEW.status = 'doing' AND {DELIVERY}", 1
    ),
}  # fmt: skip


class WatchedAlert(NamedTuple):
    """An alert that fires in the next run: its rule, its endpoint and the recipient."""

    point: str
    rule: str
    endpoint: str
    receiver: Receiver

    @property
    def host(self) -> str:
        return self.receiver.url.removeprefix("http://")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeliveryScenario:
    """A service with workers, and one recipient for each kill point."""

    service: Service
    programs: Programs
    database: DatabaseReader
    receivers: Mapping[str, Receiver]

    def worker(self) -> Program:
        return self.programs.worker(
            MOSAICO_WORKER_CONCURRENCY=str(len(POINTS) + 1), MOSAICO_METRIC_PROCESSES="1"
        )

    def start_run(self, alert: WatchedAlert) -> None:
        self.service.start_run(agentId=alert.point)

    def deliveries(self) -> list[JSON]:
        return self.service.list_items("/deliveries")


@pytest.fixture
def scenario(service: Service, worker_programs: Programs) -> Iterator[DeliveryScenario]:
    database = DatabaseReader(service.resources.db.url)
    database.execute(WAIT_FOR_LOCK)
    service.create_benchmark(metrics=["EXACT_MATCH"])
    service.upload([pair(1, "yes", "no")])
    for point in POINTS:
        service.create_agent(point)
    with ExitStack() as stack:
        receivers = {point: stack.enter_context(receiving()) for point in POINTS}
        yield DeliveryScenario(
            service=service, programs=worker_programs, database=database, receivers=receivers
        )


def create_rule(scenario: DeliveryScenario, point: str, number: int) -> WatchedAlert:
    """A rule that fires in the next run of an agent, and the endpoint that it notifies."""
    receiver, path = scenario.receivers[point], f"round-{number}"
    url = receiver.will(path, receiver.hang) if point == "sent" else receiver.at(path)
    endpoint = scenario.service.post("/endpoints", {"channel": "WEBHOOK", "recipient": url})
    rule = scenario.service.post(
        "/alert-configs",
        {
            "name": "wrong",
            "benchmarkId": "bench-001",
            "agentId": point,
            "metric": "EXACT_MATCH",
            "condition": "LESS_THAN",
            "threshold": 0.5,
            "channels": ["WEBHOOK"],
            "recipients": [url],
        },
    )
    return WatchedAlert(point, rule["id"], endpoint["id"], receiver)


def is_blocked(alert: WatchedAlert, locks: Mapping[str, HeldLock]) -> bool:
    lock = locks.get(alert.point)
    return lock.is_awaited() if lock else bool(alert.receiver.calls)


def kill_at_every_point(
    scenario: DeliveryScenario, number: int = 0, *, linger_s: float = 0.0
) -> None:
    """Kill a worker that is blocked at every point, with one run per point; another worker finishes."""
    alerts = [create_rule(scenario, point, number) for point in POINTS]
    points = {
        alert.point: POINTS[alert.point].of(
            rule=alert.rule, endpoint=alert.endpoint, host=alert.host
        )
        for alert in alerts
    }
    victim = scenario.worker()
    with blocked_at(scenario.database, points) as locks:

        def are_blocked(alerts: Sequence[WatchedAlert]) -> bool:
            return all(is_blocked(alert, locks) for alert in alerts)

        for alert in alerts[:-1]:
            scenario.start_run(alert)
        until(lambda: not victim.is_running or are_blocked(alerts[:-1]))
        scenario.start_run(alerts[-1])
        until(lambda: not victim.is_running or are_blocked(alerts[-1:]))
        assert victim.is_running, (
            f"the worker exited with {victim.process.returncode}:\n{victim.log}"
        )
        time.sleep(linger_s)  # only moves the kill to another moment
        victim.kill()
        # The sessions of a killed worker wait for their lock still,
        # and would write after its release.
        scenario.database.terminate_waiting_sessions()
    scenario.receivers["sent"].free.set()
    scenario.database.age_heartbeats()
    rescuer = scenario.worker()
    delivered = "SELECT count(*) FROM deliveries WHERE status = 'DELIVERED'"
    until(lambda: scenario.database.value(delivered) == len(POINTS), what=rescuer.log)
    for alert in alerts:
        assert_delivered_once(scenario, alert)
    rescuer.kill()


def assert_delivered_once(scenario: DeliveryScenario, alert: WatchedAlert) -> None:
    """One alert, one message, the same ID in every request, and no superfluous request."""
    [event] = scenario.service.list_items("/alerts", alertConfigId=alert.rule)
    assert event["state"] == "FIRING"
    calls = alert.receiver.calls
    assert {call.headers["webhook-id"] for call in calls} == {event["notificationId"]}, alert.point
    # A receiver that has the ID already must get the same message again.
    assert len({call.body for call in calls}) == 1
    assert json.loads(calls[0].body)["type"] == "alert.firing"
    assert len(calls) == POINTS[alert.point].calls, alert.point


def delete_alerts(scenario: DeliveryScenario) -> None:
    """Delete all alerts and requests of the round."""
    scenario.database.execute("DELETE FROM alert_rules")
    scenario.database.execute("DELETE FROM alert_events")
    scenario.database.execute("DELETE FROM notifications")
    for receiver in scenario.receivers.values():
        receiver.calls.clear()
        receiver.free.clear()


def test_delivery__arrives_wherever_worker_is_killed(scenario: DeliveryScenario) -> None:
    kill_at_every_point(scenario)
    counts_query = (
        "SELECT (SELECT count(*) FROM notifications), (SELECT count(*) FROM alert_events)"
    )
    assert scenario.database.all(counts_query) == [(len(POINTS), len(POINTS))]


@pytest.mark.prove
def test_delivery__arrives_with_100_killed_workers(scenario: DeliveryScenario) -> None:
    # Another moment in each round, and the same ones in each run of the test.
    chance = random.Random(5)
    for number in range(ROUNDS):
        kill_at_every_point(scenario, number, linger_s=chance.uniform(0, 0.2))
        delete_alerts(scenario)
