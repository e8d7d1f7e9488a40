"""Runs by the names of their agents and benchmarks: the names, and runs in their order, in batches of a bounded size."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Text,
    column,
    func,
    literal,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from mosaico.agents.models import Agent
from mosaico.benchmarks.models import Benchmark, name_of_benchmark
from mosaico.core.keyset import BadCursor, CursorValue, PageQuery, decode_cursor
from mosaico.core.strict_json import MAX_INTEGER
from mosaico.run_store.models import BenchmarkRun

_RUNS: Final = BenchmarkRun.__table__.c
# A statement reads the runs of so many agents or benchmarks, and a batch of each of them at most. It looks at so many
# others that have no run.
_OWNERS_PER_BATCH: Final = 20
_OWNERS_PER_STATEMENT: Final = 1_000


class NameOrder(NamedTuple):
    """The order of runs by the name of their agent or benchmark: `run_column` refers to `owner_id`."""

    name: ColumnElement[str]
    owner_id: ColumnElement[str]
    run_column: ColumnElement[str]


class Owner(NamedTuple):
    """An agent or a benchmark, by the name that sorts it."""

    name: str
    id: str


class RunKey(NamedTuple):
    """A run in the order of names; runs of one owner are in the order of their creation."""

    name: str
    owner_id: str
    seq: int

    @property
    def owner(self) -> Owner:
        """The agent or benchmark of the run."""
        return Owner(self.name, self.owner_id)


class _OwnerWindow(NamedTuple):
    """The owners of a batch that have a run, in their order. `last` is the last owner that was looked at, with or
    without a run; None if no other follows.
    """

    owners: Sequence[Owner]
    last: Owner | None


class RunsByName:
    """The runs that meet some conditions, in the order of the names of their owners: of those with the given
    IDs, or of all.

    The runs of an owner come from an index in their order. To sort the runs themselves would read all of
    them. Owners are read as the batches need them: there may be many, and most may have no run.
    """

    def __init__(
        self,
        session: Session,
        order: NameOrder,
        owner_ids: Sequence[str],
        conditions: Sequence[ColumnElement[bool]],
        *,
        descending: bool,
    ) -> None:
        self._session = session
        self._order = order
        self._owner_ids = owner_ids
        self._conditions = conditions
        self._descending = descending
        # Exclusive and inclusive limits of every run of an owner.
        self._first, self._end = (MAX_INTEGER, 0) if descending else (0, MAX_INTEGER)
        # Of the batch of `find_last`, whose rows `read_until` reads.
        self._windows: dict[str | None, _OwnerWindow] = {}

    def find_last(self, cursor: str | None, row_count: int) -> Sequence[CursorValue] | None:
        """The key of the last run of a batch: the n-th after the cursor, or the last of some owners."""
        window = self._read_window(cursor)
        self._windows = {cursor: window}
        if self._conditions and window.owners:
            nth = (
                self._select_keys(window.owners, cursor, None, (), row_count)
                .offset(row_count - 1)
                .limit(1)
            )
            if (key := self._session.execute(nth).one_or_none()) is not None:
                return [*window.owners[key.position - 1], key.seq]
        return None if window.last is None else [*window.last, self._end]

    def read_until(self, last: Sequence[CursorValue] | None, part: PageQuery) -> list[RunKey]:
        """The keys of the matching runs of a page up to `last`, and one more if there is one."""
        end = None if last is None else _parse_key(last)
        owners = self._windows[part.cursor].owners
        if end is not None and end.owner in owners:
            owners = owners[: owners.index(end.owner) + 1]
        if not owners:
            return []
        keys = self._select_keys(owners, part.cursor, end, self._conditions, part.limit + 1)
        rows = self._session.execute(keys.limit(part.limit + 1))
        return [RunKey(*owners[position - 1], seq) for position, seq in rows]

    def _read_window(self, cursor: str | None) -> _OwnerWindow:
        """The owners of the batch after a cursor, with that of the cursor while it has further runs."""
        rows = self._select_scanned(cursor).limit(_OWNERS_PER_STATEMENT).subquery("scanned")
        # The smallest value from an ID on: of the plain condition the planner may read all runs of others.
        run_column = self._order.run_column
        first_run = select(func.min(run_column)).where(run_column >= rows.c.id).scalar_subquery()
        with_runs = (
            select(rows.c.name, rows.c.id)
            .where(first_run == rows.c.id)
            .order_by(*self._in_order(rows.c.name, rows.c.id))
            .limit(_OWNERS_PER_BATCH + 1)
        )
        owners = [Owner(*row) for row in self._session.execute(with_runs)]
        if len(owners) > _OWNERS_PER_BATCH:
            return _OwnerWindow(owners[:-1], owners[-2])
        ends = self._select_scanned(cursor).offset(_OWNERS_PER_STATEMENT - 1).limit(1)
        last = self._session.execute(ends).one_or_none()
        return _OwnerWindow(owners, None if last is None else Owner(*last))

    def _select_scanned(self, cursor: str | None) -> Select[str, str]:
        """The name and ID of the owners after a cursor, in order."""
        name, owner_id = self._order.name, self._order.owner_id
        statement = select(name.label("name"), owner_id.label("id"))
        if self._owner_ids:
            statement = statement.where(
                owner_id == func.any(literal(list(self._owner_ids), ARRAY(Text)))
            )
        if cursor is not None:
            key = _decode_key(cursor)
            owner = tuple_(name, owner_id)
            begin = tuple_(literal(key.name, Text), literal(key.owner_id, Text))
            # Nothing follows the end of an owner.
            is_over = key.seq == self._end
            if self._descending:
                statement = statement.where(owner < begin if is_over else owner <= begin)
            else:
                statement = statement.where(owner > begin if is_over else owner >= begin)
        return statement.order_by(*self._in_order(name, owner_id))

    def _in_order(self, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
        return [part.desc() if self._descending else part.asc() for part in columns]

    def _select_keys(
        self,
        owners: Sequence[Owner],
        cursor: str | None,
        end: RunKey | None,
        conditions: Sequence[ColumnElement[bool]],
        runs_per_owner: int,
    ) -> Select[int, int]:
        """The position of the owner and the `seq` of runs after the cursor, up to `end`, in order."""
        after = {} if cursor is None else {_decode_key(cursor).owner: _decode_key(cursor).seq}
        until = {} if end is None else {end.owner: end.seq}
        values: list[ColumnElement[Any]] = [
            literal([owner.id for owner in owners], ARRAY(Text)),
            literal([after.get(owner, self._first) for owner in owners], ARRAY(BigInteger)),
            literal([until.get(owner, self._end) for owner in owners], ARRAY(BigInteger)),
        ]
        limits = func.unnest(*values).table_valued(
            column("id", Text), column("after", BigInteger), column("until", BigInteger),
            with_ordinality="position", name="limits",
        ).render_derived()  # fmt: skip
        seq = _RUNS.seq
        # The owner is part of both limits and of the order: with `owner = id` the planner may read the index
        # on `seq` instead, past all runs of other owners.
        run_column = self._order.run_column
        key = tuple_(run_column, seq)
        first, final = tuple_(limits.c.id, limits.c.after), tuple_(limits.c.id, limits.c.until)
        span = (key < first, key >= final) if self._descending else (key > first, key <= final)
        runs = (
            select(seq)
            .where(*span, *conditions)
            .order_by(*self._in_order(run_column, seq))
            .limit(runs_per_owner)
            .correlate(limits)
            .lateral("runs")
        )
        run_order = runs.c.seq.desc() if self._descending else runs.c.seq.asc()
        return (
            select(limits.c.position, runs.c.seq)
            .select_from(limits)
            .join(runs, true())
            .order_by(limits.c.position, run_order)
        )


def _decode_key(cursor: str) -> RunKey:
    return _parse_key(decode_cursor(cursor))


def _parse_key(values: Sequence[CursorValue]) -> RunKey:
    """Raises: `BadCursor` for the key of another order."""
    match list(values):
        case [str(name), str(owner_id), int(seq)]:
            return RunKey(name, owner_id, seq)
    raise BadCursor


class OwnerNames(NamedTuple):
    """Display names of benchmarks and agents, by ID."""

    benchmarks: Mapping[str, str]
    agents: Mapping[str, str]


def read_names(session: Session, owners: Collection[tuple[str, str]]) -> OwnerNames:
    """The names of some benchmarks and agents, as pairs of IDs: a benchmark may have one in its metadata."""
    if not owners:
        return OwnerNames({}, {})
    benchmark_ids = {benchmark_id for benchmark_id, _ in owners}
    agent_ids = {agent_id for _, agent_id in owners}
    benchmarks = session.execute(
        select(Benchmark.id, Benchmark.metadata_).where(Benchmark.id.in_(benchmark_ids))
    )
    agents = session.execute(select(Agent.id, Agent.name).where(Agent.id.in_(agent_ids)))
    return OwnerNames(
        {id_: name_of_benchmark(id_, metadata) for id_, metadata in benchmarks},
        {row.id: row.name for row in agents},
    )
