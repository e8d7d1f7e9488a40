"""Key rotation: finds the encrypted columns and encrypts their values with the current master key.

A model marks an encrypted column with `mapped_column(info=ENCRYPTED)`. Its values are bound to the
table name, the primary key of the row and the column name.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, MetaData, Table, delete, func, select, text, update
from sqlalchemy.orm import Session

from app.core.db import Database
from app.core.encryption import CorruptedSecret, SecretBox, UnknownMasterKey, ciphertext_prefix
from app.core.errors import AppError

BATCH_ROWS: Final = 200
WINDOW_ROWS: Final = 5_000
MAX_PASSES: Final = 50
PASS_PAUSE_S: Final = 0.1
STARTUP_SAMPLE: Final = 10_000
_PREFIX_CHARS: Final = 40  # covers `v1.<key id>.`


class MissingMasterKey(AppError):
    """Stored secrets are encrypted with a master key that is not configured; restore that key."""

    code = "missing-master-key"
    exit_code = 78


class EncryptedColumn(NamedTuple):
    """A column of encrypted texts, in a table with a primary key of one column."""

    table: Table
    row: Column[Any]
    value: Column[Any]

    @property
    def name(self) -> str:
        return f"{self.table.name}.{self.value.name}"


class KeyUsage(NamedTuple):
    """Number of texts of a column that one master key encrypted."""

    column: str
    key_id: str
    text_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationResult:
    """Outcome of a rotation for one column; `remaining` texts still need another key."""

    column: str
    reencrypted: int
    remaining: int


def list_encrypted_columns(metadata: MetaData) -> list[EncryptedColumn]:
    """Every encrypted column of these tables, ordered by table name."""
    return [
        EncryptedColumn(table, _primary_key(table), column)
        for table in sorted(metadata.tables.values(), key=lambda table: table.name)
        for column in table.columns
        if column.info.get("encrypted")
    ]


def _primary_key(table: Table) -> Column[Any]:
    [key] = table.primary_key.columns
    return key


def count_key_usage(
    session: Session, columns: Iterable[EncryptedColumn], *, limit: int | None = None
) -> list[KeyUsage]:
    """How many stored texts each master key encrypted, per column.

    Cost:    reads the prefix of every encrypted text, or of `limit` texts per column.
    """
    # It reads whole tables, which takes longer than a request may.
    session.execute(text("SET LOCAL statement_timeout = '60s'"))
    usage = []
    for column in columns:
        prefix = func.left(column.value, _PREFIX_CHARS).label("prefix")
        sample = select(prefix).where(column.value.is_not(None)).limit(limit).subquery()
        key_id = func.split_part(sample.c.prefix, ".", 2).label("key_id")
        counts = select(key_id, func.count()).group_by(key_id).order_by(key_id)
        usage += [KeyUsage(column.name, *row) for row in session.execute(counts)]
    return usage


def require_known_keys(
    session: Session, columns: Iterable[EncryptedColumn], box: SecretBox
) -> None:
    """Raise `MissingMasterKey` when a stored text needs a key that the box does not have.

    Reads:   at most `STARTUP_SAMPLE` texts per column. Stored idempotent responses may be many,
             and a response whose key is missing raises its own error when it is repeated.
    """
    usage = count_key_usage(session, columns, limit=STARTUP_SAMPLE)
    missing = [use for use in usage if use.key_id not in box.key_ids]
    if missing:
        counts = ", ".join(f"{use.text_count} in {use.column}" for use in missing)
        ids = sorted({use.key_id for use in missing})
        raise MissingMasterKey(
            f"stored secrets are encrypted with master key {', '.join(ids)} ({counts}), which is"
            f" not configured (configured: {', '.join(box.key_ids)}); add that key to"
            " MOSAICO_MASTER_KEYS_OLD (or restore master.key), or delete those secrets with"
            f" `mosaico secrets drop-lost {ids[0]}`"
        )


def rotate_keys(
    db: Database, columns: Sequence[EncryptedColumn], box: SecretBox
) -> list[RotationResult]:
    """Encrypt every stored text with the first key of the box, while the service runs.

    Locks:   the rows of one batch at a time. Rows that another transaction has locked are left to
             a later pass; texts that cannot be decrypted stay unchanged.
    """
    return [_rotate_column(db, column, box) for column in columns]


def drop_lost_secrets(db: Database, columns: Iterable[EncryptedColumn], key_id: str) -> int:
    """Delete the texts that a lost key encrypted; returns how many.

    A nullable column is set to NULL; otherwise the row is deleted, because it is useless without
    its secret.
    """
    return sum(_drop_lost_texts(db, column, key_id) for column in columns)


def _drop_lost_texts(db: Database, column: EncryptedColumn, key_id: str) -> int:
    has_lost_key = column.value.startswith(ciphertext_prefix(key_id), autoescape=True)
    change: Any = (
        update(column.table).values({column.value: None})
        if column.value.nullable
        else delete(column.table)
    )
    dropped = 0
    for window in _windows(db, column):
        with db.begin() as session:
            statement = change.where(has_lost_key, window.contains(column.row))
            dropped += session.connection().execute(statement).rowcount
    return dropped


class _RowWindow(NamedTuple):
    """A range of primary keys: `after` is excluded, `last` included."""

    after: str
    last: str

    def contains(self, row: Column[Any]) -> ColumnElement[bool]:
        return (row > self.after) & (row <= self.last)


def _windows(db: Database, column: EncryptedColumn) -> Iterator[_RowWindow]:
    """The rows of a table in ranges of `WINDOW_ROWS`: no statement reads a whole table, which would take
    seconds where most texts need no change.
    """
    after = ""
    while True:
        keys = select(column.row).where(column.row > after).order_by(column.row)
        with db.read() as session:
            last = session.scalar(select(func.max(keys.limit(WINDOW_ROWS).subquery().c[0])))
        if last is None:
            return
        yield _RowWindow(after, last)
        after = last


class _PassResult(NamedTuple):
    """What a pass over a column did; `undecryptable` and `locked` texts still need another key."""

    reencrypted: int = 0
    undecryptable: int = 0
    locked: int = 0

    def plus(self, other: "_PassResult") -> "_PassResult":
        return _PassResult(*map(sum, zip(self, other, strict=True)))


def _rotate_column(db: Database, column: EncryptedColumn, box: SecretBox) -> RotationResult:
    reencrypted, rotation = 0, _PassResult()
    for _ in range(MAX_PASSES):
        rotation = _PassResult()
        for window in _windows(db, column):
            rotation = rotation.plus(_rotate_window(db, column, box, window))
        reencrypted += rotation.reencrypted
        # Processes that were not restarted yet keep writing with the old key, and locked rows were
        # skipped: repeat until a pass finds only texts that cannot be decrypted.
        if not rotation.reencrypted and not rotation.locked:
            break
        time.sleep(PASS_PAUSE_S)
    return RotationResult(
        column=column.name,
        reencrypted=reencrypted,
        remaining=rotation.undecryptable + rotation.locked,
    )


def _rotate_window(
    db: Database, column: EncryptedColumn, box: SecretBox, window: _RowWindow
) -> _PassResult:
    """Visit the rows of a window once, by primary key."""
    rotation = _PassResult()
    while True:
        with db.begin() as session:
            rows = _lock_batch(session, column, box, window)
            is_last = len(rows) < BATCH_ROWS
            visited = window if is_last else _RowWindow(window.after, rows[-1].row)
            needing = select(func.count()).where(
                _needs_rotation(column, box), visited.contains(column.row)
            )
            locked = (session.scalar(needing) or 0) - len(rows)
            reencrypted = sum(_reencrypt(session, column, box, row) for row in rows)
        rotation = rotation.plus(_PassResult(reencrypted, len(rows) - reencrypted, locked))
        if is_last:
            return rotation
        window = _RowWindow(visited.last, window.last)


class _EncryptedRow(NamedTuple):
    row: str
    value: str


def _lock_batch(
    session: Session, column: EncryptedColumn, box: SecretBox, window: _RowWindow
) -> list[_EncryptedRow]:
    statement = (
        select(column.row, column.value)
        .where(_needs_rotation(column, box), window.contains(column.row))
        .order_by(column.row)
        .limit(BATCH_ROWS)
        # A row that a user edits at this moment gets the new key by that edit, or in the next pass.
        .with_for_update(skip_locked=True)
    )
    return [_EncryptedRow(*row) for row in session.execute(statement)]


def _reencrypt(
    session: Session, column: EncryptedColumn, box: SecretBox, stored: _EncryptedRow
) -> bool:
    cell = {"table": column.table.name, "row": stored.row, "column": column.value.name}
    try:
        plain = box.decrypt(stored.value, **cell)
    except (UnknownMasterKey, CorruptedSecret):
        # Unchanged: the lost key may be found again.
        return False
    encrypted = box.encrypt(plain.reveal(), **cell)
    session.execute(
        update(column.table).where(column.row == stored.row).values({column.value: encrypted})
    )
    return True


def _needs_rotation(column: EncryptedColumn, box: SecretBox) -> ColumnElement[bool]:
    """Whether another key than the current one encrypted the value."""
    current = column.value.startswith(ciphertext_prefix(box.encryption_key_id), autoescape=True)
    return column.value.is_not(None) & ~current
