"""A run in figures, and whether it passes the gate."""

from dataclasses import dataclass
from enum import IntEnum

from app.harness.mcp.types import BenchReport, Outcome


class Verdict(IntEnum):
    """What a command exits with."""

    PASSED = 0
    BELOW = 1
    ERRORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Attempts by what came of them; `pass_rate` is of those with a verdict, None without any.

    `without_verdict` are those that nothing was to be met by, or a score without a threshold.
    """

    planned: int
    passed: int
    failed: int
    errors: int
    without_verdict: int
    missing: int
    pass_rate: float | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    duration_ms: float


def summarize(report: BenchReport) -> Summary:
    results = report.results
    passed = sum(each.passed is True for each in results)
    failed = sum(each.passed is False for each in results)
    skipped = sum(each.outcome is Outcome.SKIPPED for each in results)
    scored = sum(each.outcome is Outcome.SCORED for each in results)
    costs = [each.cost_usd for each in results if each.llm_calls]
    known = [cost for cost in costs if cost is not None]
    return Summary(
        planned=report.planned,
        passed=passed,
        failed=failed,
        errors=len(results) - scored - skipped,
        without_verdict=scored - passed - failed,
        missing=max(report.planned - len(results), 0) + skipped,
        pass_rate=passed / (passed + failed) if passed + failed else None,
        input_tokens=sum(each.input_tokens or 0 for each in results),
        output_tokens=sum(each.output_tokens or 0 for each in results),
        cost_usd=sum(known, 0.0) if len(known) == len(costs) else None,
        duration_ms=sum(each.duration_ms for each in results),
    )


def verdict(summary: Summary, min_pass_rate: float) -> Verdict:
    """Errors and what was not reached come before the rate; nothing to judge is no failure."""
    if summary.errors or summary.missing:
        return Verdict.ERRORS
    if summary.pass_rate is not None and summary.pass_rate < min_pass_rate:
        return Verdict.BELOW
    return Verdict.PASSED
