"""The KPIs and metrics of a run over its last runs: their levels, and the verdict over the runs."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from mosaico.alerts.evaluation.incident_rules import advance_series
from mosaico.alerts.evaluation.series_evidence import page_policy
from mosaico.alerts.queries import list_watched_runs
from mosaico.comparison.value_failures import ValueFailures, log_failures
from mosaico.jobs.handlers import JobContext
from mosaico.jobs.lost_calls import CallLost
from mosaico.kpis.series_types import SeriesState, SeriesVariation
from mosaico.run_store.run_result import RunPlace
from mosaico.run_store.run_series import (
    find_series_states,
    list_held_runs,
    list_item_indexes,
    list_series_runs,
    list_series_values,
)
from mosaico.run_store.series_points import (
    ItemIndex,
    RunPoints,
    SeriesPoint,
    SeriesResult,
    SeriesValues,
    StoredPoint,
)
from mosaico.runs.leases import RunLease
from mosaico.statistics.sequential import RunLevel
from mosaico.statistics.verdict_rules import Side
from mosaico.statistics.whole_runs import measure_runs

log = logging.getLogger(__name__)

TIMEOUT_S = 120.0
# Series are evaluated together, so that a run with few items needs one query and one call of a child.
BATCH_BYTES = 32 * 1024 * 1024
ITEM_BYTES = 4


class SeriesResults(NamedTuple):
    """The series of a run, with its items."""

    items: ItemIndex | None = None
    series: Mapping[str, SeriesResult] = MappingProxyType({})


def evaluate_series(
    job: JobContext,
    lease: RunLease,
    points: RunPoints,
    place: RunPlace,
    *,
    is_regressed: bool = False,
) -> SeriesResults:
    """Each series of a valid run with its verdict over the runs before its night. A late run leaves the states
    to the runs after it.

    No series for a run without new data: it contains no new measurement of the agent. A run that `is_regressed` does not
    tell how unchanged runs vary.
    """
    if not place.has_new_data:
        return SeriesResults(points.items)
    history = _read_history(job, lease.run_seq)
    if is_regressed:
        history = replace(history, held={*history.held, lease.run_seq})
    results = {
        series: result
        for batch in history.split(points.series)
        for series, result in _evaluate_batch(job, lease.run_seq, history, batch, points).items()
    }
    if place.is_late:
        results = {series: replace(result, state=None) for series, result in results.items()}
    return SeriesResults(points.items, results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """The runs before a run: those of its series, the states after them, and their items.

    `watched` are runs that an open incident of an alert rule is evaluated with; they may be older. `held` are runs on a bad
    level: a fall of the agent is no variation of unchanged runs, although no rule has paged about it.
    """

    runs: Collection[int]
    watched: Collection[int]
    states: Mapping[str, SeriesState]
    items: Mapping[int, ItemIndex]
    held: AbstractSet[int] = frozenset()

    def runs_of(self, series: str) -> set[int]:
        """The runs that a series is evaluated with. The reference of its open incident may be older."""
        return {*self.runs, *self.watched, *self.state(series).runs}

    def state(self, series: str) -> SeriesState:
        return self.states.get(series) or SeriesState()

    def split(self, series: Mapping[str, SeriesPoint]) -> Iterator[dict[str, SeriesPoint]]:
        """The series in batches whose values by item fit into `BATCH_BYTES`, at least one in each."""
        item_count = sum(len(items.traces) // ITEM_BYTES for items in self.items.values())
        size = max(BATCH_BYTES // (ITEM_BYTES * max(item_count, 1)), 1)
        names = iter(series)
        while batch := list(islice(names, size)):
            yield {name: series[name] for name in batch}


def _read_history(job: JobContext, run_seq: int) -> _History:
    job.checkpoint()
    with job.resources.db.read() as session:
        runs = list_series_runs(session, run_seq)
        watched = list_watched_runs(session, run_seq)
        states = find_series_states(session, runs)
        all_runs = {*runs, *watched, *(run for state in states.values() for run in state.runs)}
        items = list_item_indexes(session, all_runs - {run_seq})
        held = list_held_runs(session, all_runs)
    return _History(runs=runs, watched=watched, states=states, items=items, held=held)


def _evaluate_batch(
    job: JobContext,
    run_seq: int,
    history: _History,
    batch: Mapping[str, SeriesPoint],
    points: RunPoints,
) -> dict[str, SeriesResult]:
    job.checkpoint()
    with job.resources.db.read_statement() as session:
        stored = list_series_values(session, list(batch), list(history.items))
    runs_of = {series: history.runs_of(series) for series in batch}
    values = [value for value in stored if value.run_seq in runs_of[value.series]]
    values += [
        SeriesValues(series, run_seq, point.scale, point.level, point.item_values, point.assumed_sd)
        for series, point in batch.items()
    ]
    items = {**history.items, run_seq: points.items}
    try:
        levels = job.pool.run(levels_in_child, items, values, timeout_s=TIMEOUT_S)
    except CallLost:
        job.checkpoint()
        if len(batch) > 1:
            # One by one, so that only the series that the process cannot compute has no evidence.
            return {
                name: result
                for series, point in batch.items()
                for name, result in _evaluate_batch(
                    job, run_seq, history, {series: point}, points
                ).items()
            }
        levels = {}
    return {
        series: _result_of(run_seq, series, point, history, levels.get(series))
        for series, point in batch.items()
    }


def _result_of(
    run_seq: int,
    series: str,
    point: SeriesPoint,
    history: _History,
    levels: Mapping[int, RunLevel] | None,
) -> SeriesResult:
    state = history.state(series)
    if levels is None:
        # The values of the run are correct all the same; later runs read its point.
        log.warning("the series %s of run %s was not evaluated", series, run_seq)
        return SeriesResult(point=point, levels={}, state=state)
    if point.side is Side.BOTH:
        return SeriesResult(point=point, levels=levels)
    step = advance_series(state, levels, run_seq, page_policy(point.scale, point.side, levels))
    unchanged = [run for run in step.state.reference if run in levels and run not in history.held]
    measured = measure_runs([levels[run] for run in unchanged], point.scale)
    variation = None if measured is None else SeriesVariation(**measured._asdict())
    return SeriesResult(
        point=point,
        levels=levels,
        evidence=step.evidence,
        state=step.state.model_copy(update={"variation": variation or state.variation}),
    )


def levels_in_child(
    items: Mapping[int, ItemIndex], values: Sequence[SeriesValues]
) -> dict[str, dict[int, RunLevel]]:
    """The levels of each series, oldest run first, for a child process: only there numpy is imported.

    A series whose levels cannot be computed is left out.
    """
    from mosaico.comparison.series_levels import levels_of_points

    points: dict[str, list[StoredPoint]] = {}
    for value in values:
        points.setdefault(value.series, []).append(value.with_items(items[value.run_seq]))
    failures = ValueFailures()
    levels = {
        series: failures.attempt((series, None), partial(levels_of_points, series_points))
        for series, series_points in points.items()
    }
    # The values of the evaluated run are the last ones.
    log_failures(str(values[-1].run_seq) if values else "", failures.by_key)
    return {series: by_run for series, by_run in levels.items() if by_run is not None}
