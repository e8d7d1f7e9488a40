"""Plain-text reports of a comparison of runs, and of a replay with its recorded run."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from app.core.console.terminal import escape_line
from app.harness.bash.compare import ComparedEval, ComparedPair, EvalComparison, TaskDiagnosis
from app.harness.bash.replay import AgreementCount, ChangedCheck, ReplayedRun
from app.harness.bash.summary import summarize
from app.harness.reports.formatting import UNKNOWN, format_percent, format_points

ALPHABET: Final = 26


class DiagnosisRow(NamedTuple):
    """A row of the diagnosis table: its name, the figure of a run, and what it measures."""

    name: str
    read: Callable[[ComparedEval], str]
    meaning: str


ROWS: Final = (
    DiagnosisRow(
        "Pass rate",
        lambda run: format_percent(run.summary.pass_rate),
        "how well the model uses bash",
    ),
    DiagnosisRow(
        "Overall rate",
        lambda run: format_percent(run.summary.overall_rate),
        "the same, with partial credit",
    ),
    DiagnosisRow(
        "Tool call success",
        lambda run: format_percent(run.summary.tool_call_success_rate),
        "whether the model or the sandbox causes failures",
    ),
    DiagnosisRow(
        "Natural stops",
        lambda run: format_percent(run.summary.natural_stop_rate),
        "how rarely a limit ended the task",
    ),
    DiagnosisRow(
        "Tokens per task all pass",
        lambda run: _rounded(run.tokens_where_all_pass),
        "the price of the same result",
    ),
    DiagnosisRow(
        "Turns per task all pass",
        lambda run: _rounded(run.turns_where_all_pass, 1),
        "how well the model plans",
    ),
)


def comparison_report(comparison: EvalComparison) -> str:
    """The runs, the diagnosis table, pairs with CI and test, categories, and differing tasks."""
    return "\n".join(_comparison_lines(comparison)) + "\n"


def agreement_report(replayed: ReplayedRun) -> str:
    """The figures of the replay, the shares that agree, and each check that changed."""
    return "\n".join(_agreement_lines(replayed)) + "\n"


def run_letter(index: int) -> str:
    """A, B, C …; numbers after Z."""
    return chr(ord("A") + index) if index < ALPHABET else str(index + 1)


def _comparison_lines(comparison: EvalComparison) -> Iterable[str]:
    yield f"{len(comparison.tasks)} tasks with the same content in every run"
    for index, run in enumerate(comparison.runs):
        excluded = f", {run.excluded_tasks} tasks excluded" if run.excluded_tasks else ""
        title, timestamp = escape_line(run.title), escape_line(run.timestamp)
        yield f"  {run_letter(index)}  {title}, {timestamp}{excluded}"
    yield ""
    letters = "".join(f"{run_letter(index):>12}" for index in range(len(comparison.runs)))
    yield f"{'':<26}{letters}"
    for row in ROWS:
        figures = "".join(f"{row.read(run):>12}" for run in comparison.runs)
        yield f"{row.name:<26}{figures}  {row.meaning}"
    yield ""
    yield "Pairs (difference of pass rates, 95 % CI, McNemar test)"
    yield from map(_pair_line, comparison.pairs)
    yield ""
    yield "Overall rate by category, largest difference first"
    for category in comparison.categories:
        rates = "".join(f"{format_percent(rate):>12}" for rate in category.rates)
        yield f"  {escape_line(category.name):<24}{rates}"
    yield ""
    yield "Tasks that not every run passed"
    for task in comparison.tasks:
        if task.diagnosis is not TaskDiagnosis.ALL_PASS:
            marks = "".join(f"{'pass' if passed else 'FAIL':>6}" for passed in task.passed)
            error = f": {escape_line(task.error)}" if task.error else ""
            yield f"  {escape_line(task.task_id):<32}{marks}  {task.diagnosis}{error}"


def _pair_line(pair: ComparedPair) -> str:
    paired = pair.result
    first, second = run_letter(pair.first), run_letter(pair.second)
    low, high = 100 * paired.interval.low, 100 * paired.interval.high
    return (
        f"  {second} - {first}: {100 * paired.difference:+.1f} points"
        f" (95 % CI {low:+.1f} to {high:+.1f}); only {first} {paired.only_first},"
        f" only {second} {paired.only_second};"
        f" p = {paired.test.mid_p:.3f} (mid-p), {paired.test.exact:.3f} (exact)"
    )


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
