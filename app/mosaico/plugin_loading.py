"""Everything that is found rather than imported: metrics, trace sources, importers, checks,
evaluators, channels; what failed.
"""

import logging

from mosaico.core.registry import LoadedPlugin
from mosaico.formula import register_metric_keys
from mosaico.harness.bash.check_registry import load_checks
from mosaico.harness.mcp.evaluator_registry import load_evaluators
from mosaico.metrics.registry import METRICS, load_metrics
from mosaico.notifications.registry import load_channels
from mosaico.traces.files.importer_registry import load_importers
from mosaico.traces.registry import load_trace_sources

log = logging.getLogger(__name__)


def load_plugins() -> None:
    """Fill every registry, once in a process; formulas may name the metrics from then on."""
    load_metrics(_warn)
    load_trace_sources(_warn)
    load_importers(_warn)
    load_checks(_warn)
    load_evaluators(_warn)
    load_channels(_warn)
    register_metric_keys({*METRICS.names(), *METRICS.aliases} - {"SCORE"})


def _warn(failure: LoadedPlugin) -> None:
    log.error(
        "the %s plugin %s from %s could not be loaded: %s",
        failure.kind,
        failure.name,
        failure.origin,
        failure.error,
    )
