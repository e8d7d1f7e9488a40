"""Runs whose processes are killed or frozen at random moments; each must equal a run that nobody disturbs."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mosaico.jobs.process_pool import ProcessPool
from tests.integration.notifications.conftest import Receiver, receiving
from tests.support.deployment import judge_settings
from tests.support.kills import STEPS, WAIT_AT_GATE
from tests.support.llm import model_server
from tests.support.lost_writes import lose_unsynced_files, restart_with_synced_files
from tests.support.processes import Program, children_named, lives, until
from tests.support.regression_scenario import RegressionScenario, ScenarioValues, compare_values
from tests.support.serve import ServiceProcesses, lose_power, running_processes
from tests.support.stored import DatabaseReader

# The other worker does not know the port of the API.
LINKS = {"MOSAICO_PUBLIC_URL": "http://mosaico.test"}
LOST_LEASE = "belongs to another worker now"


class Moment(NamedTuple):
    """When a run was disturbed: by the clock of the database, after its start, and in which step."""

    at: object
    after_s: float
    step: str


@dataclass(slots=True)
class InterruptedRuns:
    """A service with two workers, what they must compute, and the runs so far with their scenarios.

    `show` gets the lines of a table.
    """

    service_processes: ServiceProcesses
    other_worker: Program
    receiver: Receiver
    traces: int
    show: Callable[[str], object]
    expected: ScenarioValues = field(default_factory=dict)
    duration_s: float = 0.0
    runs: list[tuple[RegressionScenario, str]] = field(default_factory=list)

    @property
    def database(self) -> DatabaseReader:
        return self.service_processes.deployment.database

    def run_undisturbed(self) -> None:
        """Find the expected values, and how long a run takes."""
        scenario = self.new_scenario()
        scenario.open_gate()
        began = time.monotonic()
        self.expected = self._settled_values(scenario, scenario.start())
        self.duration_s = time.monotonic() - began
        assert self.expected["events"]
        assert self.expected["messages"]
        assert len(self.expected["results"]) == len(self.expected["traces"]) == self.traces
        counts = ", ".join(f"{len(rows):,} {kind}" for kind, rows in self.expected.items())
        self.show(f"undisturbed, {self.duration_s:.1f} s: {counts}")
        self.show(
            f"{'round':<32}{'after':>9}  {'in step':<16}{'COMPLETED after':>15}{'lost':>6}{'doubled':>9}"
            f"{'equal':>7}  requests to the recipient"
        )

    def new_scenario(self) -> RegressionScenario:
        deployment = self.service_processes.deployment
        until(self.service_processes.is_ready, what=self.service_processes.serve.log)
        scenario = RegressionScenario(deployment, self.receiver, f"scenario-{len(self.runs):02}")
        scenario.prepare(self.traces)
        return scenario

    def kill_at(self, share: float, victims: str) -> None:
        """Kill these processes when a run has lasted this share of the time of an undisturbed one."""
        kill = {
            "worker": self._kill_worker,
            "other worker": self._kill_other_worker,
            "both workers": self._kill_both_workers,
            "both workers twice": self._kill_both_workers_twice,
            "API": self._kill_api,
            "everything and Postgres": self._lose_power,
        }[victims]
        self._run(self.new_scenario(), f"kill {victims}", self._wait_for(share), lambda _: kill())

    def lose_power_at(self, share: float) -> None:
        """The same with everything at once, which leaves only what was synchronized to the disk."""
        scenario = self.new_scenario()
        synced = restart_with_synced_files(self.service_processes)

        def disturb(_: RegressionScenario) -> None:
            lose_unsynced_files(self.service_processes, synced)
            self._restart()

        self._run(scenario, "power loss, only synced files", self._wait_for(share), disturb)

    def freeze_in_shard(self) -> None:
        self._freeze(
            "freeze in a shard", self.new_scenario(), lambda scenario: until(scenario.is_at_gate)
        )

    def freeze_in_finish(self) -> None:
        scenario = self.new_scenario()
        scenario.open_gate()
        self.database.execute(WAIT_AT_GATE)
        write = STEPS["finishing"]
        assert write is not None
        with self.database.blocked_write(
            scenario.run_name, event=write.event, condition=write.condition, function="wait_at_gate"
        ) as lock:
            self._freeze(
                "freeze in finish", scenario, lambda _: until(lock.is_awaited), then=lock.release
            )

    def check_again(self) -> None:
        """No run got another row or message since, and no job failed."""
        for scenario, run_id in self.runs:
            comparison = compare_values(self.expected, scenario.values(run_id))
            assert (comparison.lost, comparison.doubled, comparison.differences) == (0, 0, []), (
                scenario
            )
        failed = "SELECT task_name FROM procrastinate_jobs WHERE status = 'failed'"
        assert self.database.all(failed) == []

    def _freeze(
        self,
        name: str,
        scenario: RegressionScenario,
        wait: Callable[[RegressionScenario], None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Suspend the only worker for longer than its lease, until another one has completed the run.

        When it wakes up, it must not write anything.
        """
        self.other_worker.send(signal.SIGTERM)
        assert self.other_worker.wait_for_exit() == 0, self.other_worker.log
        frozen = self._running_child("worker")

        def disturb(scenario: RegressionScenario) -> None:
            os.kill(frozen, signal.SIGSTOP)
            scenario.open_gate()
            then()
            self.other_worker = self.service_processes.programs.worker()

        self._run(scenario, name, wait, disturb)
        notices = self.service_processes.serve.log.count(LOST_LEASE)
        os.kill(frozen, signal.SIGCONT)
        until(
            lambda: self.service_processes.serve.log.count(LOST_LEASE) > notices,
            what=self.service_processes.serve.log,
        )
        self.check_again()

    def _run(
        self,
        scenario: RegressionScenario,
        name: str,
        wait: Callable[[RegressionScenario], None],
        disturb: Callable[[RegressionScenario], None],
    ) -> None:
        run_id, began = scenario.start(), time.monotonic()
        wait(scenario)
        moment = Moment(self.database.now(), time.monotonic() - began, scenario.progress(run_id))
        disturb(scenario)
        comparison = compare_values(self.expected, self._settled_values(scenario, run_id))
        completed_s = self.database.seconds_to_end(run_id, moment.at)
        requests = scenario.requests()
        ids = {call.headers["webhook-id"] for call in requests}
        self.show(
            f"{name:<32}{moment.after_s:>7.2f} s  {moment.step:<16}"
            f"{f'{completed_s:.1f} s' if completed_s > 0 else 'before':>15}{comparison.lost:>6}"
            f"{comparison.doubled:>9}{'no' if comparison.differences else 'yes':>7}"
            f"  {len(requests)} with {len(ids)} IDs"
        )
        comparison.require_equality(name)

    def _wait_for(self, share: float) -> Callable[[RegressionScenario], None]:
        def wait(scenario: RegressionScenario) -> None:
            scenario.open_gate()
            time.sleep(share * self.duration_s)  # only moves the end of the processes

        return wait

    def _settled_values(self, scenario: RegressionScenario, run_id: str) -> ScenarioValues:
        programs = self.service_processes.programs.processes
        until(
            lambda: scenario.is_settled(run_id), what="\n".join(program.log for program in programs)
        )
        self.runs.append((scenario, run_id))
        return scenario.values(run_id)

    def _kill_worker(self) -> None:
        self._kill_child("worker")

    def _kill_other_worker(self) -> None:
        self.other_worker.kill()
        self.other_worker = self.service_processes.programs.worker()

    def _kill_both_workers(self) -> None:
        self._kill_worker()
        self._kill_other_worker()

    def _kill_both_workers_twice(self) -> None:
        self._kill_both_workers()
        self._kill_both_workers()  # those that take the run over

    def _kill_api(self) -> None:
        self._kill_child("api")

    def _kill_child(self, command: str) -> None:
        """Kill a child of `mosaico serve`, which starts it again within two seconds."""
        pid = self._running_child(command)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not lives(pid))

    def _running_child(self, command: str) -> int:
        until(lambda: bool(children_named(self.service_processes.serve.pid, command)))
        return self.service_processes.child(command)

    def _lose_power(self) -> None:
        lose_power(self.service_processes)
        self._restart()

    def _restart(self) -> None:
        self.service_processes.restart()
        self.other_worker = self.service_processes.programs.worker()


def moments(count: int, seed: int) -> Iterator[float]:
    """So many random shares of the time of a run, one in each part of it."""
    chance = random.Random(seed)
    return ((number + chance.random()) / count for number in range(count))


@contextmanager
def interrupted_runs(
    folder: Path, pool: ProcessPool, *, traces: int, show: Callable[[str], object]
) -> Iterator[InterruptedRuns]:
    """`mosaico serve` with a worker of its own, another worker, a model, and a recipient of messages."""
    with (
        model_server() as models,
        receiving() as receiver,
        running_processes(folder, pool, **judge_settings(models), **LINKS) as service_processes,
    ):
        other_worker = service_processes.programs.worker()
        scenarios = InterruptedRuns(service_processes, other_worker, receiver, traces, show)
        scenarios.run_undisturbed()
        yield scenarios
