"""Job handlers of uploads."""

from app.jobs.declarations import DropUpload
from app.jobs.handlers import HANDLERS, JobContext
from app.jobs.row_deletion import delete_rows
from app.traces.models import LocalTrace


@HANDLERS.register(DropUpload)
def drop_upload(job: JobContext, dropped: DropUpload) -> None:
    """Delete the lines of an upload that was deleted or replaced."""
    delete_rows(job, LocalTrace, LocalTrace.dataset_id == dropped.dataset_id)
