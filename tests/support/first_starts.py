"""The body of a process in the test of concurrent first starts, in a module with few imports."""

from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from mosaico.access.service import ensure_first_admin_key
from mosaico.core.db import Database
from tests.support.waiting import LIVENESS_S


def make_first_key(url: str, folder: str, gate: Barrier, created: "Queue[bool]") -> None:
    db = Database(url, pool_size=1)
    # Connected before the barrier, so that the processes meet in
    # the function and not in the handshake.
    db.ping()
    gate.wait(LIVENESS_S)
    created.put(ensure_first_admin_key(db, Path(folder), None).created)
    db.dispose()
