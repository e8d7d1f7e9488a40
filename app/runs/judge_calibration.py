"""Judge calibration: compares the scores of a run's judge with gold scores of people."""

from collections.abc import Callable

from app.jobs.handlers import JobContext
from app.results.plan import PlannedJudgeCalibration
from app.results.rules import judge_error_reason
from app.runs.leases import RunLease
from app.runs.llm_metrics import measure_traces
from app.traces.types import Trace


def check_judge(job: JobContext, lease: RunLease, checkpoint: Callable[[], None]) -> str | None:
    """Why the judge of a run cannot be trusted; None when it can, or when no check is configured."""
    calibration = lease.plan.judge_calibration
    if calibration is None:
        return None
    rows = measure_traces(
        _calibration_traces(calibration),
        (calibration.metric.ref,),
        job=job,
        run_seq=lease.run_seq,
        checkpoint=checkpoint,
        # Answers of earlier runs would show the judge as it was then.
        cache_suffix=f"#run-{lease.run_seq}",
    )
    return judge_error_reason(
        calibration.metric.column,
        [answer["gold"] for answer in calibration.answers],
        [row.values[0] for row in rows],
        max_error=calibration.max_error,
    )


def _calibration_traces(calibration: PlannedJudgeCalibration) -> list[Trace]:
    return [
        Trace(
            trace_id=f"calibration-{number}",
            item_id=f"calibration-{number}",
            input=answer["input"],
            expected_output=answer["expected_output"],
            output=answer["output"],
        )
        for number, answer in enumerate(calibration.answers)
    ]
