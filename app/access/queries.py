"""Reading API keys."""

import hmac
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.access.models import ApiKey
from app.access.rules import Spelling, digest, parse_token, spelling

CONFIGURED_KEY_ID = "admin-env"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """What a request needs to know of the key that it was sent with."""

    id: str
    role: str
    expires_at: datetime | None
    revoked_at: datetime | None


def find_key(session: Session, token: str) -> KnownKey | None:
    """The key with this text, revoked and expired ones too; None when nobody was given it.

    Cost: one lookup by primary key, none for a mistyped key.
    """
    if spelling(token) is Spelling.MISTYPED:
        return None
    ours = parse_token(token)
    ids = [CONFIGURED_KEY_ID] if ours is None else [CONFIGURED_KEY_ID, ours.key_id]
    wanted = digest(token)
    for row in session.scalars(select(ApiKey).where(ApiKey.id.in_(ids))):
        if hmac.compare_digest(row.digest, wanted):
            return _known(row)
    return None


def _known(row: ApiKey) -> KnownKey:
    return KnownKey(id=row.id, role=row.role, expires_at=row.expires_at, revoked_at=row.revoked_at)
