from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Boolean, ColumnElement, cast, or_, select
from sqlalchemy.orm import Session

from app.agents.models import Agent
from app.benchmarks.event_triggers import Triggers
from app.benchmarks.models import Benchmark, BenchmarkAgent
from app.core.errors import NotFound
from app.core.keyset import PageQuery, PageRows, paged
from app.triggers.models import RunWatch, SeenRun, TriggerEvent, WebhookSecret
from app.triggers.rules import EventStatus, EventType, LangfuseEvent, fits

DUE_AT_ONCE = 100


class SecretNotFound(NotFound):
    """There is no secret with this id here; GET the address above lists those there are."""

    code = "webhook-secret-not-found"


class EventNotFound(NotFound):
    """There is no event with this id; GET /api/v1/trigger-events lists those of seven days."""

    code = "trigger-event-not-found"


class Watched(NamedTuple):
    """An agent whose new runs a benchmark waits for."""

    benchmark_id: str
    agent_id: str


def secrets_of(
    session: Session, benchmark_id: str | None, now: datetime | None = None
) -> list[WebhookSecret]:
    """The secrets of a benchmark, or of Langfuse; with `now` those that count then."""
    statement = select(WebhookSecret).where(_belongs_to(benchmark_id))
    if now is not None:
        counts = or_(WebhookSecret.expires_at.is_(None), WebhookSecret.expires_at > now)
        statement = statement.where(counts)
    return list(session.scalars(statement.order_by(WebhookSecret.created_at, WebhookSecret.id)))


def list_secrets(
    session: Session, benchmark_id: str | None, query: PageQuery
) -> PageRows[WebhookSecret]:
    statement = select(WebhookSecret).where(_belongs_to(benchmark_id))
    keys = [WebhookSecret.created_at, WebhookSecret.id]
    return paged(session, statement, keys=keys, query=query)


def get_secret(session: Session, benchmark_id: str | None, secret_id: str) -> WebhookSecret:
    statement = select(WebhookSecret).where(
        _belongs_to(benchmark_id), WebhookSecret.id == secret_id
    )
    secret = session.scalars(statement).one_or_none()
    if secret is None:
        raise SecretNotFound
    return secret


def get_event(session: Session, event_id: str, *, for_update: bool = False) -> TriggerEvent:
    event = session.get(TriggerEvent, event_id, with_for_update=for_update or None)
    if event is None:
        raise EventNotFound
    return event


def list_events(
    session: Session,
    query: PageQuery,
    *,
    status: EventStatus | None = None,
    event_type: EventType | None = None,
) -> PageRows[TriggerEvent]:
    statement = select(TriggerEvent)
    if status is not None:
        statement = statement.where(TriggerEvent.status == status)
    if event_type is not None:
        statement = statement.where(TriggerEvent.type == event_type)
    keys = [TriggerEvent.received_at, TriggerEvent.id]
    return paged(session, statement, keys=keys, query=query)


def due_events(session: Session, now: datetime) -> list[TriggerEvent]:
    """Events that have waited long enough, locked; those that somebody else has are left out."""
    statement = select(TriggerEvent).where(TriggerEvent.due_at <= now).order_by(TriggerEvent.due_at)
    return list(session.scalars(statement.limit(DUE_AT_ONCE).with_for_update(skip_locked=True)))


def evaluated_agents(session: Session, benchmark_id: str) -> list[str]:
    """The agents that a benchmark names, without those that were put away."""
    statement = (
        select(Agent.id)
        .join(BenchmarkAgent, BenchmarkAgent.agent_id == Agent.id)
        .where(BenchmarkAgent.benchmark_id == benchmark_id, Agent.archived.is_(False))
        .order_by(Agent.id)
    )
    return list(session.scalars(statement))


def benchmarks_for_agent(session: Session, agent_id: str) -> list[str]:
    """The benchmarks that evaluate an agent and wait for its changes."""
    evaluating = select(BenchmarkAgent.benchmark_id).where(BenchmarkAgent.agent_id == agent_id)
    return _waiting(session, _is_on("agentUpdated"), Benchmark.id.in_(evaluating))


def benchmarks_for_upload(session: Session, name: str, run_name: str | None) -> list[str]:
    """The benchmarks that wait for changes of a local dataset and would read this run of it."""
    return _waiting(
        session,
        _is_on("datasetUpdated"),
        Benchmark.source == "local",
        Benchmark.dataset_ref == name,
        or_(Benchmark.run_name.is_(None), Benchmark.run_name == run_name),
    )


def benchmarks_for_langfuse(session: Session, event: LangfuseEvent) -> list[str]:
    """The benchmarks with a rule that fits an event; of them the one that its sender names."""
    some_rule = Benchmark.triggers["langfuse"][0].is_not(None)
    statement = select(Benchmark).where(Benchmark.archived.is_(False), some_rule)
    named = event.asks.get("benchmark_id")
    return [
        benchmark.id
        for benchmark in session.scalars(statement.order_by(Benchmark.id))
        if named in (None, benchmark.id) and _some_rule_fits(benchmark, event)
    ]


def watched(session: Session) -> set[Watched]:
    """The agents whose new runs some benchmark waits for."""
    statement = (
        select(BenchmarkAgent.benchmark_id, BenchmarkAgent.agent_id)
        .join(Benchmark, Benchmark.id == BenchmarkAgent.benchmark_id)
        .join(Agent, Agent.id == BenchmarkAgent.agent_id)
        .where(
            Benchmark.archived.is_(False),
            Agent.archived.is_(False),
            Benchmark.triggers["newRun"]["pattern"].is_not(None),
        )
    )
    return {Watched(*row) for row in session.execute(statement)}


def due_watches(session: Session, polled_before: datetime) -> dict[Watched, RunWatch]:
    """The watches that nobody used since, locked; those that somebody else has are left out."""
    due = or_(RunWatch.polled_at.is_(None), RunWatch.polled_at <= polled_before)
    statement = select(RunWatch).where(due).order_by(RunWatch.benchmark_id, RunWatch.agent_id)
    found = session.scalars(statement.with_for_update(skip_locked=True))
    return {Watched(watch.benchmark_id, watch.agent_id): watch for watch in found}


def seen_runs(session: Session, watch: Watched) -> set[str]:
    statement = select(SeenRun.run_id).where(
        SeenRun.benchmark_id == watch.benchmark_id, SeenRun.agent_id == watch.agent_id
    )
    return set(session.scalars(statement))


def _belongs_to(benchmark_id: str | None) -> ColumnElement[bool]:
    return WebhookSecret.benchmark_id.is_not_distinct_from(benchmark_id)


def _is_on(trigger: str) -> ColumnElement[bool]:
    return cast(Benchmark.triggers[trigger].as_string(), Boolean)


def _waiting(session: Session, *conditions: ColumnElement[bool]) -> list[str]:
    statement = select(Benchmark.id).where(Benchmark.archived.is_(False), *conditions)
    return list(session.scalars(statement.order_by(Benchmark.id)))


def _some_rule_fits(benchmark: Benchmark, event: LangfuseEvent) -> bool:
    rules = Triggers.model_validate(benchmark.triggers).langfuse
    return any(fits(event, rule) for rule in rules)
