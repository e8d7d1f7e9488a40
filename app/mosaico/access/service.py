"""Creates, changes and revokes API keys; ensures that a first admin key exists."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.access.models import ApiKey, IdempotencyKey, Person
from mosaico.access.queries import (
    CONFIGURED_KEY_ID,
    find_usable_admin,
    lock_all_keys,
    lock_key,
)
from mosaico.access.rules import (
    ApiToken,
    RoleName,
    configured_key_error,
    generate_token,
    hash_token,
    is_usable,
    parse_token,
)
from mosaico.access.schemas import ApiKeyPatch
from mosaico.core.batch_delete import delete_batch
from mosaico.core.batches import batched
from mosaico.core.clock import Clock, utc_now
from mosaico.core.db import Database
from mosaico.core.encryption import Secret
from mosaico.core.errors import Conflict, ErrorItem, Invalid, Misconfigured
from mosaico.core.row_limits import LIMITED_ROLE, find_benchmark_ids, has_limits
from mosaico.core.secret_files import ADMIN_KEY_FILE, read_secret_file, replace_secret_file

FIRST_KEY_NAME = "first admin key"
USE_INTERVAL = timedelta(minutes=1)


class LastAdminKey(Conflict):
    """This is the last admin key; create another admin key first, then revoke this one with it."""


class ApiKeyRevoked(Conflict):
    """This API key is revoked and can no longer be changed; create a new key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedKey:
    """A new API key. `token` is the only copy of its text."""

    id: str
    token: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKey:
    """The file of the first admin key; `path` is None when the operator configured a key."""

    path: Path | None
    created: bool


def create_key(
    session: Session,
    name: str,
    role: RoleName,
    *,
    now: datetime,
    expires_at: datetime | None = None,
    person_id: str | None = None,
    only: Sequence[str] | None = None,
) -> CreatedKey:
    """Create a key; only the return value contains its text. Raises `Invalid`."""
    _check_name(name)
    if person_id is not None and session.get(Person, person_id) is None:
        detail = "names nobody who has logged in"
        raise Invalid("unknown person", errors=[ErrorItem(pointer="/personId", detail=detail)])
    _check_expiry(expires_at, now=now)
    if only is not None:
        check_limit(session, only, role)
    token = generate_token(role)
    _insert_key(
        session,
        token,
        name=name,
        role=role,
        now=now,
        expires_at=expires_at,
        person_id=person_id,
        only=only,
    )
    return CreatedKey(id=token.key_id, token=Secret(token.text))


def check_limit(session: Session, only: Sequence[str], role: str) -> None:
    """Raises `Invalid` for a limit that cannot hold: of administrators, of nothing, of unknown benchmarks, or without its
    database role.
    """
    reason = None
    if role == "admin":
        reason = "admins see everything; give the key the role read or run"
    elif not only:
        reason = "is empty; name at least one benchmark, or send null for all"
    elif not has_limits(session):
        reason = f"needs the database role {LIMITED_ROLE}: create it as docs/access.md says, then run `mosaico db upgrade`"
    if reason is not None:
        raise Invalid("limit not possible", errors=[ErrorItem(pointer="/only", detail=reason)])
    _require_benchmarks(session, only)


def _require_benchmarks(session: Session, ids: Sequence[str]) -> None:
    existing = find_benchmark_ids(session, ids)
    errors = [
        ErrorItem(
            pointer=f"/only/{index}",
            detail=f"{benchmark_id!r} is no benchmark; the list of benchmarks has their IDs",
        )
        for index, benchmark_id in enumerate(ids)
        if benchmark_id not in existing
    ]
    if errors:
        raise Invalid("unknown benchmark in the limit", errors=errors)


def update_key(session: Session, key_id: str, body: ApiKeyPatch, *, now: datetime) -> None:
    """Change the sent fields of a key; a later expiry makes an expired key usable again.

    Raises: `UnknownApiKey`, `ApiKeyRevoked`, `Invalid`, `LastAdminKey`.
    Locks:  as `lock_key`.
    """
    row = lock_key(session, key_id)
    if row.revoked_at is not None:
        raise ApiKeyRevoked
    fields = body.given_fields()
    if "name" in fields:
        _check_name(fields["name"], current=row.name)
        row.name = fields["name"]
    if "expires_at" in fields:
        _check_expiry(fields["expires_at"], now=now)
        _require_later_admin(session, row, fields["expires_at"])
        row.expires_at = fields["expires_at"]
    session.flush()


def revoke_key(session: Session, key_id: str, *, now: datetime) -> None:
    """Revoke a key; revoking it twice changes nothing.

    Raises: `UnknownApiKey`, `LastAdminKey`.
    Locks:  as `lock_key`.
    """
    row = lock_key(session, key_id)
    if row.revoked_at is not None:
        return
    # Nobody could create a key any more.
    if _is_last_admin(session, row, at=now):
        raise LastAdminKey
    row.revoked_at = now
    session.flush()


def record_use(session: Session, key_id: str, *, now: datetime) -> None:
    """Record the use of a key, at most once a minute over all processes."""
    session.execute(
        update(ApiKey)
        .where(
            ApiKey.id == key_id,
            or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at <= now - USE_INTERVAL),
        )
        .values(last_used_at=now)
    )


def ensure_first_admin_key(
    db: Database, data_dir: Path, configured: Secret | None, *, clock: Clock = utc_now
) -> FirstKey:
    """Ensure that an admin key exists.

    The configured key (MOSAICO_ADMIN_KEY) is registered and replaces its former value. Without
    one, a key is created once and written to `admin.key` in the data directory, mode 0600.
    Raises: `Misconfigured`, `UnsafeSecretFile`.
    Locks:  one process at a time, so that processes that start together create one key.
    """
    with db.begin() as session:
        # Starts wait for each other longer than the lock timeout of requests allows.
        session.execute(text("SET LOCAL lock_timeout = 0"))
        lock_all_keys(session)
        if configured is not None and configured.reveal().strip():
            _register_configured_key(session, configured.reveal().strip(), now=clock())
            return FirstKey(path=None, created=False)
        _delete_configured_key(session)
        return _ensure_key_in_file(session, data_dir / ADMIN_KEY_FILE, now=clock())


def _insert_key(
    session: Session,
    token: ApiToken,
    *,
    name: str,
    role: RoleName,
    now: datetime,
    expires_at: datetime | None = None,
    person_id: str | None = None,
    only: Sequence[str] | None = None,
) -> None:
    session.add(
        ApiKey(
            id=token.key_id,
            name=name,
            role=role,
            digest=hash_token(token.text),
            created_at=now,
            expires_at=expires_at,
            person_id=person_id,
            only=None if only is None else list(only),
        )
    )
    session.flush()


def _check_name(name: str, *, current: str | None = None) -> None:
    """Raises `Invalid` for the name by which a start finds the key of the admin key file."""
    if name == current or FIRST_KEY_NAME not in (name, current):
        return
    detail = (
        "cannot be changed for the first admin key; omit it"
        if current == FIRST_KEY_NAME
        else "is reserved for the first admin key; send another name"
    )
    raise Invalid("the name cannot be used", errors=[ErrorItem(pointer="/name", detail=detail)])


def _check_expiry(expires_at: datetime | None, *, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise Invalid(
            "the key would already be expired",
            errors=[ErrorItem(pointer="/expiresAt", detail="is in the past; send a later time")],
        )


def _require_later_admin(session: Session, row: ApiKey, expires_at: datetime | None) -> None:
    """Raises `LastAdminKey` if a key gets an earlier expiry, and no other admin key outlives it."""
    if expires_at is not None and _is_last_admin(session, row, at=expires_at):
        raise LastAdminKey(
            "no other admin key is usable after this expiry; create another admin key first, or"
            " send a later time"
        )


def _is_last_admin(session: Session, row: ApiKey, *, at: datetime) -> bool:
    """Return whether a key is the only admin key that is usable at a time."""
    is_usable_at = is_usable(expires_at=row.expires_at, revoked_at=row.revoked_at, now=at)
    if row.role != "admin" or not is_usable_at:
        return False
    return find_usable_admin(session, at, ApiKey.id != row.id) is None


def _register_configured_key(session: Session, key: str, *, now: datetime) -> None:
    error = configured_key_error(key)
    if error is not None:
        raise Misconfigured(f"MOSAICO_ADMIN_KEY cannot be the admin key: {error}")
    # An unchanged variable leaves the row unchanged, so that a revoked key stays revoked.
    row = insert(ApiKey).values(
        id=CONFIGURED_KEY_ID,
        name="MOSAICO_ADMIN_KEY",
        role="admin",
        digest=hash_token(key),
        created_at=now,
    )
    session.execute(
        row.on_conflict_do_update(
            index_elements=[ApiKey.id],
            set_={
                "digest": row.excluded.digest,
                "created_at": now,
                "expires_at": None,
                "revoked_at": None,
            },
            where=ApiKey.digest != row.excluded.digest,
        )
    )


def _delete_configured_key(session: Session) -> None:
    session.execute(
        delete(ApiKey).where(ApiKey.id == CONFIGURED_KEY_ID, ApiKey.revoked_at.is_(None))
    )


def _ensure_key_in_file(session: Session, path: Path, *, now: datetime) -> FirstKey:
    """A revoked key stays revoked: a new one is created only when no other admin key is left."""
    token = _read_key_file(path)
    if token is not None:
        row = session.get(ApiKey, token.key_id)
        if row is None:
            # The data folder outlived its database, or the file comes from another folder.
            _replace_first_key(session, token, now=now)
            return FirstKey(path=path, created=False)
        _require_same_secret(token, row)
        if row.revoked_at is None:
            return FirstKey(path=path, created=False)
    # An active key without its file: nobody can read it any more, so it is replaced.
    is_lost = find_usable_admin(session, now, ApiKey.name == FIRST_KEY_NAME) is not None
    if not is_lost and find_usable_admin(session, now, ApiKey.name != FIRST_KEY_NAME):
        return FirstKey(path=None, created=False)
    token = generate_token("admin")
    # The file is written before the commit: if the commit fails, the next start registers the key
    # in the file. In the other order a crash would lose the text of a registered key.
    replace_secret_file(path, token.text)
    _replace_first_key(session, token, now=now)
    return FirstKey(path=path, created=True)


def _read_key_file(path: Path) -> ApiToken | None:
    content = read_secret_file(path)
    if content is None:
        return None
    token = parse_token(content)
    if token is None:
        raise Misconfigured(
            f"{path} does not contain a key of MOSAICO; restore it, or delete it, and a new key is"
            " created at the next start (which revokes the old one)"
        )
    return token


def _require_same_secret(token: ApiToken, row: ApiKey) -> None:
    if row.digest != hash_token(token.text):
        raise Misconfigured(
            "the admin key file contains the ID of a stored key, but another secret; delete the "
            "file, and a new key is created at the next start"
        )


def _replace_first_key(session: Session, token: ApiToken, *, now: datetime) -> None:
    """Revoke the first admin keys, and register another one."""
    active = select(ApiKey.id).where(
        ApiKey.role == "admin", ApiKey.name == FIRST_KEY_NAME, ApiKey.revoked_at.is_(None)
    )
    for batch in batched(session.scalars(active).all()):
        session.execute(update(ApiKey).where(ApiKey.id.in_(batch)).values(revoked_at=now))
    _insert_key(session, token, name=FIRST_KEY_NAME, role="admin", now=now)


def delete_expired_responses(session: Session, now: datetime) -> int:
    """Delete one batch of expired idempotent responses; see `delete_batch`."""
    return delete_batch(session, IdempotencyKey, IdempotencyKey.expires_at <= now)
