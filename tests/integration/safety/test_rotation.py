"""The master key is changed while the service goes on."""

import base64
import secrets
import threading

import pytest
from sqlalchemy import select, text

from app.agents.models import Agent
from app.agents.service import reveal_secret
from app.core.db import Database
from app.core.errors import Unavailable
from app.core.sealed import (
    MissingMasterKey,
    SealedColumn,
    forget,
    key_uses,
    require_known_keys,
    rotate,
    sealed_columns,
)
from app.core.secrets import SecretBox
from app.tables import METADATA

COLUMNS = sealed_columns(METADATA)
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


def sealed(box: SecretBox, agent_id: str, plain: str) -> str:
    return box.seal(plain, table="agents", row=agent_id, column="langfuse_secret_key")


def add_agents(db: Database, box: SecretBox, count: int, prefix: str = "agent") -> None:
    with db.begin() as session:
        for number in range(count):
            agent_id = f"{prefix}-{number:04}"
            secret = sealed(box, agent_id, f"sk-{agent_id}")
            session.add(Agent(id=agent_id, name="Pelican", langfuse_secret_key=secret))
        session.add(Agent(id=f"{prefix}-without", name="Pelican"))


def revealed(db: Database, box: SecretBox) -> dict[str, str | None]:
    with db.read() as session:
        agents = session.scalars(select(Agent)).all()
        found = {agent.id: reveal_secret(agent, box) for agent in agents}
    return {agent_id: secret.reveal() if secret else None for agent_id, secret in found.items()}


def uses(db: Database) -> dict[str, int]:
    with db.read() as session:
        return {use.key_id: use.texts for use in key_uses(session, COLUMNS)}


def test_the_sealed_columns_are_those_whose_models_say_so() -> None:
    names = [column.name for column in COLUMNS]
    assert {SECRETS, "idempotency_keys.answer", "webhook_secrets.secret"} <= set(names)


def test_everything_is_sealed_anew_and_the_old_key_is_needed_no_more(db: Database) -> None:
    add_agents(db, BEFORE, 450)  # three batches
    secrets_before = revealed(db, BEFORE)

    [done] = [done for done in rotate(db, COLUMNS, DURING) if done.resealed]

    assert done == (done.__class__)(column=SECRETS, resealed=450, left=0)
    assert uses(db) == {AFTER.sealing_id: 450}
    assert revealed(db, AFTER) == secrets_before
    assert {done.resealed for done in rotate(db, COLUMNS, DURING)} == {0}


def test_a_secret_that_is_written_meanwhile_is_kept(db: Database) -> None:
    """An older process seals with the old key, and changes secrets, until the rotation is over."""
    add_agents(db, BEFORE, 300)
    stop, written = threading.Event(), dict[str, str]()

    def write_on() -> None:
        number = 0
        while not stop.is_set():
            agent_id, plain = f"agent-{number % 300:04}", f"sk-newer-{number}"
            number += 1
            try:
                with db.begin() as session:
                    agent = session.get(Agent, agent_id, with_for_update=True)
                    assert agent is not None
                    agent.langfuse_secret_key = sealed(BEFORE, agent_id, plain)
            except Unavailable:
                continue
            written[agent_id] = plain

    writer = threading.Thread(target=write_on)
    writer.start()
    rotated_meanwhile = rotate(db, COLUMNS, DURING)
    stop.set()
    writer.join()
    assert sum(done.resealed for done in rotated_meanwhile) >= 300

    assert all(done.left == 0 for done in rotate(db, COLUMNS, DURING))
    kept = revealed(db, AFTER)
    assert written
    assert {agent_id: kept[agent_id] for agent_id in written} == written


def test_what_cannot_be_opened_is_left_and_told(db: Database) -> None:
    add_agents(db, BEFORE, 3)
    add_agents(db, SecretBox.from_keys([LOST]), 2, prefix="lost")
    with db.begin() as session:
        moved = text("UPDATE agents SET langfuse_secret_key = :sealed WHERE id = 'agent-0000'")
        session.execute(moved, {"sealed": sealed(BEFORE, "agent-0001", "sk")})

    [done] = [done for done in rotate(db, COLUMNS, DURING) if done.column == SECRETS]

    assert (done.resealed, done.left) == (2, 3)


def test_a_key_that_is_still_needed_cannot_be_dropped(db: Database) -> None:
    add_agents(db, BEFORE, 2)
    with db.read() as session, pytest.raises(MissingMasterKey) as refused:
        require_known_keys(session, COLUMNS, AFTER)
    said = str(refused.value)
    assert f"master key {BEFORE.sealing_id} (2 in {SECRETS})" in said
    assert "MOSAICO_MASTER_KEYS_OLD" in said
    assert f"mosaico secrets forget {BEFORE.sealing_id}" in said
    with db.read() as session:
        require_known_keys(session, COLUMNS, DURING)


def test_what_a_lost_key_has_sealed_can_be_given_up(db: Database) -> None:
    lost = SecretBox.from_keys([LOST])
    add_agents(db, BEFORE, 2)
    add_agents(db, lost, 3, prefix="lost")
    with db.begin() as session:
        assert forget(session, COLUMNS, "%") == 0
        assert forget(session, COLUMNS, lost.sealing_id) == 3
    assert uses(db) == {BEFORE.sealing_id: 2}
    assert revealed(db, BEFORE)["lost-0001"] is None


def test_a_row_that_is_nothing_without_its_secret_is_given_up_with_it(db: Database) -> None:
    [answers] = [column for column in COLUMNS if column.name == "idempotency_keys.answer"]
    add_answer(db, answers, SecretBox.from_keys([LOST]))
    with db.begin() as session:
        assert forget(session, COLUMNS, SecretBox.from_keys([LOST]).sealing_id) == 1
        assert session.scalar(text("SELECT count(*) FROM idempotency_keys")) == 0


def test_answers_that_may_be_repeated_are_sealed_anew_too(db: Database) -> None:
    [answers] = [column for column in COLUMNS if column.name == "idempotency_keys.answer"]
    add_answer(db, answers, BEFORE)
    rotate(db, COLUMNS, DURING)
    with db.read() as session:
        value = session.scalar(select(answers.value))
    assert isinstance(value, str)
    assert AFTER.open(value, table="idempotency_keys", row="a", column="answer").reveal() == "{}"


def add_answer(db: Database, answers: SealedColumn, box: SecretBox) -> None:
    value = box.seal("{}", table="idempotency_keys", row="a", column="answer")
    with db.begin() as session:
        session.execute(
            answers.table.insert().values(
                id="a",
                api_key_id="k",
                method="POST",
                path="/",
                fingerprint=b"",
                status=201,
                answer=value,
                created_at=text("now()"),
                expires_at=text("now()"),
            )
        )
