"""The state of the service: versions, database, clocks, disk, workers, queues and broken plugins."""

import os
import platform
import shutil
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Annotated

from pydantic import Field
from sqlalchemy import text

from mosaico.core.resources import Resources
from mosaico.core.schemas import WireModel
from mosaico.core.web.prometheus import UnfinishedJobStatus, query_queues
from mosaico.jobs.queries import list_workers
from mosaico.overview.providers import PluginKind, loaded_plugins
from mosaico.overview.system_checks import (
    MachineState,
    SystemCheck,
    list_checks,
    read_stored_state,
)

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
    is_healthy: Annotated[bool, Field(description="Whether every check is ok.")]
    checks: Annotated[list[SystemCheck], Field(description="The checks, failed ones first.")]


def read_system(res: Resources) -> SystemView:
    """The state of the service now."""
    with res.db.read() as session:
        database_version, database_bytes, database_now = session.execute(_DATABASE).one()
        workers = [
            WorkerView(
                **worker._asdict(), is_alive=database_now - worker.last_heartbeat < SILENT_AFTER
            )
            for worker in list_workers(session)
        ]
        now = res.clock()
        stored = read_stored_state(session, database_now, is_pooled=res.db.direct_url != res.db.url)
    disk = shutil.disk_usage(res.data_dir)
    queues, plugins = query_queues(res.db), loaded_plugins()
    machine = MachineState(
        disk_free_bytes=disk.free,
        clock_difference=now - database_now,
        alive_workers=sum(worker.is_alive for worker in workers),
        workers=len(workers),
        broken_plugins=[f"{plugin.kind} {plugin.name}" for plugin in plugins if plugin.error],
    )
    checks = list_checks(stored, machine, queues, f"Postgres {database_version}")
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
        workers=workers,
        queues=[
            QueueView(
                queue=q.queue, status=q.status, jobs=q.depth, oldest_seconds=round(q.oldest_s, 1)
            )
            for q in queues
        ],
        plugins=[
            PluginView(
                kind=PluginKind(plugin.kind),
                name=plugin.name,
                origin=plugin.origin,
                error=plugin.error,
            )
            for plugin in plugins
        ],
        is_healthy=all(check.ok for check in checks),
        checks=checks,
    )
