"""Values of notifications: messages, targets and delivery outcomes; pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from pydantic import TypeAdapter

from mosaico.core.text import replace_unstorable_in_json

MESSAGE_VERSION: Final = 1
"""Version of the layout of stored messages."""


class MessageSeverity(StrEnum):
    """The severity of a message."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class MessageFact(NamedTuple):
    """A name and a value, such as `benchmark` and `nightly`."""

    name: str
    value: str


class DeliveryTarget(NamedTuple):
    """A channel name and a recipient that this channel accepts."""

    channel: str
    recipient: str


class MessageLink(NamedTuple):
    """A line of a message that links to a path of this service or a URL."""

    text: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageItem:
    """One subject of a message. `link` is a path of this service or a URL. `links` are lines below
    the sentences, and `advice` are the last lines: possible actions of the reader.
    """

    title: str
    sentences: tuple[str, ...] = ()
    facts: tuple[MessageFact, ...] = ()
    link: str | None = None
    links: tuple[MessageLink, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationMessage:
    """The content of a notification, independent of the channel.

    Texts are unescaped and may contain names that users chose: channels make them safe. `topic`
    is for programs, such as `alert.firing`. Events that belong together are `items` of one message.
    """

    topic: str
    title: str
    severity: MessageSeverity = MessageSeverity.INFO
    sentences: tuple[str, ...] = ()
    facts: tuple[MessageFact, ...] = ()
    items: tuple[MessageItem, ...] = ()
    link: str | None = None

    def to_document(self) -> dict[str, Any]:
        """The message as JSON that Postgres can store, with the version of its layout."""
        document = replace_unstorable_in_json(asdict(self))
        return {"version": MESSAGE_VERSION, **document}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "NotificationMessage":
        """The stored message. Raises: `ValueError` for another version of the layout."""
        fields = dict(document)
        if (version := fields.pop("version", None)) != MESSAGE_VERSION:
            raise ValueError(f"the stored message has the unknown version {version!r}")
        return _MESSAGE.validate_python(fields)


_MESSAGE: Final = TypeAdapter(NotificationMessage)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMessage:
    """A message with its id and publication time; `public_url` is the base of its links."""

    id: str
    published_at: datetime
    message: NotificationMessage
    public_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySucceeded:
    """The recipient accepted the message; `detail` is its answer, such as `HTTP 200`."""

    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailed:
    """The attempt failed and may succeed later; `retry_after_s` is the recipient's request."""

    detail: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRejected:
    """The recipient will never accept this message; it may accept others."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientGone:
    """The recipient no longer exists."""

    detail: str


DeliveryOutcome: TypeAlias = DeliverySucceeded | DeliveryFailed | MessageRejected | RecipientGone
