"""The figures of an ot-bench run, computed from its results alone."""

from dataclasses import dataclass

from mosaico.harness.mcp.types import McpReport
from mosaico.harness.results import AttemptOutcome, GateFigures, pass_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSummary:
    """Counts of attempts and sums of their usage.

    The pass rate is that of the attempts with a verdict, `passed` and `failed`; an attempt that the
    agent ended by an error or a timeout failed. `errors` are attempts without a verdict because of
    a server, a provider or a judge. `without_verdict` counts attempts without an expectation, or
    with a score but no threshold.
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
    cached_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    duration_ms: float


def summarize(report: McpReport) -> McpSummary:
    """All figures of a run; the cost is None when the cost of one attempt is unknown."""
    results = report.results
    passed = sum(result.passed is True for result in results)
    failed = sum(result.passed is False for result in results)
    skipped = sum(result.outcome is AttemptOutcome.SKIPPED for result in results)
    errors = sum(result.outcome.is_error for result in results)
    costs = [result.cost_usd for result in results if result.llm_calls]
    known_costs = [cost for cost in costs if cost is not None]
    return McpSummary(
        planned=report.planned,
        passed=passed,
        failed=failed,
        errors=errors,
        without_verdict=len(results) - passed - failed - errors - skipped,
        missing=max(report.planned - len(results), 0) + skipped,
        pass_rate=pass_rate(passed, passed + failed),
        input_tokens=sum(result.input_tokens or 0 for result in results),
        output_tokens=sum(result.output_tokens or 0 for result in results),
        cached_tokens=sum(result.cached_tokens for result in results),
        cache_write_tokens=sum(result.cache_write_tokens for result in results),
        cost_usd=sum(known_costs, 0.0) if len(known_costs) == len(costs) else None,
        duration_ms=sum(result.duration_ms for result in results),
    )


def gate_figures(report: McpReport) -> GateFigures:
    """The figures that the gate reads."""
    summary = summarize(report)
    return GateFigures(summary.errors, summary.missing, summary.pass_rate)
