"""Job handlers of runs."""

import functools
import logging
from collections.abc import Callable

from app.jobs.handlers import HANDLERS, JobContext
from app.results.queries import RunNotFound
from app.runs import pipeline, retention, write_back
from app.runs.leases import RunEnded
from app.runs.shards import SCORE_JOB

log = logging.getLogger(__name__)


def _unless_ended(step: Callable[..., None]) -> Callable[..., None]:
    """A step whose lease is void or whose run has ended or was deleted is dropped, not failed."""

    @functools.wraps(step)
    def do(job: JobContext, **arguments: object) -> None:
        try:
            step(job, **arguments)
        except (RunEnded, RunNotFound) as ended:
            log.info("dropped a step of run %s: %s", arguments.get("run_id"), ended)

    return do


STEPS: dict[str, Callable[..., None]] = {
    "runs.begin": pipeline.begin,
    "runs.collect": pipeline.collect_traces,
    SCORE_JOB: pipeline.score,
    "runs.finish": pipeline.finish,
}
for name, step in STEPS.items():
    HANDLERS.register(name, on_failure="runs.on_failure")(_unless_ended(step))

HANDLERS.register("runs.on_failure")(_unless_ended(pipeline.on_failure))
HANDLERS.register("runs.drop_purged")(_unless_ended(retention.drop_purged))
HANDLERS.register("runs.drop_results")(retention.drop_results)
HANDLERS.register("runs.drop_traces")(retention.drop_traces)
HANDLERS.register("runs.end_links")(retention.end_links)
HANDLERS.register("runs.write_back", on_failure="runs.write_back_failed")(
    _unless_ended(write_back.write_back)
)
HANDLERS.register("runs.write_back_failed")(_unless_ended(write_back.write_back_failed))
