"""The lists of results inside of a JSON document, at any of its first levels; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mosaico.traces.files.column_words import certainty_of, names_a_score
from mosaico.traces.files.field_names import NAMES
from mosaico.traces.messages import read_messages
from mosaico.traces.object_text import normalize_name

# A document that is an object holds its rows as one of its members.
ROW_MEMBERS: Final = ("rows", "items", "data", "results", "traces", "examples", "samples")
MAX_LEVELS: Final = 3
_MAX_LISTED: Final = 4


class RowList(NamedTuple):
    """A list of objects, and the path to it: `results.items`."""

    path: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def columns(self) -> set[str]:
        return {name for row in self.rows for name in row}


def find_row_lists(document: Mapping[str, Any]) -> list[RowList] | str:
    """The list that holds the results of a document, or several that are one table together; empty for a document without,
    and a sentence without a subject where it cannot be said which one it is.
    """
    lists = [*_iter_lists(document)]
    if _is_result(document):
        lists = [rows for rows in lists if rows.path in ROW_MEMBERS]
    if len(lists) > 1:
        lists = (
            [rows for rows in lists if _has(rows, "output")]
            or [*filter(_is_judged, lists)]
            or lists
        )
    if len(lists) > 1:
        named = [rows for rows in lists if rows.path in ROW_MEMBERS]
        lists = sorted(named, key=lambda rows: ROW_MEMBERS.index(rows.path))[:1] or lists
    if len(lists) < 2:  # noqa: PLR2004 - one is the table
        is_by_id = len(document) == 1 and lists and lists[0].path in {*document} - {*ROW_MEMBERS}
        return [] if is_by_id and _identity(lists[0]) is None else lists
    names = [*map(_identity, lists)]
    paths = ", ".join(rows.path for rows in lists[:_MAX_LISTED])
    if any(rows.columns != lists[0].columns for rows in lists) or None in names:
        # Lists by the ID of their item, or columns.
        return [] if all("." not in rows.path for rows in lists) else f"has several lists: {paths}"
    items = [item for of_list in names for item in of_list or ()]
    if len({*items}) < len(items):
        return f"has the same items in several lists ({paths}), such as those of two runs"
    return lists


def _iter_lists(
    node: Mapping[str, Any], prefix: str = "", levels: int = MAX_LEVELS
) -> Iterator[RowList]:
    for name, member in node.items():
        path = f"{prefix}{name}"
        if isinstance(member, dict) and levels > 1:
            yield from _iter_lists(member, f"{path}.", levels - 1)
        is_list = isinstance(member, list) and bool(member)
        if is_list and all(isinstance(row, dict) for row in member) and not read_messages(member):
            rows = RowList(path, member)
            is_of_texts = any(_has(rows, field) for field in ("output", "expected"))
            if path in ROW_MEMBERS or is_of_texts or _is_judged(rows):
                yield rows


def _has(rows: RowList, field: str) -> bool:
    return any(certainty_of(column, field) for column in rows.columns)


def _is_judged(rows: RowList) -> bool:
    """Return whether a list says which answers are right."""
    verdicts = NAMES["passed"]
    return any(
        names_a_score(column) or normalize_name(column) in verdicts for column in rows.columns
    )


def _is_result(document: Mapping[str, Any]) -> bool:
    """Return whether a document holds a question or an answer itself: other lists are details of it."""
    texts = [
        member
        for name, member in document.items()
        if member and any(certainty_of(name, field) for field in ("output", "expected", "input"))
    ]
    return any(
        isinstance(text, str | int | float)
        or (isinstance(text, dict) and not any(_iter_lists(text)))
        for text in texts
    )


def _identity(rows: RowList) -> list[str] | None:
    """The items of a list by their IDs or their questions; None where it has neither."""
    names = [*NAMES["item"], *NAMES["input"]]
    columns = {normalize_name(column): column for column in rows.columns}
    column = next((columns[name] for name in names if name in columns), None)
    return None if column is None else [str(row.get(column)) for row in rows.rows]
