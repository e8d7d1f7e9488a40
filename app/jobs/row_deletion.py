"""Jobs that delete many rows, after the request that made them unreachable."""

from sqlalchemy import ColumnElement

from app.core.batch_delete import delete_batch
from app.core.db import Base
from app.jobs.handlers import JobContext


def delete_rows(job: JobContext, table: type[Base], condition: ColumnElement[bool]) -> None:
    """Delete the rows that match a condition, in short transactions; a repeated job goes on."""
    deleted = 1
    while deleted:
        job.checkpoint()
        with job.resources.db.begin() as session:
            deleted = delete_batch(session, table, condition)
