"""The tools of the agent (search, read, calculate), with modelled latencies."""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, DivisionByZero, InvalidOperation
from typing import Any

from demo.retrieval import Index, SearchHit, Section, words

SECTIONS_READ = 2
TIME_LIMIT_MS = 6000

PLAN_MS = 100
SEARCH_MS = 20
READ_MS, READ_MS_PER_WORD = 10, 1
FAILED_READ_MS, READ_WAITS_MS = 600, (0, 300, 800)
CALCULATE_MS = 2
REFUSED_MS = 30
WRITE_MS_PER_WORD = 15


class AgentError(Exception):
    """The agent cannot answer; ask again, or ask the front desk."""


class AgentTimeout(AgentError):
    """The question exceeded the time limit; see the failed tool calls."""


class SearchHostDown(Exception):
    """The host of the search index refused the connection; ask again when it has restarted."""


class CalculationError(AgentError):
    """The expression is not arithmetic; use numbers, + - * / and parentheses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSetting:
    """The configuration of the agent in one run; `degraded` is `good` after a hasty release.

    `indexed_words` truncates each section in the index, `index_retired` adds the retired edition,
    `sentences` limits an answer, `moved_files` are files whose sections are unreadable, and
    `search_down` is the range of questions during which the search host restarts.
    """

    index_retired: bool = False
    indexed_words: int | None = None
    sentences: int = 2
    search_ms_per_posting: int = 1
    moved_files: frozenset[str] = frozenset()
    search_down: range = range(0)


SETTINGS: Mapping[str, AgentSetting] = {
    "good": AgentSetting(),
    "degraded": AgentSetting(
        index_retired=True,
        indexed_words=32,
        sentences=1,
        search_ms_per_posting=4,
        moved_files=frozenset({"trouble"}),
        search_down=range(151, 153),
    ),
}


OPERATIONS: Mapping[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculate(expression: str) -> Decimal:
    """The value of an arithmetic expression, in decimal numbers.

    Raises `CalculationError` for anything but numbers, + - * / and parentheses, and for a
    division by zero.
    """
    if not re.fullmatch(r"[\d\s.+*/()-]+", expression):
        raise CalculationError(f"{expression!r} is not arithmetic; use numbers and + - * / ( )")
    try:
        return _value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, DivisionByZero, InvalidOperation) as error:
        raise CalculationError(f"{expression!r} has no value; check its numbers") from error


def _value(node: ast.expr) -> Decimal:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Decimal(str(number))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
    raise CalculationError(f"{ast.unparse(node)!r} is not a number; use digits and + - * /")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The agent's knowledge: the indexed sections, and the current handbook."""

    indexed: Sequence[Section]
    index: Index
    current: Mapping[str, Section]


def build_library(sections: Iterable[Section], setting: AgentSetting) -> Library:
    """Index the sections according to the setting."""
    all_sections = list(sections)
    indexed = [
        replace(section, text=_cut(section.text, setting))
        for section in all_sections
        if setting.index_retired or not section.retired
    ]
    return Library(
        indexed=indexed,
        index=Index([f"{section.heading}. {section.text}" for section in indexed]),
        current={section.slug: section for section in all_sections if not section.retired},
    )


def _cut(text: str, setting: AgentSetting) -> str:
    return " ".join(text.split()[: setting.indexed_words])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedToolCall:
    """One tool call, with its modelled duration."""

    name: str
    arguments: Mapping[str, Any]
    ok: bool
    latency_ms: int


class Toolbox:
    """The tools for one question, with a record of the calls and their modelled latency."""

    def __init__(
        self, library: Library, setting: AgentSetting, *, search_host_down: bool = False
    ) -> None:
        self.library = library
        self.calls: list[RecordedToolCall] = []
        self.elapsed_ms = PLAN_MS
        self.words_read = 0
        self._setting = setting
        self._search_host_down = search_host_down

    def search(self, query: str) -> list[SearchHit]:
        """The sections of the handbook nearest to a query."""
        arguments = {"query": query, "limit": SECTIONS_READ}
        if self._search_host_down:
            self._record("search", arguments, ok=False, latency_ms=REFUSED_MS)
            raise SearchHostDown("the search host refused the connection; repeat when it is back")
        hits, postings = self.library.index.search(query, limit=SECTIONS_READ)
        self.words_read += sum(len(words(self._section(hit).heading)) for hit in hits)
        latency_ms = SEARCH_MS + postings * self._setting.search_ms_per_posting
        self._record("search", arguments, ok=True, latency_ms=latency_ms)
        return hits

    def read(self, hit: SearchHit) -> Section | None:
        """The text of a section; None when it cannot be read after three attempts."""
        section = self._section(hit)
        if section.file not in self._setting.moved_files:
            self.words_read += len(words(section.text))
            latency_ms = READ_MS + READ_MS_PER_WORD * len(words(section.text))
            self._record("read", {"section": section.key}, ok=True, latency_ms=latency_ms)
            return section
        for wait in READ_WAITS_MS:
            self.elapsed_ms += wait
            self._record("read", {"section": section.key}, ok=False, latency_ms=FAILED_READ_MS)
        return None

    def calculate(self, expression: str) -> Decimal:
        """The value of an expression."""
        value = calculate(expression)
        self._record("calculate", {"expression": expression}, ok=True, latency_ms=CALCULATE_MS)
        return value

    def write(self, text: str) -> str:
        """Return the text; adds the latency of writing it."""
        self.elapsed_ms += WRITE_MS_PER_WORD * len(words(text))
        return text

    def _section(self, hit: SearchHit) -> Section:
        return self.library.indexed[hit.position]

    def _record(
        self, name: str, arguments: Mapping[str, Any], *, ok: bool, latency_ms: int
    ) -> None:
        self.calls.append(
            RecordedToolCall(name=name, arguments=arguments, ok=ok, latency_ms=latency_ms)
        )
        self.elapsed_ms += latency_ms
        if self.elapsed_ms > TIME_LIMIT_MS:
            raise AgentTimeout(f"no answer within {TIME_LIMIT_MS} ms; see the failed tool calls")
