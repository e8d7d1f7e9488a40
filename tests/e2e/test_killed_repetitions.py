"""A worker is killed in each step of a repetition by an agent: the run is repeated once and paged once."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from threading import Event

import pytest

from tests.support.http_agent import HttpAgent, running_http_agent
from tests.support.kill_points import KillPoint, blocked_at
from tests.support.langfuse import FakeLangfuse, run_fake_langfuse
from tests.support.langfuse.records import DEFAULT_TIME
from tests.support.processes import Programs, until
from tests.support.service import JSON, Service
from tests.support.stored import DatabaseReader

ITEMS = 12
GOOD_RUNS = 4
LIVENESS_S = 60
FIRST_RUN = DEFAULT_TIME - timedelta(days=20)
ENQUEUED = "INSERT ON procrastinate_jobs"
# The agent of each kill point has its name.
KILL_POINTS: Mapping[str, KillPoint] = {
    "sent": KillPoint(None, "", 2),
    "accepted": KillPoint(ENQUEUED, "NEW.task_name = 'triggers.look_for_run'", 2),
    "made": KillPoint(ENQUEUED, "NEW.task_name = 'runs.begin'", 1),
}
WAIT_IN_REPETITION = """
    CREATE OR REPLACE FUNCTION wait_in_repetition() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (
            SELECT FROM benchmark_runs
            WHERE id = NEW.args ->> 'run_id' AND agent_id = TG_ARGV[0] AND confirms IS NOT NULL
        ) THEN
            PERFORM set_config('lock_timeout', '300s', true);
            PERFORM pg_advisory_xact_lock_shared(hashtextextended(TG_ARGV[0], 0));
        END IF;
        RETURN NEW;
    END $$
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RepetitionScenario:
    """A service with one agent for each kill point, all of which make the runs of one dataset."""

    service: Service
    programs: Programs
    database: DatabaseReader
    langfuse: FakeLangfuse
    agents: Mapping[str, HttpAgent]
    is_free: Event

    def experiment(self, run_name: str, number: int, right: int, trials: int = 1) -> None:
        self.langfuse.experiment(
            run=run_name,
            items=ITEMS,
            started=FIRST_RUN + timedelta(hours=20 * number),
            expected_of=lambda item: f"answer {item}",
            trials=trials,
            output_of=lambda row: f"answer {row // trials}" if row // trials < right else "nothing",
        )

    def add_agents(self) -> None:
        for point, agent in self.agents.items():
            agent.make = self._maker(point)
            self.service.create_agent(
                point,
                langfuseUrl=self.langfuse.url,
                langfusePublicKey=self.langfuse.public_key,
                langfuseSecretKey=self.langfuse.secret_key,
                runUrl=agent.url,
            )
        self.service.create_benchmark(
            source="langfuse", metrics=["ACCURACY"], evaluates=list(self.agents)
        )
        self.service.post("/benchmarks/bench-001/webhook-secrets", {})
        rule = {"id": "rule", "name": "answers are wrong", "benchmarkId": "bench-001"}
        self.service.post(
            "/alert-configs", {**rule, "metric": "ACCURACY", "condition": "REGRESSED"}
        )

    def _maker(self, point: str) -> "RunMaker":
        return RunMaker(self, hangs=KILL_POINTS[point].write is None)

    def start_runs(self, run_name: str) -> None:
        for point in self.agents:
            self.service.start_run(agentId=point, runName=run_name)

    def look_for_runs(self) -> None:
        """Let the worker look for the runs of the agents now, and not after two minutes."""
        self.database.execute(
            "UPDATE procrastinate_jobs SET scheduled_at = now()"
            " WHERE task_name = 'triggers.look_for_run' AND status = 'todo'"
        )

    def repetitions(self) -> list[JSON]:
        runs = self.service.list_items("/benchmark-runs")
        return [run for run in runs if run["confirms"] is not None]


@dataclasses.dataclass
class RunMaker:
    """Makes one run for each name, however often it is asked; the first request may hang."""

    scenario: RepetitionScenario
    hangs: bool
    run_names: list[str] = dataclasses.field(default_factory=list)

    def __call__(self, request: JSON) -> None:
        if request["runName"] not in self.run_names:
            self.run_names.append(request["runName"])
            self.scenario.experiment(
                request["runName"], GOOD_RUNS + 1, right=3, trials=request["trials"]
            )
            if self.hangs:
                self.scenario.is_free.wait(LIVENESS_S)


@pytest.fixture
def scenario(service: Service, worker_programs: Programs) -> Iterator[RepetitionScenario]:
    database = DatabaseReader(service.resources.db.url)
    database.execute(WAIT_IN_REPETITION)
    with ExitStack() as stack:
        scenario = RepetitionScenario(
            service=service,
            programs=worker_programs,
            database=database,
            langfuse=stack.enter_context(run_fake_langfuse()),
            agents={point: stack.enter_context(running_http_agent()) for point in KILL_POINTS},
            is_free=Event(),
        )
        scenario.add_agents()
        for number in range(GOOD_RUNS):
            scenario.experiment(f"run-{number}", number, right=ITEMS)
            scenario.start_runs(f"run-{number}")
            service.work()
        yield scenario
        scenario.is_free.set()


def test_repetition__is_made_and_paged_once_wherever_the_worker_is_killed(
    scenario: RepetitionScenario,
) -> None:
    database, agents = scenario.database, scenario.agents
    scenario.experiment("bad", GOOD_RUNS, right=3)
    with blocked_at(database, KILL_POINTS, function="wait_in_repetition") as locks:
        victim = scenario.programs.worker(MOSAICO_WORKER_CONCURRENCY=str(len(KILL_POINTS) + 2))
        scenario.start_runs("bad")

        def is_reached(point: str) -> bool:
            lock = locks.get(point)
            # Only the job of the agent `made` is stored: it looks for the run at once.
            scenario.look_for_runs()
            return lock.is_awaited() if lock else bool(agents[point].requests)

        until(lambda: all(map(is_reached, KILL_POINTS)), what=victim.log)
        victim.kill()
        database.terminate_waiting_sessions()
    scenario.is_free.set()
    assert {run["status"] for run in scenario.repetitions()} == {"PENDING"}
    assert scenario.service.list_items("/alerts") == []
    database.age_heartbeats()
    rescuer = scenario.programs.worker()

    def are_completed() -> bool:
        scenario.look_for_runs()
        return {run["status"] for run in scenario.repetitions()} == {"COMPLETED"}

    until(are_completed, what=rescuer.log)
    until(lambda: len(scenario.service.list_items("/alerts")) == len(agents), what=rescuer.log)
    repetitions = {run["agentId"]: run for run in scenario.repetitions()}
    assert len(scenario.repetitions()) == len(repetitions) == len(agents)
    for point, kill_point in KILL_POINTS.items():
        requests, maker = agents[point].requests, agents[point].make
        assert isinstance(maker, RunMaker)
        assert maker.run_names == [repetitions[point]["runName"]], point
        assert len(requests) == kill_point.calls, point
        assert {headers["webhook-id"] for headers, _ in requests} == {repetitions[point]["id"]}
        assert len({body for _, body in requests}) == 1
    alerts = scenario.service.list_items("/alerts")
    assert sorted((alert["agentId"], alert["state"]) for alert in alerts) == sorted(
        (point, "FIRING") for point in agents
    )
