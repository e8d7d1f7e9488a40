"""Trial numbers of a collection: no two traces of an item have the same one.

Sources without trials give every trace of an item the number 0. Only after the last page is it known which items
repeat.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from app.traces.files.ndjson import MAX_TRIAL

# Each statement reads or rewrites the traces of so many positions. Rewriting costs more: a row has its texts.
READ_POSITIONS: Final = 5_000
WRITTEN_POSITIONS: Final = 500
_POSITION_BITS: Final = 31
_TRIAL_BITS: Final = 15

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

    Memory: about 60 bytes per trace, until it returns.
    """
    items, trials = array("q"), array("h")
    for first in range(0, trace_count, READ_POSITIONS):
        window_items, window_trials = read_window(session, collection_id, first)
        items.extend(window_items)
        trials.extend(window_trials)
    numbers = number_trials(items, trials)
    for first in range(0, trace_count, WRITTEN_POSITIONS):
        window = slice(first, first + WRITTEN_POSITIONS)
        if numbers[window] != trials[window]:
            write_window(session, collection_id, first, numbers[window])


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


def number_trials(items: Sequence[int], trials: Sequence[int]) -> "array[int]":
    """The trial number of each trace, given its item and its number so far.

    An item in which a number occurs twice is numbered from 0 on, in the order of these numbers and of the
    traces, up to `MAX_TRIAL`; other items keep their numbers.
    """
    numbers = array("h", trials)
    for item_trials in _group_by_item(items, trials):
        if len({trial for trial, _ in item_trials}) < len(item_trials):
            for number, (_, position) in enumerate(item_trials):
                numbers[position] = min(number, MAX_TRIAL)
    return numbers


def _group_by_item(items: Sequence[int], trials: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """The trials and positions of the traces of each item that has several, in order."""
    # Numbers sort faster than tuples, in a third of their memory. Items are hashes of 64 bits: two with the same
    # one, once in 30 million collections of a million items, are numbered as one.
    keys = [
        ((item << _TRIAL_BITS | trial) << _POSITION_BITS) | position
        for position, (item, trial) in enumerate(zip(items, trials, strict=True))
    ]
    keys.sort()
    for _, item_keys in groupby(keys, lambda key: key >> (_TRIAL_BITS + _POSITION_BITS)):
        item_trials = [
            (key >> _POSITION_BITS & MAX_TRIAL, key & ((1 << _POSITION_BITS) - 1))
            for key in item_keys
        ]
        if len(item_trials) > 1:
            yield item_trials
