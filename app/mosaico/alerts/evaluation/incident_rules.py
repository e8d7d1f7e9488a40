"""Incidents of a series of runs: when one opens, changes and closes; decided without a database.

A series is one KPI or metric of one agent in comparable runs. Its state contains the reference runs
and the runs of an open incident. Each valid run advances the state:

    no incident   a significant fall opens an incident: the runs of the fall leave the reference,
                  which is frozen. A significant rise starts a new reference.
    incident      evidence of recovery against the frozen reference closes it, and the recovered runs
                  join the reference. Another fall makes it worse; a rise that is not a recovery is
                  "partly back". A person may accept the new level, or call the incident noise and
                  take that back.

Runs inside an incident never enter the reference, except by `accept_level` and `return_runs`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mosaico.alerts.evaluation.fall_sums import score_sum_of_falls
from mosaico.alerts.evaluation.recovery_rules import find_recovery
from mosaico.alerts.evaluation.series_evidence import (
    PagePolicy,
    SeriesView,
    incident_evidence,
    score_against,
    window_evidence,
)
from mosaico.kpis.series_types import (
    OpenIncident,
    RunsEvidence,
    SeriesEvent,
    SeriesState,
    SeriesStatus,
)
from mosaico.statistics.sequential import (
    MAX_REFERENCE,
    RunLevel,
    Scan,
    Spread,
    WindowScore,
    estimate_spread,
    limit_of,
    scan_levels,
)

# An open incident remembers this number of its latest runs.
MAX_INCIDENT_RUNS = 60
INCIDENT_WINDOWS = (1, 2, 3, 5, 8)
# A rise inside an incident needs several runs: one good run is not a new level.
PARTLY_BACK_RUNS = 3
# A rise outside an incident splits the reference, and each split costs knowledge of the spread.
RISE_MARGIN = 1.5
# A further fall is looked for among few runs with a frozen spread.
WORSE_MARGIN = 0.6
MIN_INCIDENT_REFERENCE = 2
# An incident that recovered, and may have been chance, takes so many parts of the limit of false alarms; one part is left
# for the next page. One that would have opened at the stricter limit was no chance.
RECOVERY_PARTS = 6
STRICT_FALSE_PAGES = 1 / 600


class SeriesStep(NamedTuple):
    """The state after a run, and the evidence of the run."""

    state: SeriesState
    evidence: RunsEvidence

    @property
    def is_reference_lost(self) -> bool:
        return self.evidence.event is SeriesEvent.REFERENCE_LOST


def advance_series(
    state: SeriesState, levels: Mapping[int, RunLevel], run: int, policy: PagePolicy
) -> SeriesStep:
    """The state after one more valid run.

    `levels` holds the levels of the run and of `state.runs`; runs that are missing in it (deleted,
    or without items in common with the others) leave the state.
    """
    state = _drop_missing(state, levels)
    view = SeriesView(levels, _after_recoveries(policy, state))
    if state.incident is not None:
        if sum(map(len, state.levels)) >= 1 and state.levels[-1]:
            return _advance_incident(state, state.incident, view, run)
        return _lose_reference(state.incident, view, run)
    return _advance_reference(state, view, run)


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
    """Closes the incident as noise: its runs are ordinary and join the reference."""
    if state.incident is None:
        return state
    return with_noise(state.model_copy(update={"incident": None}), state.incident.runs)


def with_noise(state: SeriesState, runs: Sequence[int]) -> SeriesState:
    """A state whose reference also has the runs of an incident that was noise.

    They become its oldest runs: they contribute to the variation between runs, and no window of the
    last runs contains them, which would open the same incident again. A run of another time stands
    between two of them: otherwise a dip of two runs would look like a correlation of all neighbors, and
    hide a lasting fall of the same size.
    """
    *earlier, reference = state.levels or ((),)
    ordinary = _runs_in_order(reference)
    noise = _moved_runs(reference)
    noise += [run for run in runs if run not in state.runs]
    surplus = max(0, len(noise) - len(ordinary))
    mixed = noise[:surplus]
    for run, neighbor in zip(noise[surplus:], ordinary, strict=False):
        mixed += [run, neighbor]
    mixed += ordinary[len(noise) - surplus :]
    recoveries = tuple(run for run in state.recoveries if run not in runs)
    return state.model_copy(
        update={"levels": _bounded((*earlier, mixed)), "recoveries": recoveries}
    )


def without_noise(state: SeriesState, runs: Sequence[int]) -> SeriesState:
    """A state whose reference is without those of the runs that `with_noise` has put into it: they were no noise."""
    *earlier, reference = state.levels or ((),)
    withdrawn = {*runs} & {*_moved_runs(reference)}
    if not withdrawn:
        return state
    kept = tuple(run for run in reference if run not in withdrawn)
    return state.model_copy(update={"levels": _bounded((*earlier, kept))})


def _moved_runs(runs: Sequence[int]) -> list[int]:
    """The runs that `with_noise` moved."""
    ordinary = _runs_in_order(runs)
    return [run for run in runs if run not in ordinary]


def _runs_in_order(runs: Sequence[int]) -> list[int]:
    """The runs that are older than all runs after them: all but those that `with_noise` moved."""
    ordered = list[int]()
    for run in reversed(runs):
        if not ordered or run < ordered[-1]:
            ordered.append(run)
    return ordered[::-1]


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
    state = step.state.model_copy(update={"levels": (*earlier, reference), "incident": incident})
    return SeriesStep(state, evidence)


def _advance_reference(state: SeriesState, view: SeriesView, run: int) -> SeriesStep:
    *earlier, current = state.levels or ((),)
    runs = (*current, run)
    run_levels, earlier_levels = view.of(runs), [view.of(level) for level in earlier]
    prior_sd = view.policy.prior_sd
    scan = scan_levels(run_levels, prior_sd=prior_sd, earlier=earlier_levels)
    state = state.model_copy(update={"levels": _bounded((*earlier, runs))})
    if scan.fall is None or scan.rise is None:
        return SeriesStep(state, RunsEvidence(status=SeriesStatus.WARMUP, limit=view.limit))
    sum_z = score_sum_of_falls(run_levels, prior_sd=prior_sd, earlier=earlier_levels)
    z = max(scan.fall.z, sum_z)
    if z > view.limit and scan.fall.effect <= -view.policy.min_effect:
        # Whichever is sure of the fall, the strongest window dates it and says how large it is.
        return _open(state, scan.fall._replace(z=z), view)
    if scan.rise.z < -(view.limit + RISE_MARGIN):
        split = len(runs) - scan.rise.width
        levels = _bounded((*earlier, runs[:split], runs[split:]))
        state = state.model_copy(update={"levels": levels})
        return SeriesStep(state, window_evidence(scan.rise, runs, view, SeriesEvent.IMPROVED))
    return SeriesStep(state, window_evidence(scan.fall, runs, view))


def _open(state: SeriesState, fall: WindowScore, view: SeriesView) -> SeriesStep:
    *earlier, runs = state.levels
    split = len(runs) - fall.width
    bad = runs[split:]
    incident = OpenIncident(started=bad[0], opened=bad[-1], runs=bad, level_runs=bad)
    levels = _bounded((*earlier, runs[:split]))
    state = state.model_copy(update={"levels": levels, "incident": incident})
    return SeriesStep(state, window_evidence(fall, runs, view, SeriesEvent.OPENED, is_open=True))


def _advance_incident(
    state: SeriesState, incident: OpenIncident, view: SeriesView, run: int
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
    before_change: tuple[int, ...] = ()
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
        split = len(since) - width
        before_change = since[:split]
        incident = incident.model_copy(update={"level_runs": since[split:]})
    state = state.model_copy(update={"incident": incident})
    score = score_against(view, reference, incident.runs[-1:], spread)
    if event is not None:
        score = score_against(view, reference, incident.level_runs, spread)
    return SeriesStep(
        state, incident_evidence(score, incident, view, reference, event, before_change)
    )


def _change_inside(
    scan: Scan, limit: float, view: SeriesView, reference: Sequence[int], since: Sequence[int]
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


def _count_recovery(
    state: SeriesState,
    incident: OpenIncident,
    recovered: tuple[int, ...],
    view: SeriesView,
    spread: Spread,
) -> SeriesStep:
    incident = incident.model_copy(update={"recovered": incident.recovered + 1})
    reference = state.levels[-1]
    score = score_against(view, reference, recovered, spread)
    if incident.recovered <= view.policy.keep_firing_for_runs:
        state = state.model_copy(update={"incident": incident})
        return SeriesStep(state, incident_evidence(score, incident, view, reference, None))
    evidence = incident_evidence(score, incident, view, reference, SeriesEvent.RESOLVED)
    bad_runs = [seq for seq in incident.runs if seq not in recovered]
    is_sure = _is_no_chance(view, reference, bad_runs, spread)
    return SeriesStep(
        _close(state, recovered, is_sure=is_sure),
        evidence.model_copy(update={"status": SeriesStatus.OK}),
    )


def _is_no_chance(
    view: SeriesView, reference: Sequence[int], bad_runs: Sequence[int], spread: Spread
) -> bool:
    # A long incident no longer has the runs that paged, and all others may have recovered.
    if not bad_runs:
        return False
    return score_against(view, reference, bad_runs, spread).z > limit_of(STRICT_FALSE_PAGES)


def _close(state: SeriesState, returned: Sequence[int], *, is_sure: bool) -> SeriesState:
    """The state after an incident that recovered; `is_sure`: it was no chance."""
    *earlier, reference = state.levels or ((),)
    recoveries = _recent_recoveries(state)
    if not is_sure:
        recoveries.append(returned[-1])
    return SeriesState(
        levels=_bounded((*earlier, (*reference, *returned))), recoveries=tuple(recoveries)
    )


def _after_recoveries(policy: PagePolicy, state: SeriesState) -> PagePolicy:
    """The policy after incidents that recovered: each takes its part of the limit.

    Their runs are missing in the reference. If they were chance, what is left varies less than the
    series does, so that one page by chance would soon be followed by others. `recoveries` has none that were
    no chance.
    """
    parts = 1 + RECOVERY_PARTS * len(_recent_recoveries(state))
    return policy._replace(false_pages_per_month=policy.false_pages_per_month / parts)


def _recent_recoveries(state: SeriesState) -> list[int]:
    """The ends of incidents since the oldest run of the reference."""
    oldest = min((run for level in state.levels for run in level), default=0)
    return [run for run in state.recoveries if run > oldest]


def _lose_reference(incident: OpenIncident, view: SeriesView, run: int) -> SeriesStep:
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
    return state.model_copy(update={"levels": groups, "incident": incident})
