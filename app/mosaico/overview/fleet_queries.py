"""Reads the fleet: every agent on every benchmark with what changed and with its last nights, in few statements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import text
from sqlalchemy.orm import Session

from mosaico.alerts.own_agents import ALL_AGENTS, MineChoice
from mosaico.benchmarks.queries import get_kpis_by_benchmark
from mosaico.core.batches import batched
from mosaico.overview import rules
from mosaico.overview.change_queries import ChangeHistory
from mosaico.overview.change_schemas import ChangeView
from mosaico.overview.change_views import view_changes
from mosaico.overview.changes import ChangeGroup
from mosaico.overview.fleet_schemas import Fleet, FleetOrder, FleetPair
from mosaico.overview.nights import (
    Night,
    NightBounds,
    UsualLevel,
    build_nights,
    list_nights,
)
from mosaico.overview.schemas import OverviewCell
from mosaico.overview.sources import OverviewSources, read_sources
from mosaico.run_store.run_outcome import sort_kpis, verdict_of_run
from mosaico.statistics.verdict_rules import Verdict

DAY: Final = timedelta(hours=24)
_PAIRS_PER_STATEMENT: Final = 120
# The last run with new data of each day and pair: one look-up in an index for each.
_NIGHTS: Final = text(
    """
    SELECT pair.number AS pair, day.number AS day,
           COALESCE(CAST(kpi.correction ->> 'rawValue' AS double precision), kpi.value) AS value,
           kpi.validity, kpi.verdict ->> 'verdict' AS verdict
    FROM unnest(CAST(:benchmarks AS text[]), CAST(:agents AS text[]), CAST(:kpis AS text[]))
         WITH ORDINALITY AS pair (benchmark_id, agent_id, kpi_id, number)
    CROSS JOIN unnest(CAST(:starts AS timestamptz[]), CAST(:ends AS timestamptz[]))
         WITH ORDINALITY AS day (since, until, number)
    CROSS JOIN LATERAL (
        SELECT run.seq FROM benchmark_runs AS run
        WHERE run.benchmark_id = pair.benchmark_id AND run.agent_id = pair.agent_id AND run.has_new_data
          AND run.completed_at >= day.since AND run.completed_at < day.until
        ORDER BY run.completed_at DESC LIMIT 1
    ) AS newest
    LEFT JOIN kpi_history AS kpi ON kpi.run_seq = newest.seq AND kpi.kpi_id = pair.kpi_id
    """
)

_DayValues = Mapping[date, tuple[float | None, Verdict | None]]


class FleetFilter(NamedTuple):
    """Which pairs to list: by a part of the name of the agent or the benchmark, and by what they are."""

    text: str = ""
    outcome: str = ""
    order: FleetOrder = FleetOrder.WORST

    def selects(self, pair: FleetPair) -> bool:
        words = f"{pair.agent_name}\n{pair.benchmark_name}\n{pair.agent_id}\n{pair.benchmark_id}".lower()
        is_listed = self.outcome in (
            "",
            rules.outcome_of(pair),
            pair.change and pair.change.outcome,
        )
        return self.text.lower().strip() in words and is_listed


def read_fleet(
    session: Session,
    now: datetime,
    zone: ZoneInfo,
    fleet_filter: FleetFilter,
    sources: OverviewSources | None = None,
    choice: MineChoice = ALL_AGENTS,
) -> Fleet:
    """Every pair of the chosen agents that a filter selects, with its last nights in a time zone."""
    (cells, is_complete), history = sources or read_sources(session, now - DAY, now, choice)
    # Before the first run of a day, the strips end with the day before.
    bounds = list_nights(max((cell.completed_at for cell in cells), default=now), zone)
    changes = _newest_changes(view_changes(session, history.changes, history.names, now - DAY))
    values = _read_values(session, cells, bounds)
    news = _news_by_day(history, bounds)
    pairs = [
        FleetPair(
            **dict(cell),
            change=changes.get((cell.benchmark_id, cell.agent_id)),
            nights=_nights(cell, bounds, day_values, news),
        )
        for cell, day_values in zip(cells, values, strict=True)
    ]
    return Fleet(
        pairs=_sort(filter(fleet_filter.selects, pairs), fleet_filter.order),
        total=len(pairs),
        first_day=bounds[0].day,
        last_day=bounds[-1].day,
        is_complete=is_complete,
        hidden_agents=choice.hidden,
    )


def _newest_changes(views: Sequence[ChangeView]) -> dict[tuple[str, str], ChangeView]:
    """The change to name of each pair: the first one in the order of Morning."""
    changes: dict[tuple[str, str], ChangeView] = {}
    for view in views:
        changes.setdefault((view.benchmark_id, view.agent_id), view)
    return changes


def _sort(pairs: Iterable[FleetPair], order: FleetOrder) -> list[FleetPair]:
    if order is FleetOrder.NAME:
        return sorted(
            pairs, key=lambda pair: (pair.agent_name.lower(), pair.benchmark_name.lower())
        )
    return sorted(pairs, key=_badness)


def _badness(pair: FleetPair) -> tuple[object, ...]:
    """What nobody has judged first, then by the outcome, then by how far the last nights are from usual."""
    groups = (ChangeGroup.NEW, ChangeGroup.ONGOING)
    change = pair.change
    place = groups.index(change.group) if change and change.group in groups else len(groups)
    size = (
        change.kpi.comparisons[0].effect
        if change and change.kpi and change.kpi.comparisons
        else 0.0
    )
    steps = [night.step or 0 for night in pair.nights[-3:]]
    return (
        place, rules.outcome_rank(pair), -abs(size or 0.0), sum(steps),
        pair.agent_name.lower(), pair.benchmark_name.lower(),
    )  # fmt: skip


def _read_values(
    session: Session, cells: Sequence[OverviewCell], bounds: Sequence[NightBounds]
) -> list[_DayValues]:
    """The value of each day of each cell; days without a run are left out."""
    values: list[dict[date, tuple[float | None, Verdict | None]]] = [{} for _ in cells]
    # Also of a pair whose last run failed and has no KPI.
    kpis = get_kpis_by_benchmark(session, {cell.benchmark_id for cell in cells})
    headline = {
        benchmark_id: sort_kpis(of_benchmark)[0].id for benchmark_id, of_benchmark in kpis.items()
    }
    days = {"starts": [night.since for night in bounds], "ends": [night.until for night in bounds]}
    for first, batch in enumerate(batched(cells, _PAIRS_PER_STATEMENT)):
        pairs = {
            "benchmarks": [cell.benchmark_id for cell in batch],
            "agents": [cell.agent_id for cell in batch],
            "kpis": [headline.get(cell.benchmark_id, "") for cell in batch],
        }
        for row in session.execute(_NIGHTS, {**pairs, **days}):
            verdict = verdict_of_run(row.validity, Verdict(row.verdict) if row.verdict else None)
            number = first * _PAIRS_PER_STATEMENT + row.pair - 1
            values[number][bounds[row.day - 1].day] = (row.value, verdict)
    return list(values)


def _news_by_day(
    history: ChangeHistory, bounds: Sequence[NightBounds]
) -> dict[tuple[str, str], dict[date, list[str]]]:
    """What happened on each day, by benchmark and agent."""
    news: dict[tuple[str, str], dict[date, list[str]]] = defaultdict(lambda: defaultdict(list))
    for run in history.runs:
        night = next((night for night in bounds if night.since <= run.at < night.until), None)
        if night is not None:
            news[run.pair][night.day].append(run.outcome)
    return news


def _nights(
    cell: OverviewCell,
    bounds: Sequence[NightBounds],
    values: _DayValues,
    news: Mapping[tuple[str, str], Mapping[date, Sequence[str]]],
) -> list[Night]:
    verdict = cell.kpi.verdict if cell.kpi else None
    usual = UsualLevel(
        cell.kpi.usual if cell.kpi else None,
        verdict.min_detectable_effect if verdict else None,
        verdict.scale if verdict else None,
        verdict.side if verdict else None,
    )
    return build_nights(bounds, values, news.get((cell.benchmark_id, cell.agent_id), {}), usual)
