"""Forgets the values of attributes that only erased traces had, in what is stored of their runs and of comparisons."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from sqlalchemy import select, text, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from mosaico.comparison.attribute_cover import cut_value
from mosaico.comparison.attribute_text import describe_difference
from mosaico.comparison.comparison_store import delete_comparisons_of
from mosaico.core.batches import batched
from mosaico.run_store.models import BenchmarkRun, RunAttributes
from mosaico.run_store.recorded_attributes import AttributeDifference, RunRecord
from mosaico.traces.models import CollectedTrace

# The name and the value of an attribute.
Pair: TypeAlias = tuple[str, str]

_LEFT: Final = text("""
    SELECT DISTINCT wanted.name, wanted.value
    FROM unnest(CAST(:names AS text[]), CAST(:values AS text[])) AS wanted(name, value)
    JOIN (
        SELECT DISTINCT attribute.key, attribute.value
        FROM collected_traces AS trace, jsonb_each_text(trace.attributes) AS attribute
        WHERE trace.collection_id = :collection_id
    ) AS stored ON stored.key = wanted.name AND stored.value = wanted.value
""")


def read_pairs(session: Session, collection_id: int, positions: Sequence[int]) -> set[Pair]:
    """The attributes of some traces of a collection."""
    statement = select(CollectedTrace.attributes).where(
        CollectedTrace.collection_id == collection_id, CollectedTrace.position.in_(positions)
    )
    return {
        pair for attributes in session.scalars(statement) for pair in (attributes or {}).items()
    }


def forget_values(session: Session, collection_id: int, erased: Iterable[Pair]) -> None:
    """Forget the attributes of erased traces that no other trace of the collection has: in the records of its runs and of
    those compared with them. Stored comparisons of the runs are deleted, and computed again when somebody asks.
    """
    pairs = list(erased)
    wanted = {"names": [name for name, _ in pairs], "values": [value for _, value in pairs]}
    # All traces of the collection are read.
    session.execute(text("SET LOCAL statement_timeout = 0"))
    rows = session.execute(_LEFT, {"collection_id": collection_id, **wanted})
    left = {(name, value) for name, value in rows}
    forgotten = {(cut_value(name), cut_value(value)) for name, value in {*pairs} - left}
    statement = select(BenchmarkRun.seq, BenchmarkRun.id)
    runs = session.execute(statement.where(BenchmarkRun.collection_id == collection_id)).all()
    for seq, _ in runs:
        delete_comparisons_of(session, seq)
    if not forgotten:
        return
    baseline = type_coerce(RunAttributes.record, JSONB)["whatChanged"]["baselineRunId"].astext
    for batch in batched(runs):
        is_of_run = RunAttributes.run_seq.in_([seq for seq, _ in batch])
        is_compared = baseline.in_([id_ for _, id_ in batch])
        records = select(RunAttributes).where(is_of_run | is_compared)
        for stored in session.scalars(records):
            _forget_in_run(session, stored, lambda pair: pair in forgotten)


def _forget_in_run(
    session: Session, stored: RunAttributes, is_forgotten: Callable[[Pair], bool]
) -> None:
    dropped = [
        difference
        for difference in (
            stored.record.what_changed.differences if stored.record.what_changed else ()
        )
        if any(map(is_forgotten, _pairs_of(difference)))
    ]
    stored.record = _without(stored.record, dropped, is_forgotten)
    run = session.scalar(select(BenchmarkRun).where(BenchmarkRun.seq == stored.run_seq))
    if dropped and run is not None and run.verdict is not None:
        sentences = {*map(describe_difference, dropped)}
        kept = tuple(text for text in run.verdict.differences if text not in sentences)
        run.verdict = run.verdict.model_copy(update={"differences": kept})


def _without(
    record: RunRecord,
    dropped: Sequence[AttributeDifference],
    is_forgotten: Callable[[Pair], bool],
) -> RunRecord:
    values = {
        name: tuple(count for count in counts if not is_forgotten((name, count.value)))
        for name, counts in record.profile.values.items()
    }
    kept = {name: counts for name, counts in values.items() if counts}
    profile = record.profile.model_copy(update={"values": kept})
    changed = record.what_changed
    if changed is not None:
        differences = tuple(one for one in changed.differences if one not in dropped)
        changed = changed.model_copy(update={"differences": differences})
    return record.model_copy(update={"profile": profile, "what_changed": changed})


def _pairs_of(difference: AttributeDifference) -> list[Pair]:
    values = (difference.before, difference.after)
    return [(difference.name, value) for value in values if value is not None]
