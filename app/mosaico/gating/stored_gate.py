"""Judges a run of the service against its baseline."""

import contextlib

from mosaico.comparison.schemas import BaselineView, Comparison
from mosaico.core.console.api_client import ApiClient
from mosaico.core.console.terminal import WrongUsage
from mosaico.core.errors import Invalid, NotFound
from mosaico.core.web.page_paths import path_of
from mosaico.gating.rules import (
    GateOutcome,
    GateResult,
    GateTerms,
    NothingToGate,
    decide,
    passes_by_default,
)
from mosaico.kpis.schemas import KpiValueView
from mosaico.metrics.metric_names import column_of_name
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.runs.schemas import RunView

PATH = "/benchmark-runs"


def gate_run(api: ApiClient, run_id: str, baseline: str | None, terms: GateTerms) -> GateResult:
    """The gate result of a run of the service against another run, by default its own baseline.

    The registry of metrics must be loaded: the names of `terms` may be aliases.
    Raises: `WrongUsage` for a run that has not ended, `NothingToGate`, and the errors of `api`.
    """
    run_id = api.full_id(PATH, run_id)
    baseline = None if baseline is None else api.full_id(PATH, baseline)
    run = _get_ended_run(api, run_id)
    if run.status is not RunStatus.COMPLETED:
        return GateResult(
            outcome=GateOutcome.INVALID,
            candidate=run_id,
            baselines=[baseline] if baseline else [],
            reason=f"run {run_id} is {run.status}: {run.error_message or 'no details'}",
        )
    baselines = [baseline] if baseline else _find_baselines(api, run)
    if not baselines:
        return GateResult(
            outcome=GateOutcome.INCONCLUSIVE
            if run.validity is Validity.VALID
            else GateOutcome.INVALID,
            candidate=run_id,
            inconclusive_passes=passes_by_default(terms),
            reason=(run.verdict and run.verdict.reason) or "the run has no baseline",
        )
    terms = _with_columns(api, run_id, terms)
    names = {"judge": terms.names} if terms.names else {}
    comparison = api.read(
        Comparison, f"{PATH}/compare", baseline=baselines, candidate=run_id, **names
    )
    return decide(comparison, terms)


def _with_columns(api: ApiClient, run_id: str, terms: GateTerms) -> GateTerms:
    """The terms with the columns of metrics in place of aliases; names of KPIs stay."""
    if not terms.names:
        return terms
    views = api.read_items(KpiValueView, f"{PATH}{path_of(run_id)}/kpis")
    kpis = {kpi.name for kpi in views}
    columns = {}
    for name in terms.names:
        # A metric that only the server has keeps its name.
        with contextlib.suppress(NotFound, Invalid):
            columns[name] = name if name in kpis else column_of_name(name)
    return terms.with_columns(columns, terms.requested)


def _get_ended_run(api: ApiClient, run_id: str) -> RunView:
    """A run that has ended and has traces. Raises: `WrongUsage`, `NothingToGate`."""
    run = api.read(RunView, f"{PATH}{path_of(run_id)}")
    if not run.status.is_final:
        raise WrongUsage(
            f"run {run_id} has not ended: it is {run.status}",
            hint=f"mosaico runs watch {run_id}",
        )
    if run.status is RunStatus.COMPLETED and not run.traces_total:
        raise NothingToGate(f"run {run_id} has no traces; a gate never passes without any")
    return run


def _find_baselines(api: ApiClient, run: RunView) -> list[str]:
    """The runs that a run was compared with when it ended; without any, the pinned one."""
    if run.verdict and run.verdict.baseline and run.verdict.baseline.run_ids:
        return list(run.verdict.baseline.run_ids)
    path = f"/benchmarks{path_of(run.benchmark_id)}/baseline"
    pinned = api.read(BaselineView, path).pinned
    pinned_ids = [pin.run_id for pin in pinned if pin.agent_id == run.agent_id]
    return [run_id for run_id in pinned_ids if run_id != run.id]
