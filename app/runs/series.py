"""The KPIs and metrics of a run over its last runs: their levels, and the verdict over the runs."""

import logging
from collections.abc import Mapping

from app.alerts.incident_rules import advance_series, page_policy
from app.alerts.queries import list_watched_runs
from app.jobs.handlers import JobContext
from app.jobs.process_pool import CallLost
from app.results.run_history import find_repeated_run
from app.results.run_series import (
    ItemIndex,
    RunPoints,
    SeriesJudgment,
    SeriesPoint,
    StoredPoint,
    find_series_state,
    is_news,
    list_points,
    list_series_runs,
)
from app.statistics.sequential import RunLevel
from app.statistics.verdict_rules import Side

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0


def judge_series(job: JobContext, run_seq: int, points: RunPoints) -> Mapping[str, SeriesJudgment]:
    """Each series of a valid run with its verdict over the runs.

    One series at a time, so that memory holds the items of its runs once. Empty for a run that
    scores old traces again: it is no news of the agent.
    """
    with job.resources.db.read() as session:
        repeated = find_repeated_run(session, run_seq)
    if repeated is not None:
        return {
            series: _judge_jointly(job, repeated.seq, series, point, points.items)
            for series, point in points.series.items()
        }
    with job.resources.db.read() as session:
        if not is_news(session, run_seq):
            return {}
        runs = list_series_runs(session, run_seq)
    return {
        series: _judge(job, run_seq, series, point, points.items, runs)
        for series, point in points.series.items()
    }


def _judge(
    job: JobContext,
    run_seq: int,
    series: str,
    point: SeriesPoint,
    items: ItemIndex,
    runs: list[int],
) -> SeriesJudgment:
    job.checkpoint()
    with job.resources.db.read() as session:
        state = find_series_state(session, series, runs)
        # The reference of an open incident, also that of an alert rule, may be older than the last
        # runs.
        watched = list_watched_runs(session, run_seq)
        earlier = list_points(session, series, {*runs, *state.runs, *watched} - {run_seq})
    newest = StoredPoint(run_seq, point.scale, point.level, point.item_values, items)
    try:
        levels = job.pool.run(levels_in_child, [*earlier, newest], timeout_s=TIMEOUT_S)
    except (CallLost, ArithmeticError, ValueError):
        job.checkpoint()
        # The values of the run are correct all the same; later runs read its point.
        log.warning("the series %s of run %s was not judged", series, run_seq, exc_info=True)
        return SeriesJudgment(point=point, levels={}, state=state)
    if point.side is Side.BOTH:
        return SeriesJudgment(point=point, levels=levels)
    step = advance_series(state, levels, run_seq, page_policy(point.scale, point.side, levels))
    return SeriesJudgment(point=point, levels=levels, evidence=step.evidence, state=step.state)


def _judge_jointly(
    job: JobContext, repeated_seq: int, series: str, point: SeriesPoint, items: ItemIndex
) -> SeriesJudgment:
    """A series in a suspicious run and its repetition together; the level is that of the former."""
    job.checkpoint()
    with job.resources.db.read() as session:
        runs = {*list_series_runs(session, repeated_seq), *list_watched_runs(session, repeated_seq)}
        earlier = list_points(session, series, runs - {repeated_seq})
        alone = list_points(session, series, [repeated_seq])
    repetition = StoredPoint(repeated_seq, point.scale, point.level, point.item_values, items)
    try:
        levels = job.pool.run(
            joint_levels_in_child, earlier, [*alone, repetition], timeout_s=TIMEOUT_S
        )
    except (CallLost, ArithmeticError, ValueError):
        job.checkpoint()
        log.warning("the repetition of run %s was not judged", repeated_seq, exc_info=True)
        levels = {}
    return SeriesJudgment(point=point, levels=levels)


def joint_levels_in_child(
    earlier: list[StoredPoint], same_run: list[StoredPoint]
) -> dict[int, RunLevel]:
    """The levels of earlier runs and of one run with its repetition, for a child process: only there
    numpy is imported.
    """
    from app.comparison.series_levels import levels_of_points, merge_points

    return levels_of_points([*earlier, merge_points(same_run)])


def levels_in_child(points: list[StoredPoint]) -> dict[int, RunLevel]:
    """`levels_of_points` for a child process: only there numpy is imported."""
    from app.comparison.series_levels import levels_of_points

    return levels_of_points(points)
