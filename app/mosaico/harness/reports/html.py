"""One HTML page of a run, or of two runs side by side; it contains no script and loads nothing.

Attempts are filtered by their result and their group with style rules alone: a browser without
`:has()` shows all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from mosaico.core.reports import html_page, html_table
from mosaico.core.text import html_text
from mosaico.harness.reports.transcript import transcript_html
from mosaico.harness.reports.view import AttemptView, ReportTable, RunReportView

_STYLE: Final = """
.filters { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1rem }
.pair > * { min-width: 0 }
"""
_DIFFERENT: Final = "different result"


class _Row(NamedTuple):
    """One row of the page: the attempts of one case, one per run; None where absent."""

    group: str
    attempts: tuple[AttemptView | None, ...]

    def labels(self) -> list[str]:
        return [attempt.label if attempt else "absent" for attempt in self.attempts]

    def results(self) -> set[str]:
        """The results by which the row is found."""
        labels = {label for label in self.labels() if label != "absent"}
        return labels | ({_DIFFERENT} if len(set(self.labels())) > 1 else set())


def html_report(view: RunReportView, other: RunReportView | None = None) -> str:
    """The figures, the tables and plots, then one collapsed section per attempt.

    With `other`, the attempts at the same task are shown side by side.
    """
    views = [view] if other is None else [view, other]
    rows = _rows(views)
    results = sorted({result for row in rows for result in row.results()})
    groups = sorted({row.group for row in rows})
    return html_page(
        " and ".join(view.title for view in views),
        [
            *(f"<p>{html_text(_subtitle(view))}{_link(view)}</p>" for view in views),
            *_overview(views),
            "<h2>Attempts</h2>",
            *_filter("Result", "r", results),
            *_filter("Group", "g", groups),
            *(line for row in rows for line in _row(row, results, groups)),
        ],
        style=_STYLE + _filter_rules("r", results) + _filter_rules("g", groups),
    )


def _subtitle(view: RunReportView) -> str:
    return ", ".join(filter(None, (view.title, view.timestamp, view.note)))


def _link(view: RunReportView) -> str:
    return f' · <a href="{html_text(view.page)}">page of the run</a>' if view.page else ""


def _overview(views: Sequence[RunReportView]) -> Iterator[str]:
    """The figures of every run; the tables and plots of a single one."""
    if len(views) > 1:
        names = list(dict.fromkeys(figure.name for view in views for figure in view.figures))
        figures = [{figure.name: figure.text for figure in view.figures} for view in views]
        rows = [[name, *(texts.get(name, "") for texts in figures)] for name in names]
        yield html_table(["", *(view.title for view in views)], rows)
        return
    view = views[0]
    yield html_table((), view.figures)
    overview = [view.overview] if view.overview is not None else []
    for table in (*overview, *view.tables):
        yield from _table(table)
    yield from view.plots


def _rows(views: Sequence[RunReportView]) -> list[_Row]:
    """The cases of all runs in the order of the first one; repeated cases are matched in order."""
    cases = dict.fromkeys(
        (attempt.group, attempt.case) for view in views for attempt in view.attempts
    )
    by_case: list[dict[tuple[str, str], list[AttemptView]]] = []
    for view in views:
        attempts: dict[tuple[str, str], list[AttemptView]] = {}
        for attempt in view.attempts:
            attempts.setdefault((attempt.group, attempt.case), []).append(attempt)
        by_case.append(attempts)
    return [
        _Row(case[0], attempts)
        for case in cases
        for attempts in zip_longest(*(attempts.get(case, []) for attempts in by_case))
    ]


def _filter(title: str, name: str, choices: Sequence[str]) -> Iterator[str]:
    """Radio buttons; nothing when there is no choice."""
    if len(choices) < 2:  # noqa: PLR2004 - one choice filters nothing
        return
    yield f'<div class="filters"><b>{title}</b>'
    yield f'<label><input type="radio" name="{name}" checked> all</label>'
    for index, choice in enumerate(choices):
        yield (
            f'<label><input type="radio" name="{name}" id="{name}{index}">'
            f" {html_text(choice)}</label>"
        )
    yield "</div>"


def _filter_rules(name: str, choices: Sequence[str]) -> str:
    return "".join(
        f"body:has(#{name}{index}:checked) .attempt:not(.{name}{index}) {{ display: none }}\n"
        for index in range(len(choices))
    )


def _row(row: _Row, results: Sequence[str], groups: Sequence[str]) -> Iterator[str]:
    classes = [f"r{results.index(result)}" for result in sorted(row.results())]
    classes.append(f"g{groups.index(row.group)}")
    labels = "".join(
        f'<b class="{html_text(label)}">{html_text(label)}</b> ' for label in row.labels()
    )
    first_attempt = next(attempt for attempt in row.attempts if attempt is not None)
    points = " / ".join(attempt.points for attempt in row.attempts if attempt and attempt.points)
    yield (
        f'<details class="attempt {" ".join(classes)}"><summary>{labels}{html_text(first_attempt.title)}'
        f" {html_text(points)}</summary>"
    )
    if len(row.attempts) == 1:
        yield from _attempt(first_attempt)
    else:
        yield '<div class="pair">'
        for attempt in row.attempts:
            absent = ["<p>not in this run</p>"]
            yield from ("<div>", *(_attempt(attempt) if attempt else absent), "</div>")
        yield "</div>"
    yield "</details>"


def _attempt(attempt: AttemptView) -> Iterable[str]:
    for text in (attempt.description, attempt.facts, attempt.reason):
        if text:
            yield f"<p>{html_text(text)}</p>"
    if attempt.checks is not None and attempt.checks.rows:
        yield html_table(attempt.checks.columns, attempt.checks.rows)
    if attempt.transcript is not None:
        yield from transcript_html(attempt.transcript)


def _table(table: ReportTable) -> Iterable[str]:
    yield f"<h2>{html_text(table.title)}</h2>"
    if table.rows:
        yield html_table(table.columns, table.rows)
