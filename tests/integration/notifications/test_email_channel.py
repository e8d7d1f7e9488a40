"""Mails through real servers: with and without TLS and passwords, valid and invalid addresses."""

import datetime as dt
import socket
import ssl
import threading
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from mosaico.core.encryption import Secret
from mosaico.core.resources import Resources
from mosaico.core.smtp import SmtpServer
from mosaico.notifications import mail_session
from mosaico.notifications.registry import CHANNELS, OutgoingMessage
from mosaico.notifications.types import (
    DeliveryFailed,
    DeliveryOutcome,
    DeliverySucceeded,
    DeliveryTarget,
    MessageRejected,
    NotificationMessage,
    PublishedMessage,
    RecipientGone,
)
from tests.integration.notifications.conftest import NotificationScenario
from tests.support.mail_server import Mailbox, access, mail_server
from tests.support.serve import free_port
from tests.support.service import Service, running_service
from tests.support.tls import trusted_server
from tests.support.waiting import LIVENESS_S

NOW = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
USER, PASSWORD = b"mosaico", b"correct horse"


class TlsController(Controller):
    """A server that speaks TLS from the first byte on."""

    def __init__(self, handler: Mailbox, context: ssl.SSLContext, port: int) -> None:
        super().__init__(handler, hostname="127.0.0.1", port=port, ssl_context=context)


def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
    fits = isinstance(data, LoginPassword) and (data.login, data.password) == (USER, PASSWORD)
    return AuthResult(success=fits, handled=fits)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """TLS with a certificate for 127.0.0.1 that this process trusts."""
    return trusted_server(tmp_path, monkeypatch, ["127.0.0.1"])


def sent(
    resources: Resources, smtp: SmtpServer | None, to: str = "ops@example.org"
) -> DeliveryOutcome:
    """One mail, sent."""
    message = NotificationMessage(
        topic="test", title="Grüße, pelican", sentences=("It has <landed>.",), link="/api/v1/x"
    )
    notice = PublishedMessage(
        id="01-message", published_at=NOW, message=message, public_url="https://m.example"
    )
    channel = CHANNELS.get("EMAIL")
    outgoing = OutgoingMessage(
        message_id=notice.id, recipient=to, body=channel.render(notice), sent_at=NOW
    )
    return channel.send(replace(resources, smtp=smtp), outgoing)


def test_email_channel__mail_has_text_and_html(
    service_resources: Resources, mailbox: Mailbox
) -> None:
    with mail_server(mailbox) as port:
        assert sent(service_resources, access(port, require_tls=False)) == DeliverySucceeded()
    mail = mailbox.mail()
    assert mail["Subject"] == "Grüße, pelican"
    assert mail["From"] == "MOSAICO <m@mosaico.example>"
    assert mail["To"] == "ops@example.org"
    assert mail["Message-ID"] == "<01-message@mosaico.example>"
    assert mail["Date"] == "Sun, 22 Nov 2026 12:00:00 +0000"
    assert mail["Auto-Submitted"] == "auto-generated"
    plain, page = mail.get_body(("plain",)), mail.get_body(("html",))
    assert isinstance(plain, EmailMessage)
    assert isinstance(page, EmailMessage)
    assert "It has <landed>.\n\nOpen in MOSAICO https://m.example/api/v1/x" in (
        plain.get_content().replace("\r\n", "\n")
    )
    assert "It has &lt;landed&gt;." in page.get_content()
    assert '<a href="https://m.example/api/v1/x">' in page.get_content()


def test_email_channel__starttls_and_password(
    service_resources: Resources, mailbox: Mailbox, context: ssl.SSLContext
) -> None:
    secured = {"tls_context": context, "require_starttls": True}
    server_options = {"authenticator": authenticate, "auth_required": True}
    with mail_server(mailbox, **secured, **server_options) as port:
        who = {"user": USER.decode(), "password": Secret(PASSWORD.decode())}
        assert sent(service_resources, access(port, **who)) == DeliverySucceeded()
        who["password"] = Secret("wrong")
        failed = sent(service_resources, access(port, **who))
        nobody = sent(service_resources, access(port))
    assert isinstance(failed, DeliveryFailed)
    assert "535" in failed.detail
    assert "wrong" not in failed.detail
    assert isinstance(nobody, DeliveryFailed)
    assert "530" in nobody.detail
    assert len(mailbox.mails) == 1


def test_email_channel__implicit_tls(
    service_resources: Resources, mailbox: Mailbox, context: ssl.SSLContext
) -> None:
    controller = TlsController(mailbox, context, port := free_port())
    controller.start()
    try:
        assert sent(service_resources, access(port, tls=True)) == DeliverySucceeded()
        # The certificate is for 127.0.0.1 and not for this name.
        assert isinstance(
            sent(service_resources, access(port, tls=True, host="localhost")), DeliveryFailed
        )
    finally:
        controller.stop()
    assert len(mailbox.mails) == 1


def test_email_channel__server_without_tls_gets_nothing(
    service_resources: Resources, mailbox: Mailbox
) -> None:
    with mail_server(mailbox) as port:
        failed = sent(service_resources, access(port))
    assert isinstance(failed, DeliveryFailed)
    assert "does not offer STARTTLS" in failed.detail
    assert mailbox.mails == []


def test_email_channel__untrusted_certificate_is_rejected(
    service_resources: Resources,
    mailbox: Mailbox,
    context: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without this file the process does not trust the authority of the test.
    monkeypatch.delenv("SSL_CERT_FILE")
    with mail_server(mailbox, tls_context=context) as port:
        failed = sent(service_resources, access(port))
    assert isinstance(failed, DeliveryFailed)
    assert "certificate" in failed.detail.lower()
    assert mailbox.mails == []


@pytest.mark.parametrize(
    # SMTP: 4xx is a temporary failure, and 5xx a permanent one.
    ("reply", "outcome"),
    [("450 busy", DeliveryFailed), ("550 no such user", RecipientGone)],
)
def test_email_channel__outcome_of_refused_recipient(
    reply: str, outcome: type, service_resources: Resources, mailbox: Mailbox
) -> None:
    mailbox.refused["ops@example.org"] = reply
    with mail_server(mailbox) as port:
        ended = sent(service_resources, access(port, require_tls=False))
    assert isinstance(ended, outcome)
    assert f"the mail server replied {reply[:3]}: {reply[4:]}" in str(ended)


@pytest.mark.parametrize(
    ("reply", "outcome"), [("451 later", DeliveryFailed), ("554 spam", MessageRejected)]
)
def test_email_channel__outcome_of_refused_text(
    reply: str, outcome: type, service_resources: Resources, mailbox: Mailbox
) -> None:
    mailbox.text_refused = reply
    with mail_server(mailbox) as port:
        assert isinstance(sent(service_resources, access(port, require_tls=False)), outcome)


def test_email_channel__missing_server_names_setting(service_resources: Resources) -> None:
    failed = sent(service_resources, None)
    assert isinstance(failed, DeliveryFailed)
    assert "MOSAICO_SMTP_URL" in failed.detail


@pytest.mark.parametrize("is_found_late", [False, True])
def test_email_channel__slow_server_is_closed_at_deadline(
    service_resources: Resources, monkeypatch: pytest.MonkeyPatch, *, is_found_late: bool
) -> None:
    """Its greeting never ends, and no single wait for the next line is long; also where its name
    was looked up until the deadline was over.
    """
    monkeypatch.setitem(CHANNELS.get("EMAIL").send.__globals__, "DEADLINE_S", 0.5)
    hang_up, connect = mail_session._hang_up, socket.create_connection
    over, struck = threading.Event(), threading.Event()

    def strike(server: Any) -> None:
        hang_up(server)
        struck.set()

    def find_late(*where: Any) -> socket.socket:
        assert struck.wait(LIVENESS_S)
        return connect(*where)

    monkeypatch.setattr(mail_session, "_hang_up", strike)
    if is_found_late:
        monkeypatch.setattr(socket, "create_connection", find_late)

    def greet(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for _ in range(200):
                if over.wait(0.05):
                    return
                try:
                    connection.sendall(b"220-wait\r\n")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=[listener])
        thread.start()
        failed = sent(service_resources, access(listener.getsockname()[1]))
        was_left = thread.is_alive()
        over.set()
        thread.join()
    assert isinstance(failed, DeliveryFailed)
    assert failed.detail == "the mail server did not respond within 0.5 s"
    assert was_left  # it had not come to its end by itself


def test_email_channel__refused_recipient_does_not_stop_others(
    scenario: NotificationScenario, mailbox: Mailbox, metric_pool: Any
) -> None:
    mailbox.refused["gone@example.org"] = "550 no such user"
    mailbox.refused["busy@example.org"] = "450 busy"
    names = ["busy", "gone", "here", "there"]
    with mail_server(mailbox) as port:
        smtp = access(port, require_tls=False)
        resources = replace(scenario.service.resources, smtp=smtp)
        with running_service(resources, metric_pool) as service:
            mailing = replace(scenario, service=service)
            notification_id = mailing.publish(
                *[DeliveryTarget("EMAIL", f"{name}@example.org") for name in names]
            )
            mailing.work()
    assert states(scenario.service, notification_id) == {
        "busy@example.org": "PENDING",
        "gone@example.org": "HELD",
        "here@example.org": "DELIVERED",
        "there@example.org": "DELIVERED",
    }
    assert [notice["topic"] for notice in scenario.inbox()] == ["endpoint.disabled", "test.sent"]


def states(service: Service, notification_id: str) -> dict[str, str]:
    deliveries = service.get("/deliveries", notificationId=notification_id)["items"]
    return {delivery["recipient"]: delivery["status"] for delivery in deliveries}
