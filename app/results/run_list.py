"""The list of runs as a page shows it: filtered, searched, counted and in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, func, literal, or_, select, tuple_
from sqlalchemy.orm import Session

from app.agents.models import Agent
from app.benchmarks.models import Benchmark
from app.core.keyset import (
    BadCursor,
    CursorValue,
    PageQuery,
    PageRows,
    decode_cursor,
    encode_cursor,
    match_any,
    match_period,
    match_text,
)
from app.results.models import COMPLETED_KEY, TRACES_KEY, VERDICT_KEY, BenchmarkRun
from app.results.queries import RUN_COLUMNS

_RUNS: Final = BenchmarkRun.__table__.c

_BENCHMARK_NAME: Final = func.coalesce(
    func.nullif(func.trim(func.jsonb_extract_path_text(Benchmark.metadata_, "name")), ""),
    Benchmark.id,
)
# Names are sorted as a reader does, without regard to case. A run is never without its agent and benchmark.
_AGENT_ORDER: Final = (
    select(func.lower(Agent.name)).where(Agent.id == _RUNS.agent_id).scalar_subquery()
)
_BENCHMARK_ORDER: Final = (
    select(func.lower(_BENCHMARK_NAME)).where(Benchmark.id == _RUNS.benchmark_id).scalar_subquery()
)
# Each but the names has an index with `seq`, so that a page is read without sorting every run.
SORT_KEYS: Final[Mapping[str, ColumnElement[Any]]] = {
    "created": _RUNS.seq,
    "completed": COMPLETED_KEY,
    "benchmark": _BENCHMARK_ORDER,
    "agent": _AGENT_ORDER,
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
    """Which runs to list: those with any value of each list; an empty list does not filter.

    `text` is a part of an ID, an error, or the name of a run, its agent or its benchmark; `since` and `until` limit the time of creation.
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
        """Whether `queries.list_runs` can serve it, which costs less."""
        has_more = (
            self.triggers or self.schedule_ids or self.validities or self.verdicts or self.text
        )
        return not has_more and len(self.benchmark_ids) <= 1 and len(self.agent_ids) <= 1

    def conditions(self) -> list[ColumnElement[bool]]:
        """The conditions of the given filters."""
        conditions = match_any(
            (_RUNS.benchmark_id, self.benchmark_ids),
            (_RUNS.agent_id, self.agent_ids),
            (_RUNS.status, self.statuses),
            (_RUNS.triggered_by, self.triggers),
            (_RUNS.schedule_id, self.schedule_ids),
            (_RUNS.validity, self.validities),
            (VERDICT_KEY, self.verdicts),
        )
        conditions += match_period(_RUNS.created_at, self.since, self.until)
        if self.text:
            searched = (
                BenchmarkRun.id,
                BenchmarkRun.run_name,
                BenchmarkRun.benchmark_id,
                BenchmarkRun.agent_id,
                BenchmarkRun.error_message,
            )
            agents = select(Agent.id).where(*match_text(self.text, Agent.name))
            benchmarks = select(Benchmark.id).where(*match_text(self.text, _BENCHMARK_NAME))
            conditions.append(
                or_(
                    *match_text(self.text, *searched),
                    BenchmarkRun.agent_id.in_(agents),
                    BenchmarkRun.benchmark_id.in_(benchmarks),
                )
            )
        return conditions


def search_runs(
    session: Session, run_filter: RunListFilter, sort: str, query: PageQuery
) -> PageRows[Mapping[str, Any]]:
    """One page of runs. `sort` is a name of `SORT_KEYS`, with "-" for the descending order.

    Raises: `BadCursor` when the cursor is of another order.
    """
    key, descending = SORT_KEYS[sort.removeprefix("-")], sort.startswith("-")
    # The order of creation is that of `seq` alone, with the cursors of `queries.list_runs`.
    keys = (_RUNS.seq,) if key is _RUNS.seq else (key, _RUNS.seq)
    statement = RUN_COLUMNS.add_columns(key.label("sort_key")).where(*run_filter.conditions())
    if query.cursor is not None:
        values = _cursor_values(query.cursor, keys)
        after = tuple_(
            *(literal(value, column.type) for value, column in zip(values, keys, strict=True))
        )
        statement = statement.where(tuple_(*keys) < after if descending else tuple_(*keys) > after)
    order = [column.desc() if descending else column.asc() for column in keys]
    page_query = statement.order_by(*order).limit(query.limit + 1)
    rows: list[Mapping[str, Any]] = [dict(row) for row in session.execute(page_query).mappings()]
    page = rows[: query.limit]
    last = page[-1] if len(rows) > query.limit else None
    cursor = None
    if last is not None:
        cursor = encode_cursor([last["sort_key"], last["seq"]][-len(keys) :])
    return PageRows(page, cursor)


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
