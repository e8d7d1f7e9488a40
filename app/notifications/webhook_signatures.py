"""Signatures after Standard Webhooks 1.0, so that a receiver knows from whom a call comes."""

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from app.core.encryption import Secret

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """A secret to sign with: 256 random bits."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def signed_headers(
    message_id: str, at: datetime, body: bytes, keys: Sequence[Secret]
) -> Mapping[str, str]:
    """The three headers of a call that is sent now; a signature for each key, apart by blanks."""
    seconds = int(at.timestamp())
    content = f"{message_id}.{seconds}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(_signature(key, content) for key in keys),
    }


def _signature(key: Secret, content: bytes) -> str:
    raw = base64.b64decode(key.reveal().removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(raw, content, "sha256")).decode("ascii")
