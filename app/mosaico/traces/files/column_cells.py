"""What the cells of a column say about its content: numbers, judgments, verdicts, texts; pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mosaico.traces.files.cell_paths import cell_of
from mosaico.traces.files.cell_values import (
    NumberStyle,
    as_number,
    as_passed,
    as_scores,
    find_number_style,
    http_status,
    is_blank,
    is_marker,
    is_percentage,
    is_truth,
)
from mosaico.traces.files.column_words import (
    names_a_judgment,
    names_a_score,
    names_no_score,
    words_of,
)
from mosaico.traces.files.field_names import (
    FAILED,
    FAILED_OR_UNSOLVED,
    NAMES,
    NUMBER_FIELDS,
    ODD_FIELDS,
    STATES,
    SUCCEEDED,
    UNSUCCESSFUL,
    VERDICTS,
)
from mosaico.traces.files.measure_words import latency_unit
from mosaico.traces.model_responses import ValueForm
from mosaico.traces.object_text import normalize_name
from mosaico.traces.types import OUTCOMES
from mosaico.traces.value_text import read_text

# At most this share of the cells of a column may be odd; each of them is a missing value.
ODD_SHARE: Final = 0.2
NAMED_ODD_SHARE: Final = 0.5
_MAX_LABELS: Final = 8
_LABEL_CHARS: Final = 24


class ColumnCells:
    """The columns of the first rows of a table; `style` is the notation of their numbers."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows
        self.style = find_number_style(rows)

    def cells(self, column: str) -> list[Any]:
        return [cell for row in self._rows if not is_blank(cell := cell_of(row, column))]

    def find_misfit(self, name: str, column: str) -> Any:
        """A cell that has not the type of the field, None when no more than a few have not: a guess must not fail
        on the type of a cell.
        """
        cells = self.cells(column)
        misfits = [
            cell for cell in cells if not _fits(name, cell, self.style) and not is_marker(cell)
        ]
        if name == "status" and _are_states(cells):
            return None
        if name == "passed" and misfits and self._are_labels(cells):
            return misfits[0]
        is_range = any(as_number(cell, self.style) is not None for cell in misfits)
        share = NAMED_ODD_SHARE if name in ("passed", "score") else ODD_SHARE
        is_odd = name in ODD_FIELDS and not is_range and len(misfits) <= share * len(cells)
        return None if is_odd else next(iter(misfits), None)

    def numbers(self, column: str) -> list[float] | None:
        """The numbers of a column; None where too many of its cells are no numbers."""
        cells = [cell for cell in self.cells(column) if not is_marker(cell)]
        numbers = [n for cell in cells if (n := as_number(cell, self.style)) is not None]
        share = NAMED_ODD_SHARE if names_a_score(column) else ODD_SHARE
        is_number = bool(numbers) and len(cells) - len(numbers) <= share * len(cells)
        is_label = len(numbers) < len(cells) and self._are_labels(cells)
        return numbers if is_number and not is_label else None

    def _are_labels(self, cells: Sequence[Any]) -> bool:
        """Return whether the numbers among cells are words such as yes and correct: another word is a further label."""
        numbers = [cell for cell in cells if as_number(cell, self.style) is not None]
        return all(isinstance(cell, str) and is_truth(cell) for cell in numbers)

    def is_score(self, column: str) -> bool:
        """Return whether the numbers of a column judge an answer: its name says so, or all of them are percentages."""
        numbers = None if _is_number_of_something(column) else self.numbers(column)
        if numbers is None:
            return False
        is_range = all(0 <= number <= 1 for number in numbers)
        return names_a_score(column) or (is_range and all(map(is_percentage, self.cells(column))))

    def is_share(self, column: str) -> bool:
        """Return whether the numbers of a column are shares from 0 to 1, which may judge an answer."""
        numbers = None if _is_number_of_something(column) else self.numbers(column)
        if numbers is None or not all(0 <= number <= 1 for number in numbers):
            return False
        return any(number not in (0, 1) for number in numbers)

    def is_unclear_number(self, column: str) -> bool:
        is_key = normalize_name(column) == NAMES["item"][-1]
        if is_key or _is_number_of_something(column) or any(map(is_truth, self.cells(column))):
            return False
        return self.numbers(column) is not None

    def is_verdict(self, column: str) -> bool:
        words = {"pass", "passed", "fail", "failed", "correct", "incorrect", "true", "false"}
        cells = self.cells(column)
        return bool(cells) and all(
            isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().casefold() in words)
            for cell in cells
        )

    def says_success(self, column: str) -> bool:
        """Return whether a column says success or failure, with at least one failure: of a call or of the task."""
        words = {str(cell).strip().casefold() for cell in self.cells(column)}
        return words <= SUCCEEDED | UNSUCCESSFUL and not words <= SUCCEEDED

    def judgments(self, column: str) -> list[str]:
        """The words of a column that judges answers in a few words by its name; empty for another column."""
        cells = self.cells(column)
        labels = sorted({cell.strip() for cell in cells if isinstance(cell, str)})
        is_of_words = bool(labels) and all(isinstance(cell, str) for cell in cells)
        is_short = (
            all(len(label) <= _LABEL_CHARS for label in labels) and 1 < len(labels) <= _MAX_LABELS
        )
        return labels if is_of_words and is_short and names_a_judgment(column) else []

    def has_texts(self, column: str) -> bool:
        return all(read_text(cell).form is not ValueForm.JSON for cell in self.cells(column))

    def is_judged(self, column: str) -> bool:
        """Return whether a column that may hold a text says pass or fail instead."""
        return normalize_name(column) in VERDICTS and self.is_verdict(column)


def _is_number_of_something(column: str) -> bool:
    """Return whether a name says that its numbers are a position, a time, an amount or another thing that judges
    nothing.
    """
    return (
        latency_unit(column) is not None
        or names_no_score(column)
        or column.startswith("column ")
        or not words_of(column)
    )


def _are_states(cells: Sequence[Any]) -> bool:
    """Return whether texts are states of a call, of which at least one is an error."""
    words = {str(cell).strip().casefold() for cell in cells}
    return words <= STATES | FAILED_OR_UNSOLVED and not words.isdisjoint(FAILED)


def label_of(cell: Any) -> str | None:
    """A cell as a label, None for a cell that is no short text."""
    if is_truth(cell) and isinstance(cell, bool):
        return str(cell).casefold()
    if not isinstance(cell, str) or len(cell) > 40:  # noqa: PLR2004 - a label is short
        return None
    return cell.strip().casefold()


def _fits(name: str, cell: Any, style: NumberStyle) -> bool:
    number = as_number(cell, style)
    if name == "passed":
        return as_passed(cell, style) is not None
    if name == "status":
        return str(cell).strip().casefold() in STATES or http_status(cell) is not None
    if name == "score":
        return number is not None and 0.0 <= number <= 1.0
    if name == "scores":
        return as_scores(cell) is not None
    if name == "outcome":
        return str(cell) in OUTCOMES
    return number is not None or name not in NUMBER_FIELDS
