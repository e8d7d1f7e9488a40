"""Trial numbers of stored collections: in bounded statements the same as in one over the whole collection."""

import random
from collections.abc import Sequence
from typing import Final

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from benchmarks.table_rows import insert_rows
from mosaico.core.db import Database
from mosaico.traces import trial_numbers
from mosaico.traces.service import create_collection
from mosaico.traces.trial_numbers import number_stored_trials
from mosaico.traces.types import MAX_TRIAL

ONE_STATEMENT: Final = text(
    """
    WITH counted AS (
        SELECT item_id, position, trial, count(*) OVER (PARTITION BY item_id, trial) AS same
        FROM collected_traces WHERE collection_id = :collection
    ), numbered AS (
        SELECT position, max(same) OVER (PARTITION BY item_id) AS same,
               row_number() OVER (PARTITION BY item_id ORDER BY trial, position) - 1 AS trial
        FROM counted
    )
    UPDATE collected_traces AS trace SET trial = least(numbered.trial, :most)
    FROM numbered
    WHERE numbered.same > 1
      AND trace.collection_id = :collection AND trace.position = numbered.position
      AND trace.trial <> numbered.trial
    """
)
TRIALS: Final = text(
    "SELECT trial FROM collected_traces WHERE collection_id = :collection ORDER BY position"
)


def store_collection(session: Session, items: Sequence[str], trials: Sequence[int]) -> int:
    collection = create_collection(session, "local", {}).id
    values = {
        "collection_id": str(collection),
        "position": "n - 1",
        "trace_id": "'t-' || n",
        "item_id": f"(CAST('{{{','.join(items)}}}' AS text[]))[n]",
        "trial": f"(CAST('{{{','.join(map(str, trials))}}}' AS int[]))[n]",
        "outcome": "'scored'",
    }
    insert_rows(session, "collected_traces", values, len(items))
    return collection


@pytest.mark.parametrize("seed", range(12))
def test_number_stored_trials__equals_one_statement_over_the_collection(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    numbers = random.Random(seed)
    count = numbers.randint(1, 60)
    items = [f"item {numbers.randrange(1 + count // 3)}" for _ in range(count)]
    trials = [numbers.choice([0, 1, 2, MAX_TRIAL]) for _ in range(count)]
    # Batches smaller than the collection, and larger ones.
    monkeypatch.setattr(trial_numbers, "READ_POSITIONS", numbers.choice([1, 7, 100]))
    monkeypatch.setattr(trial_numbers, "WRITTEN_POSITIONS", numbers.choice([1, 5, 100]))
    with Session(migrated_database.engine) as session:  # nothing is committed
        reference = store_collection(session, items, trials)
        other = store_collection(session, items, trials)
        collection = store_collection(session, items, trials)
        session.execute(ONE_STATEMENT, {"collection": reference, "most": MAX_TRIAL})
        number_stored_trials(session, collection, count)

        expected = session.scalars(TRIALS, {"collection": reference}).all()
        assert session.scalars(TRIALS, {"collection": collection}).all() == expected
        assert session.scalars(TRIALS, {"collection": other}).all() == trials


def test_number_stored_trials__writes_only_around_what_changes(migrated_database: Database) -> None:
    """Of 1,500 traces, only the last one repeats an item: 500 positions are written, and one row."""
    items = [f"i-{n}" for n in range(1_499)] + ["i-7"]
    updated: list[int] = []
    with Session(migrated_database.engine) as session:  # nothing is committed
        collection = store_collection(session, items, [0] * len(items))

        @event.listens_for(session.connection(), "after_cursor_execute")
        def _count(_: object, cursor: object, statement: str, *__: object) -> None:
            if "UPDATE" in statement:
                updated.append(cursor.rowcount)  # type: ignore[attr-defined]

        number_stored_trials(session, collection, len(items))
        trials = session.scalars(TRIALS, {"collection": collection}).all()

    assert updated == [1]
    assert trials == [*[0] * 1_499, 1]


def test_number_stored_trials__trials_of_an_item_in_two_windows_have_two_numbers(
    migrated_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_numbers, "READ_POSITIONS", 50)
    count = 600
    with Session(migrated_database.engine) as session:  # nothing is committed
        collection = create_collection(session, "local", {}).id
        values = {
            "collection_id": str(collection),
            "position": "n - 1",
            "trace_id": "'t-' || n",
            "item_id": f"'i-' || n % {count // 2}",
            "trial": "0",
            "outcome": "'scored'",
        }
        insert_rows(session, "collected_traces", values, count)
        number_stored_trials(session, collection, count)
        trials = session.scalars(TRIALS, {"collection": collection}).all()

    assert trials == [0] * (count // 2) + [1] * (count // 2)
