"""Stored traces: what a collection holds is found by the index, and read back as it was stored."""

import pickle

import pytest
from sqlalchemy import text

from mosaico.core.clock import utc_now
from mosaico.core.db import Database
from mosaico.run_store.queries import read_scored_traces
from mosaico.traces.models import Collection
from mosaico.traces.queries import find_stored_trace_ids
from mosaico.traces.registry import TracePage
from mosaico.traces.service import create_collection, store_page
from mosaico.traces.stored_traces import read_traces
from mosaico.traces.types import ToolCall, Trace, TraceOutcome
from tests.support.stored import DatabaseReader

FULL = Trace(
    trace_id="t-full",
    item_id="i-1",
    trial=2,
    outcome=TraceOutcome.TIMEOUT,
    input="in",
    expected_output="naïve 🚲",
    output="out",
    error="late",
    tags=("a", "lang:de"),
    attributes={"user": "u-1"},
    url="https://example.org/t",
    # More than 32 bits hold.
    input_tokens=2**40,
    output_tokens=3,
    cost_usd=0.25,
    latency_ms=1.5,
    tool_calls=(ToolCall(name="search", arguments={"q": [1, None]}, ok=True, latency_ms=2.0),),
    turns=4,
    scores={"Tone": 0.5},
)
BARE = Trace(trace_id="t-bare", item_id="i-2")


def stored_collection(db: Database, *traces: Trace) -> int:
    with db.begin() as session:
        collection = create_collection(session, "local", {})
        store_page(session, collection, TracePage(traces=traces, cursor="more"), utc_now())
        return collection.id


def test_read_traces__gives_back_what_was_stored_also_in_another_process(
    migrated_database: Database,
) -> None:
    collection = stored_collection(migrated_database, FULL, BARE)
    with migrated_database.read() as session:
        stored = read_traces(session, collection, 0, 10)
    assert [*stored] == [*pickle.loads(pickle.dumps(stored))] == [FULL, BARE]
    assert len(stored) == 2
    assert (stored[1], [*stored[:1]]) == (BARE, [FULL])


def test_find_stored_trace_ids__are_those_of_the_collection(migrated_database: Database) -> None:
    stored_collection(migrated_database, Trace(trace_id="t-other", item_id="i"))
    collection = stored_collection(migrated_database, FULL, BARE)
    with migrated_database.read() as session:
        stored_ids = find_stored_trace_ids(session, collection, ["t-bare", "t-other", "t-none"])
    assert stored_ids == {"t-bare"}


@pytest.mark.parametrize("repeated", [0, 500])
def test_store_page__last_page_numbers_the_trials_of_a_collection_without_statistics(
    migrated_database: Database, repeated: int
) -> None:
    for number in range(5):
        stored_collection(migrated_database, Trace(trace_id=f"t-{number}", item_id="i"))
    with migrated_database.begin() as session:
        # Now Postgres expects one trace in a collection.
        session.execute(text("ANALYZE collected_traces"))
    traces = tuple(Trace(trace_id=f"t-{n}", item_id=f"i-{max(n, repeated)}") for n in range(2000))
    with migrated_database.begin() as session:
        collection = create_collection(session, "local", {})
        store_page(session, collection, TracePage(traces=traces[:1000], cursor="more"), utc_now())
    with migrated_database.begin() as session:
        collection = session.get_one(Collection, collection.id)
        store_page(session, collection, TracePage(traces=traces[1000:], cursor=None), utc_now())
    with migrated_database.read() as session:
        trials = [trace.trial for trace in read_traces(session, collection.id, 0, 1999)]
    # The traces up to `repeated` are of one item, and so its trials; all others are single.
    assert trials == [*range(repeated + 1), *[0] * (1999 - repeated)]


def test_read_scored_traces__looks_up_only_traces_that_lack_a_value(
    migrated_database: Database,
) -> None:
    collection = stored_collection(
        migrated_database,
        *[Trace(trace_id=f"t-{n}", item_id=f"i-{n}") for n in range(998)],
        # Of a metric for other tags there is no note.
        Trace(trace_id="lost", item_id="lost", outcome=TraceOutcome.INFRA_ERROR),
        Trace(trace_id="noted", item_id="noted", outcome=TraceOutcome.JUDGE_ERROR),
    )
    rows = DatabaseReader(migrated_database.url)
    rows.execute(
        """INSERT INTO trace_results (run_seq, position, "values", notes)"""
        " SELECT 7, n, CASE n WHEN 998 THEN ARRAY[NULL::float8] ELSE ARRAY[n] END,"
        """ CASE n WHEN 999 THEN '{"A": {"skipped": "JUDGE_ERROR"}}'::jsonb END"""
        " FROM generate_series(0, 999) AS n"
    )
    with migrated_database.read() as session:
        scored = read_scored_traces(session, 7, collection, 0, 1000, with_items=False)
    assert [row.item_id for row in scored if row.is_lost] == ["lost", "noted"]
    assert sum(not row.is_lost and row.item_id is None for row in scored) == 998
