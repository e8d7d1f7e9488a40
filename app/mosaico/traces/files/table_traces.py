"""Reads a table of results as traces: one row is one answer of the agent to one item."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, NoReturn

from mosaico.core.parameter_names import mapped_column, parameter_name
from mosaico.traces.files.ignored_fields import NOT_USED, IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import ImportFile, InvalidImport, TableRow, is_blank_row
from mosaico.traces.files.imported_values import TrialCounter, model_tags, outcome_of_error, text_of
from mosaico.traces.files.importer_registry import ImportedTraces
from mosaico.traces.files.table_columns import (
    MAX_LISTED,
    InvalidMapping,
    TableColumns,
    as_number,
    as_scores,
    cell_of,
    choose_columns,
    has_cell,
    is_blank,
    list_columns,
    nested_columns,
)
from mosaico.traces.storable_traces import id_of, short_id
from mosaico.traces.types import MAX_TRIAL, Trace, TraceOutcome

SAMPLED_ROWS: Final = 100
TASK_PASSED: Final = "TASK_PASSED"
TASK_SCORE: Final = "TASK_SCORE"
_MILLISECONDS: Final = 1000.0


def read_table(
    file: ImportFile, mapping: Mapping[str, str], rows: Iterable[TableRow] | None = None
) -> ImportedTraces:
    """The traces of a table; `rows` are those of the file unless the caller reads them itself.

    The columns are chosen from the first 100 rows. `output=` without a column reads a table of items
    that have no answers yet.
    Raises: `InvalidMapping` for a column that does not exist, `InvalidImport` for a table without
            an answer or a score.
    """
    remaining = iter(file.rows() if rows is None else rows)
    sample = list(islice(remaining, SAMPLED_ROWS))
    if not sample:
        return ImportedTraces(traces=iter(()))
    try:
        columns = choose_columns([row.cells for row in sample], mapping)
    except InvalidMapping as error:
        raise InvalidMapping(f"{file.name}: {error.detail}") from None
    if mapping.get("output") != "":
        _require_content(file, columns, sample)
    ignored = IgnoredFields(columns.read_columns)
    for row in sample:
        ignored.check(row.cells)
    notes = [*_notes(columns), *columns.notes, *describe_ignored("columns", ignored)]
    return ImportedTraces(
        traces=_iter_traces(_RowReader(file, columns), chain(sample, remaining), ignored, notes),
        columns=dict(columns.by_field) | {f"scores[{column}]": column for column in columns.scores},
        notes=notes,
    )


def _iter_traces(
    reader: "_RowReader", rows: Iterable[TableRow], ignored: IgnoredFields, notes: list[str]
) -> Iterator[Trace]:
    noted_count = len(ignored.names)
    # The first ones only: a file may consist of millions of blank rows.
    blank_rows: list[str] = []
    blank_count = 0
    for row in rows:
        if is_blank_row(row):
            blank_count += 1
            if blank_count <= MAX_LISTED:
                blank_rows.append(row.position)
            continue
        ignored.check(row.cells)
        yield reader.read(row)
    if blank_rows:
        more = f" and {blank_count - MAX_LISTED} more" if blank_count > MAX_LISTED else ""
        notes.append(f"rows without any text are skipped: {', '.join(blank_rows)}{more}")
    trials = reader.describe_trials()
    if trials is not None:
        notes.append(f"rows of the same item are its trials: {trials}")
    if len(ignored.names) > noted_count:
        later = ", ".join(ignored.names[noted_count:])
        notes.append(f"columns {NOT_USED}, after the first {SAMPLED_ROWS} rows: {later}")


class _RowReader:
    """Converts the rows of one table."""

    def __init__(self, file: ImportFile, columns: TableColumns) -> None:
        self._file = file
        self._columns = columns.by_field
        self._scores = columns.scores
        self._has_decimal_comma = columns.has_decimal_comma
        self._trials = TrialCounter()

    def read(self, row: TableRow) -> Trace:
        """The trace of a row. Raises: `InvalidImport` with its line and column."""
        item = self._item_id(row)
        trial = self._whole_number(row, "trial", MAX_TRIAL)
        # Counted in either case: IDs have to be unique.
        occurrence = self._trials.next_trial(item)
        error = None if is_blank(self._cell(row, "error")) else text_of(self._cell(row, "error"))
        outcome = self._outcome(row, error)
        output = self._output(row, outcome)
        if output == "" and outcome is TraceOutcome.SCORED:
            self._require_input(row)
        trace_id = self._cell(row, "traceId")
        return Trace(
            trace_id=short_id(f"{item}#{occurrence}" if is_blank(trace_id) else str(trace_id)),
            item_id=item,
            trial=min(occurrence, MAX_TRIAL) if trial is None else trial,
            outcome=outcome,
            input=text_of(self._cell(row, "input")),
            expected_output=self._expected(row),
            output=output,
            error=error,
            tags=self._tags(row),
            input_tokens=self._whole_number(row, "inputTokens"),
            output_tokens=self._whole_number(row, "outputTokens"),
            cost_usd=self._amount(row, "cost"),
            latency_ms=self._latency(row),
            scores=self._all_scores(row),
        )

    def describe_trials(self) -> str | None:
        """The trials among the rows so far, unless a column names them; None without any."""
        return None if "trial" in self._columns else self._trials.describe()

    def _cell(self, row: TableRow, name: str) -> Any:
        column = self._columns.get(name)
        return None if column is None else cell_of(row.cells, column)

    def _item_id(self, row: TableRow) -> str:
        """The item of a row: its ID, else its input, else its place in the file."""
        cell = self._cell(row, "item")
        if not is_blank(cell):
            return short_id(text_of(cell) or "")
        if "item" in self._columns:
            self._reject(row, "item", "an ID")
        question = self._cell(row, "input")
        return row.position if is_blank(question) else id_of(text_of(question) or "")

    def _require_input(self, row: TableRow) -> None:
        """Refuse a row without a question and without an answer: without a question, an empty
        answer would be counted against the agent.
        """
        if "input" in self._columns and is_blank(self._cell(row, "input")):
            columns = f"{self._columns['input']!r} and {self._columns['output']!r}"
            self._file.reject(
                f"{row.position}: the columns {columns} are empty; write the question and the answer,"
                f" delete the row, or ignore the column of questions: {mapped_column('input', '')}"
            )

    def _expected(self, row: TableRow) -> str | None:
        cell = self._cell(row, "expected")
        # An empty cell expects nothing; the word None may be the expected answer.
        return None if cell is None or cell == "" or cell != cell else text_of(cell)  # noqa: PLR0124

    def _output(self, row: TableRow, outcome: TraceOutcome) -> str | None:
        """The answer. An item with a question and no answer has an empty answer, not a missing one;
        a failed attempt may have none. As in an upload, a row without the key has no answer
        recorded.
        """
        column = self._columns.get("output")
        if column is None or not has_cell(row.cells, column):
            return None
        cell = self._cell(row, "output")
        if cell is None or cell != cell:  # noqa: PLR0124 - NaN
            return "" if outcome is TraceOutcome.SCORED else None
        return text_of(cell)

    def _outcome(self, row: TableRow, error: str | None) -> TraceOutcome:
        cell = self._cell(row, "outcome")
        if not is_blank(cell):
            try:
                return TraceOutcome(str(cell))
            except ValueError:
                self._reject(row, "outcome", f"one of {', '.join(TraceOutcome)}")
        return TraceOutcome.SCORED if error is None else outcome_of_error(error)

    def _tags(self, row: TableRow) -> tuple[str, ...]:
        cell = self._cell(row, "tags")
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
        columns = {column: column for column in self._scores}
        for name, score in (("passed", TASK_PASSED), ("score", TASK_SCORE)):
            if name in self._columns:
                columns[score] = self._columns[name]
        scores = {
            name: self._number_in(row, column, cell_of(row.cells, column))
            for name, column in columns.items()
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

    def _number_in(self, row: TableRow, column: str, cell: Any) -> float | None:
        if is_blank(cell):
            return None
        number = as_number(cell, has_decimal_comma=self._has_decimal_comma)
        if number is None:
            self._reject_cell(row, column, cell, "a number")
        return number

    def _amount(self, row: TableRow, name: str) -> float | None:
        number = self._number(row, name)
        if number is not None and number < 0:
            self._reject(row, name, "a number of at least 0")
        return number

    def _whole_number(self, row: TableRow, name: str, most: int = 2**63 - 1) -> int | None:
        number = self._number(row, name)
        if number is None:
            return None
        if number != int(number) or not 0 <= number <= most:
            self._reject(row, name, f"a whole number from 0 to {most}")
        return int(number)

    def _reject(self, row: TableRow, name: str, expected: str) -> NoReturn:
        self._reject_cell(row, self._columns[name], self._cell(row, name), expected)

    def _reject_cell(self, row: TableRow, column: str, cell: Any, expected: str) -> NoReturn:
        cell_text = "empty" if is_blank(cell) else f"{cell!r:.60}"
        self._file.reject(
            f"{row.position}, column {column!r}: {cell_text}, but {expected} is expected; correct the cell,"
            f" or map another column with {parameter_name('--map')}"
        )


def _require_content(file: ImportFile, columns: TableColumns, sample: list[TableRow]) -> None:
    if {"output", "passed", "score", "scores"} & {*columns.by_field} or columns.scores:
        return
    names = nested_columns(row.cells for row in sample)
    raise InvalidImport(
        f"{file.name}: {sample[0].position}: no column holds the output of the agent; its columns are"
        f" {list_columns(names)}. Name the column: {mapped_column('output', 'COLUMN')}"
    )


def _notes(columns: TableColumns) -> Iterator[str]:
    fields = columns.by_field
    if "item" not in fields and "input" not in fields:
        yield (
            "no column identifies the items: rows of two files are paired by their position; name"
            f" it: {mapped_column('item', 'COLUMN')}"
        )
    elif "item" not in fields:
        yield f"items are identified by the text of the column {fields['input']!r}"
    if "output" in fields and "expected" not in fields:
        yield (
            "no column holds the expected output: only metrics that need none are computed; name it:"
            f" {mapped_column('expected', 'COLUMN')}"
        )
