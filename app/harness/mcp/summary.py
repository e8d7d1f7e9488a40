"""A run in figures, and whether it passes the gate."""

from dataclasses import dataclass

from app.harness.gate import GateFigures
from app.harness.mcp.types import McpReport
from app.harness.results import AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSummary:
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


def summarize(report: McpReport) -> McpSummary:
    results = report.results
    passed = sum(each.passed is True for each in results)
    failed = sum(each.passed is False for each in results)
    skipped = sum(each.outcome is AttemptOutcome.SKIPPED for each in results)
    scored = sum(each.outcome is AttemptOutcome.SCORED for each in results)
    costs = [each.cost_usd for each in results if each.llm_calls]
    known = [cost for cost in costs if cost is not None]
    return McpSummary(
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


def figures(report: McpReport) -> GateFigures:
    """What the gate looks at."""
    found = summarize(report)
    return GateFigures(found.errors, found.missing, found.pass_rate)
