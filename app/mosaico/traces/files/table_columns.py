"""Maps the columns of a table to the fields of a trace: named by the user, otherwise recognized by the words of
their names and by their values; pure.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mosaico.core.parameter_names import mapped_column
from mosaico.core.registry import suggest_names
from mosaico.traces.files.cell_paths import has_cell, list_columns, nested_columns
from mosaico.traces.files.cell_values import PLAIN, TRUTH_WORDS, NumberStyle
from mosaico.traces.files.column_cells import ColumnCells, label_of
from mosaico.traces.files.column_mapping import InvalidMapping
from mosaico.traces.files.column_notes import (
    describe_failed_judges,
    describe_labels,
    describe_shares,
    describe_style,
    describe_units,
    describe_unnamed,
)
from mosaico.traces.files.column_words import (
    Certainty,
    certainty_of,
    is_plain_answer,
    most_certain,
    names_no_score,
    words_of,
)
from mosaico.traces.files.field_names import (
    NAMES,
    ODD_FIELDS,
    SCORE_FIELD,
    SOURCE_NAMES,
    TEXT_FIELDS,
    VERDICTS,
    first_alias,
)
from mosaico.traces.files.measure_words import measured_field
from mosaico.traces.object_text import normalize_name

_MAX_LABELS: Final = 12


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
    chooser.choose_success()
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
        self._cells = ColumnCells(rows)
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
            named = first_alias(questions, NAMES["input"])
            self._take("input", named or questions[0])
        elif "input" not in self._mapping and "output" in self._fields:
            self._take_source()

    def _take_source(self) -> None:
        """A text such as an article as the question, where each row has another one."""
        source = first_alias(self._free, SOURCE_NAMES)
        cells = [] if source is None else self._cells.cells(source)
        are_texts = bool(cells) and all(isinstance(cell, str) for cell in cells)
        if source is not None and are_texts and len(set(cells)) == len(self._rows):
            self._take("input", source)

    def choose_fields(self) -> None:
        """The fields whose columns have known names, where the cells fit."""
        for name, aliases in NAMES.items():
            if name in self._mapping or name in TEXT_FIELDS:
                continue
            guess = self._guess(name, aliases)
            if guess is None or (name == "scores" and self._cells.is_score(guess)):
                continue
            misfit = self._cells.find_misfit(name, guess)
            if misfit is None:
                self._take(name, guess)
            elif name not in ("outcome", "status"):
                as_score = f", but as SCORE[{guess!r}]" if self._cells.is_score(guess) else ""
                self._notes[guess] = (
                    f"the column {guess!r} is not used as {name}{as_score}: it holds {misfit!r:.60}"
                )
        if "passed" not in self._fields and "passed" not in self._mapping:
            verdicts = [
                c for c in self._free if normalize_name(c) in VERDICTS and self._cells.is_verdict(c)
            ]
            if verdicts:
                self._take("passed", verdicts[0])

    def choose_answer_by_values(self) -> None:
        """An answer in a column of an unknown name: its values are labels of the expected answers."""
        expected = self._fields.get("expected")
        if expected is None or "output" in self._fields or "output" in self._mapping:
            return
        labels = {label_of(cell) for cell in self._cells.cells(expected)}
        if not 0 < len(labels) <= _MAX_LABELS or None in labels:
            return
        if labels <= TRUTH_WORDS:
            # Where all expected answers are yes, no is a label, too.
            labels |= TRUTH_WORDS
        columns = [
            column
            for column in self._free
            if not names_no_score(column)
            and (cells := self._cells.cells(column))
            and {label_of(cell) for cell in cells} <= labels
        ]
        if len(columns) > 1:
            raise InvalidMapping(_describe_ambiguity("output", columns))
        if columns:
            self._take("output", columns[0])
            self._notes[columns[0]] = (
                f"the column {columns[0]!r} is the answer: its values are those of {expected!r}"
            )

    def choose_success(self) -> None:
        """A column of success and failure as pass or fail, where nothing else judges the answers: beside an expected
        answer or a score it may say whether the call ended.
        """
        columns = [
            column
            for column in self._free
            if normalize_name(column) in VERDICTS and self._cells.says_success(column)
        ]
        if not columns or "passed" in {*self._mapping, *self._fields}:
            return
        if self._is_judged or any(map(self._cells.is_score, self._free)):
            self._notes[columns[0]] = (
                f"the column {columns[0]!r} is not used: it may say whether a call ended or whether an answer is"
                f" right; the latter: {mapped_column('passed', columns[0])}"
            )
        else:
            self._take("passed", columns[0])

    @property
    def _is_judged(self) -> bool:
        """Return whether a field, or a score that the user named, says how good an answer is."""
        judges = {"expected", "passed", "score", "scores"}
        return bool(judges & {*self._fields} or self._scores)

    def result(self) -> TableColumns:
        scores = {column: column for column in self._free if self._cells.is_score(column)}
        if not scores and not self._is_judged:
            # Values alone say little: they judge where nothing else does, and it is said.
            scores = {column: column for column in self._free if self._cells.is_share(column)}
            if scores:
                self._notes[""] = describe_shares([*scores])
        self._scores |= scores
        if self._ambiguous and not (
            self._scores or {"passed", "score", "scores"} & {*self._fields}
        ):
            raise InvalidMapping(_describe_ambiguity("output", self._ambiguous))
        free = [column for column in self._free if column not in scores]
        self._notes |= describe_units(self._cells, free)
        self._notes |= describe_labels(self._cells, free)
        others = [c for c in free if c not in self._notes and self._cells.is_unclear_number(c)]
        empty = [c for c in free if c not in {*self._notes, *others} and not self._cells.cells(c)]
        self._notes |= dict.fromkeys((*others, *empty), "")
        used = [*self._scores.values(), *(c for n, c in self._fields.items() if n in ODD_FIELDS)]
        notes = [note for note in self._notes.values() if note]
        if empty:
            notes.append(
                f"columns without a value in the first {len(self._rows)} rows: {list_columns(empty)}"
            )
        if others:
            notes.append(describe_unnamed(others))
        notes += describe_failed_judges(self._cells, self._scores.values())
        notes += describe_style(self._cells, used)
        return TableColumns(
            by_field={name: self._fields[name] for name in NAMES if name in self._fields},
            scores=self._scores,
            notes=notes,
            noted_columns=[*self._notes],
            style=self._cells.style,
            strict_columns=self._strict_columns(),
        )

    def _guess(self, name: str, aliases: Sequence[str]) -> str | None:
        """The free column of the first of the names; a name that all rows share identifies none of them."""
        if name == "item":
            aliases = [a for a in aliases if a != "name" or self._distinguishes(a)]
        named = first_alias(self._free, aliases)
        if named is not None:
            return named
        columns = [column for column in self._free if measured_field(column) == name]
        totals = [column for column in columns if "total" in words_of(column)]
        # Of several, one that is the sum of the others.
        return next((found[0] for found in (columns, totals) if len(found) == 1), None)

    def _distinguishes(self, alias: str) -> bool:
        column = first_alias(self._free, (alias,))
        cells = [] if column is None else [str(cell) for cell in self._cells.cells(column)]
        return len(set(cells)) > 1 or len(self._rows) == 1

    def _candidates(self, name: str) -> list[str]:
        """The columns that hold a text by their names: those of the highest certainty with a content."""
        columns = [c for c in self._free if not self._cells.is_judged(c)]
        filled = [c for c in columns if self._cells.cells(c)]
        candidates = most_certain(filled, name) or most_certain(columns, name)
        if name == "output":
            # A name such as `result` alone does not make a list of objects an answer.
            return [
                c
                for c in candidates
                if certainty_of(c, name) > Certainty.WEAK or self._cells.has_texts(c)
            ]
        return candidates

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

    def _strict_columns(self) -> frozenset[str]:
        """The columns that the user named, where more than a few cells do not fit."""
        named = {
            name: column
            for name, column in self._fields.items()
            if self._mapping.get(name) == column
        }
        strict = {c for name, c in named.items() if self._cells.find_misfit(name, c) is not None}
        scores = {c for name, c in self._scores.items() if f"scores[{name}]" in self._mapping}
        # Without its number a trial would take that of another one.
        strict |= {column for name, column in self._fields.items() if name == "trial"}
        return frozenset(
            strict | {column for column in scores if self._cells.numbers(column) is None}
        )


def _describe_ambiguity(name: str, columns: Sequence[str]) -> str:
    texts = {"output": "the answer of the agent", "expected": "the expected answer"}
    listed = " and ".join(map(repr, columns[:4])) + (" …" if len(columns) > 4 else "")  # noqa: PLR2004
    return (
        f"the columns {listed} may each hold {texts[name]}; choose one:"
        f" {mapped_column(name, columns[0])}"
    )
