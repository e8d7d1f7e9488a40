"""Gate results as text, JSON, JUnit XML for CI servers and Markdown for pull requests; pure."""

from collections.abc import Iterator
from typing import Any

from mosaico.comparison.change_text import ChangeText, describe_change
from mosaico.comparison.deciders import with_meaning
from mosaico.comparison.judge_text import moved_scores
from mosaico.comparison.question_text import broken_tasks
from mosaico.core.reports import (
    JUnitCase,
    JUnitProblem,
    folded_lines,
    junit_xml,
    markdown_table,
    markdown_text,
)
from mosaico.core.text import count_noun
from mosaico.gating.rules import GateCheck, GateOutcome, GateResult
from mosaico.kpis.verdict_types import ValueVerdict

# In the order of a summary: what needs attention comes first.
_MARKS = {
    GateOutcome.REGRESSION: "❌",
    GateOutcome.INVALID: "🚫",
    GateOutcome.NOT_MEASURED: "🚫",
    GateOutcome.CHANGED: "❗",
    GateOutcome.INCONCLUSIVE: "❔",
    GateOutcome.PASS: "✅",
}
CHECK_TITLES = ("check", "outcome", "requirement", "baseline", "candidate", "change")
_SUMMARY_TITLES = ("outcome", "check", "baseline", "candidate", "change", "95 % CI", "required")
_FIGURE_SUMMARY_TITLES = ("metric", "baseline", "candidate", "change", "95 % CI")
FIGURE_TITLES = ("for information", "baseline", "candidate", "change")
_NUMBERS = (
    "items", "baselineValue", "value", "effect", "low", "high", "p", "pAdjusted", "lowAdjusted",
    "highAdjusted",
)  # fmt: skip
PASSES_INCONCLUSIVE = (
    "The gate passes: a change for the worse beyond the limit is neither proved nor ruled out. "
    "With --inconclusive fail the exit code is 4."
)


def headline(result: GateResult) -> str:
    """The outcome in one line."""
    against = f" against {result.baseline}" if result.baseline else ""
    broken = (broken_tasks(check.verdict.changed_tasks) for check in result.checks if check.verdict)
    tasks = next(filter(None, broken), "")
    return f"{result.outcome}: {result.candidate}{against}{f'; {tasks}' if tasks else ''}"


def sentences(result: GateResult) -> Iterator[str]:
    """Return the meaning of the outcome, one line for each check, without its numbers."""
    if result.reason:
        yield _sentence(result.reason)
    for check in result.checks:
        yield f"{with_meaning(check.name)}: {check.reason}."
        if check.verdict and (moved := moved_scores(check.verdict)):
            yield f"{check.name}: {moved}."
    yield from _describe_items(result)
    if result.passes_inconclusive:
        yield PASSES_INCONCLUSIVE
    yield from result.remarks
    yield from map(_sentence, result.ruler)
    if result.choice:
        yield _sentence(result.choice)


def _describe_items(result: GateResult) -> Iterator[str]:
    """How many items were compared, by each check that compared fewer, and what else differs between the runs."""
    if result.items is None or not result.checks:
        return
    counts = [
        f"{check.name} {check.verdict.items}"
        for check in result.checks
        if check.verdict and check.verdict.items not in (None, result.items)
    ]
    fewer = f", {', '.join(counts)} of them" if counts else ""
    yield f"{count_noun(result.items, 'item')} compared{fewer}."
    if missing := [text for text in result.differences if text not in result.ruler]:
        yield f"Differences from the baseline: {'; '.join(missing)}."


def check_rows(result: GateResult) -> list[list[str]]:
    """The table of the checks, with `CHECK_TITLES`."""
    return [
        [check.name, str(check.outcome), check.requirement, *_change_cells(check.verdict)]
        for check in result.checks
    ]


def figure_rows(result: GateResult) -> list[list[str]]:
    """The table of what is shown for information, with `FIGURE_TITLES`."""
    return [[figure.name, *_change_cells(figure.verdict)] for figure in result.figures]


def gate_json(result: GateResult) -> dict[str, Any]:
    """The gate result as a JSON document."""
    return {
        "outcome": result.outcome,
        "exitCode": result.exit_code,
        "candidate": result.candidate,
        "page": result.page,
        "comparisonPage": result.comparison_page,
        "baseline": result.baseline,
        "baselineRunIds": list(result.baselines),
        "reason": result.reason,
        "choice": result.choice,
        "differences": list(result.differences),
        "remarks": list(result.remarks),
        "measuredDifferently": list(result.ruler),
        "items": result.items,
        "checks": [
            {
                "name": check.name,
                "requirement": check.requirement,
                "outcome": check.outcome,
                **_numbers(check.verdict),
                "explanation": check.reason,
            }
            for check in result.checks
        ],
        "information": [
            {"name": figure.name, **_numbers(figure.verdict)} for figure in result.figures
        ],
    }


def gate_junit(result: GateResult) -> str:
    """A test suite with one test case per check: a regression is a failure, an invalid run an error,
    an inconclusive check is skipped, or a failure when the gate does not let it pass.
    """
    checks = result.checks or [_run_check(result)]
    cases = [_test_case(result, check) for check in checks]
    return junit_xml(f"mosaico gate {result.candidate}", cases)


def gate_markdown(result: GateResult) -> str:
    """A summary for a pull request: the outcome and one table row for each check, worst first. What
    the numbers mean, and what was not judged, is folded.
    """
    lines = [f"### {_MARKS[result.outcome]} {markdown_text(headline(result))}"]
    if result.reason:
        lines += ["", markdown_text(_sentence(result.reason))]
    if result.checks:
        lines += ["", *markdown_table(_SUMMARY_TITLES, _summary_rows(result))]
    if result.passes_inconclusive:
        lines += ["", markdown_text(PASSES_INCONCLUSIVE)]
    lines += _links(result)
    lines += folded_lines(
        "Explanation", [f"- {markdown_text(text)}" for text in _explanations(result)]
    )
    rows = (
        [markdown_text(figure.name), *_summary_cells(figure.verdict)] for figure in result.figures
    )
    if result.figures:
        table = markdown_table(_FIGURE_SUMMARY_TITLES, rows)
        lines += folded_lines("For information, not judged", table)
    return "\n".join(lines) + "\n"


def _links(result: GateResult) -> Iterator[str]:
    """The pages of the service with the answers behind the table, and the IDs of the runs; none for files."""
    if result.comparison_page:
        runs = [
            f"candidate `{result.candidate}`",
            *(f"baseline `{run}`" for run in result.baselines),
        ]
        yield ""
        yield f"Page of the comparison: <{result.comparison_page}> ({', '.join(runs)})"
    if result.page:
        yield ""
        yield f"Page of the run: <{result.page}>"


def _summary_rows(result: GateResult) -> Iterator[list[str]]:
    priority = list(_MARKS)
    for check in sorted(result.checks, key=lambda check: priority.index(check.outcome)):
        before, after, delta, bounds = _summary_cells(
            check.verdict, is_adjusted=not check.is_non_inferiority
        )
        change = f"**{delta}**" if delta and check.outcome is not GateOutcome.PASS else delta
        yield [
            f"{_MARKS[check.outcome]} {check.outcome}",
            markdown_text(check.name),
            *(before, after, change, bounds),
            markdown_text(check.requirement),
        ]


def _summary_cells(verdict: ValueVerdict | None, *, is_adjusted: bool = True) -> list[str]:
    """Baseline, candidate, change, and the interval that decides."""
    text = _change_text(verdict)
    if text is None:
        return [""] * 4
    bounds = text.adjusted_bounds if is_adjusted else text.bounds
    return [*map(markdown_text, (text.before, text.after, text.delta, bounds))]


def _explanations(result: GateResult) -> Iterator[str]:
    for check in result.checks:
        text = _change_text(check.verdict)
        numbers = f"{text.values}, {text.change}; " if text else ""
        yield f"{with_meaning(check.name)}: {numbers}{check.reason}."
    yield from result.remarks
    if result.choice:
        yield _sentence(result.choice)
    yield from map(_sentence, result.ruler)
    if result.differences:
        yield f"Differences from the baseline: {'; '.join(result.differences)}."


def _change_cells(verdict: ValueVerdict | None) -> list[str]:
    text = _change_text(verdict)
    return ["", "", ""] if text is None else [text.before, text.after, text.change]


def _change_text(verdict: ValueVerdict | None) -> ChangeText | None:
    return None if verdict is None else describe_change(verdict, verdict.scale)


def _numbers(verdict: ValueVerdict | None) -> dict[str, float | None]:
    """The numbers of a verdict under their names in the API, all null without a comparison."""
    compared = verdict if verdict is not None and verdict.effect is not None else None
    document = {} if compared is None else compared.model_dump(by_alias=True)
    return {name: document.get(name) for name in _NUMBERS}


def _run_check(result: GateResult) -> GateCheck:
    """The single check of a gate whose run could not be compared."""
    return GateCheck(
        name="run", requirement="compared", outcome=result.outcome, reason=result.reason or ""
    )


def _test_case(result: GateResult, check: GateCheck) -> JUnitCase:
    problems: dict[GateOutcome, JUnitProblem] = {
        GateOutcome.REGRESSION: "failure",
        GateOutcome.INVALID: "error",
        GateOutcome.NOT_MEASURED: "error",
        GateOutcome.CHANGED: "failure",
        GateOutcome.INCONCLUSIVE: "skipped" if result.inconclusive_passes else "failure",
    }
    text = _change_text(check.verdict)
    numbers = f"{text.values}, {text.change}: " if text else ""
    link = result.comparison_page or result.page
    page = f". Page: {link}" if link else ""
    return JUnitCase(
        classname=f"mosaico.{result.candidate}",
        name=f"{check.name}: {check.requirement}",
        problem=problems.get(check.outcome),
        message=f"{numbers}{check.reason}{page}",
    )


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}".rstrip(".") + "."
