"""Killing and freezing a worker in each step of a run, and comparing what comes of it."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.support.deployment import TRACES, Deployment
from tests.support.gates import Gate, written_scores
from tests.support.processes import Program, children_of, lives, until
from tests.support.stored import DatabaseReader, StoredRun

JOBS = "SELECT id, status::text, attempts FROM procrastinate_jobs ORDER BY id"


class WatchedWrite(NamedTuple):
    """A row that a step writes: the run stops when it is about to."""

    event: str
    condition: str = "true"

    @property
    def table(self) -> str:
        return self.event.split()[-1]


# Where a run is stopped, in the order in which it gets there. The first two wait in a page of the
# source and in a metric, outside of any transaction; the others in the middle of one.
STEPS: dict[str, WatchedWrite | None] = {
    "collecting": None,
    "scoring": None,
    "beginning": WatchedWrite(
        "UPDATE ON benchmark_runs", "NEW.status = 'RUNNING' AND OLD.status = 'PENDING'"
    ),
    "storing": WatchedWrite("INSERT ON collected_traces", "NEW.position = 600"),
    "sharding": WatchedWrite("INSERT ON run_shards", "NEW.shard = 1"),
    # What the answers of a model cost is written with the answers.
    "keeping": WatchedWrite("INSERT ON run_llm_usage"),
    "writing": WatchedWrite("INSERT ON trace_results", f"NEW.position = {TRACES - 1}"),
    "finishing": WatchedWrite("INSERT ON run_metrics", "NEW.ordinal = 1"),
    "recording": WatchedWrite("INSERT ON kpi_history"),
    "ending": WatchedWrite(
        "UPDATE ON benchmark_runs", "NEW.status = 'COMPLETED' AND OLD.status = 'RUNNING'"
    ),
    "writing back": WatchedWrite(
        "UPDATE ON benchmark_runs",
        "NEW.write_back ->> 'at' IS DISTINCT FROM OLD.write_back ->> 'at'"
        " AND (NEW.write_back ->> 'at')::int > 400",
    ),
}
OUTSIDE_OF_TRANSACTIONS = ("collecting", "scoring")

STAND_AT_GATE = """
    CREATE OR REPLACE FUNCTION stand_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        written jsonb := to_jsonb(NEW);
        found text;
    BEGIN
        SELECT run_name INTO found FROM benchmark_runs
        WHERE seq = coalesce(written ->> 'run_seq', written ->> 'seq')::bigint
           OR collection_id = (written ->> 'collection_id')::bigint AND written ->> 'seq' IS NULL;
        IF found = TG_ARGV[0] THEN
            PERFORM set_config('lock_timeout', '60s', true);
            PERFORM pg_advisory_xact_lock_shared(hashtextextended(found, 0));
        END IF;
        RETURN NEW;
    END $$
"""


class StopPoint(NamedTuple):
    """A place where a run waits until the test lets it pass."""

    was_reached: Callable[[], bool]
    open: Callable[[], None]


@contextmanager
def stops(
    deployment: Deployment, label: str, steps: Sequence[str]
) -> Iterator[dict[str, StopPoint]]:
    """One stop a step, for the run of its name; all are open and gone afterwards."""
    deployment.rows.execute(STAND_AT_GATE)
    with ExitStack() as closed:
        stops_by_step = {}
        for step in steps:
            write = STEPS[step]
            if write is None:
                gate: Gate = deployment.programs.gate(f"{label}{step}")
                stops_by_step[step] = StopPoint(gate.was_reached, gate.open)
            else:
                name = run_name(label, step)
                stops_by_step[step] = closed.enter_context(_stop_in(deployment.rows, write, name))
        yield stops_by_step


@contextmanager
def _stop_in(rows: DatabaseReader, write: WatchedWrite, name: str) -> Iterator[StopPoint]:
    trigger = f'"stop {name}"'
    rows.execute(
        f"CREATE TRIGGER {trigger} BEFORE {write.event} FOR EACH ROW"
        f" WHEN ({write.condition}) EXECUTE FUNCTION stand_at_gate('{name}')"
    )
    with rows.locked(name) as lock:
        yield StopPoint(lock.is_awaited, lock.release)
    rows.execute(f"DROP TRIGGER {trigger} ON {write.table}")


def run_name(label: str, step: str) -> str:
    return f"gate:{label}{step}" if step == "collecting" else f"{label}{step}"


def stopped_in(
    deployment: Deployment, runs: dict[str, str], stops: dict[str, StopPoint], label: str
) -> Program:
    """A worker that holds one run in each of these steps.

    Those that stop late start first, so that none waits for long; both shards of one may stop.
    """
    for step in stops:
        tags = [f"gate:{label}{step}"] if step == "scoring" else None
        deployment.upload(run_name(label, step), tags=tags)
    victim = deployment.programs.worker(
        MOSAICO_WORKER_CONCURRENCY=str(len(stops) + 2), MOSAICO_METRIC_PROCESSES="2"
    )
    for step in reversed(stops):
        runs[step] = deployment.start(run_name(label, step))
    until(lambda: all(stop.was_reached() for stop in stops.values()), what=victim.log)
    return victim


class UndisturbedRun(NamedTuple):
    """What a run leaves that nobody disturbs: its rows, and the scores in its source."""

    stored: StoredRun
    scores: set[tuple[str, str | None, float]]


def run_undisturbed(deployment: Deployment) -> UndisturbedRun:
    """Such a run of a benchmark that does all a benchmark can, on a worker of its own."""
    deployment.benchmark_with_everything()
    worker = deployment.programs.worker()
    deployment.upload("undisturbed")
    run_id = deployment.start("undisturbed")
    deployment.completed_run(run_id)
    deployment.wait_for_write_back(run_id)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0, worker.log
    stored, scores = deployment.rows.stored(run_id), scores_in_source(deployment, "undisturbed")
    assert len({row[0] for row in stored.results}) == len(stored.results) == TRACES
    assert (len(stored.metrics), len(stored.kpis)) == (4, 1)
    assert len(scores) == len(stored.kpis) + sum(n for _, n, *_ in stored.metrics)
    return UndisturbedRun(stored, scores)


def kill_in(
    deployment: Deployment,
    steps: Sequence[str],
    expected: UndisturbedRun,
    label: str = "",
    *,
    linger_s: float = 0.0,
) -> dict[str, float]:
    """Kill a worker that is in these steps of as many runs; the seconds until each had completed."""
    runs: dict[str, str] = {}
    with stops(deployment, label, steps) as stopped:
        victim = stopped_in(deployment, runs, stopped, label)
        time.sleep(linger_s)  # moves the kill to another moment, nothing waits for it
        children = children_of(victim.pid)
        killed_at = deployment.rows.now()
        victim.kill()
        assert children
        until(lambda: not any(map(lives, children)), what="the children of a killed worker end")
        for stop in stopped.values():
            stop.open()
        complete_elsewhere(deployment, runs)
    seconds = {step: deployment.rows.seconds_to_end(runs[step], killed_at) for step in steps}
    assert_equal_to(expected, deployment, runs, label)
    return seconds


def freeze_in(
    deployment: Deployment,
    steps: Sequence[str],
    expected: UndisturbedRun,
    label: str = "",
    *,
    linger_s: float = 0.0,
) -> None:
    """Freeze a worker that is in these steps of as many runs, let another one complete them, and
    wake it: it must not write anything any more.
    """
    runs: dict[str, str] = {}
    with stops(deployment, label, steps) as stopped:
        victim = stopped_in(deployment, runs, stopped, label)
        time.sleep(linger_s)
        victim.send(signal.SIGSTOP)
        for stop in stopped.values():
            stop.open()
        deployment.rows.age_heartbeats()
        complete_elsewhere(deployment, runs)
    before = {step: deployment.rows.stored(run_id) for step, run_id in runs.items()}
    jobs = deployment.rows.all(JOBS)
    victim.send(signal.SIGCONT)
    until(lambda: victim.log.count("was taken over") >= len(steps), what=victim.log)
    victim.send(signal.SIGTERM)
    assert victim.ended() == 0, victim.log
    assert {step: deployment.rows.stored(run_id) for step, run_id in runs.items()} == before
    assert deployment.rows.all(JOBS) == jobs
    assert_equal_to(expected, deployment, runs, label)


def complete_elsewhere(deployment: Deployment, runs: dict[str, str]) -> None:
    """Another worker completes the runs, and ends."""
    rescuer = deployment.programs.worker()
    for run_id in runs.values():
        deployment.completed_run(run_id)
        deployment.wait_for_write_back(run_id)
    rescuer.send(signal.SIGTERM)
    assert rescuer.ended() == 0, rescuer.log


def assert_equal_to(
    expected: UndisturbedRun, deployment: Deployment, runs: dict[str, str], label: str
) -> None:
    for step, run_id in runs.items():
        assert deployment.rows.stored(run_id) == expected.stored, step
        assert scores_in_source(deployment, run_name(label, step)) == expected.scores, step


def scores_in_source(deployment: Deployment, run: str) -> set[tuple[str, str | None, float]]:
    """What stands in the source after all that was written: one score for each id."""
    rows = written_scores(deployment.programs.folder / "gates", run)
    by_id = {row.id: row for row in rows}
    assert set(by_id.values()) == set(rows), "a repeat changed a score"
    stored_scores = {(row.name, row.trace_id, row.value) for row in by_id.values()}
    assert len(stored_scores) == len(by_id)
    return stored_scores
