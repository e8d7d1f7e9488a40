"""An alert rule in words: what it watches and when it fires."""

from sqlalchemy.orm import Session

from mosaico.alerts.rules import Condition
from mosaico.alerts.schemas import AlertConfigBody, AlertConfigView
from mosaico.benchmarks.queries import get_kpis
from mosaico.core.text import format_number

_WORDS = {
    Condition.LESS_THAN: "is below {}",
    Condition.GREATER_THAN: "is above {}",
    Condition.EQUALS: "equals {}",
    Condition.NOT_EQUALS: "differs from {}",
    Condition.PERCENTAGE_DROP: "falls by {} %",
    Condition.PERCENTAGE_RISE: "rises by {} %",
    Condition.ANOMALY_DETECTED: "is an anomaly among earlier runs",
    Condition.REGRESSED: "regressed",
}


def watched_name(session: Session, rule: AlertConfigBody | AlertConfigView) -> str:
    """The name of the KPI or the metric that a rule watches; its ID when the KPI was deleted."""
    if rule.kpi is None:
        return rule.metric or ""
    kpis = get_kpis(session, rule.benchmark_id)
    return next((kpi.name for kpi in kpis if kpi.id == rule.kpi), rule.kpi)


def describe_condition(name: str, rule: AlertConfigBody | AlertConfigView) -> str:
    """Describe when a rule fires: "pass rate falls by 10 %, mean of 5 runs, in 2 runs"."""
    threshold = "" if rule.threshold is None else format_number(abs(rule.threshold))
    if not rule.condition.uses_history and rule.threshold is not None:
        threshold = format_number(rule.threshold)
    parts = [f"{name} {_WORDS[rule.condition].format(threshold)}"]
    if rule.condition in (Condition.PERCENTAGE_DROP, Condition.PERCENTAGE_RISE):
        parts.append(f"against the mean of {rule.baseline_runs} runs")
    if rule.for_runs > 1:
        parts.append(f"in {rule.for_runs} runs")
    return ", ".join(parts)
