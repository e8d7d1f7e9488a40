"""Errors of traces by the rule that classed them, so that a wrong one is seen; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from mosaico.core.text import shorten
from mosaico.traces.error_rules import classify_error
from mosaico.traces.types import TraceOutcome

Fault: TypeAlias = Literal["agent", "infrastructure", "judge"]

NO_MESSAGE: Final = "no message"
SAID_BY_SOURCE: Final = "said by the source"
# Rules may quote the text that they found: a run may have any number of them.
MAX_GROUPS: Final = 50
OTHER_RULES: Final = "other rules"
EXAMPLE_CHARS: Final = 300
_LINE_CHARS: Final = 60


@dataclass(slots=True)
class ErrorGroup:
    """The errors of one rule: whose fault they are, their number, and the first of them with its trace."""

    rule: str
    outcome: TraceOutcome
    example: str
    trace_id: str
    count: int = 0

    @property
    def fault(self) -> Fault:
        match self.outcome:
            case TraceOutcome.INFRA_ERROR:
                return "infrastructure"
            case TraceOutcome.JUDGE_ERROR:
                return "judge"
            case _:
                return "agent"


class ErrorTally:
    """Counts errors by rule; `infra_errors` are the patterns of the user."""

    def __init__(self, infra_errors: Sequence[str] = ()) -> None:
        self._infra_errors = infra_errors
        self._groups: dict[tuple[TraceOutcome, str], ErrorGroup] = {}

    def add(self, trace_id: str, outcome: TraceOutcome, error: str | None) -> None:
        """Count a trace; one with an answer has no error."""
        if outcome is TraceOutcome.SCORED:
            return
        rule = self._rule_of(outcome, error)
        if (outcome, rule) not in self._groups and len(self._groups) >= MAX_GROUPS:
            rule = OTHER_RULES
        example = shorten(error or "", EXAMPLE_CHARS)
        group = self._groups.setdefault(
            (outcome, rule), ErrorGroup(rule, outcome, example, trace_id)
        )
        group.count += 1

    @property
    def groups(self) -> list[ErrorGroup]:
        """The groups, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)

    def describe(self, most: int = 3) -> Iterator[str]:
        """The most frequent rules: "5 errors of the infrastructure: class RateLimitError ('RateLimitError: …')"."""
        for group in self.groups[:most]:
            example = f" ({shorten(group.example, _LINE_CHARS)!r})" if group.example else ""
            noun = "error" if group.count == 1 else "errors"
            yield f"{group.count} {noun} of the {group.fault}: {group.rule}{example}"
        if len(self.groups) > most:
            others = sum(group.count for group in self.groups[most:])
            yield f"{others} errors by {len(self.groups) - most} other rules"

    def _rule_of(self, outcome: TraceOutcome, error: str | None) -> str:
        if not error:
            return NO_MESSAGE
        classed = classify_error(error, self._infra_errors)
        return classed.rule if classed.outcome is outcome else SAID_BY_SOURCE
