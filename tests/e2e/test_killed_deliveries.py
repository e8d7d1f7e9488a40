"""Workers are killed between an alert and its delivery: it arrives under one ID."""

import dataclasses
import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from app.core.encryption import SecretBox
from app.core.resources import Resources
from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.processes import MASTER_KEY, Program, Programs, programs, until
from tests.support.service import JSON, Service, pair
from tests.support.stored import DatabaseReader, HeldLock

ROUNDS = 100
DELIVERY = "NEW.task_name = 'notifications.deliver' AND NEW.lock = 'notifications: {host}'"


class Point(NamedTuple):
    """Where a worker stands when it is killed: about to write a row, in the middle of its
    transaction, or waiting for an answer (no write). `calls` is how many the recipient gets in all.
    """

    write: str | None
    condition: str
    calls: int


# In the order in which one alert gets there. Who cannot fetch keeps the others from jobs, too.
POINTS: Mapping[str, Point] = {
    "deciding": Point("INSERT ON alert_events", "NEW.rule_id = '{rule}'", 1),
    "telling": Point("INSERT ON deliveries", "NEW.endpoint_id = '{endpoint}'", 1),
    "claiming": Point(
        "UPDATE ON endpoints",
        "NEW.id = '{endpoint}' AND OLD.secret IS NULL AND NEW.secret IS NOT NULL",
        1,
    ),
    "sent": Point(None, "", 2),
    "answered": Point(
        "UPDATE ON deliveries", "NEW.endpoint_id = '{endpoint}' AND NEW.status = 'DELIVERED'", 2
    ),
    "recorded": Point(
        "UPDATE ON procrastinate_jobs", f"OLD.status = 'doing' AND OLD.id = NEW.id AND {DELIVERY}", 1
    ),
    "fetching": Point(
        "UPDATE ON procrastinate_jobs", f"OLD.status = 'todo' AND NEW.status = 'doing' AND {DELIVERY}", 1
    ),
}  # fmt: skip
STAND_STILL = """
    CREATE OR REPLACE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('lock_timeout', '60s', true);
        PERFORM pg_advisory_xact_lock_shared(hashtextextended(TG_ARGV[0], 0));
        RETURN NEW;
    END $$
"""
# What the machine of a dead worker would do to its connections.
HANG_UP = """
    SELECT pg_terminate_backend(pid, 60000) FROM pg_locks
    WHERE locktype = 'advisory' AND NOT granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class Told(NamedTuple):
    """An alert that is about to fire: its rule, its recipient and the endpoint."""

    point: str
    rule: str
    endpoint: str
    receiver: Receiver

    @property
    def host(self) -> str:
        return self.receiver.url.removeprefix("http://")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scene:
    """A service with workers, and one recipient for each point."""

    service: Service
    programs: Programs
    rows: DatabaseReader
    receivers: Mapping[str, Receiver]

    def worker(self) -> Program:
        return self.programs.worker(
            MOSAICO_WORKER_CONCURRENCY=str(len(POINTS) + 1), MOSAICO_METRIC_PROCESSES="1"
        )

    def start(self, outcome: Told) -> None:
        self.service.start(agentId=outcome.point)

    def deliveries(self) -> list[JSON]:
        return self.service.listed("/deliveries")


@pytest.fixture
def service_resources(service_resources: Resources) -> Resources:
    """The workers decrypt what this process encrypted."""
    return dataclasses.replace(service_resources, secrets=SecretBox.from_keys([MASTER_KEY]))


@pytest.fixture
def scenario(service: Service, tmp_path: Path) -> Iterator[Scene]:
    url = service.resources.db.url
    rows = DatabaseReader(url)
    rows.execute(STAND_STILL)
    service.benchmark(metrics=["EXACT_MATCH"])
    service.upload([pair(1, "yes", "no")])
    for point in POINTS:
        service.agent(point)
    with ExitStack() as stack:
        receivers = {point: stack.enter_context(receiving()) for point in POINTS}
        started = stack.enter_context(
            programs(
                tmp_path,
                DATABASE_URL=url,
                MOSAICO_MASTER_KEY=MASTER_KEY,
                MOSAICO_OUTBOUND_ALLOW="127.0.0.0/8",
            )
        )
        yield Scene(service=service, programs=started, rows=rows, receivers=receivers)


def rule_at(scenario: Scene, point: str, number: int) -> Told:
    """A rule that fires for the next run of an agent, and the endpoint that it notifies."""
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
    return Told(point, rule["id"], endpoint["id"], receiver)


@contextmanager
def stop_at(rows: DatabaseReader, outcome: Told) -> Iterator[HeldLock | None]:
    """Block the worker that reaches a point; None when the recipient blocks it."""
    point = POINTS[outcome.point]
    if point.write is None:
        yield None
        return
    trigger = f'"stop {outcome.point}"'
    where = point.condition.format(rule=outcome.rule, endpoint=outcome.endpoint, host=outcome.host)
    rows.execute(
        f"CREATE TRIGGER {trigger} BEFORE {point.write} FOR EACH ROW"
        f" WHEN ({where}) EXECUTE FUNCTION stand_still('{outcome.point}')"
    )
    with rows.locked(outcome.point) as lock:
        yield lock
    rows.execute(f"DROP TRIGGER {trigger} ON {point.write.split()[-1]}")


def stands(outcome: Told, lock: HeldLock | None) -> bool:
    return lock.is_awaited() if lock else bool(outcome.receiver.calls)


def kill_at_every_point(scenario: Scene, number: int = 0, *, linger_s: float = 0.0) -> None:
    """Kill a worker that is blocked at all points, one run each; another worker finishes."""
    all_told = [rule_at(scenario, point, number) for point in POINTS]
    victim = scenario.worker()
    with ExitStack() as stopped:
        locks = [stopped.enter_context(stop_at(scenario.rows, outcome)) for outcome in all_told]
        for outcome in all_told[:-1]:
            scenario.start(outcome)
        until(lambda: not victim.runs or all(map(stands, all_told[:-1], locks[:-1])))
        scenario.start(all_told[-1])
        until(lambda: not victim.runs or stands(all_told[-1], locks[-1]))
        assert victim.runs, f"it ended with {victim.process.returncode}:\n{victim.log}"
        time.sleep(linger_s)  # moves the kill to another moment, nothing waits for it
        victim.kill()
        scenario.rows.all(HANG_UP)
    scenario.receivers["sent"].free.set()
    scenario.rows.age_heartbeats()
    heir = scenario.worker()
    delivered = "SELECT count(*) FROM deliveries WHERE status = 'DELIVERED'"
    until(lambda: scenario.rows.value(delivered) == len(POINTS), what=heir.log)
    for outcome in all_told:
        assert_told_once(scenario, outcome)
    heir.kill()


def assert_told_once(scenario: Scene, outcome: Told) -> None:
    """One alert, one message, the same ID on every call, and no superfluous call."""
    [alert] = scenario.service.listed("/alerts", alertConfigId=outcome.rule)
    assert alert["state"] == "FIRING"
    calls = outcome.receiver.calls
    assert {call.headers["webhook-id"] for call in calls} == {alert["notificationId"]}, (
        outcome.point
    )
    assert len({call.body for call in calls}) == 1
    assert json.loads(calls[0].body)["type"] == "alert.firing"
    assert len(calls) == POINTS[outcome.point].calls, outcome.point


def forget_everything(scenario: Scene) -> None:
    """Restore the state before the round."""
    scenario.rows.execute("DELETE FROM alert_rules")
    scenario.rows.execute("DELETE FROM alert_events")
    scenario.rows.execute("DELETE FROM notifications")
    for receiver in scenario.receivers.values():
        receiver.calls.clear()
        receiver.free.clear()


def test_delivery__arrives_wherever_worker_is_killed(scenario: Scene) -> None:
    kill_at_every_point(scenario)
    counts_query = (
        "SELECT (SELECT count(*) FROM notifications), (SELECT count(*) FROM alert_events)"
    )
    assert scenario.rows.all(counts_query) == [(len(POINTS), len(POINTS))]


@pytest.mark.prove
def test_delivery__arrives_with_100_killed_workers(scenario: Scene) -> None:
    chance = random.Random(5)
    for number in range(ROUNDS):
        kill_at_every_point(scenario, number, linger_s=chance.uniform(0, 0.2))
        forget_everything(scenario)
