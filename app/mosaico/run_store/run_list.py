"""The list of runs as a page shows it: filtered, searched, counted and in any order."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import Field
from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Text,
    case,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session, load_only

from mosaico.agents.models import Agent
from mosaico.benchmarks.models import BENCHMARK_NAME, BENCHMARK_NAME_KEY, Benchmark
from mosaico.benchmarks.queries import OwnerFilter
from mosaico.core.keyset import (
    SEARCHED_ROWS,
    CursorValue,
    ListBatches,
    PageQuery,
    PageRows,
    iter_batches,
    search_page,
    select_page,
)
from mosaico.core.list_filters import (
    IndexedFilter,
    PagePlan,
    filter_any,
    filter_period,
    intersect_filters,
    match_any,
    match_text,
    plan_page,
)
from mosaico.core.row_counts import count_selected
from mosaico.core.schemas import FilterValues, PeriodFilter, ShortText
from mosaico.run_store.models import COMPLETED_KEY, TRACES_KEY, VERDICT_KEY, BenchmarkRun
from mosaico.run_store.queries import RUN_COLUMNS
from mosaico.run_store.rules import RunStatus, TriggerType, Validity
from mosaico.run_store.run_names import NameOrder, RunsByName
from mosaico.statistics.verdict_rules import Verdict

_Row = TypeVar("_Row", bound=tuple[Any, ...])
_Owner = TypeVar("_Owner", Agent, Benchmark)
_Name: TypeAlias = InstrumentedAttribute[str] | ColumnElement[str]
_RUNS: Final = BenchmarkRun.__table__.c
_AGENTS: Final = Agent.__table__.c
_BENCHMARKS: Final = Benchmark.__table__.c

# Each has an index with `seq`, so that a page is read without sorting every run. A run is never without
# its agent and benchmark. Names are sorted as a reader does, without regard to case.
SORT_KEYS: Final[Mapping[str, ColumnElement[Any] | NameOrder]] = {
    "created": _RUNS.seq,
    "completed": COMPLETED_KEY,
    "benchmark": NameOrder(BENCHMARK_NAME_KEY, _BENCHMARKS.id, _RUNS.benchmark_id),
    "agent": NameOrder(func.lower(_AGENTS.name, type_=Text), _AGENTS.id, _RUNS.agent_id),
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

# What a list shows of a run. Without its documents, which are wide: the verdict of the whole run is one word of
# them, empty without one.
LISTED_COLUMNS: Final = select(
    _RUNS.id, _RUNS.seq, _RUNS.benchmark_id, _RUNS.agent_id, _RUNS.status, _RUNS.run_name, _RUNS.traces_total,
    _RUNS.traces_collected, _RUNS.traces_processed, _RUNS.created_at, _RUNS.started_at, _RUNS.completed_at,
    VERDICT_KEY.label("outcome"),
)  # fmt: skip

MAX_COUNTED: Final = 10_000
COUNT_TIME_S = 0.5
# The IDs of more agents or benchmarks than these are not looked up before the search, nor for longer.
MAX_OWNERS: Final = 1_000
OWNER_TIME_S = 0.2
# The filters of `queries.list_runs`.
PLAIN_FILTERS: Final = frozenset({"benchmark_ids", "agent_ids", "statuses", "since", "until"})


class RunListFilter(OwnerFilter, PeriodFilter):
    """Filter of runs."""

    statuses: list[RunStatus] = Field(default=[], validation_alias="status")
    triggers: list[TriggerType] = Field(default=[], validation_alias="triggeredBy")
    schedule_ids: FilterValues = Field(default=[], validation_alias="scheduleId")
    validities: list[Validity] = Field(default=[], validation_alias="validity")
    verdicts: list[Verdict] = Field(default=[], validation_alias="verdict")
    text: ShortText | None = Field(
        default=None,
        description="Filter by a part of the ID, the run name, the benchmark, the agent or the error.",
    )

    @property
    def is_plain(self) -> bool:
        """Return whether `queries.list_runs` can serve it, which costs less: one index has its runs in the
        order of the list.
        """
        # All fields but these: a new filter must not be left out by `queries.list_runs`.
        searched = RunListFilter.model_fields.keys() - PLAIN_FILTERS
        filters = self.indexed()
        return not any(getattr(self, name) for name in searched) and (
            not filters or (len(filters) == 1 and len(filters[0].alternatives) == 1)
        )

    def indexed(self) -> list[IndexedFilter]:
        """The filters that an index serves."""
        oldest = [_RUNS.seq]
        owners = [
            *filter_any(_RUNS.benchmark_id, self.benchmark_ids, oldest),
            *filter_any(_RUNS.agent_id, self.agent_ids, oldest),
        ]
        return [
            *filter_any(_RUNS.schedule_id, self.schedule_ids, oldest),
            *((len(owners) > 1 and intersect_filters(owners, oldest)) or owners),
            *filter_any(VERDICT_KEY, self.verdicts, oldest),
            *filter_any(_RUNS.status, self.statuses, oldest),
            *filter_period(self.since, self.until, [_RUNS.created_at, _RUNS.seq]),
        ]


def list_runs_by_id(session: Session, run_ids: Sequence[str]) -> list[Mapping[str, Any]]:
    """The `LISTED_COLUMNS` of the runs with these IDs that exist, newest first."""
    if not run_ids:
        return []
    statement = LISTED_COLUMNS.where(_RUNS.id.in_(run_ids)).order_by(_RUNS.seq.desc())
    return [dict(row) for row in session.execute(statement).mappings()]


class RunCount(NamedTuple):
    """A number of runs; not exact where counting stopped before the last run."""

    number: int
    is_exact: bool


def search_runs(
    session: Session,
    run_filter: RunListFilter,
    sort: str,
    query: PageQuery,
    search_time_s: float | None = None,
    *,
    columns: Select[Any] = RUN_COLUMNS,
) -> PageRows[Mapping[str, Any]]:
    """Return one page of runs: `columns` of each, which are `RUN_COLUMNS` or `LISTED_COLUMNS`.
    `sort` is a name of `SORT_KEYS`, with "-" for the descending order.
    `search_time_s` is that of `select_page`, for orders that are not those of names.

    Raises: `BadCursor` when the cursor is of another order.
    """
    order, descending = SORT_KEYS[sort.removeprefix("-")], sort.startswith("-")
    if order is _RUNS.seq and (run_filter.since or run_filter.until):
        # The order of the index on the time, as in `queries.list_runs`.
        order = _RUNS.created_at

    def read(keys: Select[tuple[Any, int]]) -> list[Mapping[str, Any]]:
        page = keys.subquery("page")
        # Looked up one by one: a join of many rows would read the whole table instead.
        run = columns.where(page.c.run_seq == _RUNS.seq).limit(1).correlate(page).lateral("run")
        statement = select(run, page.c.sort_key).join_from(page, run, true())
        statement = _sorted(statement, page.c.sort_key, page.c.run_seq, descending=descending)
        return [dict(row) for row in session.execute(statement).mappings()]

    filters = run_filter.indexed()
    searched = _searched_conditions(session, run_filter)
    if isinstance(order, NameOrder):
        conditions = [*(tested.condition.is_(True) for tested in filters), *searched]
        runs_by_name = RunsByName(
            session, order, _named_ids(order, run_filter), conditions, descending=descending
        )
        return _search_by_name(session, runs_by_name, query, columns)
    key_columns = _key_columns(order)
    plan = plan_page(session, key_columns, filters, searched)
    runs = select(order.label("sort_key"), _RUNS.seq.label("run_seq"))
    batches = ListBatches(
        session=session, plan=plan, statement=runs, keys=key_columns, descending=descending
    )

    def read_until(last: Sequence[CursorValue] | None, part: PageQuery) -> list[Mapping[str, Any]]:
        keys = batches.select_rows(runs, part.cursor, last)
        return read(keys.limit(part.limit + 1))

    def key_values(row: Mapping[str, Any]) -> list[CursorValue]:
        # In the order of creation the plain list has the same cursor.
        return [row["seq"]] if order is _RUNS.seq else [row["sort_key"], row["seq"]]

    return batches.read_page(read_until, key_values, query, search_time_s)


def count_runs(session: Session, run_filter: RunListFilter) -> RunCount:
    """The number of runs that the filter selects, up to `MAX_COUNTED` and within `COUNT_TIME_S`."""
    filters = run_filter.indexed()
    searched = _searched_conditions(session, run_filter)
    keys = [_RUNS.seq]
    # Each row of one filter counts; of several, many may be read for few that count.
    if searched or len(filters) > 1:
        plan = plan_page(session, keys, filters, searched)
    else:
        plan = PagePlan([alone.condition for alone in filters], is_exact=True)
    runs = select(_RUNS.seq)
    if plan.is_few or plan.is_exact:
        matching = runs.where(*plan.selecting, *plan.tested)
        return _limit_count(count_selected(session, matching.limit(MAX_COUNTED + 1)), is_end=True)
    batches = ListBatches(session=session, plan=plan, statement=runs, keys=keys, descending=True)
    count = 0
    ends_at = time.monotonic() + COUNT_TIME_S
    for batch in iter_batches(batches.find_last, None, batches.sizes):
        matching = batches.select_rows(runs, batch.cursor, batch.last)
        count += count_selected(session, matching.order_by(None))
        if batch.last is not None and (count > MAX_COUNTED or time.monotonic() > ends_at):
            return _limit_count(count, is_end=False)
    return _limit_count(count, is_end=True)


def _limit_count(count: int, *, is_end: bool) -> RunCount:
    return RunCount(min(count, MAX_COUNTED), is_end and count <= MAX_COUNTED)


def _named_ids(order: NameOrder, run_filter: RunListFilter) -> Sequence[str]:
    return run_filter.agent_ids if order.run_column is _RUNS.agent_id else run_filter.benchmark_ids


def _search_by_name(
    session: Session, runs: RunsByName, query: PageQuery, columns: Select[Any]
) -> PageRows[Mapping[str, Any]]:
    batches = iter_batches(runs.find_last, query.cursor, SEARCHED_ROWS)
    page = search_page(batches, runs.read_until, lambda key: [*key], query)
    seqs = [key.seq for key in page.rows]
    rows = session.execute(columns.where(_RUNS.seq.in_(seqs))).mappings()
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
                *_match_owners(session, text),
                *match_text(text, _RUNS.id, _RUNS.run_name, _RUNS.error_message),
            )
        )
    return conditions


def _match_owners(session: Session, text: str) -> list[ColumnElement[bool]]:
    """The conditions that the ID or the name of the agent or of the benchmark of a run contains a text."""
    # Of a few, all are read by one statement: a search has several of them, each of a millisecond.
    few = select(
        _select_few_matches(Agent, Agent.name, text),
        _select_few_matches(Benchmark, BENCHMARK_NAME, text),
    )
    agent_ids, benchmark_ids = session.execute(few).one()
    return [
        _match_owner(session, Agent, _RUNS.agent_id, Agent.name, text, agent_ids),
        _match_owner(session, Benchmark, _RUNS.benchmark_id, BENCHMARK_NAME, text, benchmark_ids),
    ]


def _select_few_matches(owner: type[_Owner], name: _Name, text: str) -> ScalarSelect[Any]:
    """The IDs of the agents or benchmarks that contain a text; NULL if there are too many to look at all of them."""
    first = select(owner.id, name.label("name")).order_by(owner.id).limit(MAX_OWNERS).subquery()
    [matches] = match_text(text, first.c.id, first.c.name)
    ids = func.coalesce(
        func.array_agg(first.c.id, type_=ARRAY(Text)).filter(matches), literal([], ARRAY(Text))
    )
    return select(case((func.count() < MAX_OWNERS, ids))).select_from(first).scalar_subquery()


def _match_owner(
    session: Session,
    owner: type[_Owner],
    run_column: ColumnElement[str],
    name: _Name,
    text: str,
    few_ids: Sequence[str] | None,
) -> ColumnElement[bool]:
    """The condition that the ID or the name of the agent or benchmark of a run contains a text. `few_ids` are
    those of `_select_few_matches`.
    """
    if few_ids is not None:
        return run_column == func.any(literal(few_ids, ARRAY(Text)))
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


def _key_columns(key: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [_RUNS.seq] if key is _RUNS.seq else [key, _RUNS.seq]


def _sorted(statement: Select[_Row], *keys: ColumnElement[Any], descending: bool) -> Select[_Row]:
    return statement.order_by(*(key.desc() if descending else key.asc() for key in keys))
