"""Which picture of a run is drawn, and from what."""

import math
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.comparison import stored_runs
from app.comparison.flipped_items import item_means
from app.comparison.item_matrix import pair_items
from app.comparison.item_queries import read_items
from app.comparison.stored_runs import get_comparable_run
from app.core.errors import Invalid, NotFound
from app.core.resources import Resources
from app.kpis.models import KpiHistory
from app.kpis.queries import get_kpis_of_run
from app.kpis.verdicts import ValueVerdict
from app.metrics.registry import provider_for
from app.metrics.types import Direction
from app.reporting.charts import Change, ItemChange, Reading, changes_chart, items_chart, kpi_trend
from app.results.models import BenchmarkRun
from app.results.plan import RunPlan
from app.results.queries import get_run
from app.results.rules import Validity
from app.statistics.verdict import Verdict

RUNS_BACK = 60


class NothingToPlot(NotFound):
    """The run has no such KPI; `GET /api/v1/benchmark-runs/{runId}/kpis` lists those it has."""

    code = "nothing-to-plot"


def trend_picture(res: Resources, run_id: str, kpi: str | None) -> str:
    """A KPI of the agent up to this run; the first by name when none is named."""
    with res.db.read() as session:
        run = get_run(session, run_id)
        known = get_kpis_of_run(session, run.seq)
        chosen = [each for each in known if kpi in (None, each.kpi_id, each.name)]
        if not chosen:
            names = ", ".join(each.name for each in known) or "none"
            raise NothingToPlot(f"the run {run_id} has no KPI {kpi or 'at all'!r}; it has {names}")
        history = _history(session, run, chosen[0])
    readings = [found for each in reversed(history) if (found := _reading(*each))]
    title = f"{chosen[0].name} of {run.agent_id} in {run.benchmark_id}"
    return kpi_trend(title, readings, chosen[0].unit)


def changes_picture(res: Resources, run_id: str, against: str) -> str:
    """The KPIs of a run beside another one, its metrics where it has none."""
    found = stored_runs.compare_in_child(res.db, [against], run_id)
    verdicts = [(kpi.name, kpi.verdict) for kpi in found.kpis] or [
        (metric.metric, metric.verdict) for metric in found.metrics
    ]
    changes = [change for name, verdict in verdicts if (change := _change(name, verdict))]
    return changes_chart(f"{run_id} against {against}: changes with 95 % intervals", changes)


def items_picture(res: Resources, run_id: str, against: str, metric: str) -> str:
    """The change of each item that both runs have, by one metric."""
    with res.db.read() as session:
        runs = [get_comparable_run(session, each) for each in (against, run_id)]
        plans = [RunPlan.model_validate(run.plan) for run in runs]
        found = next((one for one in plans[1].metrics if one.column == metric), None)
        if found is None or metric not in plans[0].columns:
            raise Invalid(f"not both runs have the metric {metric!r}; name one that both have")
        base, candidate = (
            read_items(session, {run.seq: plan.columns}, [metric])
            for run, plan in zip(runs, plans, strict=True)
        )
    pairing = pair_items(base, candidate)
    before, after = (
        item_means(table, metric) if pairing.is_paired else {}
        for table in (pairing.baseline, pairing.candidate)
    )
    less = provider_for(found.ref).spec.direction is Direction.LOWER_IS_BETTER
    changes = [
        ItemChange(item, change)
        for item in after
        if item in before and math.isfinite(change := after[item] - before[item])
    ]
    return items_chart(
        f"{metric} item by item, {run_id} against {against}", changes, less_is_better=less
    )


def _change(name: str, verdict: ValueVerdict) -> Change | None:
    """The change to draw; None without an interval."""
    effect, margin = verdict.effect, verdict.margin
    if effect is None or margin is None or verdict.low is None or verdict.high is None:
        return None
    return Change(name, effect, verdict.low, verdict.high, margin, str(verdict.verdict))


class _Known(NamedTuple):
    """A value, and the fingerprint of its run."""

    kpi: KpiHistory
    fingerprint: str | None


def _history(session: Session, run: BenchmarkRun, kpi: KpiHistory) -> list[_Known]:
    """The values up to one run, newest first."""
    statement = (
        select(KpiHistory, BenchmarkRun.fingerprint)
        .join(BenchmarkRun, BenchmarkRun.seq == KpiHistory.run_seq)
        .where(
            KpiHistory.benchmark_id == run.benchmark_id,
            KpiHistory.agent_id == run.agent_id,
            KpiHistory.kpi_id == kpi.kpi_id,
            KpiHistory.id <= kpi.id,
        )
        .order_by(KpiHistory.id.desc())
        .limit(RUNS_BACK)
    )
    return [_Known(*row) for row in session.execute(statement)]


def _reading(kpi: KpiHistory, fingerprint: str | None) -> Reading | None:
    if kpi.value is None:
        return None
    verdict = kpi.verdict.verdict if kpi.verdict else None
    return Reading(
        label=f"{kpi.recorded_at:%Y-%m-%d}",
        value=kpi.value,
        low=kpi.interval_low,
        high=kpi.interval_high,
        verdict=Verdict.INVALID if kpi.validity != Validity.VALID else verdict,
        history=fingerprint,
    )
