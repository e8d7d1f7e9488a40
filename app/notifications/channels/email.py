"""EMAIL: a mail to one address, as text and HTML, through the mail server of the operator.

Source: RFC 5321 (replies: 4yz is temporary, 5yz permanent), RFC 3207 (STARTTLS), RFC 3834
(automatic mail).
"""

import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, parseaddr
from html import escape
from typing import Final

from app.core.resources import Resources
from app.core.smtp import SmtpServer
from app.notifications.message_layout import MessageLayout, TextLine, TextSpan, build_layout
from app.notifications.registry import CHANNELS, ChannelSpec, InvalidRecipient, OutgoingMessage
from app.notifications.safe_text import one_line
from app.notifications.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliverySucceeded,
    MessageRejected,
    PublishedMessage,
    RecipientGone,
)

DEADLINE_S = 15.0
# How late a session may end after its deadline, if it had no socket yet at that time.
HANG_UP_INTERVAL_S = 0.2
MAX_ITEMS = 100
MAX_ADDRESS_CHARS = 254
MAX_DETAIL_CHARS = 200
# RFC 5321: the greeting of a server that accepts a session.
SERVICE_READY = 220
FIRST_PERMANENT_CODE = 500

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")


def check(recipient: str) -> None:
    """Source: RFC 5321 section 4.1.2, without quoted names, address literals and SMTPUTF8."""
    if len(recipient) > MAX_ADDRESS_CHARS or not _ADDRESS.fullmatch(recipient):
        raise InvalidRecipient(
            "is not an email address; write it as name@example.org, without a display name"
        )


def render(published: PublishedMessage) -> bytes:
    """The mail without the headers that depend on the server and the time."""
    layout = build_layout(published, max_items=MAX_ITEMS)
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["Subject"] = layout.title
    # Tells vacation responders not to answer (RFC 3834).
    mail["Auto-Submitted"] = "auto-generated"
    # Quoted-printable keeps lines below the 998 octets of RFC 5321; 8bit would need a server with
    # 8BITMIME.
    mail.set_content(_text(layout), cte="quoted-printable")
    mail.add_alternative(_html(layout), subtype="html", cte="quoted-printable")
    # `=_` is not valid quoted-printable, so no text of a user can end a part.
    mail.set_boundary(f"=_{published.id}")
    return mail.as_bytes()


def send(res: Resources, outgoing: OutgoingMessage) -> DeliveryOutcome:
    access = res.smtp
    if access is None:
        return DeliveryFailed(
            detail="no mail server is configured; set MOSAICO_SMTP_URL for the workers"
        )
    started = time.monotonic()
    try:
        with _connected(access) as server:
            server.send_message(_add_headers(access, outgoing))
    # A refused recipient concerns the endpoint, refused data the message: only the first may
    # disable the endpoint.
    except smtplib.SMTPRecipientsRefused as error:
        # There is one recipient per mail, so one entry.
        [(code, reply)] = error.recipients.values()
        return _refusal(RecipientGone, code, reply)
    except smtplib.SMTPDataError as error:
        return _refusal(MessageRejected, error.smtp_code, error.smtp_error)
    # The login, the sender or the greeting was refused: an operator's problem, never the
    # recipient's.
    except smtplib.SMTPResponseException as error:
        return DeliveryFailed(detail=_reply_text(error.smtp_code, error.smtp_error))
    except (OSError, smtplib.SMTPException) as error:
        # Hanging up makes the blocked read fail with an arbitrary error; the elapsed time tells the
        # cause.
        is_timeout = time.monotonic() - started >= DEADLINE_S
        timeout_text = f"the mail server did not respond within {DEADLINE_S:g} s"
        text = timeout_text if is_timeout else f"{type(error).__name__}: {error}"
        return DeliveryFailed(detail=one_line(text, MAX_DETAIL_CHARS))
    return DeliverySucceeded()


def host(_: str) -> str:
    """The shared host: all mail goes through one server."""
    return "mail server"


@contextmanager
def _connected(access: SmtpServer) -> Iterator[smtplib.SMTP]:
    """A session with the mail server, limited to 15 seconds in total."""
    context = ssl.create_default_context()
    name = socket.gethostname()
    server = (
        smtplib.SMTP_SSL(local_hostname=name, timeout=DEADLINE_S, context=context)
        if access.tls
        else smtplib.SMTP(local_hostname=name, timeout=DEADLINE_S)
    )
    # The timeout of smtplib applies to each read alone; only a watcher bounds the whole session.
    ended = threading.Event()
    threading.Thread(
        target=_hang_up_at_deadline, args=[server, ended, DEADLINE_S], daemon=True
    ).start()
    try:
        _connect(server, access, context)
        yield server
        # The message is accepted by now: an error in the farewell must not make it fail and be sent
        # again.
        with suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        ended.set()
        server.close()


def _connect(server: smtplib.SMTP, access: SmtpServer, context: ssl.SSLContext) -> None:
    # The name for the check of the certificate. The constructor would take it, but connect at once.
    server._host = access.host  # type: ignore[attr-defined]  # noqa: SLF001
    code, reply = server.connect(access.host, access.port)
    if code != SERVICE_READY:
        raise smtplib.SMTPConnectError(code, reply)
    _authenticate(server, access, context)


def _authenticate(server: smtplib.SMTP, access: SmtpServer, context: ssl.SSLContext) -> None:
    server.ehlo_or_helo_if_needed()
    if not access.tls and server.has_extn("starttls"):
        server.starttls(context=context)
        # RFC 3207: what the server said before TLS came over an unprotected connection and must be
        # asked again.
        server.ehlo()
    elif not access.tls and access.require_tls:
        raise smtplib.SMTPNotSupportedError(
            "the mail server does not offer STARTTLS; use smtps://, or set"
            " MOSAICO_SMTP_REQUIRE_TLS=false"
        )
    if access.user is not None:
        server.login(access.user, access.password.reveal() if access.password else "")


def _hang_up_at_deadline(server: smtplib.SMTP, ended: threading.Event, deadline_s: float) -> None:
    """Close the connection at the deadline, and repeat until the session has ended.

    At the deadline the client may still resolve the name or connect: then there is no socket yet.
    """
    wait_s = deadline_s
    while not ended.wait(wait_s):
        _hang_up(server)
        wait_s = HANG_UP_INTERVAL_S


def _hang_up(server: smtplib.SMTP) -> None:
    """End every blocking read: a server that sends byte by byte never reaches a read timeout."""
    # Read once: the sending thread may close and clear it at any moment.
    connection: socket.socket | None = server.sock
    if connection is not None:
        with suppress(OSError):
            # shutdown() and not close(): only it wakes a thread that is blocked in a read of the
            # same socket.
            connection.shutdown(socket.SHUT_RDWR)


def _add_headers(access: SmtpServer, outgoing: OutgoingMessage) -> EmailMessage:
    mail = message_from_bytes(outgoing.body, EmailMessage, policy=SMTP_POLICY)
    # The Message-ID is the same in every attempt, so that mail servers can drop a repetition.
    domain = parseaddr(access.sender)[1].rpartition("@")[2]
    mail["From"] = access.sender
    mail["To"] = outgoing.recipient
    mail["Date"] = format_datetime(outgoing.sent_at)
    mail["Message-ID"] = f"<{outgoing.message_id}@{domain}>"
    return mail


def _refusal(
    permanent: type[RecipientGone | MessageRejected], code: int, reply: bytes | str
) -> DeliveryOutcome:
    detail = _reply_text(code, reply)
    return (
        permanent(detail=detail) if code >= FIRST_PERMANENT_CODE else DeliveryFailed(detail=detail)
    )


def _reply_text(code: int, reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return one_line(f"the mail server replied {code}: {text}", MAX_DETAIL_CHARS)


def _text(layout: MessageLayout) -> str:
    parts = ["\n".join(map(_text_line, section)) for section in layout.sections]
    return "\n\n".join([layout.title, *parts]) + "\n"


def _text_line(line: TextLine) -> str:
    return "".join(f"{run.text} {run.link}" if run.link else run.text for run in line)


def _html(layout: MessageLayout) -> str:
    parts = ["<br>\n".join(map(_html_line, section)) for section in layout.sections]
    body = "".join(f"<p>{part}</p>\n" for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"></head>'
        f'<body style="font-family: sans-serif">\n<h2>{escape(layout.title)}</h2>\n{body}</body></html>\n'
    )


def _html_line(line: TextLine) -> str:
    return "".join(map(_html_run, line))


def _html_run(run: TextSpan) -> str:
    text = escape(run.text)
    text = f"<b>{text}</b>" if run.strong else text
    return f'<a href="{escape(run.link)}">{text}</a>' if run.link else text


CHANNELS.register("EMAIL", ChannelSpec(check=check, render=render, send=send, host=host))
