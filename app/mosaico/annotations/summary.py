"""What annotators say of a run or a benchmark: counts, agreement, disputed answers, and wrong expected answers."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from mosaico.access.queries import list_caller_names
from mosaico.annotations.agreement import Agreement, measure_agreement
from mosaico.annotations.models import Annotation
from mosaico.annotations.queries import list_newest
from mosaico.annotations.schemas import (
    AnnotationCounts,
    AnnotationSummary,
    AnnotatorCounts,
    AnswerJudgement,
    DisputedAnswer,
    DisputedJudgement,
    SummaryScope,
    WrongExpectation,
)
from mosaico.benchmarks.queries import get_benchmark
from mosaico.comparison.child_process import run_in_child
from mosaico.core.db import Database
from mosaico.core.errors import Invalid
from mosaico.run_store.queries import get_run

MAX_SUMMARIZED: Final = 5_000
MAX_DISPUTED: Final = 200

Answers = Mapping[tuple[str, str], Sequence[Annotation]]


def summarize(db: Database, scope: SummaryScope) -> AnnotationSummary:
    """The newest annotations of a run or a benchmark; without any, everything is empty.

    Raises: `Invalid` unless exactly one of both is named, `RunNotFound`, `BenchmarkNotFound`, `ComparisonBusy`.
    """
    if (scope.run_id is None) == (scope.benchmark_id is None):
        raise Invalid("name a run (`runId`) or a benchmark (`benchmarkId`), one of both")
    with db.read() as session:
        if scope.run_id is not None:
            get_run(session, scope.run_id)
        else:
            get_benchmark(session, scope.benchmark_id or "")
        rows = list_newest(
            session, MAX_SUMMARIZED + 1, run_id=scope.run_id, benchmark_id=scope.benchmark_id
        )
        kept = rows[:MAX_SUMMARIZED]
        names = list_caller_names(session, {row.annotator for row in kept})
        # Not of the session any more: the agreement is measured without a connection.
        session.expunge_all()
    answers = group_answers(kept)
    agreement = _measure(answers)
    return AnnotationSummary(
        counts=count_answers(answers),
        annotators=_count_annotators(kept, names),
        alpha=agreement.alpha if agreement else None,
        pairs=[
            pair.model_copy(
                update={
                    "first_name": names.get(pair.first),
                    "second_name": names.get(pair.second),
                }
            )
            for pair in (agreement.pairs if agreement else ())
        ],
        disputed=_list_disputed(answers, names),
        wrong_expectations=list_wrong_expectations(kept),
        is_cut=len(rows) > MAX_SUMMARIZED,
    )


def _measure(answers: Answers) -> Agreement | None:
    """The agreement, measured in a child process; None with fewer than two annotators."""
    labels = [{row.annotator: row.judgement for row in rows} for rows in answers.values()]
    annotators = {annotator for answer in labels for annotator in answer}
    if len(annotators) <= 1:
        return None
    return run_in_child(measure_agreement, labels)


def group_answers(rows: Sequence[Annotation]) -> dict[tuple[str, str], list[Annotation]]:
    """Annotations by run and trace."""
    answers = defaultdict[tuple[str, str], list[Annotation]](list)
    for row in rows:
        answers[row.run_id, row.trace_id].append(row)
    return answers


def count_answers(answers: Answers) -> AnnotationCounts:
    """Answers by what all their annotators say."""
    counts = Counter(
        rows[0].judgement if len({row.judgement for row in rows}) == 1 else "disputed"
        for rows in answers.values()
    )
    return AnnotationCounts(answers=len(answers), **counts)


def _count_annotators(
    rows: Sequence[Annotation], names: Mapping[str, str]
) -> list[AnnotatorCounts]:
    counts = Counter((row.annotator, row.judgement) for row in rows)
    annotators = sorted(
        {row.annotator for row in rows}, key=lambda key: (names.get(key) or "", key)
    )
    return [
        AnnotatorCounts(
            annotator=annotator,
            annotator_name=names.get(annotator),
            **{judgement.value: counts[annotator, judgement] for judgement in AnswerJudgement},
        )
        for annotator in annotators
    ]


def _list_disputed(answers: Answers, names: Mapping[str, str]) -> list[DisputedAnswer]:
    """The answers on which annotators differ, in the order of their items."""
    disputed = [rows for rows in answers.values() if len({row.judgement for row in rows}) > 1]
    return [
        DisputedAnswer(
            run_id=rows[0].run_id,
            trace_id=rows[0].trace_id,
            item_id=rows[0].item_id,
            judgements=[
                DisputedJudgement(
                    annotator=row.annotator,
                    annotator_name=names.get(row.annotator),
                    judgement=AnswerJudgement(row.judgement),
                )
                for row in sorted(rows, key=lambda row: row.annotator)
            ],
        )
        for rows in sorted(disputed, key=lambda rows: (rows[0].item_id, rows[0].trace_id))
    ][:MAX_DISPUTED]


def list_wrong_expectations(rows: Sequence[Annotation]) -> list[WrongExpectation]:
    """Items whose expected answer annotators call wrong, most annotators first; `rows` are newest first."""
    items = defaultdict[str, list[Annotation]](list)
    for row in rows:
        if row.expected_is_wrong:
            items[row.item_id].append(row)
    expectations = [
        WrongExpectation(
            item_id=item_id,
            run_id=of_item[0].run_id,
            annotators=len({row.annotator for row in of_item}),
            corrected_answer=next(
                (row.corrected_answer for row in of_item if row.corrected_answer), None
            ),
        )
        for item_id, of_item in items.items()
    ]
    return sorted(expectations, key=lambda entry: (-entry.annotators, entry.item_id))
