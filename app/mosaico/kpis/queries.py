"""Reads of KPI values."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import Field
from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from mosaico.benchmarks.queries import NamedKpi, OwnerFilter, find_kpis_by_id, find_kpis_by_name
from mosaico.core.keyset import Key, PageQuery, PageRows, select_sorted_page
from mosaico.core.list_filters import (
    IndexedFilter,
    filter_any,
    filter_period,
    filter_value,
    intersect_filters,
)
from mosaico.core.schemas import FilterValues, PeriodFilter
from mosaico.kpis.models import KpiHistory

# In the order of the indexes on a time, so that those of a filter serve its periods too.
_BY_TIME: Final = (KpiHistory.recorded_at, KpiHistory.id)
SORT_KEYS: Final[dict[str, Sequence[Key]]] = {
    "recorded": _BY_TIME,
    "benchmark": (KpiHistory.benchmark_id, *_BY_TIME),
    "agent": (KpiHistory.agent_id, *_BY_TIME),
    "kpi": (KpiHistory.name, *_BY_TIME),
}
KpiOrder: TypeAlias = Literal[
    "recorded", "benchmark", "agent", "kpi", "-recorded", "-benchmark", "-agent", "-kpi"
]
"""A name of `SORT_KEYS`; with "-" for the descending order."""
DEFAULT_SORT: Final = "-recorded"
ALL_COLUMNS: Final = select(KpiHistory)


class KpiHistoryFilter(OwnerFilter, PeriodFilter):
    """Filter of KPI values. A name of a KPI that is also an ID is an ID."""

    kpis: FilterValues = Field(
        default=[], validation_alias="kpi", description="ID or name of a KPI."
    )


class _KpiSelection(NamedTuple):
    """The KPIs of a filter, or their names where they are those of any benchmark. `searched` are conditions
    on their values that no index serves.
    """

    kpis: Sequence[NamedKpi] = ()
    names: Sequence[str] = ()
    searched: Sequence[ColumnElement[bool]] = ()


def list_kpi_history(
    session: Session,
    query: PageQuery,
    history_filter: KpiHistoryFilter,
    *,
    sort: KpiOrder = DEFAULT_SORT,
    columns: Select[KpiHistory] = ALL_COLUMNS,
) -> PageRows[KpiHistory]:
    """Return one page of KPI values with the columns that `columns` loads."""
    selection = _select_kpis(session, history_filter)
    if selection is None:
        return PageRows([], None)
    filters = [
        *_filter_values(history_filter, selection),
        *filter_period(history_filter.since, history_filter.until, _BY_TIME),
    ]
    order = _order_of(sort, selection.kpis)
    return select_sorted_page(
        session, columns, SORT_KEYS, order, query, filters, selection.searched
    )


def _order_of(sort: KpiOrder, kpis: Sequence[NamedKpi]) -> KpiOrder:
    """The order by time in place of one by what all values of a KPI have in common: an index has it."""
    key = sort.removeprefix("-")
    is_common = key == "benchmark" or (
        key == "kpi" and not any(kpi.has_other_names for kpi in kpis)
    )
    if len(kpis) != 1 or not is_common:
        return sort
    return "-recorded" if sort.startswith("-") else "recorded"


def _select_kpis(session: Session, history_filter: KpiHistoryFilter) -> _KpiSelection | None:
    """The KPIs of a filter; None when it names some and the benchmarks have none of them."""
    requested, benchmark_ids = history_filter.kpis, history_filter.benchmark_ids
    if not requested:
        return _KpiSelection()
    kpis = find_kpis_by_id(session, requested)
    ids = {kpi.id for kpi in kpis}
    names = [kpi for kpi in requested if kpi not in ids]
    is_selected = KpiHistory.kpi_id.in_(ids) | KpiHistory.name.in_(names)
    if not benchmark_ids:
        # With OR no index fits, and PostgreSQL reads the values of other KPIs.
        if ids and names:
            return _KpiSelection(searched=[is_selected])
        return _KpiSelection(kpis, names)
    # By their IDs, of which an index has the values for each agent.
    named = find_kpis_by_name(session, benchmark_ids, names) if names else []
    selected = {kpi.id: kpi for kpi in (*named, *kpis) if kpi.benchmark_id in benchmark_ids}
    if not selected:
        return None
    is_renamed = any(kpi.has_other_names for kpi in named)
    return _KpiSelection([*selected.values()], searched=[is_selected] if is_renamed else [])


def _filter_values(
    history_filter: KpiHistoryFilter, selection: _KpiSelection
) -> list[IndexedFilter]:
    benchmarks = filter_any(KpiHistory.benchmark_id, history_filter.benchmark_ids, _BY_TIME)
    agents = filter_any(KpiHistory.agent_id, history_filter.agent_ids, _BY_TIME)
    of_kpis = filter_any(KpiHistory.kpi_id, [kpi.id for kpi in selection.kpis], _BY_TIME)
    if len(selection.kpis) == 1:
        benchmarks = filter_value(KpiHistory.benchmark_id, selection.kpis[0].benchmark_id)
        trend = intersect_filters([*benchmarks, *agents, *of_kpis], _BY_TIME) if agents else []
        return trend or [*of_kpis, *agents]
    pair = intersect_filters([*benchmarks, *agents], _BY_TIME) if benchmarks and agents else []
    of_names = filter_any(KpiHistory.name, selection.names, _BY_TIME)
    return [*of_kpis, *of_names, *(pair or [*benchmarks, *agents])]


def get_kpis_of_run(session: Session, run_seq: int) -> list[KpiHistory]:
    """The KPI values of one run, by name."""
    statement = select(KpiHistory).where(KpiHistory.run_seq == run_seq)
    return list(session.scalars(statement.order_by(KpiHistory.name, KpiHistory.id)))
