"""The registries of plugins: what is found rather than imported, from where, and what failed."""

from enum import StrEnum
from typing import Any

from mosaico.core.registry import LoadedPlugin, Registry
from mosaico.harness.bash.check_registry import CHECKS
from mosaico.harness.mcp.evaluator_registry import EVALUATORS
from mosaico.metrics.registry import METRICS
from mosaico.notifications.registry import CHANNELS
from mosaico.traces.files.importer_registry import IMPORTERS
from mosaico.traces.registry import TRACE_SOURCES


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
