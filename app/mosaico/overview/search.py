"""Search of what has a name: agents, benchmarks, KPIs, alert rules, schedules and runs; and of notes and annotations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Text, func, select
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.alerts.models import AlertRule
from mosaico.annotations.queries import list_annotations
from mosaico.annotations.schemas import AnnotationFilter
from mosaico.benchmarks.models import BENCHMARK_NAME, BENCHMARK_NAME_KEY, Benchmark, KpiDefinition
from mosaico.benchmarks.owner_names import read_names
from mosaico.core import keyset
from mosaico.core.errors import ErrorItem, Invalid
from mosaico.core.keyset import ListRows, PageQuery, PageRows
from mosaico.core.list_filters import match_text
from mosaico.core.text import find_line_flaw
from mosaico.notes.queries import list_notes
from mosaico.notes.schemas import NoteFilter
from mosaico.overview.schemas import SearchGroup, SearchKind, SearchMatch, SearchResult
from mosaico.run_store.run_list import DEFAULT_SORT, LISTED_COLUMNS, RunListFilter, search_runs
from mosaico.schedules.models import ScheduleConfig

MAX_MATCHES: Final = 10


class _NamedTable(NamedTuple):
    """Rows with a name: an index has those that are `listed` in the order of `sort_keys`.

    `benchmark_id` is the column of their benchmark, if they have one. KPIs are `inside_benchmark`: their IDs
    are unique inside their benchmark only, and those of archived benchmarks are left out.
    """

    id: ColumnElement[str]
    name: ColumnElement[str]
    sort_key: ColumnElement[str]
    listed: Sequence[ColumnElement[bool]] = ()
    benchmark_id: ColumnElement[str] | None = None
    inside_benchmark: bool = False

    @property
    def sort_keys(self) -> list[ColumnElement[str]]:
        """The keys of the order, which differ from row to row."""
        keys = [self.sort_key, self.id]
        if self.inside_benchmark and self.benchmark_id is not None:
            keys.append(self.benchmark_id)
        return keys


_AGENTS: Final = Agent.__table__.c
_BENCHMARKS: Final = Benchmark.__table__.c
_KPIS: Final = KpiDefinition.__table__.c
_RULES: Final = AlertRule.__table__.c
_SCHEDULES: Final = ScheduleConfig.__table__.c
_TABLES: Final[Mapping[SearchKind, _NamedTable]] = {
    SearchKind.AGENT: _NamedTable(
        _AGENTS.id, _AGENTS.name, func.lower(_AGENTS.name, type_=Text), [~_AGENTS.archived]
    ),
    SearchKind.BENCHMARK: _NamedTable(
        _BENCHMARKS.id, BENCHMARK_NAME, BENCHMARK_NAME_KEY, [~_BENCHMARKS.archived]
    ),
    SearchKind.KPI: _NamedTable(
        _KPIS.id, _KPIS.name, func.lower(_KPIS.name, type_=Text), [_KPIS.retired_at.is_(None)], _KPIS.benchmark_id,
        inside_benchmark=True,
    ),
    SearchKind.ALERT_RULE: _NamedTable(
        _RULES.id, _RULES.name, func.lower(_RULES.name, type_=Text), (), _RULES.benchmark_id
    ),
    SearchKind.SCHEDULE: _NamedTable(
        _SCHEDULES.id, _SCHEDULES.name, func.lower(_SCHEDULES.name, type_=Text), (), _SCHEDULES.benchmark_id
    ),
}  # fmt: skip


def search_names(
    session: Session, text: str, kind: SearchKind | None = None, cursor: str | None = None
) -> SearchResult:
    """What contains the text in its name or its ID, at most `MAX_MATCHES` of each kind: the newest
    runs, notes and annotations, all others by name. Archived agents and benchmarks are left out, with the KPIs of these.

    All kinds share the time of a search. A kind that was not read to its end has a cursor, also without a
    match; the others without a match are left out. `kind` and `cursor` continue the search of one kind.
    Raises: `Invalid` for a cursor without its kind, `BadCursor` for one that is not of a search.
    """
    if cursor is not None and kind is None:
        detail = "is of one kind; send its `kind` too"
        raise Invalid(
            "a cursor continues the search of one kind; send its kind too",
            errors=[ErrorItem(pointer="cursor", detail=detail)],
        )
    text = text.strip()
    # No name contains a line break or another control character.
    if not text or find_line_flaw(text) is not None:
        return SearchResult(groups=[])
    groups = list(_search_kinds(session, text, [kind] if kind else list(SearchKind), cursor))
    owners = {match.benchmark_id for group in groups for match in group.matches}
    names = read_names(session, [(id_, "") for id_ in owners if id_]).benchmarks
    return SearchResult(
        groups=[
            _name_benchmarks(group, names) for group in groups if group.matches or group.next_cursor
        ]
    )


def _search_kinds(
    session: Session, text: str, kinds: Sequence[SearchKind], cursor: str | None
) -> Iterator[SearchGroup]:
    """Search each kind in an equal share of the time of a search."""
    query = PageQuery(MAX_MATCHES, cursor)
    search_time_s = keyset.SEARCH_TIME_S / len(kinds)
    for kind in kinds:
        if kind is SearchKind.RUN:
            matches = _search_runs(session, text, query, search_time_s)
        elif kind is SearchKind.NOTE:
            matches = _search_notes(session, text, query, search_time_s)
        elif kind is SearchKind.ANNOTATION:
            matches = _search_annotations(session, text, query, search_time_s)
        else:
            matches = _search_table(session, text, _TABLES[kind], query, search_time_s)
        yield SearchGroup(kind=kind, matches=matches.rows, next_cursor=matches.next_cursor)


def _name_benchmarks(group: SearchGroup, names: Mapping[str, str]) -> SearchGroup:
    matches = [
        match.model_copy(update={"benchmark_name": names.get(match.benchmark_id or "")})
        for match in group.matches
    ]
    return group.model_copy(update={"matches": matches})


def _search_table(
    session: Session, text: str, table: _NamedTable, query: PageQuery, search_time_s: float
) -> PageRows[SearchMatch]:
    """The rows whose ID or name contains the text, in the order of their names."""
    columns: dict[str, ColumnElement[Any]] = {"id": table.id, "name": table.name}
    if table.benchmark_id is not None:
        columns["benchmark_id"] = table.benchmark_id
    conditions = match_text(text, table.id, table.name)
    if table.inside_benchmark:
        archived = select(_BENCHMARKS.id).where(_BENCHMARKS.archived)
        conditions.append(columns["benchmark_id"].not_in(archived))
    rows = ListRows(
        statement=select(*(column.label(name) for name, column in columns.items())).where(
            *table.listed
        ),
        keys=table.sort_keys,
        descending=False,
        conditions=conditions,
    )
    page = rows.read_page(session, query, search_time_s)
    return page.with_rows(
        [
            SearchMatch(id=row.id, name=row.name, benchmark_id=getattr(row, "benchmark_id", None))
            for row in page.rows
        ]
    )


def _search_runs(
    session: Session, text: str, query: PageQuery, search_time_s: float
) -> PageRows[SearchMatch]:
    page = search_runs(
        session,
        RunListFilter(text=text),
        DEFAULT_SORT,
        query,
        search_time_s,
        columns=LISTED_COLUMNS,
    )
    owners = [(row["benchmark_id"], row["agent_id"]) for row in page.rows]
    agents = read_names(session, owners).agents
    matches = [
        SearchMatch(
            id=row["id"],
            name=agents.get(row["agent_id"], row["agent_id"]),
            benchmark_id=row["benchmark_id"],
            created_at=row["created_at"],
            status=row["status"],
        )
        for row in page.rows
    ]
    return page.with_rows(matches)


def _search_notes(
    session: Session, text: str, query: PageQuery, search_time_s: float
) -> PageRows[SearchMatch]:
    page = list_notes(session, query, NoteFilter(text=text), search_time_s)
    matches = [
        SearchMatch(
            id=note.id,
            name=note.text,
            benchmark_id=note.benchmark_id,
            created_at=note.created_at,
            run_id=note.run_id,
            item_id=note.item_id,
            incident_id=note.incident_id,
        )
        for note in page.rows
    ]
    return page.with_rows(matches)


def _search_annotations(
    session: Session, text: str, query: PageQuery, search_time_s: float
) -> PageRows[SearchMatch]:
    page = list_annotations(session, query, AnnotationFilter(text=text), search_time_s)
    matches = [
        SearchMatch(
            id=row.id,
            name=" · ".join(filter(None, (row.note, row.corrected_answer))),
            benchmark_id=row.benchmark_id,
            created_at=row.created_at,
            run_id=row.run_id,
            item_id=row.item_id,
        )
        for row in page.rows
    ]
    return page.with_rows(matches)
