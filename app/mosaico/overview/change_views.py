"""Changes with their numbers, as the API returns them and pages show them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, select, text
from sqlalchemy.orm import Session

from mosaico.access.queries import list_caller_names
from mosaico.alerts.incident_queries import list_assignees
from mosaico.alerts.models import OPEN, AlertEvent
from mosaico.alerts.natural_scale import amount_of_change, value_of_level
from mosaico.alerts.rules import IncidentResolution
from mosaico.comparison.change_text import counting_ends
from mosaico.comparison.judge_text import describe_weak_judges
from mosaico.core.text import count_noun
from mosaico.kpis.models import KpiHistory
from mosaico.kpis.series_types import RunsEvidence
from mosaico.kpis.verdict_types import RunVerdict, ValueVerdict
from mosaico.overview import rules
from mosaico.overview.change_queries import ChangeNames
from mosaico.overview.change_schemas import (
    ChangedKpi,
    ChangeJudgement,
    ChangeView,
    ValueComparison,
)
from mosaico.overview.changes import (
    NEWS,
    Change,
    ChangeGroup,
    ChangeOutcome,
    StatedJudgement,
    group_changes,
)
from mosaico.run_store.attribute_queries import read_recorded_changes
from mosaico.run_store.models import BenchmarkRun
from mosaico.run_store.recorded_attributes import WhatChanged
from mosaico.run_store.rules import MAX_RETRIES, RETRYABLE
from mosaico.run_store.run_outcome import find_deciding, outcome_of_kpi, sort_kpis, verdict_of_run
from mosaico.statistics.verdict_rules import Scale

# More of a period are counted, and listed by the pages of runs and incidents.
MAX_SHOWN: Final = 200
_RUN_FIELDS: Final = select(
    BenchmarkRun.seq, BenchmarkRun.id, BenchmarkRun.status, BenchmarkRun.retry_count, BenchmarkRun.completed_at,
    BenchmarkRun.validity, BenchmarkRun.validity_reasons, BenchmarkRun.error_code, BenchmarkRun.error_message,
    BenchmarkRun.verdict,
)  # fmt: skip


class _Sources(NamedTuple):
    """What is read of all shown changes."""

    names: ChangeNames
    runs: Mapping[int, Row[Any]]
    kpis: Mapping[int, Sequence[KpiHistory]]
    keys: Mapping[str, str]
    unjudged: AbstractSet[str]
    baselines: Mapping[str, datetime]
    what_changed: Mapping[str, WhatChanged]
    assignees: Mapping[str, str]


def view_changes(
    session: Session, changes: Collection[Change], names: ChangeNames, since: datetime
) -> list[ChangeView]:
    """The changes of a period by group, in each the worst first; at most `MAX_SHOWN`."""
    shown = [
        (group, change)
        for group, members in group_changes(changes, since).items()
        for change in sorted(members, key=_recency)
    ][:MAX_SHOWN]
    sources = _read_sources(session, [change for _, change in shown], names)
    views = [
        _view(group, change, sources) for group, change in shown if change.run_seq in sources.runs
    ]
    order = list(ChangeGroup)
    return sorted(views, key=lambda view: (order.index(view.group), *_severity(view)))


def _recency(change: Change) -> float:
    return -change.began_at.timestamp()


def _severity(view: ChangeView) -> tuple[Any, ...]:
    """The worst outcome, then the KPIs of the gate, then the largest change."""
    kpi = view.kpi
    main = kpi.comparisons[0] if kpi and kpi.comparisons else None
    return (
        NEWS.index(view.outcome),
        not (kpi is not None and kpi.gate),
        -_relative_size(main) if main else 0.0,
        view.agent_name.lower(),
        view.benchmark_name.lower(),
    )


def _relative_size(change: ValueComparison) -> float:
    """The size of a change, comparable between shares, times and costs."""
    size = abs(change.effect or 0.0)
    is_number = change.scale is Scale.NUMBER and change.baseline_value
    return size / abs(change.baseline_value or 1.0) if is_number else size


def _read_sources(session: Session, changes: Collection[Change], names: ChangeNames) -> _Sources:
    seqs = {change.run_seq for change in changes}
    ended = {change.ended_seq for change in changes if change.ended_seq is not None}
    runs = {row.seq: row for row in session.execute(_RUN_FIELDS.where(BenchmarkRun.seq.in_(seqs)))}
    kpis: dict[int, list[KpiHistory]] = defaultdict(list)
    for kpi in session.scalars(select(KpiHistory).where(KpiHistory.run_seq.in_(seqs | ended))):
        kpis[kpi.run_seq].append(kpi)
    judges = {change.judgement.by for change in changes if change.judgement}
    incident_ids = [id_ for change in changes for id_ in change.incident_ids]
    unjudged = select(AlertEvent.id).where(AlertEvent.id.in_(incident_ids), text(OPEN))
    baseline_ids = [
        run.verdict.baseline.run_ids[0]
        for run in runs.values()
        if run.verdict and run.verdict.baseline and run.verdict.baseline.run_ids
    ]
    baselines = select(BenchmarkRun.id, BenchmarkRun.completed_at).where(
        BenchmarkRun.id.in_(baseline_ids)
    )
    ended_at = {row.id: row.completed_at for row in session.execute(baselines)}
    return _Sources(
        names,
        runs,
        kpis,
        list_caller_names(session, judges),
        {*session.scalars(unjudged)},
        ended_at,
        read_recorded_changes(session, [run.id for run in runs.values()]),
        list_assignees(session, {*incident_ids}),
    )


def _view(group: ChangeGroup, change: Change, sources: _Sources) -> ChangeView:
    run, kpis = sources.runs[change.run_seq], sort_kpis(sources.kpis.get(change.run_seq, ()))
    main = next((kpi for kpi in kpis if kpi.kpi_id in change.kpi_ids), None)
    verdict = verdict_of_run(run.validity, run.verdict.verdict if run.verdict else None)
    deciding = find_deciding(map(outcome_of_kpi, kpis), verdict)
    has_numbers = change.outcome in (ChangeOutcome.REGRESSED, ChangeOutcome.CHANGED)
    ended = [
        kpi
        for kpi in sources.kpis.get(change.ended_seq or 0, ())
        if main and kpi.kpi_id == main.kpi_id
    ]
    return ChangeView(
        group=group,
        outcome=change.outcome,
        benchmark_id=change.pair.benchmark_id,
        benchmark_name=sources.names.benchmarks[change.pair.benchmark_id],
        agent_id=change.pair.agent_id,
        agent_name=sources.names.agents[change.pair.agent_id],
        since=change.since,
        since_run_id=change.since_run_id,
        run_id=run.id,
        completed_at=run.completed_at,
        runs=change.runs,
        kpi=_kpi(main, run.verdict, sources.baselines, is_ongoing=group is ChangeGroup.ONGOING) if main else None,
        metric=change.metric,
        others=[_kpi(kpi, run.verdict, sources.baselines) for kpi in kpis if kpi is not main] if has_numbers else [],
        decided_by=deciding.name if deciding else None,
        explanation=rules.explain_run(run, change.outcome),
        weak_judges=_weak_judges(main, run.verdict) if has_numbers else [],
        what_changed=sources.what_changed.get(run.id),
        incident_ids=list(change.incident_ids),
        assignees=sorted({sources.assignees[id_] for id_ in change.incident_ids if id_ in sources.assignees}),
        unjudged_ids=[id_ for id_ in change.incident_ids if id_ in sources.unjudged],
        ended_at=change.ended_at,
        ended_run_id=change.ended_run_id,
        ended_value=ended[0].value if ended else None,
        resolution=IncidentResolution(change.resolution) if change.resolution else None,
        judgement=_judgement(change.judgement, sources.keys),
        can_retry=run.status in RETRYABLE and run.retry_count < MAX_RETRIES,
        can_undo=change.can_undo,
    )  # fmt: skip


def _weak_judges(kpi: KpiHistory | None, run: RunVerdict | None) -> list[str]:
    """The judges of a KPI, otherwise of the run, that agree too little with people."""
    verdict = kpi.verdict if kpi else run
    return describe_weak_judges(verdict.weak_judges) if verdict else []


def _judgement(
    judgement: StatedJudgement | None, keys: Mapping[str, str]
) -> ChangeJudgement | None:
    if judgement is None:
        return None
    by = judgement.by
    return ChangeJudgement(
        verdict=judgement.verdict,
        at=judgement.at,
        by=by,
        by_name=keys.get(by, by) if by else None,
        note=judgement.note,
    )


def _kpi(
    kpi: KpiHistory,
    run: RunVerdict | None,
    ended_at: Mapping[str, datetime],
    *,
    is_ongoing: bool = False,
) -> ChangedKpi:
    """A KPI with its comparisons: a change that goes on is one of the level, the last night alone says less."""
    alone = _with_baseline(kpi.verdict, run, ended_at) if kpi.verdict else None
    over_runs = _with_runs_before(kpi.over_runs, kpi) if kpi.over_runs else None
    comparisons = [over_runs, alone] if is_ongoing else [alone, over_runs]
    return ChangedKpi(
        kpi_id=kpi.kpi_id,
        name=kpi.name,
        unit=kpi.unit,
        gate=kpi.gate,
        value=kpi.value,
        verdict=outcome_of_kpi(kpi).verdict,
        comparisons=[comparison for comparison in comparisons if comparison is not None],
    )


def _with_baseline(
    verdict: ValueVerdict, run: RunVerdict | None, ended_at: Mapping[str, datetime]
) -> ValueComparison | None:
    if verdict.effect is None:
        return None
    baseline = run.baseline if run else None
    count = len(baseline.run_ids) if baseline else 0
    against = "the pinned run" if baseline and baseline.mode == "PINNED" else "the run before"
    newest_id = baseline.run_ids[0] if baseline and baseline.run_ids else None
    low, high = counting_ends(verdict)
    return ValueComparison(
        against=against if count <= 1 else f"the mean of {count} runs before",
        baseline_run_id=newest_id,
        baseline_at=ended_at.get(newest_id or ""),
        baseline_value=verdict.baseline_value,
        value=verdict.value,
        effect=verdict.effect,
        low=low,
        high=high,
        scale=verdict.scale,
        items=verdict.items,
        is_adjusted=verdict.low_adjusted not in (None, verdict.low),
    )


def _with_runs_before(evidence: RunsEvidence, kpi: KpiHistory) -> ValueComparison | None:
    """The level of the last runs beside that of the runs before them, on the scale of the value."""
    if evidence.effect is None or evidence.level is None or evidence.reference_level is None:
        return None
    scale = kpi.verdict.scale if kpi.verdict else None
    is_relative = scale is Scale.RATIO
    level, before = (
        value_of_level(value, evidence, is_relative=is_relative)
        for value in (evidence.level, evidence.reference_level)
    )
    effect, low, high = (
        None if value is None else amount_of_change(value, is_relative=is_relative)
        for value in (evidence.effect, evidence.low, evidence.high)
    )
    width = evidence.width or 1
    runs = f"the {count_noun(evidence.reference, 'run')} before"
    return ValueComparison(
        against=runs if width == 1 else f"{runs}, the last {width} runs together",
        baseline_value=before,
        value=level,
        effect=effect,
        low=low,
        high=high,
        scale=scale,
    )
