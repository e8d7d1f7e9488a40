"""Every table of the service: importing this module completes the metadata."""

from app.access import models as access
from app.agents import models as agents
from app.alerts import models as alerts
from app.benchmarks import models as benchmarks
from app.core import batch_delete
from app.core.db import Base
from app.jobs import models as jobs
from app.kpis import models as kpis
from app.notifications import models as notifications
from app.results import models as runs
from app.schedules import models as schedules
from app.traces import models as traces
from app.triggers import models as triggers

__all__ = [
    "METADATA",
    "access",
    "agents",
    "alerts",
    "batch_delete",
    "benchmarks",
    "jobs",
    "kpis",
    "notifications",
    "runs",
    "schedules",
    "traces",
    "triggers",
]

METADATA = Base.metadata
