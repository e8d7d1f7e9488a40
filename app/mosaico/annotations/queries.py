"""Reads of annotations."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from mosaico.access.queries import list_caller_names
from mosaico.annotations.models import Annotation
from mosaico.annotations.schemas import (
    AnnotationCounts,
    AnnotationFilter,
    AnnotationView,
    AnswerJudgement,
)
from mosaico.core import keyset
from mosaico.core.errors import NotFound
from mosaico.core.keyset import ListRows, PageQuery, PageRows
from mosaico.core.list_filters import match_any, match_text, one_value, split_filters
from mosaico.core.schemas import view_of_row
from mosaico.run_store.models import BenchmarkRun, TraceResult
from mosaico.traces.models import CollectedTrace

# Of one answer or item on its page.
SHOWN_ANNOTATIONS = 50


class UnknownAnnotation(NotFound):
    """No annotation has this ID; GET /api/v1/annotations lists all annotations."""


class JudgedAnswer(NamedTuple):
    """An annotation beside the value that a metric of the run has for the same answer, None where it has none."""

    annotation: Annotation
    value: float | None


def get_annotation(session: Session, annotation_id: str) -> Annotation:
    """One annotation. Raises: `UnknownAnnotation`."""
    return UnknownAnnotation.unless(session.get(Annotation, annotation_id))


def list_annotations(
    session: Session,
    query: PageQuery,
    annotation_filter: AnnotationFilter,
    search_time_s: float = keyset.SEARCH_TIME_S,
) -> PageRows[AnnotationView]:
    """Annotations with the names of their annotators, newest first."""
    prefix, tested = split_filters(
        [
            (Annotation.run_id, annotation_filter.run_id),
            (Annotation.item_id, one_value(annotation_filter.item_id)),
            (Annotation.annotator, one_value(annotation_filter.annotator)),
            (Annotation.benchmark_id, annotation_filter.benchmark_id),
        ]
    )
    is_wrong = annotation_filter.expected_is_wrong
    rows: ListRows = ListRows(
        statement=select(Annotation),
        keys=[Annotation.created_at, Annotation.id],
        descending=True,
        prefix=prefix,
        conditions=[
            *tested,
            *match_any(
                (Annotation.trace_id, one_value(annotation_filter.trace_id)),
                (Annotation.judgement, one_value(annotation_filter.judgement)),
            ),
            *([] if is_wrong is None else [Annotation.expected_is_wrong.is_(is_wrong)]),
            *match_text(annotation_filter.text, Annotation.note, Annotation.corrected_answer),
        ],
    )
    page = rows.read_page(session, query, search_time_s)
    return page.with_rows(annotation_views(session, [row[0] for row in page.rows]))


def annotation_views(session: Session, rows: Sequence[Annotation]) -> list[AnnotationView]:
    """Annotations as the API returns them, with the names of their annotators."""
    names = list_caller_names(session, {row.annotator for row in rows})
    return [
        view_of_row(AnnotationView, row, annotator_name=names.get(row.annotator)) for row in rows
    ]


def list_shown_annotations(session: Session, **subject: str | list[str]) -> list[AnnotationView]:
    """The newest annotations of one answer or item for its page; `subject` are values of `AnnotationFilter`."""
    return list_annotations(session, PageQuery(SHOWN_ANNOTATIONS), AnnotationFilter(**subject)).rows


def find_own_annotation(
    session: Session, run_id: str, trace_id: str, annotator: str
) -> Annotation | None:
    """What somebody says of an answer; None before it is judged."""
    return session.scalar(
        select(Annotation).where(
            Annotation.run_id == run_id,
            Annotation.trace_id == trace_id,
            Annotation.annotator == annotator,
        )
    )


def read_own_judgements(
    session: Session, answers: Sequence[tuple[str, str]], annotator: str
) -> dict[tuple[str, str], AnswerJudgement]:
    """What somebody says of some answers, by their run and their trace."""
    answer = (Annotation.run_id, Annotation.trace_id)
    statement = select(*answer, Annotation.judgement).where(
        Annotation.annotator == annotator, tuple_(*answer).in_(answers)
    )
    return {(row[0], row[1]): AnswerJudgement(row[2]) for row in session.execute(statement)}


def count_annotated(session: Session, run_id: str) -> AnnotationCounts:
    """The annotated answers of a run by what all their annotators say."""
    answers = (
        select(
            func.count(Annotation.judgement.distinct()).label("different"),
            func.min(Annotation.judgement).label("judgement"),
        )
        .where(Annotation.run_id == run_id)
        .group_by(Annotation.trace_id)
        .subquery()
    )
    statement = select(answers.c.different, answers.c.judgement, func.count()).group_by(
        answers.c.different, answers.c.judgement
    )
    counts = AnnotationCounts()
    for different, judgement, count in session.execute(statement):
        name = judgement if different == 1 else "disputed"
        counts = counts.model_copy(
            update={name: getattr(counts, name) + count, "answers": counts.answers + count}
        )
    return counts


def describe_annotated(session: Session, run: BenchmarkRun) -> str:
    """How many answers of a run are annotated, and what people say of them; empty without any."""
    counts = count_annotated(session, run.id)
    if not counts.answers:
        return ""
    parts = [
        f"{count} {word}"
        for count, word in (
            (counts.right, "right"),
            (counts.partly, "partly right"),
            (counts.wrong, "wrong"),
            (counts.disputed, "disputed"),
        )
        if count
    ]
    return f"{counts.answers} of {run.traces_collected:,} annotated: {', '.join(parts)}"


def list_newest(
    session: Session, limit: int, *, run_id: str | None = None, benchmark_id: str | None = None
) -> list[Annotation]:
    """The newest annotations of a run or of a benchmark."""
    statement = select(Annotation).where(
        *match_any(
            (Annotation.run_id, one_value(run_id)),
            (Annotation.benchmark_id, one_value(benchmark_id)),
        )
    )
    newest = statement.order_by(Annotation.created_at.desc(), Annotation.id.desc())
    return list(session.scalars(newest.limit(limit)))


def list_wrong_expected(session: Session, benchmark_id: str, limit: int) -> list[Annotation]:
    """The newest annotations of a benchmark that call an expected answer wrong."""
    statement = select(Annotation).where(
        Annotation.benchmark_id == benchmark_id, Annotation.expected_is_wrong
    )
    newest = statement.order_by(Annotation.created_at.desc(), Annotation.id.desc())
    return list(session.scalars(newest.limit(limit)))


def list_of_answer(session: Session, run_id: str, trace_id: str) -> list[Annotation]:
    """What all annotators say of one answer of a run, the newest judgement first."""
    statement = select(Annotation).where(
        Annotation.run_id == run_id, Annotation.trace_id == trace_id
    )
    newest = statement.order_by(Annotation.updated_at.desc(), Annotation.id.desc())
    return list(session.scalars(newest))


def list_judged_answers(session: Session, run: BenchmarkRun, column: str) -> list[JudgedAnswer]:
    """Each annotation of the traces of a run, by whichever run over them, beside the value of a metric of the run for the
    same answer, in the order of the traces; the metric is one of `run.metric_keys`. Annotations of answers whose traces
    were deleted are left out.
    """
    # Arrays of Postgres count from 1.
    value = TraceResult.values[(run.metric_keys or []).index(column) + 1]
    # A run that is scored again has other scores of the same answers.
    same_traces = select(BenchmarkRun.id).where(BenchmarkRun.collection_id == run.collection_id)
    statement = (
        select(Annotation, value)
        .join(
            CollectedTrace,
            (CollectedTrace.collection_id == run.collection_id)
            & (CollectedTrace.trace_id == Annotation.trace_id),
        )
        .outerjoin(
            TraceResult,
            (TraceResult.run_seq == run.seq) & (TraceResult.position == CollectedTrace.position),
        )
        .where(Annotation.run_id.in_(same_traces))
        .order_by(CollectedTrace.position, Annotation.annotator)
    )
    return [JudgedAnswer(*row) for row in session.execute(statement)]
