"""The answers of a run on its page: each item with its question, the expected answer, and the answers before and now."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Query
from sqlalchemy.orm import Session

from mosaico.comparison.answer_schemas import (
    AnswerFilter,
    AnswerSideView,
    RunAnswerView,
    ShownAnswers,
)
from mosaico.comparison.answer_views import page_of
from mosaico.comparison.run_answers import (
    MAX_TRACES,
    WRONG_ANSWER,
    RunAnswers,
    find_baseline_run,
    load_answers,
)
from mosaico.core.keyset import MAX_CURSOR, PageQuery
from mosaico.core.web.page_paths import path_of
from mosaico.core.web.pages import build_url
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.rules import RunStatus
from mosaico.runs.pages.answer_marks import MarkedAnswer, mark_answer
from mosaico.runs.pages.flips import SharedError, TrialText, find_shared_error, trial_text

ROWS: Final = 20
Text = Annotated[str, Query(max_length=600)]


class TypedAnswers:
    """The filter of the answers, as it is in an address; without `show` the items that fell, otherwise the wrong ones,
    otherwise all.
    """

    def __init__(
        self,
        show: ShownAnswers | None = None,
        failure: Text = "",
        tool: Text = "",
        tag: Text = "",
        text: Annotated[str, Query(max_length=200)] = "",
    ) -> None:
        self.show = show
        self.filters = {"failure": failure, "tool": tool, "tag": tag, "text": text.strip()}

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of an address with this filter."""
        return {"show": self.show or "", **self.filters}

    def filter_of(self, show: ShownAnswers) -> AnswerFilter:
        return AnswerFilter.unchecked(show=show, **self.filters)


Typed = Annotated[TypedAnswers, Depends()]
Cursor = Annotated[str, Query(max_length=MAX_CURSOR)]


class AnswerSide(NamedTuple):
    """The answer of one run: its marks trial by trial, its value, and its text with marked words."""

    is_right: bool | None
    marks: TrialText
    trial: str
    answer: MarkedAnswer
    error: str | None
    outcome: str


class AnswerRow(NamedTuple):
    """An item with its answers; `expected` are several expected answers with what they mean."""

    item: RunAnswerView
    expected: str
    before: AnswerSide | None
    now: AnswerSide
    url: str


def load_answer_list(
    session: Session, run: BenchmarkRun, typed: TypedAnswers, cursor: str
) -> dict[str, Any]:
    """The values of the part `run_answers.html`; `answers` is None, with the reason, for a run without a list."""
    if reason := _reason_without_list(session, run):
        return {"answers": None, "no_answers": reason}
    answers = select_answers(session, run, typed)
    show = typed.show or default_show(answers)
    page = page_of(session, answers, PageQuery(ROWS, cursor or None))
    filters = {**typed.parameters, "show": show}
    return {
        "no_answers": "",
        "answers": {
            "view": page,
            "show": show,
            "filters": filters,
            "total": len(answers.selected),
            "rows": [_row(run, answers.baseline, item, filters) for item in page.items],
            "shared": _find_shared(answers),
            "query": {**filters, "limit": ROWS, "cursor": cursor},
            "loaded": answers,
        },
    }  # fmt: skip


def _find_shared(answers: RunAnswers) -> SharedError | None:
    """What failed in most items that fell; that their answers are wrong is known."""
    fallen = [item for item in answers.items if item.is_shown("fell")]
    return find_shared_error(
        [[failure for failure in item.failures if failure != WRONG_ANSWER] for item in fallen]
    )


def select_answers(session: Session, run: BenchmarkRun, typed: TypedAnswers) -> RunAnswers:
    """The answers of a run by a filter. Raises: `TooManyAnswers`."""
    baseline = find_baseline_run(session, run)
    if typed.show:
        return load_answers(session, run, baseline, typed.filter_of(typed.show))
    answers = load_answers(session, run, baseline, typed.filter_of("all"))
    return answers.narrowed(typed.filter_of(default_show(answers)))


def default_show(answers: RunAnswers) -> ShownAnswers:
    """What a reader looks for first: what fell, otherwise what is wrong."""
    if answers.counts.fell:
        return "fell"
    return "wrong" if answers.counts.wrong else "all"


def _reason_without_list(session: Session, run: BenchmarkRun) -> str:
    """Why a page has no list of answers; empty for a run that has one."""
    if run.purged_at:
        return "The traces are purged, and the answers with them."
    if run.status != RunStatus.COMPLETED or not run.traces_collected:
        return "Answers are listed when the run has ended."
    baseline = find_baseline_run(session, run)
    size = max(run.traces_collected, baseline.traces_collected if baseline else 0)
    if size > MAX_TRACES:
        return f"Items are listed by their answers in runs of up to {MAX_TRACES:,} traces."
    return ""


def _row(
    run: BenchmarkRun,
    baseline: BenchmarkRun | None,
    item: RunAnswerView,
    filters: Mapping[str, str],
) -> AnswerRow:
    references = item.expected_any or item.expected_all
    expected = references or list(filter(None, [item.expected_output]))
    separator = " / " if item.expected_any else " and "
    return AnswerRow(
        item=item,
        expected=separator.join(expected),
        before=_side(item.before, expected) if item.before else None,
        now=_side(item.now, expected),
        url=build_url(
            path_of("runs", run.id, "items"),
            {"item": item.item_id, "base": baseline.id if baseline else "", **filters},
        ),
    )


def _side(side: AnswerSideView, expected: Sequence[str]) -> AnswerSide:
    trials = len(side.trials)
    return AnswerSide(
        is_right=side.is_right,
        marks=trial_text(side.trials, side.value, has_marks=side.is_right is not None),
        trial=f"trial {side.trial + 1}" if trials > 1 else "",
        answer=mark_answer(side.output or "", expected, is_right=side.is_right),
        error=side.error,
        outcome=side.outcome,
    )
