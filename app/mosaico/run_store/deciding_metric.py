"""The metric that says of one answer whether it is right."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, or_

from mosaico.run_store.models import TraceResult
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import TraceOutcome

# Of a share between 0 and 1: an answer, or an item over its trials, is right from here on.
RIGHT_FROM: Final = 0.5


class DecidingMetric(NamedTuple):
    """A share between 0 and 1 of a run, by its column; of an error rate less is better."""

    column: str
    less_is_better: bool = False

    def is_right(self, value: float | None) -> bool | None:
        """Return whether a value is that of a right answer; None without a value."""
        if value is None:
            return None
        return (1.0 - value if self.less_is_better else value) >= RIGHT_FROM

    def describe(self) -> str:
        """What "right" means, for readers."""
        limit = f"at most {1 - RIGHT_FROM:g}" if self.less_is_better else f"at least {RIGHT_FROM:g}"
        return f"right: {self.column} of {limit}"

    def wrong_answers(self, columns: list[str]) -> ColumnElement[bool]:
        """The condition of a wrong answer, or of an agent that failed; `columns` are the metrics of the run."""
        # Arrays of Postgres count from 1.
        value: Any = TraceResult.values[columns.index(self.column) + 1]
        is_wrong = value > 1 - RIGHT_FROM if self.less_is_better else value < RIGHT_FROM
        failed = [outcome.value for outcome in TraceOutcome if outcome.is_agent_failure]
        return or_(is_wrong, value.is_(None) & CollectedTrace.outcome.in_(failed))


def is_right_answer(
    columns: Sequence[str],
    trace: CollectedTrace,
    result: TraceResult | None,
    decider: DecidingMetric | None,
) -> bool | None:
    """Return whether the answer of a trace is right: an agent that failed without a value is wrong; None where nothing
    says so. `columns` are the metrics of the run.
    """
    if decider is None or result is None or decider.column not in columns:
        return None
    value = result.values[list(columns).index(decider.column)]
    if value is None and TraceOutcome(trace.outcome).is_agent_failure:
        return False
    return decider.is_right(value)
