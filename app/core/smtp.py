"""The mail server of the operator, as one address."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from app.core.encryption import Secret

SUBMISSION_PORT = 587
SUBMISSIONS_PORT = 465
URL_FORM = (
    "write it as smtp://user:password@host:587, or smtps://… where the server speaks TLS at once"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpServer:
    """A mail server and who we are to it.

    `tls` from the first byte on; without it the connection is secured by STARTTLS, and with
    `require_tls` nothing is sent where that is not offered.
    """

    host: str
    port: int
    sender: str
    tls: bool = False
    require_tls: bool = True
    user: str | None = None
    password: Secret | None = None


def parse_smtp_url(url: str, sender: str, *, require_tls: bool) -> SmtpServer:
    """The mail server at `smtp://user:password@host:587`, or `smtps://…`; ports may be left out.

    Source: RFC 6409 (587), RFC 8314 (465). Raises: `ValueError` without what the URL holds.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"is no address of a mail server; {URL_FORM}")
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
