"""The cost of context as bars: the servers that tasks were done with, side by side."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from app.core.text import html_text
from app.harness.mcp.context_cost import ContextCost, context_costs
from app.harness.mcp.types import McpReport
from app.harness.reports.formatting import format_count

WIDTH: Final = 640
ROW: Final = 40
BAR: Final = 14
LABEL_CHARS: Final = 60
LEGEND: Final = (
    "Tokens per attempt, on average. Dark is the first request: what tools, system message and prompt"
    " take before anything is done. Light is all that was read after it."
)


def context_plots(report: McpReport) -> Iterable[str]:
    """A plot for each scenario and model that more than one set of servers was tried with."""
    costs = sorted(context_costs(report), key=_compared)  # stable: setups stay in their order
    for (_, scenario, model), group in groupby(costs, key=_compared):
        known = [each for each in group if each.base_context and each.input_tokens]
        if len(known) > 1:
            yield f"<h3>{html_text(scenario)}, {html_text(model)}</h3>"
            yield _plot(known)


def _compared(cost: ContextCost) -> tuple[str, str, str]:
    return cost.file, cost.scenario, cost.model


def _plot(costs: Sequence[ContextCost]) -> str:
    scale = WIDTH / max(each.input_tokens or 0 for each in costs)
    bars = "".join(_bar(each, ROW * row, scale) for row, each in enumerate(costs))
    size = f'width="{WIDTH}" height="{ROW * len(costs)}"'
    return f'<svg {size} role="img" font-size="13" fill="currentColor">{bars}</svg>'


def _bar(cost: ContextCost, top: int, scale: float) -> str:
    base, all_read = cost.base_context or 0.0, cost.input_tokens or 0.0
    servers = ", ".join(cost.servers) or "no server"
    named = servers if len(servers) <= LABEL_CHARS else f"{servers[:LABEL_CHARS]}…"
    label = f"{named}: {format_count(base)} first, {format_count(all_read)} in all"
    place = f'x="0" y="{top + ROW - BAR - 6}" height="{BAR}"'
    return (
        f"<g><title>{html_text(servers)}</title>"
        f'<text x="0" y="{top + BAR}">{html_text(label)}</text>'
        f'<rect {place} width="{scale * all_read:.1f}" opacity="0.3"/>'
        f'<rect {place} width="{scale * base:.1f}"/></g>'
    )
