"""Key rotation: finds the encrypted columns and encrypts their values with the current master key.

A model marks an encrypted column with `mapped_column(info=ENCRYPTED)`. Its values are bound to the
table name, the primary key of the row and the column name.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, MetaData, Table, delete, func, select, text, update
from sqlalchemy.orm import Session

from app.core.db import Database
from app.core.encryption import CorruptedSecret, SecretBox, UnknownMasterKey, ciphertext_prefix
from app.core.errors import AppError

BATCH_ROWS: Final = 200
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


def drop_lost_secrets(session: Session, columns: Iterable[EncryptedColumn], key_id: str) -> int:
    """Delete the texts that a lost key encrypted; returns how many.

    A nullable column is set to NULL; otherwise the row is deleted, because it is useless without
    its secret.
    """
    dropped = 0
    for column in columns:
        has_lost_key = column.value.startswith(ciphertext_prefix(key_id), autoescape=True)
        statement: Any = (
            update(column.table).where(has_lost_key).values({column.value: None})
            if column.value.nullable
            else delete(column.table).where(has_lost_key)
        )
        dropped += session.connection().execute(statement).rowcount
    return dropped


def _rotate_column(db: Database, column: EncryptedColumn, box: SecretBox) -> RotationResult:
    # Processes that were not restarted yet keep writing with the old key, and locked rows were
    # skipped: repeat until only the texts remain that cannot be decrypted.
    reencrypted = remaining = 0
    for _ in range(MAX_PASSES):
        rotation = _rotate_pass(db, column, box)
        reencrypted += rotation.reencrypted
        with db.read() as session:
            remaining = (
                session.scalar(select(func.count()).where(_needs_rotation(column, box))) or 0
            )
        # Only texts that cannot be decrypted are left: another pass would not change them.
        if remaining <= rotation.remaining:
            break
        time.sleep(PASS_PAUSE_S)
    return RotationResult(column=column.name, reencrypted=reencrypted, remaining=remaining)


def _rotate_pass(db: Database, column: EncryptedColumn, box: SecretBox) -> RotationResult:
    """Visit each row once, by primary key; `remaining` counts the texts that failed to decrypt."""
    reencrypted = visited = 0
    last_row = ""
    while True:
        with db.begin() as session:
            rows = _lock_batch(session, column, box, last_row)
            reencrypted += sum(_reencrypt(session, column, box, row) for row in rows)
        if not rows:
            return RotationResult(
                column=column.name, reencrypted=reencrypted, remaining=visited - reencrypted
            )
        visited += len(rows)
        last_row = rows[-1].row


class _EncryptedRow(NamedTuple):
    row: str
    value: str


def _lock_batch(
    session: Session, column: EncryptedColumn, box: SecretBox, last_row: str
) -> list[_EncryptedRow]:
    statement = (
        select(column.row, column.value)
        .where(_needs_rotation(column, box), column.row > last_row)
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
