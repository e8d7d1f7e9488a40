"""Key rotation: finds the encrypted columns and encrypts their values with the current master key.

A model marks an encrypted column with `mapped_column(info=ENCRYPTED)`. Its values are bound to the
table name, the primary key of the row and the column name.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, MetaData, Table, delete, func, select, true, update
from sqlalchemy.orm import Session

from mosaico.core.db import Database
from mosaico.core.encryption import CorruptedSecret, SecretBox, UnknownMasterKey, ciphertext_prefix
from mosaico.core.row_windows import RowWindow, iter_windows

BATCH_ROWS: Final = 200
MAX_PASSES: Final = 50
PASS_PAUSE_S: Final = 0.1
STARTUP_SAMPLE: Final = 10_000
_PREFIX_CHARS: Final = 40  # covers `v1.<key id>.`


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


def count_key_usage(db: Database, columns: Iterable[EncryptedColumn]) -> list[KeyUsage]:
    """Return how many stored texts each master key encrypted, per column.

    Cost:    reads the prefix of every encrypted text, in short transactions.
    """
    return [usage for column in columns for usage in _count_column(db, column)]


def _count_column(db: Database, column: EncryptedColumn) -> list[KeyUsage]:
    text_counts: Counter[str] = Counter()
    for window in iter_windows(db, column.row):
        with db.read_statement() as session:
            text_counts.update(_count_keys(session, column, window.contains(column.row)))
    return _key_usage(column, text_counts)


def _count_keys(
    session: Session,
    column: EncryptedColumn,
    condition: ColumnElement[bool],
    limit: int | None = None,
) -> dict[str, int]:
    """The number of texts by ID of their key, of the rows that match, or of `limit` of them."""
    prefix = func.left(column.value, _PREFIX_CHARS).label("prefix")
    texts = select(prefix).where(column.value.is_not(None), condition).limit(limit).subquery()
    key_id = func.split_part(texts.c.prefix, ".", 2).label("key_id")
    return {
        row[0]: row[1] for row in session.execute(select(key_id, func.count()).group_by(key_id))
    }


def _key_usage(column: EncryptedColumn, text_counts: Mapping[str, int]) -> list[KeyUsage]:
    return [KeyUsage(column.name, *item) for item in sorted(text_counts.items())]


def require_known_keys(
    session: Session, columns: Iterable[EncryptedColumn], box: SecretBox
) -> None:
    """Raise `UnknownMasterKey` when a stored text needs a key that the box does not have.

    Reads:   at most `STARTUP_SAMPLE` texts per column. Stored idempotent responses may be many,
             and a response whose key is missing raises its own error when it is repeated.
    """
    missing = [
        usage
        for column in columns
        for usage in _key_usage(column, _count_keys(session, column, true(), STARTUP_SAMPLE))
        if usage.key_id not in box.key_ids
    ]
    if missing:
        counts = ", ".join(f"{use.text_count} in {use.column}" for use in missing)
        ids = sorted({use.key_id for use in missing})
        raise UnknownMasterKey(
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
    for window in iter_windows(db, column.row):
        with db.begin() as session:
            statement = change.where(has_lost_key, window.contains(column.row))
            dropped += session.connection().execute(statement).rowcount
    return dropped


class _PassResult(NamedTuple):
    """The result of a pass over a column; `undecryptable` and `locked` texts still need another key."""

    reencrypted: int = 0
    undecryptable: int = 0
    locked: int = 0

    def plus(self, other: "_PassResult") -> "_PassResult":
        return _PassResult(*map(sum, zip(self, other, strict=True)))


def _rotate_column(db: Database, column: EncryptedColumn, box: SecretBox) -> RotationResult:
    reencrypted, rotation = 0, _PassResult()
    for _ in range(MAX_PASSES):
        rotation = _PassResult()
        for window in iter_windows(db, column.row):
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
    db: Database, column: EncryptedColumn, box: SecretBox, window: RowWindow
) -> _PassResult:
    """Visit the rows of a window once, by primary key."""
    rotation = _PassResult()
    while True:
        with db.begin() as session:
            rows = _lock_batch(session, column, box, window)
            is_last = len(rows) < BATCH_ROWS
            visited = window if is_last else RowWindow(window.after, rows[-1].row)
            needing = select(func.count()).where(
                _needs_rotation(column, box), visited.contains(column.row)
            )
            locked = (session.scalar(needing) or 0) - len(rows)
            reencrypted = sum(_reencrypt(session, column, box, row) for row in rows)
        rotation = rotation.plus(_PassResult(reencrypted, len(rows) - reencrypted, locked))
        if is_last:
            return rotation
        window = RowWindow(visited.last, window.last)


class _EncryptedRow(NamedTuple):
    row: str
    value: str


def _lock_batch(
    session: Session, column: EncryptedColumn, box: SecretBox, window: RowWindow
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
    """Return whether another key than the current one encrypted the value."""
    current = column.value.startswith(ciphertext_prefix(box.encryption_key_id), autoescape=True)
    return column.value.is_not(None) & ~current
