"""Signatures of outbound webhooks after Standard Webhooks 1.0: they prove the sender."""

import base64
import hmac
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from mosaico.core.encryption import Secret

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """A signing secret of 256 random bits."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")


def signed_headers(
    message_id: str, sent_at: datetime, body: bytes, signing_secrets: Sequence[Secret]
) -> Mapping[str, str]:
    """The three signature headers of a request, with one signature for each secret."""
    # Signed with the message, so that an old request cannot be replayed later.
    timestamp = int(sent_at.timestamp())
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        # During a rotation both secrets sign, and the recipient accepts either.
        "webhook-signature": " ".join(_signature(secret, content) for secret in signing_secrets),
    }


def _signature(secret: Secret, content: bytes) -> str:
    key = base64.b64decode(secret.reveal().removeprefix(PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode("ascii")
