"""The registries of plugins: what is found rather than imported, from where, and what failed."""

from enum import StrEnum
from typing import Any

from app.core.registry import LoadedPlugin, Registry
from app.harness.bash.check_registry import CHECKS
from app.harness.mcp.evaluator_registry import EVALUATORS
from app.metrics.registry import METRICS
from app.notifications.registry import CHANNELS
from app.traces.files.importer_registry import IMPORTERS
from app.traces.registry import TRACE_SOURCES


class PluginKind(StrEnum):
    """The kinds of plugins; the value is the `kind` of the registry."""

    METRIC = "metric"
    TRACE_SOURCE = "trace source"
    IMPORTER = "importer"
    CHECK = "check"
    EVALUATOR = "evaluator"
    CHANNEL = "channel"


REGISTRIES: tuple[Registry[Any], ...] = (
    METRICS,
    TRACE_SOURCES,
    IMPORTERS,
    CHECKS,
    EVALUATORS,
    CHANNELS,
)


def loaded_plugins() -> list[LoadedPlugin]:
    """Return the plugins with their origin, including failed ones, ordered by kind."""
    return [entry for registry in REGISTRIES for entry in registry.loaded]
