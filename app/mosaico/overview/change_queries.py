"""Reads the changes of a period: its incidents, and its runs that fell, failed or could not be measured."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, and_, func, or_, select, text, type_coerce
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session, aliased

from mosaico.agents.models import Agent
from mosaico.alerts.models import UNRESOLVED, AlertEvent, AlertState, Incident
from mosaico.alerts.own_agents import ALL_AGENTS, MineChoice
from mosaico.benchmarks.models import Benchmark, name_of_benchmark
from mosaico.overview.changes import (
    FAILED,
    SAME_ANSWERS,
    Change,
    ChangeOutcome,
    IncidentSpan,
    JudgedAs,
    NewsRun,
    Pair,
    StatedJudgement,
    judgement_of,
    list_changes,
)
from mosaico.run_store.run_outcome import list_kpi_outcomes, sort_kpis

# Of the newest runs with each outcome, and of the newest incidents; a page says so where there are more.
MAX_NEWS: Final = 500
# A run that ends in a period was created at most so long before it.
_LONGEST_RUN: Final = timedelta(days=7)

# In the spelling of the indexes of each outcome, with the run that ended after it. A rescored run is no news.
_NEWS_RUNS: Final = text(
    """
    WITH first AS (
        SELECT coalesce((SELECT seq FROM benchmark_runs WHERE created_at >= :created_since
                         ORDER BY created_at, seq LIMIT 1), 9223372036854775807) AS seq
    ), news AS (
        SELECT listed.seq FROM unnest(ARRAY['REGRESSED', 'CHANGED', 'INVALID']) AS outcome (name) CROSS JOIN LATERAL (
            SELECT seq FROM benchmark_runs
            WHERE COALESCE(NULLIF(validity, 'VALID'::text), verdict ->> 'verdict'::text, ''::text) = outcome.name
              AND seq >= (SELECT seq FROM first) ORDER BY seq DESC LIMIT :limit
        ) AS listed
        UNION
        (SELECT seq FROM benchmark_runs WHERE status = 'FAILED' AND seq >= (SELECT seq FROM first)
         ORDER BY seq DESC LIMIT :limit)
        UNION
        (SELECT seq FROM benchmark_runs WHERE same_data_as IS NOT NULL AND seq >= (SELECT seq FROM first)
         ORDER BY seq DESC LIMIT :limit)
    )
    SELECT run.id, run.seq, run.benchmark_id, run.agent_id, run.completed_at, run.accepted_at, run.accepted_by,
           run.acceptance_note,
           CASE WHEN run.status = 'FAILED' THEN 'FAILED' WHEN run.same_data_as IS NOT NULL THEN 'SAME_ANSWERS'
                WHEN run.validity = 'INVALID' THEN 'INVALID' ELSE run.verdict ->> 'verdict' END AS outcome,
           following.id AS next_id, following.seq AS next_seq, following.completed_at AS next_at
    FROM news JOIN benchmark_runs AS run ON run.seq = news.seq
    LEFT JOIN LATERAL (
        SELECT later.id, later.seq, later.completed_at FROM benchmark_runs AS later
        WHERE later.benchmark_id = run.benchmark_id AND later.agent_id = run.agent_id AND later.seq > run.seq
          AND later.status IN ('COMPLETED', 'FAILED') AND later.rescore_of IS NULL
        ORDER BY later.seq LIMIT 1
    ) AS following ON true
    WHERE run.completed_at >= :since AND run.rescore_of IS NULL AND run.status IN ('COMPLETED', 'FAILED')
    ORDER BY run.seq DESC
    """
)


class ChangeNames(NamedTuple):
    """The names of the benchmarks and agents of changes, without archived ones."""

    benchmarks: dict[str, str]
    agents: dict[str, str]

    def has(self, pair: Pair) -> bool:
        return pair.benchmark_id in self.benchmarks and pair.agent_id in self.agents


class ChangeHistory(NamedTuple):
    """The changes since a time, the names of their pairs, and whether these are all."""

    changes: list[Change]
    runs: list[NewsRun]
    names: ChangeNames
    is_complete: bool


def read_changes(
    session: Session, since: datetime, choice: MineChoice = ALL_AGENTS
) -> ChangeHistory:
    """The changes of the period from a time on, also those that began before it and are not over; of the chosen agents."""
    news = _read_news(session, since)
    incidents = _read_incidents(session, since)
    counts = Counter(run.outcome for run in news)
    is_complete = max([*counts.values(), len(incidents)]) < MAX_NEWS
    news = [run for run in news if choice.has(run.pair.agent_id)]
    incidents = [incident for incident in incidents if choice.has(incident.pair.agent_id)]
    pairs = {run.pair for run in news} | {incident.pair for incident in incidents}
    names = _read_names(session, pairs)
    runs = [run for run in news if names.has(run.pair)]
    changes = list_changes(
        runs,
        [incident for incident in incidents if names.has(incident.pair)],
    )
    return ChangeHistory(changes, runs, names, is_complete)


def _read_news(session: Session, since: datetime) -> list[NewsRun]:
    parameters = {"since": since, "created_since": since - _LONGEST_RUN, "limit": MAX_NEWS}
    rows = session.execute(_NEWS_RUNS, parameters).all()
    fallen = [
        row.seq for row in rows if row.outcome in (ChangeOutcome.REGRESSED, ChangeOutcome.CHANGED)
    ]
    kpis = list_kpi_outcomes(session, fallen)
    return [
        NewsRun(
            pair=Pair(row.benchmark_id, row.agent_id),
            seq=row.seq,
            id=row.id,
            outcome=ChangeOutcome(row.outcome),
            at=row.completed_at,
            kpi_ids=tuple(kpi.kpi_id for kpi in sort_kpis(kpis.get(row.seq, ())) if kpi.verdict == row.outcome),
            acceptance=_acceptance(row),
            next_seq=row.next_seq,
            next_id=row.next_id,
            next_at=row.next_at,
        )
        for row in rows
    ]  # fmt: skip


def _acceptance(row: Row[Any]) -> StatedJudgement | None:
    if row.accepted_at is None or row.outcome in (FAILED, SAME_ANSWERS):
        return None
    return StatedJudgement(JudgedAs.ACCEPTED, row.accepted_at, row.accepted_by, row.acceptance_note)


def _read_incidents(session: Session, since: datetime) -> list[IncidentSpan]:
    event = aliased(AlertEvent)
    statement = (
        select(
            Incident.id, Incident.benchmark_id, Incident.agent_id, Incident.kpi, Incident.metric, Incident.state,
            Incident.resolution, Incident.started_seq, Incident.end_seq, Incident.started_at, Incident.opened_at,
            Incident.opened_run_id, Incident.resolved_at, Incident.resolved_run_id, Incident.resolved_by, Incident.note,
            Incident.verdict, Incident.acknowledged_at, Incident.acknowledged_by, event.note.label("acknowledgement"),
            func.cardinality(Incident.run_seqs).label("runs"),
            Incident.run_seqs[func.cardinality(Incident.run_seqs)].label("last_seq"),
            type_coerce(Incident.state_before, JSONB)["runSeq"].as_integer().label("judged_seq"),
            AlertState.run_seq.label("state_seq"),
        )
        .outerjoin(event, event.id == Incident.id)
        .outerjoin(
            AlertState,
            and_(AlertState.rule_id == Incident.rule_id, AlertState.agent_id == Incident.agent_id),
        )
        .where(
            or_(
                text(f"incidents.{UNRESOLVED}"),
                Incident.opened_at >= since,
                Incident.resolved_at >= since,
                Incident.acknowledged_at >= since,
            )
        )
        .order_by(Incident.opened_at.desc(), Incident.id)
        .limit(MAX_NEWS)
    )  # fmt: skip
    return [_incident_span(row) for row in session.execute(statement)]


def _incident_span(row: Any) -> IncidentSpan:
    return IncidentSpan(
        id=row.id,
        pair=Pair(row.benchmark_id, row.agent_id),
        kpi=row.kpi,
        metric=row.metric,
        state=row.state,
        resolution=row.resolution,
        started_seq=row.started_seq,
        end_seq=row.end_seq,
        last_seq=row.last_seq,
        runs=row.runs,
        started_at=row.started_at,
        opened_at=row.opened_at,
        opened_run_id=row.opened_run_id,
        resolved_at=row.resolved_at,
        resolved_run_id=row.resolved_run_id,
        judgement=judgement_of(
            row.verdict,
            (row.acknowledged_at, row.acknowledged_by, row.acknowledgement),
            row.resolution,
            (row.resolved_at, row.resolved_by, row.note),
        ),
        can_undo=row.resolution is None
        or (row.judged_seq is not None and row.judged_seq == row.state_seq),
    )


def _read_names(session: Session, pairs: Collection[Pair]) -> ChangeNames:
    if not pairs:
        return ChangeNames({}, {})
    benchmarks = select(Benchmark.id, Benchmark.metadata_).where(
        Benchmark.id.in_({pair.benchmark_id for pair in pairs}), Benchmark.archived.is_(False)
    )
    agents = select(Agent.id, Agent.name).where(
        Agent.id.in_({pair.agent_id for pair in pairs}), Agent.archived.is_(False)
    )
    return ChangeNames(
        {id_: name_of_benchmark(id_, metadata) for id_, metadata in session.execute(benchmarks)},
        {row.id: row.name for row in session.execute(agents)},
    )
