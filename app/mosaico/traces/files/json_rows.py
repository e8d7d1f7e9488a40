"""The rows in a JSON document: lists, the forms of data frames, objects by ID; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mosaico.traces.files.column_words import certainty_of, names_a_score, words_of
from mosaico.traces.files.field_names import NAMES
from mosaico.traces.files.row_lists import ROW_MEMBERS, find_row_lists
from mosaico.traces.object_text import normalize_name

# The column of the keys of an object by ID.
KEY_COLUMN: Final = "key of the object"
ANSWER_COLUMN: Final = "output"
_TEXT_FIELDS: Final = ("output", "expected", "input")
_KNOWN_WORDS: Final = frozenset({"id", "item", "trial", "passed", "tags", "error", "key"})


class DocumentRows:
    """The rows of a document, and a sentence on how they were found; None for rows as they are."""

    def __init__(self, rows: Sequence[Any], note: str | None = None) -> None:
        self.rows = rows
        self.note = note


def rows_of_document(document: Any) -> DocumentRows | str:
    """The rows of a document; a sentence without a subject where it has none: "has lists of several lengths"."""
    if isinstance(document, list):
        return DocumentRows(document)
    if not isinstance(document, dict):
        return "is neither a list of objects nor an object with such a list"
    return (
        _split_table(document)
        or _rows_of_lists(document)
        or _columns_of_lists(document)
        or _columns_by_index(document)
        or _objects_by_id(document)
        or _texts_by_id(document)
        or _numbers_by_id(document)
        or DocumentRows([document], "the document is one object and is read as one result")
    )


def _rows_of_lists(document: Mapping[str, Any]) -> DocumentRows | str | None:
    """The lists of objects in a document, wherever they stand."""
    lists = find_row_lists(document)
    if isinstance(lists, str):
        return f"{lists}; write the results of one run into a file of their own"
    if not lists and any(document.get(name) == [] for name in ROW_MEMBERS):
        return DocumentRows([])
    if not lists:
        return None
    paths = ", ".join(rows.path for rows in lists)
    is_plain = len(lists) == 1 and paths in ROW_MEMBERS
    rows = [row for of_list in lists for row in of_list.rows]
    return DocumentRows(rows, None if is_plain else f"the results are those of {paths}")


def _split_table(document: Mapping[str, Any]) -> DocumentRows | str | None:
    """A table of pandas in the form `split`, which MLflow and Weights & Biases write, too, or in the form `table`."""
    columns, data = document.get("columns"), document.get("data")
    match document:
        case {"schema": {"primaryKey": [str() as key]}, "data": [*rows]}:
            indexes = [row.get(key) if isinstance(row, dict) else None for row in rows]
            return DocumentRows(
                _with_keys(rows, indexes), "the document has a schema and data (pandas, table)"
            )
    if not isinstance(columns, list) or not isinstance(data, list):
        return None
    if not all(isinstance(row, list) and len(row) == len(columns) for row in data):
        return "has rows of another length than its columns"
    names = [".".join(map(str, n)) if isinstance(n, list) else str(n) for n in columns]
    rows = [dict(zip(names, row, strict=True)) for row in data]
    keyed = _with_keys(rows, document.get("index"))
    return DocumentRows(keyed, "the document has columns and data (pandas, split)")


def _with_keys(rows: list[Any], index: Any) -> list[Any]:
    """The rows with the values of an index, unless these count the rows."""
    is_index = isinstance(index, list) and len(index) == len(rows)
    if not is_index or all(isinstance(value, int) for value in index):
        return rows
    return [{KEY_COLUMN: key, **row} for key, row in zip(index, rows, strict=True)]


def _columns_of_lists(document: Mapping[str, Any]) -> DocumentRows | str | None:
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    if len(lists) < 2 or len(lists) < len(document):  # noqa: PLR2004 - one list is no table
        return None
    is_of_objects = all(isinstance(cell, dict) for column in lists.values() for cell in column)
    if is_of_objects and not any(map(_is_column, lists)):
        return None
    lengths = {len(column) for column in lists.values()}
    if len(lengths) > 1:
        return "has lists of several lengths"
    rows = [dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]
    return DocumentRows(rows, "the document has a list for each column")


def _columns_by_index(document: Mapping[str, Any]) -> DocumentRows | None:
    """A table of pandas in its default form: an object by row for each column."""
    if not _has_objects(document):
        return None
    indexes = list(dict.fromkeys(index for column in document.values() for index in column))
    is_of_numbers = all(map(str.isdecimal, indexes)) and not any(map(str.isdecimal, document))
    is_named = any(map(_is_column, document)) and not any(map(_is_column, indexes))
    is_of_scalars = not any(
        isinstance(c, dict) for column in document.values() for c in column.values()
    )
    if not ((is_of_numbers or is_named) and (is_of_scalars or is_of_numbers)):
        return None
    rows: list[dict[str, Any]] = [
        {name: column[index] for name, column in document.items() if index in column}
        for index in indexes
    ]
    if not is_of_numbers:
        rows = [{KEY_COLUMN: index, **row} for index, row in zip(indexes, rows, strict=True)]
    return DocumentRows(rows, "the document has an object for each column (pandas)")


def _objects_by_id(document: Mapping[str, Any]) -> DocumentRows | None:
    """Objects of one shape, or lists of them, by the ID of their item."""
    rows = list(_iter_objects_by_id(document))
    if any(not isinstance(row, dict) for row in rows) or not rows:
        return None
    shapes = [row.keys() for row in rows]
    shared = set.intersection(*map(set, shapes))
    is_one_shape = bool(shared) and len(shared) >= max(map(len, shapes)) / 2
    is_item = any(map(_is_column, document))
    if not is_one_shape or is_item or (len(document) == 1 and not any(map(_is_column, shared))):
        return None
    keyed = [
        # A row that names its ID, such as `instance_id`, needs no second one.
        row if _names_its_id(row, key) else {KEY_COLUMN: key, **row}
        for key, value in document.items()
        for row in (value if isinstance(value, list) else [value])
    ]
    return DocumentRows(keyed, "the document is an object by ID, of which each key is a row")


def _names_its_id(row: Mapping[str, Any], key: str) -> bool:
    ids = NAMES["item"]
    return any(value == key and normalize_name(name) in ids for name, value in row.items())


def _iter_objects_by_id(document: Mapping[str, Any]) -> Iterator[Any]:
    for value in document.values():
        if isinstance(value, list) and value:
            yield from value
        else:
            yield value


def _texts_by_id(document: Mapping[str, Any]) -> DocumentRows | None:
    """Answers by the ID of their question, such as the predictions of SQuAD."""
    is_texts = len(document) > 1 and all(isinstance(value, str) for value in document.values())
    if not is_texts or any(map(_is_column, document)):
        return None
    rows = [{KEY_COLUMN: key, ANSWER_COLUMN: text} for key, text in document.items()]
    return DocumentRows(
        rows, "the document is an object of texts by ID, of which each key is an item"
    )


def _numbers_by_id(document: Mapping[str, Any]) -> DocumentRows | str | None:
    """A score or a verdict by the ID of its item."""
    is_numbers = len(document) > 1 and all(isinstance(v, int | float) for v in document.values())
    if not is_numbers:
        return None
    if any(map(_is_column, document)):
        return "has one number for each metric, and no results of items"
    is_verdict = all(isinstance(value, bool) for value in document.values())
    name = "passed" if is_verdict else "score"
    rows = [{KEY_COLUMN: key, name: value} for key, value in document.items()]
    return DocumentRows(rows, f"the document has a number for each ID, which is read as {name}")


def _has_objects(document: Mapping[str, Any]) -> bool:
    return bool(document) and all(isinstance(v, dict) and v for v in document.values())


def _is_column(name: str) -> bool:
    """Return whether a name is that of a column and not an ID."""
    is_text = any(certainty_of(name, field) for field in _TEXT_FIELDS)
    return is_text or names_a_score(name) or not _KNOWN_WORDS.isdisjoint(words_of(name)[-1:])
