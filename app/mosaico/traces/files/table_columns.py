"""Maps the columns of a table to the fields of a trace: named by the user, otherwise
guessed; pure.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import mapped_column
from mosaico.core.registry import suggest_names

# The names of a column that holds a field, the most certain first. A column holds one field.
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "traceId": ("traceid",),
    "item": (
        "item", "itemid", "questionid", "qid", "caseid", "testid", "sampleid", "exampleid",
        "promptid", "taskid", "docid", "case", "key", "id", "name",
    ),
    "trial": ("trial", "epoch", "repeat", "attempt"),
    "output": (
        "output", "actualoutput", "modeloutput", "agentoutput", "response", "modelresponse",
        "prediction", "predicted", "completion", "generation", "generated", "modelanswer",
        "agentanswer", "actual", "reply", "answer",
    ),
    "expected": (
        "expected", "expectedoutput", "expectedanswer", "gold", "goldanswer", "golden",
        "reference", "referenceanswer", "referenceoutput", "groundtruth", "target", "ideal",
        "idealanswer", "correctanswer", "label", "grading", "gradingnotes", "answer",
    ),
    "input": (
        "input", "question", "userinput", "prompt", "query", "instruction", "request", "message",
    ),
    "outcome": ("outcome",),
    "error": ("error", "errormessage", "exception"),
    "passed": ("passed", "pass", "success", "correct", "iscorrect", "taskpassed"),
    "score": ("score", "taskscore", "grade"),
    "scores": ("scores",),
    "latencyMs": ("latencyms", "durationms", "elapsedms", "responsetimems"),
    "latencySeconds": (
        "latencys", "latencysec", "latencyseconds", "durations", "durationseconds", "seconds",
        "elapsedseconds",
    ),
    "cost": ("costusd", "cost", "totalcost", "priceusd", "usd"),
    "inputTokens": ("inputtokens", "prompttokens", "tokensin"),
    "outputTokens": ("outputtokens", "completiontokens", "tokensout"),
    "model": ("model", "modelname", "modelid"),
    "category": ("category", "topic", "group"),
    "tags": ("tags", "labels"),
}  # fmt: skip
UNITLESS: Final = frozenset({"latency", "duration", "elapsed", "time", "responsetime"})
_NUMBER_FIELDS: Final = frozenset(
    {"trial", "latencyMs", "latencySeconds", "cost", "inputTokens", "outputTokens"}
)
_TRUTH: Final = {
    "true": 1.0, "pass": 1.0, "passed": 1.0, "yes": 1.0, "correct": 1.0,
    "false": 0.0, "fail": 0.0, "failed": 0.0, "no": 0.0, "incorrect": 0.0,
}  # fmt: skip
_BLANKS: Final = frozenset({"", "nan", "none", "null", "n/a", "<na>"})
# Columns of numbers that are not scores.
_COUNTERS: Final = frozenset({"index", "row", "rowid", "unnamed0", "seed", "timestamp", "column1"})
MAX_LISTED: Final = 12
_SEPARATORS: Final = re.compile(r"[^a-z0-9]")
_DECIMAL_POINT: Final = re.compile(r"[+-]?\d+\.\d+")
_COMMA_NUMBER: Final = re.compile(r"[+-]?\d+,\d+")
_THOUSANDS: Final = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


class InvalidMapping(Invalid):
    """The named columns do not fit the file; write FIELD=COLUMN with a column of the file."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The column of each field, the columns of further scores, and what was guessed.

    `notes` are sentences about columns that were not used although their names suggest a use;
    `noted_columns` are these columns. Numbers of a table with a decimal comma are written `0,5`.
    """

    by_field: Mapping[str, str]
    scores: Sequence[str] = ()
    notes: Sequence[str] = ()
    noted_columns: Sequence[str] = ()
    has_decimal_comma: bool = False

    @property
    def read_columns(self) -> set[str]:
        """The columns that are read, or that a note names."""
        heads = {column.partition(".")[0] for column in self.by_field.values()}
        return {*self.by_field.values(), *heads, *self.scores, *self.noted_columns}


def parse_mapping(texts: Iterable[str]) -> dict[str, str]:
    """The columns by field of `output=answer,expected=gold`; an empty column means: none.

    Raises: `InvalidMapping` for another form and for an unknown field.
    """
    mapping: dict[str, str] = {}
    for pair in (pair for text in texts for pair in text.split(",") if pair.strip()):
        name, equals, column = (part.strip() for part in pair.partition("="))
        if not equals:
            raise InvalidMapping(
                f"{pair.strip()!r} does not have the form FIELD=COLUMN, such as output=answer"
            )
        require_fields([name])
        if name in mapping:
            raise InvalidMapping(f"the field {name} is mapped twice; keep one of them")
        mapping[name] = column
    return mapping


def require_fields(names: Iterable[str]) -> None:
    """Raise `InvalidMapping` for a name that is not a field of a table."""
    for name in names:
        if name not in NAMES:
            raise InvalidMapping(
                f"no field is named {name!r}.{suggest_names(name, list(NAMES))}"
                f" Fields: {', '.join(NAMES)}."
            )


def choose_columns(rows: Sequence[Mapping[str, Any]], mapping: Mapping[str, str]) -> TableColumns:
    """The columns of a table, from its first rows and the mapping of the user.

    Raises: `InvalidMapping` for a column that the table does not have.
    """
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for name, column in mapping.items():
        if column and not any(has_cell(row, column) for row in rows):
            raise InvalidMapping(
                f"the table has no column {column!r} for {name}.{suggest_names(column, columns)}"
                f" Columns: {list_columns(nested_columns(rows))}."
            )
    comma_number = _find_comma_number(rows)
    has_comma = comma_number is not None
    by_field = {name: column for name, column in mapping.items() if column}
    free = [column for column in columns if column not in by_field.values()]
    notes: dict[str, str] = {}
    for name, aliases in NAMES.items():
        if name not in mapping:
            guess = _first_alias(free, aliases)
            if guess is None or (name == "scores" and _is_score(guess, rows, has_comma=has_comma)):
                continue
            misfit = _find_misfit(name, guess, rows, has_comma=has_comma)
            if misfit is None:
                by_field[name] = guess
                free.remove(guess)
            else:
                notes[guess] = (
                    f"the column {guess!r} is not used as {name}: it holds {misfit!r:.60}"
                )
    notes |= _unit_notes(free)
    return TableColumns(
        by_field=by_field,
        scores=[column for column in free if _is_score(column, rows, has_comma=has_comma)],
        notes=[*notes.values(), *_comma_notes(comma_number)],
        noted_columns=[*notes],
        has_decimal_comma=has_comma,
    )


def list_columns(names: Sequence[str]) -> str:
    """The first names, and how many more there are: a table can have a thousand columns."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def nested_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of rows; a column that holds objects by its members, as `--map` names them."""
    names = (
        f"{column}.{member}" if member else column
        for row in rows
        for column, cell in row.items()
        for member in (cell if isinstance(cell, Mapping) and cell else ("",))
    )
    return list(dict.fromkeys(names))


def has_cell(row: Mapping[str, Any], column: str) -> bool:
    """Return whether a row has a column; `a.b` also names the member `b` of an object in `a`."""
    if column in row:
        return True
    head, dot, tail = column.partition(".")
    return bool(dot) and isinstance(row.get(head), Mapping) and has_cell(row[head], tail)


def cell_of(row: Mapping[str, Any], column: str) -> Any:
    """The cell of a column as in `has_cell`; None when the row has none."""
    if column in row:
        return row[column]
    head, dot, tail = column.partition(".")
    member = row.get(head)
    return cell_of(member, tail) if dot and isinstance(member, Mapping) else None


def _first_alias(columns: Sequence[str], aliases: Sequence[str]) -> str | None:
    by_name = {_normalize(column): column for column in reversed(columns)}
    return next((by_name[alias] for alias in aliases if alias in by_name), None)


def _normalize(column: str) -> str:
    return _SEPARATORS.sub("", column.casefold())


def _find_comma_number(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """A number with a decimal comma, if all numbers of a table have one: none has a point, and one
    comma does not separate thousands.
    """
    cells = [cell.strip() for row in rows for cell in row.values() if isinstance(cell, str)]
    if any(_DECIMAL_POINT.fullmatch(cell) for cell in cells):
        return None
    numbers = (cell for cell in cells if _COMMA_NUMBER.fullmatch(cell))
    return next((cell for cell in numbers if not _THOUSANDS.fullmatch(cell)), None)


def _comma_notes(comma_number: str | None) -> Iterator[str]:
    if comma_number is not None:
        yield f"numbers have a decimal comma: {comma_number} is read as {comma_number.replace(',', '.')}"


def _find_misfit(
    name: str, column: str, rows: Sequence[Mapping[str, Any]], *, has_comma: bool
) -> Any:
    """The first cell that has not the type of the field, None without one: a guess must not fail
    on the type of a cell.
    """
    cells = (cell for row in rows if not is_blank(cell := row.get(column)))
    return next((cell for cell in cells if not _fits(name, cell, has_comma=has_comma)), None)


def _fits(name: str, cell: Any, *, has_comma: bool) -> bool:
    number = as_number(cell, has_decimal_comma=has_comma)
    if name == "passed":
        return number in (0.0, 1.0)
    if name == "score":
        return number is not None and 0.0 <= number <= 1.0
    if name == "scores":
        return as_scores(cell) is not None
    return number is not None or name not in _NUMBER_FIELDS


def is_blank(cell: Any) -> bool:
    """Return whether a cell is empty, including the spellings of data frames: nan, None,
    null.
    """
    if isinstance(cell, str):
        return cell.strip().casefold() in _BLANKS
    return cell is None or cell != cell  # noqa: PLR0124 - NaN differs from itself


def as_number(cell: Any, *, has_decimal_comma: bool = False) -> float | None:
    """The finite number of a cell, 1 or 0 for words such as true and fail; None for another text."""
    if isinstance(cell, str):
        word = cell.strip().casefold()
        if word in _TRUTH:
            return _TRUTH[word]
        if has_decimal_comma and _COMMA_NUMBER.fullmatch(word):
            cell = word.replace(",", ".")
    elif not isinstance(cell, bool | int | float):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_scores(cell: Any) -> Mapping[str, float] | None:
    """The scores in an object of numbers by name, or in its JSON text; None for another cell."""
    try:
        values = json.loads(cell) if isinstance(cell, str) else cell
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, Mapping):
        return None
    numbers = {str(name): as_number(value) for name, value in values.items() if not is_blank(value)}
    scores = {name: number for name, number in numbers.items() if number is not None}
    return scores if len(scores) == len(numbers) else None


def _is_score(column: str, rows: Sequence[Mapping[str, Any]], *, has_comma: bool) -> bool:
    """Return whether a column without another use holds numbers only."""
    cells = [cell for row in rows if not is_blank(cell := row.get(column))]
    is_number = bool(cells) and all(
        as_number(cell, has_decimal_comma=has_comma) is not None for cell in cells
    )
    return is_number and _normalize(column) not in (UNITLESS | _COUNTERS)


def _unit_notes(columns: Iterable[str]) -> dict[str, str]:
    return {
        column: f"the column {column!r} has no unit and is not used; add"
        f" {mapped_column('latencyMs', column)} or {mapped_column('latencySeconds', column)}"
        for column in columns
        if _normalize(column) in UNITLESS
    }
