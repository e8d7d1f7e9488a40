"""Cursors of lists that are computed and not read by a key: the number of the next row."""

from mosaico.core.keyset import BadCursor, decode_cursor


def read_offset(cursor: str | None) -> int:
    """The number of the first row of a page; 0 without a cursor. Raises: `BadCursor` for one of another list."""
    if cursor is None:
        return 0
    match decode_cursor(cursor):
        case [int(offset)] if offset >= 0:
            return offset
    raise BadCursor("the cursor does not belong to this list; start again without a cursor")
