import multiprocessing
import stat
from datetime import timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import select, text, update

from app.access import queries
from app.access.models import ApiKey
from app.access.queries import CONFIGURED_KEY_ID
from app.access.rules import generate_token, is_usable, parse_token
from app.access.service import (
    FIRST_KEY_NAME,
    BadAdminKey,
    FirstKey,
    create_key,
    ensure_first_admin_key,
)
from app.core.db import Database
from app.core.encryption import Secret
from app.core.secret_files import UnsafeSecretFile
from tests.integration.access.toy_service import START, Clock
from tests.support.first_starts import make_first_key

CONFIGURED = Secret("a key that the operator chose")
OTHER = Secret("another key of the operator's")


class Row(NamedTuple):
    id: str
    name: str
    revoked: bool


def ensure(db: Database, folder: Path, configured: Secret | None = None) -> FirstKey:
    return ensure_first_admin_key(db, folder, configured, clock=Clock())


def token_in(folder: Path) -> str:
    return (folder / "admin.key").read_text().strip()


def opens(db: Database, token: str) -> bool:
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
        found = session.scalars(select(ApiKey).order_by(ApiKey.created_at, ApiKey.id))
        return [Row(key.id, key.name, key.revoked_at is not None) for key in found]


def revoke(db: Database, token: str) -> None:
    """As somebody with the database at hand does it, who may revoke the last admin key too."""
    parsed = parse_token(token)
    key = parsed.key_id if parsed else CONFIGURED_KEY_ID
    with db.begin() as session:
        session.execute(update(ApiKey).where(ApiKey.id == key).values(revoked_at=START))


def test_the_first_start_leaves_a_key_that_only_the_owner_can_read(
    db: Database, tmp_path: Path
) -> None:
    first = ensure(db, tmp_path)
    assert first == FirstKey(path=tmp_path / "admin.key", created=True)
    assert stat.S_IMODE((tmp_path / "admin.key").stat().st_mode) == 0o600
    assert opens(db, token_in(tmp_path))


def test_the_next_start_makes_nothing(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    token = token_in(tmp_path)
    assert ensure(db, tmp_path) == FirstKey(path=tmp_path / "admin.key", created=False)
    assert (token_in(tmp_path), len(rows(db))) == (token, 1)


def test_the_database_holds_the_digest_and_never_the_key(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    with db.read() as session:
        row = session.execute(text("SELECT row_to_json(k)::text FROM api_keys k")).scalar_one()
    key_id, secret = token_in(tmp_path).split("_")[2:4]
    assert key_id in row
    assert secret not in row
    assert secret.encode().hex() not in row


def test_a_lost_file_means_a_new_key_and_the_end_of_the_old_one(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    lost = token_in(tmp_path)
    (tmp_path / "admin.key").unlink()
    assert ensure(db, tmp_path).created
    assert (opens(db, lost), opens(db, token_in(tmp_path))) == (False, True)


def test_the_key_in_the_file_is_registered_in_a_new_database(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    token = token_in(tmp_path)
    with db.begin() as session:
        session.execute(text("TRUNCATE api_keys"))
    assert not ensure(db, tmp_path).created
    assert (token_in(tmp_path), opens(db, token)) == (token, True)


def test_a_database_from_another_folder_takes_the_key_of_this_one(
    db: Database, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    ensure(db, there)
    moved = token_in(there)
    with db.begin() as session:
        session.execute(text("TRUNCATE api_keys"))
    ensure(db, here)
    (there / "admin.key").rename(here / "admin.key")
    ensure(db, here)
    assert opens(db, moved)
    assert [row.revoked for row in rows(db) if row.name == FIRST_KEY_NAME].count(False) == 1


def test_a_revoked_first_key_is_replaced_when_nobody_else_could_administer(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    old = token_in(tmp_path)
    revoke(db, old)
    assert ensure(db, tmp_path).created
    assert (opens(db, old), opens(db, token_in(tmp_path))) == (False, True)


def test_a_revoked_first_key_stays_revoked_while_another_admin_key_exists(
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
    assert not opens(db, old)


def test_an_expired_admin_key_and_keys_of_lesser_roles_do_not_count(
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
def test_a_file_that_holds_no_key_is_refused_and_kept(
    db: Database, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "admin.key"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(BadAdminKey, match="delete it, and a new key is created"):
        ensure(db, tmp_path)
    assert (path.read_text(), rows(db)) == (content, [])


def test_a_file_that_others_can_read_is_refused(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path)
    (tmp_path / "admin.key").chmod(0o644)
    with pytest.raises(UnsafeSecretFile, match="chmod 600"):
        ensure(db, tmp_path)


def test_a_file_with_the_id_of_a_key_and_another_secret_is_refused(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path)
    with db.begin() as session:
        session.execute(text("UPDATE api_keys SET digest = '\\x00'"))
    with pytest.raises(BadAdminKey, match="another secret"):
        ensure(db, tmp_path)


def test_a_configured_key_is_registered_and_no_file_is_made(db: Database, tmp_path: Path) -> None:
    assert ensure(db, tmp_path, CONFIGURED) == FirstKey(path=None, created=False)
    assert opens(db, CONFIGURED.reveal())
    assert [row.id for row in rows(db)] == ["admin-env"]
    assert list(tmp_path.iterdir()) == []


def test_a_configured_key_may_end_with_a_line_break(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path, Secret(f"{CONFIGURED.reveal()}\n"))
    assert opens(db, CONFIGURED.reveal())


def test_an_empty_variable_is_no_key(db: Database, tmp_path: Path) -> None:
    assert ensure(db, tmp_path, Secret("")).created


def test_a_key_of_ours_can_be_configured(db: Database, tmp_path: Path) -> None:
    token = generate_token("admin").text
    ensure(db, tmp_path, Secret(token))
    assert opens(db, token)


def test_a_changed_variable_replaces_the_key(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path, CONFIGURED)
    ensure(db, tmp_path, OTHER)
    assert (opens(db, CONFIGURED.reveal()), opens(db, OTHER.reveal())) == (False, True)
    assert len(rows(db)) == 1


def test_a_removed_variable_ends_its_key(db: Database, tmp_path: Path) -> None:
    ensure(db, tmp_path, CONFIGURED)
    assert ensure(db, tmp_path).created
    assert not opens(db, CONFIGURED.reveal())


def test_a_configured_key_that_was_revoked_stays_so_until_the_variable_changes(
    db: Database, tmp_path: Path
) -> None:
    ensure(db, tmp_path, CONFIGURED)
    revoke(db, CONFIGURED.reveal())
    ensure(db, tmp_path, CONFIGURED)
    assert not opens(db, CONFIGURED.reveal())
    ensure(db, tmp_path)
    ensure(db, tmp_path, CONFIGURED)
    assert not opens(db, CONFIGURED.reveal())
    ensure(db, tmp_path, OTHER)
    assert opens(db, OTHER.reveal())


def test_a_short_configured_key_is_refused_without_showing_it(db: Database, tmp_path: Path) -> None:
    with pytest.raises(BadAdminKey, match=r"MOSAICO_ADMIN_KEY.*24") as refusal:
        ensure(db, tmp_path, Secret("too-short"))
    assert "too-short" not in str(refusal.value)
    assert rows(db) == []


PROCESSES = 4


def test_processes_that_start_at_once_make_one_key(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(PROCESSES)
    created: Queue[bool] = context.Queue()
    starts = [
        context.Process(target=make_first_key, args=(database_url, str(tmp_path), gate, created))
        for _ in range(PROCESSES)
    ]
    for process in starts:
        process.start()
    answers = sorted(created.get(timeout=60) for _ in starts)
    for process in starts:
        process.join(60)
    assert answers == [False, False, False, True]
    assert len(rows(db)) == 1
    assert opens(db, token_in(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["admin.key"]
