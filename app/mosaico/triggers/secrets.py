"""Secrets that sign the calls of triggers: of a benchmark's webhook, and of Langfuse."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mosaico.benchmarks.queries import get_benchmark
from mosaico.core.dependents import DEPENDENTS, MAX_FOUND, DeletedResource, Dependent, DependentKind
from mosaico.core.encryption import Secret, SecretBox
from mosaico.core.errors import Conflict
from mosaico.core.ids import new_id
from mosaico.core.text import format_utc
from mosaico.triggers import queries
from mosaico.triggers.models import WebhookSecret
from mosaico.triggers.rules import MAX_SECRETS, decode_key, generate_secret
from mosaico.triggers.schemas import LangfuseSecretCreate

# Of the advisory lock of those who count the secrets of Langfuse and add one.
_LANGFUSE_LOCK: Final = 4_160_017_504


class TooManySecrets(Conflict):
    """The number of secrets has reached its limit; delete the secrets that are no longer used."""


class SigningSecret(NamedTuple):
    """The decrypted key of a webhook secret."""

    id: str
    key: bytes


class CreatedWebhookSecret(NamedTuple):
    """A new secret. `text` is its only plain copy."""

    row: WebhookSecret
    text: Secret


def create_webhook_secret(
    session: Session,
    benchmark_id: str,
    box: SecretBox,
    now: datetime,
    *,
    previous_expires_after: timedelta | None = None,
) -> CreatedWebhookSecret:
    """Create a secret for a benchmark; previous secrets stay valid, or expire after that time.

    Raises: `TooManySecrets`, `BenchmarkNotFound`.
    """
    get_benchmark(session, benchmark_id, for_update=True)
    previous = queries.list_active_secrets(session, benchmark_id, now)
    if previous_expires_after is not None:
        expires_at = now + previous_expires_after
        for row in previous:
            row.expires_at = min(row.expires_at or expires_at, expires_at)
    # After the previous secrets were shortened: a rotation must not fail at the limit.
    _require_secret_quota([r for r in previous if r.expires_at is None or r.expires_at > now])
    text = generate_secret()
    row = _insert_secret(session, benchmark_id, None, text, box, now)
    return CreatedWebhookSecret(row, Secret(text))


def create_langfuse_secret(
    session: Session, body: LangfuseSecretCreate, box: SecretBox, now: datetime
) -> WebhookSecret:
    """Store a secret that Langfuse generated. Raises `TooManySecrets`.

    Locks: the number of these secrets, which belong to no row that could be locked.
    """
    _lock_langfuse_secrets(session)
    _require_secret_quota(queries.list_active_secrets(session, None, now))
    return _insert_secret(session, None, body.name, body.secret.get_secret_value(), box, now)


def delete_secret(session: Session, benchmark_id: str | None, secret_id: str) -> None:
    """Delete a secret; calls that are signed with it are rejected from now on."""
    session.delete(queries.get_secret(session, benchmark_id, secret_id))
    session.flush()


def list_signing_secrets(
    session: Session, benchmark_id: str | None, box: SecretBox, now: datetime
) -> list[SigningSecret]:
    """The valid secrets for calls of a benchmark, or of Langfuse when `benchmark_id` is None."""
    rows = queries.list_active_secrets(session, benchmark_id, now)
    return [SigningSecret(row.id, decode_key(_decrypt(row, box).reveal())) for row in rows]


def list_secret_texts(
    session: Session, benchmark_id: str, box: SecretBox, now: datetime
) -> list[Secret]:
    """The valid secrets of a benchmark, to sign a request with."""
    rows = queries.list_active_secrets(session, benchmark_id, now)
    return [_decrypt(row, box) for row in rows]


def _lock_langfuse_secrets(session: Session) -> None:
    session.execute(select(func.pg_advisory_xact_lock(_LANGFUSE_LOCK)))


def _require_secret_quota(rows: list[WebhookSecret]) -> None:
    if len(rows) >= MAX_SECRETS:
        raise TooManySecrets


def _insert_secret(
    session: Session,
    benchmark_id: str | None,
    name: str | None,
    text: str,
    box: SecretBox,
    now: datetime,
) -> WebhookSecret:
    row = WebhookSecret(id=new_id(), benchmark_id=benchmark_id, name=name, created_at=now)
    row.secret = box.encrypt(text, table="webhook_secrets", row=row.id, column="secret")
    session.add(row)
    session.flush()
    return row


def _decrypt(row: WebhookSecret, box: SecretBox) -> Secret:
    return box.decrypt(row.secret, table="webhook_secrets", row=row.id, column="secret")


def _find_secrets_of(session: Session, owner: DeletedResource) -> list[Dependent]:
    """The webhook secrets of a benchmark: without them, the callers of its webhook are refused."""
    statement = select(WebhookSecret.id, WebhookSecret.created_at).where(
        WebhookSecret.benchmark_id == owner.id
    )
    rows = session.execute(statement.order_by(WebhookSecret.id).limit(MAX_FOUND))
    # Nobody names them: their list has the ID and the time, too.
    return [Dependent("webhook secret", row.id, f"of {format_utc(row.created_at)}") for row in rows]


def _delete_secrets_of(session: Session, owner: DeletedResource, now: datetime) -> None:  # noqa: ARG001 - as others
    for secret in session.scalars(
        select(WebhookSecret).where(WebhookSecret.benchmark_id == owner.id)
    ):
        session.delete(secret)
    session.flush()


DEPENDENTS.append(DependentKind({"benchmark"}, _find_secrets_of, _delete_secrets_of))
