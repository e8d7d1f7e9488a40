"""Judges a run of the service against its baseline."""

import contextlib
from typing import Any

from app.comparison.schemas import Comparison
from app.core.console.api_client import ApiClient, quote_segment
from app.core.console.terminal import WrongUsage
from app.core.errors import Invalid, NotFound
from app.gate.rules import (
    GateOutcome,
    GateResult,
    GateTerms,
    NothingToGate,
    decide,
    passes_by_default,
)
from app.metrics.metric_names import column_of_name
from app.results.rules import RunStatus

PATH = "/benchmark-runs"


def gate_run(api: ApiClient, run_id: str, baseline: str | None, terms: GateTerms) -> GateResult:
    """The gate result of a run of the service against another run, by default its own baseline.

    The registry of metrics must be loaded: the names of `terms` may be aliases.
    Raises: `WrongUsage` for a run that has not ended, `NothingToGate`, and the errors of `api`.
    """
    run_id = api.full_id(PATH, run_id)
    baseline = None if baseline is None else api.full_id(PATH, baseline)
    run = _get_ended_run(api, run_id)
    if run["status"] != "COMPLETED":
        return GateResult(
            outcome=GateOutcome.INVALID,
            candidate=run_id,
            baselines=[baseline] if baseline else [],
            reason=f"run {run_id} is {run['status']}: {run['errorMessage'] or 'no details'}",
        )
    baselines = [baseline] if baseline else _find_baselines(api, run)
    if not baselines:
        return GateResult(
            outcome=GateOutcome.INCONCLUSIVE if run["validity"] == "VALID" else GateOutcome.INVALID,
            candidate=run_id,
            inconclusive_passes=passes_by_default(terms),
            reason=run["verdict"]["reason"] or "the run has no baseline",
        )
    terms = _with_columns(api, run_id, terms)
    names = {"judge": terms.names} if terms.names else {}
    comparison = api.get(f"{PATH}/compare", baseline=baselines, candidate=run_id, **names)
    return decide(Comparison.model_validate(comparison), terms)


def _with_columns(api: ApiClient, run_id: str, terms: GateTerms) -> GateTerms:
    """The terms with the columns of metrics in place of aliases; names of KPIs stay."""
    if not terms.names:
        return terms
    kpis = {kpi["name"] for kpi in api.get(f"{PATH}/{quote_segment(run_id)}/kpis")["items"]}
    columns = {}
    for name in terms.names:
        # A metric that only the server has keeps its name.
        with contextlib.suppress(NotFound, Invalid):
            columns[name] = name if name in kpis else column_of_name(name)
    return terms.with_columns(columns, terms.requested)


def _get_ended_run(api: ApiClient, run_id: str) -> dict[str, Any]:
    """A run that has ended and has traces. Raises: `WrongUsage`, `NothingToGate`."""
    run = api.get(f"{PATH}/{quote_segment(run_id)}")
    if not RunStatus(run["status"]).is_final:
        raise WrongUsage(
            f"run {run_id} has not ended: it is {run['status']}",
            hint=f"mosaico runs watch {run_id}",
        )
    if run["status"] == RunStatus.COMPLETED and not run["tracesTotal"]:
        raise NothingToGate(f"run {run_id} has no traces; a gate never passes without any")
    return run


def _find_baselines(api: ApiClient, run: dict[str, Any]) -> list[str]:
    """The runs that a run was compared with when it ended; without any, the pinned one."""
    compared_ids = ((run["verdict"] or {}).get("baseline") or {}).get("runIds")
    if compared_ids:
        return list(map(str, compared_ids))
    pinned = api.get(f"/benchmarks/{quote_segment(run['benchmarkId'])}/baseline")["pinned"]
    pinned_ids = [pin["runId"] for pin in pinned if pin["agentId"] == run["agentId"]]
    return [run_id for run_id in pinned_ids if run_id != run["id"]]
