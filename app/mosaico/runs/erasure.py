"""Erases the texts of an item or of a user, for a request of deletion; values and verdicts stay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, exists, func, select, update
from sqlalchemy.orm import Session

from mosaico.core.batch_delete import BATCH_ROWS
from mosaico.core.db import Database
from mosaico.metrics.types import MetricNote
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.traces.models import CollectedTrace, Collection, OtelSpan, TraceTranscript
from mosaico.traces.otel.service import TRACES_PER_BATCH

# The attribute of a trace that says when its texts were erased.
ERASED: Final = "erased"
USER: Final = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureSubject:
    """Whose texts are erased: those of an item, or those of the traces with an attribute `user`; one of both."""

    item_id: str | None = None
    user_id: str | None = None

    @property
    def in_traces(self) -> ColumnElement[bool]:
        if self.item_id is not None:
            return CollectedTrace.item_id == self.item_id
        user: ColumnElement[str] = CollectedTrace.attributes[USER].astext
        return user == self.user_id

    @property
    def in_spans(self) -> ColumnElement[bool]:
        if self.item_id is not None:
            return OtelSpan.item_id == self.item_id
        user: ColumnElement[str] = OtelSpan.facts[USER].astext
        return user == self.user_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedTexts:
    """The numbers of traces whose texts were erased, and of received spans that were deleted."""

    traces: int
    spans: int


def erase_texts(db: Database, subject: ErasureSubject, now: datetime) -> ErasedTexts:
    """Erase the texts of all stored traces of a subject, in uploads and in runs, with their transcripts and the reasons
    of judges, and delete its received spans. Repeating it erases nothing more.

    Each batch is a transaction of its own.
    """
    spans = _in_batches(db, lambda session: _delete_spans(session, subject))
    with db.read() as session:
        collections = list(session.scalars(select(Collection.id).order_by(Collection.id)))
    traces = 0
    for collection_id in collections:

        def erase(session: Session, collection_id: int = collection_id) -> int:
            return _erase_traces(session, collection_id, subject, now)

        traces += _in_batches(db, erase)
    return ErasedTexts(traces=traces, spans=spans)


def has_erased_texts(session: Session, collection_id: int) -> bool:
    """Return whether texts of a collection were erased since it was stored."""
    erased = exists().where(
        CollectedTrace.collection_id == collection_id,
        func.coalesce(CollectedTrace.attributes[ERASED].astext, "") != "",
    )
    return bool(session.scalar(select(erased)))


def _in_batches(db: Database, change: Callable[[Session], int]) -> int:
    """Change rows in transactions of a batch each, until none is left; returns their number."""
    total, changed = 0, -1
    while changed:
        with db.begin() as session:
            changed = change(session)
        total += changed
    return total


def _delete_spans(session: Session, subject: ErasureSubject) -> int:
    """Delete spans of the traces with a span of the subject: texts are on all spans of a trace."""
    named = select(OtelSpan.trace_id).where(subject.in_spans).distinct().limit(TRACES_PER_BATCH)
    trace_ids = list(session.scalars(named))
    if not trace_ids:
        return 0
    deleted = delete(OtelSpan).where(OtelSpan.trace_id.in_(trace_ids)).returning(OtelSpan.span_id)
    return len(session.scalars(deleted).all())


def _erase_traces(
    session: Session, collection_id: int, subject: ErasureSubject, now: datetime
) -> int:
    is_left = func.coalesce(CollectedTrace.attributes[ERASED].astext, "") == ""
    statement = (
        select(CollectedTrace.position)
        .where(CollectedTrace.collection_id == collection_id, subject.in_traces, is_left)
        .limit(BATCH_ROWS)
    )
    positions = list(session.scalars(statement))
    if not positions:
        return 0
    texts: dict[str, Any] = {
        "input": None,
        "expected_output": None,
        "output": None,
        "error": None,
        "tool_calls": None,
        "expected_any": None,
        "expected_all": None,
        "attributes": {ERASED: now.date().isoformat()},
    }
    session.execute(
        update(CollectedTrace)
        .where(
            CollectedTrace.collection_id == collection_id, CollectedTrace.position.in_(positions)
        )
        .values(texts)
    )
    session.execute(
        delete(TraceTranscript).where(
            TraceTranscript.collection_id == collection_id,
            TraceTranscript.position.in_(positions),
        )
    )
    _erase_reasons(session, collection_id, positions)
    return len(positions)


def _erase_reasons(session: Session, collection_id: int, positions: Sequence[int]) -> None:
    """Erase what judges wrote about the traces, in all runs over the collection."""
    runs = select(BenchmarkRun.seq).where(BenchmarkRun.collection_id == collection_id)
    statement = select(TraceResult).where(
        TraceResult.run_seq.in_(runs),
        TraceResult.position.in_(positions),
        TraceResult.notes.is_not(None),
    )
    for result in session.scalars(statement):
        result.notes = _without_reasons(result.notes or {})


def _without_reasons(notes: dict[str, MetricNote]) -> dict[str, MetricNote] | None:
    kept = {metric: _without_texts(note) for metric, note in notes.items()}
    return {metric: note for metric, note in kept.items() if note} or None


def _without_texts(note: MetricNote) -> MetricNote:
    """Why a value is missing, without the words of a judge or of an error."""
    kept: MetricNote = {}
    if "skipped" in note:
        kept["skipped"] = note["skipped"]
    if "failed" in note:
        kept["failed"] = note["failed"]
    return kept
