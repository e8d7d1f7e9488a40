"""Judges a run of the service against its baseline."""

import contextlib
from dataclasses import replace

from mosaico.comparison.schemas import BaselineView, Comparison
from mosaico.core.console.api_calls import ApiCall, ApiRequest, fetch_items, fetch_model, full_id
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
    with_remarks,
)
from mosaico.kpis.schemas import KpiValueView
from mosaico.metrics.metric_names import column_of_name
from mosaico.run_store.rules import RunStatus, Validity
from mosaico.runs.schemas import RunView

PATH = "/benchmark-runs"


def gate_run(run_id: str, baseline: str | None, terms: GateTerms) -> ApiCall[GateResult]:
    """The gate result of a run of the service against another run, by default its own baseline.

    The registry of metrics must be loaded: the names of `terms` may be aliases.
    Raises: `WrongUsage` for a run that has not ended, `NothingToGate`, and the errors of the client.
    """
    run_id = yield from full_id(PATH, run_id)
    if baseline is not None:
        baseline = yield from full_id(PATH, baseline)
    run = yield from _get_ended_run(run_id)
    if run.status is not RunStatus.COMPLETED:
        return GateResult(
            outcome=GateOutcome.INVALID,
            candidate=run_id,
            baselines=[baseline] if baseline else [],
            reason=f"run {run_id} is {run.status}: {run.error_message or 'no details'}",
        )
    baselines = [baseline] if baseline else (yield from _find_baselines(run))
    if not baselines:
        return GateResult(
            outcome=GateOutcome.INCONCLUSIVE
            if run.validity is Validity.VALID
            else GateOutcome.INVALID,
            candidate=run_id,
            inconclusive_passes=passes_by_default(terms),
            reason=(run.verdict and run.verdict.reason) or "the run has no baseline",
        )
    terms = yield from _with_columns(run_id, terms)
    parameters = {
        "baseline": baselines,
        "candidate": run_id,
        "judge": terms.names or None,
        "about": terms.about,
        "runSd": None if terms.run_sd is None else str(terms.run_sd),
    }
    request = ApiRequest("GET", f"{PATH}/compare", parameters)
    comparison = yield from fetch_model(Comparison, request)
    return with_remarks(_with_ruler(decide(comparison, terms), run), is_file=False)


def _with_ruler(result: GateResult, run: RunView) -> GateResult:
    """The result with what says how the run is measured differently from the one before, which a
    baseline that was measured again does not show.
    """
    ruler = run.verdict.measured_differently if run.verdict else ()
    return replace(result, ruler=ruler or result.ruler)


def _with_columns(run_id: str, terms: GateTerms) -> ApiCall[GateTerms]:
    """The terms with the columns of metrics in place of aliases; names of KPIs stay."""
    if not terms.names:
        return terms
    request = ApiRequest("GET", f"{PATH}{path_of(run_id)}/kpis")
    views = yield from fetch_items(KpiValueView, request)
    kpis = {kpi.name for kpi in views}
    columns = {}
    for name in terms.names:
        # A metric that only the server has keeps its name.
        with contextlib.suppress(NotFound, Invalid):
            columns[name] = name if name in kpis else column_of_name(name)
    return terms.with_columns(columns, terms.requested)


def _get_ended_run(run_id: str) -> ApiCall[RunView]:
    """A run that has ended and has traces. Raises: `WrongUsage`, `NothingToGate`."""
    run = yield from fetch_model(RunView, ApiRequest("GET", f"{PATH}{path_of(run_id)}"))
    if not run.status.is_final:
        raise WrongUsage(
            f"run {run_id} has not ended: it is {run.status}",
            hint=f"mosaico runs watch {run_id}",
        )
    if run.status is RunStatus.COMPLETED and not run.traces_total:
        raise NothingToGate(f"run {run_id} has no traces; a gate never passes without any")
    return run


def _find_baselines(run: RunView) -> ApiCall[list[str]]:
    """The runs that a run was compared with when it ended; without any, the pinned one."""
    if run.verdict and run.verdict.baseline and run.verdict.baseline.run_ids:
        return list(run.verdict.baseline.run_ids)
    request = ApiRequest("GET", f"/benchmarks{path_of(run.benchmark_id)}/baseline")
    baseline = yield from fetch_model(BaselineView, request)
    pinned_ids = [pin.run_id for pin in baseline.pinned if pin.agent_id == run.agent_id]
    return [run_id for run_id in pinned_ids if run_id != run.id]
