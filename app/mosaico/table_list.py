"""Every table of the service: importing this module completes the metadata."""

from mosaico.access import models as access
from mosaico.agents import models as agents
from mosaico.alerts import models as alerts
from mosaico.annotations import models as annotations
from mosaico.benchmarks import models as benchmarks
from mosaico.comparison import models as comparison
from mosaico.core import batch_delete
from mosaico.core.db import Base
from mosaico.jobs import models as jobs
from mosaico.kpis import models as kpis
from mosaico.notes import models as notes
from mosaico.notifications import models as notifications
from mosaico.overview import models as overview
from mosaico.project_file import models as project_file
from mosaico.run_store import models as runs
from mosaico.schedules import models as schedules
from mosaico.traces import models as traces
from mosaico.triggers import models as triggers

__all__ = [
    "METADATA",
    "access",
    "agents",
    "alerts",
    "annotations",
    "batch_delete",
    "benchmarks",
    "comparison",
    "jobs",
    "kpis",
    "notes",
    "notifications",
    "overview",
    "project_file",
    "runs",
    "schedules",
    "traces",
    "triggers",
]

METADATA = Base.metadata
