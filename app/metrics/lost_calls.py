"""What is stored of a metric whose computation was lost with its child process."""

from app.jobs.pool import CallHung, CallLost, OutOfMemory
from app.metrics.types import Failed, FailureKind


def failure_of_loss(lost: CallLost) -> Failed:
    """How a call is counted that brought no answer."""
    kinds = {CallHung: FailureKind.HANG, OutOfMemory: FailureKind.OUT_OF_MEMORY}
    return Failed(kinds.get(type(lost), FailureKind.DIED), str(lost))
