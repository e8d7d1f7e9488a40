"""Decisions about keys and roles: what a token says, who may do what."""

import base64
import hashlib
import ipaddress
import math
import re
import secrets
import zlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

RoleName = Literal["read", "run", "admin"]
ROLES: tuple[RoleName, ...] = ("read", "run", "admin")

SECRET_BYTES = 32
ID_BYTES = 10
FEWEST_CONFIGURED_CHARACTERS = 24
MOST_CONFIGURED_CHARACTERS = 1024

_TOKEN = re.compile(r"mosaico_(read|run|admin)_([a-z2-7]{16})_([a-z2-7]{52})_([0-9a-f]{8})")


class Token(NamedTuple):
    """The text of an API key and the id that stands in it."""

    key_id: str
    text: str


class Spelling(StrEnum):
    """What the text of a key says about itself, before anybody looks it up."""

    OURS = "ours"
    MISTYPED = "mistyped"
    FOREIGN = "foreign"


def covers(role: str, needed: RoleName) -> bool:
    """Whether a role may do what another one may: read < run < admin."""
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed)


def new_token(role: RoleName) -> Token:
    """A new key: prefix, role, id, 256 random bits, and a checksum against typing errors."""
    key_id = _base32(secrets.token_bytes(ID_BYTES))
    body = f"mosaico_{role}_{key_id}_{_base32(secrets.token_bytes(SECRET_BYTES))}"
    return Token(key_id, f"{body}_{_checksum(body)}")


def spelling(text: str) -> Spelling:
    match = _TOKEN.fullmatch(text)
    if match is None:
        return Spelling.FOREIGN
    body, _, checksum = text.rpartition("_")
    return Spelling.OURS if checksum == _checksum(body) else Spelling.MISTYPED


def parse_token(text: str) -> Token | None:
    """The id in a key that we made; None for any other text."""
    match = _TOKEN.fullmatch(text)
    if match is None or spelling(text) is not Spelling.OURS:
        return None
    return Token(match[2], text)


def digest(text: str) -> bytes:
    """What is stored of a key. A plain hash is enough: the key holds 256 random bits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def fault_of_configured_key(text: str) -> str | None:
    """Why a text cannot serve as the admin key; None when it can."""
    if not FEWEST_CONFIGURED_CHARACTERS <= len(text) <= MOST_CONFIGURED_CHARACTERS:
        return (
            f"it has {len(text)} characters; {FEWEST_CONFIGURED_CHARACTERS} to"
            f" {MOST_CONFIGURED_CHARACTERS} are needed"
        )
    if not (text.isascii() and text.isprintable()):
        return "it has characters that a header cannot carry; use printable ASCII only"
    if spelling(text) is Spelling.MISTYPED:
        return (
            "it looks like a key made by MOSAICO, but its checksum is wrong; copy it again, whole"
        )
    return None


def is_usable(*, expires_at: datetime | None, revoked_at: datetime | None, now: datetime) -> bool:
    return revoked_at is None and (expires_at is None or now < expires_at)


def network_of(address: str | None) -> str:
    """Whom an address stands for: itself, or in IPv6 the /64 that one customer has to himself."""
    try:
        known = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((known, 64), strict=False))
    return str(getattr(known, "ipv4_mapped", None) or known)


def whole_seconds(seconds: float) -> int:
    """As `Retry-After` says it: rounded up, never below zero."""
    return max(math.ceil(seconds), 0)


class FileKey(StrEnum):
    """What the database knows of the key in the admin key file."""

    NO_FILE = "no file"
    UNKNOWN = "unknown"
    ACTIVE = "active"
    REVOKED = "revoked"


class FirstKeyStep(StrEnum):
    KEEP = "keep"
    REGISTER = "register"
    MAKE = "make"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKeyState:
    """`lost`: the database has an active first key whose file is gone or holds another key."""

    file: FileKey
    lost: bool
    other_admin: bool


def first_key_step(state: FirstKeyState) -> FirstKeyStep:
    """How a start makes sure that somebody holds an admin key.

    A key that was revoked on purpose stays revoked; a new one is made only when no other admin
    key is left.
    """
    if state.file is FileKey.ACTIVE:
        return FirstKeyStep.KEEP
    if state.file is FileKey.UNKNOWN:
        return FirstKeyStep.REGISTER
    if state.lost or not state.other_admin:
        return FirstKeyStep.MAKE
    return FirstKeyStep.LEAVE


def _base32(raw: bytes) -> str:
    return base64.b32encode(raw).decode("ascii").rstrip("=").lower()


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode('ascii')):08x}"
