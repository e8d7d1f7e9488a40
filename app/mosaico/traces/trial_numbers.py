"""Trial numbers of a collection: no two traces of an item have the same one.

Sources without trials give every trace of an item the number 0. Only after the last page is it known which items
repeat. So the traces are read twice, window by window: to count the numbers of each item, and to renumber. Neither the
memory nor the time between two statements grows with the collection.
"""

import errno
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.traces.types import MAX_TRIAL

# Each statement reads or rewrites the traces of so many positions. Rewriting costs more: a row has its texts.
READ_POSITIONS: Final = 1_000
WRITTEN_POSITIONS: Final = 500

# By position, which has no gaps: an order by item has no index, and one would cost each collection more than
# this reads.
_READ = text(
    """
    SELECT array_agg(hashtextextended(item_id, 0) ORDER BY position) AS items,
           array_agg(trial ORDER BY position) AS trials
    FROM collected_traces
    WHERE collection_id = :collection AND position BETWEEN :first AND :last
    """
)
# The number of a trace is found by its position, so the planner has no join to choose.
_WRITE = text(
    """
    UPDATE collected_traces SET trial = (CAST(:trials AS int2[]))[position - :first + 1]
    WHERE collection_id = :collection AND position BETWEEN :first AND :last
      AND trial <> (CAST(:trials AS int2[]))[position - :first + 1]
    """
)


def number_stored_trials(session: Session, collection_id: int, trace_count: int) -> None:
    """Renumber the trials of each item of a collection in which several traces have the same number.

    Raises: `OSError` when the disk of temporary files is full.
    """
    with _disk_errors(), closing(TrialCounts()) as counts:
        for first in range(0, trace_count, READ_POSITIONS):
            counts.add(*read_window(session, collection_id, first))
        if not counts.has_repeats:
            return
        for first in range(0, trace_count, READ_POSITIONS):
            items, trials = read_window(session, collection_id, first)
            numbers = counts.number(items, trials)
            for start in range(0, len(numbers), WRITTEN_POSITIONS):
                window = slice(start, start + WRITTEN_POSITIONS)
                if numbers[window] != trials[window]:
                    write_window(session, collection_id, first + start, numbers[window])


@contextmanager
def _disk_errors() -> Iterator[None]:
    """Make a full disk the error that it is for any other temporary file."""
    # Imported here: 1 MiB, as in `TrialCounts`.
    import sqlite3

    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        raise OSError(errno.ENOSPC, str(error)) from error


def read_window(
    session: Session, collection_id: int, first: int
) -> tuple[Sequence[int], Sequence[int]]:
    """A hash of the item and the trial number of `READ_POSITIONS` traces, from the position `first` on."""
    window = {"collection": collection_id, "first": first, "last": first + READ_POSITIONS - 1}
    items, trials = session.execute(_READ, window).one()
    return items or [], trials or []


def write_window(session: Session, collection_id: int, first: int, trials: Sequence[int]) -> None:
    """Store the trial numbers of traces from the position `first` on."""
    window = {"collection": collection_id, "first": first, "last": first + len(trials) - 1}
    session.execute(_WRITE, {**window, "trials": list(trials)})


class TrialCounts:
    """Counts the trial numbers of each item, then numbers its trials.

    An item in which a number occurs twice is numbered from 0 on, in the order of these numbers and of the
    traces, up to `MAX_TRIAL`; other items keep their numbers. Items are hashes of 64 bits: two with the same one,
    once in 30 million collections of a million items, are numbered as one.
    """

    def __init__(self) -> None:
        # Imported here: 1 MiB that only a process needs that collects or receives traces of repeated items.
        import sqlite3

        # An empty name is a private database on disk, deleted when it is closed: a collection can exceed the
        # memory. Of the `count` traces with this item and number, `taken` have their new number.
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(
            "CREATE TABLE trials (item INTEGER, trial INTEGER, count INTEGER DEFAULT 1, taken INTEGER DEFAULT 0,"
            " PRIMARY KEY (item, trial)) WITHOUT ROWID"
        )
        # Never committed, as it is of this process only.
        self._database.execute("BEGIN")
        self.has_repeats = False

    def add(self, items: Sequence[int], trials: Sequence[int]) -> None:
        """Count the trial numbers of the next traces, given their items."""
        for key in zip(items, trials, strict=True):
            [count] = self._database.execute(
                "INSERT INTO trials (item, trial) VALUES (?, ?)"
                " ON CONFLICT DO UPDATE SET count = count + 1 RETURNING count",
                key,
            ).fetchone()
            self.has_repeats |= count > 1

    def number(self, items: Sequence[int], trials: Sequence[int]) -> Sequence[int]:
        """The new numbers of the next traces, in the order of `add`, after all of them are counted."""
        numbers = list(trials)
        next_numbers = dict(self._iter_next_numbers(set(items)))
        given_counts: Counter[tuple[int, int]] = Counter()
        for index, key in enumerate(zip(items, trials, strict=True)):
            if key in next_numbers:
                numbers[index] = min(next_numbers[key] + given_counts[key], MAX_TRIAL)
                given_counts[key] += 1
        self._database.executemany(
            "UPDATE trials SET taken = taken + ? WHERE item = ? AND trial = ?",
            ((count, *key) for key, count in given_counts.items()),
        )
        return numbers

    def _iter_next_numbers(self, items: Iterable[int]) -> Iterator[tuple[tuple[int, int], int]]:
        """The next number of each item and trial number, of items in which a number occurs twice."""
        for item in items:
            rows = self._database.execute(
                "SELECT trial, count, taken FROM trials WHERE item = ? ORDER BY trial", (item,)
            ).fetchall()
            if all(count == 1 for _, count, _ in rows):
                continue
            first = 0
            for trial, count, given_count in rows:
                yield (item, trial), first + given_count
                first += count

    def close(self) -> None:
        self._database.close()
