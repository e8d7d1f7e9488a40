"""Rules of API keys and roles: token format, role hierarchy."""

import base64
import hashlib
import math
import re
import secrets
import zlib
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

RoleName = Literal["read", "run", "admin"]
ROLES: tuple[RoleName, ...] = ("read", "run", "admin")

SECRET_BYTES = 32
ID_BYTES = 10
MIN_CONFIGURED_CHARS = 24
MAX_CONFIGURED_CHARS = 1024

# Lower-case base32 has no underscore, so the parts can be separated.
_TOKEN = re.compile(r"mosaico_(read|run|admin)_([a-z2-7]{16})_([a-z2-7]{52})_([0-9a-f]{8})")


class ApiToken(NamedTuple):
    """The text of an API key and the id that it contains."""

    key_id: str
    text: str


class KeyFormat(StrEnum):
    """Format of a token, known without a lookup: a key of this service, one with a typing error, or
    another text (such as MOSAICO_ADMIN_KEY).
    """

    VALID = "valid"
    BAD_CHECKSUM = "bad checksum"
    UNKNOWN = "unknown"


def role_allows(role: str, required: RoleName) -> bool:
    """Return whether a role includes the required one: read < run < admin."""
    return role in ROLES and ROLES.index(role) >= ROLES.index(required)


def role_within(role: str, only: Collection[str] | None) -> str:
    """The role that a caller has with a limit; settings are of all benchmarks, so that no one with a limit is admin."""
    return "run" if role == "admin" and only is not None else role


def generate_token(role: RoleName) -> ApiToken:
    """Generate a key: prefix, role, id, 256 random bits, and a checksum against typing errors."""
    key_id = _base32(secrets.token_bytes(ID_BYTES))
    body = f"mosaico_{role}_{key_id}_{_base32(secrets.token_bytes(SECRET_BYTES))}"
    return ApiToken(key_id, f"{body}_{_checksum(body)}")


def classify_key(text: str) -> KeyFormat:
    """The format of a token."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        return KeyFormat.UNKNOWN
    # The checksum is not protection against guesses: it only avoids a database query for typing
    # errors.
    body, _, checksum = text.rpartition("_")
    return KeyFormat.VALID if checksum == _checksum(body) else KeyFormat.BAD_CHECKSUM


def parse_token(text: str) -> ApiToken | None:
    """The id in a well-formed key; None for any other text."""
    match = _TOKEN.fullmatch(text)
    if match is None or classify_key(text) is not KeyFormat.VALID:
        return None
    return ApiToken(match[2], text)


def hash_token(text: str) -> bytes:
    """The stored digest of a key. An unsalted hash is enough for 256 random bits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def configured_key_error(text: str) -> str | None:
    """Return the reason why a text cannot be the admin key; None when it can."""
    if not MIN_CONFIGURED_CHARS <= len(text) <= MAX_CONFIGURED_CHARS:
        return (
            f"it has {len(text)} characters; {MIN_CONFIGURED_CHARS} to"
            f" {MAX_CONFIGURED_CHARS} are needed"
        )
    if not (text.isascii() and text.isprintable()):
        return "it contains characters that an HTTP header cannot carry; use printable ASCII only"
    if classify_key(text) is KeyFormat.BAD_CHECKSUM:
        return "it looks like a key of MOSAICO, but its checksum is wrong; copy the whole key again"
    return None


def is_usable(*, expires_at: datetime | None, revoked_at: datetime | None, now: datetime) -> bool:
    """Return whether a key is neither revoked nor expired."""
    return revoked_at is None and (expires_at is None or now < expires_at)


def ceil_seconds(seconds: float) -> int:
    """Seconds for `Retry-After`: rounded up, never negative."""
    return max(math.ceil(seconds), 0)


def _base32(raw: bytes) -> str:
    return base64.b32encode(raw).decode("ascii").rstrip("=").lower()


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode('ascii')):08x}"
