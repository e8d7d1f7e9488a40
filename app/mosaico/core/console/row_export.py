"""Writes rows as CSV, JSONL or Parquet, in bounded memory."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from mosaico.core.console.files import replaced_file
from mosaico.core.console.table import JSON
from mosaico.core.console.terminal import WrongUsage
from mosaico.core.extras import describe_missing
from mosaico.core.reports import write_csv

# The type of each column: str, int, float or bool.
Columns = Mapping[str, type]

STDOUT = Path("-")
BATCH_ROWS = 1_000


class ExportFormat(StrEnum):
    """Format of exported rows."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


ExportFile = Annotated[Path, typer.Argument(metavar="FILE", help="Output file; - is stdout.")]
ExportAs = Annotated[
    ExportFormat | None,
    typer.Option(
        "--format", help="Format of the rows (default: the extension of FILE, otherwise csv)."
    ),
]


def export_rows(
    rows: Iterable[JSON], columns: Columns, file: Path, requested_format: ExportFormat | None
) -> None:
    """Write rows with these columns; a value that a row does not have is empty.

    Lists and objects are texts in CSV and Parquet, see `_flatten`. Raises: `WrongUsage` for Parquet on standard
    output and for an ending that names no format, `UnwritableOutput`.
    """
    row_format = requested_format or _format_of(file)
    if row_format is ExportFormat.PARQUET:
        if file == STDOUT:
            raise WrongUsage(
                "Parquet requires an output file",
                hint="add the file after the run, such as run.parquet",
            )
        with replaced_file(file) as draft:
            _write_parquet(rows, columns, draft)
        return
    write = _write_csv if row_format is ExportFormat.CSV else _write_lines
    _write_stream(file, lambda stream: write(rows, columns, stream))


def _format_of(file: Path) -> ExportFormat:
    ending = file.suffix.lower().removeprefix(".")
    if not ending:
        return ExportFormat.CSV
    # CSV under the name of a spreadsheet would not open in it.
    if ending not in list(ExportFormat):
        raise WrongUsage(
            f"{file}: .{ending} is not a format of rows",
            hint=f"end it with {', '.join(f'.{name}' for name in ExportFormat)}, or add --format csv",
        )
    return ExportFormat(ending)


def _write_stream(file: Path, write: Callable[[IO[str]], None]) -> None:
    if file == STDOUT:
        write(sys.stdout)
        return
    with replaced_file(file) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
        write(stream)


def _write_csv(rows: Iterable[JSON], columns: Columns, stream: IO[str]) -> None:
    write_csv(stream, [columns])
    write_csv(stream, ([_flatten(row.get(name)) for name in columns] for row in rows))


def _write_lines(rows: Iterable[JSON], columns: Columns, stream: IO[str]) -> None:
    for row in rows:
        present = {name: row[name] for name in columns if name in row}
        stream.write(json.dumps(present, ensure_ascii=False, allow_nan=False) + "\n")


def _write_parquet(rows: Iterable[JSON], columns: Columns, file: Path) -> None:
    # pyarrow is a large extra, which few need.
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise WrongUsage(describe_missing("parquet", "Parquet files")) from None
    schema = pa.schema([(name, _arrow_type(kind, pa)) for name, kind in columns.items()])
    remaining = iter(rows)
    with pq.ParquetWriter(file, schema) as writer:
        while batch := list(islice(remaining, BATCH_ROWS)):
            cells = {name: [_flatten(row.get(name)) for row in batch] for name in columns}
            writer.write_table(pa.table(cells, schema=schema))


def _arrow_type(kind: type, pa: Any) -> Any:
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}.get(kind, pa.string())


def _flatten(value: object) -> object:
    """A cell: lists of names are joined by commas, other lists and objects are JSON."""
    if isinstance(value, list) and all(isinstance(name, str) and "," not in name for name in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
