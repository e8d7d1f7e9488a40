"""Figures as all reports write them."""

from typing import NamedTuple

from app.harness.bash.types import EvalResult, EvalSummary
from app.harness.results import AttemptOutcome, ConversationEnding

_ENDINGS = {
    ConversationEnding.NATURAL: "stopped by itself",
    ConversationEnding.TURN_LIMIT: "turn limit reached",
    ConversationEnding.TOKEN_LIMIT: "token limit reached",
    ConversationEnding.TIME_LIMIT: "time limit reached",
    ConversationEnding.COST_LIMIT: "cost limit reached",
    ConversationEnding.TRUNCATED: "answer cut off",
    ConversationEnding.ERROR: "ended by an error",
}


def percent(rate: float | None, decimals: int = 1) -> str:
    """`86.5 %`; what is not all is never rounded up to 100 %, and nothing known is `–`."""
    if rate is None:
        return "–"
    most = 100 - 10**-decimals if rate < 1 else 100.0
    return f"{min(100 * rate, most):.{decimals}f} %"


def seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"


def amount(value: float) -> str:
    """A score without needless decimals: `7`, `2.5`; the original recorded a score of nothing as -0."""
    return f"{value + 0.0:g}"


def dollars(value: float | None) -> str:
    return "unknown" if value is None else f"${value:.4f}"


def mark(result: EvalResult) -> str:
    """PASS, FAIL, or why there is neither."""
    if result.outcome is AttemptOutcome.SKIPPED:
        return "SKIP"
    if result.score is None:
        return "ERROR"
    return "PASS" if result.passed() else "FAIL"


def ending(result: EvalResult) -> str:
    """Why the conversation ended, in words; empty without a trace."""
    if result.trace is None:
        return ""
    if result.trace.ending is not None:
        return _ENDINGS[result.trace.ending]
    return (
        _ENDINGS[ConversationEnding.NATURAL]
        if result.trace.natural_stop
        else "did not stop by itself"
    )


def name_of(result: EvalResult) -> str:
    """The task, and which attempt at it when there are several."""
    return f"{result.task.id} #{result.trial + 1}" if result.trial else result.task.id


def headlines(summary: EvalSummary) -> list[tuple[str, str]]:
    """The figures of a run by name, in the order in which all reports show them."""
    lines = [
        (
            "Pass rate",
            (
                f"{percent(summary.pass_rate)} ({summary.total_passed} of {summary.total_tasks} tasks"
                " met every expectation)"
            ),
        ),
        (
            "Overall rate",
            (
                f"{percent(summary.overall_rate)} ({amount(summary.total_score)} of"
                f" {amount(summary.total_max_score)} weighted points)"
            ),
        ),
        (
            "Attempted",
            (
                f"{summary.total_tasks} ({summary.tasks_scored} scored, {summary.tasks_errored}"
                f" errored), {summary.tasks_skipped} skipped"
            ),
        ),
        (
            "Turns",
            f"{summary.total_turns} ({summary.avg_turns_per_task:.1f} per task)",
        ),
        (
            "Tool calls",
            f"{summary.total_tool_calls} ({summary.avg_tool_calls_per_task:.1f} per task)",
        ),
        (
            "Tool call success",
            (
                f"{percent(summary.tool_call_success_rate if summary.total_tool_calls else None)}"
                f" ({summary.tool_calls_ok} ok, {summary.tool_calls_error} error)"
            ),
        ),
        ("After errors", f"{summary.errors_adapted} adapted, {summary.errors_repeated} repeated"),
        ("Natural stops", f"{percent(summary.natural_stop_rate)} ({summary.natural_stops})"),
        ("Tokens", _tokens(summary)),
        (
            "Duration",
            f"{seconds(summary.total_duration_ms)} ({seconds(summary.avg_duration_ms)} per task)",
        ),
    ]
    if summary.total_cost_usd is not None:
        lines.append(("Cost", _cost(summary)))
    if summary.judge_input_tokens or summary.judge_output_tokens:
        lines.append(
            (
                "Judge",
                (
                    f"{summary.judge_input_tokens} input, {summary.judge_output_tokens} output tokens,"
                    f" cost {dollars(summary.judge_cost_usd)}"
                ),
            )
        )
    return lines


class Reason(NamedTuple):
    """Why tasks have no score, in the words of others."""

    name: str
    why: str
    tasks: int


def reasons(summary: EvalSummary) -> list[Reason]:
    """Every reason for which tasks of a run errored or were skipped."""
    return [
        *(Reason("Error", why, tasks) for why, tasks in summary.error_reasons.items()),
        *(Reason("Skipped", why, tasks) for why, tasks in summary.skip_reasons.items()),
    ]


def _cost(summary: EvalSummary) -> str:
    said = dollars(summary.total_cost_usd)
    if summary.tasks_without_cost:
        said += f" (unknown for {summary.tasks_without_cost} of {summary.total_tasks} tasks)"
    return said


def _tokens(summary: EvalSummary) -> str:
    said = f"{summary.total_input_tokens} input, {summary.total_output_tokens} output"
    if summary.tasks_without_usage:
        said += f" (not told for {summary.tasks_without_usage} tasks)"
    return said
