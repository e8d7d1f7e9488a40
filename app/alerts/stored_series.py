"""The state and the verdict over runs that are stored with a run, for each of its series.

Where a REGRESSED rule watches a series, they are those of the rule; otherwise those of the default
promise. What people say about incidents applies to both.
"""

from collections.abc import Iterable

from sqlalchemy import update
from sqlalchemy.orm import Session

from app.alerts.evaluation.incident_rules import SeriesStep, accept_level, return_runs
from app.alerts.evaluation.rule_evidence import series_name
from app.alerts.models import AlertRule
from app.alerts.queries import list_enabled_rules
from app.alerts.rules import Condition
from app.kpis.models import KpiHistory
from app.results.models import RunMetricAggregate, RunSeries
from app.results.run_series import SeriesKind, list_open_series, parse_series
from app.statistics.sequential import DEFAULT_FALSE_PAGES


def leading_rules(rules: Iterable[AlertRule]) -> dict[str, str]:
    """By series, the ID of the REGRESSED rule whose verdict is stored: the one with the highest promise,
    which pages first.
    """
    leading: dict[str, str] = {}
    for rule in sorted(rules, key=_precedence):
        if rule.condition == Condition.REGRESSED:
            leading.setdefault(series_name(rule), rule.id)
    return leading


def store_step(
    session: Session, rule: AlertRule, agent_id: str, run_seq: int, step: SeriesStep
) -> None:
    """Replace what is stored with an earlier run, unless another rule leads its series."""
    series = series_name(rule)
    rules = list_enabled_rules(session, rule.benchmark_id, agent_id)
    if leading_rules(rules).get(series) != rule.id:
        return
    session.execute(
        update(RunSeries)
        .where(RunSeries.run_seq == run_seq, RunSeries.series == series)
        .values(state=step.state)
    )
    kind, key = parse_series(series)
    if kind is SeriesKind.KPI:
        row = update(KpiHistory).where(KpiHistory.run_seq == run_seq, KpiHistory.kpi_id == key)
    else:
        row = update(RunMetricAggregate).where(
            RunMetricAggregate.run_seq == run_seq, RunMetricAggregate.metric == key
        )
    session.execute(row.values(over_runs=step.evidence))


def accept_series(session: Session, run_seq: int) -> None:
    """Makes the level since a run the reference of the series whose open incident has the run."""
    for series in list_open_series(session, run_seq):
        assert series.state is not None
        if run_seq in series.state.runs:
            series.state = accept_level(series.state, run_seq)


def return_series(session: Session, run_seq: int) -> None:
    """Closes the incidents of the series that have a run as noise: their runs are ordinary."""
    for series in list_open_series(session, run_seq):
        assert series.state is not None
        if run_seq in series.state.runs:
            series.state = return_runs(series.state)


def _precedence(rule: AlertRule) -> tuple[float, str]:
    promise = rule.false_pages_per_month
    return -(DEFAULT_FALSE_PAGES if promise is None else promise), rule.id
