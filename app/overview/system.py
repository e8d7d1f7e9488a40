"""The state of the service: versions, database, clocks, disk, workers, queues and broken plugins."""

import os
import platform
import shutil
from datetime import datetime, timedelta
from importlib.metadata import version

from sqlalchemy import text

from app.core.resources import Resources
from app.core.schemas import WireModel
from app.core.web.prometheus import UnfinishedJobStatus, query_queues
from app.jobs.queries import list_workers
from app.overview.providers import PluginKind, loaded_plugins

# A worker sends a heartbeat every 10 s.
SILENT_AFTER = timedelta(seconds=60)
_DATABASE = text(
    "SELECT current_setting('server_version'), pg_database_size(current_database()), clock_timestamp()"
)


class WorkerView(WireModel):
    """A worker process; one that is not alive has sent no heartbeat for a minute."""

    id: int
    machine: str | None
    last_heartbeat: datetime
    is_alive: bool
    jobs: int


class QueueView(WireModel):
    """The jobs of a queue that wait (todo) or run (doing), and the age of the oldest in seconds."""

    queue: str
    status: UnfinishedJobStatus
    jobs: int
    oldest_seconds: float


class PluginView(WireModel):
    """A plugin, where it comes from, and why it could not be loaded."""

    kind: PluginKind
    name: str
    origin: str
    error: str | None


class SystemView(WireModel):
    """The state of the service. It has no secret and no text of a user, so it can be sent to others."""

    version: str
    python: str
    platform: str
    processors: int
    now: datetime
    database_version: str
    database_bytes: int
    clock_difference_seconds: float
    disk_free_bytes: int
    disk_total_bytes: int
    workers: list[WorkerView]
    queues: list[QueueView]
    plugins: list[PluginView]


def read_system(res: Resources) -> SystemView:
    """The state of the service now."""
    with res.db.read() as session:
        database_version, database_bytes, database_now = session.execute(_DATABASE).one()
        workers = list_workers(session)
        now = res.clock()
    disk = shutil.disk_usage(res.data_dir)
    return SystemView(
        version=version("mosaico"),
        python=platform.python_version(),
        platform=platform.platform(),
        processors=os.cpu_count() or 1,
        now=now,
        database_version=database_version,
        database_bytes=database_bytes,
        clock_difference_seconds=round((now - database_now).total_seconds(), 3),
        disk_free_bytes=disk.free,
        disk_total_bytes=disk.total,
        workers=[
            WorkerView(
                **worker._asdict(), is_alive=database_now - worker.last_heartbeat < SILENT_AFTER
            )
            for worker in workers
        ],
        queues=[
            QueueView(
                queue=q.queue, status=q.status, jobs=q.depth, oldest_seconds=round(q.oldest_s, 1)
            )
            for q in query_queues(res.db)
        ],
        plugins=[
            PluginView(
                kind=PluginKind(plugin.kind),
                name=plugin.name,
                origin=plugin.origin,
                error=plugin.error,
            )
            for plugin in loaded_plugins()
        ],
    )
