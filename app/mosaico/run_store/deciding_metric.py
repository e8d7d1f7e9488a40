"""The metric that says of one answer whether it is right."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement

from mosaico.run_store.models import TraceResult

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

    def wrong_answers(self, columns: Sequence[str]) -> ColumnElement[bool]:
        """The condition of a wrong answer; `columns` are the metrics of the run. An agent that failed has the worst value,
        unless its error is not its own.
        """
        # Arrays of Postgres count from 1.
        value: Any = TraceResult.values[list(columns).index(self.column) + 1]
        is_wrong: ColumnElement[bool] = (
            value > 1 - RIGHT_FROM if self.less_is_better else value < RIGHT_FROM
        )
        return is_wrong


def is_right_answer(
    columns: Sequence[str], result: TraceResult | None, decider: DecidingMetric | None
) -> bool | None:
    """Return whether the answer of a trace is right; None where nothing says so. `columns` are the metrics of the run."""
    if decider is None or result is None or decider.column not in columns:
        return None
    return decider.is_right(result.values[list(columns).index(decider.column)])
