from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select, text
from sqlalchemy.orm import Session

from app.alerts.models import AlertConfig, AlertEvent, AlertSilence, AlertStanding
from app.core.errors import NotFound
from app.core.keyset import PageQuery, PageRows, select_page

RUN_AGENTS = text(
    "SELECT DISTINCT agent_id FROM benchmark_runs WHERE benchmark_id = :benchmark ORDER BY 1 LIMIT 50"
)


class AlertConfigNotFound(NotFound):
    """There is no alert rule with this id; GET /api/v1/alert-configs lists those there are."""

    code = "alert-config-not-found"


class AlertNotFound(NotFound):
    """There is no alert with this id; GET /api/v1/alerts lists those there are."""

    code = "alert-not-found"


class SilenceNotFound(NotFound):
    """There is no silence with this id; GET /api/v1/silences lists those there are."""

    code = "silence-not-found"


class Precision(NamedTuple):
    """How many alerts of a rule were acknowledged as true, and as noise."""

    true: int = 0
    noise: int = 0


class Told(NamedTuple):
    """The alerts of one place that a list asks for; None means any."""

    benchmark_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    alert_config_id: str | None = None
    state: str | None = None


def get_config(session: Session, config_id: str, *, for_update: bool = False) -> AlertConfig:
    config = session.get(
        AlertConfig, config_id, with_for_update=for_update or None, populate_existing=True
    )
    if config is None:
        raise AlertConfigNotFound(
            f"there is no alert rule {config_id!r}; GET /api/v1/alert-configs lists those there are"
        )
    return config


def list_configs(
    session: Session,
    query: PageQuery,
    *,
    benchmark_id: str | None = None,
    agent_id: str | None = None,
    enabled: bool | None = None,
) -> PageRows[AlertConfig]:
    """Rules, newest first; those of an agent are also those of every agent."""
    statement = select(AlertConfig)
    if benchmark_id is not None:
        statement = statement.where(AlertConfig.benchmark_id == benchmark_id)
    if agent_id is not None:
        statement = statement.where(_about(agent_id))
    if enabled is not None:
        statement = statement.where(AlertConfig.enabled.is_(enabled))
    return select_page(
        session, statement, keys=[AlertConfig.created_at, AlertConfig.id], query=query
    )


def enabled_configs(session: Session, benchmark_id: str, agent_id: str) -> list[AlertConfig]:
    """The rules that judge the runs of an agent, by id."""
    statement = select(AlertConfig).where(
        AlertConfig.benchmark_id == benchmark_id, _about(agent_id), AlertConfig.enabled
    )
    return list(session.scalars(statement.order_by(AlertConfig.id)))


def lock_enabled(session: Session, config_ids: Sequence[str]) -> dict[str, AlertConfig]:
    """Those of the rules that are still enabled; none is edited until the transaction ends."""
    statement = (
        select(AlertConfig)
        .where(AlertConfig.id.in_(config_ids), AlertConfig.enabled)
        .order_by(AlertConfig.id)
        .with_for_update(read=True)
        .execution_options(populate_existing=True)
    )
    return {config.id: config for config in session.scalars(statement)}


def lock_standings(
    session: Session, config_ids: Sequence[str], agent_id: str
) -> dict[str, AlertStanding]:
    """Where rules stand for an agent, by rule, locked."""
    statement = (
        select(AlertStanding)
        .where(AlertStanding.config_id.in_(config_ids), AlertStanding.agent_id == agent_id)
        .order_by(AlertStanding.config_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return {standing.config_id: standing for standing in session.scalars(statement)}


def standings_of(session: Session, config_ids: Iterable[str]) -> dict[str, list[AlertStanding]]:
    """Where rules stand, by rule and agent; those that no run was judged by yet are left out."""
    statement = select(AlertStanding).where(
        AlertStanding.config_id.in_(list(config_ids)), AlertStanding.run_seq > 0
    )
    found: dict[str, list[AlertStanding]] = defaultdict(list)
    for standing in session.scalars(statement.order_by(AlertStanding.agent_id)):
        found[standing.config_id].append(standing)
    return found


def precision_of(session: Session, config_ids: Iterable[str]) -> dict[str, Precision]:
    """How often rules were right, from what was acknowledged."""
    statement = (
        select(
            AlertEvent.config_id,
            func.count().filter(AlertEvent.verdict == "true"),
            func.count().filter(AlertEvent.verdict == "noise"),
        )
        .where(AlertEvent.config_id.in_(list(config_ids)), AlertEvent.state == "FIRING")
        .group_by(AlertEvent.config_id)
    )
    return {str(row[0]): Precision(row[1], row[2]) for row in session.execute(statement)}


def get_event(session: Session, event_id: str, *, for_update: bool = False) -> AlertEvent:
    event = session.get(AlertEvent, event_id, with_for_update=for_update or None)
    if event is None:
        raise AlertNotFound
    return event


def list_events(session: Session, query: PageQuery, told: Told) -> PageRows[AlertEvent]:
    """What was told, newest first."""
    columns = {
        AlertEvent.benchmark_id: told.benchmark_id,
        AlertEvent.agent_id: told.agent_id,
        AlertEvent.run_id: told.run_id,
        AlertEvent.config_id: told.alert_config_id,
        AlertEvent.state: told.state,
    }
    wanted = [column == value for column, value in columns.items() if value is not None]
    statement = select(AlertEvent).where(*wanted)
    return select_page(session, statement, keys=[AlertEvent.created_at, AlertEvent.id], query=query)


def held_events(session: Session, event_ids: Sequence[str]) -> list[AlertEvent]:
    """Those of these alerts that a silence kept from being told, oldest first."""
    if not event_ids:
        return []
    statement = select(AlertEvent).where(
        AlertEvent.id.in_(event_ids), AlertEvent.silence_id.is_not(None)
    )
    return list(session.scalars(statement.order_by(AlertEvent.id)))


def get_silence(session: Session, silence_id: str) -> AlertSilence:
    silence = session.get(AlertSilence, silence_id)
    if silence is None:
        raise SilenceNotFound
    return silence


def list_silences(
    session: Session, query: PageQuery, *, active_at: datetime | None
) -> PageRows[AlertSilence]:
    """Silences, newest first; with `active_at` those that hold then."""
    statement = select(AlertSilence)
    if active_at is not None:
        statement = statement.where(*_holds_at(active_at))
    return select_page(
        session, statement, keys=[AlertSilence.created_at, AlertSilence.id], query=query
    )


def silences_at(session: Session, now: datetime) -> list[AlertSilence]:
    statement = select(AlertSilence).where(*_holds_at(now))
    return list(session.scalars(statement.order_by(AlertSilence.id)))


def agents_with_runs(session: Session, benchmark_id: str) -> list[str]:
    """Whom a benchmark has judged, at most fifty of them."""
    return list(session.scalars(RUN_AGENTS, {"benchmark": benchmark_id}))


def _about(agent_id: str) -> ColumnElement[bool]:
    return or_(AlertConfig.agent_id.is_(None), AlertConfig.agent_id == agent_id)


def _holds_at(now: datetime) -> list[ColumnElement[bool]]:
    return [AlertSilence.starts_at <= now, AlertSilence.ends_at > now]
