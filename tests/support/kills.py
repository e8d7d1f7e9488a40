"""Kill or freeze a worker in each step of a run, and compare the results with an undisturbed run."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from mosaico.metrics.types import ERROR_RATE
from tests.support.deployment import TRACES, Deployment
from tests.support.gated_source import written_scores
from tests.support.gates import Gate
from tests.support.processes import Program, children_of, lives, until
from tests.support.stored import DatabaseReader, StoredRun

JOBS = "SELECT id, status::text, attempts FROM procrastinate_jobs ORDER BY id"


class WatchedWrite(NamedTuple):
    """A row that a step writes: the run waits just before the write."""

    event: str
    condition: str = "true"


# The steps in which a run is stopped, in their order. The first two wait in a page of the source
# and in a metric, outside any transaction; the others wait inside a transaction.
STEPS: dict[str, WatchedWrite | None] = {
    "collecting": None,
    "scoring": None,
    "beginning": WatchedWrite(
        "UPDATE ON benchmark_runs", "NEW.status = 'RUNNING' AND OLD.status = 'PENDING'"
    ),
    # In the last page of traces: the others are stored, and the one being written is lost.
    "storing": WatchedWrite("INSERT ON collected_traces", f"NEW.position = {TRACES - 1}"),
    # The second row of a statement that must store all or none.
    "sharding": WatchedWrite("INSERT ON run_shards", "NEW.shard = 1"),
    # The usage of the LLM is written together with its cached answers.
    "keeping": WatchedWrite("INSERT ON run_llm_usage"),
    "writing": WatchedWrite("INSERT ON trace_results", f"NEW.position = {TRACES - 1}"),
    "finishing": WatchedWrite("INSERT ON run_metrics", "NEW.ordinal = 1"),
    "recording": WatchedWrite("INSERT ON kpi_history"),
    "ending": WatchedWrite(
        "UPDATE ON benchmark_runs", "NEW.status = 'COMPLETED' AND OLD.status = 'RUNNING'"
    ),
    "writing back": WatchedWrite(
        "UPDATE ON benchmark_runs",
        "NEW.write_back ->> 'cursor' IS DISTINCT FROM OLD.write_back ->> 'cursor'"
        f" AND (NEW.write_back ->> 'cursor')::int = {TRACES}",
    ),
}
STEPS_WITHOUT_TRANSACTION = ("collecting", "scoring")

WAIT_AT_GATE = """
    CREATE OR REPLACE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        written jsonb := to_jsonb(NEW);
        name_of_run text;
    BEGIN
        SELECT run_name INTO name_of_run FROM benchmark_runs
        WHERE seq = coalesce(written ->> 'run_seq', written ->> 'seq')::bigint
           OR collection_id = (written ->> 'collection_id')::bigint AND written ->> 'seq' IS NULL;
        IF name_of_run = TG_ARGV[0] THEN
            PERFORM set_config('lock_timeout', '300s', true);
            PERFORM pg_advisory_xact_lock_shared(hashtextextended(name_of_run, 0));
        END IF;
        RETURN NEW;
    END $$
"""


class StopPoint(NamedTuple):
    """A place where a run waits until the test opens it."""

    was_reached: Callable[[], bool]
    open: Callable[[], None]


@contextmanager
def stop_points(
    deployment: Deployment, label: str, steps: Sequence[str]
) -> Iterator[dict[str, StopPoint]]:
    """One stop point per step, for the run with its name; the end of the block removes them."""
    deployment.database.execute(WAIT_AT_GATE)
    with ExitStack() as closed:
        stops_by_step = {}
        for step in steps:
            write = STEPS[step]
            if write is None:
                gate: Gate = deployment.programs.gate(f"{label}{step}")
                stops_by_step[step] = StopPoint(gate.is_reached, gate.open)
            else:
                name = run_name(label, step)
                stops_by_step[step] = closed.enter_context(
                    _stop_before_write(deployment.database, write, name)
                )
        yield stops_by_step


@contextmanager
def _stop_before_write(rows: DatabaseReader, write: WatchedWrite, name: str) -> Iterator[StopPoint]:
    with rows.blocked_write(
        name, event=write.event, condition=write.condition, function="wait_at_gate"
    ) as lock:
        yield StopPoint(lock.is_awaited, lock.release)


def run_name(label: str, step: str) -> str:
    return f"gate:{label}{step}" if step == "collecting" else f"{label}{step}"


def start_stopped_worker(
    deployment: Deployment, runs: dict[str, str], stops: dict[str, StopPoint], label: str
) -> Program:
    """A worker that is stopped in each of these steps, with one run per step.

    The runs with the latest stop points start first, so that no run waits for long. Both shards of
    a run may stop at once, hence the two additional job slots.
    """
    victim = deployment.programs.worker(
        MOSAICO_WORKER_CONCURRENCY=str(len(stops) + 2), MOSAICO_METRIC_PROCESSES="2"
    )
    start_stopped_runs(deployment, runs, stops, label, victim)
    return victim


def start_stopped_runs(
    deployment: Deployment,
    runs: dict[str, str],
    stops: dict[str, StopPoint],
    label: str,
    program: Program,
) -> None:
    """Start one run per step and wait until each is stopped in its step."""
    for step in stops:
        tags = [f"gate:{label}{step}"] if step == "scoring" else None
        deployment.upload(run_name(label, step), tags=tags)
    for step in reversed(stops):
        # Runs of one agent end one after the other: one that is stopped at its end would hold up the others.
        agent = f"agent-{label}{step}".replace(" ", "-")
        deployment.service.create_agent(agent)
        runs[step] = deployment.start(run_name(label, step), agent)
    until(lambda: all(stop.was_reached() for stop in stops.values()), what=program.log)


class UndisturbedRun(NamedTuple):
    """The rows of a run without interruptions, and its scores in the source."""

    stored: StoredRun
    scores: set[tuple[str, str | None, float]]


def run_undisturbed(deployment: Deployment) -> UndisturbedRun:
    """Complete a run with a judge and write-back without interruptions."""
    worker = deployment.programs.worker()
    undisturbed_run = complete_undisturbed_run(deployment)
    worker.send(signal.SIGTERM)
    assert worker.wait_for_exit() == 0, worker.log
    return undisturbed_run


def complete_undisturbed_run(deployment: Deployment) -> UndisturbedRun:
    """The same with the workers that run."""
    deployment.add_judge_and_write_back()
    deployment.upload("undisturbed")
    run_id = deployment.start("undisturbed")
    deployment.completed_run(run_id)
    deployment.wait_for_write_back(run_id)
    stored, scores = (
        deployment.database.stored_run(run_id),
        source_scores(deployment, "undisturbed"),
    )
    assert len({row[0] for row in stored.results}) == len(stored.results) == TRACES
    assert (len(stored.metrics), len(stored.kpis)) == (5, 1)
    # The rate of errors, which nobody asked for, is not written back.
    written = [n for name, n, *_ in stored.metrics if name != ERROR_RATE]
    assert len(scores) == len(stored.kpis) + sum(written)
    return UndisturbedRun(stored, scores)


class Takeover(NamedTuple):
    """Seconds from the death of a worker until its run went on, and until the run was complete."""

    continued_s: float
    completed_s: float


def kill_worker_in(
    deployment: Deployment,
    steps: Sequence[str],
    expected: UndisturbedRun,
    label: str = "",
    *,
    linger_s: float = 0.0,
) -> dict[str, Takeover]:
    """Kill a worker in these steps, one run each; returns how fast each run went on and completed."""
    runs: dict[str, str] = {}
    with stop_points(deployment, label, steps) as stopped:
        victim = start_stopped_worker(deployment, runs, stopped, label)
        time.sleep(linger_s)  # only moves the kill to another moment
        children = children_of(victim.pid)
        killed_at = deployment.database.now()
        victim.kill()
        assert children
        until(lambda: not any(map(lives, children)), what="the children of a killed worker exit")
        for stop in stopped.values():
            stop.open()
        rescuer = start_rescuer(deployment, runs)
        until(lambda: have_continued(deployment.database, runs, killed_at), what=rescuer.log)
        complete_with(rescuer, deployment, runs)
    takeovers = {step: takeover_of(deployment.database, runs[step], killed_at) for step in steps}
    assert_equal_to(expected, deployment, runs, label)
    return takeovers


# When the jobs of each run of a list were started again.
CONTINUED = """
    SELECT job.args ->> 'run_id', extract(epoch FROM min(event.at) - %s)::float8
    FROM procrastinate_events AS event JOIN procrastinate_jobs AS job ON job.id = event.job_id
    WHERE job.args ->> 'run_id' = ANY (%s) AND event.type = 'started' AND event.at > %s
    GROUP BY 1
"""


def have_continued(database: DatabaseReader, runs: dict[str, str], killed_at: object) -> bool:
    return len(database.all(CONTINUED, killed_at, [*runs.values()], killed_at)) == len(runs)


def takeover_of(database: DatabaseReader, run_id: str, killed_at: object) -> Takeover:
    [(_, continued_s)] = database.all(CONTINUED, killed_at, [run_id], killed_at)
    return Takeover(
        continued_s=continued_s,
        completed_s=database.seconds_to_end(run_id, killed_at),
    )


def freeze_worker_in(
    deployment: Deployment,
    steps: Sequence[str],
    expected: UndisturbedRun,
    label: str = "",
    *,
    linger_s: float = 0.0,
) -> None:
    """Freeze a worker in these steps, one run each; another worker completes the runs.

    After SIGCONT the frozen worker must not write anything.
    """
    runs: dict[str, str] = {}
    with stop_points(deployment, label, steps) as stopped:
        victim = start_stopped_worker(deployment, runs, stopped, label)
        time.sleep(linger_s)
        victim.send(signal.SIGSTOP)
        for stop in stopped.values():
            stop.open()
        # A frozen worker keeps its presence; only its silent
        # heartbeat, aged here, says that it is gone.
        deployment.database.age_heartbeats()
        complete_with(start_rescuer(deployment, runs), deployment, runs)
    before = {step: deployment.database.stored_run(run_id) for step, run_id in runs.items()}
    jobs = deployment.database.all(JOBS)
    victim.send(signal.SIGCONT)
    until(lambda: victim.log.count("belongs to another worker now") >= len(steps), what=victim.log)
    victim.send(signal.SIGTERM)
    assert victim.wait_for_exit() == 0, victim.log
    assert {step: deployment.database.stored_run(run_id) for step, run_id in runs.items()} == before
    assert deployment.database.all(JOBS) == jobs
    assert_equal_to(expected, deployment, runs, label)


def start_rescuer(deployment: Deployment, runs: dict[str, str]) -> Program:
    """Another worker that can go on with all runs at once."""
    return deployment.programs.worker(MOSAICO_WORKER_CONCURRENCY=str(len(runs) + 2))


def complete_with(rescuer: Program, deployment: Deployment, runs: dict[str, str]) -> None:
    """Let a worker complete the runs and exit."""
    for run_id in runs.values():
        deployment.completed_run(run_id)
        deployment.wait_for_write_back(run_id)
    rescuer.send(signal.SIGTERM)
    assert rescuer.wait_for_exit() == 0, rescuer.log


def assert_equal_to(
    expected: UndisturbedRun, deployment: Deployment, runs: dict[str, str], label: str
) -> None:
    for step, run_id in runs.items():
        assert deployment.database.stored_run(run_id) == expected.stored, step
        assert source_scores(deployment, run_name(label, step)) == expected.scores, step


def source_scores(deployment: Deployment, run: str) -> set[tuple[str, str | None, float]]:
    """The scores in the source, one per ID; a repeated write must not change a score."""
    rows = written_scores(deployment.programs.folder / "gates", run)
    by_id = {row.id: row for row in rows}
    assert set(by_id.values()) == set(rows), "a repeat changed a score"
    stored_scores = {(row.name, row.trace_id, row.value) for row in by_id.values()}
    assert len(stored_scores) == len(by_id)
    return stored_scores
