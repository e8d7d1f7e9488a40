"""Batches of rows: a statement has a largest number of rows, whatever a request or a run contains."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
Key = TypeVar("Key", str, int, tuple[str, str])

# A statement of so many rows holds its locks for a short time, also where each row has ten indexes; and even rows of
# many columns have far fewer than the 65,535 parameters of a statement.
STATEMENT_ROWS: Final = 200


def batched(rows: Sequence[T], size: int = STATEMENT_ROWS) -> Iterator[Sequence[T]]:
    """The rows in their order, at most `size` at a time; nothing for no rows.

    Within one transaction, the locks of all batches are held until its end.
    """
    return (rows[start : start + size] for start in range(0, len(rows), size))


def keyset_batches(
    read: Callable[[Key, int], Sequence[T]],
    key_of: Callable[[T], Key],
    first: Key,
    size: int | None = None,
) -> Iterator[Sequence[T]]:
    """The rows of a list in batches of `size` (default: `STATEMENT_ROWS`); nothing for no rows.

    `read` gives the first rows after a key, at most the number in its second argument; `first` is before all keys.
    """
    row_count, last = size or STATEMENT_ROWS, first
    while rows := read(last, row_count):
        yield rows
        if len(rows) < row_count:
            return
        last = key_of(rows[-1])
