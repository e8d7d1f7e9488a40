"""The list of runs as a page shows it: filtered, searched, counted and in any order."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field
from sqlalchemy import ColumnElement, Select, Text, func, or_, select
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.benchmarks.models import BENCHMARK_NAME, BENCHMARK_NAME_KEY, Benchmark
from mosaico.benchmarks.queries import OwnerFilter
from mosaico.core.keyset import Key, ListRows, PageQuery, PageRows, sort_rows
from mosaico.core.list_filters import NO_PERIOD, Period, ValueFilter, match_text, one_value
from mosaico.core.row_counts import MAX_COUNTED
from mosaico.core.schemas import FilterValues, PeriodFilter, ShortText
from mosaico.run_store.models import COMPLETED_KEY, TRACES_KEY, VERDICT_KEY, BenchmarkRun
from mosaico.run_store.queries import RUN_COLUMNS
from mosaico.run_store.rules import RunStatus, TriggerType, Validity
from mosaico.statistics.verdict_rules import Verdict

_RUNS: Final = BenchmarkRun.__table__.c
_AGENTS: Final = Agent.__table__.c
_BENCHMARKS: Final = Benchmark.__table__.c

# Each has an index, so that a page is read without sorting every run. Names are sorted as a reader does, without
# regard to case: the index of an owner has its runs.
SORT_KEYS: Final[Mapping[str, Sequence[Key]]] = {
    "created": (_RUNS.seq,),
    "completed": (COMPLETED_KEY, _RUNS.seq),
    "benchmark": (BENCHMARK_NAME_KEY, _BENCHMARKS.id, _RUNS.seq),
    "agent": (func.lower(_AGENTS.name, type_=Text), _AGENTS.id, _RUNS.seq),
    "status": (_RUNS.status, _RUNS.seq),
    "verdict": (VERDICT_KEY, _RUNS.seq),
    "traces": (TRACES_KEY, _RUNS.seq),
}
SortOrder: TypeAlias = Literal[
    "created", "completed", "benchmark", "agent", "status", "verdict", "traces",
    "-created", "-completed", "-benchmark", "-agent", "-status", "-verdict", "-traces",
]  # fmt: skip
"""A name of `SORT_KEYS`; with "-" for the descending order."""
DEFAULT_SORT: Final = "-created"
# The first columns of the indexes that end with `seq`.
_INDEXES: Final = (
    (_RUNS.schedule_id,),
    (_RUNS.benchmark_id, _RUNS.agent_id),
    (_RUNS.benchmark_id,),
    (_RUNS.agent_id,),
    (VERDICT_KEY,),
    (_RUNS.status,),
)
# The order of a list with a period: the index on the time finds its end at once.
_BY_TIME: Final = (_RUNS.created_at, _RUNS.seq)

# What a list shows of a run. Without its documents, which are wide: the verdict of the whole run is one word of
# them, empty without one.
LISTED_COLUMNS: Final = select(
    _RUNS.id, _RUNS.seq, _RUNS.benchmark_id, _RUNS.agent_id, _RUNS.status, _RUNS.run_name, _RUNS.traces_total,
    _RUNS.traces_collected, _RUNS.traces_processed, _RUNS.created_at, _RUNS.started_at, _RUNS.completed_at,
    _RUNS.dataset_name, _RUNS.dataset_version, VERDICT_KEY.label("outcome"),
)  # fmt: skip

COUNT_TIME_S = 0.5
MAX_VERSION: Final = 2**31 - 1


class RunListFilter(OwnerFilter, PeriodFilter):
    """Filter of runs."""

    statuses: list[RunStatus] = Field(default=[], validation_alias="status")
    triggers: list[TriggerType] = Field(default=[], validation_alias="triggeredBy")
    schedule_ids: FilterValues = Field(default=[], validation_alias="scheduleId")
    validities: list[Validity] = Field(default=[], validation_alias="validity")
    verdicts: list[Verdict] = Field(default=[], validation_alias="verdict")
    dataset_name: ShortText | None = Field(
        default=None,
        validation_alias="datasetName",
        description="Filter by the dataset whose version the run tests, where its items live here.",
    )
    dataset_version: int | None = Field(
        default=None,
        ge=0,
        le=MAX_VERSION,
        validation_alias="datasetVersion",
        description="Filter by the version of the dataset that the run tests.",
    )
    text: ShortText | None = Field(
        default=None,
        description="Filter by a part of the ID, the run name, the benchmark, the agent or the error.",
    )

    def values(self) -> list[ValueFilter]:
        """The filters by value."""
        return [
            (_RUNS.schedule_id, self.schedule_ids),
            (_RUNS.benchmark_id, self.benchmark_ids),
            (_RUNS.agent_id, self.agent_ids),
            (VERDICT_KEY, self.verdicts),
            (_RUNS.status, self.statuses),
            (_RUNS.triggered_by, self.triggers),
            (_RUNS.validity, self.validities),
            (_RUNS.dataset_name, one_value(self.dataset_name)),
            (_RUNS.dataset_version, [] if self.dataset_version is None else [self.dataset_version]),
        ]

    def conditions(self) -> list[ColumnElement[bool]]:
        """The other filters."""
        if self.text is None:
            return []
        texts = match_text(self.text, _RUNS.id, _RUNS.run_name, _RUNS.error_message)
        agents = select(_AGENTS.id).where(*match_text(self.text, _AGENTS.id, _AGENTS.name))
        benchmarks = select(_BENCHMARKS.id).where(
            *match_text(self.text, _BENCHMARKS.id, BENCHMARK_NAME)
        )
        return [or_(*texts, _RUNS.agent_id.in_(agents), _RUNS.benchmark_id.in_(benchmarks))]


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
    `search_time_s` is that of `ListRows.read_page`.

    Raises: `BadCursor` when the cursor is of another order.
    """
    page = _sort_runs(columns, run_filter, sort).read_page(session, query, search_time_s)
    return page.with_rows([row._asdict() for row in page.rows])


def count_runs(session: Session, run_filter: RunListFilter) -> RunCount:
    """The number of runs that the filter selects, up to `MAX_COUNTED` and within `COUNT_TIME_S`."""
    runs = _sort_runs(select(_RUNS.seq), run_filter, DEFAULT_SORT)
    page = runs.search(session, PageQuery(MAX_COUNTED), COUNT_TIME_S)
    return RunCount(len(page.rows), is_exact=page.next_cursor is None)


def _sort_runs(columns: Select[Any], run_filter: RunListFilter, sort: str) -> ListRows:
    name = sort.removeprefix("-")
    owner_ids = {"agent": run_filter.agent_ids, "benchmark": run_filter.benchmark_ids}
    if len(owner_ids.get(name, ())) == 1:
        # All runs have the same owner: its index has their order.
        sort = sort.replace(name, "created")
    elif name == "agent":
        columns = columns.join(Agent, _RUNS.agent_id == _AGENTS.id)
    elif name == "benchmark":
        columns = columns.join(Benchmark, _RUNS.benchmark_id == _BENCHMARKS.id)
    period = Period(run_filter.since, run_filter.until)
    has_period = period != NO_PERIOD
    return sort_rows(
        columns,
        {**SORT_KEYS, "created": _BY_TIME} if has_period else SORT_KEYS,
        sort,
        run_filter.values(),
        indexes=() if has_period else _INDEXES,
        period=period,
        conditions=run_filter.conditions(),
    )
