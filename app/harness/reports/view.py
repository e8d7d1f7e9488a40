"""The view of a run that every report format renders; each harness builds its own `RunReportView`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from app.llm.conversation import Block, ChatMessage, TextBlock, ThinkingBlock, ToolUseBlock


class AttemptStatus(Enum):
    """How a report counts an attempt; NEUTRAL is neither passed nor failed."""

    PASSED = "passed"
    FAILED = "failed"
    NEUTRAL = "neutral"
    ERROR = "error"
    SKIPPED = "skipped"


class FigureLine(NamedTuple):
    """A named figure of a run, such as its pass rate."""

    name: str
    text: str


class ReportTable(NamedTuple):
    """A table of a report: a title, column names, and rows of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class TranscriptEntry(NamedTuple):
    """What one participant said or did."""

    speaker: str
    texts: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One attempt. `label` is its result in one word; `failures` are the unmet expectations.

    `group` and `case` are the class and name of its JUnit case.
    """

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
    transcript: Sequence[TranscriptEntry] = ()

    @property
    def reason(self) -> str:
        """Why the attempt did not pass; empty when it did."""
        return self.error or "; ".join(self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReportView:
    """A run. `overview`, when given, lists the attempts as a table instead of one line each.

    `plots` are finished HTML fragments, shown on the HTML page only.
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


def transcript_of(messages: Iterable[ChatMessage]) -> list[TranscriptEntry]:
    """The messages of a conversation as texts."""
    return [
        TranscriptEntry(
            message.role.replace("_", " "), [block_text(block) for block in message.content]
        )
        for message in messages
    ]


def block_text(block: Block) -> str:
    """A text block as it is, a tool call as one line, a tool result as its content."""
    if isinstance(block, TextBlock):
        return block.text
    if isinstance(block, ThinkingBlock):
        return f"(thinking) {block.text}".strip()
    if isinstance(block, ToolUseBlock):
        commands = block.input.get("commands", block.input.get("script"))
        if isinstance(commands, str):
            return f"$ {commands}"
        return f"{block.name} {json.dumps(block.input, ensure_ascii=False)}"
    return block.content
