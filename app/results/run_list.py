"""The list of runs as a page shows it: filtered, searched, counted and in any order."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Select, Text, func, literal, or_, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session, load_only

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
    iter_batches,
    match_any,
    match_period,
    match_text,
    match_until,
    search_page,
    select_page,
)
from app.results.models import COMPLETED_KEY, TRACES_KEY, VERDICT_KEY, BenchmarkRun
from app.results.queries import RUN_COLUMNS
from app.results.runs_by_name import NameOrder, RunsByName, list_owners

_Row = TypeVar("_Row", bound=tuple[Any, ...])
_Owner = TypeVar("_Owner", Agent, Benchmark)
_RUNS: Final = BenchmarkRun.__table__.c
_AGENTS: Final = Agent.__table__.c
_BENCHMARKS: Final = Benchmark.__table__.c

_BENCHMARK_NAME: Final = func.coalesce(
    func.nullif(func.trim(func.jsonb_extract_path_text(Benchmark.metadata_, "name")), ""),
    Benchmark.id,
)


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

MAX_COUNTED: Final = 10_000
COUNT_TIME_S = 0.5
# The IDs of more agents or benchmarks than these are not looked up before the search, nor for longer.
MAX_OWNERS: Final = 1_000
OWNER_TIME_S = 0.2


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


class RunCount(NamedTuple):
    """A number of runs; not exact where counting stopped before the last run."""

    number: int
    is_exact: bool


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

    indexed = run_filter.indexed_conditions()
    searched = _searched_conditions(session, run_filter)
    if isinstance(order, NameOrder):
        conditions = [*indexed, *searched]
        return _search_by_name(session, order, run_filter, conditions, query, descending=descending)

    def key_values(row: Mapping[str, Any]) -> list[CursorValue]:
        return _cursor_key(order, row["sort_key"], row["seq"])

    if not searched:
        keys = _keys_by_column(order, indexed, query, descending=descending)
        return cut_page(read(keys), query, key_values)

    def find_last(cursor: str | None, row_count: int) -> list[CursorValue] | None:
        return _last_key(session, order, indexed, cursor, row_count, descending=descending)

    def read_until(last: Sequence[CursorValue] | None, part: PageQuery) -> list[Mapping[str, Any]]:
        columns = [_RUNS.seq] if order is _RUNS.seq else [order, _RUNS.seq]
        conditions = [*indexed, *searched, *match_until(columns, last, descending=descending)]
        return read(_keys_by_column(order, conditions, part, descending=descending))

    batches = iter_batches(find_last, query.cursor, SEARCHED_ROWS)
    return search_page(batches, read_until, key_values, query)


def count_runs(session: Session, run_filter: RunListFilter) -> RunCount:
    """The number of runs that the filter selects, up to `MAX_COUNTED` and within `COUNT_TIME_S`."""
    indexed = run_filter.indexed_conditions()
    searched = _searched_conditions(session, run_filter)
    if not searched:
        counted = select(_RUNS.seq).where(*indexed).limit(MAX_COUNTED + 1).subquery()
        count = session.scalar(select(func.count()).select_from(counted)) or 0
        return RunCount(min(count, MAX_COUNTED), count <= MAX_COUNTED)

    def find_last(cursor: str | None, row_count: int) -> list[CursorValue] | None:
        return _last_key(session, _RUNS.seq, indexed, cursor, row_count, descending=True)

    count = 0
    ends_at = time.monotonic() + COUNT_TIME_S
    for batch in iter_batches(find_last, None, SEARCHED_ROWS):
        span = (
            *_after_cursor(_RUNS.seq, batch.cursor, descending=True),
            *match_until([_RUNS.seq], batch.last, descending=True),
        )
        matching = select(func.count()).where(*indexed, *searched, *span)
        count += session.scalar(matching) or 0
        is_end = count > MAX_COUNTED or time.monotonic() > ends_at
        if batch.last is not None and is_end:
            return RunCount(min(count, MAX_COUNTED), is_exact=False)
    return RunCount(min(count, MAX_COUNTED), count <= MAX_COUNTED)


def _search_by_name(
    session: Session,
    order: NameOrder,
    run_filter: RunListFilter,
    conditions: Sequence[ColumnElement[bool]],
    query: PageQuery,
    *,
    descending: bool,
) -> PageRows[Mapping[str, Any]]:
    ids = run_filter.agent_ids if order.run_column is _RUNS.agent_id else run_filter.benchmark_ids
    owners = list_owners(session, order, ids)
    runs = RunsByName(session, order, owners, conditions, query.cursor, descending=descending)
    batches = iter_batches(runs.find_last, query.cursor, SEARCHED_ROWS)
    page = search_page(batches, runs.read_until, lambda key: [*key], query)
    seqs = [key.seq for key in page.rows]
    rows = session.execute(RUN_COLUMNS.where(_RUNS.seq.in_(seqs))).mappings()
    row_of = {row["seq"]: dict(row) for row in rows}
    return PageRows([row_of[seq] for seq in seqs], page.next_cursor)


def _searched_conditions(session: Session, run_filter: RunListFilter) -> list[ColumnElement[bool]]:
    """The conditions that no index serves: without them a page reads few rows, see `search_page`."""
    conditions = match_any(
        (_RUNS.triggered_by, run_filter.triggers), (_RUNS.validity, run_filter.validities)
    )
    if text := run_filter.text:
        conditions.append(
            or_(
                _match_owner(session, Agent, _RUNS.agent_id, Agent.name, text),
                _match_owner(session, Benchmark, _RUNS.benchmark_id, _BENCHMARK_NAME, text),
                *match_text(text, _RUNS.id, _RUNS.run_name, _RUNS.error_message),
            )
        )
    return conditions


def _match_owner(
    session: Session,
    owner: type[_Owner],
    run_column: ColumnElement[str],
    name: InstrumentedAttribute[str] | ColumnElement[str],
    text: str,
) -> ColumnElement[bool]:
    """The condition that the ID or the name of the agent or benchmark of a run contains a text."""
    [matches] = match_text(text, owner.id, name)
    page = select_page(
        session,
        select(owner).options(load_only(owner.id)),
        keys=[owner.id],
        query=PageQuery(MAX_OWNERS),
        searched=[matches],
        search_time_s=OWNER_TIME_S,
    )
    if page.next_cursor is None:
        # Once per search instead of once per run: few agents have many runs.
        return run_column == func.any(literal([row.id for row in page.rows], ARRAY(Text)))
    # Of many agents a batch of runs needs those of its own runs.
    return select(matches).where(owner.id == run_column).scalar_subquery()


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


def _last_key(
    session: Session,
    key: ColumnElement[Any],
    conditions: Sequence[ColumnElement[bool]],
    cursor: str | None,
    row_count: int,
    *,
    descending: bool,
) -> list[CursorValue] | None:
    """The key of the n-th run after the cursor; None if fewer runs follow."""
    keys = _keys_by_column(key, conditions, PageQuery(0, cursor), descending=descending)
    last = session.execute(keys.offset(row_count - 1)).one_or_none()
    return None if last is None else _cursor_key(key, *last)


def _cursor_key(key: ColumnElement[Any], sort_key: Any, seq: int) -> list[CursorValue]:
    # In the order of creation the plain list has the same cursor.
    return [seq] if key is _RUNS.seq else [sort_key, seq]


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


def _cursor_values(cursor: str, keys: Sequence[ColumnElement[Any]]) -> list[CursorValue]:
    values = decode_cursor(cursor)
    types = [key.type.python_type for key in keys]
    fits = len(values) == len(types) and all(map(isinstance, values, types))
    if not fits:
        raise BadCursor
    return values
