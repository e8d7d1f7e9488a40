"""Layout of a message: lines of safe text, which a channel puts into its own format. Safe text has no control characters,
line breaks or links of users.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

from mosaico.core.text import JOINERS
from mosaico.notifications.types import (
    MessageFact,
    MessageItem,
    MessageLink,
    MessageSeverity,
    NotificationMessage,
    PublishedMessage,
)

ELLIPSIS = "…"
MAX_LINK_CHARS = 2048

# Mail programs and chats turn these into links automatically.
_AUTO_LINK = re.compile(r"://|(?<=www)\.", re.IGNORECASE)


def one_line(text: str, limit: int) -> str:
    """The text on one line, without control and direction characters, cut to `limit`."""
    # Direction characters (category Cf) can make a text read differently from what it contains.
    visible = text if text.isprintable() else "".join(map(_visible_char, text))
    line = " ".join(visible.split())
    return line if len(line) <= limit else line[: limit - len(ELLIPSIS)].rstrip() + ELLIPSIS


def without_links(text: str, limit: int) -> str:
    """The text on one line, with brackets that prevent automatic links."""
    return _AUTO_LINK.sub(lambda match: f"[{match.group()}]", one_line(text, limit))


def resolve_link(link: str | None, public_url: str) -> str | None:
    """The absolute URL of a link: a path of this service, or a web page.

    None for all other links: other schemes, user names, characters that are not valid in a URL.
    """
    if not link or len(link) > MAX_LINK_CHARS or not (link.isascii() and link.isprintable()):
        return None
    # Some of these end an attribute or a link in HTML, Markdown or Slack.
    if any(mark in link for mark in " \"<>\\^`{|}'"):
        return None
    try:
        url = urljoin(public_url, link)
        parts = urlsplit(url)
        is_web_page = (
            # `https://bank.example@evil.example/` shows one host and opens another.
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        )
    except ValueError:
        return None
    return url if is_web_page else None


def _visible_char(char: str) -> str:
    category = unicodedata.category(char)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    return "" if category.startswith("C") and char not in JOINERS else char


MAX_TITLE_CHARS = 200
MAX_SENTENCE_CHARS = 1000
MAX_FACT_NAME_CHARS = 80
MAX_FACT_VALUE_CHARS = 300
MAX_LINES = 30


class TextSpan(NamedTuple):
    """A part of a line: plain text without markup, and how to show it."""

    text: str
    strong: bool = False
    link: str | None = None


TextLine: TypeAlias = tuple[TextSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLayout:
    """A title and sections of lines: the message itself, then one section for each item."""

    title: str
    sections: tuple[tuple[TextLine, ...], ...]


def build_layout(
    published: PublishedMessage, *, max_items: int, max_lines: int = MAX_LINES
) -> MessageLayout:
    """Lay out a message: its sentences, its items, the number of omitted items, and last the facts
    about its origin.
    """
    message, public_url = published.message, published.public_url
    sections = [_truncate(tuple(_sentence_lines(message.sentences)), max_lines)]
    sections += [
        (*_item_heading(item, message, public_url), *_item_lines(item, public_url, max_lines))
        for item in message.items[:max_items]
    ]
    omitted = len(message.items) - max_items
    if omitted > 0:
        sections.append(((TextSpan(f"and {omitted} more"),),))
    sections.append(_truncate(tuple(_origin_lines(message, public_url)), max_lines))
    return MessageLayout(title=message_title(message), sections=tuple(filter(None, sections)))


def message_title(message: NotificationMessage) -> str:
    """The title, preceded by the severity in brackets unless it is INFO."""
    # Titles contain names that users choose: a chat must not turn one into a link.
    title = without_links(message.title, MAX_TITLE_CHARS)
    if message.severity is MessageSeverity.INFO:
        return title
    return f"[{message.severity}] {title}"


def _origin_lines(message: NotificationMessage, public_url: str) -> Iterator[TextLine]:
    yield from map(_fact_line, message.facts)
    link = resolve_link(message.link, public_url)
    if link is not None:
        yield (TextSpan("Open in MOSAICO", link=link),)


def _item_heading(
    item: MessageItem, message: NotificationMessage, public_url: str
) -> Iterator[TextLine]:
    # The title of the message says the same about its only item.
    is_repeated = len(message.items) == 1 and item.title in message.title
    if is_repeated and item.link in (None, message.link):
        return
    title = without_links(item.title, MAX_TITLE_CHARS)
    yield (TextSpan(title, True, resolve_link(item.link, public_url)),)


def _item_lines(item: MessageItem, public_url: str, max_lines: int) -> tuple[TextLine, ...]:
    links = (
        (TextSpan(without_links(link.text, MAX_SENTENCE_CHARS), link=_resolve(link, public_url)),)
        for link in item.links
    )
    lines = (
        *_sentence_lines(item.sentences),
        *links,
        *map(_fact_line, item.facts),
        *_sentence_lines(item.advice),
    )
    return _truncate(lines, max_lines)


def _resolve(link: MessageLink, public_url: str) -> str | None:
    return resolve_link(link.url, public_url)


def _truncate(lines: tuple[TextLine, ...], max_lines: int) -> tuple[TextLine, ...]:
    """At most `max_lines` lines; the last one counts the lines that are left out."""
    if len(lines) <= max_lines:
        return lines
    omitted = len(lines) - max_lines + 1
    return (*lines[: max_lines - 1], (TextSpan(f"and {omitted} more lines"),))


def _sentence_lines(sentences: tuple[str, ...]) -> Iterator[TextLine]:
    texts = (without_links(sentence, MAX_SENTENCE_CHARS) for sentence in sentences)
    return ((TextSpan(text),) for text in texts if text)


def _fact_line(fact: MessageFact) -> TextLine:
    name = without_links(fact.name, MAX_FACT_NAME_CHARS)
    value = without_links(fact.value, MAX_FACT_VALUE_CHARS)
    # Slack rejects an element without text.
    return (TextSpan(f"{name}: ", True), TextSpan(value or "–"))
