"""Browser sessions: a browser that logged in acts as an API key or a person, until that or the session ends.

A form that it sends afterwards is a draft, which the login page keeps encrypted for the key or person of the session:
nobody reads there what somebody else has typed, and whoever else logs in does not get it. A browser that lost its
cookie has no owner: its draft is only in the page that it gets, for whoever logs in there.
"""

import json
import secrets
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, func, or_, select
from sqlalchemy.orm import Session

from mosaico.access.audit import AuditActor
from mosaico.access.login_rules import PROXY_ISSUER
from mosaico.access.models import ApiKey, BrowserSession, LoginLink, Person
from mosaico.access.queries import (
    CONFIGURED_KEY_ID,
    SELECT_KEYS,
    CallerIdentity,
    find_usable_admin,
    key_identity,
    person_identity,
)
from mosaico.access.rules import hash_token, is_usable
from mosaico.access.service import FIRST_KEY_NAME
from mosaico.core.batch_delete import delete_all, delete_batch
from mosaico.core.defaults import KEEP_ENDED_SESSIONS
from mosaico.core.encryption import CorruptedSecret, SecretBox, UnknownMasterKey
from mosaico.core.errors import Unauthorized

COOKIE = "mosaico_session"
TOKEN_BYTES = 32
KEY_SESSION = timedelta(days=7)
# The provider decides about people: what changes there takes effect within a working day.
PERSON_SESSION = timedelta(hours=12)
LINK_LIFETIME = timedelta(minutes=10)
# The owner of a draft whose browser has no session.
ANYBODY: Final = ""
_DRAFT_CELL: Final = {"table": "browser_sessions", "column": "draft"}


class LoginLinkUsed(Unauthorized):
    """This link has expired or was used before; log in with an API key, or start the service again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A new session of a key or person, `owner`; `token` is the only copy of the cookie."""

    token: str
    owner: AuditActor
    lifetime: timedelta


class Draft(NamedTuple):
    """The path of a form, and its fields as they were sent."""

    action: str
    body: str

    def encrypt(self, owner: str, box: SecretBox) -> str:
        """Encrypt the draft for one API key or person."""
        return box.encrypt(json.dumps(self), row=owner, **_DRAFT_CELL)

    @classmethod
    def decrypt(cls, encrypted: str, owner: str, box: SecretBox) -> "Draft | None":
        """The draft; None if it is of somebody else, or was changed."""
        for row in (owner, ANYBODY):
            try:
                return cls(*json.loads(box.decrypt(encrypted, row=row, **_DRAFT_CELL).reveal()))
            except (CorruptedSecret, UnknownMasterKey):
                continue
        return None


def create_login_link(session: Session, now: datetime) -> str | None:
    """The token of a link that logs in once as the first admin key; None without an admin key."""
    # The key of this installation, otherwise the admin key that expires last.
    is_first = or_(ApiKey.name == FIRST_KEY_NAME, ApiKey.id == CONFIGURED_KEY_ID)
    key_id = find_usable_admin(session, now, is_first) or find_usable_admin(session, now)
    if key_id is None:
        return None
    token = secrets.token_urlsafe(TOKEN_BYTES)
    session.add(
        LoginLink(digest=hash_token(token), api_key_id=key_id, expires_at=now + LINK_LIFETIME)
    )
    session.flush()
    return token


def log_in_with_link(session: Session, token: str, now: datetime) -> NewSession:
    """Use a link and start a session. Raises `LoginLinkUsed`."""
    # Deleted by the first use: of two browsers that open the link, one logs in.
    used_link = (
        delete(LoginLink)
        .where(LoginLink.digest == hash_token(token))
        .returning(LoginLink.api_key_id, LoginLink.expires_at)
    )
    row = session.execute(used_link).one_or_none()
    if row is None or row.expires_at <= now:
        raise LoginLinkUsed
    return start_key_session(session, row.api_key_id, now)


def start_key_session(session: Session, key_id: str, now: datetime) -> NewSession:
    """Start a session of an API key, which the caller has checked."""
    owner = AuditActor(type="key", id=key_id)
    return _start(session, BrowserSession(api_key_id=key_id), owner, KEY_SESSION, now)


def start_person_session(
    session: Session, person_id: str, now: datetime, *, provider_session: str | None = None
) -> NewSession:
    """Start a session of a person, who has logged in."""
    row = BrowserSession(person_id=person_id, provider_session=provider_session)
    owner = AuditActor(type="person", id=person_id)
    return _start(session, row, owner, PERSON_SESSION, now)


def _start(
    session: Session, row: BrowserSession, owner: AuditActor, lifetime: timedelta, now: datetime
) -> NewSession:
    token = secrets.token_urlsafe(TOKEN_BYTES)
    row.digest, row.created_at, row.expires_at = hash_token(token), now, now + lifetime
    session.add(row)
    session.flush()
    return NewSession(token=token, owner=owner, lifetime=lifetime)


def log_out(session: Session, token: str) -> None:
    """End a session; an unknown one changes nothing."""
    session.execute(delete(BrowserSession).where(BrowserSession.digest == hash_token(token)))


def find_session_owner(
    session: Session, token: str, now: datetime, *, named_by_proxy: str | None = None
) -> CallerIdentity | None:
    """The usable key or person of a session; None when the session, the key or the person's access has ended.

    `named_by_proxy` is the person whom a trusted proxy names in this request: a session that such a proxy began
    ends when it names somebody else, or nobody.
    """
    is_open = BrowserSession.digest == hash_token(token), BrowserSession.expires_at > now
    key = session.execute(
        SELECT_KEYS.join(BrowserSession, BrowserSession.api_key_id == ApiKey.id).where(*is_open)
    ).one_or_none()
    person = session.scalars(
        select(Person).join(BrowserSession, BrowserSession.person_id == Person.id).where(*is_open)
    ).one_or_none()
    if person is not None and person.issuer == PROXY_ISSUER and person.subject != named_by_proxy:
        return None
    caller = person_identity(person) if person else key_identity(key) if key else None
    if caller is None or not is_usable(
        expires_at=caller.expires_at, revoked_at=caller.revoked_at, now=now
    ):
        return None
    return caller


def find_ended_owner(session: Session, token: str) -> str | None:
    """The ID of the key or person of a session that may have ended; None when it is unknown."""
    owner = func.coalesce(BrowserSession.api_key_id, BrowserSession.person_id)
    return session.scalar(select(owner).where(BrowserSession.digest == hash_token(token)))


def end_sessions(
    session: Session, issuer: str, *, subject: str | None, provider_session: str | None = None
) -> None:
    """End the sessions of a person, or of a session at the provider; at least one of both is given."""
    people = select(Person.id).where(Person.issuer == issuer)
    if subject is not None:
        people = people.where(Person.subject == subject)
    ended: ColumnElement[bool] = BrowserSession.person_id.in_(people)
    if provider_session is not None:
        ended = and_(ended, BrowserSession.provider_session == provider_session)
    delete_all(session, BrowserSession, ended)


def list_open_sessions(
    session: Session, digests: Collection[bytes], now: datetime
) -> AbstractSet[bytes]:
    """The digests whose sessions have neither expired nor been ended."""
    is_open = BrowserSession.digest.in_(digests), BrowserSession.expires_at > now
    return set(session.scalars(select(BrowserSession.digest).where(*is_open)))


def delete_expired_sessions(session: Session, now: datetime) -> int:
    """Delete one batch of expired links, and of sessions some days later; see `delete_batch`."""
    links = delete_batch(session, LoginLink, LoginLink.expires_at <= now)
    ended = BrowserSession.expires_at <= now - KEEP_ENDED_SESSIONS
    return max(links, delete_batch(session, BrowserSession, ended))
