"""Reads of KPI values."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from pydantic import Field
from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from app.benchmarks.queries import OwnerFilter
from app.core.keyset import Key, PageQuery, PageRows, select_sorted_page
from app.core.list_filters import filter_any, filter_period, intersect_filters
from app.core.schemas import FilterValues, PeriodFilter
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


class KpiHistoryFilter(OwnerFilter, PeriodFilter):
    """Filter of KPI values. A name of a KPI that is also an ID is an ID."""

    kpis: FilterValues = Field(
        default=[], validation_alias="kpi", description="ID or name of a KPI."
    )


def list_kpi_history(
    session: Session,
    query: PageQuery,
    history_filter: KpiHistoryFilter,
    *,
    sort: KpiOrder = DEFAULT_SORT,
) -> PageRows[KpiHistory]:
    """Return one page of KPI values."""
    benchmark_ids, agent_ids = history_filter.benchmark_ids, history_filter.agent_ids
    since, until = history_filter.since, history_filter.until
    in_order, by_time = [KpiHistory.id], [KpiHistory.recorded_at, KpiHistory.id]
    in_period = since is not None or until is not None
    ids = [kpi for kpi in history_filter.kpis if _is_kpi_id(session, kpi)]
    names = [kpi for kpi in history_filter.kpis if kpi not in ids]
    filters = [
        *filter_any(KpiHistory.benchmark_id, benchmark_ids, in_order),
        *filter_any(KpiHistory.agent_id, agent_ids, in_order),
    ]
    searched = []
    if ids and names:
        # With OR no index fits, and PostgreSQL reads the values of other KPIs.
        searched = [KpiHistory.kpi_id.in_(ids) | KpiHistory.name.in_(names)]
    elif ids and benchmark_ids and agent_ids:
        of_kpi = filter_any(KpiHistory.kpi_id, ids, in_order)
        trend = intersect_filters([*filters, *of_kpi], by_time if in_period else in_order)
        filters = trend or [*filters, *of_kpi]
    else:
        filters += filter_any(KpiHistory.kpi_id, ids, in_order)
        filters += filter_any(KpiHistory.name, names, in_order)
    filters += filter_period(since, until, by_time)
    sort_keys = _PERIOD_SORT_KEYS if in_period else SORT_KEYS
    return select_sorted_page(
        session, select(KpiHistory), sort_keys, sort, query, filters, searched
    )


def _is_kpi_id(session: Session, kpi: str) -> bool:
    return bool(session.scalar(select(exists().where(KpiHistory.kpi_id == kpi))))


def get_kpis_of_run(session: Session, run_seq: int) -> list[KpiHistory]:
    """The KPI values of one run, by name."""
    statement = select(KpiHistory).where(KpiHistory.run_seq == run_seq)
    return list(session.scalars(statement.order_by(KpiHistory.name, KpiHistory.id)))
