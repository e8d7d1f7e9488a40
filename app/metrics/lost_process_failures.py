"""Failures of metrics whose child process hung, died or ran out of memory."""

from app.jobs.process_pool import CallLost, CallTimeout, OutOfMemory
from app.metrics.types import MetricFailed, MetricFailureKind


def failure_of_lost_call(error: CallLost) -> MetricFailed:
    """The failure for a lost call."""
    kinds = {CallTimeout: MetricFailureKind.HANG, OutOfMemory: MetricFailureKind.OUT_OF_MEMORY}
    return MetricFailed(kinds.get(type(error), MetricFailureKind.DIED), str(error))
