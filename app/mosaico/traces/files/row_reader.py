"""Reads the rows of a table of results as traces."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from mosaico.core.parameter_names import mapped_column, parameter_name
from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.files.cell_paths import cell_of, has_cell
from mosaico.traces.files.cell_values import (
    as_number,
    as_passed,
    as_scores,
    error_flag,
    http_status,
    is_blank,
    parse_structure,
)
from mosaico.traces.files.field_names import (
    FAILED,
    FAILED_OR_UNSOLVED,
    ODD_FIELDS,
    SUMMARY_NAMES,
    TURN_NAMES,
    first_alias,
)
from mosaico.traces.files.import_file import Container, ImportFile, TableRow, is_blank_row
from mosaico.traces.files.imported_values import TrialCounter, model_tags, text_of
from mosaico.traces.files.table_columns import TableColumns
from mosaico.traces.model_responses import BAD_STATUS, ValueForm, read_generations
from mosaico.traces.object_text import NO_MESSAGE
from mosaico.traces.references import ListRule, References, read_references
from mosaico.traces.storable_traces import id_of, short_id
from mosaico.traces.types import MAX_TRIAL, ToolCall, Trace, TraceOutcome
from mosaico.traces.value_text import NoText, TextRole, ValueText, read_error, read_text, read_texts

# The most characters that a cell of a spreadsheet has.
_LONGEST_CELL: Final = 32_767
TASK_PASSED: Final = "TASK_PASSED"
TASK_SCORE: Final = "TASK_SCORE"
_MILLISECONDS: Final = 1000.0
# Cells of these tables are texts: objects and lists are written as JSON or in the notation of Python.
_TEXT_TABLES: Final = frozenset({Container.CSV, Container.SPREADSHEET})
# Columns whose lists are several answers of a model to one question.
_TRIALS: Final = frozenset({"generations", "completions", "samples", "choices"})
_FAILED_STATES: Final = FAILED | FAILED_OR_UNSOLVED


class _FirstValues:
    """The first value of each item, to see whether another row has another one."""

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}

    def differs(self, item: str, value: str | None) -> bool:
        """Return whether an earlier row of the item has another value; a row without a value has none."""
        return value is not None and self._hashes.setdefault(item, hash(value)) != hash(value)


class RowReader:
    """Converts the rows of one table."""

    def __init__(self, file: ImportFile, columns: TableColumns) -> None:
        self.file = file
        self._counts = file.counts
        self._columns = columns.by_field
        # In a row of sums below a table the first cell names the sum, and the others are blank.
        self._sum_columns = [
            columns.by_field[name]
            for name in ("item", "input", "output")
            if name in columns.by_field
        ]
        self._scores = _score_columns(columns)
        self._style = columns.style
        self._strict = columns.strict_columns
        rule = file.options.expected
        self._rule = None if rule is None else ListRule(rule)
        self._is_encoded = file.container in _TEXT_TABLES
        self._has_item_and_input = {"item", "input"} <= columns.by_field.keys()
        self._names: list[str] = []
        self._turn: str | None = None
        self._has_tags = not {"tags", "category", "model"}.isdisjoint(columns.by_field)
        self._trials = TrialCounter()
        # A cell held several answers, which no column of trials numbers.
        self._has_several = False
        self._shared = {name: _FirstValues() for name in ("input", "model", "turn")}

    def why_lost(self, row: TableRow) -> str | None:
        """Why a row is no result: blank, or the sums below a table; None for a result."""
        if is_blank_row(row):
            return "rows without any text are skipped"
        cells = (cell_of(row.cells, column) for column in self._sum_columns)
        name = next(cells, None)
        if (
            isinstance(name, str)
            and name.strip().rstrip(":").casefold() in SUMMARY_NAMES
            and all(map(is_blank, cells))
        ):
            return f"rows of sums such as {name.strip()!r} are skipped"
        return None

    def read(self, row: TableRow) -> Iterator[Trace]:
        """The traces of a row: one, or one for each of several answers in its cell. Raises: `InvalidImport` with its
        line and column.
        """
        question = self._question(row)
        item = self._item_id(row, question)
        self._check_item(row, item, question)
        references = self._expected(row)
        answers = self._answers(row, references)
        expected = references.texts
        fields: dict[str, Any] = {
            "item_id": item,
            "input": question.text,
            "expected_output": expected[0] if expected else None,
            "expected_any": expected if self._is_list(references, ListRule.ANY) else (),
            "expected_all": expected if self._is_list(references, ListRule.ALL) else (),
            "tags": self._tags(row),
            "input_tokens": self._whole_number(row, "inputTokens"),
            "output_tokens": self._whole_number(row, "outputTokens"),
            "cost_usd": self._amount(row, "cost"),
            "latency_ms": self._latency(row),
            "scores": self._all_scores(row),
        }
        self._has_several |= len(answers) > 1
        for answer in answers:
            yield self._with_answer(row, fields, answer, is_only=len(answers) == 1)

    def _question(self, row: TableRow) -> ValueText:
        """The question of a row: of a chat in the column of the answer, its last message of the user."""
        if "input" in self._columns or "output" not in self._columns:
            return self._read(row, "input", TextRole.QUESTION)
        cell = self._cell(row, "output")
        question = read_text(cell, TextRole.QUESTION, is_encoded=self._is_encoded)
        if question.form is not ValueForm.CHAT or question.text is None:
            return read_text(None)
        self._counts.opened[f"questions from {ValueForm.CHAT} of {self._columns['output']}"] += 1
        return question

    def _check_item(self, row: TableRow, item: str, question: ValueText) -> None:
        """Count rows that have the ID of another row, and another question or model: they are hardly its trials."""
        if self._has_item_and_input and self._shared["input"].differs(item, question.text):
            reason = (
                "items with several questions, whose rows are read as trials (another ID:"
                f" {mapped_column('item', 'COLUMN')}, the question: {mapped_column('item', '')})"
            )
            self._counts.mixed.add(reason, row.position)
        turn = self._turn_column(row) if "item" in self._columns else None
        if turn is not None and self._shared["turn"].differs(item, text_of(row.cells[turn])):
            reason = f"items with several turns (column {turn!r}), whose rows are read as trials"
            self._counts.mixed.add(reason, row.position)
        model = text_of(self._cell(row, "model"))
        if self._shared["model"].differs(item, model):
            reason = "items with answers of several models, which are read as trials of one (split the file)"
            self._counts.mixed.add(reason, row.position)

    def _turn_column(self, row: TableRow) -> str | None:
        # Most rows have the columns of the row before.
        if [*row.cells] != self._names:
            self._names = [*row.cells]
            self._turn = first_alias(self._names, TURN_NAMES)
        return self._turn

    def _with_answer(
        self, row: TableRow, fields: Mapping[str, Any], answer: ValueText | None, *, is_only: bool
    ) -> Trace:
        """The trace of one answer; None where none was recorded."""
        item = fields["item_id"]
        trial = self._whole_number(row, "trial", MAX_TRIAL)
        # Counted in either case: IDs have to be unique.
        occurrence = self._trials.next_trial(item)
        error = self._error(row) or (answer.error if answer else None) or self._failed_state(row)
        outcome = self._outcome(row, error)
        output = self._output(answer, outcome)
        if output == "" and outcome is TraceOutcome.SCORED:
            self._require_input(row, answer)
        trace_id = self._cell(row, "traceId")
        calls = answer.tool_calls if answer else ()
        return Trace(
            **fields,
            trace_id=short_id(f"{item}#{occurrence}" if is_blank(trace_id) else str(trace_id)),
            trial=trial if trial is not None and is_only else min(occurrence, MAX_TRIAL),
            outcome=outcome,
            output=output,
            error=error,
            tool_calls=tuple(ToolCall(name=c.name, arguments=c.arguments) for c in calls) or None,
        )

    def _answers(self, row: TableRow, references: References) -> tuple[ValueText | None, ...]:
        """The answers in the cell of the output; as in an upload, a row without the key has no answer recorded. Where a
        structure is expected, a structure without a text is the answer: tool calls, an object with an error.
        """
        column = self._columns.get("output")
        if column is None or not has_cell(row.cells, column):
            return (None,)
        cell = self._cell(row, "output")
        if column.casefold() in _TRIALS and isinstance(parse_structure(cell), list):
            cell = {"generations": read_generations(parse_structure(cell))} if cell else None
        answers = read_texts(cell, is_encoded=self._is_encoded)
        if _is_structure(answers[0]) and any(
            t.lstrip()[:1] in ("{", "[") for t in references.texts
        ):
            answers = (read_text(cell, TextRole.REFERENCE, is_encoded=self._is_encoded),)
        for answer in answers:
            self._add_text(row, column, answer)
        return answers

    def _add_text(self, row: TableRow, column: str, reading: ValueText) -> None:
        self._counts.add_text(column, reading)
        if self._is_encoded and len(reading.text or "") == _LONGEST_CELL:
            reason = f"texts of {column!r} that a spreadsheet cut at {_LONGEST_CELL:,} characters"
            self._counts.odd_cells.add(reason, row.position)

    def _output(self, answer: ValueText | None, outcome: TraceOutcome) -> str | None:
        """The text of an answer. An item with a question and no answer has an empty answer, not a missing one;
        a failed attempt may have none.
        """
        if answer is None:
            return None
        if answer.text is None:
            return "" if outcome is TraceOutcome.SCORED else None
        return answer.text

    def _read(self, row: TableRow, name: str, role: TextRole) -> ValueText:
        column = self._columns.get(name)
        reading = read_text(self._cell(row, name), role, is_encoded=self._is_encoded)
        if column is not None:
            self._add_text(row, column, reading)
        return reading

    def _expected(self, row: TableRow) -> References:
        """The expected answers of a row. An empty cell expects nothing; the word None may be the expected answer."""
        column = self._columns.get("expected", "")
        cell = self._cell(row, "expected")
        if cell == "":
            cell = None
        references = read_references(cell, column, self._rule, is_encoded=self._is_encoded)
        if len(references.texts) > 1 and references.rule is None:
            name = parameter_name("--expected")
            self.file.reject(
                f"{row.position}, column {column!r}: a list of {len(references.texts)} expected answers: is one of"
                f" them enough ({name} any), or must an answer fit all of them ({name} all)?"
            )
        if column and references.reading.reason is not NoText.NOTHING:
            self._counts.add_text(column, references.reading)
        self._counts.several_expected += len(references.texts) > 1
        return references

    @staticmethod
    def _is_list(references: References, rule: ListRule) -> bool:
        return len(references.texts) > 1 and references.rule == rule

    def describe_trials(self) -> str | None:
        """The trials among the rows so far, unless a column names them; None without any."""
        is_named = "trial" in self._columns and not self._has_several
        return None if is_named else self._trials.describe()

    def _cell(self, row: TableRow, name: str) -> Any:
        column = self._columns.get(name)
        return None if column is None else cell_of(row.cells, column)

    def _item_id(self, row: TableRow, question: ValueText) -> str:
        """The item of a row: its ID, else its input, else its place in the file."""
        cell = self._cell(row, "item")
        text = None if is_blank(cell) else text_of(cell)
        if text:
            return short_id(text)
        if "item" in self._columns:
            self._reject(row, "item", "an ID")
        if question.text and question.text.strip():
            return id_of(question.text)
        if "input" in self._columns:
            self._counts.mixed.add(
                "rows without a question are paired by their position", row.position
            )
        else:
            self._counts.by_position = (
                "no column identifies the items: rows of two files are paired by their position; name"
                f" it: {mapped_column('item', 'COLUMN')}"
            )
        return row.position

    def _require_input(self, row: TableRow, answer: ValueText | None) -> None:
        """Refuse a row without a question and without an answer: without a question, an empty
        answer would be counted against the agent.
        """
        is_silent = answer is None or answer.reason is not NoText.TOOL_CALLS
        if is_silent and "input" in self._columns and is_blank(self._cell(row, "input")):
            columns = f"{self._columns['input']!r} and {self._columns['output']!r}"
            self.file.reject(
                f"{row.position}: the columns {columns} are empty; write the question and the answer,"
                f" delete the row, or ignore the column of questions: {mapped_column('input', '')}"
            )

    def _outcome(self, row: TableRow, error: str | None) -> TraceOutcome:
        cell = self._cell(row, "outcome")
        if not is_blank(cell):
            try:
                return TraceOutcome(str(cell))
            except ValueError:
                self._reject(row, "outcome", f"one of {', '.join(TraceOutcome)}")
        return TraceOutcome.SCORED if error is None else outcome_of_error(error)

    def _error(self, row: TableRow) -> str | None:
        """The error of a row. A column of errors may say only whether there is one."""
        cell = self._cell(row, "error")
        match error_flag(cell):
            case None:
                return read_error(cell)
            case True:
                return NO_MESSAGE
            case False:
                return None

    def _failed_state(self, row: TableRow) -> str | None:
        cell = self._cell(row, "status")
        if cell is None:
            return None
        is_failed = isinstance(cell, str) and cell.strip().casefold() in _FAILED_STATES
        status = http_status(cell)
        if status is not None and status >= BAD_STATUS:
            return f"HTTP status {status}"
        return f"status {str(cell).strip()}" if is_failed else None

    def _tags(self, row: TableRow) -> tuple[str, ...]:
        if not self._has_tags:
            return ()
        cell = parse_structure(self._cell(row, "tags"))
        tags = cell if isinstance(cell, list) else str("" if is_blank(cell) else cell).split(",")
        category = self._cell(row, "category")
        return (
            *(tag for tag in (str(tag).strip() for tag in tags) if tag),
            *(() if is_blank(category) else (f"category:{text_of(category)}",)),
            *model_tags(self._cell(row, "model")),
        )

    def _latency(self, row: TableRow) -> float | None:
        seconds = self._amount(row, "latencySeconds")
        return self._amount(row, "latencyMs") if seconds is None else seconds * _MILLISECONDS

    def _all_scores(self, row: TableRow) -> dict[str, float]:
        scores = {
            name: self._number_in(
                row, column, cell_of(row.cells, column), is_passed=name == TASK_PASSED
            )
            for name, column in self._scores.items()
        }
        return self._named_scores(row) | {
            name: score for name, score in scores.items() if score is not None
        }

    def _named_scores(self, row: TableRow) -> dict[str, float]:
        """The scores of a column of objects."""
        cell = self._cell(row, "scores")
        scores = {} if is_blank(cell) else as_scores(cell)
        if scores is None:
            self._reject(row, "scores", "an object of numbers")
        return dict(scores)

    def _number(self, row: TableRow, name: str) -> float | None:
        column = self._columns.get(name)
        return None if column is None else self._number_in(row, column, self._cell(row, name))

    def _number_in(
        self, row: TableRow, column: str, cell: Any, *, is_passed: bool = False
    ) -> float | None:
        """The number of a cell. An odd cell is a missing value, which is counted with its place."""
        if is_blank(cell):
            return None
        letter = as_passed(cell, self._style) if is_passed else None
        number = as_number(cell, self._style) if letter is None else letter
        if number is None:
            self._leave_out(row, column, cell, "a number")
        return number

    def _leave_out(self, row: TableRow, column: str, cell: Any, expected: str) -> None:
        """Count an odd cell, whose value is missing. Raises: `InvalidImport` in a column that the user named."""
        if column in self._strict:
            self._reject_cell(row, column, cell, expected)
        place = f"{row.position} {str(cell)[:20]!r}"
        self._counts.odd_cells.add(f"cells of {column!r} without {expected} are missing", place)

    def _amount(self, row: TableRow, name: str) -> float | None:
        number = self._number(row, name)
        if number is None or number >= 0:
            return number
        self._leave_out(row, self._columns[name], self._cell(row, name), "a number of at least 0")
        return None

    def _whole_number(self, row: TableRow, name: str, most: int = 2**63 - 1) -> int | None:
        number = self._number(row, name)
        if number is None:
            return None
        if number == int(number) and 0 <= number <= most:
            return int(number)
        expected = f"a whole number from 0 to {most}"
        if name not in ODD_FIELDS:
            self._reject(row, name, expected)
        self._leave_out(row, self._columns[name], self._cell(row, name), expected)
        return None

    def _reject(self, row: TableRow, name: str, expected: str) -> NoReturn:
        self._reject_cell(row, self._columns[name], self._cell(row, name), expected)

    def _reject_cell(self, row: TableRow, column: str, cell: Any, expected: str) -> NoReturn:
        cell_text = "empty" if is_blank(cell) else f"{cell!r:.60}"
        self.file.reject(
            f"{row.position}, column {column!r}: {cell_text}, but {expected} is expected; correct the cell,"
            f" or map another column with {parameter_name('--map')}"
        )


def _score_columns(columns: TableColumns) -> dict[str, str]:
    """The columns of scores by the name of the score, with pass or fail and the one score of a task."""
    named = (("passed", TASK_PASSED), ("score", TASK_SCORE))
    return {
        **columns.scores,
        **{score: columns.by_field[name] for name, score in named if name in columns.by_field},
    }


def _is_structure(answer: ValueText) -> bool:
    """Return whether a value without a text is data, and no message."""
    return answer.text is None and answer.form in (ValueForm.PARTS, ValueForm.ERROR)
