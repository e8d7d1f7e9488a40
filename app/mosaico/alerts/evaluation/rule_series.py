"""The series that a rule watches."""

from mosaico.alerts.evaluation.watched_values import RuleTarget
from mosaico.alerts.models import AlertRule
from mosaico.metrics.registry import column_of
from mosaico.run_store.run_series import kpi_series, metric_series


def series_name(rule: AlertRule) -> str:
    """The name of the series that a rule watches; only the mean of a metric has one."""
    target = RuleTarget.of(rule.kpi, rule.metric)
    if target.kpi_id is not None:
        return kpi_series(target.kpi_id)
    assert target.metric is not None, "checked when the rule was saved"
    return metric_series(column_of(target.metric.key))
