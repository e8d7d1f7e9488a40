"""Reads of alert rules, their states, alerts and silences."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session, aliased

from app.alerts.models import AlertEvent, AlertRule, AlertSilence, AlertState
from app.alerts.rules import AlertStatus
from app.alerts.watched_values import IncidentSpan
from app.benchmarks.kpi_watchers import KPI_WATCHERS, KpiWatcher
from app.core.errors import NotFound
from app.core.keyset import PageQuery, PageRows, select_page


class AlertConfigNotFound(NotFound):
    """No alert rule has this ID; GET /api/v1/alert-configs lists them."""

    code = "alert-config-not-found"


class AlertNotFound(NotFound):
    """No alert has this ID; GET /api/v1/alerts lists them."""

    code = "alert-not-found"


class SilenceNotFound(NotFound):
    """No silence has this ID; GET /api/v1/silences lists them."""

    code = "silence-not-found"


class AcknowledgedCount(NamedTuple):
    """How many alerts of a rule were acknowledged as true and as noise."""

    true: int = 0
    noise: int = 0


class AlertFilter(NamedTuple):
    """Which alerts to list; None means any."""

    benchmark_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    rule_id: str | None = None
    state: str | None = None


def get_rule(session: Session, rule_id: str, *, for_update: bool = False) -> AlertRule:
    rule = session.get(
        AlertRule, rule_id, with_for_update=for_update or None, populate_existing=True
    )
    if rule is None:
        raise AlertConfigNotFound(
            f"no alert rule has the ID {rule_id!r}; GET /api/v1/alert-configs lists them"
        )
    return rule


def list_rules(
    session: Session,
    query: PageQuery,
    *,
    benchmark_id: str | None = None,
    agent_id: str | None = None,
    enabled: bool | None = None,
) -> PageRows[AlertRule]:
    """Alert rules, newest first; `agent_id` includes the rules that judge every agent."""
    statement = select(AlertRule)
    if benchmark_id is not None:
        statement = statement.where(AlertRule.benchmark_id == benchmark_id)
    if agent_id is not None:
        statement = statement.where(_judges(agent_id))
    if enabled is not None:
        statement = statement.where(AlertRule.enabled.is_(enabled))
    return select_page(session, statement, keys=[AlertRule.created_at, AlertRule.id], query=query)


def list_enabled_rules(session: Session, benchmark_id: str, agent_id: str) -> list[AlertRule]:
    """The rules that judge the runs of an agent, by ID."""
    statement = select(AlertRule).where(
        AlertRule.benchmark_id == benchmark_id, _judges(agent_id), AlertRule.enabled
    )
    return list(session.scalars(statement.order_by(AlertRule.id)))


def find_kpi_watchers(
    session: Session, benchmark_id: str, kpi_ids: Collection[str]
) -> list[KpiWatcher]:
    """The alert rules, enabled or not, that watch KPIs of a benchmark, by name."""
    statement = (
        select(AlertRule)
        .where(AlertRule.benchmark_id == benchmark_id, AlertRule.kpi.in_(kpi_ids))
        .order_by(AlertRule.name, AlertRule.id)
    )
    return [
        KpiWatcher(str(rule.kpi), "alert rule", rule.id, rule.name)
        for rule in session.scalars(statement)
    ]


# A KPI that a rule watches is not retired.
KPI_WATCHERS.append(find_kpi_watchers)


def lock_enabled_rules(session: Session, rule_ids: Sequence[str]) -> dict[str, AlertRule]:
    """The rules of these that are still enabled, locked against edits, by ID."""
    statement = (
        select(AlertRule)
        .where(AlertRule.id.in_(rule_ids), AlertRule.enabled)
        .order_by(AlertRule.id)  # one order everywhere: two transactions cannot deadlock
        .with_for_update(read=True)
        .execution_options(populate_existing=True)
    )
    return {rule.id: rule for rule in session.scalars(statement)}


def lock_states(session: Session, rule_ids: Sequence[str], agent_id: str) -> dict[str, AlertState]:
    """The states of rules for an agent, locked, by rule."""
    statement = (
        select(AlertState)
        .where(AlertState.rule_id.in_(rule_ids), AlertState.agent_id == agent_id)
        .order_by(AlertState.rule_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return {state.rule_id: state for state in session.scalars(statement)}


def states_by_rule(session: Session, rule_ids: Iterable[str]) -> dict[str, list[AlertState]]:
    """The states of rules, by rule, one for each agent; without those that saw no run yet."""
    statement = select(AlertState).where(
        AlertState.rule_id.in_(list(rule_ids)), AlertState.run_seq > 0
    )
    states: dict[str, list[AlertState]] = defaultdict(list)
    for state in session.scalars(statement.order_by(AlertState.agent_id)):
        states[state.rule_id].append(state)
    return states


def count_acknowledged(session: Session, rule_ids: Iterable[str]) -> dict[str, AcknowledgedCount]:
    """The number of acknowledged alerts, by rule."""
    statement = (
        select(
            AlertEvent.rule_id,
            func.count().filter(AlertEvent.verdict == "true"),
            func.count().filter(AlertEvent.verdict == "noise"),
        )
        .where(AlertEvent.rule_id.in_(list(rule_ids)), AlertEvent.state == AlertStatus.FIRING)
        .group_by(AlertEvent.rule_id)
    )
    return {
        str(rule_id): AcknowledgedCount(true, noise)
        for rule_id, true, noise in session.execute(statement)
    }


def confirmed_incidents(
    session: Session, rule_ids: Sequence[str], agent_id: str
) -> dict[str, list[IncidentSpan]]:
    """The incidents of an agent that were acknowledged as true, by rule."""
    resolved = aliased(AlertEvent)
    statement = (
        select(AlertEvent.rule_id, AlertEvent.run_seq, resolved.run_seq)
        .outerjoin(
            resolved,
            (resolved.incident_id == AlertEvent.id) & (resolved.state == AlertStatus.RESOLVED),
        )
        .where(
            AlertEvent.rule_id.in_(rule_ids),
            AlertEvent.agent_id == agent_id,
            AlertEvent.state == AlertStatus.FIRING,
            AlertEvent.verdict == "true",
        )
    )
    incidents: dict[str, list[IncidentSpan]] = {rule_id: [] for rule_id in rule_ids}
    for rule_id, first, end in session.execute(statement):
        assert rule_id is not None, "selected by it"
        assert first is not None, "a rule fires in a run"
        incidents[rule_id].append(IncidentSpan(first, end))
    return incidents


def get_event(session: Session, event_id: str, *, for_update: bool = False) -> AlertEvent:
    event = session.get(AlertEvent, event_id, with_for_update=for_update or None)
    if event is None:
        raise AlertNotFound
    return event


def list_events(
    session: Session, query: PageQuery, alert_filter: AlertFilter
) -> PageRows[AlertEvent]:
    """Alerts, newest first."""
    filters = {
        AlertEvent.benchmark_id: alert_filter.benchmark_id,
        AlertEvent.agent_id: alert_filter.agent_id,
        AlertEvent.run_id: alert_filter.run_id,
        AlertEvent.rule_id: alert_filter.rule_id,
        AlertEvent.state: alert_filter.state,
    }
    conditions = [column == value for column, value in filters.items() if value is not None]
    statement = select(AlertEvent).where(*conditions)
    return select_page(session, statement, keys=[AlertEvent.created_at, AlertEvent.id], query=query)


def list_silenced_events(session: Session, event_ids: Sequence[str]) -> list[AlertEvent]:
    """Those of these alerts that a silence held back, oldest first."""
    if not event_ids:
        return []
    statement = select(AlertEvent).where(
        AlertEvent.id.in_(event_ids), AlertEvent.silence_id.is_not(None)
    )
    return list(session.scalars(statement.order_by(AlertEvent.id)))


def get_silence(session: Session, silence_id: str, *, for_update: bool = False) -> AlertSilence:
    silence = session.get(AlertSilence, silence_id, with_for_update=for_update)
    if silence is None:
        raise SilenceNotFound
    return silence


def list_silences(
    session: Session, query: PageQuery, *, active_at: datetime | None
) -> PageRows[AlertSilence]:
    """Silences, newest first; `active_at` keeps those that are active at that time."""
    statement = select(AlertSilence)
    if active_at is not None:
        statement = statement.where(*_is_active(active_at))
    return select_page(
        session, statement, keys=[AlertSilence.created_at, AlertSilence.id], query=query
    )


def list_active_silences(session: Session, now: datetime) -> list[AlertSilence]:
    statement = select(AlertSilence).where(*_is_active(now))
    return list(session.scalars(statement.order_by(AlertSilence.id)))


def _judges(agent_id: str) -> ColumnElement[bool]:
    return or_(AlertRule.agent_id.is_(None), AlertRule.agent_id == agent_id)


def _is_active(now: datetime) -> list[ColumnElement[bool]]:
    return [AlertSilence.starts_at <= now, AlertSilence.ends_at > now]
