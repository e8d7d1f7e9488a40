"""Constructed results of runs."""

from mosaico.kpis.verdict_types import RunVerdict, RunVerdicts
from mosaico.run_store.plan import RunPlan
from mosaico.run_store.rules import Validity, ValidityVerdict
from mosaico.run_store.run_result import RunResult

PLAN = RunPlan(
    benchmark_id="bench-001",
    benchmark_revision=1,
    agent_id="agent-001",
    agent_revision=1,
    source="local",
    dataset_ref=None,
    run_name=None,
    metrics=(),
    kpis=(),
    min_coverage=0.9,
    max_error_share=0.05,
)


def run_result(run_seq: int) -> RunResult:
    """The result of a valid run of bench-001 and agent-001 without metrics."""
    return RunResult(
        run_id=f"run-{run_seq}",
        run_seq=run_seq,
        plan=PLAN,
        fingerprint="f",
        trace_count=1,
        aggregates={},
        kpis=(),
        validity=ValidityVerdict(
            validity=Validity.VALID, reasons=(), coverage=1.0, error_share=0.0
        ),
        verdicts=RunVerdicts(
            run=RunVerdict(explanation="It was not compared."), metrics={}, kpis={}
        ),
    )
