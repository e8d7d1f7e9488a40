"""Table of the worker processes."""

from sqlalchemy import ARRAY, BigInteger, Text
from sqlalchemy.orm import Mapped, mapped_column

from mosaico.core.db import Base


class WorkerProcess(Base):
    """The origin of a worker process; `worker_id` is its ID in `procrastinate_workers`.

    `supervisor` identifies the `mosaico serve` that started it; empty without one. `instance`
    identifies the process. `queues` are those that the worker serves; None: all.
    """

    __tablename__ = "worker_processes"

    worker_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    machine: Mapped[str]
    boot_id: Mapped[str]
    supervisor: Mapped[str]
    instance: Mapped[str]
    queues: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
