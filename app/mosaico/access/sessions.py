"""Browser sessions: a browser that logged in acts as an API key, until the key or the session ends.

A form that it sends afterwards is a draft, which the login page keeps encrypted for the key of the session: nobody
reads there what somebody else has typed, and whoever logs in with another key does not get it. A browser that lost
its cookie has no key: its draft is only in the page that it gets, for the key that logs in there.
"""

import json
import secrets
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from mosaico.access.models import ApiKey, BrowserSession, LoginLink
from mosaico.access.queries import CONFIGURED_KEY_ID, KeyIdentity, find_usable_admin
from mosaico.access.rules import hash_token, is_usable
from mosaico.access.service import FIRST_KEY_NAME
from mosaico.core.batch_delete import delete_batch
from mosaico.core.defaults import KEEP_ENDED_SESSIONS
from mosaico.core.encryption import CorruptedSecret, SecretBox, UnknownMasterKey
from mosaico.core.errors import Unauthorized

COOKIE = "mosaico_session"
TOKEN_BYTES = 32
SESSION_LIFETIME = timedelta(days=7)
LINK_LIFETIME = timedelta(minutes=10)
# The key of a draft whose browser has no session.
ANY_KEY: Final = ""
_DRAFT_CELL: Final = {"table": "browser_sessions", "column": "draft"}


class LoginLinkUsed(Unauthorized):
    """This link has expired or was used before; log in with an API key, or start the service again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A new session of the API key `key_id`; `token` is the only copy of the cookie."""

    token: str
    key_id: str


class Draft(NamedTuple):
    """The path of a form, and its fields as they were sent."""

    action: str
    body: str

    def encrypt(self, key_id: str, box: SecretBox) -> str:
        """Encrypt the draft for one API key."""
        return box.encrypt(json.dumps(self), row=key_id, **_DRAFT_CELL)

    @classmethod
    def decrypt(cls, encrypted: str, key_id: str, box: SecretBox) -> "Draft | None":
        """The draft; None if it is of another key, or was changed."""
        for row in (key_id, ANY_KEY):
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
    return start_session(session, row.api_key_id, now)


def start_session(session: Session, key_id: str, now: datetime) -> NewSession:
    """Start a session of an API key, which the caller has checked."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    session.add(
        BrowserSession(
            digest=hash_token(token),
            api_key_id=key_id,
            created_at=now,
            expires_at=now + SESSION_LIFETIME,
        )
    )
    session.flush()
    return NewSession(token=token, key_id=key_id)


def log_out(session: Session, token: str) -> None:
    """End a session; an unknown one changes nothing."""
    session.execute(delete(BrowserSession).where(BrowserSession.digest == hash_token(token)))


def find_session_key(session: Session, token: str, now: datetime) -> KeyIdentity | None:
    """The usable API key of a session; None when the session or the key has ended."""
    row = session.execute(
        select(ApiKey.id, ApiKey.role, ApiKey.expires_at, ApiKey.revoked_at)
        .join(BrowserSession, BrowserSession.api_key_id == ApiKey.id)
        .where(BrowserSession.digest == hash_token(token), BrowserSession.expires_at > now)
    ).one_or_none()
    if row is None or not is_usable(expires_at=row.expires_at, revoked_at=row.revoked_at, now=now):
        return None
    return KeyIdentity(
        id=row.id, role=row.role, expires_at=row.expires_at, revoked_at=row.revoked_at
    )


def find_session_owner(session: Session, token: str) -> str | None:
    """The ID of the API key of a session that may have ended; None when it is unknown."""
    owner = select(BrowserSession.api_key_id).where(BrowserSession.digest == hash_token(token))
    return session.scalar(owner)


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
