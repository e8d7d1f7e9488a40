"""Search of what has a name: agents, benchmarks, KPIs, alert rules, schedules and runs."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.agents.models import Agent
from app.alerts.models import AlertRule
from app.benchmarks.models import Benchmark, KpiDefinition
from app.core.keyset import PageQuery
from app.core.list_filters import match_text
from app.overview.schemas import SearchGroup, SearchKind, SearchMatch, SearchResult
from app.results.run_list import BENCHMARK_NAME, DEFAULT_SORT, RunListFilter, search_runs
from app.results.run_names import read_names
from app.schedules.models import ScheduleConfig

MAX_MATCHES: Final = 10

_Column = InstrumentedAttribute[Any] | ColumnElement[Any]


def search_names(session: Session, text: str) -> SearchResult:
    """What contains the text in its name or its ID, at most `MAX_MATCHES` of each kind: the newest
    runs, all others by name. Archived agents and benchmarks are left out; so are kinds without a match.
    """
    text = text.strip()
    # No name contains a line break or another control character.
    if not text or not text.isprintable():
        return SearchResult(groups=[])
    benchmark = Benchmark.id == KpiDefinition.benchmark_id
    groups = [
        _find(session, text, SearchKind.AGENT, Agent.id, Agent.name, ~Agent.archived),
        _find(session, text, SearchKind.BENCHMARK, Benchmark.id, BENCHMARK_NAME, ~Benchmark.archived),
        _find(
            session, text, SearchKind.KPI, KpiDefinition.id, KpiDefinition.name,
            KpiDefinition.retired_at.is_(None), benchmark, ~Benchmark.archived, of=Benchmark.id,
        ),
        _find(
            session, text, SearchKind.ALERT_RULE, AlertRule.id, AlertRule.name, of=AlertRule.benchmark_id
        ),
        _find(
            session, text, SearchKind.SCHEDULE, ScheduleConfig.id, ScheduleConfig.name,
            of=ScheduleConfig.benchmark_id,
        ),
        _find_runs(session, text),
    ]  # fmt: skip
    owners = {match.benchmark_id for group in groups for match in group.matches}
    names = read_names(session, [(id_, "") for id_ in owners if id_]).benchmarks
    return SearchResult(
        groups=[_name_benchmarks(group, names) for group in groups if group.matches]
    )


def _name_benchmarks(group: SearchGroup, names: Mapping[str, str]) -> SearchGroup:
    matches = [
        match.model_copy(update={"benchmark_name": names.get(match.benchmark_id or "")})
        for match in group.matches
    ]
    return group.model_copy(update={"matches": matches})


def _find(
    session: Session,
    text: str,
    kind: SearchKind,
    id_: _Column,
    name: _Column,
    *conditions: ColumnElement[bool],
    of: _Column | None = None,
) -> SearchGroup:
    """The rows whose ID or name contains the text; `of` is the column of their benchmark."""
    columns = [id_.label("id"), name.label("name")]
    statement = select(*columns, *([of.label("benchmark_id")] if of is not None else []))
    matching = statement.where(*match_text(text, id_, name), *conditions)
    rows = session.execute(
        matching.order_by(func.lower(name), id_).limit(MAX_MATCHES + 1)
    ).mappings()
    matches = [SearchMatch(**row) for row in rows]
    return SearchGroup(
        kind=kind, matches=matches[:MAX_MATCHES], has_more=len(matches) > MAX_MATCHES
    )


def _find_runs(session: Session, text: str) -> SearchGroup:
    page = search_runs(session, RunListFilter(text=text), DEFAULT_SORT, PageQuery(MAX_MATCHES))
    owners = [(row["benchmark_id"], row["agent_id"]) for row in page.rows]
    agents = read_names(session, owners).agents
    matches = [
        SearchMatch(
            id=row["id"],
            name=agents.get(row["agent_id"], row["agent_id"]),
            benchmark_id=row["benchmark_id"],
            created_at=row["created_at"],
            status=row["status"],
        )
        for row in page.rows
    ]
    return SearchGroup(kind=SearchKind.RUN, matches=matches, has_more=page.next_cursor is not None)
