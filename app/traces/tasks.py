"""Job handlers of uploads."""

from app.jobs.handlers import HANDLERS, JobContext
from app.jobs.row_deletion import delete_rows
from app.traces.models import LocalTrace


@HANDLERS.register("traces.drop_upload")
def drop_upload(job: JobContext, dataset_id: str) -> None:
    """Delete the lines of an upload that was deleted or replaced."""
    delete_rows(job, LocalTrace, LocalTrace.dataset_id == dataset_id)
