"""Judges a file of results against another one, without a server."""

from collections.abc import Mapping

from app.comparison.pair_comparison import compare
from app.gate.offline_gate import pair_files
from app.gate.offline_metrics import OfflineMetrics, select_metrics
from app.gate.rules import GateResult, GateTerms, decide
from app.metrics.offline_models import OfflineModels
from app.traces.files.import_file import ResultSource
from app.traces.files.trace_file import TraceReader


def select_gated(
    metrics: str | None,
    kpis: Mapping[str, str],
    terms: GateTerms,
    models: OfflineModels | None = None,
) -> OfflineMetrics:
    """The metrics and KPIs that the terms and the user name. Raises as `select_metrics`."""
    limited = [*terms.max_drop, *terms.non_inferiority_margins]
    return select_metrics(metrics, kpis, limited=limited, models=models)


def gate_files(
    baseline: ResultSource,
    candidate: ResultSource,
    selected: OfflineMetrics,
    terms: GateTerms,
    reader: TraceReader,
) -> GateResult:
    """The gate result of two files with these metrics. Imports numpy and scipy.

    Raises: the errors of `reader`, and `NothingToGate`.
    """
    requested = terms.with_columns(selected.columns, selected.requested)
    return decide(
        compare(pair_files(baseline, candidate, selected, reader, requested.names)), requested
    )
