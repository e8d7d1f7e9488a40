"""The tools that list: agents, benchmarks and runs by name, and the values of a KPI."""

from typing import Final

from mosaico.benchmarks.schemas import BenchmarkView
from mosaico.core.console.api_responses import parse_response
from mosaico.core.text import count_noun
from mosaico.core.web.page_paths import path_of
from mosaico.kpis.schemas import KpiValueView
from mosaico.mcp_server.answer_parts import MAX_VALUES, cut_list, run_line
from mosaico.mcp_server.answers import Listing, NamedResource, TrendAnswer, TrendAnswerPoint
from mosaico.mcp_server.arguments import FindArguments, KpiTrendArguments
from mosaico.mcp_server.envelope import enclose
from mosaico.mcp_server.lookup import (
    MAX_SEARCHED,
    Owner,
    ServiceView,
    ToolRefusal,
    UnknownName,
    benchmark_name,
    find_agent,
    find_benchmark,
    find_owners,
    search_owners,
)
from mosaico.overview.schemas import SearchKind
from mosaico.runs.schemas import RunView

_MAX_KPIS: Final = 6


def kpi_trend(view: ServiceView, arguments: KpiTrendArguments) -> TrendAnswer:
    """The values of a KPI over the last runs."""
    benchmark = find_benchmark(view, arguments.benchmark)
    agent = find_agent(view, arguments.agent) if arguments.agent is not None else None
    kpi = arguments.kpi or _only_kpi(view, benchmark)
    page = view.client.get(
        "/kpi-history",
        benchmarkId=benchmark.id,
        agentId=agent.id if agent else None,
        kpi=kpi,
        limit=arguments.limit,
    )
    values = [parse_response(KpiValueView, item) for item in page["items"]]
    if not values:
        raise UnknownName(
            f"no run has a value of the KPI {enclose(kpi)}; the KPIs of {benchmark.id} are"
            f" {', '.join(map(enclose, _kpi_names(view, benchmark))) or 'none'}"
        )
    notices = (
        [] if page["nextCursor"] is None else ["there are older values: pass a larger `limit`"]
    )
    newest = values[0]
    return TrendAnswer(
        summary=f"{count_noun(len(values), 'value')} of {enclose(newest.name)}, newest first.",
        page=view.page(path_of("benchmarks", benchmark.id, "kpis", newest.kpi_id)),
        kpi=enclose(newest.name),
        unit=enclose(newest.unit) if newest.unit else None,
        direction=str(newest.direction),
        points=[_trend_point(value) for value in values],
        notices=notices,
    )


def _trend_point(value: KpiValueView) -> TrendAnswerPoint:
    verdict = value.verdict.verdict if value.verdict else None
    return TrendAnswerPoint(
        at=value.recorded_at.isoformat(timespec="seconds"),
        agent=value.agent_id,
        value=value.value,
        verdict=str(verdict) if verdict else None,
        validity=value.validity,
        run=value.run_id,
    )


def _only_kpi(view: ServiceView, benchmark: Owner) -> str:
    names = _kpi_names(view, benchmark)
    if len(names) == 1:
        return names[0]
    listed = ", ".join(map(enclose, names[:MAX_VALUES])) or "none"
    raise ToolRefusal(f"pass `kpi`, one of the KPIs of {benchmark.id}: {listed}")


def _kpi_names(view: ServiceView, benchmark: Owner) -> list[str]:
    document = view.client.get(path_of("benchmarks", benchmark.id))
    return [kpi.name for kpi in parse_response(BenchmarkView, document).measures]


def find(view: ServiceView, arguments: FindArguments) -> Listing:
    """Agents, benchmarks or runs by a part of their name."""
    match arguments.kind:
        case "agents":
            return _find_agents(view, arguments)
        case "benchmarks":
            return _find_benchmarks(view, arguments)
        case "runs":
            return _find_runs(view, arguments)


def _find_agents(view: ServiceView, arguments: FindArguments) -> Listing:
    if arguments.text is None:
        page = view.client.get("/agents", limit=MAX_SEARCHED)
        agents = [Owner(item["id"], item["name"]) for item in page["items"]]
    else:
        agents = search_owners(view, SearchKind.AGENT, arguments.text)
    notices: list[str] = []
    shown = cut_list(agents, arguments.limit, notices, "agents: pass a part of the name as `text`")
    return Listing(
        summary=_count_up_to(len(agents), "agent"),
        page=view.page("/agents"),
        agents=[
            NamedResource(
                id=agent.id, name=enclose(agent.name), page=view.page(path_of("agents", agent.id))
            )
            for agent in shown
        ],
        notices=notices,
    )


def _find_benchmarks(view: ServiceView, arguments: FindArguments) -> Listing:
    if arguments.text is None:
        page = view.client.get("/benchmarks", limit=MAX_SEARCHED)
        owners = [Owner(item["id"], benchmark_name(item)) for item in page["items"]]
    else:
        owners = search_owners(view, SearchKind.BENCHMARK, arguments.text)
    notices: list[str] = []
    shown = cut_list(
        owners, arguments.limit, notices, "benchmarks: pass a part of the name as `text`"
    )
    return Listing(
        summary=_count_up_to(len(owners), "benchmark"),
        page=view.page("/benchmarks"),
        benchmarks=[_benchmark_line(view, owner) for owner in shown],
        notices=notices,
    )


def _benchmark_line(view: ServiceView, owner: Owner) -> NamedResource:
    return NamedResource(
        id=owner.id,
        name=enclose(owner.name),
        kpis=[enclose(name) for name in _kpi_names(view, owner)[:_MAX_KPIS]],
        page=view.page(path_of("benchmarks", owner.id)),
    )


def _find_runs(view: ServiceView, arguments: FindArguments) -> Listing:
    owners = find_owners(view, arguments.agent, arguments.benchmark)
    text = arguments.text[:200] if arguments.text else None
    page = view.client.get("/benchmark-runs", text=text, limit=arguments.limit, **owners.filters)
    runs = [parse_response(RunView, item) for item in page["items"]]
    notices: list[str] = []
    if page["nextCursor"] is not None:
        notices.append("there are older runs: pass a larger `limit`, or `text`")
    return Listing(
        summary=f"{count_noun(len(runs), 'run')}, newest first.",
        page=view.page("/runs"),
        runs=[run_line(view, run) for run in runs],
        notices=notices,
    )


def _count_up_to(count: int, noun: str) -> str:
    at_least = "at least " if count >= MAX_SEARCHED else ""
    return f"{at_least}{count_noun(count, noun)}."
