"""Reads of KPI values."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, exists, or_, select
from sqlalchemy.orm import Session

from app.core.keyset import (
    Key,
    PageQuery,
    PageRows,
    match_any,
    match_period,
    select_sorted_page,
)
from app.kpis.models import KpiHistory

SORT_KEYS: Final[dict[str, Sequence[Key]]] = {
    "recorded": (KpiHistory.id,),
    "benchmark": (KpiHistory.benchmark_id, KpiHistory.id),
    "agent": (KpiHistory.agent_id, KpiHistory.id),
    "kpi": (KpiHistory.name, KpiHistory.id),
}
KpiOrder: TypeAlias = Literal[
    "recorded", "benchmark", "agent", "kpi", "-recorded", "-benchmark", "-agent", "-kpi"
]
"""A name of `SORT_KEYS`; with "-" for the descending order."""
DEFAULT_SORT: Final = "-recorded"
# In the order of the index on the time, which finds a period at once.
_PERIOD_SORT_KEYS: Final = SORT_KEYS | {"recorded": (KpiHistory.recorded_at, KpiHistory.id)}


class KpiHistoryFilter(NamedTuple):
    """KPI values with any value of each list, from `since` to before `until`. `kpis` are IDs or names; a
    name that is also an ID is an ID.
    """

    benchmark_ids: Sequence[str] = ()
    agent_ids: Sequence[str] = ()
    kpis: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None


def list_kpi_history(
    session: Session,
    query: PageQuery,
    history_filter: KpiHistoryFilter,
    *,
    sort: KpiOrder = DEFAULT_SORT,
) -> PageRows[KpiHistory]:
    """Return one page of KPI values."""
    benchmark_ids, agent_ids, kpis, since, until = history_filter
    statement = select(KpiHistory).where(
        *match_any((KpiHistory.benchmark_id, benchmark_ids), (KpiHistory.agent_id, agent_ids)),
        *match_period(KpiHistory.recorded_at, since, until),
    )
    if kpis:
        statement = statement.where(or_(*(_kpi_condition(session, kpi) for kpi in kpis)))
    in_period = since is not None or until is not None
    sort_keys = _PERIOD_SORT_KEYS if in_period else SORT_KEYS
    return select_sorted_page(session, statement, sort_keys, sort, query)


def _kpi_condition(session: Session, kpi: str) -> ColumnElement[bool]:
    # One column in the condition: with OR no index fits, and PostgreSQL reads the values of other KPIs.
    has_id = KpiHistory.kpi_id == kpi
    return has_id if session.scalar(select(exists().where(has_id))) else KpiHistory.name == kpi


def get_kpis_of_run(session: Session, run_seq: int) -> list[KpiHistory]:
    """The KPI values of one run, by name."""
    statement = select(KpiHistory).where(KpiHistory.run_seq == run_seq)
    return list(session.scalars(statement.order_by(KpiHistory.name, KpiHistory.id)))
