"""Tables of tools: an importer says which fields of a trace a row holds, and the reader of tables does the rest.

Texts in all their forms, trials, errors, odd cells and unused columns are then the same for every tool, and `--map` of the
user has precedence over what the importer says.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from itertools import chain, islice
from typing import Any, Final, TypeAlias

from mosaico.traces.error_rules import outcome_of_error
from mosaico.traces.files.cell_paths import cell_of, has_cell
from mosaico.traces.files.cell_values import as_number, is_blank
from mosaico.traces.files.column_mapping import InvalidMapping
from mosaico.traces.files.field_names import SCORE_FIELD
from mosaico.traces.files.ignored_fields import IgnoredFields, describe_ignored
from mosaico.traces.files.import_file import Container, ImportFile, TableRow, is_blank_row
from mosaico.traces.files.imported_values import text_of
from mosaico.traces.files.importer_registry import IMPORTERS, ImportedTraces, Importer
from mosaico.traces.files.row_reader import RowReader
from mosaico.traces.files.table_columns import TableColumns, require_columns
from mosaico.traces.files.table_traces import (
    SAMPLED_ROWS,
    iter_row_traces,
    require_labeled,
    with_numbers,
)
from mosaico.traces.files.tool_cells import Ambiguity, ChosenMember, EvaluatorFailure
from mosaico.traces.storable_traces import id_of
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.traces.value_text import TextRole, read_error, read_text

Cells: TypeAlias = Mapping[str, Any]
NO_TEXTS: Final = "rows without a question and an answer are skipped"
BY_POSITION: Final = (
    "nothing in the file identifies its items: rows of two files are paired by their position"
)


def _no_fields(_: Cells) -> dict[str, Any]:
    return {}


def _keep(_: Cells) -> None:
    return None


def _by_name(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTable:
    """What the rows of a tool hold.

    `columns` are the columns of fields. `compute` gives further fields of a row, the same ones for every row; they have
    precedence. Its `scores` are any values by name, of which the numbers are used; an `EvaluatorFailure` is counted. `used` are the columns that it reads or that
    are understood and say nothing about an answer, as patterns such as `inputs.*`. `skip` says why a
    row is no result, in words for the user. `direction` says which values of a score are better, "higher" or "lower", as the tool
    defines it; None leaves it to the name.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    compute: Callable[[Cells], Mapping[str, Any]] = _no_fields
    used: Collection[str] = ()
    skip: Callable[[Cells], str | None] = _keep
    direction: Callable[[str], str | None] = _by_name


def register_tool(
    name: str, summary: str, recognizes: Callable[[Cells], bool], table: ToolTable
) -> None:
    """Register the importer of a tool whose files are tables, recognized by one of their first rows."""

    def row_of(file: ImportFile) -> list[TableRow] | None:
        """The document itself where it is a row: what is inside of it are no rows."""
        is_document = file.container is Container.JSON and isinstance(file.document, dict)
        is_row = is_document and recognizes(file.document)
        return [TableRow("row 1", file.document)] if is_row else None

    IMPORTERS.register(
        name,
        Importer(
            summary=summary,
            recognizes=lambda file: bool(row_of(file)) or any(map(recognizes, file.first_rows)),
            read=lambda file, mapping: read_tool_table(file, mapping, table, row_of(file)),
        ),
    )


def register_document(
    name: str,
    summary: str,
    find_rows: Callable[[Mapping[str, Any]], Iterable[Cells] | None],
    table: ToolTable,
    members: Collection[str] = ("*",),
) -> None:
    """Register the importer of a tool whose files are JSON documents: `find_rows` gives the results in a document, None for
    that of another tool. `members` are those of a document that are understood, as patterns; IDs of rows are, too.
    """
    understood = re.compile("|".join(map(translate, members)))

    def rows_of(file: ImportFile) -> Iterable[Cells] | None:
        is_document = file.container is Container.JSON and isinstance(file.document, dict)
        return find_rows(file.document) if is_document else None

    def read(file: ImportFile, mapping: Mapping[str, str]) -> ImportedTraces:
        found = [*(rows_of(file) or ())]
        rows = [TableRow(f"result {number}", row) for number, row in enumerate(found, start=1)]
        imported = read_tool_table(file, mapping, table, rows)
        ignored = IgnoredFields({str(row["id"]) for row in found if "id" in row})
        ignored.check({n: v for n, v in file.document.items() if not understood.fullmatch(n)})
        imported.notes.extend(describe_ignored("members of the document", ignored))
        return imported

    recognizes = lambda file: rows_of(file) is not None  # noqa: E731
    IMPORTERS.register(name, Importer(summary=summary, recognizes=recognizes, read=read))


def read_tool_table(
    file: ImportFile,
    mapping: Mapping[str, str],
    table: ToolTable,
    rows: Iterable[TableRow] | None = None,
) -> ImportedTraces:
    """The traces of a table of a tool; `rows` are those of the file unless the caller finds them itself.

    Raises: `InvalidMapping` for a column of the user that does not exist, `InvalidImport` for a file without a row.
    """
    remaining = with_numbers(iter(file.rows() if rows is None else rows), file.options.labels)
    sample = list(islice(remaining, SAMPLED_ROWS))
    if not sample:
        file.reject(_describe_nothing(file))
    try:
        require_labeled(file, [row.cells for row in sample])
        require_columns([row.cells for row in sample], mapping)
    except InvalidMapping as error:
        raise InvalidMapping(f"{file.name}: {error.detail}") from None
    converter = _Converter(file, table, mapping)
    # Rows that an importer finds itself are not those of the document.
    notes = [*file.notes] if rows is None else []
    named = {name: column for name, column in mapping.items() if column}
    return ImportedTraces(
        traces=_traces(file, converter, chain(sample, remaining), notes),
        columns={**table.columns, **named},
        notes=notes,
        directions=converter.directions,
    )


def _traces(
    file: ImportFile, converter: "_Converter", rows: Iterable[TableRow], notes: list[str]
) -> Iterator[Trace]:
    converted = converter.convert(rows)
    first = next(converted, None)
    if first is None:
        file.reject(_describe_nothing(file))
    columns = TableColumns(by_field={name: name for name in (*first.cells, "output")})
    results = chain([first], converted)
    reader, unused = RowReader(file, columns), IgnoredFields(first.cells)
    yield from iter_row_traces(reader, results, unused, notes)
    notes += describe_ignored("columns", converter.ignored)
    notes += converter.describe_failures()


def _describe_nothing(file: ImportFile) -> str:
    reasons = "; ".join(file.counts.lost_rows.describe())
    return f"no results in this file: {reasons or 'it has no rows'}"


class _Converter:
    """Turns the rows of a tool into rows with the names of fields."""

    def __init__(self, file: ImportFile, table: ToolTable, mapping: Mapping[str, str]) -> None:
        self._file = file
        self._table = table
        self._mapping = mapping
        self._is_encoded = file.container in (Container.CSV, Container.SPREADSHEET)
        self._used = re.compile("|".join(map(translate, table.used)) or "(?!)")
        self.ignored = IgnoredFields({*table.columns.values(), *mapping.values()})
        self._known: set[str] = set()
        self._failures = Counter[str]()
        self.directions: dict[str, str] = {}

    def convert(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """The rows that are results; the others are counted by reason."""
        counts = self._file.counts
        for row in rows:
            reason = self._table.skip(row.cells)
            if is_blank_row(row):
                reason = "rows without any text are skipped"
            fields = {} if reason else self._fields(row)
            reason = reason or self._describe_lack(fields)
            if reason:
                counts.rows += 1
                counts.lost_rows.add(reason, row.position)
                continue
            self._note_unused(row.cells, fields["scores"])
            yield TableRow(row.position, fields)

    def describe_failures(self) -> Iterator[str]:
        """A sentence about the scores that evaluators could not compute; none without one."""
        if self._failures:
            named = ", ".join(f"{name} {count}" for name, count in self._failures.items())
            yield f"scores that are missing because their evaluator failed: {named}"

    def _fields(self, row: TableRow) -> dict[str, Any]:
        columns = self._table.columns
        fields = {name: cell_of(row.cells, column) for name, column in columns.items()}
        if "output" in columns and not has_cell(row.cells, columns["output"]):
            # No answer is recorded, which is another thing than an empty one.
            del fields["output"]
        fields |= self._chosen(row, self._table.compute(row.cells))
        scores = {**(fields.pop("scores", None) or {})}
        for name, column in self._mapping.items():
            match = SCORE_FIELD.fullmatch(name)
            if match is not None:
                scores[match[1]] = cell_of(row.cells, column)
            elif column:
                fields[name] = cell_of(row.cells, column)
            else:
                fields.pop(name, None)
        for value in fields.values():
            if isinstance(value, Ambiguity):
                raise InvalidMapping(f"{self._file.name}: {row.position}: {value.detail}")
        fields["scores"] = self._numbers(row, scores)
        if not is_blank(fields.get("error")):
            fields |= _failed(fields)
        if fields.get("input") in ([], {}):
            fields["input"] = None
        fields["item"] = self._item(row, fields)
        return _without_unknown_zeros(fields)

    def _chosen(self, row: TableRow, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with the texts that were chosen out of objects; what stands beside them is not used."""
        chosen = [value for value in fields.values() if isinstance(value, ChosenMember)]
        left_out = {name for member in chosen for name in member.left_out}
        left_out -= {member.name for member in chosen}
        self.ignored.check({name: cell_of(row.cells, name) for name in sorted(left_out)})
        return {
            name: value.value if isinstance(value, ChosenMember) else value
            for name, value in fields.items()
        }

    def _numbers(self, row: TableRow, scores: Mapping[str, Any]) -> dict[str, float]:
        """The scores that are numbers; the others are counted as missing."""
        numbers: dict[str, float] = {}
        for name, value in scores.items():
            number = as_number(value)
            if isinstance(value, EvaluatorFailure):
                self._failures[name] += 1
            elif number is not None:
                numbers[name] = number
            elif not is_blank(value):
                place = f"{row.position} {str(value)[:20]!r}"
                self._file.counts.odd_cells.add(
                    f"values of the score {name!r} without a number are missing", place
                )
        for name in numbers.keys() - self.directions.keys():
            direction = self._table.direction(name)
            if direction is not None:
                self.directions[name] = direction
        return numbers

    def _item(self, row: TableRow, fields: Mapping[str, Any]) -> Any:
        """The item of a row: its ID, else its question, else its place in the file, which is said."""
        item = text_of(fields.get("item"))
        if item and item.strip():
            return item
        reading = read_text(fields.get("input"), TextRole.QUESTION, is_encoded=self._is_encoded)
        if reading.text and reading.text.strip():
            return id_of(reading.text)
        self._file.counts.by_position = BY_POSITION
        return row.position

    @staticmethod
    def _describe_lack(fields: Mapping[str, Any]) -> str | None:
        """Why a row is no result: without a question, an empty answer would be counted against the agent."""
        if not {"input", "output"} <= fields.keys():
            return None
        texts = (fields["input"], fields["output"], fields.get("error"), fields.get("outcome"))
        return NO_TEXTS if all(is_blank(text) or text in ({}, []) for text in texts) else None

    def _note_unused(self, cells: Cells, scores: Collection[str]) -> None:
        """Note the columns that nothing reads; a score may be a column of its own name."""
        names = cells.keys() - self._known
        self._known |= {name for name in names if self._used.fullmatch(name)}
        unknown = names - self._known - {*scores}
        if unknown:
            self.ignored.check({name: cells[name] for name in cells if name in unknown})


def _failed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a result that failed: it has no answer, and it is not passed if the agent failed."""
    changed: dict[str, Any] = {}
    if "output" in fields and is_blank(fields["output"]):
        changed["output"] = None
    outcome = fields.get("outcome") or outcome_of_error(read_error(fields["error"]) or "")
    is_judged = "passed" not in fields or not is_blank(fields["passed"])
    if not is_judged and TraceOutcome(outcome).is_agent_failure:
        changed["passed"] = 0.0
    return changed


def _without_unknown_zeros(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without the zeros that tools write for tokens and costs that they do not know."""
    tokens = [as_number(fields.get(name)) for name in ("inputTokens", "outputTokens")]
    if any(tokens):
        return fields
    names = ("inputTokens", "outputTokens", "cost")
    unknown = [name for name in names if name in fields and as_number(fields[name]) == 0]
    return fields | dict.fromkeys(unknown)
