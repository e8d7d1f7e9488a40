"""The view of a run that every report format renders; each harness builds its own `RunReportView`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from mosaico.harness.results import ConversationEnding, ProviderRetries, sum_retries
from mosaico.harness.transcript import Transcript

UNKNOWN = "–"


def format_percent(rate: float | None, decimals: int = 1) -> str:
    """`86.5 %`; a rate below 1 is never rounded up to 100 %."""
    if rate is None:
        return UNKNOWN
    highest = 100 - 10**-decimals if rate < 1 else 100.0
    return f"{min(100 * rate, highest):.{decimals}f} %"


def format_seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


_ENDINGS: Final = {
    ConversationEnding.NATURAL: "stopped by itself",
    ConversationEnding.TURN_LIMIT: "turn limit reached",
    ConversationEnding.TOKEN_LIMIT: "token limit reached",
    ConversationEnding.TIME_LIMIT: "time limit reached",
    ConversationEnding.COST_LIMIT: "cost limit reached",
    ConversationEnding.TRUNCATED: "response truncated",
    ConversationEnding.ERROR: "ended by an error",
}


def describe_ending(ending: ConversationEnding, detail: str | None) -> str:
    """`turn limit reached`; an ending that a provider names keeps that name, with its text."""
    words = _ENDINGS.get(ending, f"ended by {ending}")
    return f"{words}: {detail}" if detail else words


def describe_early_ending(ending: ConversationEnding | None, detail: str | None) -> str:
    """The ending if it is neither that of the model itself nor an error, which has its own place."""
    if ending in (None, ConversationEnding.NATURAL, ConversationEnding.ERROR):
        return ""
    return describe_ending(ending, detail)


def format_waiting(retries: ProviderRetries) -> str:
    """The part of a duration that waited for the provider: ` (12.0 s of it waiting after 2 × 429)`."""
    if not retries.waited_ms:
        return ""
    return f" ({format_seconds(retries.waited_ms)} of it waiting after {retries.causes})"


def format_points(points: float) -> str:
    """Points without needless decimals: `7`, `2.5`."""
    return f"{points + 0.0:g}"  # + 0.0: the original evaluation recorded an empty sum as -0.0


def format_dollars(amount: float | None) -> str:
    return "unknown" if amount is None else f"${amount:.4f}"


def format_count(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:.0f}"


def format_cached(read: int | None, written: int | None) -> str:
    """` (120 from a cache, 30 written to it)`; empty when no input token was cached."""
    if not read and not written:
        return ""
    written_text = f", {written} written to it" if written else ""
    return f" ({read or 0} from a cache{written_text})"


def format_tokens(count: int | None) -> str:
    return "unknown" if count is None else str(count)


class AttemptStatus(Enum):
    """The status of an attempt in a report; NEUTRAL is neither passed nor failed."""

    PASSED = "passed"
    FAILED = "failed"
    NEUTRAL = "neutral"
    ERROR = "error"
    SKIPPED = "skipped"

    @property
    def label(self) -> str:
        """The status in one word; `-` for an attempt that is neither passed nor failed."""
        return _LABELS.get(self, "-")


_LABELS: Final = {
    AttemptStatus.PASSED: "PASS",
    AttemptStatus.FAILED: "FAIL",
    AttemptStatus.ERROR: "ERROR",
    AttemptStatus.SKIPPED: "SKIP",
}


class FigureLine(NamedTuple):
    """A named figure of a run, such as its pass rate."""

    name: str
    text: str


class ReportTable(NamedTuple):
    """A table of a report: a title, column names, and rows of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt at `task`. `label` is its result in one word; `failures` are the unmet expectations.

    `group` and `case` are the class and name of its JUnit case. `asks_model` is false for a task
    that calls a tool directly. `ending` is None where none is known, as for such a task;
    `ending_detail` is what the model or its provider said about it.
    """

    task: str
    title: str
    label: str
    status: AttemptStatus
    group: str
    case: str
    duration_s: float
    points: str = ""
    facts: str = ""
    description: str = ""
    error: str = ""
    error_kind: str | None = None
    failures: Sequence[str] = ()
    checks: ReportTable | None = None
    asks_model: bool = True
    ending: ConversationEnding | None = None
    ending_detail: str | None = None
    transcript: Transcript | None = None

    @property
    def reason(self) -> str:
        """Return the reason why the attempt did not pass; empty when it did."""
        return self.error or "; ".join(self.failures)

    @property
    def early_ending(self) -> str:
        """Return how the conversation ended, if not by the model itself or an error."""
        return describe_early_ending(self.ending, self.ending_detail)


def retry_figures(attempts: Iterable[ProviderRetries]) -> list[FigureLine]:
    """The failed requests of a run and the waits after them; nothing when every request succeeded."""
    total = sum_retries(attempts)
    if not total.failures:
        return []
    text = f"{total.describe()}, {format_seconds(total.waited_ms)} of waiting"
    return [FigureLine("Failed requests", text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReportView:
    """A run. `overview`, when given, lists the attempts as a table instead of one line each.

    `plots` are finished HTML fragments, shown on the HTML page only. `page` is the URL of the run in a service.
    `is_complete` is false for a run that did not reach every planned attempt.
    """

    program: str
    title: str
    timestamp: str
    figures: Sequence[FigureLine]
    tables: Sequence[ReportTable]
    attempts: Sequence[AttemptView]
    overview: ReportTable | None = None
    note: str = ""
    plots: Sequence[str] = field(default=())
    page: str = ""
    is_complete: bool = True
