"""The figures and verdicts that a page shows, and whether a document of the API has them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from playwright.sync_api import Page

from tests.browser.identities import IDENTITIES

# The parts of a page that show data: rows, cards, facts and the title, each with its texts and its links. What is typed,
# chosen or folded, times, commands, charts and texts for screen readers are not read. Nor are parts whose data has no
# address of its own: what a rule promises, the differences of the runs of a trend, a backtest (the answer to a POST), the
# help of the formula language (`/kpi-formulas/help`), and the answers in a file.
SHOWN_PARTS: Final = r"""() => {
  const parts = "tbody tr, article, dd, h1", skipped = `time, code, pre, select, option, button, svg, details, form, nav,
    .hidden, .help, .input, .promise, .differences, .answer, [aria-hidden], ${parts}`;
  return [...document.querySelectorAll("main :is(tbody tr, article, dd, h1)")].filter((element) => !element.closest("details, #backtest, :is(#references, #statistics, #functions, #operators) + *")).map((element) => {
    const copy = element.cloneNode(true);
    copy.querySelectorAll(skipped).forEach((inner) => inner.remove());
    const texts = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT), words = [];
    while (texts.nextNode()) words.push(texts.currentNode.data.trim());
    return {
      name: element.textContent,
      text: words.filter(Boolean).join(" "),
      links: [...element.querySelectorAll("a[href]")].map((link) => link.getAttribute("href")),
      badges: [...copy.querySelectorAll(".badge, .status")].map((badge) => badge.textContent.trim()),
    };
  });
}"""
# A number with its unit, if that changes its value; not one in a name, nor a duration, which is computed from two times.
UNITS: Final = {"%": 100, "GB": 1e-9, "MB": 1e-6, "kB": 1e-3}
NUMBER: Final = re.compile(
    r"(?<![\w.#-])([+\u2212]?\d[\d,]*(?:\.\d+)?)(?:\s?(%|GB|MB|kB)(?!\w)|(?!\s?(?:s|min|h|d|days?)\b)(?![\w-]|\.\w))"
)
# No data: the name of an interval, the number of a trial, which the API counts from zero, and the free bytes of a disk,
# which are others a moment later.
NAMES: Final = re.compile(r"95 % CI|trial \d+|[\d.]+ Gi?B free")
WORDS: Final = frozenset(
    {
        "regressed", "improved", "no evidence", "inconclusive", "invalid", "failed", "completed", "running",
        "pending", "cancelled", "critical", "warning", "info", "firing", "worse", "resolved", "open",
        "recovered", "delivered",  "scored", "agent error", "infra error", "timeout", "held",
    }
)  # fmt: skip


class ShownPart(NamedTuple):
    """A part of a page: all of its text, the text of its data, the addresses that it links to, and its badges."""

    name: str
    text: str
    links: Sequence[str]
    badges: Sequence[str]


def read_shown_parts(page: Page) -> list[ShownPart]:
    """The parts of a page that show data."""
    return [ShownPart(**part) for part in page.evaluate(SHOWN_PARTS)]


def missing_data(part: ShownPart, document: Any) -> list[str]:
    """The figures and verdicts of a part of a page that the document does not have: for a row, not in the objects that
    the row links to or names.
    """
    scope = list(_objects_of(part, document)) or [document]
    numbers, words = set[float](), set[str]()
    for value in scope:
        # The word of a check of the system that is not `ok`.
        words |= {"failed"} if '"ok": false' in json.dumps(value) else set()
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
        *(text for text, unit in _numbers_of(part.text) if not _has_number(text, unit, numbers)),
    ]


def count_data(part: ShownPart) -> int:
    """How many figures and verdicts a part shows."""
    shown = [word for badge in part.badges if (word := _word_of(badge)) in WORDS]
    return len(shown) + len(_numbers_of(part.text))


def _word_of(badge: str) -> str:
    return re.sub(r"^[^\w]+", "", badge).lower().strip()


def _numbers_of(text: str) -> list[tuple[str, str]]:
    """The numbers of a text, each with its unit."""
    return NUMBER.findall(NAMES.sub("", text))


def _has_number(text: str, unit: str, numbers: Iterable[float]) -> bool:
    """Return whether one of the numbers is the shown one, rounded to its decimals."""
    digits = text.replace(",", "").strip("+\u2212")
    half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * 1.000001
    factors = {1, UNITS.get(unit, 1)}
    return any(
        abs(abs(number) * factor - float(digits)) <= half
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
            name in part.name for name in names if len(name) > 3
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
