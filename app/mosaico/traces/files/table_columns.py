"""Maps the columns of a table to the fields of a trace: named by the user, otherwise recognized by the words of
their names and by their values; pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError

from mosaico.core.errors import Invalid
from mosaico.core.parameter_names import mapped_column
from mosaico.core.registry import suggest_names
from mosaico.traces.files.cell_values import (
    PLAIN,
    NumberStyle,
    as_number,
    as_scores,
    find_number_style,
    is_blank,
    is_marker,
    is_percentage,
    is_truth,
    parse_structure,
)
from mosaico.traces.files.column_words import (
    Certainty,
    certainty_of,
    is_plain_answer,
    most_certain,
    names_a_score,
    names_no_score,
    words_of,
)
from mosaico.traces.types import OUTCOMES
from mosaico.traces.value_text import ValueForm, read_text

# The names of a column that holds a field, the most certain first. A column holds one field. The texts are recognized
# by their words (`column_words`).
NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "traceId": ("traceid",),
    "item": (
        "item", "itemid", "questionid", "qid", "caseid", "testcaseid", "testid", "sampleid", "exampleid",
        "datasetitemid", "customid", "instanceid", "promptid", "taskid", "docid", "dataindex", "case", "key", "uid",
        "id", "name", "keyoftheobject",
    ),
    "trial": ("trial", "epoch", "repeat", "repetition", "repetitionnumber", "attempt"),
    "output": (),
    "expected": (),
    "input": ("input", "question", "userinput", "prompt", "query", "instruction", "request"),
    "outcome": ("outcome",),
    "error": ("error", "errormessage", "exception"),
    "passed": (
        "passed", "pass", "success", "correct", "iscorrect", "taskpassed", "resolved", "isresolved",
    ),
    "score": ("score", "taskscore", "grade"),
    "scores": ("scores",),
    "latencyMs": ("latencyms", "durationms", "elapsedms", "responsetimems"),
    "latencySeconds": (
        "latencys", "latencysec", "latencyseconds", "durations", "durationseconds", "seconds",
        "elapsedseconds", "walltimesec", "executiontimeseconds",
    ),
    "cost": ("costusd", "cost", "totalcost", "priceusd", "usd"),
    "inputTokens": (
        "inputtokens", "prompttokens", "tokensin", "inputtokencount", "prompttokencount",
    ),
    "outputTokens": (
        "outputtokens", "completiontokens", "tokensout", "outputtokencount", "completiontokencount",
    ),
    "model": ("model", "modelname", "modelid", "modelnameorpath"),
    "category": ("category", "topic", "group"),
    "tags": ("tags", "labels"),
}  # fmt: skip
UNITLESS: Final = frozenset(
    {"latency", "duration", "elapsed", "time", "responsetime", "executiontime", "inferencetime"}
)
TEXT_FIELDS: Final = ("expected", "output", "input")
SCORE_FIELD: Final = re.compile(r"scores\[(.+)\]")
_NUMBER_FIELDS: Final = frozenset(
    {"trial", "latencyMs", "latencySeconds", "cost", "inputTokens", "outputTokens"}
)
# Columns that may say whether an answer is right; their values decide.
_VERDICTS: Final = frozenset({"verdict", "status", "result", "match", "ismatch", "outcome"})
# At most this share of the cells of a column may be odd; each of them is a missing value.
ODD_SHARE: Final = 0.2
NAMED_ODD_SHARE: Final = 0.5
_MAX_LABELS: Final = 12
MAX_LISTED: Final = 12
_SEPARATORS: Final = re.compile(r"[\W_]+")


class InvalidMapping(Invalid):
    """The named columns do not fit the file; write FIELD=COLUMN with a column of the file."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The column of each field, the columns of further scores by name, and what was guessed.

    `notes` are sentences about columns that were not used although their names suggest a use;
    `noted_columns` are these columns. `style` is the notation of numbers. Cells of the `strict_columns` must fit: the
    user named the column, and many of its cells do not.
    """

    by_field: Mapping[str, str]
    scores: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    noted_columns: Sequence[str] = ()
    style: NumberStyle = PLAIN
    strict_columns: frozenset[str] = frozenset()

    @property
    def read_columns(self) -> set[str]:
        """The columns that are read, or that a note names."""
        named = [*self.by_field.values(), *self.scores.values()]
        heads = {re.split(r"[.\[]", column, maxsplit=1)[0] for column in named}
        return {*named, *heads, *self.noted_columns}


# A comma before the next field: a path may contain commas, too.
_PAIR_END: Final = re.compile(r",(?=\s*[A-Za-z]+(?:\[[^\]]*\])?\s*=)|,\s*$")


def parse_mapping(texts: Iterable[str]) -> dict[str, str]:
    """The columns by field of `output=answer,expected=gold`; an empty column means: none. `scores[tone]=column` names a
    score.

    Raises: `InvalidMapping` for another form and for an unknown field.
    """
    mapping: dict[str, str] = {}
    for pair in (pair for text in texts for pair in _PAIR_END.split(text) if pair.strip()):
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
        if name not in NAMES and not SCORE_FIELD.fullmatch(name):
            raise InvalidMapping(
                f"no field is named {name!r}.{suggest_names(name, list(NAMES))}"
                f" Fields: {', '.join(NAMES)}, scores[NAME]."
            )


def choose_columns(
    rows: Sequence[Mapping[str, Any]],
    mapping: Mapping[str, str],
    repeated: Iterable[str] = (),
) -> TableColumns:
    """The columns of a table, from its first rows and the mapping of the user. `repeated` are columns whose name
    occurs twice, of which the user must choose one.

    Raises: `InvalidMapping` for a column that the table does not have, and for several columns that may equally
            hold a text.
    """
    require_columns(rows, mapping)
    chooser = _ColumnChooser(rows, mapping, frozenset(repeated))
    chooser.choose_texts()
    chooser.choose_fields()
    chooser.choose_answer_by_values()
    return chooser.result()


def require_columns(rows: Sequence[Mapping[str, Any]], mapping: Mapping[str, str]) -> None:
    """Raise `InvalidMapping` for a column that none of the rows has."""
    for name, column in mapping.items():
        if column and not any(has_cell(row, column) for row in rows):
            columns = list(dict.fromkeys(column for row in rows for column in row))
            raise InvalidMapping(
                f"the table has no column {column!r} for {name}.{suggest_names(column, columns)}"
                f" Columns: {list_columns(nested_columns(rows))}."
            )


class _ColumnChooser:
    """Gives each field a column, step by step: a column that has a field is not free for another one."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        mapping: Mapping[str, str],
        repeated: frozenset[str],
    ) -> None:
        self._rows = rows
        self._mapping = mapping
        self._repeated = repeated
        self._style = find_number_style(rows)
        self._fields = {
            name: column
            for name, column in mapping.items()
            if column and not SCORE_FIELD.fullmatch(name)
        }
        self._scores = {
            match[1]: column
            for name, column in mapping.items()
            if column and (match := SCORE_FIELD.fullmatch(name))
        }
        used = {*self._fields.values(), *self._scores.values()}
        heads = {re.split(r"[.\[]", column, maxsplit=1)[0] for column in used}
        columns = dict.fromkeys(column for row in rows for column in row)
        # A column of which a member is named is read by that member only.
        self._free = [column for column in columns if column not in used | heads]
        self._notes: dict[str, str] = {}
        self._ambiguous: list[str] = []

    def choose_texts(self) -> None:
        """The expected answer, the answer and the question."""
        outputs = self._candidates("output")
        expected = self._candidates("expected")
        plain = [column for column in outputs if is_plain_answer(column)]
        is_output_known = "output" in self._mapping
        if "expected" not in self._mapping:
            # Beside another output, an answer is the expected one.
            if not expected and plain and (is_output_known or len(outputs) > len(plain)):
                expected = plain
                outputs = [column for column in outputs if column not in plain]
            self._take_only("expected", expected)
        if not is_output_known:
            self._take_only("output", outputs)
        questions = [] if "input" in self._mapping else self._candidates("input")
        if questions:
            named = _first_alias(questions, NAMES["input"])
            self._take("input", named or questions[0])

    def choose_fields(self) -> None:
        """The fields whose columns have known names, where the cells fit."""
        for name, aliases in NAMES.items():
            if name in self._mapping or name in TEXT_FIELDS:
                continue
            guess = self._guess(name, aliases)
            if guess is None or (name == "scores" and self._is_score(guess)):
                continue
            misfit = self._find_misfit(name, guess)
            if misfit is None:
                self._take(name, guess)
            elif name != "outcome":
                self._notes[guess] = (
                    f"the column {guess!r} is not used as {name}: it holds {misfit!r:.60}"
                )
        if "passed" not in self._fields and "passed" not in self._mapping:
            verdicts = [c for c in self._free if _normalize(c) in _VERDICTS and self._is_verdict(c)]
            if verdicts:
                self._take("passed", verdicts[0])

    def choose_answer_by_values(self) -> None:
        """An answer in a column of an unknown name: its values are labels of the expected answers."""
        expected = self._fields.get("expected")
        if expected is None or "output" in self._fields or "output" in self._mapping:
            return
        labels = {_label(cell) for cell in self._cells(expected)}
        if not 0 < len(labels) <= _MAX_LABELS or None in labels:
            return
        columns = [
            column
            for column in self._free
            if not names_no_score(column)
            and (cells := self._cells(column))
            and {_label(cell) for cell in cells} <= labels
        ]
        if len(columns) > 1:
            raise InvalidMapping(_describe_ambiguity("output", columns))
        if columns:
            self._take("output", columns[0])
            self._notes[columns[0]] = (
                f"the column {columns[0]!r} is the answer: its values are those of {expected!r}"
            )

    def result(self) -> TableColumns:
        scores = {column: column for column in self._free if self._is_score(column)}
        self._scores |= scores
        if self._ambiguous and not (
            self._scores or {"passed", "score", "scores"} & {*self._fields}
        ):
            raise InvalidMapping(_describe_ambiguity("output", self._ambiguous))
        free = [column for column in self._free if column not in scores]
        self._notes |= self._unit_notes(free)
        others = [c for c in free if c not in self._notes and self._is_unclear_number(c)]
        for column in others:
            self._notes[column] = ""
        notes = [note for note in self._notes.values() if note]
        if others:
            notes.append(
                f"numbers that judge nothing by their name and their values: {list_columns(others)};"
                f" one that does: {mapped_column(f'scores[{others[0]}]', others[0])}"
            )
        notes += self._style_notes()
        return TableColumns(
            by_field={name: self._fields[name] for name in NAMES if name in self._fields},
            scores=self._scores,
            notes=notes,
            noted_columns=[*self._notes],
            style=self._style,
            strict_columns=self._strict_columns(),
        )

    def _guess(self, name: str, aliases: Sequence[str]) -> str | None:
        """The free column of the first of the names; a name that all rows share identifies none of them."""
        if name == "item":
            aliases = [a for a in aliases if a != "name" or self._distinguishes(a)]
        return _first_alias(self._free, aliases)

    def _distinguishes(self, alias: str) -> bool:
        column = _first_alias(self._free, (alias,))
        cells = [] if column is None else [str(cell) for cell in self._cells(column)]
        return len(set(cells)) > 1 or len(self._rows) == 1

    def _candidates(self, name: str) -> list[str]:
        """The columns that hold a text by their names: those of the highest certainty with a content."""
        columns = [c for c in self._free if not self._is_judged(c)]
        filled = [c for c in columns if self._cells(c)]
        candidates = most_certain(filled, name) or most_certain(columns, name)
        if name == "output":
            # A name such as `result` alone does not make a list of objects an answer.
            return [
                c
                for c in candidates
                if certainty_of(c, name) > Certainty.WEAK or self._has_texts(c)
            ]
        return candidates

    def _has_texts(self, column: str) -> bool:
        return all(read_text(cell).form is not ValueForm.JSON for cell in self._cells(column))

    def _is_judged(self, column: str) -> bool:
        """Return whether a column that may hold a text says pass or fail instead."""
        return _normalize(column) in _VERDICTS and self._is_verdict(column)

    def _is_verdict(self, column: str) -> bool:
        words = {"pass", "passed", "fail", "failed", "correct", "incorrect", "true", "false"}
        cells = self._cells(column)
        return bool(cells) and all(
            isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().casefold() in words)
            for cell in cells
        )

    def _take_only(self, name: str, columns: Sequence[str]) -> None:
        """Take the only candidate. Raises: `InvalidMapping` for several."""
        if len(columns) == 1 or (columns and {*columns} <= self._repeated):
            self._take(name, columns[0])
        elif len(columns) > 1 and name == "output":
            # Scores decide without an answer: only a table without scores needs to be asked about.
            self._ambiguous = list(columns)
            for column in columns:
                self._free.remove(column)
                self._notes[column] = ""
            self._notes[columns[0]] = _describe_ambiguity(name, columns)
        elif columns:
            raise InvalidMapping(_describe_ambiguity(name, columns))

    def _take(self, name: str, column: str) -> None:
        if column in self._repeated:
            first = re.sub(r" \(\d+\)$", "", column)
            raise InvalidMapping(
                f"several columns have the name {first!r}; they are read as {first!r} and {f'{first} (2)'!r}: choose"
                f" one: {mapped_column(name, first)}, or ignore both: {mapped_column(name, '')}"
            )
        self._fields[name] = column
        self._free.remove(column)

    def _cells(self, column: str) -> list[Any]:
        return [cell for row in self._rows if not is_blank(cell := cell_of(row, column))]

    def _find_misfit(self, name: str, column: str) -> Any:
        """A cell that has not the type of the field, None when no more than a few have not: a guess must not fail
        on the type of a cell.
        """
        cells = self._cells(column)
        misfits = [
            cell for cell in cells if not _fits(name, cell, self._style) and not is_marker(cell)
        ]
        is_range = any(as_number(cell, self._style) is not None for cell in misfits)
        share = NAMED_ODD_SHARE if name in ("passed", "score") else ODD_SHARE
        is_odd = name in ODD_FIELDS and not is_range and len(misfits) <= share * len(cells)
        return None if is_odd else next(iter(misfits), None)

    def _numbers(self, column: str) -> list[float] | None:
        """The numbers of a column; None where too many of its cells are no numbers."""
        cells = [cell for cell in self._cells(column) if not is_marker(cell)]
        numbers = [n for cell in cells if (n := as_number(cell, self._style)) is not None]
        share = NAMED_ODD_SHARE if names_a_score(column) else ODD_SHARE
        is_number = bool(numbers) and len(cells) - len(numbers) <= share * len(cells)
        return numbers if is_number else None

    def _is_score(self, column: str) -> bool:
        """Return whether the numbers of a column judge an answer, by its name or by its values."""
        numbers = None if _is_number_of_something(column) else self._numbers(column)
        if numbers is None:
            return False
        if names_a_score(column):
            return True
        cells = self._cells(column)
        is_share = all(0 <= number <= 1 for number in numbers)
        return is_share and (
            any(number not in (0, 1) for number in numbers) or all(map(is_percentage, cells))
        )

    def _is_unclear_number(self, column: str) -> bool:
        is_key = _normalize(column) == NAMES["item"][-1]
        if is_key or _is_number_of_something(column) or any(map(is_truth, self._cells(column))):
            return False
        return self._numbers(column) is not None

    def _strict_columns(self) -> frozenset[str]:
        """The columns that the user named, where more than a few cells do not fit."""
        named = {
            name: column
            for name, column in self._fields.items()
            if self._mapping.get(name) == column
        }
        strict = {c for name, c in named.items() if self._find_misfit(name, c) is not None}
        scores = {c for name, c in self._scores.items() if f"scores[{name}]" in self._mapping}
        # Without its number a trial would take that of another one.
        strict |= {column for name, column in self._fields.items() if name == "trial"}
        return frozenset(strict | {column for column in scores if self._numbers(column) is None})

    def _unit_notes(self, columns: Iterable[str]) -> dict[str, str]:
        return {
            column: f"the column {column!r} has no unit and is not used{self._describe_median(column)}; add"
            f" {mapped_column('latencyMs', column)} or {mapped_column('latencySeconds', column)}"
            for column in columns
            if _normalize(column) in UNITLESS
        }

    def _describe_median(self, column: str) -> str:
        numbers = self._numbers(column)
        return "" if numbers is None else f" (its median is {median(numbers):.4g})"

    def _style_notes(self) -> Iterator[str]:
        example = self._style.example
        if example is not None:
            number = as_number(example, self._style)
            kind = (
                "a decimal comma" if self._style.has_decimal_comma else "commas between thousands"
            )
            yield f"numbers have {kind}: {example} is read as {number:.15g}"
        cells = (cell for column in self._used_numbers() for cell in self._cells(column))
        percentage = next((cell for cell in cells if is_percentage(cell)), None)
        if percentage is not None:
            number = as_number(percentage, self._style)
            yield f"percentages are read as shares: {percentage.strip()} is {number:.6g}"

    def _used_numbers(self) -> Iterator[str]:
        yield from self._scores.values()
        yield from (c for name, c in self._fields.items() if name in ODD_FIELDS)


ODD_FIELDS: Final = _NUMBER_FIELDS - {"trial"} | {"passed", "score"}


def _describe_ambiguity(name: str, columns: Sequence[str]) -> str:
    texts = {"output": "the answer of the agent", "expected": "the expected answer"}
    listed = " and ".join(map(repr, columns[:4])) + (" …" if len(columns) > 4 else "")  # noqa: PLR2004
    return (
        f"the columns {listed} may each hold {texts[name]}; choose one:"
        f" {mapped_column(name, columns[0])}"
    )


def _is_number_of_something(column: str) -> bool:
    """Return whether a name says that its numbers are a position, a time, an amount or another thing that judges
    nothing.
    """
    return (
        _normalize(column) in UNITLESS
        or names_no_score(column)
        or column.startswith("column ")
        or not words_of(column)
    )


def _label(cell: Any) -> str | None:
    """A cell as a label, None for a cell that is no short text."""
    if is_truth(cell) and isinstance(cell, bool):
        return str(cell).casefold()
    if not isinstance(cell, str) or len(cell) > 40:  # noqa: PLR2004 - a label is short
        return None
    return cell.strip().casefold()


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
    """Return whether a row has a column. A path also names what is inside of a cell that is an object, a list or
    their JSON text: `a.b`, `response.choices[0].message.content`, any JMESPath expression after the column.
    """
    return column in row or _search(row, column) is not None


def cell_of(row: Mapping[str, Any], column: str) -> Any:
    """The cell of a column as in `has_cell`; None when the row has none."""
    return row[column] if column in row else _search(row, column)


def _search(row: Mapping[str, Any], path: str) -> Any:
    """What a path selects: the longest column that begins it, then an expression in its cell."""
    for end in reversed([match.start() for match in re.finditer(r"[.\[]", path)]):
        head, tail = path[:end], path[end:].removeprefix(".")
        if head not in row:
            continue
        cell = parse_structure(row[head])
        if not isinstance(cell, Mapping | list):
            return None
        if isinstance(cell, Mapping) and tail in cell:
            return cell[tail]
        try:
            return jmespath.search(tail, cell)
        except (JMESPathError, ArithmeticError):
            return None
    return None


def _first_alias(columns: Sequence[str], aliases: Sequence[str]) -> str | None:
    by_name = {_normalize(column): column for column in reversed(columns)}
    return next((by_name[alias] for alias in aliases if alias in by_name), None)


def _normalize(column: str) -> str:
    return _SEPARATORS.sub("", column.casefold())


def _fits(name: str, cell: Any, style: NumberStyle) -> bool:
    number = as_number(cell, style)
    if name == "passed":
        return number in (0.0, 1.0)
    if name == "score":
        return number is not None and 0.0 <= number <= 1.0
    if name == "scores":
        return as_scores(cell) is not None
    if name == "outcome":
        return str(cell) in OUTCOMES
    return number is not None or name not in _NUMBER_FIELDS
