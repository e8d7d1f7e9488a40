"""B10: stores outside of tables: the streams of uploads, and files of SQLite on the disk of a worker."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from statistics import median
from typing import Any, Final

from sqlalchemy.orm import Session

from benchmarks.bulk.timings import (
    BATCHES,
    ROWS,
    Timing,
    milliseconds_since,
)
from benchmarks.bulk.trials import time_counts
from mosaico.core.db import Database
from mosaico.traces.sources.langfuse.source import TraceCounter
from mosaico.traces.sources.langfuse.v3_runs import ItemStore
from mosaico.traces.sources.langfuse.v3_windows import ROWS_PER_PAGE
from mosaico.traces.types import Trace, TraceOutcome
from mosaico.traces.uploads.service import copy_traces, create_collection, encode_traces

UPLOADED_TRACES: Final = 50_000
COPIED: Final = 1_000
COPY_UPLOAD: Final = f"COPY of an upload, each {COPIED:,} traces"
COUNT_TRACES: Final = f"{ROWS_PER_PAGE} counted traces"
STORE_ITEMS: Final = f"{ROWS_PER_PAGE} items of a dataset"


def time_stores(db: Database) -> Iterator[Timing]:
    yield _time_upload(db)
    with closing(TraceCounter()) as counter:
        yield _time_pages(COUNT_TRACES, _make_trace, counter.add)
    with closing(ItemStore()) as items:
        yield _time_pages(STORE_ITEMS, _make_item, items.add)
    yield from time_counts()


def _time_upload(db: Database) -> Timing:
    lines = (
        (n, b'{"traceId": "t-%d", "output": "%s"}' % (n, b"word " * 120))
        for n in range(UPLOADED_TRACES)
    )
    with encode_traces(db, lines) as traces, Session(db.engine) as session:
        create_collection(session, traces)
        started = time.perf_counter()
        copy_traces(session, traces)
        timing = Timing(COPY_UPLOAD, milliseconds_since(started) * COPIED / UPLOADED_TRACES)
        session.rollback()
    return timing


def _time_pages(
    name: str, make: Callable[[int], Any], add: Callable[[Sequence[Any]], object]
) -> Timing:
    """The last pages of `ROWS` rows."""
    times = []
    for first in range(0, ROWS, ROWS_PER_PAGE):
        page = [make(number) for number in range(first, first + ROWS_PER_PAGE)]
        started = time.perf_counter()
        add(page)
        times.append(milliseconds_since(started))
    return Timing(name, median(times[-BATCHES:]))


def _make_trace(number: int) -> Trace:
    return Trace(
        trace_id=f"t-{number}",
        item_id=f"i-{number}",
        trial=0,
        outcome=TraceOutcome.SCORED,
        input=None,
        expected_output=None,
        output=None,
    )


def _make_item(number: int) -> dict[str, object]:
    return {"id": f"item-{number}", "expectedOutput": "word " * 20, "metadata": {}}
