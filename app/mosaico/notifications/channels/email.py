"""EMAIL: a mail to one address, as text and HTML, through the mail server of the operator.

Source: RFC 5321 (replies: 4yz is temporary, 5yz permanent), RFC 3207 (STARTTLS), RFC 3834
(automatic mail).
"""

import re
import smtplib
import time
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime, parseaddr
from html import escape
from typing import Final

from mosaico.core.resources import Resources
from mosaico.core.smtp import SmtpServer
from mosaico.notifications.mail_session import mail_session
from mosaico.notifications.message_layout import (
    MessageLayout,
    TextLine,
    TextSpan,
    build_layout,
    one_line,
)
from mosaico.notifications.registry import CHANNELS, ChannelSpec, InvalidRecipient, OutgoingMessage
from mosaico.notifications.rules import DEADLINE_S, MAX_DETAIL_CHARS
from mosaico.notifications.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliverySucceeded,
    MessageRejected,
    PublishedMessage,
    RecipientGone,
)

MAX_ITEMS = 100
MAX_ADDRESS_CHARS = 254
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
    # Vacation responders do not answer it (RFC 3834).
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
        with mail_session(access, DEADLINE_S) as server:
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
