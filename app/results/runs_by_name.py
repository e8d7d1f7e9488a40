"""Runs in the order of the names of their agents or benchmarks, in batches of a bounded size."""

from collections.abc import Sequence
from itertools import islice
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

from app.core.keyset import BadCursor, CursorValue, PageQuery, decode_cursor
from app.core.strict_json import MAX_INTEGER
from app.results.models import BenchmarkRun

_RUNS: Final = BenchmarkRun.__table__.c
# A statement reads the runs of so many agents or benchmarks, and a batch of each of them at most.
_OWNERS_PER_BATCH: Final = 20
_OWNERS_PER_STATEMENT: Final = 2_000


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


class RunsByName:
    """The runs that meet some conditions, in the order of the names of `owners`.

    The runs of an owner come from an index in their order. To sort the runs themselves would read all of
    them.
    """

    def __init__(
        self,
        session: Session,
        order: NameOrder,
        owners: Sequence[Owner],
        conditions: Sequence[ColumnElement[bool]],
        cursor: str | None,
        *,
        descending: bool,
    ) -> None:
        self._session = session
        self._run_column = order.run_column
        self._conditions = conditions
        self._descending = descending
        # Exclusive and inclusive limits of every run of an owner.
        self._first, self._end = (MAX_INTEGER, 0) if descending else (0, MAX_INTEGER)
        # The owner of the cursor may have another name by now, or may be gone.
        begin = None if cursor is None else _decode_key(cursor).owner
        self._owners = [
            owner
            for owner in sorted(owners, reverse=descending)
            if begin is None or (owner <= begin if descending else owner >= begin)
        ]
        self._positions = {owner: position for position, owner in enumerate(self._owners)}

    def find_last(self, cursor: str | None, row_count: int) -> Sequence[CursorValue] | None:
        """The key of the last run of a batch: the n-th after the cursor, or the last of some owners."""
        owners = self._list_owners(cursor, None)
        if self._conditions:
            nth = (
                self._select_keys(owners, cursor, None, (), row_count)
                .offset(row_count - 1)
                .limit(1)
            )
            if (key := self._session.execute(nth).one_or_none()) is not None:
                return [*owners[key.position - 1], key.seq]
        if not owners or owners[-1] == self._owners[-1]:
            return None
        return [*owners[-1], self._end]

    def read_until(self, last: Sequence[CursorValue] | None, part: PageQuery) -> list[RunKey]:
        """The keys of the matching runs of a page up to `last`, and one more if there is one."""
        end = None if last is None else _parse_key(last)
        owners = self._list_owners(part.cursor, end)
        keys = self._select_keys(owners, part.cursor, end, self._conditions, part.limit + 1)
        rows = self._session.execute(keys.limit(part.limit + 1))
        return [RunKey(*owners[position - 1], seq) for position, seq in rows]

    def _list_owners(self, cursor: str | None, end: RunKey | None) -> list[Owner]:
        key = None if cursor is None else _decode_key(cursor)
        first = 0
        if key is not None and key.owner in self._positions:
            # Nothing follows the end of an owner.
            first = self._positions[key.owner] + (key.seq == self._end)
        until = first + _OWNERS_PER_BATCH if end is None else self._positions[end.owner] + 1
        return list(islice(self._owners, first, until))

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
        key = tuple_(self._run_column, seq)
        first, final = tuple_(limits.c.id, limits.c.after), tuple_(limits.c.id, limits.c.until)
        span = (key < first, key >= final) if self._descending else (key > first, key <= final)
        order = [self._run_column, seq]
        in_order = [part.desc() if self._descending else part.asc() for part in order]
        runs = (
            select(seq)
            .where(*span, *conditions)
            .order_by(*in_order)
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


def list_owners(session: Session, order: NameOrder, ids: Sequence[str]) -> list[Owner]:
    """The owners of runs: those with the given IDs; without IDs all that have a run.

    Many agents and benchmarks may have no run, and each may have many: an index of the runs is probed once
    for each that has one.
    """
    if ids:
        return _read_owners(session, order, ids)
    owners: list[Owner] = []
    last_id = ""
    while True:
        next_ids = _read_owner_ids(session, order.run_column, last_id)
        owners += _read_owners(session, order, next_ids)
        if len(next_ids) < _OWNERS_PER_STATEMENT:
            return owners
        last_id = next_ids[-1]


def _read_owner_ids(
    session: Session, run_column: ColumnElement[str], last_id: str
) -> Sequence[str]:
    """The first values of an indexed column of the runs after `last_id`, each once."""
    first = select(func.min(run_column)).where(run_column > last_id).scalar_subquery()
    owners = select(first.label("id"), literal(1).label("number")).cte("owners", recursive=True)
    next_id = select(func.min(run_column)).where(run_column > owners.c.id).scalar_subquery()
    owners = owners.union_all(
        select(next_id, owners.c.number + 1).where(
            owners.c.id.is_not(None), owners.c.number < _OWNERS_PER_STATEMENT
        )
    )
    return session.scalars(select(owners.c.id).where(owners.c.id.is_not(None))).all()


def _read_owners(session: Session, order: NameOrder, ids: Sequence[str]) -> list[Owner]:
    statement = select(order.name, order.owner_id).where(
        order.owner_id == func.any(literal(ids, ARRAY(Text)))
    )
    return [Owner(*row) for row in session.execute(statement)]


def _decode_key(cursor: str) -> RunKey:
    return _parse_key(decode_cursor(cursor))


def _parse_key(values: Sequence[CursorValue]) -> RunKey:
    """Raises: `BadCursor` for the key of another order."""
    match list(values):
        case [str(name), str(owner_id), int(seq)]:
            return RunKey(name, owner_id, seq)
    raise BadCursor
