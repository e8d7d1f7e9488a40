"""The first admin key: created at the first start, or configured by the operator."""

import multiprocessing
import stat
from datetime import timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import select, text, update

from mosaico.access import queries
from mosaico.access.models import ApiKey
from mosaico.access.queries import CONFIGURED_KEY_ID
from mosaico.access.rules import is_usable, parse_token
from mosaico.access.service import (
    FIRST_KEY_NAME,
    BadAdminKey,
    FirstKey,
    create_key,
    ensure_first_admin_key,
)
from mosaico.core.db import Database
from mosaico.core.encryption import Secret
from mosaico.core.secret_files import UnsafeSecretFile
from tests.integration.access.toy_service import START, ManualClock
from tests.support.first_starts import make_first_key
from tests.support.waiting import LIVENESS_S

CONFIGURED = Secret("a key that the operator chose")
OTHER = Secret("another key of the operator's")


class Row(NamedTuple):
    id: str
    name: str
    revoked: bool


def ensure(db: Database, folder: Path, configured: Secret | None = None) -> FirstKey:
    return ensure_first_admin_key(db, folder, configured, clock=ManualClock())


def token_in(folder: Path) -> str:
    return (folder / "admin.key").read_text().strip()


def is_admin_token(db: Database, token: str) -> bool:
    """Whether a token is that of a usable admin key."""
    with db.read() as session:
        key = queries.find_key(session, token)
    return (
        key is not None
        and key.role == "admin"
        and is_usable(expires_at=key.expires_at, revoked_at=key.revoked_at, now=START)
    )


def rows(db: Database) -> list[Row]:
    with db.read() as session:
        stored_keys = session.scalars(select(ApiKey).order_by(ApiKey.created_at, ApiKey.id))
        return [Row(key.id, key.name, key.revoked_at is not None) for key in stored_keys]


def revoke(db: Database, token: str) -> None:
    """Revoke a key directly in the database, even the last admin key."""
    parsed = parse_token(token)
    key = parsed.key_id if parsed else CONFIGURED_KEY_ID
    with db.begin() as session:
        session.execute(update(ApiKey).where(ApiKey.id == key).values(revoked_at=START))


def test_first_admin_key__first_start_writes_a_key_for_the_owner_only(
    db: Database, tmp_path: Path
) -> None:
    first = ensure(db, tmp_path)
    assert first == FirstKey(path=tmp_path / "admin.key", created=True)
    assert stat.S_IMODE((tmp_path / "admin.key").stat().st_mode) == 0o600
    assert is_admin_token(db, token_in(tmp_path))


def test_first_admin_key__next_start_creates_nothing(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    token = token_in(tmp_path)
    assert ensure(db, tmp_path) == FirstKey(path=tmp_path / "admin.key", created=False)
    assert (token_in(tmp_path), len(rows(db))) == (token, 1)


def test_first_admin_key__database_stores_only_the_digest(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    with db.read() as session:
        row = session.execute(text("SELECT row_to_json(k)::text FROM api_keys k")).scalar_one()
    key_id, secret = token_in(tmp_path).split("_")[2:4]
    assert key_id in row
    assert secret not in row
    assert secret.encode().hex() not in row


def test_first_admin_key__lost_file_replaces_the_key(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    lost_token = token_in(tmp_path)
    (tmp_path / "admin.key").unlink()
    assert ensure(db, tmp_path).created
    assert (is_admin_token(db, lost_token), is_admin_token(db, token_in(tmp_path))) == (False, True)


def test_first_admin_key__new_database_registers_the_key_of_the_file(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    token = token_in(tmp_path)
    # As if DATABASE_URL named a new database: the data folder outlives the old one.
    with db.begin() as session:
        session.execute(text("TRUNCATE api_keys"))
    assert not ensure(db, tmp_path).created
    assert (token_in(tmp_path), is_admin_token(db, token)) == (token, True)


def test_first_admin_key__key_file_of_another_folder_is_registered(
    db: Database, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    ensure(db, there)
    moved_token = token_in(there)
    with db.begin() as session:
        session.execute(text("TRUNCATE api_keys"))
    ensure(db, here)
    (there / "admin.key").rename(here / "admin.key")
    ensure(db, here)
    assert is_admin_token(db, moved_token)
    assert [row.revoked for row in rows(db) if row.name == FIRST_KEY_NAME].count(False) == 1


def test_first_admin_key__revoked_key_is_replaced_without_another_admin(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    old = token_in(tmp_path)
    revoke(db, old)
    assert ensure(db, tmp_path).created
    assert (is_admin_token(db, old), is_admin_token(db, token_in(tmp_path))) == (False, True)


def test_first_admin_key__revoked_key_stays_revoked_with_another_admin(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    old = token_in(tmp_path)
    with db.begin() as session:
        create_key(session, "mine", "admin", now=START)
    revoke(db, old)
    assert ensure(db, tmp_path) == FirstKey(path=None, created=False)
    (tmp_path / "admin.key").unlink()
    assert ensure(db, tmp_path) == FirstKey(path=None, created=False)
    assert not is_admin_token(db, old)


def test_first_admin_key__expired_keys_and_lesser_roles_are_not_admins(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    revoke(db, token_in(tmp_path))
    before = START - timedelta(days=2)
    with db.begin() as session:
        create_key(session, "old", "admin", now=before, expires_at=START - timedelta(days=1))
        create_key(session, "ci", "run", now=START)
    assert ensure(db, tmp_path).created


@pytest.mark.parametrize("content", ["", "something else", "mosaico_admin_x_y_z"])
def test_first_admin_key__file_without_a_key_is_refused_and_kept(
    db: Database, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "admin.key"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(BadAdminKey, match="delete it, and a new key is created"):
        ensure(db, tmp_path)
    assert (path.read_text(), rows(db)) == (content, [])


def test_first_admin_key__file_readable_by_others_is_refused(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    (tmp_path / "admin.key").chmod(0o644)
    with pytest.raises(UnsafeSecretFile, match="chmod 600"):
        ensure(db, tmp_path)


def test_first_admin_key__known_id_with_another_secret_is_refused(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    with db.begin() as session:
        session.execute(text("UPDATE api_keys SET digest = '\\x00'"))
    with pytest.raises(BadAdminKey, match="another secret"):
        ensure(db, tmp_path)


def test_configured_admin_key__is_registered_without_a_file(db: Database, tmp_path: Path) -> None:
    assert ensure(db, tmp_path, CONFIGURED) == FirstKey(path=None, created=False)
    assert is_admin_token(db, CONFIGURED.reveal())
    assert [row.id for row in rows(db)] == ["admin-env"]
    assert list(tmp_path.iterdir()) == []


def test_configured_admin_key__changed_variable_replaces_the_key(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path, CONFIGURED)
    ensure(db, tmp_path, OTHER)
    assert (is_admin_token(db, CONFIGURED.reveal()), is_admin_token(db, OTHER.reveal())) == (
        False,
        True,
    )
    assert len(rows(db)) == 1


def test_configured_admin_key__removed_variable_deletes_the_key(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path, CONFIGURED)
    assert ensure(db, tmp_path).created
    assert not is_admin_token(db, CONFIGURED.reveal())


def test_configured_admin_key__revoked_key_stays_revoked_until_the_variable_changes(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path, CONFIGURED)
    revoke(db, CONFIGURED.reveal())
    ensure(db, tmp_path, CONFIGURED)
    assert not is_admin_token(db, CONFIGURED.reveal())
    # Setting the variable again to the revoked key must not bring it back.
    ensure(db, tmp_path)
    ensure(db, tmp_path, CONFIGURED)
    assert not is_admin_token(db, CONFIGURED.reveal())
    ensure(db, tmp_path, OTHER)
    assert is_admin_token(db, OTHER.reveal())


def test_configured_admin_key__short_key_is_refused_without_showing_it(
    db: Database, tmp_path: Path
) -> None:
    with pytest.raises(BadAdminKey, match=r"MOSAICO_ADMIN_KEY.*24") as refusal:
        ensure(db, tmp_path, Secret("too-short"))
    assert "too-short" not in str(refusal.value)
    assert rows(db) == []


PROCESSES = 4


def test_first_admin_key__concurrent_starts_create_one_key(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    # Processes that share nothing but the database: a lock of Python would not show.
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(PROCESSES)
    created: Queue[bool] = context.Queue()
    starts = [
        context.Process(target=make_first_key, args=(database_url, str(tmp_path), gate, created))
        for _ in range(PROCESSES)
    ]
    for process in starts:
        process.start()
    answers = sorted(created.get(timeout=LIVENESS_S) for _ in starts)
    for process in starts:
        process.join(LIVENESS_S)
    assert answers == [False, False, False, True]
    assert len(rows(db)) == 1
    assert is_admin_token(db, token_in(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["admin.key"]
