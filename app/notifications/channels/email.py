"""EMAIL: one mail to one address, as text and as HTML, through the mail server of the operator.

Source: RFC 5321 (replies: 4yz may pass, 5yz will not), RFC 3207 (STARTTLS), RFC 3834 (automatic).
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
from app.core.smtp import SmtpAccess
from app.notifications.message_layout import Line, MessageLayout, Run, layout_of
from app.notifications.registry import CHANNELS, ChannelSpec, Outgoing, UnfitRecipient
from app.notifications.safe_text import one_line
from app.notifications.types import Delivered, Failed, Gone, Notice, Outcome, Refused

DEADLINE_S = 15.0
AGAIN_S = 0.2
MOST_ITEMS = 100
LONGEST_ADDRESS = 254
TOLD_CHARS = 200
READY = 220
PERMANENT = 500

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")


def check(recipient: str) -> None:
    """Source: RFC 5321 section 4.1.2, without quoted names, address literals and SMTPUTF8."""
    if len(recipient) > LONGEST_ADDRESS or not _ADDRESS.fullmatch(recipient):
        raise UnfitRecipient("is no mail address; write it as name@example.org, without a name")


def render(notice: Notice) -> bytes:
    """The mail but for what depends on the server: who sends it, and when."""
    layout = layout_of(notice, most_items=MOST_ITEMS)
    mail = EmailMessage(policy=SMTP_POLICY)
    mail["Subject"] = f"[MOSAICO] {layout.title}"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(_text(layout), cte="quoted-printable")
    mail.add_alternative(_html(layout), subtype="html", cte="quoted-printable")
    # In quoted-printable no line begins like this, so no text can end a part.
    mail.set_boundary(f"=_{notice.id}")
    return mail.as_bytes()


def send(res: Resources, outgoing: Outgoing) -> Outcome:
    access = res.smtp
    if access is None:
        return Failed(detail="no mail server is known; set MOSAICO_SMTP_URL for the workers")
    began = time.monotonic()
    try:
        with _connected(access) as server:
            server.send_message(_addressed(access, outgoing))
    except smtplib.SMTPRecipientsRefused as error:
        [(code, said)] = error.recipients.values()
        return _refusal(Gone, code, said)
    except smtplib.SMTPDataError as error:
        return _refusal(Refused, error.smtp_code, error.smtp_error)
    except smtplib.SMTPResponseException as error:
        return Failed(detail=_words(error.smtp_code, error.smtp_error))
    except (OSError, smtplib.SMTPException) as error:
        took_too_long = time.monotonic() - began >= DEADLINE_S
        late = f"the mail server took longer than {DEADLINE_S:g} s"
        told = late if took_too_long else f"{type(error).__name__}: {error}"
        return Failed(detail=one_line(told, TOLD_CHARS))
    return Delivered()


def host(_: str) -> str:
    """All mail goes through one server."""
    return "mail server"


@contextmanager
def _connected(access: SmtpAccess) -> Iterator[smtplib.SMTP]:
    """The server, ready for a mail, for 15 seconds in all once it is found."""
    context = ssl.create_default_context()
    name = socket.gethostname()
    server = (
        smtplib.SMTP_SSL(local_hostname=name, timeout=DEADLINE_S, context=context)
        if access.tls
        else smtplib.SMTP(local_hostname=name, timeout=DEADLINE_S)
    )
    over = threading.Event()
    threading.Thread(target=_watch, args=[server, over, DEADLINE_S], daemon=True).start()
    try:
        _greet(server, access, context)
        yield server
        with suppress(OSError, smtplib.SMTPException):
            server.quit()
    finally:
        over.set()
        server.close()


def _greet(server: smtplib.SMTP, access: SmtpAccess, context: ssl.SSLContext) -> None:
    # The name that its certificate must have: told to the constructor, it would connect there.
    server._host = access.host  # type: ignore[attr-defined]  # noqa: SLF001
    code, said = server.connect(access.host, access.port)
    if code != READY:
        raise smtplib.SMTPConnectError(code, said)
    _secure(server, access, context)


def _secure(server: smtplib.SMTP, access: SmtpAccess, context: ssl.SSLContext) -> None:
    server.ehlo_or_helo_if_needed()
    if not access.tls and server.has_extn("starttls"):
        server.starttls(context=context)
        server.ehlo()
    elif not access.tls and access.require_tls:
        raise smtplib.SMTPNotSupportedError(
            "the mail server offers no STARTTLS; use smtps://, or set MOSAICO_SMTP_REQUIRE_TLS=false"
        )
    if access.user is not None:
        server.login(access.user, access.password.reveal() if access.password else "")


def _watch(server: smtplib.SMTP, over: threading.Event, deadline_s: float) -> None:
    """Hang up at the deadline, and again until all is over: what was looking for its server, or
    dialling, had nothing yet to hang up.
    """
    wait_s = deadline_s
    while not over.wait(wait_s):
        _hang_up(server)
        wait_s = AGAIN_S


def _hang_up(server: smtplib.SMTP) -> None:
    """End every wait of another thread; a server that trickles would never let it time out."""
    held: socket.socket | None = server.sock
    if held is not None:
        with suppress(OSError):
            held.shutdown(socket.SHUT_RDWR)


def _addressed(access: SmtpAccess, outgoing: Outgoing) -> EmailMessage:
    mail = message_from_bytes(outgoing.body, EmailMessage, policy=SMTP_POLICY)
    domain = parseaddr(access.sender)[1].rpartition("@")[2]
    mail["From"] = access.sender
    mail["To"] = outgoing.recipient
    mail["Date"] = format_datetime(outgoing.now)
    mail["Message-ID"] = f"<{outgoing.id}@{domain}>"
    return mail


def _refusal(permanent: type[Gone | Refused], code: int, said: bytes | str) -> Outcome:
    detail = _words(code, said)
    return permanent(detail=detail) if code >= PERMANENT else Failed(detail=detail)


def _words(code: int, said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return one_line(f"the mail server said {code}: {text}", TOLD_CHARS)


def _text(layout: MessageLayout) -> str:
    parts = ["\n".join(map(_text_line, section)) for section in layout.sections]
    return "\n\n".join([layout.title, *parts]) + "\n"


def _text_line(line: Line) -> str:
    return "".join(f"{run.text} {run.link}" if run.link else run.text for run in line)


def _html(layout: MessageLayout) -> str:
    parts = ["<br>\n".join(map(_html_line, section)) for section in layout.sections]
    body = "".join(f"<p>{part}</p>\n" for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"></head>'
        f'<body style="font-family: sans-serif">\n<h2>{escape(layout.title)}</h2>\n{body}</body></html>\n'
    )


def _html_line(line: Line) -> str:
    return "".join(map(_html_run, line))


def _html_run(run: Run) -> str:
    text = escape(run.text)
    text = f"<b>{text}</b>" if run.strong else text
    return f'<a href="{escape(run.link)}">{text}</a>' if run.link else text


CHANNELS.register("EMAIL", ChannelSpec(check=check, render=render, send=send, host=host))
