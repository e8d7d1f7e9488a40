"""A worker is killed in each step of a forwarded experiment: the agent runs once for one request ID."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.integration.notifications.conftest import Receiver, receiving
from tests.integration.triggers.conftest import LANGFUSE_SECRET, AdjustableClock, TriggerSetup
from tests.integration.triggers.test_langfuse_events import LangfuseSender
from tests.support.kill_points import KillPoint, blocked_at
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.processes import Program, Programs, until
from tests.support.service import JSON, Service
from tests.support.stored import WAIT_FOR_LOCK, DatabaseReader
from tests.support.waiting import LIVENESS_S

EXPERIMENT = {"projectId": "p-1", "datasetId": "d-1", "datasetName": "support", "payload": "{}"}


OF_BENCHMARK = "NEW.benchmark_id = '{benchmark}'"
POINTS: Mapping[str, KillPoint] = {
    "listed": KillPoint(
        "UPDATE ON awaited_runs", f"{OF_BENCHMARK} AND OLD.known_runs IS NULL AND NEW.known_runs IS NOT NULL", 1
    ),
    "sent": KillPoint(None, "", 2),
    "accepted": KillPoint(
        "UPDATE ON awaited_runs", f"{OF_BENCHMARK} AND OLD.forwarded_at IS NULL AND NEW.forwarded_at IS NOT NULL", 2
    ),
    "started": KillPoint("INSERT ON benchmark_runs", OF_BENCHMARK, 1),
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentScenario:
    """A service whose worker forwards one experiment to an agent for each kill point."""

    service: Service
    programs: Programs
    database: DatabaseReader
    langfuse: FakeLangfuse
    receivers: Mapping[str, Receiver]

    def worker(self) -> Program:
        # Each point blocks a job; two more are free for the other jobs.
        return self.programs.worker(MOSAICO_WORKER_CONCURRENCY=str(len(POINTS) + 2))

    def add_agent(self, point: str) -> None:
        receiver = self.receivers[point]
        url = receiver.will("run", receiver.hang) if point == "sent" else receiver.at("run")
        self.service.create_agent(
            point,
            langfuseUrl=self.langfuse.url,
            langfusePublicKey=self.langfuse.public_key,
            langfuseSecretKey=self.langfuse.secret_key,
            runUrl=url,
        )
        self.service.create_benchmark(
            point,
            source="langfuse",
            metrics=["ACCURACY"],
            evaluates=[point],
            triggers={"langfuse": [{"event": "remote-experiment"}]},
        )
        self.service.post(f"/benchmarks/{point}/webhook-secrets", {})

    def look_for_runs(self) -> None:
        """Let the worker look for the runs of the agents now, and not after a minute."""
        self.database.execute(
            "UPDATE awaited_runs SET polled_at = polled_at - interval '1 hour'"
            " WHERE polled_at IS NOT NULL"
        )


@pytest.fixture
def scenario(service: Service, worker_programs: Programs) -> Iterator[ExperimentScenario]:
    database = DatabaseReader(service.resources.db.url)
    database.execute(WAIT_FOR_LOCK)
    with ExitStack() as stack:
        scenario = ExperimentScenario(
            service=service,
            programs=worker_programs,
            database=database,
            langfuse=stack.enter_context(run_fake_langfuse()),
            receivers={point: stack.enter_context(receiving()) for point in POINTS},
        )
        scenario.langfuse.experiment(
            run="old", items=3, started=datetime.now(UTC) - timedelta(days=2)
        )
        for point in POINTS:
            scenario.add_agent(point)
        yield scenario


def send_experiment(service: Service) -> JSON:
    service.post("/langfuse-secrets", {"name": "one", "secret": LANGFUSE_SECRET})
    with httpx.Client(
        base_url=service.client.base_url, trust_env=False, verify=False, timeout=LIVENESS_S
    ) as client:
        setup = TriggerSetup(service=service, client=client, clock=AdjustableClock())
        return LangfuseSender(setup).accepted(EXPERIMENT)


def test_experiment__is_evaluated_once_wherever_the_worker_is_killed(
    scenario: ExperimentScenario,
) -> None:
    database, receivers = scenario.database, scenario.receivers
    event = send_experiment(scenario.service)
    points = {name: point.of(benchmark=name) for name, point in POINTS.items()}
    with blocked_at(database, points) as locks:
        victim = scenario.worker()

        def is_reached(point: str) -> bool:
            lock = locks.get(point)
            return lock.is_awaited() if lock else bool(receivers[point].calls)

        until(lambda: all(map(is_reached, ("listed", "sent", "accepted"))), what=victim.log)
        forwarded = (
            "SELECT forwarded_at IS NOT NULL FROM awaited_runs WHERE benchmark_id = 'started'"
        )
        until(lambda: database.value(forwarded), what=victim.log)
        scenario.langfuse.experiment(
            run="new", items=3, started=datetime.now(UTC) - timedelta(days=1)
        )
        scenario.look_for_runs()
        until(lambda: is_reached("started"), what=victim.log)
        victim.kill()
        database.terminate_waiting_sessions()
    # The agent answers after the worker that asked it is dead: its answer is lost.
    receivers["sent"].free.set()
    database.age_heartbeats()
    rescuer = scenario.worker()
    until(
        lambda: not database.value("SELECT count(*) FROM awaited_runs WHERE forwarded_at IS NULL"),
        what=rescuer.log,
    )
    # The agent of `listed` is asked only now: a run that exists already is not the one that it makes.
    scenario.langfuse.experiment(
        run="last", items=3, started=datetime.now(UTC) - timedelta(hours=10)
    )
    scenario.look_for_runs()
    ended = "SELECT count(*) FROM benchmark_runs WHERE status = 'COMPLETED'"
    until(lambda: database.value(ended) == len(POINTS), what=rescuer.log)
    runs = scenario.service.list_items("/benchmark-runs")
    assert sorted(run["agentId"] for run in runs) == sorted(POINTS)
    assert {run["triggerEventId"] for run in runs} == {event["id"]}
    names = {run["agentId"]: run["runName"] for run in runs}
    # An agent is asked again with the same ID, which it does not answer with a second run.
    assert names == dict.fromkeys(POINTS, "new") | {"listed": "last"}
    for point, kill_point in POINTS.items():
        ids = {call.headers["webhook-id"] for call in receivers[point].calls}
        assert (len(receivers[point].calls), len(ids)) == (kill_point.calls, 1), point
    [stored] = scenario.service.list_items("/trigger-events")
    assert (stored["status"], len(stored["runIds"])) == ("STARTED", len(POINTS))
