"""The cost of the tools in the context: input tokens by set of servers, as rows and as SVG plots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from mosaico.core.text import html_text, shorten
from mosaico.harness.mcp.types import McpReport, ServerFacts, TaskResult
from mosaico.harness.reports.view import format_count
from mosaico.harness.results import mean_if_known


class _TaskSetup(NamedTuple):
    """Attempts of one file, scenario, model and set of servers."""

    file: str
    scenario: str
    model: str
    servers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCost:
    """The context cost of a set of servers, as means over its attempts; None is unknown.

    `schema_tokens` is estimated from the tool schemas; `base_context` is the input of the first
    request as the provider counted it; `share_of_largest` divides it by the largest base context of
    the scenario and model. `judged` counts the attempts that passed or failed: errors do neither.
    """

    file: str
    scenario: str
    model: str
    servers: tuple[str, ...]
    judged: int
    passed: int
    tools: int
    schema_tokens: int
    base_context: float | None
    context_growth: float | None
    input_tokens: float | None
    llm_calls: float
    cost_usd: float | None
    share_of_largest: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUsage:
    """A tool of a server: the tokens of its schema, and how often it was called."""

    file: str
    server: str
    tool: str
    tokens: int
    calls: int
    errors: int


def context_costs(report: McpReport) -> list[ContextCost]:
    """The context cost of each scenario, model and set of servers, in the order of the results."""
    groups: dict[_TaskSetup, list[TaskResult]] = {}
    for result in report.results:
        if result.llm_calls:
            setup = _TaskSetup(result.file, result.scenario, result.model, result.servers)
            groups.setdefault(setup, []).append(result)
    base = {
        setup: mean_if_known(result.base_context for result in group)
        for setup, group in groups.items()
    }
    facts = {(server.file, server.name): server for server in report.servers}
    return [
        _cost(setup, group, _facts(setup, facts), _share(setup, base))
        for setup, group in groups.items()
    ]


def tool_usages(report: McpReport) -> list[ToolUsage]:
    """All tools of all servers, also unused ones; the largest first within each server."""
    return [
        _tool_usage(server, tool.name, tool.tokens, report.results)
        for server in report.servers
        for tool in sorted(server.tools, key=lambda tool: (-tool.tokens, tool.name))
    ]


def _cost(
    setup: _TaskSetup,
    group: Sequence[TaskResult],
    servers: Sequence[ServerFacts],
    share: float | None,
) -> ContextCost:
    return ContextCost(
        file=setup.file,
        scenario=setup.scenario,
        model=setup.model,
        servers=setup.servers,
        judged=sum(result.passed is not None for result in group),
        passed=sum(result.passed is True for result in group),
        tools=sum(len(server.tools) for server in servers),
        schema_tokens=sum(server.tokens for server in servers),
        base_context=mean_if_known(result.base_context for result in group),
        context_growth=mean_if_known(result.context_growth_avg for result in group),
        input_tokens=mean_if_known(result.input_tokens for result in group),
        llm_calls=sum(len(result.llm_calls) for result in group) / len(group),
        cost_usd=mean_if_known(result.cost_usd for result in group),
        share_of_largest=share,
    )


def _facts(setup: _TaskSetup, facts: dict[tuple[str, str], ServerFacts]) -> list[ServerFacts]:
    return [facts[setup.file, name] for name in setup.servers if (setup.file, name) in facts]


def _share(setup: _TaskSetup, base: dict[_TaskSetup, float | None]) -> float | None:
    """The base context of a setup divided by the largest of the same file, scenario and model."""
    base_context = base[setup]
    comparable_contexts = [
        value for other, value in base.items() if value is not None and other[:3] == setup[:3]
    ]
    return (
        base_context / max(comparable_contexts)
        if base_context is not None and max(comparable_contexts) > 0
        else None
    )


def _tool_usage(
    server: ServerFacts, tool: str, tokens: int, results: Sequence[TaskResult]
) -> ToolUsage:
    calls = [
        call
        for result in results
        if result.file == server.file
        for call in result.tool_calls
        if (call.server, call.tool) == (server.name, tool)
    ]
    return ToolUsage(
        file=server.file,
        server=server.name,
        tool=tool,
        tokens=tokens,
        calls=len(calls),
        errors=sum(call.is_error for call in calls),
    )


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
