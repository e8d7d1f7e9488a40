"""Several runs side by side, as plain lines."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from app.core.console.terminal import escape_line
from app.harness.bash.compare import ComparedPair, ComparedRun, Comparison, Diagnosis
from app.harness.bash.reports.figures import percent


class Row(NamedTuple):
    """A line of the diagnosis table: its name, the figure of a run, what it tells."""

    name: str
    read: Callable[[ComparedRun], str]
    tells: str


ROWS: Final = (
    Row(
        "Pass rate",
        lambda run: percent(run.summary.pass_rate),
        "how well the model uses a bash",
    ),
    Row(
        "Overall rate",
        lambda run: percent(run.summary.overall_rate),
        "the same with partly met tasks",
    ),
    Row(
        "Tool call success",
        lambda run: percent(run.summary.tool_call_success_rate),
        "whether failures are the model's or the sandbox's",
    ),
    Row(
        "Natural stops",
        lambda run: percent(run.summary.natural_stop_rate),
        "how often a limit ended the task",
    ),
    Row(
        "Tokens per task all pass",
        lambda run: _rounded(run.tokens_where_all_pass),
        "what the same result costs",
    ),
    Row(
        "Turns per task all pass",
        lambda run: _rounded(run.turns_where_all_pass, 1),
        "how well the model plans",
    ),
)


def comparison_report(found: Comparison) -> str:
    """Legend, diagnosis table, pairs with interval and test, categories, tasks that tell."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterable[str]:
    yield f"{len(found.tasks)} tasks with the same content in every run"
    for place, run in enumerate(found.runs):
        left_out = f", {run.left_out} tasks left out" if run.left_out else ""
        yield f"  {letter(place)}  {escape_line(run.title)}, {escape_line(run.timestamp)}{left_out}"
    yield ""
    heads = "".join(f"{letter(place):>12}" for place in range(len(found.runs)))
    yield f"{'':<26}{heads}"
    for row in ROWS:
        figures = "".join(f"{row.read(run):>12}" for run in found.runs)
        yield f"{row.name:<26}{figures}  {row.tells}"
    yield ""
    yield "Pairs (difference of pass rates, 95 % interval, McNemar)"
    yield from map(_pair, found.pairs)
    yield ""
    yield "Categories by how far they set the runs apart (overall rate)"
    for category in found.categories:
        rates = "".join(f"{percent(rate):>12}" for rate in category.rates)
        yield f"  {escape_line(category.name):<24}{rates}"
    yield ""
    yield "Tasks that not every run passed"
    for task in found.tasks:
        if task.diagnosis is not Diagnosis.ALL_PASS:
            marks = "".join(f"{'pass' if ok else 'FAIL':>6}" for ok in task.passed)
            why = f": {escape_line(task.error)}" if task.error else ""
            yield f"  {escape_line(task.task_id):<32}{marks}  {task.diagnosis}{why}"


def _pair(pair: ComparedPair) -> str:
    found = pair.result
    low, high = 100 * found.interval.low, 100 * found.interval.high
    return (
        f"  {letter(pair.second)} - {letter(pair.first)}: {100 * found.difference:+.1f} points,"
        f" [{low:+.1f}, {high:+.1f}]; only {letter(pair.first)} {found.only_first},"
        f" only {letter(pair.second)} {found.only_second};"
        f" p = {found.test.mid_p:.3f} (mid-p), {found.test.exact:.3f} (exact)"
    )


def letter(place: int) -> str:
    """A, B, C …; numbers once the alphabet ends."""
    return chr(ord("A") + place) if place < 26 else str(place + 1)  # noqa: PLR2004


def _rounded(value: float | None, decimals: int = 0) -> str:
    return "–" if value is None else f"{value:.{decimals}f}"
