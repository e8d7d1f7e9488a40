"""The figures and verdicts that a page shows, and whether a document of the API has them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from tests.browser.identities import IDENTITIES

# The parts of a page that show data: rows, cards, facts and the title, each with its texts and its links. What is typed
# or chosen, times, commands and texts for screen readers are no data.
SHOWN_PARTS: Final = r"""() => {
  const skipped = "time, code, pre, select, option, button, svg, details, form, .hidden, .help, .input, [aria-hidden], nav, .chart-box + output, [data-key=o]";
  const part = (element) => {
    const copy = element.cloneNode(true);
    copy.querySelectorAll(`${skipped}, tbody tr, article, dd`).forEach((inner) => inner.remove());
    const links = [...element.querySelectorAll("a[href]")].map((link) => link.getAttribute("href"));
    const badges = [...copy.querySelectorAll(".badge, .status")].map((badge) => badge.textContent.trim());
    return { text: copy.textContent.replace(/\s+/g, " ").trim(), links, badges, label: element.tagName };
  };
  return [...document.querySelectorAll("main tbody tr, main article, main dd, main h1")].filter((element) => !element.closest("details, [data-elsewhere]")).map(part);
}"""
NUMBER: Final = re.compile(r"(?<![\w.#-])([+\u2212]?\d[\d,]*(?:\.\d+)?)(\s?%|(?![\w.]*\w))")
WORDS: Final = frozenset(
    {
        "regressed", "improved", "no evidence", "inconclusive", "invalid", "failed", "completed", "running",
        "pending", "cancelled", "critical", "warning", "info", "firing", "worse", "resolved", "open",
        "recovered", "delivered", "scored", "agent error", "infra error", "timeout", "held",
    }
)  # fmt: skip


class ShownPart(NamedTuple):
    """A part of a page: its text, the addresses that it links to, and its badges."""

    label: str
    text: str
    links: Sequence[str]
    badges: Sequence[str]


def missing_data(part: ShownPart, document: Any) -> list[str]:
    """The figures and verdicts of a part of a page that the document does not have: for a row, not in the objects that
    the row links to or names.
    """
    scope = list(_objects_of(part, document)) or [document]
    numbers, words = set[float](), set[str]()
    for value in scope:
        for leaf in _leaves(value):
            if isinstance(leaf, str):
                words.add(leaf.replace("_", " ").lower())
                numbers |= {
                    float(text) for text in re.findall(r"\d+(?:\.\d+)?", leaf.replace(",", ""))
                }
            else:
                numbers.add(float(leaf))
    shown = [_word_of(badge) for badge in part.badges]
    return [
        *(word for word in shown if word in WORDS and word not in words),
        *(text for text in _numbers_of(part.text) if not _has_number(text, numbers)),
    ]


def count_data(part: ShownPart) -> int:
    """How many figures and verdicts a part shows."""
    shown = [word for badge in part.badges if (word := _word_of(badge)) in WORDS]
    return len(shown) + len(_numbers_of(part.text))


def _word_of(badge: str) -> str:
    return re.sub(r"^[^\w]+", "", badge).lower().strip()


def _numbers_of(text: str) -> list[str]:
    return ["".join(match) for match in NUMBER.findall(text)]


def _has_number(text: str, numbers: Iterable[float]) -> bool:
    """Whether one of the numbers is the shown one, rounded to its decimals; a percentage may be a share."""
    digits = text.rstrip("% ").replace(",", "").replace("\u2212", "-")
    shown, half = float(digits), 0.5 * 10.0 ** -len(digits.partition(".")[2])
    factors = (1, 100) if "%" in text else (1,)
    return any(
        abs(abs(number) * factor - abs(shown)) <= half * 1.000001
        for number in numbers
        for factor in factors
    )


def _objects_of(part: ShownPart, value: Any) -> Iterator[Any]:
    """The objects of a document that a part links to or names."""
    if isinstance(value, list):
        for member in value:
            yield from _objects_of(part, member)
    elif isinstance(value, dict):
        names = {str(value[key]) for key in IDENTITIES if value.get(key) is not None}
        segments = {segment for link in part.links for segment in re.split(r"[/?&=]", link)}
        if names & {unquote(segment) for segment in segments} or any(
            name in part.text for name in names if len(name) > 3
        ):
            yield value
        else:
            for member in value.values():
                yield from _objects_of(part, member)


def _leaves(value: Any) -> Iterator[str | float]:
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, list):
        yield len(value)
        for member in value:
            yield from _leaves(member)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield value
