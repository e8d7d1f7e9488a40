"""A real mail server for tests, and what it received."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from mosaico.core.smtp import SmtpServer
from tests.support.serve import free_port


@dataclass(kw_only=True)
class Mailbox:
    """What a mail server does: keeps mails, refuses those for some addresses, or all texts."""

    mails: list[Envelope] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    text_refused: str | None = None

    async def handle_RCPT(  # noqa: N802 - the port of aiosmtpd
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        if self.text_refused:
            return self.text_refused
        self.mails.append(envelope)
        return "250 OK"

    def mail(self) -> EmailMessage:
        [mail] = self.read_mails()
        return mail

    def read_mails(self) -> list[EmailMessage]:
        """All mails, in the order in which they came."""
        return [
            message_from_bytes(envelope.original_content or b"", EmailMessage, policy=default)
            for envelope in self.mails
        ]


@contextmanager
def mail_server(mailbox: Mailbox, **settings: Any) -> Iterator[int]:
    """The port of a server that gives mails to the mailbox until the block ends."""
    port = free_port()
    controller = Controller(mailbox, hostname="127.0.0.1", port=port, **settings)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


def access(port: int, **more: Any) -> SmtpServer:
    """How the service reaches the server on a port."""
    return SmtpServer(
        **{"host": "127.0.0.1", "port": port, "sender": "MOSAICO <m@mosaico.example>", **more}
    )
