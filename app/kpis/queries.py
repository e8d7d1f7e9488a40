"""Reads of KPI values."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from app.core.keyset import PageQuery, PageRows, match_any, match_period, select_page
from app.kpis.models import KpiHistory


def list_kpi_history(
    session: Session,
    query: PageQuery,
    *,
    benchmark_ids: Sequence[str] = (),
    agent_ids: Sequence[str] = (),
    kpis: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> PageRows[KpiHistory]:
    """KPI values, newest first, with any value of each list. `kpis` are IDs or names; a name that is
    also an ID is an ID.
    """
    statement = select(KpiHistory).where(
        *match_any((KpiHistory.benchmark_id, benchmark_ids), (KpiHistory.agent_id, agent_ids)),
        *match_period(KpiHistory.recorded_at, since, until),
    )
    if kpis:
        statement = statement.where(or_(*(_kpi_condition(session, kpi) for kpi in kpis)))
    # In the order of the index on the time, which finds the period at once.
    in_period = since is not None or until is not None
    keys = [KpiHistory.recorded_at, KpiHistory.id] if in_period else [KpiHistory.id]
    return select_page(session, statement, keys=keys, query=query)


def _kpi_condition(session: Session, kpi: str) -> ColumnElement[bool]:
    # One column in the condition: with OR no index fits, and PostgreSQL reads the values of other KPIs.
    has_id = KpiHistory.kpi_id == kpi
    return has_id if session.scalar(select(exists().where(has_id))) else KpiHistory.name == kpi


def get_kpis_of_run(session: Session, run_seq: int) -> list[KpiHistory]:
    """The KPI values of one run, by name."""
    statement = select(KpiHistory).where(KpiHistory.run_seq == run_seq)
    return list(session.scalars(statement.order_by(KpiHistory.name, KpiHistory.id)))
