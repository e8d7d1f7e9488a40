"""The list of runs as a page shows it: filtered, searched, counted and in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import CTE, ColumnElement, Select, func, literal, or_, select, true, tuple_
from sqlalchemy.orm import Session

from app.agents.models import Agent
from app.benchmarks.models import Benchmark
from app.core.keyset import (
    SEARCHED_ROWS,
    BadCursor,
    CursorValue,
    PageQuery,
    PageRows,
    cut_page,
    decode_cursor,
    match_any,
    match_period,
    match_text,
    match_until,
    search_page,
)
from app.results.models import COMPLETED_KEY, TRACES_KEY, VERDICT_KEY, BenchmarkRun
from app.results.queries import RUN_COLUMNS

_Row = TypeVar("_Row", bound=tuple[Any, ...])
_RUNS: Final = BenchmarkRun.__table__.c
_AGENTS: Final = Agent.__table__.c
_BENCHMARKS: Final = Benchmark.__table__.c

_BENCHMARK_NAME: Final = func.coalesce(
    func.nullif(func.trim(func.jsonb_extract_path_text(Benchmark.metadata_, "name")), ""),
    Benchmark.id,
)


class NameOrder(NamedTuple):
    """The order of runs by the name of their agent or benchmark: `run_column` refers to `owner_id`."""

    name: ColumnElement[str]
    owner_id: ColumnElement[str]
    run_column: ColumnElement[str]


# Each has an index with `seq`, so that a page is read without sorting every run. A run is never without
# its agent and benchmark. Names are sorted as a reader does, without regard to case.
SORT_KEYS: Final[Mapping[str, ColumnElement[Any] | NameOrder]] = {
    "created": _RUNS.seq,
    "completed": COMPLETED_KEY,
    "benchmark": NameOrder(func.lower(_BENCHMARK_NAME), _BENCHMARKS.id, _RUNS.benchmark_id),
    "agent": NameOrder(func.lower(_AGENTS.name), _AGENTS.id, _RUNS.agent_id),
    "status": _RUNS.status,
    "verdict": VERDICT_KEY,
    "traces": TRACES_KEY,
}
SortOrder: TypeAlias = Literal[
    "created", "completed", "benchmark", "agent", "status", "verdict", "traces",
    "-created", "-completed", "-benchmark", "-agent", "-status", "-verdict", "-traces",
]  # fmt: skip
"""A name of `SORT_KEYS`; with "-" for the descending order."""
DEFAULT_SORT: Final = "-created"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListFilter:
    """Filter of runs: a field matches any value of its list; an empty list matches all.

    `text` is a part of an ID, an error, or the name of a run, its agent or its benchmark; `since`
    and `until` limit the time of creation.
    """

    benchmark_ids: Sequence[str] = ()
    agent_ids: Sequence[str] = ()
    statuses: Sequence[str] = ()
    triggers: Sequence[str] = ()
    schedule_ids: Sequence[str] = ()
    validities: Sequence[str] = ()
    verdicts: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether `queries.list_runs` can serve it, which costs less."""
        has_more = (
            self.triggers or self.schedule_ids or self.validities or self.verdicts or self.text
        )
        return not has_more and len(self.benchmark_ids) <= 1 and len(self.agent_ids) <= 1

    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions of the given filters."""
        return [*self.indexed_conditions(), *self.searched_conditions()]

    def indexed_conditions(self) -> list[ColumnElement[bool]]:
        """The conditions that an index serves."""
        conditions = match_any(
            (_RUNS.benchmark_id, self.benchmark_ids),
            (_RUNS.agent_id, self.agent_ids),
            (_RUNS.status, self.statuses),
            (_RUNS.schedule_id, self.schedule_ids),
            (VERDICT_KEY, self.verdicts),
        )
        return [*conditions, *match_period(_RUNS.created_at, self.since, self.until)]

    def searched_conditions(self) -> list[ColumnElement[bool]]:
        """The other conditions: without them a page reads few rows, see `search_page`."""
        conditions = match_any(
            (_RUNS.triggered_by, self.triggers), (_RUNS.validity, self.validities)
        )
        if self.text:
            # The few agents and benchmarks are searched instead of their IDs in each of many runs.
            agents = match_text(self.text, _AGENTS.id, _AGENTS.name)
            benchmarks = match_text(self.text, _BENCHMARKS.id, _BENCHMARK_NAME)
            conditions.append(
                or_(
                    _RUNS.agent_id.in_(select(_AGENTS.id).where(*agents)),
                    _RUNS.benchmark_id.in_(select(_BENCHMARKS.id).where(*benchmarks)),
                    *match_text(self.text, _RUNS.id, _RUNS.run_name, _RUNS.error_message),
                )
            )
        return conditions


def search_runs(
    session: Session, run_filter: RunListFilter, sort: str, query: PageQuery
) -> PageRows[Mapping[str, Any]]:
    """Return one page of runs. `sort` is a name of `SORT_KEYS`, with "-" for the descending order.

    Raises: `BadCursor` when the cursor is of another order.
    """
    order, descending = SORT_KEYS[sort.removeprefix("-")], sort.startswith("-")

    def read(keys: Select[tuple[Any, int]]) -> list[Mapping[str, Any]]:
        page = keys.subquery()
        statement = RUN_COLUMNS.add_columns(page.c.sort_key).join(page, page.c.run_seq == _RUNS.seq)
        statement = _sorted(statement, page.c.sort_key, page.c.run_seq, descending=descending)
        return [dict(row) for row in session.execute(statement).mappings()]

    def key_values(row: Mapping[str, Any]) -> list[CursorValue]:
        # In the order of creation the plain list has the same cursor.
        return [row["seq"]] if order is _RUNS.seq else [row["sort_key"], row["seq"]]

    if isinstance(order, NameOrder):
        keys = _keys_by_name(order, run_filter, query, descending=descending)
        return cut_page(read(keys), query, key_values)
    indexed, searched = run_filter.indexed_conditions(), run_filter.searched_conditions()
    if not searched:
        keys = _keys_by_column(order, indexed, query, descending=descending)
        return cut_page(read(keys), query, key_values)

    def find_last(cursor: str | None) -> list[CursorValue] | None:
        window = _keys_by_column(order, indexed, PageQuery(0, cursor), descending=descending)
        last = session.execute(window.offset(SEARCHED_ROWS - 1)).one_or_none()
        return None if last is None else key_values({"sort_key": last[0], "seq": last[1]})

    def read_until(last: Sequence[CursorValue] | None, part: PageQuery) -> list[Mapping[str, Any]]:
        columns = [_RUNS.seq] if order is _RUNS.seq else [order, _RUNS.seq]
        conditions = [*indexed, *searched, *match_until(columns, last, descending=descending)]
        return read(_keys_by_column(order, conditions, part, descending=descending))

    return search_page(find_last, read_until, key_values, query)


def _keys_by_column(
    key: ColumnElement[Any],
    conditions: Sequence[ColumnElement[bool]],
    query: PageQuery,
    *,
    descending: bool,
) -> Select[tuple[Any, int]]:
    """The `sort_key` and the `run_seq` of the runs of a page."""
    statement = select(key.label("sort_key"), _RUNS.seq.label("run_seq"))
    after = _after_cursor(key, query.cursor, descending=descending)
    statement = statement.where(*conditions, *after)
    return _sorted(statement, key, _RUNS.seq, descending=descending).limit(query.limit + 1)


def _keys_by_name(
    order: NameOrder, run_filter: RunListFilter, query: PageQuery, *, descending: bool
) -> Select[tuple[Any, int]]:
    """The same by name: the first runs of each agent or benchmark, and of those the first ones.

    Each of these short lists comes from an index. To sort the runs themselves would read all of them.
    """
    after = _after_cursor(order.name, query.cursor, descending=descending)
    runs = select(_RUNS.seq).where(
        order.run_column == order.owner_id, *run_filter.conditions(), *after
    )
    runs_of_owner = (
        _sorted(runs, _RUNS.seq, descending=descending)
        .limit(query.limit + 1)
        .correlate(order.owner_id.table)
        .lateral()
    )
    owners = _owners_with_runs(order.run_column)
    statement = (
        select(order.name.label("sort_key"), runs_of_owner.c.seq.label("run_seq"))
        .join(owners, owners.c.id == order.owner_id)
        .join(runs_of_owner, true())
    )
    keys = (order.name, runs_of_owner.c.seq)
    return _sorted(statement, *keys, descending=descending).limit(query.limit + 1)


def _owners_with_runs(run_column: ColumnElement[str]) -> CTE:
    """The values of an indexed column of the runs, each once: many owners may have no run.

    Cost:   a probe of the index per value, where DISTINCT reads every run.
    """
    owners = select(func.min(run_column).label("id")).cte("owners", recursive=True)
    next_id = select(func.min(run_column)).where(run_column > owners.c.id).scalar_subquery()
    return owners.union_all(select(next_id).where(owners.c.id.is_not(None)))


def _sorted(statement: Select[_Row], *keys: ColumnElement[Any], descending: bool) -> Select[_Row]:
    return statement.order_by(*(key.desc() if descending else key.asc() for key in keys))


def _after_cursor(
    key: ColumnElement[Any], cursor: str | None, *, descending: bool
) -> list[ColumnElement[bool]]:
    """The condition for the rows after a cursor; none without a cursor."""
    if cursor is None:
        return []
    columns = [_RUNS.seq] if key is _RUNS.seq else [key, _RUNS.seq]
    values = zip(_cursor_values(cursor, columns), columns, strict=True)
    last = tuple_(*(literal(value, column.type) for value, column in values))
    return [tuple_(*columns) < last if descending else tuple_(*columns) > last]


def count_runs(session: Session, run_filter: RunListFilter) -> int:
    """The number of runs that the filter selects."""
    statement = select(func.count()).select_from(BenchmarkRun).where(*run_filter.conditions())
    return session.scalar(statement) or 0


def _cursor_values(cursor: str, keys: Sequence[ColumnElement[Any]]) -> list[CursorValue]:
    values = decode_cursor(cursor)
    types = [key.type.python_type for key in keys]
    fits = len(values) == len(types) and all(map(isinstance, values, types))
    if not fits:
        raise BadCursor
    return values
