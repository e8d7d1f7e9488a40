"""Figures as all reports write them."""

from app.harness.mcp.types import TaskResult
from app.harness.results import AttemptOutcome


def result_word(result: TaskResult) -> str:
    """PASS, FAIL, ERROR, SKIP, the score of a judge without a threshold, or `-` for neither."""
    if result.outcome is AttemptOutcome.SKIPPED:
        return "SKIP"
    if result.outcome is not AttemptOutcome.SCORED:
        return "ERROR"
    if result.passed is not None:
        return "PASS" if result.passed else "FAIL"
    scores = [each.score for each in result.evaluations if each.score is not None]
    return f"{100 * min(scores):.0f}" if scores else "-"


def reason(result: TaskResult) -> str:
    """Why it is no pass: the error, or what is not met."""
    if result.error is not None:
        return f"{result.error.kind.replace('_', ' ')}: {result.error.detail}"
    return "; ".join(
        f"{each.type} {each.expected or ''}: {each.reason}"
        for each in result.evaluations
        if each.passed is False
    )


def name_of(result: TaskResult) -> str:
    """The task, and which attempt at it when there are several."""
    return f"{result.task} #{result.trial + 1}" if result.trial else result.task


def servers_of(result: TaskResult) -> str:
    return ", ".join(result.servers)


def count(value: float | None) -> str:
    """A count; unknown is `–`."""
    return "–" if value is None else f"{value:.0f}"


def dollars(value: float | None) -> str:
    return "–" if value is None else f"${value:.4f}"


def seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s"
