"""The series that a rule watches."""

from mosaico.alerts.evaluation.watched_values import RuleTarget
from mosaico.alerts.models import AlertRule
from mosaico.alerts.rules import Condition
from mosaico.metrics.registry import column_of
from mosaico.run_store.series_points import kpi_series, metric_series


def series_name(rule: AlertRule) -> str:
    """The name of the series that a rule watches; only the mean of a metric has one."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.kpi_id is not None:
        return kpi_series(target.kpi_id)
    assert target.metric is not None, "checked when the rule was saved"
    return metric_series(column_of(target.metric.key))


def watches_levels(rule: AlertRule) -> bool:
    """Return whether a rule compares the stored levels of runs."""
    compares = rule.condition in (Condition.REGRESSED, Condition.ANOMALY_DETECTED)
    return compares and RuleTarget.of(rule.kpi, rule.metric).has_series
