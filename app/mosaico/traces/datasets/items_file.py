"""Files of items: the format of exports, which reads back as the same items, and any file of results or questions."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import ValidationError

from mosaico.core.errors import AppError
from mosaico.core.problem_documents import error_items
from mosaico.core.reports import escape_cell, unescape_cell
from mosaico.core.strict_json import parse_json
from mosaico.traces.datasets.errors import UnreadableItems
from mosaico.traces.datasets.schemas import ItemContent
from mosaico.traces.execution.items import item_of, unique_items
from mosaico.traces.files.trace_file import read_items
from mosaico.traces.types import DatasetItem

ItemsFormat: TypeAlias = Literal["csv", "jsonl"]
COLUMNS: Final = (
    "id",
    "input",
    "expectedOutput",
    "expectedAny",
    "expectedAll",
    "tags",
    "attributes",
)
_HEADER: Final = ",".join(COLUMNS).encode()
# The columns of CSV that hold JSON.
_DOCUMENTS: Final = frozenset({"expectedAny", "expectedAll", "tags", "attributes"})
# A mark of a spreadsheet in front of a file of UTF-8.
_MARK: Final = b"\xef\xbb\xbf"
# The first bytes of files that unpack to more than they are.
_PACKED: Final = (b"PK\x03\x04", b"PAR1")


def item_of_content(content: ItemContent) -> DatasetItem:
    """The item of a request or of a line of an export."""
    return DatasetItem(
        id=content.id,
        input=content.input,
        expected_output=content.expected_output,
        expected_any=tuple(content.expected_any),
        expected_all=tuple(content.expected_all),
        tags=tuple(content.tags),
        attributes=content.attributes,
    )


class ItemsFile(NamedTuple):
    """The items of a file, and the IDs of those that say a part of an item only: a dataset keeps the rest of them."""

    items: list[DatasetItem]
    partial_ids: frozenset[str]


def write_items(items: Iterable[DatasetItem], file_format: ItemsFormat) -> Iterator[str]:
    """The lines of an export; of CSV the first one has the names of the columns. Each item has all fields: an import replaces
    the stored one.
    """
    if file_format == "jsonl":
        for item in items:
            yield json.dumps(_document(item), ensure_ascii=False) + "\n"
        return
    yield _csv_line(COLUMNS)
    for item in items:
        document = _document(item)
        yield _csv_line([_cell(name, document[name]) for name in COLUMNS])


def write_partial_items(items: Iterable[DatasetItem]) -> Iterator[str]:
    """Lines of JSON with what items say: an import keeps the rest of the stored ones."""
    for item in items:
        said = {name: value for name, value in _document(item).items() if value}
        yield json.dumps({"id": item.id, **said}, ensure_ascii=False) + "\n"


def read_items_file(name: str, file: IO[bytes]) -> ItemsFile:
    """The items of a file: an export as it was written, of any other text file what its columns are read as.

    Raises: `UnreadableItems` with the line, and the errors of files of results.
    """
    first_line = file.readline().removeprefix(_MARK).strip()
    file.seek(0)
    if first_line.startswith(_PACKED):
        raise UnreadableItems(
            f"{name}: it is not a text file; send CSV or JSON Lines, or use `mosaico items import`, which reads more formats"
        )
    if first_line == _HEADER:
        return ItemsFile([*_read_csv(name, file)], frozenset())
    if is_export(first_line):
        return _read_lines(name, file)
    items = unique_items(filter(None, map(item_of, read_items(name, file))), name)
    return ItemsFile(items, frozenset(item.id for item in items))


def is_export(first_line: bytes) -> bool:
    """Return whether a file with this first line is an export, or one of the same form."""
    line = first_line.removeprefix(_MARK).strip()
    if line == _HEADER:
        return True
    try:
        document = parse_json(line)
    except (AppError, ValueError):
        return False
    return isinstance(document, dict) and {"id", "input"} <= document.keys() <= {*COLUMNS}


def _read_csv(name: str, file: IO[bytes]) -> Iterator[DatasetItem]:
    csv.field_size_limit(2**31 - 1)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        rows = csv.reader(text, strict=True)
        next(rows)
        for row in rows:
            if row:
                yield _item_of_row(name, rows.line_num, row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise UnreadableItems(
            f"{name}: it is not CSV in UTF-8: {error}; export the items again"
        ) from None
    finally:
        text.detach()


def _item_of_row(name: str, line: int, row: list[str]) -> DatasetItem:
    if len(row) != len(COLUMNS):
        raise UnreadableItems(
            f"{name}: line {line} has {len(row)} cells; write one for each of {', '.join(COLUMNS)}"
        )
    document: dict[str, Any] = {}
    for column, cell in zip(COLUMNS, row, strict=True):
        if cell:
            text = unescape_cell(cell)
            document[column] = _parse(name, line, text) if column in _DOCUMENTS else text
    return _item_of_document(name, line, document)


def _read_lines(name: str, file: IO[bytes]) -> ItemsFile:
    items, partial_ids = [], set[str]()
    for number, line in enumerate(file, 1):
        if line.strip():
            document = _parse(name, number, line.removeprefix(_MARK))
            item = _item_of_document(name, number, document)
            items.append(item)
            if not {*COLUMNS} <= document.keys():
                partial_ids.add(item.id)
    return ItemsFile(items, frozenset(partial_ids))


def _parse(name: str, line: int, text: str | bytes) -> Any:
    try:
        return parse_json(text)
    except (AppError, ValueError) as error:
        raise UnreadableItems(f"{name}: line {line} is not valid JSON: {error}") from None


def _item_of_document(name: str, line: int, document: Any) -> DatasetItem:
    try:
        return item_of_content(ItemContent.model_validate(document))
    except ValidationError as error:
        flaws = error_items([{**flaw, "loc": ("body", *flaw["loc"])} for flaw in error.errors()])
        raise UnreadableItems(
            f"{name}: line {line}: {flaws[0].pointer.strip('/') or 'the line'} {flaws[0].detail}"
        ) from None


def _document(item: DatasetItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "input": item.input,
        "expectedOutput": item.expected_output,
        "expectedAny": list(item.expected_any),
        "expectedAll": list(item.expected_all),
        "tags": list(item.tags),
        "attributes": dict(item.attributes),
    }


def _cell(name: str, value: Any) -> str:
    if name in _DOCUMENTS:
        return json.dumps(value, ensure_ascii=False) if value else ""
    return str(escape_cell(value or ""))


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    # The writer does not quote a lone carriage return, which ends a row for its reader.
    has_return = any("\r" in cell for cell in cells)
    writer = csv.writer(
        line, lineterminator="\n", quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL
    )
    writer.writerow(cells)
    return line.getvalue()
