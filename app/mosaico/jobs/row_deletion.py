"""Jobs that change or delete many rows, after the request that decided it."""

from collections.abc import Callable

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from mosaico.core.batch_delete import delete_batch
from mosaico.core.db import Base
from mosaico.jobs.handlers import JobContext


def delete_rows(job: JobContext, table: type[Base], condition: ColumnElement[bool]) -> None:
    """Delete the rows that match a condition, in short transactions; a repeated job goes on."""
    repeat_batches(job, lambda session: delete_batch(session, table, condition))


def repeat_batches(job: JobContext, process_batch: Callable[[Session], int]) -> None:
    """Call a function that returns the size of its batch until that is 0, in a transaction each time."""
    while True:
        job.checkpoint()
        with job.resources.db.begin() as session:
            row_count = process_batch(session)
            if row_count:
                job.record_progress(session)
        if not row_count:
            return
