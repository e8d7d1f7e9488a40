"""Mail server configuration, read from one URL."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mosaico.core.encryption import Secret

SUBMISSION_PORT = 587
SUBMISSIONS_PORT = 465
URL_FORM = "write it as smtp://user:password@host:587, or smtps://… for TLS from the first byte"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpServer:
    """A mail server with its credentials.

    `tls` encrypts from the first byte; without it the connection uses STARTTLS, and with
    `require_tls` no mail is sent when the server does not support it.
    """

    host: str
    port: int
    sender: str
    tls: bool = False
    require_tls: bool = True
    user: str | None = None
    password: Secret | None = None


def parse_smtp_url(url: str, sender: str, *, require_tls: bool) -> SmtpServer:
    """Parse `smtp://user:password@host:587` or `smtps://…`; the port is optional.

    Source: RFC 6409 (587), RFC 8314 (465). Raises: `ValueError`, whose message does not contain the URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"is not the URL of a mail server; {URL_FORM}")
    tls = parts.scheme == "smtps"
    password = unquote(parts.password) if parts.password is not None else None
    return SmtpServer(
        host=parts.hostname,
        port=parts.port or (SUBMISSIONS_PORT if tls else SUBMISSION_PORT),
        sender=sender,
        tls=tls,
        require_tls=require_tls,
        user=unquote(parts.username) if parts.username else None,
        password=Secret(password) if password is not None else None,
    )
