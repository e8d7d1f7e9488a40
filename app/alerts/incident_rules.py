"""Incidents of a series of runs: when one opens, changes and closes; decided without a database.

A series is one KPI or metric of one agent in comparable runs. Its state says which runs are its
reference, and which runs belong to an open incident. Each valid run advances the state:

    no incident   a significant fall opens an incident: the runs of the fall leave the reference,
                  which is frozen. A significant rise starts a new reference.
    incident      evidence of recovery against the frozen reference closes it, and the recovered runs
                  join the reference. Another fall makes it worse; a rise that is no recovery is
                  "partly back". A person may accept the new level, or call the incident noise.

Runs inside an incident never enter the reference, except by `accept_level` and `return_runs`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.kpis.series_types import (
    OpenIncident,
    RunsEvidence,
    SeriesEvent,
    SeriesState,
    SeriesStatus,
)
from app.statistics.sequential import (
    DEFAULT_FALSE_PAGES,
    MAX_REFERENCE,
    RunLevel,
    Scan,
    Spread,
    WindowScore,
    estimate_spread,
    limit_of,
    scan_levels,
    score_effect,
)
from app.statistics.verdict_rules import Scale, Side

# Before the runs of a series have shown how they vary: three points of a share, 3 % of other values.
ORDINARY_CHANGE = 0.03
# A smaller fall is no reason to wake anybody, however certain it is.
MIN_EFFECT = 0.01
# An open incident remembers this number of its latest runs.
MAX_INCIDENT_RUNS = 60
RECOVERY_WINDOWS = (1, 2, 3, 5, 8, 14, 21)
INCIDENT_WINDOWS = (1, 2, 3, 5, 8)
# No evidence against the old level: closer to it than its one-sided 5 % limit.
NEAR = 1.64
# A: up to eight runs, near the old level and far above the rest of the incident.
REBOUND_RUNS = 8
REBOUND_Z = 3.7
# After a deep fall (at least three runs, two and a half standard deviations of a run below the old
# level on average) three runs near the old level need less: chance seldom takes them there.
DEEP_FALL = 2.5
DEEP_RUNS = 3
DEEP_REBOUND_Z = 2.6
# B: at least five runs, and not worse than the old level by two fifths of the fall.
NON_INFERIOR_RUNS = 5
NON_INFERIOR_Z = 2.5
MARGIN_OF_FALL = 0.4
# C: fourteen runs whose mean is within one standard error of the old level.
CLEAN_RUNS = 14
CLEAN_Z = 1.0
# D: after three runs near the old level, all runs of the incident together are no evidence any more.
UNCONFIRMED_RUNS = 3
UNCONFIRMED_Z = 1.5
# A rise inside an incident needs several runs: one good run is not a new level.
PARTLY_BACK_RUNS = 3
# A rise outside an incident splits the reference, and each split costs knowledge of the spread.
RISE_MARGIN = 1.5
# A further fall is looked for among few runs with a frozen spread.
WORSE_MARGIN = 0.6
MIN_INCIDENT_REFERENCE = 2
# A run is suspicious beyond this fraction of the limit, which is a z of 2.2 at the default promise.
SUSPICIOUS = 0.77


class PagePolicy(NamedTuple):
    """When a series pages.

    `false_pages_per_month` is the promise per series; `prior_sd` an ordinary change between runs;
    `falls_harm` says whether a lower level is worse. A fall of less than `min_effect` does not page.
    More than `keep_firing_for_runs` consecutive runs with evidence of recovery close an incident.
    """

    false_pages_per_month: float
    prior_sd: float
    falls_harm: bool = True
    min_effect: float = 0.0
    keep_firing_for_runs: int = 0


def page_policy(
    scale: Scale,
    side: Side,
    levels: Mapping[int, RunLevel],
    *,
    false_pages_per_month: float = DEFAULT_FALSE_PAGES,
    min_effect: float | None = None,
    keep_firing_for_runs: int = 0,
) -> PagePolicy:
    """The policy of a series. On the scale NUMBER, fractions are those of the mean level.

    `min_effect` is in the unit of the levels; None: one point of a share, 1 % of any other value.
    """
    unit = 1.0
    if scale is Scale.NUMBER and levels:
        unit = abs(math.fsum(run.level for run in levels.values()) / len(levels))
    return PagePolicy(
        false_pages_per_month=false_pages_per_month,
        prior_sd=ORDINARY_CHANGE * unit,
        falls_harm=side is Side.LOW,
        min_effect=MIN_EFFECT * unit if min_effect is None else min_effect,
        keep_firing_for_runs=keep_firing_for_runs,
    )


class SeriesStep(NamedTuple):
    """The state after a run, and what the run says."""

    state: SeriesState
    evidence: RunsEvidence

    @property
    def is_reference_lost(self) -> bool:
        return self.evidence.event is SeriesEvent.REFERENCE_LOST


class _View(NamedTuple):
    """The series as the rules read it: harm is always a fall."""

    levels: Mapping[int, RunLevel]
    policy: PagePolicy

    @property
    def limit(self) -> float:
        return limit_of(self.policy.false_pages_per_month)

    def of(self, runs: Sequence[int]) -> list[RunLevel]:
        sign = 1.0 if self.policy.falls_harm else -1.0
        return [
            level._replace(level=sign * level.level)
            for run in runs
            if (level := self.levels.get(run)) is not None
        ]

    def mean(self, runs: Sequence[int]) -> float:
        return _mean(self.of(runs))


def advance_series(
    state: SeriesState, levels: Mapping[int, RunLevel], run: int, policy: PagePolicy
) -> SeriesStep:
    """The state after one more valid run.

    `levels` holds the levels of the run and of `state.runs`; runs that are missing in it (deleted,
    or without items in common with the others) leave the state.
    """
    view = _View(levels, policy)
    state = _drop_missing(state, levels)
    if state.incident is not None:
        if sum(map(len, state.levels)) >= 1 and state.levels[-1]:
            return _advance_incident(state, state.incident, view, run)
        return _lose_reference(state.incident, view, run)
    return _advance_reference(state, view, run)


def needs_confirmation(evidence: RunsEvidence) -> bool:
    """Whether a run is repeated before it pages, where its source can: its evidence is close to the
    limit or above it, and no incident was open before it.

    All items are repeated: a repetition of the failed items alone would select bad luck. What is
    wrong with the whole evening of a provider is wrong in the repetition, too.
    """
    if evidence.z is None or evidence.z <= SUSPICIOUS * evidence.limit:
        return False
    return evidence.status is SeriesStatus.OK or evidence.event is SeriesEvent.OPENED


def accept_level(state: SeriesState, accepted: int | None = None) -> SeriesState:
    """Closes the incident: its present level is the new reference, from the `accepted` run on when
    one is given.
    """
    if state.incident is None:
        return state
    first = max(state.incident.level_runs[0], accepted or 0)
    runs = tuple(run for run in state.incident.runs if run >= first)
    return SeriesState(levels=_bounded((*state.levels, runs)))


def return_runs(state: SeriesState) -> SeriesState:
    """Closes the incident as noise: its runs are ordinary and join the reference.

    They become its oldest runs: they tell how runs vary, and no window of last runs has them, which
    would open the same incident again.
    """
    if state.incident is None:
        return state
    *earlier, reference = state.levels or ((),)
    return SeriesState(levels=_bounded((*earlier, (*state.incident.runs, *reference))))


def open_on_verdict(step: SeriesStep, run: int) -> SeriesStep:
    """The incident that the verdict of a run alone opens, while there are too few runs for evidence
    over runs. The step stays as it is when no earlier run is a reference.
    """
    if step.state.incident is not None or not step.state.levels:
        return step
    *earlier, current = step.state.levels
    reference = tuple(seq for seq in current if seq != run)
    if not reference:
        return step
    incident = OpenIncident(started=run, opened=run, runs=(run,), level_runs=(run,))
    evidence = step.evidence.model_copy(
        update={
            "status": SeriesStatus.FIRING,
            "event": SeriesEvent.OPENED,
            "reference": len(reference),
            "since": run,
        }
    )
    return SeriesStep(SeriesState(levels=(*earlier, reference), incident=incident), evidence)


def _advance_reference(state: SeriesState, view: _View, run: int) -> SeriesStep:
    *earlier, current = state.levels or ((),)
    runs = (*current, run)
    scan = scan_levels(
        view.of(runs),
        prior_sd=view.policy.prior_sd,
        earlier=[view.of(level) for level in earlier],
    )
    state = SeriesState(levels=_bounded((*earlier, runs)))
    if scan.fall is None or scan.rise is None:
        return SeriesStep(state, RunsEvidence(status=SeriesStatus.WARMUP, limit=view.limit))
    is_large = scan.fall.effect <= -view.policy.min_effect
    if scan.fall.z > view.limit and is_large:
        return _open(earlier, runs, scan.fall, view)
    if scan.rise.z < -(view.limit + RISE_MARGIN):
        split = len(runs) - scan.rise.width
        state = SeriesState(levels=_bounded((*earlier, runs[:split], runs[split:])))
        return SeriesStep(state, _evidence(scan.rise, runs, view, SeriesEvent.IMPROVED))
    return SeriesStep(state, _evidence(scan.fall, runs, view))


def _open(
    earlier: Sequence[tuple[int, ...]],
    runs: tuple[int, ...],
    fall: WindowScore,
    view: _View,
) -> SeriesStep:
    split = len(runs) - fall.width
    bad = runs[split:]
    incident = OpenIncident(started=bad[0], opened=bad[-1], runs=bad, level_runs=bad)
    state = SeriesState(levels=_bounded((*earlier, runs[:split])), incident=incident)
    return SeriesStep(state, _evidence(fall, runs, view, SeriesEvent.OPENED, is_open=True))


def _advance_incident(
    state: SeriesState, incident: OpenIncident, view: _View, run: int
) -> SeriesStep:
    incident = incident.model_copy(update={"runs": (*incident.runs, run)[-MAX_INCIDENT_RUNS:]})
    *earlier, reference = state.levels
    spread = estimate_spread(
        view.of(reference),
        prior_sd=view.policy.prior_sd,
        earlier=[view.of(level) for level in earlier],
        recent=view.of(incident.runs),
    )
    recovered = find_recovery(view, reference, incident, spread)
    if recovered:
        return _count_recovery(state, incident, recovered, view, spread)
    incident = incident.model_copy(update={"recovered": 0})
    event = None
    since = _since_level(incident)
    scan = scan_levels(
        view.of(since),
        prior_sd=view.policy.prior_sd,
        windows=INCIDENT_WINDOWS,
        min_reference=MIN_INCIDENT_REFERENCE,
        spread=spread,
    )
    change = _change_inside(scan, view.limit, view, reference, since)
    if change is not None:
        event, width = change
        incident = incident.model_copy(update={"level_runs": since[len(since) - width :]})
    state = SeriesState(levels=state.levels, incident=incident)
    score = _score_against(view, reference, incident.runs[-1:], spread)
    if event is not None:
        score = _score_against(view, reference, incident.level_runs, spread)
    return SeriesStep(state, _incident_evidence(score, incident, view, reference, event))


def _change_inside(
    scan: Scan, limit: float, view: _View, reference: Sequence[int], since: Sequence[int]
) -> tuple[SeriesEvent, int] | None:
    """A further fall or a partial recovery of an open incident, and the runs of it."""
    if scan.fall is None or scan.rise is None:
        return None
    if scan.fall.z > limit + WORSE_MARGIN:
        below = view.mean(since[len(since) - scan.fall.width :]) < view.mean(reference)
        return (SeriesEvent.WORSE, scan.fall.width) if below else None
    if scan.rise.z < -limit and scan.rise.width >= PARTLY_BACK_RUNS:
        return SeriesEvent.PARTLY_BACK, scan.rise.width
    return None


class _IncidentReference(NamedTuple):
    """The reference of an open incident: its level, and the variance of that level."""

    level: float
    variance: float
    spread: Spread

    def score(self, runs: Sequence[RunLevel], expected: float | None = None) -> float:
        """How far runs lie above an expected level (the reference, unless given), in standard errors."""
        distance = _mean(runs) - (self.level if expected is None else expected)
        return distance / math.sqrt(_variance_of_mean(runs, self.spread) + self.variance)


def find_recovery(
    view: _View, reference: Sequence[int], incident: OpenIncident, spread: Spread
) -> tuple[int, ...]:
    """The latest runs of an incident that are back on the reference; empty without evidence."""
    base = view.of(reference)
    frozen = _IncidentReference(_mean(base), _variance_of_mean(base, spread), spread)
    after = [run for run in incident.runs if run > incident.level_runs[-1]]
    widths = [width for width in RECOVERY_WINDOWS if width <= len(after)]
    for width in widths:
        if _is_recovered(view, tuple(after[-width:]), incident, frozen):
            return tuple(after[-width:])
    if _is_unconfirmed(view, after, incident, frozen):
        return tuple(after)
    return ()


def _is_recovered(
    view: _View, latest: tuple[int, ...], incident: OpenIncident, frozen: _IncidentReference
) -> bool:
    levels = view.of(latest)
    if frozen.score(levels) <= -NEAR:
        return False
    if len(latest) <= REBOUND_RUNS and _has_rebounded(view, latest, incident, frozen):
        return True
    if len(latest) >= NON_INFERIOR_RUNS:
        fall = frozen.level - view.mean(incident.level_runs)
        if frozen.score(levels, frozen.level - MARGIN_OF_FALL * fall) > NON_INFERIOR_Z:
            return True
    return len(latest) == CLEAN_RUNS and frozen.score(levels) > -CLEAN_Z


def _has_rebounded(
    view: _View, latest: tuple[int, ...], incident: OpenIncident, frozen: _IncidentReference
) -> bool:
    levels, spread = view.of(latest), frozen.spread
    earlier_level = view.of([run for run in incident.runs if run not in latest])
    variance = _variance_of_mean(levels, spread) + _variance_of_mean(earlier_level, spread)
    fall = frozen.level - _mean(earlier_level)
    is_deep = fall > DEEP_FALL * math.sqrt(spread.variance)
    is_long = min(len(levels), len(earlier_level)) >= DEEP_RUNS
    limit = DEEP_REBOUND_Z if is_deep and is_long else REBOUND_Z
    return _mean(levels) - _mean(earlier_level) > limit * math.sqrt(variance)


def _is_unconfirmed(
    view: _View, after: Sequence[int], incident: OpenIncident, frozen: _IncidentReference
) -> bool:
    is_first_level = incident.level_runs[0] == incident.started
    if len(after) < UNCONFIRMED_RUNS or not is_first_level:
        return False
    is_near = frozen.score(view.of(after)) > -NEAR
    return is_near and frozen.score(view.of(incident.runs)) > -UNCONFIRMED_Z


def _mean(levels: Sequence[RunLevel]) -> float:
    return math.fsum(level.level for level in levels) / len(levels)


def _variance_of_mean(levels: Sequence[RunLevel], spread: Spread) -> float:
    inverse_traces = math.fsum(1 / level.traces for level in levels)
    return spread.variance_of_mean(len(levels), inverse_traces)


def _count_recovery(
    state: SeriesState,
    incident: OpenIncident,
    recovered: tuple[int, ...],
    view: _View,
    spread: Spread,
) -> SeriesStep:
    incident = incident.model_copy(update={"recovered": incident.recovered + 1})
    reference = state.levels[-1]
    score = _score_against(view, reference, recovered, spread)
    if incident.recovered <= view.policy.keep_firing_for_runs:
        state = SeriesState(levels=state.levels, incident=incident)
        return SeriesStep(state, _incident_evidence(score, incident, view, reference, None))
    evidence = _incident_evidence(score, incident, view, reference, SeriesEvent.RESOLVED)
    return SeriesStep(
        _close(state, recovered), evidence.model_copy(update={"status": SeriesStatus.OK})
    )


def _close(state: SeriesState, returned: Sequence[int]) -> SeriesState:
    *earlier, reference = state.levels or ((),)
    return SeriesState(levels=_bounded((*earlier, (*reference, *returned))))


def _lose_reference(incident: OpenIncident, view: _View, run: int) -> SeriesStep:
    runs = (*(seq for seq in incident.runs if seq in view.levels), run)
    evidence = RunsEvidence(
        status=SeriesStatus.WARMUP, event=SeriesEvent.REFERENCE_LOST, limit=view.limit
    )
    return SeriesStep(SeriesState(levels=_bounded((runs,))), evidence)


def _since_level(incident: OpenIncident) -> tuple[int, ...]:
    first = incident.level_runs[0]
    return tuple(run for run in incident.runs if run >= first)


def _bounded(levels: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The newest 60 runs, grouped as before; the last group stays, even when it is empty."""
    kept_levels: list[tuple[int, ...]] = []
    room = MAX_REFERENCE
    for level in reversed(levels):
        kept_levels.append(tuple(level[max(0, len(level) - room) :]))
        room -= len(kept_levels[-1])
        if room <= 0:
            break
    return tuple(
        level
        for index, level in enumerate(reversed(kept_levels))
        if level or index == len(kept_levels) - 1
    )


def _drop_missing(state: SeriesState, levels: Mapping[int, RunLevel]) -> SeriesState:
    if all(run in levels for run in state.runs):
        return state
    groups = tuple(tuple(run for run in level if run in levels) for level in state.levels)
    incident = state.incident
    if incident is not None:
        runs = tuple(run for run in incident.runs if run in levels)
        level_runs = tuple(run for run in incident.level_runs if run in levels)
        # Without a level of its own, the incident is judged by all its runs.
        level_runs = level_runs or runs
        update = {"runs": runs, "level_runs": level_runs}
        incident = incident.model_copy(update=update) if level_runs else None
    return SeriesState(levels=groups, incident=incident)


def _score_against(
    view: _View, reference: Sequence[int], runs: Sequence[int], spread: Spread
) -> WindowScore:
    """Some runs against a frozen reference."""
    base, latest = view.of(reference), view.of(runs)
    effect = _mean(latest) - _mean(base)
    variance = _variance_of_mean(latest, spread) + _variance_of_mean(base, spread)
    return score_effect(len(latest), len(base), effect, variance, spread.degrees)


def _incident_evidence(
    score: WindowScore,
    incident: OpenIncident,
    view: _View,
    reference: Sequence[int],
    event: SeriesEvent | None,
) -> RunsEvidence:
    latest = view.mean(reference) + score.effect
    return _numbers(score, latest, view, event, since=incident.started, is_open=True)


def _evidence(
    score: WindowScore,
    runs: Sequence[int],
    view: _View,
    event: SeriesEvent | None = None,
    *,
    is_open: bool = False,
) -> RunsEvidence:
    window = runs[len(runs) - score.width :]
    return _numbers(score, view.mean(window), view, event, since=window[0], is_open=is_open)


def _numbers(
    score: WindowScore,
    level: float,
    view: _View,
    event: SeriesEvent | None,
    *,
    since: int,
    is_open: bool,
) -> RunsEvidence:
    sign = 1.0 if view.policy.falls_harm else -1.0
    half_width = 1.96 * score.standard_error
    low, high = sorted(sign * (score.effect + side * half_width) for side in (-1, 1))
    return RunsEvidence(
        status=SeriesStatus.FIRING if is_open else SeriesStatus.OK,
        event=event,
        z=score.z,
        limit=view.limit,
        width=score.width,
        reference=score.reference,
        level=sign * level,
        reference_level=sign * (level - score.effect),
        effect=sign * score.effect,
        low=low,
        high=high,
        since=since,
    )
