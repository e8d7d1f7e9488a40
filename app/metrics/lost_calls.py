"""What is stored of a metric whose computation was lost with its child process."""

from app.jobs.pool import CallLost, CallTimeout, OutOfMemory
from app.metrics.types import MetricFailed, MetricFailureKind


def failure_of_lost_call(error: CallLost) -> MetricFailed:
    """How a call is counted that brought no answer."""
    kinds = {CallTimeout: MetricFailureKind.HANG, OutOfMemory: MetricFailureKind.OUT_OF_MEMORY}
    return MetricFailed(kinds.get(type(error), MetricFailureKind.DIED), str(error))
