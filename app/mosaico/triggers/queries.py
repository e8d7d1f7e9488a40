"""Reads of triggers: secrets, events, subscriptions and the benchmarks with matching triggers."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import Field
from sqlalchemy import Boolean, ColumnElement, Select, cast, or_, select, text, tuple_, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.agents.source_fields import LOCAL
from mosaico.benchmarks.models import HAS_LANGFUSE_RULES, Benchmark, BenchmarkAgent
from mosaico.core.batches import batched, keyset_batches
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, PageRows, select_page
from mosaico.core.schemas import ListFilter
from mosaico.triggers.models import (
    ProcessedSourceRun,
    SourceSubscription,
    TriggerEvent,
    WebhookSecret,
)
from mosaico.triggers.rules import LangfuseEvent, TriggerEventStatus, TriggerEventType, rule_matches

MAX_DUE_EVENTS = 100
# As JSON, of which a condition reads a field.
_TRIGGERS = type_coerce(Benchmark.triggers, JSONB)


class WebhookSecretNotFound(NotFound):
    """The webhook secret does not exist; GET /api/v1/benchmarks/{benchmarkId}/webhook-secrets lists them."""


class TriggerEventNotFound(NotFound):
    """The trigger event does not exist; GET /api/v1/trigger-events lists those that are kept."""


class TriggerEventFilter(ListFilter):
    """Filter of trigger events."""

    statuses: list[TriggerEventStatus] = Field(
        default=[],
        validation_alias="status",
        description="Filter by status; repeat it for several.",
    )
    types: list[TriggerEventType] = Field(
        default=[], validation_alias="type", description="Filter by type; repeat it for several."
    )


class SubscriptionKey(NamedTuple):
    """The key of a subscription: a benchmark and the agent whose new runs it evaluates."""

    benchmark_id: str
    agent_id: str


def list_active_secrets(
    session: Session, benchmark_id: str | None, now: datetime
) -> list[WebhookSecret]:
    """The unexpired secrets of a benchmark, or of Langfuse when `benchmark_id` is None; `rules.MAX_SECRETS`
    limits their number.
    """
    valid = or_(WebhookSecret.expires_at.is_(None), WebhookSecret.expires_at > now)
    statement = select(WebhookSecret).where(_belongs_to(benchmark_id), valid)
    return list(session.scalars(statement.order_by(WebhookSecret.created_at, WebhookSecret.id)))


def list_secrets(
    session: Session, benchmark_id: str | None, query: PageQuery
) -> PageRows[WebhookSecret]:
    statement = select(WebhookSecret).where(_belongs_to(benchmark_id))
    keys = [WebhookSecret.created_at, WebhookSecret.id]
    return select_page(session, statement, keys=keys, query=query)


def get_secret(session: Session, benchmark_id: str | None, secret_id: str) -> WebhookSecret:
    statement = select(WebhookSecret).where(
        _belongs_to(benchmark_id), WebhookSecret.id == secret_id
    )
    return WebhookSecretNotFound.unless(session.scalars(statement).one_or_none())


def get_event(session: Session, event_id: str, *, for_update: bool = False) -> TriggerEvent:
    return TriggerEventNotFound.unless(
        session.get(TriggerEvent, event_id, with_for_update=for_update or None)
    )


def list_events(
    session: Session, query: PageQuery, event_filter: TriggerEventFilter
) -> PageRows[TriggerEvent]:
    """Trigger events, newest first."""
    return select_page(
        session,
        select(TriggerEvent),
        keys=[TriggerEvent.received_at, TriggerEvent.id],
        query=query,
        filters=[
            (TriggerEvent.status, event_filter.statuses),
            (TriggerEvent.type, event_filter.types),
        ],
    )


def lock_due_events(session: Session, now: datetime) -> list[TriggerEvent]:
    """Events whose waiting time is over, locked; events locked by another process are skipped."""
    statement = select(TriggerEvent).where(TriggerEvent.due_at <= now).order_by(TriggerEvent.due_at)
    return list(session.scalars(statement.limit(MAX_DUE_EVENTS).with_for_update(skip_locked=True)))


def list_evaluated_agents(session: Session, benchmark_id: str) -> list[str]:
    """The agents that a benchmark evaluates, without archived agents."""
    statement = (
        select(Agent.id)
        .join(BenchmarkAgent, BenchmarkAgent.agent_id == Agent.id)
        .where(BenchmarkAgent.benchmark_id == benchmark_id, Agent.archived.is_(False))
        .order_by(Agent.id)
    )
    return list(session.scalars(statement))


def find_benchmarks_for_agent(session: Session, agent_id: str) -> list[str]:
    """The benchmarks that evaluate an agent and have an `agentUpdated` trigger."""
    evaluating = select(BenchmarkAgent.benchmark_id).where(BenchmarkAgent.agent_id == agent_id)
    return _select_benchmarks(session, _is_enabled("agentUpdated"), Benchmark.id.in_(evaluating))


def find_benchmarks_for_upload(session: Session, name: str, run_name: str | None) -> list[str]:
    """The benchmarks with a `datasetUpdated` trigger that may read this run of a local dataset."""
    return _select_benchmarks(
        session,
        _is_enabled("datasetUpdated"),
        or_(Benchmark.source == LOCAL, Benchmark.source.is_(None)),
        Benchmark.dataset_ref == name,
        or_(Benchmark.run_name.is_(None), Benchmark.run_name == run_name),
    )


def find_benchmarks_for_langfuse(session: Session, event: LangfuseEvent) -> list[str]:
    """The benchmarks with a matching rule; only the benchmark that the payload names, if any."""
    requested_id = event.run_options.get("benchmarkId")
    return [
        benchmark.id
        for batch in iter_benchmarks_with_rules(session, requested_id)
        for benchmark in batch
        if _any_rule_matches(benchmark, event)
    ]


def iter_benchmarks_with_rules(
    session: Session, benchmark_id: str | None
) -> Iterator[Sequence[Benchmark]]:
    """The benchmarks with a rule for events of Langfuse, or one of them, in batches."""
    statement = select(Benchmark).where(text(HAS_LANGFUSE_RULES)).order_by(Benchmark.id)
    if benchmark_id is not None:
        statement = statement.where(Benchmark.id == benchmark_id)

    def read(last_id: str, row_count: int) -> Sequence[Benchmark]:
        return session.scalars(statement.where(Benchmark.id > last_id).limit(row_count)).all()

    return keyset_batches(read, lambda benchmark: benchmark.id, "")


def _select_subscriptions() -> Select[str, str]:
    """The benchmarks and agents that a `newRun` trigger asks for now."""
    return (
        select(BenchmarkAgent.benchmark_id, BenchmarkAgent.agent_id)
        .join(Benchmark, Benchmark.id == BenchmarkAgent.benchmark_id)
        .join(Agent, Agent.id == BenchmarkAgent.agent_id)
        .where(
            Benchmark.archived.is_(False),
            Agent.archived.is_(False),
            _TRIGGERS["newRun"]["pattern"].is_not(None),
        )
    )


def select_missing_subscriptions(limit: int) -> Select[str, str]:
    """Up to `limit` benchmarks and agents that a `newRun` trigger asks for, without a subscription."""
    stored = select(SourceSubscription.agent_id).where(
        SourceSubscription.benchmark_id == BenchmarkAgent.benchmark_id,
        SourceSubscription.agent_id == BenchmarkAgent.agent_id,
    )
    return _select_subscriptions().where(~stored.exists()).limit(limit)


def list_subscriptions(session: Session, keys: Collection[SubscriptionKey]) -> set[SubscriptionKey]:
    """Those of the given subscriptions that the benchmarks ask for now."""
    if not keys:
        return set()
    pair = tuple_(BenchmarkAgent.benchmark_id, BenchmarkAgent.agent_id)
    statement = _select_subscriptions().where(pair.in_(list(keys)))
    return {SubscriptionKey(*row) for row in session.execute(statement)}


def lock_due_subscriptions(
    session: Session, polled_before: datetime, limit: int
) -> dict[SubscriptionKey, SourceSubscription]:
    """Up to `limit` subscriptions not polled since, locked; rows locked by another process are skipped."""
    due = or_(SourceSubscription.polled_at.is_(None), SourceSubscription.polled_at <= polled_before)
    statement = (
        select(SourceSubscription)
        .where(due)
        .order_by(SourceSubscription.benchmark_id, SourceSubscription.agent_id)
        .limit(limit)
    )
    subscriptions = session.scalars(statement.with_for_update(skip_locked=True))
    return {SubscriptionKey(row.benchmark_id, row.agent_id): row for row in subscriptions}


def find_processed_runs(
    session: Session, key: SubscriptionKey, source_run_ids: Sequence[str]
) -> dict[str, datetime | None]:
    """The given source runs that a subscription has processed, with their last activity."""
    statement = select(ProcessedSourceRun.source_run_id, ProcessedSourceRun.ended_at).where(
        ProcessedSourceRun.benchmark_id == key.benchmark_id,
        ProcessedSourceRun.agent_id == key.agent_id,
    )
    return {
        row.source_run_id: row.ended_at
        for batch in batched(source_run_ids)
        for row in session.execute(statement.where(ProcessedSourceRun.source_run_id.in_(batch)))
    }


def _belongs_to(benchmark_id: str | None) -> ColumnElement[bool]:
    # Not IS NOT DISTINCT FROM, which no index serves.
    if benchmark_id is None:
        return WebhookSecret.benchmark_id.is_(None)
    return WebhookSecret.benchmark_id == benchmark_id


def _is_enabled(trigger: str) -> ColumnElement[bool]:
    return cast(_TRIGGERS[trigger].as_string(), Boolean)


def _select_benchmarks(session: Session, *conditions: ColumnElement[bool]) -> list[str]:
    statement = select(Benchmark.id).where(Benchmark.archived.is_(False), *conditions)
    return list(session.scalars(statement.order_by(Benchmark.id)))


def _any_rule_matches(benchmark: Benchmark, event: LangfuseEvent) -> bool:
    return any(rule_matches(event, rule) for rule in benchmark.triggers.langfuse)
