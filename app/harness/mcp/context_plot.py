"""SVG plots of the context cost: one bar per set of servers."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from app.core.text import html_text, shorten
from app.harness.mcp.context_cost import ContextCost, context_costs
from app.harness.mcp.types import McpReport
from app.harness.reports.formatting import format_count

WIDTH: Final = 640
ROW: Final = 40
BAR: Final = 14
LABEL_CHARS: Final = 60
LEGEND: Final = (
    "Mean input tokens per attempt. Dark: the first request, that is tools, system message and prompt."
    " Light: all later requests."
)


def context_plots(report: McpReport) -> Iterable[str]:
    """One plot per scenario and model that ran with at least two sets of servers."""
    # The sort is stable: sets of servers keep the order of the results.
    costs = sorted(context_costs(report), key=_plot_key)
    for (_, scenario, model), group in groupby(costs, key=_plot_key):
        plotted = [cost for cost in group if cost.base_context and cost.input_tokens]
        if len(plotted) > 1:
            yield f"<h3>{html_text(scenario)}, {html_text(model)}</h3>"
            yield _plot(plotted)


def _plot_key(cost: ContextCost) -> tuple[str, str, str]:
    return cost.file, cost.scenario, cost.model


def _plot(costs: Sequence[ContextCost]) -> str:
    scale = WIDTH / max(cost.input_tokens or 0 for cost in costs)
    bars = "".join(_bar(cost, ROW * row, scale) for row, cost in enumerate(costs))
    size = f'width="{WIDTH}" height="{ROW * len(costs)}"'
    return f'<svg {size} role="img" font-size="13" fill="currentColor">{bars}</svg>'


def _bar(cost: ContextCost, top: int, scale: float) -> str:
    base, all_read = cost.base_context or 0.0, cost.input_tokens or 0.0
    servers = ", ".join(cost.servers) or "no server"
    named = shorten(servers, LABEL_CHARS)
    label = f"{named}: {format_count(base)} first, {format_count(all_read)} in all"
    position = f'x="0" y="{top + ROW - BAR - 6}" height="{BAR}"'
    return (
        f"<g><title>{html_text(servers)}</title>"
        f'<text x="0" y="{top + BAR}">{html_text(label)}</text>'
        f'<rect {position} width="{scale * all_read:.1f}" opacity="0.3"/>'
        f'<rect {position} width="{scale * base:.1f}"/></g>'
    )
