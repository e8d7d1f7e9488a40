"""The page Search: what contains a text in its name or its ID."""

from typing import Annotated, Any, Final

from fastapi import Query, Request, Response

from app.access.deps import READ
from app.core.web.deps import Res
from app.core.web.page_paths import path_of, rule_page_path, run_page_path, schedule_page_path
from app.core.web.pages import build_url, render_page, see_other
from app.core.web.routes import Router
from app.overview.schemas import SearchGroup, SearchKind, SearchMatch
from app.overview.search import search_names

router = Router()

TITLES: Final = {
    SearchKind.AGENT: "Agents",
    SearchKind.BENCHMARK: "Benchmarks",
    SearchKind.KPI: "KPIs",
    SearchKind.ALERT_RULE: "Alert rules",
    SearchKind.SCHEDULE: "Schedules",
    SearchKind.RUN: "Runs",
}


@router.get("/search", dependencies=READ)
def search_by_name(
    request: Request, res: Res, text: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Show what contains a text in its name or ID; an only match is opened."""
    text = text.strip()
    with res.db.read() as session:
        result = search_names(session, text)
    matches = [(group.kind, match) for group in result.groups for match in group.matches]
    if len(matches) == 1 and not any(group.has_more for group in result.groups):
        return see_other(_page_of(*matches[0]))
    return render_page(
        request,
        "search.html",
        title=f"Search for {text}" if text else "Search",
        api=build_url("/overview/search", text=text),
        text=text,
        groups=[_shown(group) for group in result.groups],
        all_runs=build_url("/runs", text=text),
    )


def _shown(group: SearchGroup) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "title": TITLES[group.kind],
        "rows": [
            (search_match, _page_of(group.kind, search_match)) for search_match in group.matches
        ],
        "has_more": group.has_more,
    }


def _page_of(kind: SearchKind, search_match: SearchMatch) -> str:
    """The address of the page of a match."""
    match kind:
        case SearchKind.AGENT:
            return path_of("agents", search_match.id)
        case SearchKind.BENCHMARK:
            return path_of("benchmarks", search_match.id)
        case SearchKind.KPI:
            return path_of("benchmarks", search_match.benchmark_id or "", "kpis", search_match.id)
        case SearchKind.ALERT_RULE:
            return rule_page_path(search_match.id)
        case SearchKind.SCHEDULE:
            return schedule_page_path(search_match.id)
        case SearchKind.RUN:
            return run_page_path(search_match.id)
