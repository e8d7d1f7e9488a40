"""Errors of metrics in a request."""

from app.core.errors import Invalid, NotFound


class InvalidMetricReference(Invalid):
    """A metric is a name, or an object with `key` and `options`; correct the one in the message."""

    code = "invalid-metric"


class InvalidMetricOption(Invalid):
    """A metric does not accept the value of an option; correct it as described in the message."""


class UnknownMetric(NotFound):
    """No metric has this name; GET /api/v1/metrics lists all metrics."""


class UnknownMetricOption(Invalid):
    """The metric has no such option; GET /api/v1/metrics lists the options of each metric."""


class UnknownStatistic(Invalid):
    """Metrics have no such statistic; use one of those in the message."""
