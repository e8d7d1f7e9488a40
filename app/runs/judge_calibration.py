"""Whether a judge still scores as it did when people gave the gold scores."""

from collections.abc import Callable

from app.jobs.handlers import Job
from app.results.plan import PlannedDrift
from app.results.rules import drift_reason
from app.runs.leases import RunLease
from app.runs.llm_metrics import measure_traces
from app.traces.types import Trace


def find_drift(job: Job, lease: RunLease, checkpoint: Callable[[], None]) -> str | None:
    """Why the judge of a run cannot be trusted; None where it can, or none is watched.

    It is asked anew in each run: answers that were kept would tell of the judge of then.
    """
    watched = lease.plan.judge_drift
    if watched is None:
        return None
    rows = measure_traces(
        _frozen(watched),
        (watched.metric.ref,),
        job=job,
        run_seq=lease.run_seq,
        checkpoint=checkpoint,
        kept_for=f"#run-{lease.run_seq}",
    )
    return drift_reason(
        watched.metric.column,
        [answer["gold"] for answer in watched.answers],
        [row.values[0] for row in rows],
        max_error=watched.max_error,
    )


def _frozen(watched: PlannedDrift) -> list[Trace]:
    return [
        Trace(
            trace_id=f"frozen-{number}",
            item_id=f"frozen-{number}",
            input=answer["input"],
            expected_output=answer["expected_output"],
            output=answer["output"],
        )
        for number, answer in enumerate(watched.answers)
    ]
