"""Remote experiments: a user requests in Langfuse that an agent runs over a dataset.

A benchmark whose source makes its traces is started. For an agent with a `runUrl` the request is
forwarded there, and the benchmark is run over the new run of the dataset when it is complete.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.queries import get_agent
from mosaico.benchmarks.models import Benchmark
from mosaico.benchmarks.queries import get_benchmark
from mosaico.benchmarks.service import source_of
from mosaico.core.errors import Conflict
from mosaico.jobs.declarations import AwaitRun
from mosaico.jobs.queue import enqueue
from mosaico.traces.registry import TRACE_SOURCES
from mosaico.triggers import queries
from mosaico.triggers.models import AwaitedRun, TriggerEvent
from mosaico.triggers.rules import LangfuseEvent, RunRequest, TriggerEventType

# An agent takes longer for a large dataset; a request that nobody answers must end.
MAX_WAIT: Final = timedelta(hours=6)
POLL: Final = timedelta(minutes=1)
MAX_DUE_STEPS: Final = 100


class NothingRunsTheAgent(Conflict):
    """Nothing runs the agent of the remote experiment: set `runUrl` of the agent, use a benchmark
    whose source makes the traces, or name an existing run with `runName` in the payload.
    """


class ExperimentPlan(NamedTuple):
    """The runs to start, those to await after the request is forwarded, and why others are left out."""

    started: list[RunRequest]
    awaited: list[RunRequest]
    obstacles: list[str]


def asks_for_a_run(event: LangfuseEvent) -> bool:
    """Return whether the event asks that an agent is run; with a run name it asks for its
    evaluation only.
    """
    is_experiment = event.type is TriggerEventType.REMOTE_EXPERIMENT
    return is_experiment and "runName" not in event.run_options


def plan_experiment(
    session: Session, event: LangfuseEvent, requests: Iterable[RunRequest], now: datetime
) -> ExperimentPlan:
    """Plan each requested run, from the current configuration of benchmarks and agents."""
    plan = ExperimentPlan([], [], [])
    for request in requests:
        benchmark = get_benchmark(session, request.benchmark_id)
        agent = get_agent(session, request.agent_id)
        if TRACE_SOURCES.get(source_of(benchmark, agent)).runs_models:
            plan.started.append(request)
        elif (obstacle := _find_obstacle(session, event, benchmark, agent, now)) is None:
            plan.awaited.append(request)
        else:
            plan.obstacles.append(f"{benchmark.id}, {agent.id}: {obstacle}")
    return plan


def require_runs(plan: ExperimentPlan) -> None:
    """Raise `NothingRunsTheAgent` when the plan has no run."""
    if not plan.started and not plan.awaited and plan.obstacles:
        raise NothingRunsTheAgent("; ".join(plan.obstacles))


def await_runs(
    session: Session, event: TriggerEvent, requests: Sequence[RunRequest], now: datetime
) -> None:
    """Forward the request for each run, and wait for the run of the source that it leads to."""
    for request in requests:
        row = {
            "event_id": event.id,
            "benchmark_id": request.benchmark_id,
            "agent_id": request.agent_id,
            "ends_at": now + MAX_WAIT,
        }
        session.execute(insert(AwaitedRun).values(row).on_conflict_do_nothing())
        _enqueue_step(session, event.id, request.benchmark_id, request.agent_id)
    event.benchmark_ids = sorted(
        {*event.benchmark_ids, *(request.benchmark_id for request in requests)}
    )
    session.flush()


def enqueue_due_steps(session: Session, now: datetime) -> None:
    """Enqueue the next step of each run that is awaited and was not looked for in the last minute."""
    statement = (
        select(AwaitedRun)
        .where(AwaitedRun.forwarded_at.is_not(None), AwaitedRun.polled_at <= now - POLL)
        .limit(MAX_DUE_STEPS)
        .with_for_update(skip_locked=True)
    )
    for awaited in session.scalars(statement):
        awaited.polled_at = now
        _enqueue_step(session, awaited.event_id, awaited.benchmark_id, awaited.agent_id)
    session.flush()


def _enqueue_step(session: Session, event_id: str, benchmark_id: str, agent_id: str) -> None:
    step = AwaitRun(event_id=event_id, benchmark_id=benchmark_id, agent_id=agent_id)
    enqueue(session, step)


def has_awaited_runs(session: Session, event_id: str) -> bool:
    statement = select(AwaitedRun.event_id).where(AwaitedRun.event_id == event_id).limit(1)
    return session.scalar(statement) is not None


def _find_obstacle(
    session: Session, event: LangfuseEvent, benchmark: Benchmark, agent: Agent, now: datetime
) -> str | None:
    """Return the reason why the request cannot be forwarded; None if it can."""
    source = source_of(benchmark, agent)
    if TRACE_SOURCES.get(source).list_runs is None:
        return (
            f"the source {source!r} neither runs the agent nor shows new runs of a dataset; set"
            " source to langfuse or harness, or name a run with runName in the payload"
        )
    if agent.run_address is None:
        return (
            "nothing runs the agent; set its runUrl, or name a run with runName in the payload to"
            " evaluate it"
        )
    if benchmark.dataset_ref != event.dataset_name:
        return f"the benchmark reads the dataset {benchmark.dataset_ref!r}"
    if not queries.list_active_secrets(session, benchmark.id, now):
        return (
            "the benchmark has no webhook secret to sign the request to runUrl with;"
            f" POST /api/v1/benchmarks/{benchmark.id}/webhook-secrets creates one"
        )
    return None
