"""Reports of a comparison of runs, and of a replay with its recorded run."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from mosaico.core.console.terminal import escape_line
from mosaico.core.text import count_noun, format_decimal
from mosaico.harness.bash.compare import (
    ComparedCategory,
    ComparedEval,
    ComparedPair,
    ComparedTask,
    EvalComparison,
)
from mosaico.harness.bash.replay import AgreementCount, ChangedCheck, ReplayedRun
from mosaico.harness.bash.summary import TaskTrials, TrialSummary, summarize
from mosaico.harness.reports.text import table_lines, titled_table
from mosaico.harness.reports.view import (
    UNKNOWN,
    ReportTable,
    format_percent,
    format_points,
    format_seconds,
)

ALPHABET: Final = 26


class ComparisonRow(NamedTuple):
    """A row of a comparison table: its name, the figure of a run, and what it measures."""

    name: str
    read: Callable[[ComparedEval], str]
    meaning: str = ""


# The baseline table of spec 013: one column per model.
BASELINE_ROWS: Final = (
    ComparisonRow(
        "Tasks passed", lambda run: f"{run.summary.total_passed}/{run.summary.tasks_scored}"
    ),
    ComparisonRow(
        "Score",
        lambda run: (
            f"{format_points(run.summary.total_score)}/{format_points(run.summary.total_max_score)}"
            f" ({format_percent(run.summary.overall_rate)})"
        ),
    ),
    ComparisonRow(
        "Tool calls ok/error",
        lambda run: f"{run.summary.tool_calls_ok}/{run.summary.tool_calls_error}",
    ),
    ComparisonRow(
        "Tool call success",
        lambda run: format_percent(
            run.summary.tool_call_success_rate if run.summary.total_tool_calls else None
        ),
    ),
    ComparisonRow("Avg turns/task", lambda run: f"{run.summary.avg_turns_per_task:.1f}"),
    ComparisonRow(
        "Tokens input/output",
        lambda run: f"{run.summary.total_input_tokens}/{run.summary.total_output_tokens}",
    ),
    ComparisonRow("Duration", lambda run: format_seconds(run.summary.total_duration_ms)),
)
DIAGNOSIS_ROWS: Final = (
    ComparisonRow(
        "Pass rate",
        lambda run: format_percent(run.pass_rate),
        "how well the model uses bash",
    ),
    ComparisonRow(
        "Natural stops",
        lambda run: format_percent(run.summary.natural_stop_rate),
        "how rarely a limit ended the task",
    ),
    ComparisonRow(
        "Tokens per task all pass",
        lambda run: _rounded(run.tokens_where_all_pass),
        "the price of the same result",
    ),
    ComparisonRow(
        "Turns per task all pass",
        lambda run: _rounded(run.turns_where_all_pass, 1),
        "how well the model plans",
    ),
)


def comparison_report(comparison: EvalComparison) -> str:
    """The comparison as plain text for a terminal."""
    lines = [f"{count_noun(len(comparison.tasks), 'task')} with the same content in every run"]
    for table in comparison_tables(comparison):
        lines += ["", *table_lines(table)]
    return "\n".join(lines) + "\n"


def comparison_markdown(comparison: EvalComparison) -> str:
    """The comparison as Markdown, with the same tables."""
    lines = [
        "# Comparison of bash evaluations",
        "",
        f"{count_noun(len(comparison.tasks), 'task')} with the same content in every run.",
        "",
    ]
    for table in comparison_tables(comparison):
        lines += titled_table(table)
    return "\n".join(lines) + "\n"


def comparison_tables(comparison: EvalComparison) -> list[ReportTable]:
    """The runs, the baseline and diagnosis tables, pairs with CI and test, categories and tasks."""
    letters = [run_letter(index) for index in range(len(comparison.runs))]
    failed = [task for task in comparison.tasks if task.is_failed_by_all]
    differing = [task for task in comparison.tasks if task.is_different]
    return [
        ReportTable("Runs", ("Run", "Model", "Date", "Tasks excluded"), _run_rows(comparison)),
        ReportTable(
            "Baseline",
            ("", *letters),
            [
                (_row_name(row, comparison), *map(row.read, comparison.runs))
                for row in BASELINE_ROWS
            ],
        ),
        ReportTable(
            "Diagnosis",
            ("", *letters, "Meaning"),
            [(row.name, *map(row.read, comparison.runs), row.meaning) for row in DIAGNOSIS_ROWS],
        ),
        ReportTable(
            "Pairs: difference of pass rates, paired t test, Holm adjustment",
            (
                "Pair",
                "Points",
                "95 % CI",
                "Better in first",
                "Better in second",
                "p",
                "adjusted p",
            ),
            [_pair_row(pair) for pair in comparison.pairs],
        ),
        *_trial_tables(comparison, letters),
        ReportTable(
            "By category: overall rate (passed/attempts), largest difference first",
            ("Category", *letters),
            [_category_row(category) for category in comparison.categories],
        ),
        ReportTable(
            f"Fails for all models: {len(failed) or 'none'}",
            ("Task", "Category", "Remark"),
            [(task.task_id, task.category, _remark(task)) for task in failed],
        ),
        ReportTable(
            f"Tasks in which the models differ: {len(differing) or 'none'}",
            ("Task", "Category", *letters),
            [(task.task_id, task.category, *map(_passes, task.trials)) for task in differing],
        ),
    ]


def _row_name(row: ComparisonRow, comparison: EvalComparison) -> str:
    """The name of a baseline row: with repeated trials, attempts are counted and not tasks."""
    is_repeated = any(run.trials is not None for run in comparison.runs)
    return row.name.replace("Tasks passed", "Attempts passed") if is_repeated else row.name


def _trial_tables(comparison: EvalComparison, letters: Sequence[str]) -> list[ReportTable]:
    """pass@k and pass^k of each run, and the flaky tasks; no table without repeated trials."""
    summaries = [run.trials for run in comparison.runs]
    if not any(summaries):
        return []
    most = max(len(summary.passes) for summary in summaries if summary is not None)
    flaky = [task for task in comparison.tasks if task.is_flaky]
    return [
        ReportTable(
            "Repeated trials: pass@k / pass^k",
            ("k", *letters),
            [(str(k), *(_passes_of_k(run, k) for run in summaries)) for k in range(1, most + 1)],
        ),
        ReportTable(
            f"Flaky tasks: {len(flaky) or 'none'}",
            ("Task", "Category", *letters),
            [(task.task_id, task.category, *map(_passes, task.trials)) for task in flaky],
        ),
    ]


def _passes_of_k(trials: TrialSummary | None, k: int) -> str:
    """Both statistics; unknown when the run has fewer trials of every task."""
    row = next((row for row in trials.passes if row.k == k), None) if trials else None
    if row is None:
        return UNKNOWN
    return f"{format_percent(row.pass_at_k)} / {format_percent(row.pass_hat_k)}"


def _passes(trials: TaskTrials) -> str:
    """`pass` or `FAIL`; with repeated trials, how many of them passed."""
    if trials.trials > 1:
        return f"{trials.passed}/{trials.trials}"
    return "pass" if trials.passed else "FAIL"


def agreement_report(replayed: ReplayedRun) -> str:
    """The figures of the replay, the shares that agree, and each check that changed."""
    return "\n".join(_agreement_lines(replayed)) + "\n"


def run_letter(index: int) -> str:
    """A, B, C …; numbers after Z."""
    return chr(ord("A") + index) if index < ALPHABET else str(index + 1)


def _run_rows(comparison: EvalComparison) -> list[tuple[str, ...]]:
    return [
        (run_letter(index), run.title, run.timestamp, str(run.excluded_tasks))
        for index, run in enumerate(comparison.runs)
    ]


def _pair_row(pair: ComparedPair) -> tuple[str, ...]:
    paired = pair.result
    return (
        f"{run_letter(pair.second)} - {run_letter(pair.first)}",
        _points(paired.difference),
        f"{_points(paired.interval.low)} to {_points(paired.interval.high)}",
        str(paired.only_first),
        str(paired.only_second),
        f"{paired.p:.3f}",
        f"{pair.p_adjusted:.3f}",
    )


def _points(difference: float) -> str:
    """A difference of two rates in percentage points."""
    return format_decimal(100 * difference, "+.1f")


def _category_row(category: ComparedCategory) -> tuple[str, ...]:
    cells = zip(category.rates, category.passed, category.attempts, strict=True)
    return (
        category.name,
        *(f"{format_percent(rate)} ({passed}/{attempts})" for rate, passed, attempts in cells),
    )


def _remark(task: ComparedTask) -> str:
    return f"{task.diagnosis}: {task.error}" if task.error else ""


def _agreement_lines(replayed: ReplayedRun) -> Iterable[str]:
    summary = summarize(replayed.report)
    yield (
        f"replayed: {summary.total_passed}/{summary.total_tasks} tasks passed,"
        f" {format_points(summary.total_score)}/{format_points(summary.total_max_score)} points,"
        f" {summary.tool_calls_ok} calls ok, {summary.tool_calls_error} error"
    )
    agreement = replayed.agreement
    yield f"tasks that agree       {_share_text(agreement.tasks)}"
    yield f"checks that agree      {_share_text(agreement.checks)}"
    yield f"exit codes that agree  {_share_text(agreement.exit_codes)}"
    yield from map(_changed_line, agreement.changed)


def _share_text(count: AgreementCount) -> str:
    rate = count.same / count.total if count.total else None
    return f"{count.same}/{count.total} ({format_percent(rate)})"


def _changed_line(check: ChangedCheck) -> str:
    words = {True: "pass", False: "fail"}
    change = f"{words[check.recorded.passed]} -> {words[check.replayed.passed]}"
    note = " (unstable, not counted)" if check.is_unstable else ""
    return f"  {escape_line(check.task_id)} {escape_line(check.recorded.check)}: {change}{note}"


def _rounded(number: float | None, decimals: int = 0) -> str:
    return UNKNOWN if number is None else f"{number:.{decimals}f}"
