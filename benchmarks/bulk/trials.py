"""B8: the trial numbers of a collection."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.bulk.timings import BATCHES, ROWS, Timing, milliseconds_since, time_batches
from benchmarks.list_rows import TABLES
from benchmarks.table_rows import insert_rows
from mosaico.core.db import Database
from mosaico.traces.service import create_collection
from mosaico.traces.trial_numbers import (
    READ_POSITIONS,
    WRITTEN_POSITIONS,
    TrialCounts,
    read_window,
    write_window,
)

# Of an input and of an output: most rows keep them in their table.
TRACE_CHARS: Final = 600
READ_TRIALS: Final = "count trials"
WRITE_TRIALS: Final = "number trials"
COUNTED_TRACES: Final = 10 * ROWS
COUNTED_WINDOW: Final = 1_000
ADD_COUNTS: Final = f"{COUNTED_WINDOW:,} counts of ten times as many traces"
NUMBER_COUNTED: Final = f"{COUNTED_WINDOW:,} numbers of ten times as many traces"


def time_trials(db: Database) -> Iterator[Timing]:
    """The windows of a collection of `ROWS` traces, three of each item, that all have the number 0."""
    with db.begin() as session:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        collection = create_collection(session, "local", {}).id
        traces = {
            **TABLES["collected_traces"],
            "collection_id": str(collection),
            "item_id": f"'item-' || n % {max(1, ROWS // 3)}",
            "trial": "0",
            "input": f"repeat('x', {TRACE_CHARS})",
            "output": f"repeat('x', {TRACE_CHARS})",
        }
        insert_rows(session, "collected_traces", traces, ROWS)
    firsts = iter(range(0, ROWS, READ_POSITIONS))
    with closing(TrialCounts()) as counts:

        def count(session: Session) -> int:
            items, trials = read_window(session, collection, next(firsts, ROWS))
            counts.add(items, trials)
            return len(items)

        yield time_batches(READ_TRIALS, db, count)
    written = iter(range(0, ROWS, WRITTEN_POSITIONS))

    def write(session: Session) -> int:
        write_window(session, collection, next(written), [1] * WRITTEN_POSITIONS)
        return 1

    yield time_batches(WRITE_TRIALS, db, write)


def time_counts() -> Iterator[Timing]:
    """The last windows of a collection that is ten times as large, without its rows: three traces of each
    item, in no order.
    """
    chance = random.Random(1)
    windows = (
        # Of a fraction, whose hash has all bits as that of an item has; an integer is its own hash.
        [hash(chance.randrange(COUNTED_TRACES // 3) / 7) for _ in range(COUNTED_WINDOW)]
        for _ in range(COUNTED_TRACES // COUNTED_WINDOW)
    )
    trials = [0] * COUNTED_WINDOW
    adding, numbering = list[float](), list[float]()
    last_windows: list[list[int]] = []
    with closing(TrialCounts()) as counts:
        for items in windows:
            started = time.perf_counter()
            counts.add(items, trials)
            adding.append(milliseconds_since(started))
            last_windows = [*last_windows[1 - BATCHES :], items]
        for items in last_windows:
            started = time.perf_counter()
            counts.number(items, trials)
            numbering.append(milliseconds_since(started))
    yield Timing(ADD_COUNTS, median(adding[-BATCHES:]))
    yield Timing(NUMBER_COUNTED, median(numbering))
