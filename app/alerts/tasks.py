"""The job of alerts that others ask for by name: a schedule that did not run."""

from app.alerts.schemas import EventState
from app.alerts.service import RunNotice, tell_notice
from app.jobs.handlers import HANDLERS, Job


@HANDLERS.handles("alerts.schedule_missed")
def schedule_missed(
    job: Job,
    *,
    schedule_id: str,
    name: str,
    benchmark_id: str,
    agent_id: str,
    due_at: str,
    reason: str,
) -> None:
    """Tell that a schedule started nothing at an instant at which it was to run; once for each.

    `due_at` is ISO 8601, `reason` a part of a sentence.
    """
    notice = RunNotice(
        state=EventState.SCHEDULE_MISSED,
        once=f"schedule-missed/{schedule_id}/{due_at}",
        name=name,
        benchmark_id=benchmark_id,
        agent_id=agent_id,
        explanation=f"The schedule {schedule_id} was due at {due_at} and started no run: {reason}.",
    )
    with job.resources.db.begin() as session:
        tell_notice(session, notice, job.resources.clock())
