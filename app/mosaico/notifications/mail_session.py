"""An SMTP session with the mail server of the operator."""

import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any

from mosaico.core.smtp import SmtpServer

# How late a session may end after its deadline, if it had no socket yet at that time.
HANG_UP_INTERVAL_S = 0.2


@contextmanager
def mail_session(access: SmtpServer, deadline_s: float) -> Iterator[smtplib.SMTP]:
    """A session with the mail server, logged in, limited to `deadline_s` seconds in total.

    Raises: `OSError` and `smtplib.SMTPException`, an arbitrary one past the deadline.
    """
    context = ssl.create_default_context()
    ended = threading.Event()
    try:
        with closing(_connect(access, context, ended, deadline_s)) as server:
            _authenticate(server, access, context)
            yield server
            # The message is accepted by now: an error in the farewell must not make it fail and be
            # sent again.
            with suppress(OSError, smtplib.SMTPException):
                server.quit()
    finally:
        ended.set()


class _LimitedSmtp(smtplib.SMTP):
    """A client that hangs up at a deadline; its constructor connects.

    The timeout of smtplib applies to each read alone; only a watcher bounds the whole session.
    """

    def __init__(
        self, host: str, port: int, *, ended: threading.Event, timeout: float, **options: Any
    ) -> None:
        threading.Thread(
            target=_hang_up_at_deadline, args=[self, ended, timeout], daemon=True
        ).start()
        super().__init__(host, port, timeout=timeout, **options)


class _LimitedSmtpOverTls(_LimitedSmtp, smtplib.SMTP_SSL):
    pass


def _connect(
    access: SmtpServer, context: ssl.SSLContext, ended: threading.Event, deadline_s: float
) -> smtplib.SMTP:
    client = partial(_LimitedSmtpOverTls, context=context) if access.tls else _LimitedSmtp
    return client(
        access.host,
        access.port,
        local_hostname=socket.gethostname(),
        timeout=deadline_s,
        ended=ended,
    )


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
