"""State of writing the scores of a run back to its source, as stored in `benchmark_runs.write_back`."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict


class WriteBackStatus(StrEnum):
    PENDING = "PENDING"
    WRITING = "WRITING"
    WRITTEN = "WRITTEN"
    FAILED = "FAILED"
    SUPERSEDED = "SUPERSEDED"


UNFINISHED = frozenset({WriteBackStatus.PENDING, WriteBackStatus.WRITING})

# Before position 0, so that KPIs come first and the cursor stays one number.
KPI_CURSOR = -1


class WriteBackState(BaseModel):
    """Progress and outcome of a write-back.

    `cursor` is the position of the next trace, `KPI_CURSOR` before the first and None after the
    last; `written` counts the scores that the source has accepted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: Literal[1] = 1
    status: WriteBackStatus
    # None by default: the column stores no empty fields.
    cursor: int | None = None
    written: int = 0
    error_code: str | None = None
    error: str | None = None

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    def moved_to(self, cursor: int | None, written: int) -> "WriteBackState":
        """The state after a batch; without a next trace the write-back is complete."""
        status = WriteBackStatus.WRITTEN if cursor is None else WriteBackStatus.WRITING
        return WriteBackState(status=status, cursor=cursor, written=written)

    def ended(self, status: WriteBackStatus, code: str, message: str) -> "WriteBackState":
        """The state after an error, with the progress until then."""
        return WriteBackState(
            status=status, cursor=self.cursor, written=self.written, error_code=code, error=message
        )
