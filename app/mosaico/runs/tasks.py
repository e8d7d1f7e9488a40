"""Job handlers of runs."""

import functools
import logging

from mosaico.jobs.declarations import (
    BeginRun,
    CheckLateScores,
    CollectTraces,
    DropPurgedRun,
    DropResults,
    DropTraces,
    EndLinks,
    FailRun,
    FailWriteBack,
    FinishRun,
    RemoveTexts,
    ScoreShard,
    WriteBackScores,
)
from mosaico.jobs.handlers import HANDLERS, HandlerFunction, JobContext, RequestT
from mosaico.run_store.queries import RunNotFound
from mosaico.runs import late_scores, pipeline, retention, text_retention, write_back
from mosaico.runs.leases import RunEnded

log = logging.getLogger(__name__)


def _unless_ended(step: HandlerFunction[RequestT]) -> HandlerFunction[RequestT]:
    """A step whose lease is void or whose run has ended or was deleted is dropped, not failed."""

    @functools.wraps(step)
    def do(job: JobContext, request: RequestT) -> None:
        try:
            step(job, request)
        except (RunEnded, RunNotFound) as ended:
            log.info("dropped the job %s (%s): %s", request.NAME, request, ended)

    return do


HANDLERS.register(BeginRun, on_failure=FailRun)(_unless_ended(pipeline.begin))
HANDLERS.register(CollectTraces, on_failure=FailRun)(_unless_ended(pipeline.collect_traces))
HANDLERS.register(ScoreShard, on_failure=FailRun)(_unless_ended(pipeline.score))
HANDLERS.register(FinishRun, on_failure=FailRun)(_unless_ended(pipeline.finish))
HANDLERS.register(FailRun)(_unless_ended(pipeline.on_failure))
HANDLERS.register(CheckLateScores)(_unless_ended(late_scores.check_late_scores))
HANDLERS.register(DropPurgedRun)(_unless_ended(retention.drop_purged))
HANDLERS.register(DropResults)(retention.drop_results)
HANDLERS.register(DropTraces)(retention.drop_traces)
HANDLERS.register(RemoveTexts)(text_retention.remove_texts)
HANDLERS.register(EndLinks)(retention.end_links)
HANDLERS.register(WriteBackScores, on_failure=FailWriteBack)(_unless_ended(write_back.write_back))
HANDLERS.register(FailWriteBack)(_unless_ended(write_back.write_back_failed))
