"""A page of the answers of a run with their texts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from mosaico.comparison.answer_schemas import AnswerPage, AnswerSideView, RunAnswerView
from mosaico.comparison.run_answers import AnswerTrial, ItemAnswers, RunAnswers, mean_of
from mosaico.core.keyset import PageQuery, encode_cursor
from mosaico.core.offset_cursor import read_offset
from mosaico.run_store.models import BenchmarkRun
from mosaico.traces.models import CollectedTrace
from mosaico.traces.types import TraceOutcome

# The beginning and the end of a longer text explain it.
_HALF_TEXT: Final = 1_000


def page_of(session: Session, answers: RunAnswers, query: PageQuery) -> AnswerPage:
    """One page of the selected items, with the texts of their worst trials. Raises: `BadCursor`."""
    start = read_offset(query.cursor)
    end = start + query.limit
    items = answers.selected[start:end]
    now = _read_texts(session, answers.run, (item.worst(item.now) for item in items))
    worst_before = (item.worst(item.before) for item in items if item.before)
    before = _read_texts(session, answers.baseline, worst_before) if answers.baseline else {}
    return AnswerPage(
        items=[_view(item, before, now) for item in items],
        next_cursor=encode_cursor([end]) if end < len(answers.selected) else None,
        baseline_run_id=answers.baseline.id if answers.baseline else None,
        metric=answers.metric.column if answers.metric else None,
        rule=answers.rule,
        counts=answers.counts,
        failures=list(answers.failures),
        tools=list(answers.tools),
    )


def _view(
    item: ItemAnswers, before: Mapping[int, Row[Any]], now: Mapping[int, Row[Any]]
) -> RunAnswerView:
    task = now[item.worst(item.now).position]
    return RunAnswerView(
        item_id=item.item_id,
        input=task.input,
        expected_output=task.expected_output,
        expected_any=task.expected_any or [],
        expected_all=task.expected_all or [],
        is_same_task=item.is_same_task,
        before=_side(item, item.before, before) if item.before else None,
        now=_side(item, item.now, now),
        change=item.change,
        failures=item.failures,
        tools=item.tools,
    )


def _side(
    item: ItemAnswers, trials: Sequence[AnswerTrial], texts: Mapping[int, Row[Any]]
) -> AnswerSideView:
    worst = item.worst(trials)
    row = texts[worst.position]
    return AnswerSideView(
        trace_id=worst.trace_id,
        trial=worst.trial,
        outcome=TraceOutcome(worst.outcome),
        output=row.output,
        error=row.error,
        trials=[trial.value for trial in trials],
        value=mean_of(trials),
        is_right=item.is_right(trials),
    )


def _read_texts(
    session: Session, run: BenchmarkRun, trials: Iterable[AnswerTrial]
) -> dict[int, Row[Any]]:
    """The texts of some traces of a run, by position."""
    statement = select(
        CollectedTrace.position,
        _cut(CollectedTrace.input),
        _cut(CollectedTrace.expected_output),
        CollectedTrace.expected_any,
        CollectedTrace.expected_all,
        _cut(CollectedTrace.output),
        _cut(CollectedTrace.error),
    ).where(
        CollectedTrace.collection_id == run.collection_id,
        CollectedTrace.position.in_([trial.position for trial in trials]),
    )
    return {row.position: row for row in session.execute(statement)}


def _cut(column: InstrumentedAttribute[str | None]) -> Any:
    """A text, a long one without its middle: it may have megabytes."""
    cut_text = func.concat(func.left(column, _HALF_TEXT), "\n[…]\n", func.right(column, _HALF_TEXT))
    return case((func.length(column) > 2 * _HALF_TEXT, cut_text), else_=column).label(column.key)
