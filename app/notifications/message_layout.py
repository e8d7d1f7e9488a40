"""A message as lines of inert text, before a channel puts them into its own form."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from app.notifications.safe_text import followable, unlinked
from app.notifications.types import Fact, Item, Message, Notice, Severity

TITLE_CHARS = 200
SENTENCE_CHARS = 1000
NAME_CHARS = 80
VALUE_CHARS = 300
MOST_LINES = 30


class Run(NamedTuple):
    """A piece of a line: a text without any markup, whole and safe as it is."""

    text: str
    strong: bool = False
    link: str | None = None


Line: TypeAlias = tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLayout:
    """A title, and sections of lines: the message itself, then each item."""

    title: str
    sections: tuple[tuple[Line, ...], ...]


def layout_of(notice: Notice, *, most_items: int, most_lines: int = MOST_LINES) -> MessageLayout:
    """The lines of a message; how many items are left out is said in the last section."""
    message, public_url = notice.message, notice.public_url
    sections = [_cut(tuple(_lines(message, public_url)), most_lines)]
    sections += [
        (_heading(item, public_url), *_lines_of_item(item, most_lines))
        for item in message.items[:most_items]
    ]
    left_out = len(message.items) - most_items
    if left_out > 0:
        sections.append(((Run(f"and {left_out} more"),),))
    return MessageLayout(title=title_of(message), sections=tuple(filter(None, sections)))


def title_of(message: Message) -> str:
    """The title, with how serious it is in words."""
    title = unlinked(message.title, TITLE_CHARS)
    return title if message.severity is Severity.INFO else f"{message.severity.title()}: {title}"


def _lines(message: Message, public_url: str) -> Iterator[Line]:
    yield from _sentences(message.sentences)
    yield from map(_fact, message.facts)
    link = followable(message.link, public_url)
    if link is not None:
        yield (Run("Open in MOSAICO", link=link),)


def _heading(item: Item, public_url: str) -> Line:
    return (Run(unlinked(item.title, TITLE_CHARS), True, followable(item.link, public_url)),)


def _lines_of_item(item: Item, most: int) -> tuple[Line, ...]:
    return _cut((*_sentences(item.sentences), *map(_fact, item.facts)), most)


def _cut(lines: tuple[Line, ...], most: int) -> tuple[Line, ...]:
    """At most so many lines, the last of which says how many others there are."""
    if len(lines) <= most:
        return lines
    return (*lines[: most - 1], (Run(f"and {len(lines) - most + 1} more lines"),))


def _sentences(sentences: tuple[str, ...]) -> Iterator[Line]:
    shown = (unlinked(sentence, SENTENCE_CHARS) for sentence in sentences)
    return ((Run(sentence),) for sentence in shown if sentence)


def _fact(fact: Fact) -> Line:
    name, value = unlinked(fact.name, NAME_CHARS), unlinked(fact.value, VALUE_CHARS)
    return (Run(f"{name}: ", True), Run(value or "–"))
