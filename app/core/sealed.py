"""The columns that hold sealed texts, which master keys sealed them, and sealing them anew.

A column is known by its model: `mapped_column(info=SEALED)`. Its values are bound to the name of
the table, the primary key of the row and the name of the column.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, MetaData, Table, delete, func, select, text, update
from sqlalchemy.orm import Session

from app.core.db import Database
from app.core.errors import AppError
from app.core.secrets import BrokenSeal, SecretBox, WrongMasterKey, sealed_by

SEALED: Final = {"sealed": True}

BATCH: Final = 200
PASSES: Final = 50
PAUSE_S: Final = 0.1
READ_AT_START: Final = 10_000


class MissingMasterKey(AppError):
    """Stored secrets are sealed with a master key that is not known here; bring that key back."""

    code = "missing-master-key"
    exit_code = 78


class SealedColumn(NamedTuple):
    """A column of sealed texts, in a table whose rows one column identifies."""

    table: Table
    row: Column[Any]
    value: Column[Any]

    @property
    def name(self) -> str:
        return f"{self.table.name}.{self.value.name}"


class KeyUse(NamedTuple):
    """How many texts of a column one master key has sealed."""

    column: str
    key_id: str
    texts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """What a rotation did to one column; `left` texts are still sealed with another key."""

    column: str
    resealed: int
    left: int


def sealed_columns(metadata: MetaData) -> list[SealedColumn]:
    """Every sealed column of these tables, in the order of their names."""
    return [
        SealedColumn(table, _key_of(table), column)
        for table in sorted(metadata.tables.values(), key=lambda table: table.name)
        for column in table.columns
        if column.info.get("sealed")
    ]


def _key_of(table: Table) -> Column[Any]:
    [key] = table.primary_key.columns
    return key


def key_uses(
    session: Session, columns: Iterable[SealedColumn], *, most: int | None = None
) -> list[KeyUse]:
    """Which keys have sealed what is stored.

    Cost:    reads the beginning of every sealed text, or of `most` in each column.
    """
    session.execute(text("SET LOCAL statement_timeout = '60s'"))
    uses = []
    for column in columns:
        start = func.left(column.value, 40).label("start")
        read = select(start).where(column.value.is_not(None)).limit(most).subquery()
        key_id = func.split_part(read.c.start, ".", 2).label("key_id")
        found = select(key_id, func.count()).group_by(key_id)
        uses += [KeyUse(column.name, *row) for row in session.execute(found.order_by(key_id))]
    return uses


def require_known_keys(session: Session, columns: Iterable[SealedColumn], box: SecretBox) -> None:
    """Raises: `MissingMasterKey` when a stored text is sealed with a key that the box lacks.

    Reads:   at most `READ_AT_START` texts of a column: answers that wait to be repeated may be
             many, and whoever needs one is told by itself.
    """
    uses = key_uses(session, columns, most=READ_AT_START)
    missing = [use for use in uses if use.key_id not in box.key_ids]
    if missing:
        where = ", ".join(f"{use.texts} in {use.column}" for use in missing)
        ids = sorted({use.key_id for use in missing})
        raise MissingMasterKey(
            f"stored secrets are sealed with master key {', '.join(ids)} ({where}), known here:"
            f" {', '.join(box.key_ids)}; add that key to MOSAICO_MASTER_KEYS_OLD (or restore"
            f" master.key), or give those secrets up with `mosaico secrets forget {ids[0]}`"
        )


def rotate(db: Database, columns: Sequence[SealedColumn], box: SecretBox) -> list[Rotated]:
    """Seal everything with the first key of the box, while the service goes on.

    Locks:   the rows of one batch at a time; a row that somebody is changing waits for a later
             pass. What cannot be opened is left as it is.
    """
    return [_rotate(db, column, box) for column in columns]


def forget(session: Session, columns: Iterable[SealedColumn], key_id: str) -> int:
    """Give up what a lost key has sealed: such a text is cleared, a row that needs one deleted."""
    forgotten = 0
    for column in columns:
        lost = column.value.startswith(sealed_by(key_id), autoescape=True)
        gone: Any = (
            update(column.table).where(lost).values({column.value: None})
            if column.value.nullable
            else delete(column.table).where(lost)
        )
        forgotten += session.connection().execute(gone).rowcount
    return forgotten


def _rotate(db: Database, column: SealedColumn, box: SecretBox) -> Rotated:
    resealed = left = 0
    for _ in range(PASSES):
        once = _pass(db, column, box)
        resealed += once.resealed
        with db.read() as session:
            left = session.scalar(select(func.count()).where(_foreign(column, box))) or 0
        if left <= once.left:
            break
        time.sleep(PAUSE_S)
    return Rotated(column=column.name, resealed=resealed, left=left)


def _pass(db: Database, column: SealedColumn, box: SecretBox) -> Rotated:
    """Go through the rows once, in the order of their keys; `left` are those that do not open."""
    resealed = seen = 0
    after = ""
    while True:
        with db.begin() as session:
            rows = _batch(session, column, box, after)
            resealed += sum(_reseal(session, column, box, row) for row in rows)
        if not rows:
            return Rotated(column=column.name, resealed=resealed, left=seen - resealed)
        seen += len(rows)
        after = rows[-1].row


class _Row(NamedTuple):
    row: str
    value: str


def _batch(session: Session, column: SealedColumn, box: SecretBox, after: str) -> list[_Row]:
    statement = (
        select(column.row, column.value)
        .where(_foreign(column, box), column.row > after)
        .order_by(column.row)
        .limit(BATCH)
        .with_for_update(skip_locked=True)
    )
    return [_Row(*row) for row in session.execute(statement)]


def _reseal(session: Session, column: SealedColumn, box: SecretBox, found: _Row) -> bool:
    place = {"table": column.table.name, "row": found.row, "column": column.value.name}
    try:
        plain = box.open(found.value, **place)
    except (WrongMasterKey, BrokenSeal):
        return False
    anew = box.seal(plain.reveal(), **place)
    session.execute(
        update(column.table).where(column.row == found.row).values({column.value: anew})
    )
    return True


def _foreign(column: SealedColumn, box: SecretBox) -> ColumnElement[bool]:
    """Sealed with another key than the one that seals now."""
    ours = column.value.startswith(sealed_by(box.sealing_id), autoescape=True)
    return column.value.is_not(None) & ~ours
