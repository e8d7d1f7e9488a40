"""What is told, to whom, and how it may end; pure values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from app.core.text import replace_unstorable_in_json


class Severity(StrEnum):
    """How soon somebody should look."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class Fact(NamedTuple):
    """A name and what it is, such as `benchmark` and `nightly`."""

    name: str
    value: str


class Target(NamedTuple):
    """Whom to tell: the name of a channel, and a recipient that this channel understands."""

    channel: str
    recipient: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One of the things that a message is about. `link` is a path of this service or a URL."""

    title: str
    sentences: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is told: texts as they are, names of users and all; channels make them inert.

    `topic` says what kind of thing it is to programs, such as `alert.firing`. Many things that
    happened together are the `items` of one message.
    """

    topic: str
    title: str
    severity: Severity = Severity.INFO
    sentences: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    items: tuple[Item, ...] = ()
    link: str | None = None

    def document(self) -> dict[str, Any]:
        """The message as JSON that Postgres can hold."""
        return dict(replace_unstorable_in_json(asdict(self)))

    @classmethod
    def stored(cls, document: Mapping[str, Any]) -> "Message":
        items = tuple(_item(each) for each in document["items"])
        severity = Severity(document["severity"])
        return cls(**{**document, **_texts(document), "items": items, "severity": severity})


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message as it is rendered: with its id, when it was published, and where links lead."""

    id: str
    at: datetime
    message: Message
    public_url: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The recipient has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """It may work later; `retry_after_s` is what the other side asked for."""

    detail: str
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """This message will never be taken; others may."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """There is no such recipient any more."""

    detail: str


Outcome: TypeAlias = Delivered | Failed | Refused | Gone


def _item(document: Mapping[str, Any]) -> Item:
    return Item(**{**document, **_texts(document)})


def _texts(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sentences": tuple(document["sentences"]),
        "facts": tuple(Fact(*fact) for fact in document["facts"]),
    }
