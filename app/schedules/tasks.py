"""The jobs of schedules: start what is due, count how it ended."""

from dataclasses import replace
from typing import NamedTuple

from app.agents.queries import get_agent
from app.agents.service import langfuse_query
from app.benchmarks.queries import get_benchmark
from app.core.errors import AppError, Unavailable
from app.core.resources import Resources
from app.jobs.handlers import HANDLERS, Job, describe
from app.runs.source_runs import ListedRun, complete_runs, matching
from app.schedules import firing, queries, service
from app.schedules.rules import FireStatus, SkipReason
from app.schedules.service import RunLister
from app.traces.registry import TraceQuery


class Search(NamedTuple):
    """Which run of a source a schedule wants to judge."""

    list_runs: RunLister
    query: TraceQuery
    pattern: str


@HANDLERS.handles("schedules.start", give_up="schedules.give_up")
def start(job: Job, fires: list[int]) -> None:
    """Start the runs of due instants; what is started stays so when the job is done again."""
    for fire in fires:
        job.checkpoint()
        try:
            _start(job.resources, fire)
        except Unavailable:
            raise
        except AppError as error:
            give_up(job, [fire], **describe(error))


@HANDLERS.handles("schedules.give_up")
def give_up(job: Job, fires: list[int], code: str, message: str) -> None:
    """No run could be started: that counts as a failure."""
    with job.resources.db.begin() as session:
        for fire in fires:
            firing.fail_fire(session, fire, code, message, job.resources.clock())


@HANDLERS.handles("schedules.settle")
def settle(job: Job, run_id: str) -> None:
    """Let the end of a run count for its schedule."""
    with job.resources.db.begin() as session:
        firing.settle(session, run_id, job.resources.clock())


def _start(res: Resources, fire: int) -> None:
    """Start one run; with a pattern, of the run that the source holds for it."""
    search = _search_of(res, fire)
    found = _newest_run(res, search) if search else None
    with res.db.begin() as session:
        if search and found is None:
            firing.skip_fire(session, fire, SkipReason.NO_NEW_RUN)
        else:
            firing.start_fire(session, fire, res.clock(), found)


def _search_of(res: Resources, seq: int) -> Search | None:
    """What to ask the source for; None when the instant names no pattern, or was done already."""
    with res.db.read() as session:
        fire = queries.find_fire(session, seq)
        plan = fire.plan if fire and fire.status == FireStatus.PENDING else None
        if not plan or plan["runNamePattern"] is None:
            return None
        benchmark = get_benchmark(session, plan["benchmarkId"])
        agent = get_agent(session, plan["agentId"])
        query = langfuse_query(agent, res.secrets, res.options.get("langfuse_default_url", ""))
        query = replace(query, dataset_ref=benchmark.dataset_ref)
        return Search(service.lister_of(benchmark.source), query, plan["runNamePattern"])


def _newest_run(res: Resources, search: Search) -> ListedRun | None:
    """The newest complete run that matches; over the network, so outside of any transaction."""
    listed = complete_runs(search.list_runs(res, search.query))
    return next(iter(matching(listed, search.pattern)), None)
