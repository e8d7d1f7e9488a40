"""Table of the worker processes."""

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class WorkerProcess(Base):
    """The machine of a worker process; `worker_id` is its ID in `procrastinate_workers`.

    A process that stops in order deletes its row: whatever becomes of its jobs then, it did not die.
    """

    __tablename__ = "worker_processes"

    worker_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    machine: Mapped[str]
