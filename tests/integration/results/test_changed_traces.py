"""The traces behind a breach: those that changed most, also in runs that were stored just now."""

from collections.abc import Sequence

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from benchmarks.table_rows import insert_rows
from mosaico.core.db import Database
from mosaico.run_store.run_history import ChangedTrace, list_changed_traces

TRACES = 20_000


def store_run(session: Session, values: Sequence[float | None] | str, trials: int = 1) -> int:
    """A run with these values, or with an expression over the number `n` of each of `TRACES` traces."""
    count = TRACES if isinstance(values, str) else len(values)
    if not isinstance(values, str):
        listed = ", ".join("NULL" if value is None else str(value) for value in values)
        values = f"(ARRAY[{listed}]::float8[])[n]"
    insert_rows(
        session,
        "collections",
        {"source": "'local'", "query": "'{}'", "digest": "''", "completed_at": "now()"},
    )
    collection = session.scalar(text("SELECT max(id) FROM collections"))
    insert_rows(
        session,
        "collected_traces",
        {
            "collection_id": str(collection),
            "position": "n - 1",
            "trace_id": f"'t-{collection}-' || n",
            "item_id": f"'i-' || (n - 1) / {trials}",
            "trial": f"(n - 1) % {trials}",
            "outcome": "'scored'",
            "tags": "'{}'",
        },
        count,
    )
    insert_rows(
        session,
        "benchmark_runs",
        {
            "id": f"'run-{collection}'",
            "benchmark_id": "'b'",
            "agent_id": "'a'",
            "status": "'COMPLETED'",
            "triggered_by": "'MANUAL'",
            "collection_id": str(collection),
            "metric_keys": "ARRAY['BLEU', 'ROUGE']",
        },
    )
    run_seq = session.scalar(text("SELECT max(seq) FROM benchmark_runs"))
    insert_rows(
        session,
        "trace_results",
        {
            "run_seq": str(run_seq),
            "position": "n - 1",
            "values": f"ARRAY[1.0, {values}]",
        },
        count,
    )
    assert isinstance(run_seq, int)
    return run_seq


@pytest.fixture
def session_of_runs(migrated_database: Database) -> Database:
    with migrated_database.begin() as session:
        insert_rows(session, "agents", {"id": "'a'"})
        insert_rows(session, "benchmarks", {"id": "'b'", "metrics": "'[]'"})
    return migrated_database


def changes(traces: Sequence[ChangedTrace]) -> list[tuple[str, float, float | None]]:
    return [(trace.item_id, trace.value, trace.before) for trace in traces]


def test_changed_traces__the_largest_change_for_the_worse_comes_first(
    session_of_runs: Database,
) -> None:
    with session_of_runs.begin() as session:
        # Items 0, 1 and 2 with means of 0.9, 0.5 and none.
        before = store_run(session, [1.0, 0.8, 0.5, None, None, None], trials=2)
        run = store_run(session, [0.2, 0.6, 0.6, 0.4, 0.3, None], trials=2)
        fell = list_changed_traces(session, "ROUGE", run, before, fell=True, limit=10)
        rose = list_changed_traces(session, "ROUGE", run, before, fell=False, limit=2)
        first = list_changed_traces(session, "ROUGE", run, None, fell=True, limit=1)

    assert changes(fell) == [
        ("i-0", 0.2, pytest.approx(0.9)),
        ("i-0", 0.6, pytest.approx(0.9)),
        ("i-1", 0.4, 0.5),
        ("i-2", 0.3, None),
    ]
    assert changes(rose) == [("i-2", 0.3, None), ("i-1", 0.6, 0.5)]
    assert changes(first) == [("i-0", 0.2, None)]


def test_changed_traces__of_large_runs_are_found_within_the_limit_of_a_statement(
    session_of_runs: Database,
) -> None:
    """Without statistics of the runs; a comparison of each trace with each item takes minutes."""
    with session_of_runs.begin() as session:
        before = store_run(session, "1.0")
        run = store_run(session, f"CASE WHEN n > {TRACES - 3} THEN 0.1 * (n % 3) ELSE 1.0 END")
    with session_of_runs.read() as session:
        traces = list_changed_traces(session, "ROUGE", run, before, fell=True, limit=5)

    # Only the last three traces fell; 19,998 is a multiple of 3.
    assert [trace.value for trace in traces] == pytest.approx([0.0, 0.1, 0.2])
