"""The figures, times and verdicts that a page shows, and whether the documents of the API have them.

Every text of a page is read, also in closed parts and in the tables of charts. Not read are what is typed or chosen,
what screen readers hear of a symbol, charts (their table has the same points: `test_chart__has_a_name_and_a_table_twin`),
names and commands, and counts of a list (`data-count`, which other tests compare with the API).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from playwright.sync_api import Page

from tests.browser.identities import IDENTITIES

# The texts of a row, a card, a fact or another part of the page, each with its column or label. An estimate, which is
# another a moment later, and the time of the page are no data.
SHOWN_PARTS: Final = r"""() => {
  const main = document.querySelector("main"), parts = new Map();
  const skipped = `form:not(:has(tbody)), label, nav, select, option, button, thead, dt, svg, code, pre, kbd, .hidden, .help, .empty, .crumbs, noscript,
    [aria-hidden], [data-count]`;
  const labelOf = (element, part) => {
    const cell = element.closest("td, th"), heads = cell?.closest("table").querySelectorAll("thead th");
    return (heads?.[cell.cellIndex] ?? (part.localName === "dd" ? part.previousElementSibling : null))?.textContent.trim() ?? "";
  };
  const isEstimate = time => time.parentElement.textContent.includes("(about)") || Math.abs(Date.now() - new Date(time.dateTime)) < 120000;
  const texts = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, text = texts.currentNode.data.replace(/\s+/g, " ").trim();
    if (!text || element.closest(skipped)) continue;
    const part = element.closest("tbody tr, article, dd") ?? element.closest("li, p, h1, h2, h3, summary, div, main");
    if (!parts.has(part)) parts.set(part, {
      name: part.textContent, isRow: part.matches("tr, article"), texts: [], times: [],
      links: [...part.querySelectorAll("a[href]")].map(link => link.getAttribute("href")),
      badges: [...part.querySelectorAll(".badge, .status")].map(badge => badge.textContent.trim()),
    });
    const time = element.closest("time"), { texts: shown, times } = parts.get(part);
    if (!time) shown.push([labelOf(element, part), text]);
    else if (!isEstimate(time)) times.push(time.dateTime);
  }
  return [...parts.values()];
}"""
ROWS_OF_TABLES: Final = "tables => tables.map(table => table.tBodies[0].rows.length)"
# The fields of the API that a column or a label shows; what has no label, or another one, may show any.
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    label: frozenset(fields.split())
    for label, fields in {
        "Value": "value mean intervalLow intervalHigh EXACT_MATCH LATENCY_MS", "Mean": "mean", "Now": "value now", "Bin": "edges", "Run": "value", "Base": "baselineValue",
        "Baseline": "baselineValue", "Before": "baseline before", "Level before": "baseline", "Level now": "value",
        "Expected": "baseline", "95 % CI": "intervalLow intervalHigh low high", "Change": "effect change low high",
        "Evidence": "items trials p pAdjusted compared minDetectableEffect low high", "Range": "minimum maximum",
        "EXACT_MATCH": "EXACT_MATCH change", "LATENCY_MS": "LATENCY_MS change", "Item": "trial",
        "p50": "p50", "p95": "p95", "Measured": "n expected", "Attempt": "retryCount", "Attempts": "attempts",
        "Traces": "tracesTotal tracesCollected tracesProcessed traces traceCount", "Running": "tracesProcessed tracesTotal",
        "Validity": "coverage errorShare", "Valid run": "minCoverage maxErrorShare", "Judges": "minAgreement",
        "False alarms": "promisedFalsePages fired true noise", "Failures": "consecutiveFailures maxConsecutiveFailures",
        "Smallest drop": "minDetectableEffect", "Items": "items itemCount", "Trials": "trials", "Items needed": "itemsNeeded",
        "Trials needed": "trialsNeeded", "Thresholds": "thresholdMin thresholdMax", "Turns": "turns", "Cost": "costUsd",
        "Input tokens": "inputTokens", "Output tokens": "outputTokens", "Size": "sizeBytes", "Database": "databaseBytes",
        "Disk": "diskTotalBytes", "Python": "processors", "Plugins": "plugins", "Revision": "revision",
        "Rule": "ruleRevision revision",
    }.items()
}  # fmt: skip
# A number with its unit, if that changes its value; not one in a name, nor a duration, which is computed from two times.
UNITS: Final = {"%": 100, "GB": 1e-9, "MB": 1e-6, "kB": 1e-3}
NUMBER: Final = re.compile(
    r"(?<![\w.,:#/-])([+\u2212]?\d[\d,]*(?:\.\d+)?)"
    r"(?:\s?(%|GB|MB|kB)(?!\w)|(?!\s?(?:s|ms|min|h|d|days?|hours?)\b)(?![\w:-]|\.\w))"
)
# Words of the pages and of hostile names with a number that is no data, and the free bytes of a disk, which are others a moment later.
WORDING: Final = re.compile(
    r"alert\(1\)|95 % (?:CI|interval|confidence interval)|p\s+< 0\.001|in 30 runs|4 of 5 cases|[\d.]+ Gi?B free"
)
DAY: Final = re.compile(r"\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b")
WORDS: Final = frozenset(
    {
        "regressed", "improved", "no evidence", "inconclusive", "invalid", "failed", "completed", "running",
        "pending", "cancelled", "critical", "warning", "info", "firing", "worse", "resolved", "open",
        "recovered", "delivered",  "scored", "agent error", "infra error", "timeout", "held",
    }
)  # fmt: skip


class ShownPart(NamedTuple):
    """A part of a page: all of its text, that of its data with the labels, times, addresses and badges."""

    name: str
    texts: Sequence[tuple[str, str]]
    times: Sequence[str] = ()
    links: Sequence[str] = ()
    badges: Sequence[str] = ()
    is_row: bool = False

    @property
    def verdicts(self) -> list[str]:
        words = (re.sub(r"^[^\w]+", "", badge).lower().strip() for badge in self.badges)
        return [word for word in words if word in WORDS]


class Leaf(NamedTuple):
    """A number or a text of a document, and the name of its field; a list is the number of its members, too."""

    field: str
    value: str | float


def count_rows(page: Page) -> list[int]:
    """The number of rows of each table of a page."""
    counts: list[int] = page.locator("main table").evaluate_all(ROWS_OF_TABLES)
    return counts


def read_shown_parts(page: Page) -> list[ShownPart]:
    return [
        ShownPart(
            # A page marks a text that changes the direction.
            name=part["name"].replace("[U+202E]", "\u202e"), texts=part["texts"], times=part["times"], links=part["links"],
            badges=part["badges"], is_row=part["isRow"],
        )
        for part in page.evaluate(SHOWN_PARTS)
    ]  # fmt: skip


class ApiData:
    """The documents of a page; `rows` are the numbers of rows of its tables, which sentences about cut lists have."""

    def __init__(self, documents: Sequence[Any], rows: Sequence[int] = ()) -> None:
        self._documents = documents
        # A check of the system that is not `ok` is "failed", and their number is shown.
        failed = json.dumps(documents).count('"ok": false')
        self._check_words = {"failed"} if failed else set()
        self._leaves = [
            *_leaves_of_each(documents),
            *(Leaf("rows", float(count)) for count in (*rows, *filter(None, [failed]))),
        ]

    def missing(self, part: ShownPart) -> list[str]:
        """The figures, times and verdicts of a part that the documents do not have: for a row, not in the objects
        that it links to, else in those that it names.
        """
        objects = self._objects_of(part) if part.is_row else []
        leaves = _leaves_of_each(objects) if objects else self._leaves
        texts = (leaf.value for leaf in leaves if isinstance(leaf.value, str))
        words = {text.replace("_", " ").lower() for text in texts} | self._check_words
        return [
            *(word for word in part.verdicts if word not in words),
            *(time for time in part.times if _instant(time) not in self._instants),
            *(day for day in self._days_of(part) if day not in self._days),
            *(
                text
                for label, text, unit in self.figures_of(part)
                if not _has_number(text, unit, _numbers_of(leaves, FIELDS.get(label)))
            ),
        ]

    def count(self, part: ShownPart) -> int:
        """How many figures, times and verdicts a part shows."""
        return len(part.verdicts) + len(part.times) + len(self.figures_of(part))

    def figures_of(self, part: ShownPart) -> list[tuple[str, str, str]]:
        """The label, number and unit of each figure, without those of sentences that the API has word by word."""
        return [
            (label, *figure)
            for label, text in part.texts
            for figure in NUMBER.findall(DAY.sub(" ", self._without_sentences(label, text)))
        ]

    def _days_of(self, part: ShownPart) -> list[str]:
        return [
            day
            for label, text in part.texts
            for day in DAY.findall(self._without_sentences(label, text))
        ]

    def _without_sentences(self, label: str, text: str) -> str:
        if " " in text and any(text.removesuffix("…") in sentence for sentence in self._sentences):
            return ""
        for sentence in self._sentences:
            if sentence in text:
                text = re.sub(rf"(?<![\w.,]){re.escape(sentence)}(?!\w)", " ", text)
        text = WORDING.sub(" ", text)
        # The API counts trials and attempts from zero.
        counted = r"()(\d+)" if label == "Attempt" else r"\b(trial )(\d+)"
        return re.sub(counted, lambda match: f"{int(match[2]) - 1} ", text)

    @cached_property
    def _sentences(self) -> list[str]:
        """The texts with a number, the longest first; a page marks a text that changes the direction."""
        texts = {leaf.value for leaf in self._leaves if isinstance(leaf.value, str)}
        shown = {" ".join(text.replace("\u202e", "[U+202E]").split()) for text in texts}
        return sorted(
            (text for text in shown if len(text) > 3 and re.search(r"\d", text)), key=len
        )[::-1]

    @cached_property
    def _instants(self) -> set[int]:
        return {at for leaf in self._leaves if (at := _instant(leaf.value)) is not None}

    @cached_property
    def _days(self) -> set[str]:
        """The days of the instants in UTC and in the zone of the tests, which is at most two hours ahead."""
        days = (
            datetime.fromtimestamp(at, UTC) + timedelta(hours=h)
            for at in self._instants
            for h in range(3)
        )
        return {f"{day.day} {day:%b}" for day in days}

    def _objects_of(self, part: ShownPart) -> list[Any]:
        targets = {unquote(re.split(r"[?#]", link)[0].rpartition("/")[2]) for link in part.links}
        targets |= {
            unquote_plus(value) for link in part.links for value in re.findall(r"=([^&]+)", link)
        }
        return list(_find_objects(self._documents, lambda name: name in targets)) or list(
            _find_objects(self._documents, lambda name: len(name) > 3 and name in part.name)
        )


def _find_objects(value: Any, is_named: Callable[[str], bool]) -> Iterator[Any]:
    """The objects of a document with one of the names; not those within them."""
    if isinstance(value, list):
        for member in value:
            yield from _find_objects(member, is_named)
    elif isinstance(value, dict):
        names = (str(value[key]) for key in IDENTITIES if value.get(key) is not None)
        if any(map(is_named, names)):
            yield value
        else:
            for member in value.values():
                yield from _find_objects(member, is_named)


def _leaves_of_each(values: Iterable[Any]) -> list[Leaf]:
    return [leaf for value in values for leaf in _leaves_of(value)]


def _leaves_of(value: Any, field: str = "") -> Iterator[Leaf]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _leaves_of(member, name)
    elif isinstance(value, list):
        yield Leaf(field, float(len(value)))
        for member in value:
            yield from _leaves_of(member, field)
    elif isinstance(value, str):
        yield Leaf(field, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield Leaf(field, float(value))


def _numbers_of(leaves: Iterable[Leaf], fields: frozenset[str] | None) -> list[float]:
    return [
        leaf.value
        for leaf in leaves
        if isinstance(leaf.value, float) and (fields is None or leaf.field in fields)
    ]


def _has_number(text: str, unit: str, numbers: Iterable[float]) -> bool:
    """Return whether one of the numbers is the shown one, rounded to its decimals."""
    digits = text.replace(",", "").replace("\u2212", "-")
    half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * 1.000001
    return any(abs(number * UNITS.get(unit, 1) - float(digits)) <= half for number in numbers)


def _instant(value: str | float) -> int | None:
    """The second of an instant; None of another text."""
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return None if at.tzinfo is None else int(at.timestamp())
