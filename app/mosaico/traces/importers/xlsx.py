"""Spreadsheets, read with openpyxl row by row; needs the extra `xlsx`.

The first sheet with a table is read, or the one that the options name. A cell with a formula has the value that the program stored.
"""

import zipfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from mosaico.core.extras import describe_missing
from mosaico.core.parameter_names import parameter_name
from mosaico.traces.files.import_file import ROW_READERS, Container, ImportFile, TableRow
from mosaico.traces.files.importer_registry import IMPORTERS, Importer
from mosaico.traces.files.table_head import filled_rows
from mosaico.traces.files.table_traces import read_table

MAX_NAMES: Final = 8


def iter_sheet_rows(file: ImportFile) -> Iterator[TableRow]:
    """The rows of the first sheet, or of the one that the options name. Raises: `InvalidImport` without openpyxl."""
    sheet = _sheet(file)
    header: list[str] = []
    values = enumerate(sheet.iter_rows(values_only=True), start=1)
    rows = ((number, [_plain(cell) for cell in row]) for number, row in values)
    for number, cells in filled_rows(rows, file.add_note):
        if header:
            yield TableRow(f"row {number}", dict(zip(header, cells, strict=False)))
        else:
            header = file.name_columns([str(cell) for cell in cells])


def _sheet(file: ImportFile) -> Any:
    # An extra: few people need it.
    try:
        import openpyxl
    except ModuleNotFoundError:
        file.reject(describe_missing("xlsx", "spreadsheets") + ", or save as CSV")
    try:
        # `zipfile` reads no more of a member than the directory says.
        with zipfile.ZipFile(file.open()) as archive:
            file.require_unpacked(
                sum(member.file_size for member in archive.infolist()), "the spreadsheet"
            )
        workbook = openpyxl.load_workbook(file.open(), read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        file.reject(f"not a valid spreadsheet: {error}")
    sheets = [sheet for sheet in workbook.worksheets if sheet.max_row]
    if not sheets:
        file.reject("the spreadsheet has no cells")
    sheet = sheets[0]
    wanted = file.options.sheet
    if wanted is not None:
        found = [sheet for sheet in sheets if sheet.title == wanted]
        if not found:
            names = ", ".join(repr(sheet.title) for sheet in sheets[:MAX_NAMES])
            file.reject(f"no sheet with cells is named {wanted!r}; sheets: {names}")
        sheet = found[0]
    elif len(sheets) > 1:
        names = ", ".join(repr(sheet.title) for sheet in sheets[1:MAX_NAMES])
        file.add_note(
            f"the sheet {sheet.title!r} is read, and not {names}; {parameter_name('--sheet')} chooses another one"
        )
    return sheet


def _plain(cell: Any) -> Any:
    """A cell as a value of JSON: a time as text, nothing as an empty text."""
    if cell is None:
        return ""
    return cell.isoformat(" ") if isinstance(cell, datetime) else cell


ROW_READERS[Container.SPREADSHEET] = iter_sheet_rows
IMPORTERS.register(
    "xlsx",
    Importer(
        summary="spreadsheet",
        recognizes=lambda file: file.container is Container.SPREADSHEET,
        read=read_table,
        is_table=True,
    ),
)
