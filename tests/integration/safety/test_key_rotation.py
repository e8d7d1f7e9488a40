"""Rotation of the master key while the service runs."""

import base64
import secrets
import threading
from contextlib import ExitStack

import pytest
from sqlalchemy import select, text

from mosaico.agents.models import Agent
from mosaico.agents.service import reveal_secret
from mosaico.core import key_rotation, row_windows
from mosaico.core.db import Database
from mosaico.core.encryption import SecretBox, UnknownMasterKey
from mosaico.core.errors import Unavailable
from mosaico.core.key_rotation import (
    EncryptedColumn,
    RotationResult,
    count_key_usage,
    drop_lost_secrets,
    list_encrypted_columns,
    require_known_keys,
    rotate_keys,
)
from mosaico.table_list import METADATA

COLUMNS = list_encrypted_columns(METADATA)
SECRETS = "agents.langfuse_secret_key"


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


OLD, NEW, LOST = new_key(), new_key(), new_key()
BEFORE = SecretBox.from_keys([OLD])
DURING = SecretBox.from_keys([NEW, OLD])
AFTER = SecretBox.from_keys([NEW])


@pytest.fixture
def db(migrated_database: Database) -> Database:
    return migrated_database


def encrypt(box: SecretBox, agent_id: str, plain: str) -> str:
    return box.encrypt(plain, table="agents", row=agent_id, column="langfuse_secret_key")


def add_agents(db: Database, box: SecretBox, count: int, prefix: str = "agent") -> None:
    with db.begin() as session:
        for number in range(count):
            agent_id = f"{prefix}-{number:04}"
            secret = encrypt(box, agent_id, f"sk-{agent_id}")
            session.add(Agent(id=agent_id, name="Pelican", langfuse_secret_key=secret))
        session.add(Agent(id=f"{prefix}-without", name="Pelican"))


def reveal_secrets(db: Database, box: SecretBox) -> dict[str, str | None]:
    with db.read() as session:
        agents = session.scalars(select(Agent)).all()
        secrets_by_id = {agent.id: reveal_secret(agent, box) for agent in agents}
    return {
        agent_id: secret.reveal() if secret else None for agent_id, secret in secrets_by_id.items()
    }


def count_texts_by_key(db: Database) -> dict[str, int]:
    return {use.key_id: use.text_count for use in count_key_usage(db, COLUMNS)}


def test_list_encrypted_columns__finds_the_columns_marked_in_the_models() -> None:
    names = [column.name for column in COLUMNS]
    assert {SECRETS, "idempotency_keys.response", "webhook_secrets.secret"} <= set(names)


@pytest.mark.parametrize("window_rows", [5_000, 70])
def test_rotate_keys__reencrypts_everything_so_that_the_old_key_is_unneeded(
    db: Database, window_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one window of three batches, and in windows smaller than a batch."""
    monkeypatch.setattr(row_windows, "WINDOW_ROWS", window_rows)
    add_agents(db, BEFORE, 450)
    secrets_before = reveal_secrets(db, BEFORE)

    rotations = rotate_keys(db, COLUMNS, DURING)

    expected = RotationResult(column=SECRETS, reencrypted=450, remaining=0)
    assert [rotation for rotation in rotations if rotation.reencrypted] == [expected]
    assert count_texts_by_key(db) == {AFTER.encryption_key_id: 450}
    assert reveal_secrets(db, AFTER) == secrets_before
    assert {rotation.reencrypted for rotation in rotate_keys(db, COLUMNS, DURING)} == {0}


def test_rotate_keys__keeps_secrets_written_during_the_rotation(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process changes secrets with the old key until the rotation has finished."""
    monkeypatch.setattr(key_rotation, "MAX_PASSES", 5)
    add_agents(db, BEFORE, 300)
    stop, written = threading.Event(), dict[str, str]()

    def write_continuously() -> None:
        number = 0
        while not stop.is_set():
            agent_id, plain = f"agent-{number % 300:04}", f"sk-newer-{number}"
            number += 1
            try:
                with db.begin() as session:
                    agent = session.get(Agent, agent_id, with_for_update=True)
                    assert agent is not None
                    agent.langfuse_secret_key = encrypt(BEFORE, agent_id, plain)
            except Unavailable:
                # The rotation held the row for longer than the lock timeout of a request.
                continue
            written[agent_id] = plain

    writer = threading.Thread(target=write_continuously)
    writer.start()
    results = rotate_keys(db, COLUMNS, DURING)
    stop.set()
    writer.join()
    assert sum(rotation.reencrypted for rotation in results) >= 300

    # The writer has ended: now a rotation finds the rest.
    assert all(rotation.remaining == 0 for rotation in rotate_keys(db, COLUMNS, DURING))
    stored = reveal_secrets(db, AFTER)
    assert written
    assert {agent_id: stored[agent_id] for agent_id in written} == written


def test_rotate_keys__row_that_another_transaction_holds_is_rotated_after_its_end(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_agents(db, BEFORE, 3)
    with ExitStack() as transaction:
        session = transaction.enter_context(db.begin())
        session.get(Agent, "agent-0001", with_for_update=True)
        # The pause between two passes ends the other transaction.
        monkeypatch.setattr("mosaico.core.key_rotation.time.sleep", lambda _: transaction.close())
        rotations = {rotation.column: rotation for rotation in rotate_keys(db, COLUMNS, DURING)}
    assert (rotations[SECRETS].reencrypted, rotations[SECRETS].remaining) == (3, 0)


def test_rotate_keys__counts_texts_that_cannot_be_decrypted(db: Database) -> None:
    add_agents(db, BEFORE, 3)
    add_agents(db, SecretBox.from_keys([LOST]), 2, prefix="lost")
    # A text decrypts only in the row that it was encrypted for.
    with db.begin() as session:
        move_secret = text(
            "UPDATE agents SET langfuse_secret_key = :encrypted WHERE id = 'agent-0000'"
        )
        session.execute(move_secret, {"encrypted": encrypt(BEFORE, "agent-0001", "sk")})

    rotations = {rotation.column: rotation for rotation in rotate_keys(db, COLUMNS, DURING)}

    # The two lost ones and the moved one remain.
    assert (rotations[SECRETS].reencrypted, rotations[SECRETS].remaining) == (2, 3)


def test_require_known_keys__missing_key_is_refused_with_a_remedy(db: Database) -> None:
    add_agents(db, BEFORE, 2)
    with db.read() as session, pytest.raises(UnknownMasterKey) as refused:
        require_known_keys(session, COLUMNS, AFTER)
    message = str(refused.value)
    assert f"master key {BEFORE.encryption_key_id} (2 in {SECRETS})" in message
    assert "MOSAICO_MASTER_KEYS_OLD" in message
    assert f"mosaico secrets drop-lost {BEFORE.encryption_key_id}" in message
    with db.read() as session:
        require_known_keys(session, COLUMNS, DURING)


def test_drop_lost_secrets__clears_the_texts_of_one_key(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_windows, "WINDOW_ROWS", 2)
    lost_box = SecretBox.from_keys([LOST])
    add_agents(db, BEFORE, 2)
    add_agents(db, lost_box, 3, prefix="lost")
    # A key ID is compared with LIKE, but its wildcards are escaped.
    assert drop_lost_secrets(db, COLUMNS, "%") == 0
    assert drop_lost_secrets(db, COLUMNS, lost_box.encryption_key_id) == 3
    assert count_texts_by_key(db) == {BEFORE.encryption_key_id: 2}
    assert reveal_secrets(db, BEFORE)["lost-0001"] is None


def test_drop_lost_secrets__deletes_rows_that_need_their_secret(db: Database) -> None:
    [response_column] = [column for column in COLUMNS if column.name == "idempotency_keys.response"]
    add_response(db, response_column, SecretBox.from_keys([LOST]))
    assert drop_lost_secrets(db, COLUMNS, SecretBox.from_keys([LOST]).encryption_key_id) == 1
    with db.read() as session:
        assert session.scalar(text("SELECT count(*) FROM idempotency_keys")) == 0


def test_rotate_keys__reencrypts_stored_idempotent_responses(db: Database) -> None:
    [response_column] = [column for column in COLUMNS if column.name == "idempotency_keys.response"]
    add_response(db, response_column, BEFORE)
    rotate_keys(db, COLUMNS, DURING)
    with db.read() as session:
        value = session.scalar(select(response_column.value))
    assert isinstance(value, str)
    assert (
        AFTER.decrypt(value, table="idempotency_keys", row="a", column="response").reveal() == "{}"
    )


def add_response(db: Database, response_column: EncryptedColumn, box: SecretBox) -> None:
    value = box.encrypt("{}", table="idempotency_keys", row="a", column="response")
    with db.begin() as session:
        session.execute(
            response_column.table.insert().values(
                id="a",
                api_key_id="k",
                method="POST",
                path="/",
                fingerprint=b"",
                status=201,
                response=value,
                created_at=text("now()"),
                expires_at=text("now()"),
            )
        )
