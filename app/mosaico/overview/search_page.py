"""The page Search: what contains a text in its name or its ID."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response

from mosaico.access.deps import READ
from mosaico.core.keyset import MAX_CURSOR
from mosaico.core.web.deps import Res
from mosaico.core.web.page_paths import (
    incident_page_path,
    path_of,
    rule_page_path,
    run_page_path,
    schedule_page_path,
)
from mosaico.core.web.pages import build_url, render_page, see_other
from mosaico.core.web.routes import Router
from mosaico.overview.schemas import SearchGroup, SearchKind, SearchMatch, SearchResult
from mosaico.overview.search import MAX_MATCHES, search_names

router = Router()

TITLES: Final = {
    SearchKind.AGENT: "Agents",
    SearchKind.BENCHMARK: "Benchmarks",
    SearchKind.KPI: "KPIs",
    SearchKind.ALERT_RULE: "Alert rules",
    SearchKind.SCHEDULE: "Schedules",
    SearchKind.RUN: "Runs",
    SearchKind.NOTE: "Notes",
    SearchKind.ANNOTATION: "Annotations",
}
# Of a match by its ID.
PAGES: Final[Mapping[SearchKind, Callable[[str], str]]] = {
    SearchKind.AGENT: partial(path_of, "agents"),
    SearchKind.BENCHMARK: partial(path_of, "benchmarks"),
    SearchKind.ALERT_RULE: rule_page_path,
    SearchKind.SCHEDULE: schedule_page_path,
    SearchKind.RUN: run_page_path,
}


@router.get("/search", dependencies=READ)
def search_by_name(
    request: Request,
    res: Res,
    text: Annotated[str, Query(max_length=200)] = "",
    kind: SearchKind | None = None,
    cursor: Annotated[str | None, Query(max_length=MAX_CURSOR)] = None,
) -> Response:
    """Show what contains a text in its name or ID; an only match is opened. `kind` and `cursor` continue the
    search of one kind.
    """
    text = text.strip()
    with res.db.read() as session:
        result = search_names(session, text, kind, cursor)
    if kind is None and (only_match := _find_only(result)):
        return see_other(_page_of(*only_match))
    return render_page(
        request,
        "search.html",
        title=f"Search for {text}" if text else "Search",
        api=build_url("/overview/search", text=text, kind=kind, cursor=cursor),
        text=text,
        groups=[_shown(group, text) for group in result.groups],
        all_runs=build_url("/runs", text=text),
        first=build_url("/search", text=text) if cursor else None,
    )


def _find_only(result: SearchResult) -> tuple[SearchKind, SearchMatch] | None:
    """The only match; none while the search of a kind has not reached its end."""
    matches = [(group.kind, match) for group in result.groups for match in group.matches]
    is_complete = not any(group.next_cursor for group in result.groups)
    return matches[0] if len(matches) == 1 and is_complete else None


def _shown(group: SearchGroup, text: str) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "title": TITLES[group.kind],
        "rows": [
            (search_match, _page_of(group.kind, search_match)) for search_match in group.matches
        ],
        "is_full": len(group.matches) == MAX_MATCHES,
        "next": group.next_cursor
        and build_url("/search", text=text, kind=group.kind, cursor=group.next_cursor),
    }


def _page_of(kind: SearchKind, search_match: SearchMatch) -> str:
    """The address of the page of a match."""
    if kind is SearchKind.KPI:
        return path_of("benchmarks", search_match.benchmark_id or "", "kpis", search_match.id)
    if kind in (SearchKind.NOTE, SearchKind.ANNOTATION):
        return _subject_page(search_match)
    return PAGES[kind](search_match.id)


def _subject_page(note: SearchMatch) -> str:
    """The page of what a note or an annotation is about."""
    if note.incident_id:
        return f"{incident_page_path(note.incident_id)}#notes"
    run_page = run_page_path(note.run_id or "")
    if note.item_id is None:
        return f"{run_page}#notes"
    return build_url(f"{run_page}/items", item=note.item_id)
