"""Reads a table of results as traces: one row is one answer of the agent to one item."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

from mosaico.core.parameter_names import mapped_column, parameter_name
from mosaico.traces.files.cell_paths import cell_of, has_cell, list_columns, nested_columns
from mosaico.traces.files.column_cells import ColumnCells
from mosaico.traces.files.column_mapping import InvalidMapping
from mosaico.traces.files.field_names import METRIC_NAMES, first_alias
from mosaico.traces.files.ignored_fields import (
    NOT_USED,
    IgnoredFields,
    describe_ignored,
    describe_more,
)
from mosaico.traces.files.import_file import ImportFile, TableRow
from mosaico.traces.files.importer_registry import ImportedTraces
from mosaico.traces.files.limited_file import InvalidImport, UnknownColumns
from mosaico.traces.files.row_reader import RowReader
from mosaico.traces.files.table_columns import TableColumns, choose_columns
from mosaico.traces.model_responses import ValueForm
from mosaico.traces.types import Trace
from mosaico.traces.value_text import parse_encoded, read_text

SAMPLED_ROWS: Final = 100
_FORMS_OF_MODELS: Final = frozenset(
    {
        ValueForm.MESSAGE,
        ValueForm.CHAT,
        ValueForm.COMPLETION,
        ValueForm.RESPONSE,
        ValueForm.BATCH_LINE,
        ValueForm.GENERATIONS,
    }
)


def read_table(
    file: ImportFile, mapping: Mapping[str, str], rows: Iterable[TableRow] | None = None
) -> ImportedTraces:
    """The traces of a table; `rows` are those of the file unless the caller reads them itself.

    The columns are chosen from the first 100 rows. `output=` without a column reads a table of items
    that have no answers yet.
    Raises: `InvalidMapping` for a column that does not exist and for columns that may equally hold a text,
            `InvalidImport` for a table without an answer or a score.
    """
    remaining = with_numbers(iter(file.rows() if rows is None else rows), file.options.labels)
    sample = list(islice(remaining, SAMPLED_ROWS))
    if not sample:
        return ImportedTraces(traces=iter(()))
    columns = _choose(file, sample, mapping)
    if mapping.get("output") != "":
        _require_content(file, columns, sample)
    _refuse_rows_by_metric(file, columns, sample)
    ignored = IgnoredFields(columns.read_columns)
    for row in sample:
        ignored.check(row.cells)
    notes = [
        *file.notes,
        *_notes(columns),
        *columns.notes,
        *describe_ignored("columns", ignored),
    ]
    scores = {f"scores[{name}]": column for name, column in columns.scores.items()}
    return ImportedTraces(
        traces=iter_row_traces(RowReader(file, columns), chain(sample, remaining), ignored, notes),
        columns=dict(columns.by_field) | scores,
        notes=notes,
    )


def _choose(file: ImportFile, sample: list[TableRow], mapping: Mapping[str, str]) -> TableColumns:
    rows = [row.cells for row in sample]
    try:
        require_labeled(file, rows)
        columns = choose_columns(rows, mapping, file.repeated_columns)
        response = None
        if "output" not in columns.by_field and "output" not in mapping:
            response = _find_responses(columns, rows)
        if response is None:
            return columns
        return choose_columns(rows, {**mapping, "output": response}, file.repeated_columns)
    except InvalidMapping as error:
        raise InvalidMapping(f"{file.name}: {error.detail}") from None


def require_labeled(file: ImportFile, rows: list[Mapping[str, Any]]) -> None:
    """Raise `InvalidMapping` for a column of labels that none of the rows has."""
    for column in file.options.labels:
        if not any(has_cell(row, column) for row in rows):
            raise InvalidMapping(
                f"the table has no column {column!r} for {parameter_name('--labels')}."
                f" Columns: {list_columns(nested_columns(rows))}."
            )


def _find_responses(columns: TableColumns, rows: list[Mapping[str, Any]]) -> str | None:
    """The one column of an unknown name whose cells are responses of a model; None without one."""
    known = columns.read_columns
    names = dict.fromkeys(name for row in rows for name in row if name not in known)
    found = [name for name in names if _is_of_responses([row.get(name) for row in rows])]
    return found[0] if len(found) == 1 else None


def _is_of_responses(cells: list[Any]) -> bool:
    parsed = [*map(parse_encoded, cells)]
    readings = [read_text(cell) for cell in parsed if isinstance(cell, Mapping | list) and cell]
    return bool(readings) and all(reading.form in _FORMS_OF_MODELS for reading in readings)


def with_numbers(
    rows: Iterator[TableRow], labels: Mapping[str, Mapping[str, float]]
) -> Iterator[TableRow]:
    """The rows with numbers in place of labels; a label without a number stays, and is an odd cell."""
    if not labels:
        return rows
    return (
        TableRow(
            row.position,
            {
                **row.cells,
                **{
                    column: numbers.get(str(cell).strip(), cell)
                    for column, numbers in labels.items()
                    if (cell := cell_of(row.cells, column)) is not None
                },
            },
        )
        for row in rows
    )


def iter_row_traces(
    reader: "RowReader", rows: Iterable[TableRow], ignored: IgnoredFields, notes: list[str]
) -> Iterator[Trace]:
    """The traces of the rows. Afterwards `notes` say which rows are trials and which later columns are not used."""
    noted_count, noted_names = ignored.count, len(ignored.names)
    counts = reader.file.counts
    for row in rows:
        counts.rows += 1
        lost = reader.why_lost(row)
        if lost is not None:
            counts.lost_rows.add(lost, row.position)
            continue
        ignored.check(row.cells)
        yield from reader.read(row)
    trials = reader.describe_trials()
    if trials is not None:
        notes.append(f"rows of the same item are its trials: {trials}")
    if ignored.count > noted_count:
        names = ignored.names[noted_names:]
        later = ", ".join(names) + describe_more(ignored.count - noted_count - len(names))
        notes.append(f"columns {NOT_USED}, after the first {SAMPLED_ROWS} rows: {later}")


def _require_content(file: ImportFile, columns: TableColumns, sample: list[TableRow]) -> None:
    if {"output", "passed", "score", "scores"} & {*columns.by_field} or columns.scores:
        return
    names = nested_columns(row.cells for row in sample)
    if not names:
        raise InvalidImport(f"{file.name}: {sample[0].position}: the result has no keys")
    notes = f" ({'; '.join(file.notes)})" if file.notes else ""
    raise UnknownColumns(
        f"{file.name}: {sample[0].position}: no column holds the output of the agent, and none a score; its"
        f" columns are {list_columns(names)}{notes}. Name the column:"
        f" {mapped_column('output', _likely_answer(columns, sample) or 'COLUMN')}{_find_labels(sample)}{_further_fields(columns)}"
    )


def _further_fields(columns: TableColumns) -> str:
    """The fields beside the answer that no column is recognized for, so that one correction names them all."""
    fields = [field for field in ("expected", "item", "input") if field not in columns.by_field]
    return f" (in the same way {', '.join(fields)}, if the file has them)" if fields else ""


def _likely_answer(columns: TableColumns, sample: list[TableRow]) -> str | None:
    """The only column of an unknown name whose cells are texts that differ; None without one."""
    cells = ColumnCells([row.cells for row in sample])
    names = dict.fromkeys(name for row in sample for name in row.cells)
    texts = [
        name
        for name in names.keys() - columns.read_columns
        if len({*map(str, cells.cells(name))}) > 1 and cells.numbers(name) is None
    ]
    return texts[0] if len(texts) == 1 else None


def _find_labels(sample: list[TableRow]) -> str:
    """How to read the labels of a column such as `grade` as numbers; empty without such a column."""
    cells = ColumnCells([row.cells for row in sample])
    for column in nested_columns(row.cells for row in sample):
        labels = cells.judgments(column)
        if labels:
            numbers = ",".join(f"{label}:NUMBER" for label in labels)
            return f", or say what its grades mean: {parameter_name('--labels')} {column}={numbers}"
    return ""


def _refuse_rows_by_metric(file: ImportFile, columns: TableColumns, sample: list[TableRow]) -> None:
    """Refuse a table with a row for each metric of an item: its rows would be read as trials."""
    item = columns.by_field.get("item") or columns.by_field.get("input")
    metric = first_alias(
        [*dict.fromkeys(name for row in sample for name in row.cells)], METRIC_NAMES
    )
    if item is None or metric is None or "trial" in columns.by_field:
        return
    names: dict[str, set[str]] = {}
    for row in sample:
        names.setdefault(str(cell_of(row.cells, item)), set()).add(str(row.cells.get(metric)))
    several = next((item for item, found in names.items() if len(found) > 1), None)
    if several is not None:
        file.reject(
            f"{sample[0].position}: the table has a row for each metric (column {metric!r}), such as"
            f" {', '.join(sorted(names[several])[:3])} of {several!r:.40}; write a row for each answer with a column"
            " for each metric, such as df.pivot does"
        )


def _notes(columns: TableColumns) -> Iterator[str]:
    fields = columns.by_field
    if "item" not in fields and "input" in fields:
        yield f"items are identified by the text of the column {fields['input']!r}"
    if "output" in fields and "expected" not in fields:
        yield (
            "no column holds the expected output: only metrics that need none are computed; name it:"
            f" {mapped_column('expected', 'COLUMN')}"
        )
