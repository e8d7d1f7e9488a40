"""Writes of annotations."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import get_annotation
from mosaico.annotations.schemas import AnnotationCreate
from mosaico.core.batch_delete import BATCH_ROWS
from mosaico.core.errors import Forbidden
from mosaico.core.ids import new_id
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.queries import get_run_with_traces, get_trace
from mosaico.traces.models import CollectedTrace


class NotYourAnnotation(Forbidden):
    """Somebody else judged this answer; its annotator or an administrator can delete the annotation."""


def save_annotation(
    session: Session, run_id: str, body: AnnotationCreate, annotator: str, now: datetime
) -> Annotation:
    """Store what somebody says of an answer, in place of what the same annotator said before.

    Raises: `RunNotFound`, `RunPurged`, `TraceNotFound`.
    """
    run = get_run_with_traces(session, run_id)
    trace = get_trace(session, run, body.trace_id).trace
    # What was sent, as it was checked.
    said = {
        **body.model_dump(by_alias=False, exclude={"trace_id"}),
        "judgement": body.judgement.value,
        "updated_at": now,
    }
    row = insert(Annotation).values(
        id=new_id(),
        benchmark_id=run.benchmark_id,
        run_id=run.id,
        trace_id=trace.trace_id,
        item_id=trace.item_id,
        annotator=annotator,
        created_at=now,
        **said,
    )
    # Two requests of one annotator at the same time: the last one stays.
    saved = row.on_conflict_do_update(
        index_elements=["run_id", "trace_id", "annotator"], set_=said
    ).returning(Annotation)
    return session.scalars(saved, execution_options={"populate_existing": True}).one()


def delete_annotation(session: Session, annotation_id: str, caller_id: str, role: str) -> None:
    """Delete an annotation for good. Raises: `UnknownAnnotation`, `NotYourAnnotation`."""
    annotation = get_annotation(session, annotation_id)
    if not may_delete(annotation.annotator, caller_id, role):
        raise NotYourAnnotation
    session.delete(annotation)
    session.flush()


def may_delete(annotator: str, caller_id: str, role: str) -> bool:
    """An annotation belongs to its annotator; administrators delete any."""
    return role == "admin" or (role == "run" and annotator == caller_id)


def remove_texts(session: Session, collection_id: int, positions: Sequence[int]) -> None:
    """Remove the notes and corrected answers about traces of a collection, in all runs over it; judgements stay."""
    runs = select(BenchmarkRun.id).where(BenchmarkRun.collection_id == collection_id)
    traces = select(CollectedTrace.trace_id).where(
        CollectedTrace.collection_id == collection_id, CollectedTrace.position.in_(positions)
    )
    session.execute(
        update(Annotation)
        .where(Annotation.run_id.in_(runs), Annotation.trace_id.in_(traces))
        .values(note=None, corrected_answer=None)
    )


def remove_texts_of_run(session: Session, run_id: str) -> int:
    """Remove the texts of a batch of the annotations of a run whose traces are deleted; returns its size."""
    has_text = Annotation.note.is_not(None) | Annotation.corrected_answer.is_not(None)
    batch = select(Annotation.id).where(Annotation.run_id == run_id, has_text).limit(BATCH_ROWS)
    removed = update(Annotation).where(Annotation.id.in_(batch))
    statement = removed.values(note=None, corrected_answer=None).returning(Annotation.id)
    return len(session.scalars(statement).all())
