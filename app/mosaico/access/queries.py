"""Reads API keys and the audit log."""

import hmac
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic import Field
from sqlalchemy import ColumnElement, Row, Select, func, select, union_all
from sqlalchemy.orm import Session

from mosaico.access.audit import AuditOutcome, CallerType
from mosaico.access.models import ApiKey, AuditEntry, Person
from mosaico.access.rules import (
    KeyFormat,
    RoleName,
    classify_key,
    hash_token,
    is_usable,
    parse_token,
    role_within,
)
from mosaico.access.schemas import ApiKeyView, AuditEntryView
from mosaico.core.errors import NotFound
from mosaico.core.keyset import PageQuery, select_page
from mosaico.core.list_filters import Period, match_columns, one_value
from mosaico.core.names import Names, list_newest_names
from mosaico.core.revisions import RevisionColumns, RevisionView
from mosaico.core.schemas import Page, PeriodFilter, view_of_row

CONFIGURED_KEY_ID = "admin-env"
# Any constant that is the same in all processes and used for nothing else.
KEYS_LOCK = 0x6D6F73616963_6B
MAX_COUNTED = 1_000

RevisionViewType = TypeVar("RevisionViewType", bound=RevisionView)


class UnknownApiKey(NotFound):
    """No API key has this ID; GET /api/v1/keys lists all keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerIdentity:
    """What authentication needs of an API key, or of a person: `revoked_at` is when a person was blocked."""

    id: str
    role: str
    expires_at: datetime | None
    revoked_at: datetime | None
    type: CallerType = "key"
    only: tuple[str, ...] | None = None


SELECT_KEYS: Final = select(
    ApiKey.id,
    ApiKey.role,
    ApiKey.digest,
    ApiKey.expires_at,
    ApiKey.revoked_at,
    ApiKey.only,
    Person.blocked_at,
    Person.only.label("person_only"),
).outerjoin(Person, Person.id == ApiKey.person_id)


def find_usable_admin(
    session: Session, now: datetime, *conditions: ColumnElement[bool]
) -> str | None:
    """The ID of the admin key that matches conditions and expires last; None if none is usable."""
    row = session.execute(_select_active("admin").where(*conditions).limit(1)).first()
    return row.id if row is not None and _is_usable(row, now) else None


def count_usable_keys(session: Session, role: RoleName, now: datetime) -> int:
    """The number of usable keys of a role, `MAX_COUNTED` at most."""
    rows = session.execute(_select_active(role).limit(MAX_COUNTED))
    return sum(_is_usable(row, now) for row in rows)


def _select_active(role: RoleName) -> Select[*tuple[Any, ...]]:
    """The keys of a role that are not revoked: those that never expire first, then those that expire last."""
    columns = (ApiKey.id, ApiKey.expires_at, ApiKey.revoked_at)
    active = select(*columns).where(ApiKey.role == role, ApiKey.revoked_at.is_(None))
    # NULL comes first in a descending order.
    return active.order_by(ApiKey.expires_at.desc())


def _is_usable(row: Row[Any], now: datetime) -> bool:
    return is_usable(expires_at=row.expires_at, revoked_at=row.revoked_at, now=now)


def find_key(session: Session, token: str) -> CallerIdentity | None:
    """The key of a token, revoked and expired ones too; None when it does not exist.

    Cost: one lookup by primary key, none for a token with a wrong checksum.
    """
    if classify_key(token) is KeyFormat.BAD_CHECKSUM:
        return None
    token_parts = parse_token(token)
    ids = [CONFIGURED_KEY_ID] if token_parts is None else [CONFIGURED_KEY_ID, token_parts.key_id]
    token_hash = hash_token(token)
    for row in session.execute(SELECT_KEYS.where(ApiKey.id.in_(ids))):
        if hmac.compare_digest(row.digest, token_hash):
            return key_identity(row)
    return None


def list_caller_identities(session: Session, ids: AbstractSet[str]) -> list[CallerIdentity]:
    """The keys and people with these IDs that exist."""
    keys = session.execute(SELECT_KEYS.where(ApiKey.id.in_(ids)))
    people = session.scalars(select(Person).where(Person.id.in_(ids)))
    return [*map(key_identity, keys), *map(person_identity, people)]


def list_caller_names(session: Session, ids: AbstractSet[str | None]) -> dict[str, str]:
    """The names of the keys and people with these IDs that exist; None is nobody."""
    keys = select(ApiKey.id, ApiKey.name).where(ApiKey.id.in_(ids))
    people = select(Person.id, Person.name).where(Person.id.in_(ids))
    return {row.id: row.name for row in session.execute(union_all(keys, people))}


def lock_all_keys(session: Session) -> None:
    """Wait for the transactions that change keys, and let others wait until this one ends."""
    session.execute(select(func.pg_advisory_xact_lock(KEYS_LOCK)))


def lock_key(session: Session, key_id: str) -> ApiKey:
    """The row of a key, which nobody changes until the transaction ends. Raises: `UnknownApiKey`.

    Locks: all keys first, so that two concurrent requests cannot revoke the last two keys of
    administrators; then the row, whose use is recorded meanwhile.
    """
    lock_all_keys(session)
    row = session.get(ApiKey, key_id, with_for_update=True, populate_existing=True)
    return UnknownApiKey.unless(row)


def get_key(session: Session, key_id: str) -> ApiKeyView:
    """One key, without its text. Raises `UnknownApiKey`."""
    return ApiKeyView.model_validate(UnknownApiKey.unless(session.get(ApiKey, key_id)))


def list_keys(session: Session, query: PageQuery) -> Page[ApiKeyView]:
    """All API keys, newest first, revoked ones too."""
    keys = [ApiKey.created_at, ApiKey.id]
    rows = select_page(session, select(ApiKey), keys=keys, query=query)
    return rows.to_page(ApiKeyView.model_validate)


def list_key_names(session: Session) -> Names:
    """The names of the newest API keys, as a form offers them."""
    names, keys = select(ApiKey.id, ApiKey.name), [ApiKey.created_at, ApiKey.id]
    return list_newest_names(session, names, keys, "/keys", lambda _, name: name, "API keys")


def revision_views(
    session: Session, view: type[RevisionViewType], rows: Sequence[RevisionColumns]
) -> list[RevisionViewType]:
    """Revisions as the API returns them, with the names of those who made them."""
    names = list_caller_names(session, {row.changed_by for row in rows})
    return [view_of_row(view, row, changed_by_name=names.get(row.changed_by or "")) for row in rows]


class AuditFilter(PeriodFilter):
    """Filters of the audit log by exact value."""

    actor_id: str | None = Field(
        default=None, validation_alias="actorId", description="Filter by API key ID."
    )
    action: str | None = Field(
        default=None, description="Filter by action, for example `create_agent`."
    )
    resource_type: str | None = Field(default=None, validation_alias="resourceType")
    resource_id: str | None = Field(default=None, validation_alias="resourceId")
    outcome: AuditOutcome | None = None
    request_id: str | None = Field(default=None, validation_alias="requestId")


def list_audit_entries(
    session: Session, query: PageQuery, filters: AuditFilter
) -> Page[AuditEntryView]:
    """Audit entries, newest first."""
    statement = select(AuditEntry)
    has_outcome = match_columns((AuditEntry.outcome, filters.outcome))
    if filters.outcome == "refused":
        # A partial index has them in order.
        statement, has_outcome = statement.where(*has_outcome), []
    rows = select_page(
        session,
        statement,
        keys=[AuditEntry.at, AuditEntry.seq],
        query=query,
        filters=[
            (AuditEntry.request_id, one_value(filters.request_id)),
            (AuditEntry.resource_id, one_value(filters.resource_id)),
            (AuditEntry.actor_id, one_value(filters.actor_id)),
            (AuditEntry.action, one_value(filters.action)),
            (AuditEntry.resource_type, one_value(filters.resource_type)),
        ],
        period=Period(filters.since, filters.until),
        conditions=has_outcome,
    )
    page = rows.to_page(AuditEntryView.model_validate)
    names = list_caller_names(session, {entry.actor_id for entry in page.items})
    named = [
        entry.model_copy(update={"actor_name": names.get(entry.actor_id)}) for entry in page.items
    ]
    return page.model_copy(update={"items": named})


def key_identity(row: Row[*tuple[Any, ...]]) -> CallerIdentity:
    """The identity of a row of `SELECT_KEYS`: a key ends with its revocation, or when its owner is blocked, and sees
    nothing that its owner does not see.
    """
    return CallerIdentity(
        id=row.id,
        role=role_within(row.role, row.person_only),
        expires_at=row.expires_at,
        revoked_at=row.revoked_at or row.blocked_at,
        only=_limit_of(row.only, row.person_only),
    )


def person_identity(row: Person) -> CallerIdentity:
    """The identity of a person."""
    return CallerIdentity(
        id=row.id,
        role=role_within(row.role, row.only),
        expires_at=None,
        revoked_at=row.blocked_at,
        type="person",
        only=_limit_of(row.only),
    )


def _limit_of(*limits: list[str] | None) -> tuple[str, ...] | None:
    """The benchmarks in all of these limits; None without any."""
    sets = [set(limit) for limit in limits if limit is not None]
    return tuple(sorted(set.intersection(*sets))) if sets else None
