"""Stored traces: what a collection holds is found by the index, and read back as it was stored."""

import pickle
from typing import Any

import pytest
from sqlalchemy import text

from mosaico.core.clock import utc_now
from mosaico.core.db import Database, fetch_tuples
from mosaico.run_store.queries import EXCUSED_NOTES, SCORED_TRACES, read_scored_traces
from mosaico.traces.models import Collection
from mosaico.traces.queries import STORED_TRACE_IDS, find_stored_trace_ids
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


def test_find_stored_trace_ids__reads_the_index_without_statistics(
    migrated_database: Database,
) -> None:
    collection = stored_collection(
        migrated_database, *(Trace(trace_id=f"t-{n}", item_id="i") for n in range(2000))
    )
    parameters = {"collection": collection, "trace_ids": [f"t-{n}" for n in range(500)]}
    with migrated_database.read() as session:
        assert session.get_one(Collection, collection).trace_count == 2000
        # Statistics of another test may be there, and those of a small table favor a scan.
        session.execute(text("SET LOCAL enable_seqscan = off"))
        plan = session.scalar(text(f"EXPLAIN (FORMAT JSON) {STORED_TRACE_IDS.text}"), parameters)
    [index_scan] = [node for node in _nodes(plan[0]["Plan"]) if "Index Name" in node]
    assert index_scan["Index Name"] == "uq_collected_traces_collection_id_trace_id"
    assert "trace_id" in index_scan["Index Cond"]


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


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in _nodes(child))]


def test_read_scored_traces__looks_up_each_trace_by_its_position(
    migrated_database: Database,
) -> None:
    """The index of trace IDs begins with the collection too, and would read all of its traces for each one."""
    many = [Trace(trace_id=f"t-{n}", item_id=f"i-{n}") for n in range(20)]
    collection = stored_collection(migrated_database, *many)
    DatabaseReader(migrated_database.url).execute(
        """INSERT INTO trace_results (run_seq, position, "values")"""
        " SELECT 7, n, ARRAY[n] FROM generate_series(0, 19) AS n"
    )
    parameters = {
        "run": 7,
        "collection": collection,
        "first": 5,
        "last": 9,
        "with_items": True,
        "lost": [],
        "excused": EXCUSED_NOTES,
    }
    with migrated_database.read() as session:
        scored = read_scored_traces(session, 7, collection, 5, 5, with_items=True)
        for method in ("seqscan", "sort", "bitmapscan"):
            session.execute(text(f"SET LOCAL enable_{method} = off"))
        plan = fetch_tuples(session, f"EXPLAIN (FORMAT JSON) {SCORED_TRACES}", parameters)
    assert {(trace.item_id, *trace.values) for trace in scored} == {
        (f"i-{n}", n) for n in range(5, 10)
    }
    nodes = _nodes(plan[0][0][0]["Plan"])
    assert "Nested Loop" in [node["Node Type"] for node in nodes]
    assert "pk_collected_traces" in [node.get("Index Name") for node in nodes]


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
