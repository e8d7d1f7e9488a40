"""Reads of KPI values."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import Field
from sqlalchemy import ColumnElement, Select, select, tuple_
from sqlalchemy.orm import Session

from mosaico.benchmarks.queries import (
    NamedKpi,
    OwnerFilter,
    find_kpis,
    find_kpis_by_id,
    is_kpi_name,
)
from mosaico.core.keyset import Key, PageQuery, PageRows, read_entities, sort_rows
from mosaico.core.list_filters import Period, ValueFilter
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
# The first columns of the indexes by time.
_INDEXES: Final = (
    (KpiHistory.benchmark_id, KpiHistory.agent_id, KpiHistory.kpi_id),
    (KpiHistory.benchmark_id, KpiHistory.kpi_id),
    (KpiHistory.kpi_id,),
    (KpiHistory.name,),
    (KpiHistory.benchmark_id, KpiHistory.agent_id),
    (KpiHistory.benchmark_id,),
    (KpiHistory.agent_id,),
)
ALL_COLUMNS: Final = select(KpiHistory)


class KpiHistoryFilter(OwnerFilter, PeriodFilter):
    """Filter of KPI values. In each of the benchmarks, a name of a KPI that is also an ID is an ID."""

    kpis: FilterValues = Field(
        default=[],
        validation_alias="kpi",
        description="ID or name of a KPI; with a benchmark, a name also selects earlier values under other names.",
    )


class _KpiSelection(NamedTuple):
    """The KPIs of a filter, or their names where they are those of any benchmark, and conditions on their
    values.
    """

    kpis: Sequence[NamedKpi] = ()
    names: Sequence[str] = ()
    conditions: Sequence[ColumnElement[bool]] = ()


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
    rows = sort_rows(
        columns,
        SORT_KEYS,
        _order_of(sort, selection.kpis),
        _filter_values(history_filter, selection),
        indexes=_INDEXES,
        period=Period(history_filter.since, history_filter.until),
        conditions=selection.conditions,
    )
    return read_entities(session, rows, query)


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
    if not benchmark_ids:
        return _select_of_any_benchmark(session, requested)
    # By their IDs, of which an index has the values for each agent.
    kpis = find_kpis(session, benchmark_ids, requested)
    if not kpis:
        return None
    if len({kpi.benchmark_id for kpi in kpis}) == 1:
        return _KpiSelection(kpis)
    # Another of the benchmarks may have a KPI with the same ID that was not selected.
    pairs = [(kpi.benchmark_id, kpi.id) for kpi in kpis]
    is_selected = tuple_(KpiHistory.benchmark_id, KpiHistory.kpi_id).in_(pairs)
    return _KpiSelection(kpis, conditions=[is_selected])


def _select_of_any_benchmark(session: Session, requested: Sequence[str]) -> _KpiSelection:
    kpis = find_kpis_by_id(session, [], requested)
    if not kpis:
        return _KpiSelection(names=requested)
    ids = {kpi.id for kpi in kpis}
    # An ID of one benchmark must not hide the KPIs of others with this name.
    if not is_kpi_name(session, requested) and ids.issuperset(requested):
        return _KpiSelection(kpis)
    # With OR no index fits, and PostgreSQL reads the values of other KPIs.
    is_selected = KpiHistory.kpi_id.in_(ids) | KpiHistory.name.in_(requested)
    return _KpiSelection(conditions=[is_selected])


def _filter_values(history_filter: KpiHistoryFilter, selection: _KpiSelection) -> list[ValueFilter]:
    benchmark_ids = history_filter.benchmark_ids
    if selection.kpis:
        # All values of a KPI are of its benchmark, with which its indexes begin.
        benchmark_ids = sorted({kpi.benchmark_id for kpi in selection.kpis})
    return [
        (KpiHistory.benchmark_id, benchmark_ids),
        (KpiHistory.agent_id, history_filter.agent_ids),
        (KpiHistory.kpi_id, sorted({kpi.id for kpi in selection.kpis})),
        (KpiHistory.name, selection.names),
    ]


def get_kpis_of_run(session: Session, run_seq: int) -> list[KpiHistory]:
    """The KPI values of one run, by name."""
    statement = select(KpiHistory).where(KpiHistory.run_seq == run_seq)
    return list(session.scalars(statement.order_by(KpiHistory.name, KpiHistory.id)))
